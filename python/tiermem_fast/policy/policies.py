"""The set of rules that one handle goes by.

Owns :class:`Policies`; calls the rooms of the rules for their defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, shown

if TYPE_CHECKING:
    from .access import TierAccess
    from .briefing import BriefingPolicy
    from .observing import Extractor, Observer, Store
    from .privacy import Redactor
    from .procedures import ProcedureSource
    from .subjects import SubjectFinder
    from .write import WritePolicy

__all__ = ["Policies", "with_extractor"]


@dataclass(frozen=True, slots=True)
class Policies:
    """The rules of one handle; ``None`` is the default of its room.

    Attributes
    ----------
    write
        What is kept of a turn (:mod:`.write`).
    extractor
        Makes what is reusable of a turn, as a language model does (:mod:`.observing`).
    redactor
        Takes private values out (:mod:`.privacy`).
    subjects
        Finds whom a text is about (:mod:`.subjects`).
    briefing
        What goes into a prompt (:mod:`.briefing`).
    procedures
        Gives the rules that hold for a question (:mod:`.procedures`); ``None`` reads those of the directory that the
        configuration names, if it names one.
    tiers
        Says which tiers a type of task may see (:mod:`.access`); ``None`` goes by the configuration.

    Examples
    --------
    >>> from tiermem_fast import TierMemory
    >>> from tiermem_fast.policy import Policies
    >>> from tiermem_fast.policy.privacy import Redacted
    >>> shouting = Policies(redactor=lambda text: Redacted(text.upper()))
    >>> TierMemory.open(policies=shouting).observe("I prefer tea").kept[0].text
    'I PREFER TEA'
    """

    write: WritePolicy | None = None
    extractor: Extractor | None = None
    redactor: Redactor | None = None
    subjects: SubjectFinder | None = None
    briefing: BriefingPolicy | None = None
    procedures: ProcedureSource | None = None
    tiers: TierAccess | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            rule = getattr(self, name)
            fits = hasattr(rule, "matching") if name == "procedures" else callable(rule)
            if rule is not None and not fits:
                needed = "has no method matching" if name == "procedures" else "cannot be called"
                raise InvalidInput.of(f"policies.{name}", f"{shown(rule)} {needed}")

    def observer(self, store: Store, settings: Any) -> Observer:
        """The observer of a handle, with these rules and the ``writing`` section of its configuration."""
        from .observing import Observer
        from .privacy import redact
        from .subjects import find_subjects
        from .write import WriteRules, judge_turn

        given = {} if settings is None else settings.model_dump()
        privacy, briefings = given.pop("private_values", "redact"), given.pop("remembered_briefings", 8)
        return Observer(
            store,
            policy=self.write or judge_turn,
            extractor=self.extractor,
            redactor=self.redactor or redact,
            subjects=self.subjects or find_subjects,
            rules=WriteRules(**given),
            briefings=briefings,
            privacy=privacy,
        )


def with_extractor(policies: Policies | None, extractor: Extractor | None) -> Policies | None:
    """The rules with this extractor in them."""
    if policies is not None and not isinstance(policies, Policies):
        raise InvalidInput.of("policies", f"{shown(policies)} is not a Policies")
    return policies if extractor is None else replace(policies or Policies(), extractor=extractor)
