"""What callers hand in, in the form in which the core reads it.

Owns the checks that need Python (types, shapes, JSON, unknown names) and the conversions: times to seconds, objects to
JSON, a list of memories to columns. Calls the words below. The core checks values and limits again, for everybody.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .errors import InvalidInput, nearest, shown
from .results import Hits
from .times import optional_seconds, to_seconds

if TYPE_CHECKING:
    from .config import Config
    from .models import BriefingItem, Hit, MemoryItem

__all__ = [
    "FIELDS",
    "PATCHABLE",
    "Grant",
    "as_config",
    "at_place",
    "check_matrix",
    "check_texts",
    "columns_of",
    "filters_of",
    "ids_of",
    "number_or_none",
    "one_vector",
    "plain",
    "refuse_unknown",
    "rights_of",
    "whole_number",
]

_TIMES = frozenset({"created_at", "last_used_at", "expires_at", "since", "until"})
_OBJECTS = frozenset({"metadata", "private"})
FIELDS = frozenset(
    {
        "tier", "importance", "session", "about", "source", "trust", "tags", "labels", "private", "metadata",
        "created_at", "expires_at", "half_life", "pinned", "derived_from", "idempotency_key",
    }
)  # fmt: skip
PATCHABLE = FIELDS - {"created_at", "derived_from", "idempotency_key"}

Grant = Mapping[str, Any]
"""What a reader may see beyond the public: ``{"labels": [...], "fields": [...]}``."""


def as_config(config: Config | Mapping[str, Any] | None) -> Config | None:
    """The configuration that a ``config=`` argument means."""
    if config is None:
        return None
    from .config import Config

    if isinstance(config, Config):
        return config
    if isinstance(config, Mapping):
        return Config(**config)
    raise InvalidInput.of("config", f"{shown(config)} is neither a Config nor a dict of its sections")


def one_vector(argument: str, vector: Any) -> Any:
    """An array of shape (d,), C-contiguous; a list of numbers becomes one."""
    if isinstance(vector, (list, tuple)):
        try:
            vector = np.asarray(vector, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidInput.of(argument, f"is not a sequence of numbers: {error}") from None
    if not isinstance(vector, np.ndarray) or vector.ndim != 1:
        form = f"an array of shape {vector.shape}" if isinstance(vector, np.ndarray) else type(vector).__name__
        raise InvalidInput.of(argument, f"must be a float32 array of shape (d,), not {form}")
    if not vector.flags.c_contiguous:
        raise InvalidInput.of(argument, "is not C-contiguous; make it so with numpy.ascontiguousarray")
    return vector


def check_matrix(vectors: Any, rows: int) -> None:
    """Refuse what is no array of shape (rows, d), C-contiguous."""
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2:
        form = f"an array of shape {vectors.shape}" if isinstance(vectors, np.ndarray) else type(vectors).__name__
        raise InvalidInput.of("vectors", f"must be a float32 array of shape (n, d), not {form}")
    if len(vectors) != rows:
        raise InvalidInput.of("vectors", f"{len(vectors)} vectors for {rows} memories")
    if not vectors.flags.c_contiguous:
        raise InvalidInput.of("vectors", "is not C-contiguous; make it so with numpy.ascontiguousarray")


def check_texts(texts: Sequence[Any], argument: str = "text") -> None:
    """Refuse before the embedder is asked what the core would refuse after it."""
    for place, text in enumerate(texts):
        name = argument if len(texts) == 1 else f"items[{place}].{argument}"
        if not isinstance(text, str):
            raise InvalidInput.of(name, f"must be a str, not {type(text).__name__}")
        if not text.strip():
            raise InvalidInput.of(name, f"{shown(text)} is empty")
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise InvalidInput.of(name, "has a lone surrogate, which no UTF-8 can hold") from None


def refuse_unknown(fields: Mapping[str, Any], known: frozenset[str]) -> None:
    """Refuse a field that nobody knows, with the nearest one that somebody does."""
    for name in fields:
        if name not in known:
            raise InvalidInput.of(name, f"unknown; {nearest(name, sorted(known))}")


def plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as the core reads them: times in seconds, objects as JSON, names as they are."""
    return {name: _plain_value(name, value) for name, value in fields.items()}


def _plain_value(name: str, value: Any) -> Any:
    if name in _TIMES:
        return optional_seconds(value, name)
    if name in _OBJECTS:
        return _json(name, value)
    return value


def _json(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, (dict, Mapping)):  # asking the abstract class alone costs more than the encoding
        raise InvalidInput.of(name, f"{shown(value)} is not a dict")
    if not value:
        return None
    fields = dict(value)
    try:
        text = _ENCODER.encode(fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput.of(name, f"{shown(value)} is not JSON: {error}") from None
    _check_keys(name, fields)
    return text


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _check_keys(name: str, value: Any) -> None:
    """Refuse keys that JSON would turn into texts in silence; of mappings it takes dicts alone."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidInput.of(name, f"the key {shown(key)} is not a str")
            _check_keys(name, inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check_keys(name, inner)


def columns_of(items: Iterable[Any], shared: Mapping[str, Any]) -> tuple[list[str], dict[str, list[Any]]]:
    """Items as texts and one list per field that any of them gives; others have the shared value or the default."""
    if isinstance(items, (str, bytes, Mapping)):
        raise InvalidInput.of("items", f"must be a list of memories, not one {type(items).__name__}; add() takes one")
    texts: list[str] = []
    given: list[Mapping[str, Any] | None] = []
    names: set[str] = set()
    for place, item in enumerate(items):
        if isinstance(item, str):
            texts.append(item)
            given.append(None)
            continue
        fields = dict(item) if isinstance(item, Mapping) else _fields_of(item, place)
        if "text" not in fields:
            raise InvalidInput.of(f"items[{place}].text", "is needed")
        texts.append(fields.pop("text"))
        try:
            refuse_unknown(fields, FIELDS)
            own = plain(fields)
        except InvalidInput as error:
            raise InvalidInput.of(f"items[{place}].{error.argument}", str(error).partition(": ")[2]) from None
        given.append(own)
        names |= own.keys()
    columns: dict[str, list[Any]] = {}
    for name in names:
        fallback = shared.get(name, _DEFAULTS[name])
        columns[name] = [fallback if fields is None else fields.get(name, fallback) for fields in given]
    return texts, columns


_DEFAULTS: Final[dict[str, Any]] = {
    "tier": "semantic",
    "importance": 0.5,
    "session": None,
    "about": None,
    "source": "user",
    "trust": 1.0,
    "tags": (),
    "labels": (),
    "private": None,
    "metadata": None,
    "created_at": None,
    "expires_at": None,
    "half_life": None,
    "pinned": False,
    "derived_from": (),
    "idempotency_key": None,
}


def _fields_of(item: Any, place: int) -> dict[str, Any]:
    given = getattr(item, "given", None)
    if given is None:
        raise InvalidInput.of(f"items[{place}]", f"must be a str, a dict or a MemoryItem, not {type(item).__name__}")
    return {name: value for name, value in given().items() if name in FIELDS or name == "text"}


def at_place(error: InvalidInput, start: int) -> InvalidInput:
    """The same error with the place of the item counted from the first item of the call, not of its chunk."""
    found = re.match(r"items\[(\d+)\]", error.argument or "")
    if found is None or start == 0:
        return error
    place = f"items[{int(found[1]) + start}]"
    moved = type(error)(str(error).replace(found[0], place, 1), **vars(error))
    moved.argument = (error.argument or "").replace(found[0], place, 1)
    return moved


def ids_of(items: Any) -> list[str]:
    """The ids of whatever has some: an id, a memory, hits, a briefing, or a list of these."""
    if isinstance(items, str):
        return [items]
    if isinstance(items, Hits):
        return items.ids
    if not isinstance(items, Iterable):
        items = [items]
    return [item if isinstance(item, str) else _id_of(item) for item in items]


def _id_of(item: Hit | BriefingItem | MemoryItem | Any) -> str:
    id = getattr(item, "id", None)
    if not isinstance(id, str):
        raise InvalidInput.of("ids", f"{shown(item)} is neither an id nor a memory")
    return id


def whole_number(argument: str, value: Any, least: int) -> int:
    """A whole number from ``least`` to 10,000."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= 10_000:
        raise InvalidInput.of(argument, f"{shown(value)} is not a whole number from {least} to 10,000")
    return int(value)


def number_or_none(argument: str, value: Any) -> float | None:
    """A number that is not NaN, or ``None``."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or math.isnan(value):
        raise InvalidInput.of(argument, f"{shown(value)} is not a number")
    return float(value)


def filters_of(**given: Any) -> dict[str, Any]:
    """The filters that were given, as the core reads them."""
    filters = {name: value for name, value in given.items() if value is not None}
    for name in ("tiers", "must"):
        if isinstance(filters.get(name), str):
            filters[name] = [filters[name]]
    if "where" in filters:
        where = filters["where"]
        if not isinstance(where, Mapping):
            raise InvalidInput.of("where", f"{shown(where)} is not a dict")
        filters["where"] = {key: _comparable(value) for key, value in where.items()}
    return filters


def _comparable(value: Any) -> Any:
    """A condition as the core reads it: times in seconds, sets as lists."""
    if isinstance(value, datetime):
        return to_seconds(value, "where")
    if isinstance(value, Mapping):
        return {operator: _comparable(operand) for operator, operand in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_comparable(one) for one in value]
    return value


def rights_of(grant: Grant | None) -> dict[str, Any] | None:
    """A grant as the core reads it."""
    if grant is None:
        return None
    if not isinstance(grant, Mapping) or not grant.keys() <= {"labels", "fields"}:
        raise InvalidInput.of("grant", f'{shown(grant)} is not a dict of "labels" and "fields"')
    return dict(grant)
