"""What goes into the next prompt: which memories, in which order, written how, within how many tokens.

Owns the default :class:`BriefingPolicy`, :func:`draft_briefing`. Calls :mod:`.page`, :mod:`.writing`, the reading of texts
and the words below: no store, no clock, no model. It promises that the draft never costs more than the budget, counted on the final text, that every
candidate is either in it or named with the reason, and that what tools and imports say is fenced as data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from ..errors import InvalidInput, nearest, shown
from ..tiers import DropReason, Source, Tier
from ..times import from_seconds
from . import writing
from .page import FORMATS, ORDER, Format, Line, Page
from .sentences import folded
from .sentences import words as telling_words
from .signals import INSTRUCTS
from .tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from ..models import Briefing, MemoryItem
    from .tokens import TokenCounter

__all__ = [
    "BriefingPolicy",
    "BriefingRules",
    "Candidate",
    "Draft",
    "DraftItem",
    "DroppedCandidate",
    "draft_briefing",
]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that might go into a prompt, with what the decision needs and no more.

    Attributes
    ----------
    id, text, tier, source, trust, about, session, importance, tags
        As in a memory.
    created_at, expires_at
        Seconds since 1970 UTC.
    superseded_by
        Id of the memory that took its place.
    denied
        A label that the reader holds no grant for.
    score, relevance, strength
        As in a hit. ``relevance`` is ``None`` when it was not searched for but stands in the window, in working memory,
        or was triggered: then there is no floor for it.
    why
        Why it was proposed, for the reader of the result.
    """

    id: str
    text: str
    tier: Tier
    source: Source = Source.USER
    trust: float = 1.0
    about: str | None = None
    session: str | None = None
    created_at: float = 0.0
    expires_at: float | None = None
    superseded_by: str | None = None
    denied: str | None = None
    importance: float = 0.5
    score: float | None = None
    relevance: float | None = None
    strength: float | None = None
    tags: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class BriefingRules:
    """How tokens are spent; the fields are those of the ``briefing`` section of the configuration.

    Attributes
    ----------
    procedural_share, working_share, episodic_share, semantic_share
        What each tier may spend before the others had their turn; what one leaves, the others get.
    episodic_window
        The newest episodes that are considered, those of the session at hand before all others.
    min_relevance
        The floor; ``None`` is none.
    min_share_of_best
        What has less than this share of the best relevance found is left out: beside one good answer the many faint ones
        are noise.
    min_trust
        Below this trust a text is fenced as data.
    language
        Of headings and origins.
    format
        How it is written: ``markdown``, ``xml``, or ``messages``, of which what may be trusted is one and data another.
    diversity
        What saying something else counts for against answering well when facts are chosen (maximal marginal relevance):
        0 goes by score alone, 1 by difference alone.
    source_share
        The most of the budget that what tools say, and what imports say, may take.
    standing
        The most standing instructions that go in without being asked for.
    """

    procedural_share: float = 0.2
    working_share: float = 0.25
    episodic_share: float = 0.25
    semantic_share: float = 0.3
    episodic_window: int = 20
    min_relevance: float | None = None
    min_share_of_best: float = 1 / 3
    min_trust: float = 0.5
    language: Literal["auto", "en", "zh"] = "auto"
    format: Format = "markdown"
    diversity: float = 0.3
    source_share: float = 0.5
    standing: int = 12


@dataclass(frozen=True, slots=True)
class DraftItem:
    """A memory in the draft: the candidate, the mark behind its line, its origin as written, and its tokens."""

    candidate: Candidate
    citation: str
    origin: str
    tokens: int

    @property
    def id(self) -> str:
        """Id of the memory."""
        return self.candidate.id


@dataclass(frozen=True, slots=True)
class DroppedCandidate:
    """A candidate left out: its id, why, the numbers behind that, and how its text begins unless it is private."""

    id: str
    reason: DropReason
    detail: str
    preview: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """The result: the text, what is in it, what is not, what it costs, and the messages when these were asked for."""

    text: str
    items: tuple[DraftItem, ...]
    dropped: tuple[DroppedCandidate, ...]
    tokens: int
    budget: int
    messages: tuple[dict[str, str], ...] = ()

    def as_briefing(self, memories: Mapping[str, MemoryItem]) -> Briefing:
        """The result as it is handed out, with the whole memories in it.

        Parameters
        ----------
        memories
            Id to memory, at least of those in :attr:`items`.
        """
        from ..models import Briefing, BriefingItem, Dropped, MemoryItem

        items = tuple(
            BriefingItem.model_construct(
                **{name: getattr(memories[item.id], name) for name in MemoryItem.model_fields},
                citation=item.citation,
                origin=item.origin,
                why=item.candidate.why,
                score=item.candidate.score,
                relevance=item.candidate.relevance,
                strength=item.candidate.strength,
            )
            for item in self.items
        )
        dropped = tuple(
            Dropped.model_construct(id=one.id, reason=one.reason, detail=one.detail, preview=one.preview)
            for one in self.dropped
        )
        return Briefing.model_construct(
            text=self.text,
            items=items,
            dropped=dropped,
            tokens=self.tokens,
            budget=self.budget,
            messages=self.messages,
        )


class BriefingPolicy(Protocol):
    """Decides what goes into a prompt. :func:`draft_briefing` is the default; any callable of this form replaces it."""

    def __call__(
        self,
        candidates: Iterable[Candidate],
        *,
        query: str,
        now: float,
        budget: int,
        task: str | None = None,
        session: str | None = None,
        about: str | Collection[str] | None = None,
        count: TokenCounter = estimate_tokens,
        rules: BriefingRules = ...,
    ) -> Draft:
        """Draft the briefing; see :func:`draft_briefing`."""
        ...


_DEFAULT_RULES = BriefingRules()


def draft_briefing(
    candidates: Iterable[Candidate],
    *,
    query: str,
    now: float,
    budget: int,
    task: str | None = None,
    session: str | None = None,
    about: str | Collection[str] | None = None,
    count: TokenCounter = estimate_tokens,
    rules: BriefingRules = _DEFAULT_RULES,
) -> Draft:
    """Spend a token budget on memories.

    Each tier first spends its share, in the order procedural, working, episodic, semantic; then what is left goes to
    what did not fit, in the same order. Procedural and semantic memories go by score, working and episodic ones newest
    first; episodes of other sessions that answer the question follow by score. Among facts, what says something else
    goes before what says the same again. A memory goes in whole or not at all.

    Parameters
    ----------
    candidates
        What was found, of all tiers, in any order.
    query
        The question; it decides the language of the headings.
    now
        Seconds since 1970 UTC.
    budget
        The most tokens that the text may cost.
    task
        The type of task, which decides the language where the question has no words.
    session
        The session at hand: its episodes need no relevance.
    about
        Whom or what the prompt concerns, one or several. What is known of somebody else stays out; with ``None`` all are
        let in, and each line says whom it concerns.
    count
        Tells the tokens of a text.
    rules
        Shares, window and floor.

    Raises
    ------
    InvalidInput
        If the budget is no number of tokens, or a rule or the counter's answer makes no sense.

    Examples
    --------
    >>> found = [
    ...     Candidate("018bcfe5-6872-7007-bfff-00005c9e01aa", "Likes tea", Tier.SEMANTIC, relevance=0.8, score=0.7),
    ...     Candidate("018bcfe5-6872-7007-bfff-00005c9e01ab", "Has a dog", Tier.SEMANTIC, relevance=0.1, score=0.1),
    ... ]
    >>> rules = BriefingRules(min_relevance=0.3)
    >>> draft = draft_briefing(found, query="What to drink?", now=0.0, budget=60, rules=rules)
    >>> print(draft.text)
    ## Known facts
    - Likes tea [m:5c9e01aa] (user, 1 Jan 1970)
    >>> draft.dropped[0].reason.value, draft.dropped[0].detail
    ('below_threshold', 'relevance 0.10 is under 0.30')
    """
    _check(budget, rules)
    ordered = _in_order(candidates, session)
    words = writing.words_of(rules.language, [query, task or "", *(one.text for one in ordered)])
    citations = writing.citations([one.id for one in ordered])
    dropped: dict[int, DroppedCandidate] = {}

    def drop(place: int, reason: DropReason, detail: str) -> None:
        one = ordered[place]
        preview = "" if reason is DropReason.PRIVATE or one.denied else writing.one_line(one.text, 60)
        dropped[place] = DroppedCandidate(one.id, reason, detail, preview)

    _sift(ordered, drop, citations=citations, session=session, about=about, now=now, rules=rules)
    page = Page(words, count, budget, rules.format, int(budget * rules.source_share))
    fresh = [place for place in range(len(ordered)) if place not in dropped]
    waiting = [
        page.price(
            place,
            ordered[place].tier,
            _written(ordered[place], citations[place], words, rules),
            ordered[place].source,
            data=_is_data(ordered[place], rules),
        )
        for place in _diversified(ordered, fresh, rules.diversity)
    ]
    shares = {tier: int(budget * getattr(rules, f"{tier.value}_share")) for tier in ORDER}
    for line in [line for line in waiting if not page.take(line, shares[line.tier])]:
        page.take(line, budget)
    text, tokens = page.settle()
    placed = {line.place: line.tokens for line in page.lines}
    for line in waiting:
        if line.place not in placed:
            drop(line.place, DropReason.OVER_BUDGET, _too_dear(page, line))
    items = tuple(
        DraftItem(ordered[place], citations[place], _origin(ordered[place], words, rules), placed[place])
        for place in sorted(placed)
    )
    messages = page.messages() if rules.format == "messages" else ()
    return Draft(text, items, tuple(dropped[place] for place in sorted(dropped)), tokens, budget, messages)


def _too_dear(page: Page, line: Line) -> str:
    if page.over_source(line):
        return f"{line.source.value} may spend {page.source_budget} tokens in all"
    return f"needs {page.need(line)} tokens, {page.left()} are left"


def _check(budget: int, rules: BriefingRules) -> None:
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 0:
        raise InvalidInput.of("budget", f"{shown(budget)} is not a number of tokens from 0")
    if rules.language not in ("auto", *writing.LANGUAGES):
        raise InvalidInput.of(
            "language", f"{shown(rules.language)} is unknown; {nearest('', ['auto', *writing.LANGUAGES])}"
        )
    if rules.format not in FORMATS:
        raise InvalidInput.of("format", f"{shown(rules.format)} is unknown; {nearest(str(rules.format), FORMATS)}")
    for name in (*(f"{tier.value}_share" for tier in ORDER), "source_share", "diversity"):
        share = getattr(rules, name)
        if not 0.0 <= share <= 1.0:
            raise InvalidInput.of(name, f"{shown(share)} is not between 0 and 1")


# Which candidates are considered, and in which order.


def _in_order(candidates: Iterable[Candidate], session: str | None) -> list[Candidate]:
    """The candidates as they stand in line for tokens; the id settles what is equal, so that a run can be repeated."""

    def key(one: Candidate) -> tuple[int, float, float, float, str]:
        at_hand = one.tier in (Tier.WORKING, Tier.EPISODIC) and (one.relevance is None or one.session == session)
        by_time = (0.0 if one.session == session else 0.5, -one.created_at, -one.importance)
        by_score = (1.0, -(one.score or 0.0), -one.created_at)
        return (ORDER.index(one.tier), *(by_time if at_hand else by_score), one.id)

    return sorted(candidates, key=key)


def _sift(
    ordered: Sequence[Candidate],
    drop: Callable[[int, DropReason, str], None],
    *,
    citations: Sequence[str],
    session: str | None,
    about: str | Collection[str] | None,
    now: float,
    rules: BriefingRules,
) -> None:
    """Drops everything that no number of tokens would let in, each for the first reason that holds."""
    seen: dict[tuple[str, str], int] = {}
    ids: set[str] = set()
    episodes = 0
    meant = None if about is None else {folded(one) for one in ([about] if isinstance(about, str) else about)}
    refusals = [_refusal(one, session=session, meant=meant, now=now, rules=rules) for one in ordered]
    best = max((one.relevance or 0.0 for one, no in zip(ordered, refusals, strict=True) if no is None), default=0.0)
    least = best * rules.min_share_of_best
    for place, (one, refusal) in enumerate(zip(ordered, refusals, strict=True)):
        if refusal is not None:
            drop(place, *refusal)
            continue
        # An instruction holds beside any better answer, if it has to do with the question at all.
        if one.relevance is not None and one.relevance < least and "instruction" not in one.tags:
            detail = f"relevance {one.relevance:.2f} is under {rules.min_share_of_best:.2f} of the best, {best:.2f}"
            drop(place, DropReason.BELOW_THRESHOLD, detail)
            continue
        said = (_END_OF_SENTENCE.sub("", folded(one.text)), folded(one.about or ""))
        if one.id in ids:
            drop(place, DropReason.DUPLICATE, "the same memory was proposed twice")
        elif said in seen:
            drop(place, DropReason.DUPLICATE, f"says the same as {citations[seen[said]]}")
        elif one.tier is Tier.EPISODIC and one.relevance is None and episodes >= rules.episodic_window:
            drop(place, DropReason.OVER_BUDGET, f"the window holds the newest {rules.episodic_window} episodes")
        else:
            seen[said] = place
            ids.add(one.id)
            episodes += one.tier is Tier.EPISODIC


def _refusal(
    one: Candidate, *, session: str | None, meant: set[str] | None, now: float, rules: BriefingRules
) -> tuple[DropReason, str] | None:
    if one.denied is not None:
        return DropReason.PRIVATE, f"a grant for the label {writing.one_line(one.denied, 40)!r} is needed"
    if one.superseded_by is not None:
        return DropReason.SUPERSEDED, f"by {one.superseded_by}"
    if one.expires_at is not None and one.expires_at <= now:
        return DropReason.EXPIRED, f"at {from_seconds(one.expires_at):%Y-%m-%d %H:%M} UTC"
    if meant is not None and one.about is not None and folded(one.about) not in meant:
        return DropReason.OTHER_ABOUT, f"concerns {writing.one_line(one.about, 40)!r}"
    in_session = session is not None and one.session == session
    at_hand = one.tier is Tier.WORKING or (one.tier is Tier.EPISODIC and in_session)
    floor = rules.min_relevance
    if floor is not None and one.relevance is not None and not at_hand and one.relevance < floor:
        return DropReason.BELOW_THRESHOLD, f"relevance {one.relevance:.2f} is under {floor:.2f}"
    return None


_END_OF_SENTENCE = re.compile("[ .!?。]+$")


_MOST_DIVERSE = 24


def _diversified(ordered: Sequence[Candidate], places: Sequence[int], diversity: float) -> list[int]:
    """The places in the order in which they may spend: facts by maximal marginal relevance, the rest as they stand.

    ``(1 - d) * score / best - d * overlap`` with what was chosen before (Carbonell and Goldstein 1998); the overlap is that
    of the words. The first of them is always the best one.
    """
    facts = [place for place in places if ordered[place].tier is Tier.SEMANTIC]
    if diversity == 0.0 or len(facts) < 3:
        return list(places)
    best = max(ordered[place].score or 0.0 for place in facts) or 1.0
    # What was not searched for, as a standing instruction, is as good as the best.
    gain = np.array([1.0 if (score := ordered[place].score) is None else score / best for place in facts])
    common = _overlaps([telling_words(ordered[place].text) for place in facts])
    nearest_chosen = np.zeros(len(facts))
    worth = (1.0 - diversity) * gain
    order: list[int] = []
    for _ in range(min(len(facts), _MOST_DIVERSE)):
        place = int(np.argmax(worth - diversity * nearest_chosen))
        order.append(place)
        worth[place] = -np.inf
        np.maximum(nearest_chosen, common[place], out=nearest_chosen)
    chosen = [facts[place] for place in order]
    left = [place for number, place in enumerate(facts) if number not in set(order)]
    return [place for place in places if ordered[place].tier is not Tier.SEMANTIC] + chosen + left


def _overlaps(bags: Sequence[frozenset[str]]) -> npt.NDArray[np.float64]:
    """The Jaccard similarity of every two sets, (n, n)."""
    numbers: dict[str, int] = {}
    places = [(row, numbers.setdefault(word, len(numbers))) for row, bag in enumerate(bags) for word in bag]
    has = np.zeros((len(bags), max(len(numbers), 1)))
    if places:
        has[tuple(np.array(places).T)] = 1.0
    common = has @ has.T
    sizes = has.sum(axis=1)
    union = sizes[:, np.newaxis] + sizes - common
    return np.asarray(np.divide(common, union, out=np.zeros_like(common), where=union > 0), dtype=np.float64)


INSTRUCTION_LIKE = "instruction-like"


def _instructs(one: Candidate) -> bool:
    """Whether it reads like an instruction and comes from where none can come from."""
    if INSTRUCTION_LIKE in one.tags:
        return True
    return one.source in (Source.TOOL, Source.IMPORT) and INSTRUCTS.search(one.text[:4_000]) is not None


def _is_data(one: Candidate, rules: BriefingRules) -> bool:
    outside = one.source in (Source.TOOL, Source.IMPORT) or INSTRUCTION_LIKE in one.tags
    return outside or not one.trust >= rules.min_trust


def _origin(one: Candidate, words: writing.Words, rules: BriefingRules) -> str:
    data = _is_data(one, rules)
    return writing.origin(
        one.source, one.created_at, one.session, one.about, words, data=data, warning=data and _instructs(one)
    )


def _written(one: Candidate, citation: str, words: writing.Words, rules: BriefingRules) -> str:
    origin, data = _origin(one, words, rules), _is_data(one, rules)
    if rules.format == "xml":
        return writing.element(one.text, citation, origin, data=data)
    return writing.line(one.text, citation, origin, words, data=data)
