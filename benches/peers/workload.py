"""The workload: memories of one or many users, with texts, vectors and tags; the same for every library."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench.data import DIMENSION, SEED, TOPICS, Floats, Topics, english

K = 10
TAGS = 10
"""A tag filter keeps one memory in ten."""
EXTRA = 3_000
"""Further memories, for adding one by one and for adding while searching."""
QUERIES = 300
TOPICS_OF_USER = 60
DATASETS = {"10k-1u": (10_000, 1), "10k-100u": (10_000, 100), "100k-1u": (100_000, 1)}
"""Memories and users of each."""


@dataclass
class Item:
    """A memory, or a question."""

    n: int
    """Its number: what answers are checked by."""
    text: str
    vec: Floats
    user: str
    tag: str
    importance: float


EMBED: dict[str, Floats] = {}
"""Text to vector, for libraries that insist on embedding themselves."""
NUMBER: dict[str, int] = {}
"""Text to number."""


def embed(text: str) -> list[float]:
    """The vector of a known text."""
    return EMBED[text].tolist()


def make(folder: Path) -> None:
    """Writes the workload, unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    biggest = max(n for n, _ in DATASETS.values())
    texts = folder / "texts.json"
    if not texts.exists():
        texts.write_text(json.dumps(english(biggest + EXTRA + QUERIES, folder)))
    for name, (n, users) in DATASETS.items():
        target = folder / f"{name}.npz"
        if target.exists():
            continue
        rng = np.random.default_rng(SEED)
        who = rng.integers(users, size=n + EXTRA + QUERIES)
        if users == 1:
            topics = rng.integers(TOPICS, size=len(who))
        else:
            of_user = np.stack([rng.choice(TOPICS, TOPICS_OF_USER, replace=False) for _ in range(users)])
            topics = of_user[who, rng.integers(TOPICS_OF_USER, size=len(who))]
        np.savez(target, n=n, users=who, tags=rng.integers(TAGS, size=len(who)), vectors=Topics().around(topics, SEED))


def load(folder: Path, name: str) -> tuple[list[Item], list[Item], list[Item]]:
    """Memories, extra memories and questions of a dataset; fills :data:`EMBED` and :data:`NUMBER`."""
    texts = json.loads((folder / "texts.json").read_text())
    with np.load(folder / f"{name}.npz") as z:
        n, vectors, users, tags = int(z["n"]), z["vectors"], z["users"], z["tags"]
    assert vectors.shape[1] == DIMENSION
    texts = texts[:n] + texts[-(EXTRA + QUERIES) :]
    everything = [Item(i, t, vectors[i], f"user{users[i]:03d}", f"tag{tags[i]}", 0.5) for i, t in enumerate(texts)]
    EMBED.update((i.text, i.vec) for i in everything)
    NUMBER.update((i.text, i.n) for i in everything)
    return everything[:n], everything[n : n + EXTRA], everything[n + EXTRA :]
