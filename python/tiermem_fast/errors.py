"""The one tree of errors.

Owns every exception the package raises on purpose; calls nothing of the package. Each one is also a builtin, so
that code which knows nothing of this library catches it by the word it knows, and each one carries the status a web
service answers with::

    TiermemError(Exception)                                   500
    ├── InvalidInput(ValueError)                              422   .argument
    │   ├── LimitExceeded                                     413   .got .limit
    │   └── ModelMismatch                                     409   .stored_… and .given_… model, dimension
    ├── MemoryNotFound(KeyError)                              404   .id
    ├── AccessDenied(PermissionError)                         403   .id .label
    ├── StalePlan(RuntimeError)                               409
    ├── StoreClosed(RuntimeError)                             503
    ├── StoreForked(RuntimeError)                             503
    └── StorageError(OSError)                                 500   .operation .path
        ├── StoreLocked(TimeoutError)                         503   .waited_ms
        ├── ReadOnlyStore                                     503
        ├── CorruptStore                                      500   .what
        ├── NewerFormat                                       500   .found .supported
        └── DurabilityError                                   507

The first branch is the caller's fault, the last one the disk's. ``str(error)`` is the message and nothing else; the
attributes hold what the message says, and are ``None`` where it does not apply.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AccessDenied",
    "CorruptStore",
    "DurabilityError",
    "InvalidInput",
    "LimitExceeded",
    "MemoryNotFound",
    "ModelMismatch",
    "NewerFormat",
    "ReadOnlyStore",
    "StalePlan",
    "StorageError",
    "StoreClosed",
    "StoreForked",
    "StoreLocked",
    "TiermemError",
]


class TiermemError(Exception):
    """The root: everything this package raises on purpose.

    Parameters
    ----------
    message
        What was wrong, with the value, and what to do about it.
    **fields
        The attributes that the class declares. They may also be set afterwards.

    Raises
    ------
    TypeError
        If a field is not one of the class.

    Examples
    --------
    >>> error = MemoryNotFound("no memory has the id 7", id="7")
    >>> str(error), error.id, error.http_status, isinstance(error, KeyError)
    ('no memory has the id 7', '7', 404, True)
    """

    http_status: ClassVar[int] = 500

    def __init__(self, message: str = "", /, **fields: Any) -> None:
        super().__init__(message)
        for name, value in fields.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
            setattr(self, name, value)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        # KeyError and OSError each pickle in a way of their own, which loses the attributes.
        return type(self), self.args, dict(self.__dict__)


class InvalidInput(TiermemError, ValueError):
    """An argument has a value that no call accepts; the store is unchanged.

    Attributes
    ----------
    argument
        The name of the argument, as the caller wrote it.
    """

    http_status = 422
    argument: str | None = None

    @classmethod
    def of(cls, argument: str, problem: str) -> InvalidInput:
        """The error for one argument, with its name before the problem as the core writes it.

        Examples
        --------
        >>> str(InvalidInput.of("importance", "1.5 is not between 0 and 1"))
        'importance: 1.5 is not between 0 and 1'
        """
        return cls(f"{argument}: {problem}", argument=argument)


class LimitExceeded(InvalidInput):
    """Something is larger than the limits table allows.

    Attributes
    ----------
    got, limit
        What was given, and the most that is taken.
    """

    http_status = 413
    got: int | None = None
    limit: int | None = None


class ModelMismatch(InvalidInput):
    """The vectors come from another model than those in the store.

    Attributes
    ----------
    stored_model, stored_dimension, given_model, given_dimension
        The two models with the lengths of their vectors.
    """

    http_status = 409
    stored_model: str | None = None
    stored_dimension: int | None = None
    given_model: str | None = None
    given_dimension: int | None = None


class MemoryNotFound(TiermemError, KeyError):
    """No living memory that this reader may know of has this id.

    Attributes
    ----------
    id
        The id asked for.
    """

    http_status = 404
    id: str | None = None


class AccessDenied(TiermemError, PermissionError):
    """The memory exists, but not for this reader.

    Attributes
    ----------
    id
        The id asked for.
    label
        The label that the reader holds no grant for.
    """

    http_status = 403
    id: str | None = None
    label: str | None = None


class StalePlan(TiermemError, RuntimeError):
    """The plan was made for a state of the store that is gone; nothing was done. Make it again."""

    http_status = 409


class StoreClosed(TiermemError, RuntimeError):
    """The handle was closed."""

    http_status = 503


class StoreForked(TiermemError, RuntimeError):
    """The process was forked after the store was opened; the child has to open it again."""

    http_status = 503


class StorageError(TiermemError, OSError):
    """The disk, or what lies on it, is at fault.

    Attributes
    ----------
    operation
        What was being done.
    path
        The file or directory.
    """

    operation: str | None = None
    path: str | None = None


class StoreLocked(StorageError, TimeoutError):
    """Somebody else holds the store. It is sound, and the same call may succeed later.

    Attributes
    ----------
    waited_ms
        How long the call waited, in milliseconds.
    """

    http_status = 503
    waited_ms: int | None = None


class ReadOnlyStore(StorageError):
    """A write was asked of a handle that only reads, by its opening or since a write failed."""

    http_status = 503


class CorruptStore(StorageError):
    """What is on disk is not what was written.

    Attributes
    ----------
    what
        The file or the memory that is damaged.
    """

    what: str | None = None


class NewerFormat(StorageError):
    """The file was written by a newer version of this library.

    Attributes
    ----------
    found, supported
        The version of the file, and the newest one known here.
    """

    found: int | None = None
    supported: int | None = None


class DurabilityError(StorageError):
    """A write or a sync failed. Nothing of it is acknowledged, and the handle only reads from now on."""

    http_status = 507


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def shown(value: object) -> str:
    """A value as it stands in a message: its ``repr``, cut so that no message carries a whole document.

    Examples
    --------
    >>> shown(float("nan")), len(shown("x" * 10**6))
    ('nan', 80)
    """
    return _SHORT.repr(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them when none is near.

    Examples
    --------
    >>> nearest("semantc", ["working", "semantic"])
    "did you mean 'semantic'?"
    >>> nearest("x", ["working", "semantic"])
    "known are 'working', 'semantic'"
    """
    import difflib  # only an error needs it

    names = list(known)
    near = difflib.get_close_matches(name[:256], names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return "known are " + ", ".join(repr(one) for one in names)
