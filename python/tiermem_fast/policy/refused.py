"""What the user forgot or corrected, and whom the store knows: kept up with the store, one look per commit.

Owns :class:`Ledger`. Calls nothing but the select that it is given, and holds keys of texts, not texts. It is derived:
what is forgotten or superseded stands in the store itself, so another process's deletions count as well. What was
erased leaves no row there: the handle that erased it still knows it, by keys that only it can make, another one does not.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from .sentences import claim_key, folded, units
from .subjects import calls

__all__ = ["Ledger", "Select"]


class Select(Protocol):
    """Runs a select over the store's tables and gives its rows as dicts."""

    def __call__(self, statement: str, /, *, limit: int = ...) -> list[dict[str, Any]]:
        """Run it."""
        ...


_PAGE: Final = 5_000
_FORGOTTEN, _SUPERSEDED = 1, 2
_STATES: Final = {_FORGOTTEN: "forgotten", _SUPERSEDED: "superseded"}
_ROWS: Final = """
    select m.row as row, m.commit_number as number, m.state as state, m.about as about, c.text as text,
        c.metadata as metadata,
        case m.state when 1 then (select e.kind from event e where e.row = m.row order by e.number desc limit 1) end as why
    from memory m join content c on c.row = m.row
    where m.commit_number >= {number} and (m.commit_number > {number} or m.row > {row}) {only}
    order by m.commit_number, m.row
"""
_LATEST: Final = "select coalesce(max(commit_number), 0) as number, coalesce(max(row), -1) as row from memory"
_TAKEN_BACK: Final = "and m.state in (1, 2)"
_NAMES: Final = """
    select distinct m.about as about, null as metadata from memory m where m.state = 0 and m.about is not null
    union all
    select m.about, c.metadata from memory m join content c on c.row = m.row
    where m.state = 0 and m.about is not null and c.metadata like '%"known_as"%'
"""
_MOST_NAMES: Final = 10_000
# Letting go is housekeeping, not a wish of the user.
_BY_THE_USER: Final = "forget"


class Ledger:
    """Keys of the texts that must not be learned again, and the names of the subjects that live in the store.

    Parameters
    ----------
    select
        Reads the store.
    """

    def __init__(self, select: Select) -> None:
        self._select = select
        self._lock = threading.Lock()
        self._seen = (-1, -1)
        self._fresh = True
        self._refused: dict[bytes, tuple[int, str]] = {}
        self._keys_of_row: dict[int, tuple[bytes, ...]] = {}
        self._names: dict[str, str] = {}
        # Keys of short texts could be guessed; with a secret of this handle they tell nothing to anybody else.
        self._secret = secrets.token_bytes(16)
        self._erased: set[bytes] = set()

    @property
    def names(self) -> Mapping[str, str]:
        """What somebody may be called, folded, to the name that memories have in ``about``."""
        return self._names

    def catch_up(self) -> None:
        """Read what was written since the last look; one indexed select when that is nothing."""
        with self._lock:
            if self._fresh:
                # Of what is there already only what tells something is read.
                latest = self._select(_LATEST, limit=1)[0]
                for row in self._select(_NAMES, limit=_MOST_NAMES):
                    self._meet(row["about"], row["metadata"])
                self._read(_TAKEN_BACK)
                self._seen = max(self._seen, (latest["number"], latest["row"]))
                self._fresh = False
            else:
                self._read("")

    def _read(self, only: str) -> None:
        while True:
            number, row = self._seen
            rows = self._select(_ROWS.format(number=number, row=row, only=only), limit=_PAGE)
            for one in rows:
                self._take(one)
            if rows:
                self._seen = (rows[-1]["number"], rows[-1]["row"])
            if len(rows) < _PAGE:
                return

    def _take(self, row: Mapping[str, Any]) -> None:
        number, state, about = row["row"], row["state"], row["about"]
        if about is not None and state == 0:
            self._meet(about, row["metadata"])
        for key in self._keys_of_row.pop(number, ()):
            self._refused.pop(key, None)
        if state == _SUPERSEDED or (state == _FORGOTTEN and row["why"] == _BY_THE_USER):
            keys = tuple(self._hashed(key, about) for key in _claims(row["text"]))
            self._keys_of_row[number] = keys
            for key in keys:
                self._refused[key] = (number, _STATES[state])

    def _meet(self, about: str, metadata: str | None) -> None:
        other = ""
        if metadata and "known_as" in metadata:
            found = json.loads(metadata).get("known_as")
            other = found if isinstance(found, str) else ""
        for called in calls(about, [other] if other else []):
            # A name that two have is nobody's, except as the whole name of one of them.
            if called == folded(about) or self._names.setdefault(called, about) == about:
                self._names[called] = about
            elif folded(self._names[called]) != called:
                self._names[called] = ""

    def note_erased(self, texts: Iterable[tuple[str, str | None]]) -> None:
        """Remember that these texts, each with whom it was about, were erased."""
        keys = {self._hashed(key, about) for text, about in texts for key in _claims(text)}
        with self._lock:
            self._erased |= keys

    def refused(self, text: str, about: str | None) -> tuple[str, int] | None:
        """Whether just this was forgotten, superseded or erased about the same: how, and the row that was, -1 for none."""
        key = self._hashed(claim_key(text), about)
        if key in self._erased:
            return "erased", -1
        found = self._refused.get(key)
        return None if found is None else (found[1], found[0])

    def _hashed(self, key: str, about: str | None) -> bytes:
        said = f"{folded(about or '')}\x00{key}".encode(errors="replace")
        return hashlib.blake2b(said, digest_size=12, key=self._secret).digest()


def _claims(text: str) -> Iterable[str]:
    """The keys of a text and of its units, of which one alone may come again."""
    found = {claim_key(text)}
    found.update(key for unit in units(text) if len(key := claim_key(unit)) >= 4)
    return found - {""}
