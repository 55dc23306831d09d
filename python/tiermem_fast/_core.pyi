"""The native part of ``tiermem_fast``. Times are seconds since 1970 UTC; only ``memory`` and ``kernels`` call it."""

from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Engine",
    "Export",
    "Import",
    "NativeHits",
    "build_info",
    "check_store",
    "default_options",
    "near_duplicates",
    "reinforce",
    "restore_backup",
    "score",
    "strength",
    "top_k",
]

# Named here because within Engine `list` is a method.
_Column: TypeAlias = list[Any]
_Rows: TypeAlias = list[dict[str, Any]]
_Texts: TypeAlias = list[str]
_Tuples: TypeAlias = list[tuple[Any, ...]]
_Halves: TypeAlias = list[bytes | None]

@final
class Engine:
    """A store of memories; :class:`tiermem_fast.TierMemory` is its face."""

    @staticmethod
    def open(
        path: str | PathLike[str] | None,
        option_values: dict[str, Any],
        *,
        read_only: bool,
        allow_network: bool,
        now: float,
    ) -> Engine:
        """Open the store in a directory, or one in RAM."""

    def close(self, now: float) -> None:
        """Write what is pending and let go of the files."""

    def add(
        self,
        texts: _Texts,
        shared: dict[str, Any],
        columns: dict[str, _Column],
        vectors: NDArray[np.float32] | None,
        model: str | None,
        now: float,
    ) -> tuple[_Texts, NDArray[np.uint8]]:
        """Add memories: ids, and for each 1 (created), 2 (reinforced) or 0 (a retry of an earlier call)."""

    def get(self, id_list: Iterable[str], grant: dict[str, Any] | None, now: float) -> _Rows:
        """Memories by id, as dicts."""

    def list(
        self,
        filter_values: dict[str, Any],
        limit: int,
        after: str | None,
        newest_first: bool,
        grant: dict[str, Any] | None,
        now: float,
    ) -> _Rows:
        """Memories in the order of writing, or the latest first, as dicts."""

    def count(self, filter_values: dict[str, Any], grant: dict[str, Any] | None, now: float) -> int:
        """How many memories live."""

    def update(self, id: str, fields: dict[str, Any], now: float) -> None:
        """Change fields of a memory."""

    def supersede(
        self,
        id: str,
        text: str,
        fields: dict[str, Any],
        vector: NDArray[np.float32] | None,
        model: str | None,
        now: float,
    ) -> str:
        """Put a new memory in the place of an old one; gives the new id."""

    def forget(self, id_list: Iterable[str], now: float) -> None:
        """Hide memories at once."""

    def restore(self, id_list: Iterable[str], now: float) -> None:
        """Bring forgotten memories back."""

    def used(self, id_list: Iterable[str], now: float) -> None:
        """Note that these memories were used."""

    def search(
        self,
        text: str,
        vector: NDArray[np.float32] | None,
        model: str | None,
        k: int,
        filter_values: dict[str, Any],
        min_score: float | None,
        grant: dict[str, Any] | None,
        now: float,
    ) -> NativeHits:
        """The k best memories that match at all."""

    def texts(self, hits: NativeHits) -> _Texts:
        """The texts of an answer, in its order."""

    def model(self) -> tuple[str, int] | None:
        """The model of the store's vectors and their dimension, or None."""

    def stats(self, now: float) -> dict[str, Any]:
        """The figures of the store."""

    def maintain(self, rows: int, now: float) -> tuple[int, int, int]:
        """Flush and let the graph take in at most ``rows`` vectors: (uses flushed, absorbed, still waiting)."""

    def consolidate(self, dry_run: bool, now: float) -> dict[str, _Rows]:
        """Move memories between the tiers by the laws; gives what was promoted, merged and let go."""

    def export(self, with_vectors: bool, now: float) -> Export:
        """Begin to export the store as it is now."""

    def vectors(self, id_list: Iterable[str], grant: dict[str, Any] | None, now: float) -> _Halves:
        """The vectors of memories by id: for each its f16 numbers as bytes, None where there is none to be seen."""

    def history(self, id: str) -> _Rows:
        """What happened to a memory, oldest first."""

    def erase(
        self,
        scope: str,
        id_list: Iterable[str] | None,
        filter_values: dict[str, Any],
        cascade_all: bool,
        progress: Callable[[str], object] | None,
        now: float,
    ) -> dict[str, Any]:
        """Erase memories; ``scope`` is ids, session, where or everything. The receipt as a dict."""

    def complete_erasure(self, now: float) -> dict[str, Any] | None:
        """Complete an erasure that was cut short; its receipt, or None."""

    def erasures(self) -> _Rows:
        """The receipts of all erasures, oldest first."""

    def verify(self, repair: bool, discard: bool) -> dict[str, Any]:
        """Read everything and report what is not as it was written; with ``repair`` keep the rest."""

    def backup(
        self, directory: str | PathLike[str], progress: Callable[[int, int], object] | None, now: float
    ) -> dict[str, Any]:
        """Copy the store into a directory that holds none."""

    def remember_copy(self, path: str | PathLike[str], commit: int, now: float) -> None:
        """Note that a copy of the store, as of a commit, lies elsewhere."""

    def compact(self, hidden_before: float, now: float) -> dict[str, Any]:
        """Let go for good of what was hidden before a time, and write the file anew."""

    def sql(self, statement: str, limit: int) -> tuple[_Texts, _Tuples]:
        """A select over the store's own tables: (column names, rows)."""

@final
class Export:
    """A store at one commit, given out chunk by chunk."""

    def origin(self) -> dict[str, Any]:
        """What the store is: commit, memories, created_at (microseconds since 1970), model, dimension (or None)."""

    def chunk(self, rows: int) -> tuple[str, int, dict[str, bytes]] | None:
        """The next chunk, of ``rows`` rows at most: (part, rows, columns); None after the last one."""

    def close(self) -> None:
        """Let go of the commit. Closing twice is fine."""

@final
class Import:
    """A store that is being filled."""

    @staticmethod
    def begin(
        path: str | PathLike[str] | None,
        option_values: dict[str, Any],
        *,
        allow_network: bool,
        created_at: int,
        model: str | None,
        dimension: int | None,
        now: float,
    ) -> Import:
        """Make an empty store, in a directory or in RAM, to be filled."""

    def add(self, part: str, rows: int, columns: dict[str, bytes], now: float) -> None:
        """Take in one chunk."""

    def close(self) -> None:
        """Write everything into the file and let go of it. Closing twice is fine."""

    def engine(self) -> Engine:
        """The engine over the store, now that it is whole."""

@final
class NativeHits:
    """The answer to a search: each column can be taken as often as wanted, texts and items are fetched by the engine."""

    def __len__(self) -> int:
        """How many there are."""

    def ids(self) -> list[str]:
        """The ids, as a new list."""

    def scores(self) -> NDArray[np.float32]:
        """Relevance, strength and importance in one."""

    def relevance(self) -> NDArray[np.float32]:
        """How well each answers."""

    def strength(self) -> NDArray[np.float32]:
        """How strongly each is remembered."""

    def importance(self) -> NDArray[np.float32]:
        """How much each matters."""

    def vector_scores(self) -> NDArray[np.float32]:
        """Cosines; NaN where there is no vector."""

    def keyword_scores(self) -> NDArray[np.float32]:
        """Shares of the best possible BM25; NaN when the question has no words."""

    def tiers(self) -> NDArray[np.uint8]:
        """The tiers' numbers."""

    @property
    def searched(self) -> int:
        """How many memories were left to search by filter and reader."""

    @property
    def plan(self) -> str | None:
        """How the vector arm went about it, or None."""

def build_info() -> dict[str, Any]:
    """What this build is: version, profile, and the versions of what it carries."""

def check_store(path: str | PathLike[str], repair: bool, discard: bool, now: float) -> dict[str, Any]:
    """Verify a store that may be too damaged to be opened; with ``repair`` keep what is sound."""

def restore_backup(
    source: str | PathLike[str], directory: str | PathLike[str], replace: bool, now: float
) -> dict[str, Any]:
    """Put the store of a backup into a directory, all of it verified before anything is replaced."""

def default_options() -> dict[str, Any]:
    """The options that an engine opened without any goes by."""

def near_duplicates(
    vectors: NDArray[np.float32], texts: list[str], min_cosine: float, min_jaccard: float
) -> NDArray[np.int64]:
    """Pairs of places (i < j) whose vectors and words are both nearly the same, and whose numbers and names do not differ."""

def reinforce(
    half_life: NDArray[np.float64], strength: NDArray[np.float64], gain: float, max_half_life: float
) -> NDArray[np.float64]:
    """Half-lives after a use."""

def score(
    relevance: NDArray[np.float64],
    strength: NDArray[np.float64],
    importance: NDArray[np.float64],
    strength_share: float,
    importance_share: float,
) -> NDArray[np.float64]:
    """Scores from relevance, strength and importance."""

def strength(elapsed: NDArray[np.float64], half_life: NDArray[np.float64], shape: float) -> NDArray[np.float64]:
    """Strength of memories last used so many seconds ago."""

def top_k(scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Places of the k highest scores, best first; equal scores in their order."""
