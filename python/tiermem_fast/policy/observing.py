"""The way of an observed turn: redaction, extraction, the write policy, and what it decided carried out.

Owns :class:`Observer`, which one handle has; calls the policies and, for reading and writing, the :class:`Store` that it
is given. It promises that nothing unredacted goes further than the redactor, and that the decision names every memory
written, every one superseded or forgotten, and why the rest is not kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..errors import InvalidInput, nearest, shown
from ..tiers import Source, Tier
from .access import OWNER
from .echoes import Briefed
from .privacy import Redacted, Redactor, redact
from .refused import Ledger
from .subjects import Subject, SubjectFinder, find_subjects, resolve
from .write import Kept, KnownMemory, Turn, Verdict, WritePolicy, WriteRules, judge_turn

if TYPE_CHECKING:
    from ..models import Decision

__all__ = ["Extractor", "Observer", "Store"]


Extractor = Callable[[Turn], Any]
"""Makes what is reusable of a turn: ``None`` leaves it to the rules, else a text, a dict with ``text`` and any of
``tier, importance, about, tags, labels, metadata``, or a list of these; an empty list keeps nothing."""


class Store(Protocol):
    """What an observer needs of a memory; :class:`tiermem_fast.TierMemory` is one, and says what each method does."""

    @property
    def add(self) -> Callable[..., Any]:
        """As :meth:`tiermem_fast.TierMemory.add`."""

    @property
    def update(self) -> Callable[..., Any]:
        """As :meth:`tiermem_fast.TierMemory.update`."""

    @property
    def supersede(self) -> Callable[..., Any]:
        """As :meth:`tiermem_fast.TierMemory.supersede`."""

    @property
    def forget(self) -> Callable[..., Any]:
        """As :meth:`tiermem_fast.TierMemory.forget`."""

    @property
    def search(self) -> Callable[..., Any]:
        """As :meth:`tiermem_fast.TierMemory.search`."""

    @property
    def list(self) -> Callable[..., Any]:
        """As :meth:`tiermem_fast.TierMemory.list`."""

    @property
    def sql(self) -> Callable[..., Any]:
        """As :meth:`tiermem_fast.TierMemory.sql`."""


_NEAR: Final = 12
_SESSIONS: Final = 1_024
_BEYOND_WORKING: Final = (Tier.EPISODIC, Tier.SEMANTIC, Tier.PROCEDURAL)


class Observer:
    """Observes turns for one handle of a store.

    Parameters
    ----------
    store
        Where memories are read and written.
    policy, extractor, redactor, subjects
        The rules; each default is the one of its room.
    rules
        The constants of the policy.
    briefings
        How many briefings are remembered to know their words again.
    privacy
        What becomes of private values: ``redact``, ``vault`` (kept in ``private``) or ``allow``.
    """

    def __init__(
        self,
        store: Store,
        *,
        policy: WritePolicy = judge_turn,
        extractor: Extractor | None = None,
        redactor: Redactor = redact,
        subjects: SubjectFinder = find_subjects,
        rules: WriteRules | None = None,
        briefings: int = 8,
        privacy: str = "redact",
    ) -> None:
        self._store = store
        self._policy = policy
        self._extractor = extractor
        self._redactor = redactor
        self._subjects = subjects
        self._rules = rules or WriteRules()
        self._privacy = privacy
        self._ledger = Ledger(store.sql)
        self._briefed = Briefed(briefings)
        self._spoken_of: OrderedDict[str | None, str] = OrderedDict()
        self._lock = threading.Lock()

    # What others ask of it.

    def briefed(self, texts: Sequence[str]) -> None:
        """Note what a briefing said."""
        self._briefed.note(texts)

    def erased(self, texts: Sequence[tuple[str, str | None]]) -> None:
        """Note that texts, each with whom it was about, were erased: this handle does not learn them again."""
        self._ledger.note_erased(texts)
        self._briefed.clear()

    def subjects(self, text: str) -> list[Subject]:
        """Whom a text is about, known or named in it."""
        self._ledger.catch_up()
        return [one for one in self._subjects(text, self._ledger.names) if one.name]

    def resolve(self, about: str | None) -> str | None:
        """The name that the store has for somebody."""
        if about is None:
            return None
        self._ledger.catch_up()
        return resolve(about, self._ledger.names) or about

    # The way of a turn.

    def observe(self, turn: Turn) -> Decision:
        """Decide what is kept of a turn, and keep it."""
        self._ledger.catch_up()
        redacted = Redacted(turn.text) if self._privacy == "allow" else self._redactor(turn.text)
        turn = replace(turn, text=redacted.text, about=self.resolve(turn.about))
        text, echoed = Briefed.without_lines(redacted.text)
        marked = Briefed.is_marked(redacted.text)
        turn = replace(turn, text=text)
        if not text.strip():
            return self._carry_out(turn, Verdict(reasons=(_echoed(echoed),)), redacted)
        view = _View(self._store, self._ledger, self._briefed, self._subjects, self._spoken_of, turn.now, marked)
        extracted, note = self._extracted(turn)
        if extracted is None:
            verdict = self._policy(turn, view, self._rules)
        else:
            verdict = self._of_extracted(turn, extracted, view)
        note = "; ".join(filter(None, (note, _echoed(echoed) if echoed else "")))
        if note:
            verdict = replace(verdict, reasons=(note, *verdict.reasons))
        return self._carry_out(turn, verdict, redacted)

    def _extracted(self, turn: Turn) -> tuple[list[dict[str, Any]] | None, str]:
        """What the extractor made of a turn; an extractor that fails leaves it to the rules and is named."""
        if self._extractor is None:
            return None, ""
        try:
            made = self._extractor(turn)
        except Exception as error:  # noqa: BLE001  # it is anybody's code, often a remote model
            return None, f"the extractor failed ({type(error).__name__}: {error}); the rules decided"
        if made is None:
            return None, "the extractor left it to the rules"
        given = [made] if isinstance(made, (str, Mapping)) else made
        if not isinstance(given, Sequence):
            raise InvalidInput.of(
                "extractor", f"answered {shown(made)}, which is neither a text, a dict, a list nor None"
            )
        return [_extract(one, place) for place, one in enumerate(given)], "the extractor said what is reusable"

    def _of_extracted(self, turn: Turn, extracted: Sequence[dict[str, Any]], view: _View) -> Verdict:
        """Each extracted text goes through the policy like a turn of its own; what the extractor said of it holds."""
        if not extracted:
            return Verdict(reasons=("the extractor found nothing reusable",))
        kept: list[Kept] = []
        forget: list[str] = []
        reasons: list[str] = []
        for one in extracted:
            text = one["text"] if self._privacy == "allow" else self._redactor(one["text"]).text
            about = self.resolve(one.get("about")) or turn.about
            verdict = self._policy(replace(turn, text=text, about=about), view, self._rules)
            said = {name: value for name, value in one.items() if name not in ("text", "about", "metadata")}
            for memory in verdict.kept:
                if "instruction-like" in memory.tags:
                    kept.append(memory)
                    continue
                own = {} if memory.repeats is not None else said
                metadata = {**memory.metadata, **one.get("metadata", {})}
                kept.append(replace(memory, **own, metadata=metadata))
            forget += verdict.forget
            reasons += verdict.reasons
        return Verdict(tuple(kept), tuple(forget), tuple(reasons))

    def _carry_out(self, turn: Turn, verdict: Verdict, redacted: Redacted) -> Decision:
        from ..models import Decision, KeptMemory

        if verdict.forget:
            self._store.forget(list(verdict.forget), now=turn.now)
        written: list[KeptMemory] = []
        for kept in verdict.kept:
            id, done = self._write(turn, kept, redacted)
            written.append(
                KeptMemory(
                    id=id,
                    text=kept.text,
                    tier=kept.tier,
                    importance=kept.importance,
                    about=kept.about,
                    tags=kept.tags,
                    labels=kept.labels,
                    trust=kept.trust,
                    action=done,
                    supersedes=kept.supersedes,
                    reasons=kept.reasons,
                )
            )
            if kept.about is not None:
                self._speak_of(turn.session, kept.about)
        if turn.about is not None:
            self._speak_of(turn.session, turn.about)
        first = max(written, key=lambda one: one.importance, default=None)
        reasons = [*(reason for one in written for reason in one.reasons), *verdict.reasons]
        if redacted.found:
            reasons.append(f"taken out before anything was stored: {', '.join(redacted.found)}")
        return Decision(
            stored=any(one.action != "known" for one in written),
            tier=None if first is None else first.tier,
            importance=None if first is None else first.importance,
            about=turn.about if first is None else first.about,
            labels=tuple(dict.fromkeys(label for one in written for label in one.labels)),
            redactions=redacted.found,
            reasons=tuple(dict.fromkeys(reasons)),
            ids=tuple(one.id for one in written),
            superseded=tuple(id for one in written for id in one.supersedes),
            forgotten=verdict.forget,
            kept=tuple(written),
        )

    def _write(self, turn: Turn, kept: Kept, redacted: Redacted) -> tuple[str, str]:
        """Write one memory: its id, and what was done."""
        private = {name: value for name, value in redacted.values.items() if f"[{name}]" in kept.text}
        fields: dict[str, Any] = {
            "tier": kept.tier.value,
            "importance": kept.importance,
            "session": turn.session,
            "about": kept.about,
            "source": turn.role.value,
            "trust": kept.trust,
            "tags": list(kept.tags),
            "labels": list(kept.labels),
            "metadata": dict(kept.metadata),
            "expires_at": kept.expires_at,
            "now": turn.now,
        }
        if private and self._privacy == "vault":
            fields["private"] = private
        if kept.repeats is not None:
            return self._strengthen(turn, kept, fields)
        if kept.supersedes:
            now = fields.pop("now")
            new = self._store.supersede(kept.supersedes[0], kept.text, now=now, **fields)
            if len(kept.supersedes) > 1:
                self._store.forget(list(kept.supersedes[1:]), now=turn.now)
            return str(new), "superseded"
        added = self._store.add(kept.text, **fields)
        return str(added), "reinforced" if added.reinforced else "added"

    def _strengthen(self, turn: Turn, kept: Kept, fields: Mapping[str, Any]) -> tuple[str, str]:
        same = kept.repeats
        if same is None:
            raise AssertionError("only what repeats something is made stronger")
        if turn.role is Source.ASSISTANT:
            return same.id, "known"
        # Told again in the place of the first one, which is what the engine counts.
        again = self._store.add(
            same.text,
            tier=same.tier.value,
            importance=kept.importance,
            session=same.session,
            about=same.about,
            source=same.source.value,
            now=turn.now,
        )
        changes: dict[str, Any] = {}
        if "candidate" in same.tags and "candidate" not in kept.tags:
            changes["tags"] = [tag for tag in same.tags if tag != "candidate"]
        if kept.importance > same.importance:
            changes["importance"] = kept.importance
        if changes:
            self._store.update(str(again), now=fields["now"], **changes)
        return str(again), "reinforced"

    def _speak_of(self, session: str | None, about: str) -> None:
        with self._lock:
            self._spoken_of[session] = about
            self._spoken_of.move_to_end(session)
            while len(self._spoken_of) > _SESSIONS:
                self._spoken_of.popitem(last=False)


def _echoed(lines: int) -> str:
    return f"not stored again, {lines} {'line' if lines == 1 else 'lines'} of a briefing"


class _View:
    """What the policy may ask, of one store at one time."""

    def __init__(
        self,
        store: Store,
        ledger: Ledger,
        briefed: Briefed,
        finder: SubjectFinder,
        spoken_of: Mapping[str | None, str],
        now: float,
        marked: bool,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._briefed = briefed
        self._finder = finder
        self._spoken_of = spoken_of
        self._now = now
        self._marked = marked

    def similar(self, text: str, about: str | None) -> list[KnownMemory]:
        hits = self._store.search(text, k=_NEAR, tiers=_BEYOND_WORKING, about=about, grant=OWNER, now=self._now)
        return [_known(row) for row in hits.rows() if row["about"] == about]

    def in_slot(self, slot: str, about: str | None) -> KnownMemory | None:
        where = {"slot": slot, "about": about}
        found = self._store.list(
            where=where, tiers=_BEYOND_WORKING, limit=1, newest_first=True, grant=OWNER, now=self._now
        )
        return _known(found[0].model_dump()) if found else None

    def refused(self, text: str, about: str | None) -> tuple[str, str] | None:
        found = self._ledger.refused(text, about)
        if found is None:
            return None
        how, row = found
        ids = self._store.sql(f"select lower(hex(id)) as id from memory where row = {int(row)}", limit=1)  # noqa: S608  # an int
        return how, _hyphened(ids[0]["id"]) if ids else ""

    def echoes(self, text: str, *, by_user: bool) -> str | None:
        # Beside the mark of a memory the words of a user are those of a briefing, too.
        return self._briefed.echo(text, by_user=by_user and not self._marked)

    def subjects(self, text: str) -> list[Subject]:
        return [one for one in self._finder(text, self._ledger.names) if one.name]

    def spoken_of(self, session: str | None) -> str | None:
        return self._spoken_of.get(session) if session is not None else None


def _known(row: Mapping[str, Any]) -> KnownMemory:
    return KnownMemory(
        id=row["id"],
        text=row["text"],
        tier=Tier(row["tier"]),
        about=row["about"],
        session=row["session"],
        source=Source(row["source"]),
        importance=row["importance"],
        tags=tuple(row["tags"] or ()),
        labels=tuple(row["labels"] or ()),
    )


def _hyphened(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_EXTRACTED: Final = ("text", "tier", "importance", "about", "tags", "labels", "metadata")


def _extract(one: Any, place: int) -> dict[str, Any]:
    """One extracted memory, checked as far as the store would not."""
    if isinstance(one, str):
        one = {"text": one}
    if not isinstance(one, Mapping):
        raise InvalidInput.of(f"extractor[{place}]", f"{shown(one)} is neither a text nor a dict")
    for name in one:
        if name not in _EXTRACTED:
            raise InvalidInput.of(f"extractor[{place}].{name}", f"unknown; {nearest(str(name), _EXTRACTED)}")
    if not isinstance(one.get("text"), str) or not one["text"].strip():
        raise InvalidInput.of(f"extractor[{place}].text", f"{shown(one.get('text'))} is not a text")
    found = dict(one)
    if "tier" in found:
        found["tier"] = Tier(found["tier"])
    for name in ("tags", "labels"):
        if name in found:
            found[name] = tuple(found[name])
    return found
