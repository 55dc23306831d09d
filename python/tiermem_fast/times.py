"""Time at the border: what callers give, and what the core counts.

Owns the conversions; calls only :mod:`.errors`. Between here and the core a time is seconds since 1970 UTC as a float,
exact to the microsecond until 2242.
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta
from numbers import Real
from typing import TypeAlias

from .errors import InvalidInput, shown

__all__ = ["TimeLike", "from_seconds", "optional_seconds", "to_seconds"]

TimeLike: TypeAlias = datetime | float | int | None
"""A time as callers give it: aware, naive taken as UTC, or seconds since 1970."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)
# The last float before the year 10000; the floats there are 30 microseconds apart.
_LATEST_SECONDS = math.nextafter(253_402_300_800.0, 0.0)


def to_seconds(value: TimeLike, argument: str) -> float:
    """Seconds since 1970 UTC.

    Parameters
    ----------
    value
        An aware ``datetime``, a naive one taken as UTC, seconds since 1970, or ``None`` for the present.
    argument
        The name to put into an error.

    Raises
    ------
    InvalidInput
        If it is something else, NaN, or not between 1970 and 9999.

    Examples
    --------
    >>> to_seconds(datetime(2024, 5, 3), "now")
    1714694400.0
    >>> to_seconds(-1, "now")
    Traceback (most recent call last):
    tiermem_fast.errors.InvalidInput: now: -1 is not a time between 1970 and 9999
    """
    if value is None:
        return time.time()
    if type(value) is float:  # by far the most frequent, and asking an abstract class costs more than all of the rest
        seconds = value
    elif isinstance(value, datetime):
        aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        seconds = min((aware - _EPOCH).total_seconds(), _LATEST_SECONDS)
    elif isinstance(value, Real) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.inf
    else:
        raise InvalidInput.of(argument, f"{shown(value)} is neither a datetime nor seconds since 1970")
    if not 0.0 <= seconds <= _LATEST_SECONDS:
        raise InvalidInput.of(argument, f"{shown(value)} is not a time between 1970 and 9999")
    return seconds


def optional_seconds(value: TimeLike, argument: str) -> float | None:
    """Like :func:`to_seconds`, for a time that may be absent: ``None`` stays ``None``."""
    return None if value is None else to_seconds(value, argument)


def from_seconds(seconds: float) -> datetime:
    """The aware UTC ``datetime`` of seconds that came from the core.

    Examples
    --------
    >>> from_seconds(1714694400.5)
    datetime.datetime(2024, 5, 3, 0, 0, 0, 500000, tzinfo=datetime.timezone.utc)
    """
    # Not datetime.fromtimestamp: its range depends on the platform.
    return _LATEST if seconds >= _LATEST_SECONDS else _EPOCH + timedelta(seconds=seconds)
