"""What is kept of a turn: in which tier, how important, about whom, in the place of what, and why.

Owns the default :class:`WritePolicy`, :func:`judge_turn`, and the shapes it speaks in. Calls the reading of texts and
signals; it asks the store only through :class:`Known` and writes nothing. What is decided is carried out by
:mod:`.observing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..tiers import Source, Tier
from . import signals
from .sentences import claim_key, clauses, contained, overlap, sentences, units, words

if TYPE_CHECKING:
    from .subjects import Subject

__all__ = ["Kept", "Known", "KnownMemory", "Turn", "Verdict", "WritePolicy", "WriteRules", "judge_turn"]


@dataclass(frozen=True, slots=True)
class WriteRules:
    """The constants of the write policy; the fields are those of the ``writing`` section of the configuration.

    Attributes
    ----------
    assistant_trust, tool_trust, import_trust
        The trust of what comes from these; what user and system say is trusted in full.
    instructing_trust
        The trust of what reads like an instruction and comes from anybody but user and system.
    correction_overlap
        The share of words that a memory must have in common with a correction to be what is corrected.
    forget_overlap
        The share of words of a request to forget that a memory must have to be what is meant.
    same_overlap
        The share of words from which two texts say the same, unless their numbers differ.
    repeat_gain
        What a repetition in another session adds to the importance.
    max_memories, max_chars
        Most memories made of one turn, and the longest of them.
    """

    assistant_trust: float = 0.8
    tool_trust: float = 0.6
    import_trust: float = 0.5
    instructing_trust: float = 0.2
    correction_overlap: float = 0.25
    forget_overlap: float = 0.6
    same_overlap: float = 0.9
    repeat_gain: float = 0.05
    max_memories: int = 8
    max_chars: int = 2_000


@dataclass(frozen=True, slots=True)
class Turn:
    """What is observed: a text, after redaction, with who said it and where.

    Attributes
    ----------
    text, session, task
        As given.
    role
        Who said it.
    outcome
        What came of it, as ``success`` or ``failure``.
    about
        Whom it is about, as given or as found in it; ``None`` is nobody in particular.
    now
        Seconds since 1970 UTC.
    """

    text: str
    role: Source = Source.USER
    session: str | None = None
    task: str | None = None
    outcome: str | None = None
    about: str | None = None
    now: float = 0.0


@dataclass(frozen=True, slots=True)
class KnownMemory:
    """A living memory, as far as the write policy needs it."""

    id: str
    text: str
    tier: Tier
    about: str | None = None
    session: str | None = None
    source: Source = Source.USER
    importance: float = 0.5
    tags: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        # A reason is read by whoever made the turn; what is labelled is named by its id alone.
        return self.id if self.labels else _quoted(self.text)


class Known(Protocol):
    """What the policy may ask of the memory it decides for."""

    def similar(self, text: str, about: str | None) -> Sequence[KnownMemory]:
        """Living memories beyond working memory that share words or sense with a text, about exactly the same."""

    def in_slot(self, slot: str, about: str | None) -> KnownMemory | None:
        """The memory that holds the value of a single-valued property."""

    def refused(self, text: str, about: str | None) -> tuple[str, str] | None:
        """Whether the user took just this back: ``("forgotten" | "superseded" | "erased", id)``."""

    def echoes(self, text: str, *, by_user: bool) -> str | None:
        """Why a text is what a briefing said, ``None`` when it is not."""

    def subjects(self, text: str) -> list[Subject]:
        """Whom a text is about."""

    def spoken_of(self, session: str | None) -> str | None:
        """Whom the last turn of the session was about."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A memory to be written.

    Attributes
    ----------
    text, tier, importance, about, tags, labels, trust, metadata
        As in a memory.
    expires_at
        Seconds since 1970, or ``None``.
    supersedes
        Ids of the memories it takes the place of.
    repeats
        The memory that says the same already: it is made stronger instead of a second one written.
    reasons
        Why, in the order in which it was decided.
    """

    text: str
    tier: Tier
    importance: float
    about: str | None = None
    tags: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    trust: float = 1.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    expires_at: float | None = None
    supersedes: tuple[str, ...] = ()
    repeats: KnownMemory | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done with a turn: memories to keep, ids to forget, and why the rest is let go."""

    kept: tuple[Kept, ...] = ()
    forget: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


class WritePolicy(Protocol):
    """Decides what is kept of a turn. :func:`judge_turn` is the default; any callable of this form replaces it."""

    def __call__(self, turn: Turn, known: Known, rules: WriteRules = ...) -> Verdict:
        """Decide; see :func:`judge_turn`."""
        ...


INSTRUCTION: Final = "instruction"
"""The tag of what the user told the agent to do from now on."""
STANDING: Final = "standing"
"""The tag of an instruction on how to answer, which holds whatever the question is."""
CANDIDATE: Final = "candidate"
"""The tag of a tool's success that has not been repeated yet."""
INSTRUCTING: Final = "instruction-like"
"""The tag of a text that reads like an instruction but comes from nobody who may give one."""

_DEFAULT_RULES = WriteRules()
_LASTING_TIERS = (Tier.SEMANTIC, Tier.PROCEDURAL)


@dataclass(frozen=True, slots=True)
class _Leaning:
    """What one unit of a turn tends to, before the store is asked."""

    tier: Tier | None
    importance: float
    reason: str
    tags: tuple[str, ...] = ()


def judge_turn(turn: Turn, known: Known, rules: WriteRules = _DEFAULT_RULES) -> Verdict:
    """Decide what is kept of a turn, by rules and without a model.

    The text is cut into units that can stand alone. Each lasting one (an instruction, a preference, a fact, a correction)
    becomes a memory of its own in the semantic tier; conclusions and statements are kept together as an episode, requests
    and questions in working memory; small talk is dropped. In this order:

    1. What the user forgot or corrected is not learned again from the same text, whatever else holds.
    2. What a briefing said is not stored again.
    3. What tools, imports and the assistant say cannot instruct: it is kept with little trust, and never as a rule.
    4. A correction takes the place of what it corrects, among memories about the same.
    5. What is known already is made stronger.

    Parameters
    ----------
    turn
        What was said; ``about`` holds for all of it when given.
    known
        What can be asked of the store.
    rules
        The constants.

    Returns
    -------
    Verdict
        With the reason of everything that is kept and of everything that is not.
    """
    if turn.role is Source.TOOL and turn.outcome is not None:
        return _tool_use(turn, known, rules)
    kept: list[Kept] = []
    rest: dict[Tier, list[tuple[str, _Leaning, str | None]]] = {}
    forget: list[str] = []
    reasons: list[str] = []
    for unit in _pieces(turn):
        about = _about(unit, turn, known)
        refusal = _refusal(unit, about, turn, known)
        if refusal is not None:
            reasons.append(refusal)
            continue
        shown = signals.read(unit)
        if turn.role is Source.USER and shown.forget and not shown.question:
            found = _meant(unit, about, known, rules)
            forget += found
            reasons.append(f"a request to forget: {_quoted(unit)}" + ("" if found else ", but nothing known is meant"))
            continue
        leaning = _leaning(unit, shown, turn)
        if leaning.tier is None:
            reasons.append(f"{leaning.reason}: {_quoted(unit)}")
        elif leaning.tier in _LASTING_TIERS:
            kept.append(_lasting(unit, shown, leaning, about, turn, known, rules))
        else:
            rest.setdefault(leaning.tier, []).append((unit, leaning, about))
    for tier, parts in rest.items():
        kept += _together(tier, parts, turn, known, rules)
    if len(kept) > rules.max_memories:
        reasons.append(
            f"{len(kept) - rules.max_memories} less important units were let go: {rules.max_memories} at most"
        )
        best = sorted(range(len(kept)), key=lambda place: (-kept[place].importance, place))[: rules.max_memories]
        kept = [kept[place] for place in sorted(best)]
    return Verdict(tuple(kept), tuple(dict.fromkeys(forget)), tuple(reasons))


def _pieces(turn: Turn) -> list[str]:
    """The units of a turn; one in which a person says several lasting things of themself is cut between them."""
    found: list[str] = []
    for unit in units(turn.text):
        cut = clauses(unit) if turn.role is Source.USER else [unit]
        shown = [signals.read(piece) for piece in cut]
        alone = len(cut) > 1 and all(one.lasting or one.slot or one.standing or one.remember for one in shown)
        alone = alone and not any(one.correction or one.question for one in shown)
        found += cut if alone else [unit]
    return found


# Whom it is about.


_PRONOUNS = ("he", "she", "him", "her", "his", "they", "them", "their")


def _about(unit: str, turn: Turn, known: Known) -> str | None:
    """Whom a unit is about: as given, as named in it, or whom its pronoun must mean."""
    if turn.about is not None:
        return turn.about
    named = known.subjects(unit)
    if named:
        return named[0].name
    lowered = unit.casefold()
    leans = any(sign in unit for sign in "他她") or any(
        word in _PRONOUNS for word in lowered.replace("'", " ").replace(".", " ").replace(",", " ").split()
    )
    if not leans:
        return None
    in_turn = known.subjects(turn.text)
    return in_turn[0].name if in_turn else known.spoken_of(turn.session)


def _known_as(unit: str, about: str | None, known: Known) -> dict[str, Any]:
    """What else somebody was called, so that they are found by it later."""
    return next(
        ({"known_as": one.known_as} for one in known.subjects(unit) if one.name == about and one.known_as is not None),
        {},
    )


# What must not be learned.


def _refusal(unit: str, about: str | None, turn: Turn, known: Known) -> str | None:
    echo = known.echoes(unit, by_user=turn.role in (Source.USER, Source.SYSTEM))
    if echo is not None:
        return f"not stored again, {echo}: {_quoted(unit)}"
    gone = known.refused(unit, about)
    if gone is None:
        return None
    how, id = gone
    if how == "superseded":
        if turn.role is Source.USER and signals.read(unit).correction:
            return None
        return f"was corrected and is not learned again from the same text; add() or a new correction brings it back ({id}): {_quoted(unit)}"
    if how == "erased":
        return f"was erased and is not learned again from the same text; add() brings it back: {_quoted(unit)}"
    return f"was forgotten and is not learned again from the same text; restore({id!r}) or add() brings it back: {_quoted(unit)}"


def _meant(unit: str, about: str | None, known: Known, rules: WriteRules) -> list[str]:
    """The memories that a request to forget means: those that have most of its words."""
    asked = _without_request(unit)
    if not words(asked):
        return []
    return [
        one.id
        for one in known.similar(asked, about)
        if contained(asked, f"{one.text} {one.about or ''}") >= rules.forget_overlap
    ]


_REQUEST_WORDS = (
    "please", "forget", "delete", "erase", "remove", "clear", "wipe", "memory", "memories", "remember", "know", "stored", "everything",
    "忘掉", "忘了", "忘记", "删除", "删掉", "清除", "抹掉", "记忆", "记住", "记录", "别再记", "不要再记", "请", "帮我", "关于", "信息", "不要",
)  # fmt: skip


def _without_request(unit: str) -> str:
    for word in _REQUEST_WORDS:
        place = unit.casefold().find(word)
        while place >= 0:
            unit = f"{unit[:place]} {unit[place + len(word) :]}"
            place = unit.casefold().find(word)
    return unit


# What a unit tends to.


def _leaning(unit: str, shown: signals.Signals, turn: Turn) -> _Leaning:
    if shown.small_talk:
        return _Leaning(None, 0.0, "small talk")
    if not words(unit) and not shown.slot:
        return _Leaning(None, 0.0, "says nothing that could be used again")
    if turn.role not in (Source.USER, Source.SYSTEM):
        return _leaning_of_outputs(shown, turn)
    if shown.question and not shown.remember:
        return _Leaning(Tier.WORKING, 0.3, "a question at hand")
    return _asked_for(shown, turn) or _lasts(shown) or _passes(shown)


def _asked_for(shown: signals.Signals, turn: Turn) -> _Leaning | None:
    """What somebody who may do so asks to be kept."""
    if shown.standing and not (shown.transient and not shown.remember):
        tags = (INSTRUCTION, STANDING) if shown.how_to_answer and turn.task is None else (INSTRUCTION,)
        return _Leaning(Tier.SEMANTIC, 0.9, "an explicit instruction for the future", tags)
    if shown.remember and shown.transient and not shown.lasting:
        return _Leaning(Tier.EPISODIC, 0.8, "asked to be remembered, of the day")
    if shown.remember:
        return _Leaning(Tier.SEMANTIC, 0.85, "asked to be remembered")
    return _Leaning(Tier.PROCEDURAL, 0.8, "said by the operator") if turn.role is Source.SYSTEM else None


def _lasts(shown: signals.Signals) -> _Leaning | None:
    """What holds beyond the day."""
    stated = shown.lasting or shown.slot is not None
    passing = shown.transient and not (shown.correction and stated)
    if stated and not passing and not (shown.request and not shown.slot):
        return _Leaning(Tier.SEMANTIC, 0.8 if shown.slot else 0.75, "a lasting preference or fact")
    if shown.correction and not shown.transient and not shown.request:
        return _Leaning(Tier.SEMANTIC, 0.75, "a correction")
    return None


def _passes(shown: signals.Signals) -> _Leaning:
    """What belongs to the task or the day."""
    if shown.conclusion:
        return _Leaning(Tier.EPISODIC, 0.65, "a conclusion of the task")
    if shown.request:
        return _Leaning(Tier.WORKING, 0.35, "a request at hand")
    return _Leaning(Tier.EPISODIC, 0.3 if shown.transient else 0.4, "of the day" if shown.transient else "a statement")


def _leaning_of_outputs(shown: signals.Signals, turn: Turn) -> _Leaning:
    """What models, tools and imports say: never an instruction, and no more than an episode."""
    if shown.instructs and turn.role is not Source.ASSISTANT:
        reason = f"reads like an instruction, which {turn.role.value} cannot give; kept as data of little trust"
        return _Leaning(Tier.WORKING, 0.1, reason, (INSTRUCTING,))
    if shown.conclusion and not shown.question:
        importance = 0.6 if turn.role is Source.ASSISTANT else 0.5
        return _Leaning(Tier.EPISODIC, importance, f"a conclusion of the {turn.role.value}")
    if turn.role is Source.IMPORT:
        return _Leaning(Tier.EPISODIC, 0.4, "imported")
    if shown.question:
        return _Leaning(Tier.WORKING, 0.15, f"a question of the {turn.role.value}")
    return _Leaning(Tier.WORKING, 0.25, f"an output of the {turn.role.value}")


def _trust(turn: Turn, rules: WriteRules, tags: Sequence[str]) -> float:
    if INSTRUCTING in tags:
        return rules.instructing_trust
    by_role = {
        Source.ASSISTANT: rules.assistant_trust,
        Source.TOOL: rules.tool_trust,
        Source.IMPORT: rules.import_trust,
    }
    return by_role.get(turn.role, 1.0)


# What it becomes.


def _lasting(
    unit: str,
    shown: signals.Signals,
    leaning: _Leaning,
    about: str | None,
    turn: Turn,
    known: Known,
    rules: WriteRules,
) -> Kept:
    metadata: dict[str, Any] = _known_as(unit, about, known)
    if turn.task is not None:
        metadata["task"] = turn.task
    if shown.slot is not None:
        metadata["slot"] = shown.slot.name
    text, reasons = _cut(unit, rules)
    kept = Kept(
        text,
        leaning.tier or Tier.SEMANTIC,
        leaning.importance,
        about,
        leaning.tags,
        trust=_trust(turn, rules, leaning.tags),
        metadata=metadata,
        reasons=(leaning.reason, *reasons),
    )
    near = known.similar(unit, about)
    same = next((one for one in near if _says_the_same(unit, one, rules)), None)
    if same is not None and same.tier in _LASTING_TIERS:
        return _stronger(kept, same, turn, rules)
    old = _corrected(unit, shown, about, near, known, rules)
    if not old:
        return kept if not shown.correction else _adding(kept, "a correction, but nothing known is corrected")
    what = "another value of the same property" if shown.slot and not shown.correction else "a correction"
    return replace(
        _adding(kept, f"{what}: takes the place of {', '.join(map(str, old))}"),
        importance=max([round(min(1.0, kept.importance + 0.05), 4), *(one.importance for one in old)]),
        labels=tuple(dict.fromkeys(label for one in old for label in one.labels)),
        supersedes=tuple(one.id for one in old),
    )


def _corrected(
    unit: str,
    shown: signals.Signals,
    about: str | None,
    near: Sequence[KnownMemory],
    known: Known,
    rules: WriteRules,
) -> list[KnownMemory]:
    """What a unit corrects: the holder of the same property, or what it has most in common with."""
    if shown.slot is not None:
        holder = known.in_slot(shown.slot.name, about)
        if holder is not None:
            return [holder]
    if not shown.correction:
        return []
    old_value = signals.old_value_of(unit)
    scored = []
    for one in near:
        if one.tier is Tier.WORKING:
            continue
        common = max(overlap(unit, one.text), contained(one.text, unit) * 0.75)
        if old_value and contained(old_value, one.text) == 1.0:
            common = max(common, 2 * rules.correction_overlap)
        scored.append((common, one))
    best = max((common for common, _ in scored), default=0.0)
    if best < rules.correction_overlap:
        return []
    return [one for common, one in scored if common == best][:1]


def _says_the_same(unit: str, one: KnownMemory, rules: WriteRules) -> bool:
    if claim_key(unit) == claim_key(one.text):
        return True
    if overlap(unit, one.text) < rules.same_overlap or len(words(unit)) < 3:
        return False
    numbers = [{word for word in words(text) if any(sign.isdigit() for sign in word)} for text in (unit, one.text)]
    return numbers[0] == numbers[1] and signals.negations(unit) == signals.negations(one.text)


def _stronger(kept: Kept, same: KnownMemory, turn: Turn, rules: WriteRules) -> Kept:
    """What was said before: the memory of it is told again, and matters more when that was in another session."""
    if turn.role not in (Source.USER, Source.SYSTEM):
        return replace(kept, repeats=same, importance=same.importance, reasons=("known already", *kept.reasons))
    elsewhere = same.session != turn.session
    gain = rules.repeat_gain if elsewhere else 0.0
    importance = min(1.0, max(same.importance, kept.importance) + gain)
    where = "in another session" if elsewhere else "in the same session"
    reasons = (f"said before {where}: {same} is made stronger", *kept.reasons)
    return replace(kept, text=same.text, tier=same.tier, repeats=same, importance=round(importance, 4), reasons=reasons)


def _together(
    tier: Tier, parts: Sequence[tuple[str, _Leaning, str | None]], turn: Turn, known: Known, rules: WriteRules
) -> list[Kept]:
    """One memory for all units of a turn that are about the same and nothing lasting."""
    groups: dict[tuple[str | None, tuple[str, ...]], list[tuple[str, _Leaning]]] = {}
    for unit, leaning, about in parts:
        groups.setdefault((about, leaning.tags), []).append((unit, leaning))
    found = []
    for (about, tags), group in groups.items():
        joint = "" if signals.mostly_han(turn.text) else " "
        text, reasons = _cut(joint.join(unit for unit, _ in group), rules)
        metadata: dict[str, Any] = {} if turn.task is None else {"task": turn.task}
        metadata |= _known_as(text, about, known)
        why = dict.fromkeys(leaning.reason for _, leaning in group)
        importance = max(leaning.importance for _, leaning in group)
        trust = _trust(turn, rules, tags)
        found.append(
            Kept(text, tier, importance, about, tags, trust=trust, metadata=metadata, reasons=(*why, *reasons))
        )
    return found


def _tool_use(turn: Turn, known: Known, rules: WriteRules) -> Verdict:
    """A tool was used and something came of it: what worked may work again, what failed is worth an episode."""
    about = turn.about
    refusal = _refusal(turn.text, about, turn, known)
    if refusal is not None:
        return Verdict(reasons=(refusal,))
    text, reasons = _cut(turn.text, rules)
    metadata: dict[str, Any] = {"outcome": turn.outcome}
    if turn.task is not None:
        metadata["task"] = turn.task
    shown = signals.read(turn.text)
    if shown.instructs:
        why = "reads like an instruction, which tool cannot give; kept as data of little trust"
        kept = Kept(text, Tier.WORKING, 0.1, about, (INSTRUCTING,), trust=rules.instructing_trust, metadata=metadata)
        return Verdict((replace(kept, reasons=(why, *reasons)),))
    if turn.outcome != "success":
        why = f"a tool was used with the outcome {turn.outcome}"
        return Verdict((Kept(text, Tier.EPISODIC, 0.5, about, trust=rules.tool_trust, metadata=metadata, reasons=(why, *reasons)),))  # fmt: skip
    kept = Kept(
        text,
        Tier.PROCEDURAL,
        0.6,
        about,
        (CANDIDATE,),
        trust=rules.tool_trust,
        metadata=metadata,
        reasons=("a successful use of a tool: a candidate for a procedure", *reasons),
    )
    same = next((one for one in known.similar(text, about) if claim_key(one.text) == claim_key(text)), None)
    if same is None or same.tier is not Tier.PROCEDURAL:
        return Verdict((kept,))
    importance = round(min(1.0, same.importance + 2 * rules.repeat_gain), 4)
    why = f"worked before: {same} is a procedure now"
    return Verdict(
        (replace(kept, text=same.text, repeats=same, importance=importance, tags=(), reasons=(why, *reasons)),)
    )


def _cut(text: str, rules: WriteRules) -> tuple[str, tuple[str, ...]]:
    """A text within the longest that is kept, ending with a sentence where it can."""
    if len(text) <= rules.max_chars:
        return text, ()
    found: list[str] = []
    length = 0
    for sentence in sentences(text):
        if found and length + len(sentence) > rules.max_chars:
            break
        found.append(sentence)
        length += len(sentence) + 1
    kept = text[: min(length, rules.max_chars)].rstrip()
    return kept, (f"cut to its first {len(kept)} of {len(text)} characters",)


def _adding(kept: Kept, reason: str) -> Kept:
    return replace(kept, reasons=(*kept.reasons, reason))


def _quoted(text: str) -> str:
    one_line = " ".join(text.split())
    return f"“{one_line if len(one_line) <= 40 else one_line[:39] + '…'}”"
