"""Memory for agents: what to keep, in which tier, for how long, who may see it, and what goes into the next prompt.

>>> from tiermem_fast import TierMemory
>>> with TierMemory.open() as mem:
...     id = mem.add("From now on write my mails in Chinese", tier="semantic", importance=0.9)
...     mem.search("mails in Chinese").ids == [id]
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import kernels
from ._core import build_info
from .errors import (
    AccessDenied,
    CorruptStore,
    DurabilityError,
    InvalidInput,
    LimitExceeded,
    MemoryNotFound,
    ModelMismatch,
    NewerFormat,
    ReadOnlyStore,
    StalePlan,
    StorageError,
    StoreClosed,
    StoreForked,
    StoreLocked,
    TiermemError,
)
from .memory import TierMemory
from .policy.access import Grant
from .policy.policies import Policies
from .results import AddedId, Hits
from .tiers import Source, Tier

if TYPE_CHECKING:
    from .aio import AsyncTierMemory
    from .config import Config
    from .embedding import Embedder, as_embedder
    from .models import (
        BackupReport,
        Briefing,
        BriefingItem,
        CompactReport,
        ConsolidationReport,
        Decision,
        Dropped,
        ErasureReceipt,
        Explanation,
        Hit,
        ImportReport,
        MemoryItem,
        SnapshotReport,
        Stats,
        VerifyReport,
    )
    from .tenants import Tenants

__all__ = [
    "AccessDenied",
    "AddedId",
    "AsyncTierMemory",
    "BackupReport",
    "Briefing",
    "BriefingItem",
    "CompactReport",
    "Config",
    "ConsolidationReport",
    "CorruptStore",
    "Decision",
    "Dropped",
    "DurabilityError",
    "Embedder",
    "ErasureReceipt",
    "Explanation",
    "Grant",
    "Hit",
    "Hits",
    "ImportReport",
    "InvalidInput",
    "LimitExceeded",
    "MemoryItem",
    "MemoryNotFound",
    "ModelMismatch",
    "NewerFormat",
    "Policies",
    "ReadOnlyStore",
    "SnapshotReport",
    "Source",
    "StalePlan",
    "Stats",
    "StorageError",
    "StoreClosed",
    "StoreForked",
    "StoreLocked",
    "Tenants",
    "Tier",
    "TierMemory",
    "TiermemError",
    "VerifyReport",
    "__version__",
    "as_embedder",
    "build_info",
    "kernels",
]

__version__: str = build_info()["version"]

# What needs pydantic, or is not needed by every program, is imported when it is first named.
_LATER = {
    "AsyncTierMemory": "aio",
    "BackupReport": "models",
    "Briefing": "models",
    "BriefingItem": "models",
    "CompactReport": "models",
    "Config": "config",
    "ConsolidationReport": "models",
    "Decision": "models",
    "Dropped": "models",
    "Embedder": "embedding",
    "ErasureReceipt": "models",
    "Explanation": "models",
    "Hit": "models",
    "ImportReport": "models",
    "MemoryItem": "models",
    "SnapshotReport": "models",
    "Stats": "models",
    "Tenants": "tenants",
    "VerifyReport": "models",
    "as_embedder": "embedding",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    value = getattr(import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
