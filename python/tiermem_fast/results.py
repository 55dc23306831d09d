"""What the calls of :class:`tiermem_fast.TierMemory` give back, made no sooner than somebody looks.

Owns :class:`AddedId` and :class:`Hits`. Calls :mod:`.tiers`; the models only when a whole memory is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, overload

from .tiers import TIERS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from .models import Hit
    from .tiers import Tier

__all__ = ["AddedId", "Hits"]


class AddedId(str):
    """The id of an added memory, which also says what became of it.

    Attributes
    ----------
    created
        Whether a new memory was made.
    reinforced
        Whether a memory that said the same in the same tier, session and subject was reinforced instead.
    redactions
        What was taken out of the text before it was stored; empty when nothing was.

    Examples
    --------
    >>> added = AddedId("018bcfe5-6872-7007-bfff-00005c9e01aa", created=True, reinforced=False)
    >>> added, added.created
    ('018bcfe5-6872-7007-bfff-00005c9e01aa', True)
    """

    __slots__ = ("created", "redactions", "reinforced")

    created: bool
    reinforced: bool
    redactions: tuple[str, ...]

    def __new__(cls, value: str, *, created: bool, reinforced: bool, redactions: tuple[str, ...] = ()) -> Self:
        """Make the id."""
        self = super().__new__(cls, value)
        self.created = created
        self.reinforced = reinforced
        self.redactions = redactions
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (_added_id, (str(self), self.created, self.reinforced, self.redactions))


def _added_id(value: str, created: bool, reinforced: bool, redactions: tuple[str, ...]) -> AddedId:
    return AddedId(value, created=created, reinforced=reinforced, redactions=redactions)


class Hits(Sequence["Hit"]):
    """The answer to a search, best first: columns at once, memories when they are looked at.

    ``len``, iteration and ``hits[i]`` give :class:`tiermem_fast.Hit`; the columns are arrays of equal length. Texts and
    memories are read from the store in one go at the first look, so look before the memories are erased.

    Examples
    --------
    >>> from tiermem_fast import TierMemory
    >>> with TierMemory.open() as mem:
    ...     _ = mem.add_many(["Replies to Director Li stay formal", "Lunch is at noon"], now=0.0)
    ...     hits = mem.search("formal replies", k=1, now=0.0)
    ...     len(hits), hits.texts, hits[0].tier.value, hits.scores.dtype.name
    (1, ['Replies to Director Li stay formal'], 'semantic', 'float32')
    """

    __slots__ = ("_fetch_rows", "_fetch_texts", "_hits", "_ids", "_native", "_texts")

    def __init__(
        self,
        native: Any,
        fetch_texts: Callable[[Any], list[str]],
        fetch_rows: Callable[[list[str]], list[dict[str, Any]]],
    ) -> None:
        self._native = native
        self._fetch_texts = fetch_texts
        self._fetch_rows = fetch_rows
        self._ids: list[str] | None = None
        self._texts: list[str] | None = None
        self._hits: list[Hit] | None = None

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<Hits: {len(self)} of {self.searched} memories>"

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | list[Hit]:
        return self._all()[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self._all())

    @property
    def ids(self) -> list[str]:
        """The ids."""
        if self._ids is None:
            self._ids = self._native.ids()
        return list(self._ids)

    @property
    def texts(self) -> list[str]:
        """The texts."""
        if self._texts is None:
            self._texts = self._fetch_texts(self._native)
        return list(self._texts)

    @property
    def tiers(self) -> list[Tier]:
        """The tiers."""
        return [TIERS[number] for number in self._native.tiers()]

    @property
    def scores(self) -> npt.NDArray[np.float32]:
        """What they are ranked by: ``relevance * (1 - a - b + a * strength + b * importance)``."""
        return self._native.scores()  # type: ignore[no-any-return]

    @property
    def relevance(self) -> npt.NDArray[np.float32]:
        """How well each answers, 0 to 1."""
        return self._native.relevance()  # type: ignore[no-any-return]

    @property
    def strength(self) -> npt.NDArray[np.float32]:
        """How strongly each is remembered, 0 to 1."""
        return self._native.strength()  # type: ignore[no-any-return]

    @property
    def importance(self) -> npt.NDArray[np.float32]:
        """How much each matters, 0 to 1."""
        return self._native.importance()  # type: ignore[no-any-return]

    @property
    def vector_scores(self) -> npt.NDArray[np.float32]:
        """Cosine of each to the question, -1 to 1; NaN where one of the two has no vector."""
        return self._native.vector_scores()  # type: ignore[no-any-return]

    @property
    def keyword_scores(self) -> npt.NDArray[np.float32]:
        """BM25 of each as a share of the best any text could get, 0 to 1; NaN when the question has no words."""
        return self._native.keyword_scores()  # type: ignore[no-any-return]

    @property
    def searched(self) -> int:
        """How many memories the filter and the reader's rights left to search."""
        return self._native.searched  # type: ignore[no-any-return]

    @property
    def plan(self) -> str | None:
        """How the vectors were searched: a scan, a gather, the graph; ``None`` when they were not."""
        return self._native.plan  # type: ignore[no-any-return]

    def _all(self) -> list[Hit]:
        if self._hits is None:
            from .models import Hit

            self._hits = [Hit.from_row(row) for row in self.rows()]
        return self._hits

    def rows(self, places: Sequence[int] | None = None) -> list[dict[str, Any]]:
        """The memories, or those at some places, as dicts of plain values with their scores.

        Times are seconds since 1970, objects JSON.
        """
        columns = {
            "score": self.scores.tolist(),
            "relevance": self.relevance.tolist(),
            "strength": self.strength.tolist(),
            "vector_score": _none_for_nan(self.vector_scores.tolist()),
            "keyword_score": _none_for_nan(self.keyword_scores.tolist()),
        }
        ids = self.ids
        chosen = range(len(ids)) if places is None else places
        rows = self._fetch_rows([ids[place] for place in chosen])
        return [_with_parts(row, columns, place) for row, place in zip(rows, chosen, strict=True)]


def _none_for_nan(values: list[float]) -> list[float | None]:
    return [value if value == value else None for value in values]  # noqa: PLR0124  # NaN is what differs from itself


def _with_parts(row: dict[str, Any], columns: Mapping[str, list[Any]], place: int) -> dict[str, Any]:
    for name, values in columns.items():
        row[name] = values[place]
    return row
