"""The input: clustered vectors and real sentences, the same for every contender, from fixed seeds.

Owns nothing but the making; keeps what takes long in a cache directory.
"""

from __future__ import annotations

import ast
import json
import re
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

DIMENSION = 384
SEED = 20240607
LATENT = 64
TOPICS = 2_000
NOISE = 0.05
PERCENT_TAGS = 100
"""Each memory has one of so many tags, and one of ten kinds in its metadata: filters of 1 % and 10 %."""

Floats = npt.NDArray[np.float32]
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Dataset:
    """Memories and questions of one size."""

    vectors: Floats
    queries: Floats
    texts: list[str]
    tags: npt.NDArray[np.int64]
    """0 to 99 for each memory."""

    @property
    def kinds(self) -> npt.NDArray[np.int64]:
        """0 to 9 for each memory, independent of nothing but its tag."""
        return self.tags % 10

    def items(self, start: int = 0, stop: int | None = None) -> list[dict[str, Any]]:
        """The memories as ``add_many`` takes them."""
        chosen = range(start, len(self.texts) if stop is None else stop)
        return [
            {"text": self.texts[n], "tags": [f"t{self.tags[n]}"], "metadata": {"kind": int(self.kinds[n])}}
            for n in chosen
        ]


class Topics:
    """Vectors as text embedders give them: few directions that matter, topics of very different size, a common mean.

    Topics lie in a latent space of 64 decaying dimensions; a random non-linear map takes them to 384. Half of the
    questions are paraphrases of a memory, half are new.
    """

    def __init__(self) -> None:
        rng = np.random.default_rng(SEED)
        self._decay = (np.arange(1, LATENT + 1) ** -0.5).astype(np.float32)
        self._centres = (rng.standard_normal((TOPICS, LATENT)) * self._decay).astype(np.float32)
        self._map = (rng.standard_normal((LATENT, DIMENSION)) * 0.7).astype(np.float32)
        self._mean = (0.25 * rng.standard_normal(DIMENSION)).astype(np.float32)
        share = 1.0 / np.arange(1, TOPICS + 1) ** 0.8
        self._share = share / share.sum()

    def _finish(self, latent: Floats, rng: np.random.Generator) -> Floats:
        vectors = np.tanh(latent @ self._map) + self._mean
        vectors += (NOISE * rng.standard_normal(vectors.shape, dtype=np.float32)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.ascontiguousarray(vectors, dtype=np.float32)

    def _latent(self, count: int, rng: np.random.Generator) -> Floats:
        topics = rng.choice(TOPICS, size=count, p=self._share)
        spread = rng.standard_normal((count, LATENT), dtype=np.float32) * self._decay * np.float32(0.5)
        return self._centres[topics] + spread  # type: ignore[no-any-return]

    def around(self, topics: npt.NDArray[np.int64], seed: int) -> Floats:
        """One vector for each topic given, by its number."""
        rng = np.random.default_rng(seed)
        spread = rng.standard_normal((len(topics), LATENT), dtype=np.float32) * self._decay * np.float32(0.5)
        return self._finish(self._centres[topics] + spread, rng)

    def make(self, count: int, questions: int, seed: int) -> tuple[Floats, Floats]:
        """``count`` vectors and ``questions`` questions."""
        rng = np.random.default_rng(seed)
        vectors = np.empty((count, DIMENSION), np.float32)
        kept = []
        for start in range(0, count, 50_000):
            latent = self._latent(min(50_000, count - start), rng)
            vectors[start : start + len(latent)] = self._finish(latent, rng)
            kept.append(latent[: questions // 2 + 1])
        near = np.concatenate(kept)
        near = near[rng.permutation(len(near))[: questions // 2]]
        near = near + rng.standard_normal(near.shape, dtype=np.float32) * self._decay * np.float32(0.15)
        fresh = self._latent(questions - len(near), rng)
        return vectors, self._finish(np.concatenate([near, fresh]), rng)


def dataset(count: int, cache: Path, questions: int = 300) -> Dataset:
    """``count`` memories with vectors, texts and tags, and questions to ask of them."""
    stored = cache / f"vectors-{count}-{questions}-{SEED}.npz"
    if stored.exists():
        with np.load(stored) as file:
            vectors, queries = file["vectors"], file["queries"]
    else:
        vectors, queries = Topics().make(count, questions, SEED + count)
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(stored, vectors=vectors, queries=queries)
    tags = np.random.default_rng(SEED + 1).integers(PERCENT_TAGS, size=count)
    return Dataset(vectors, queries, english(count, cache), tags)


# ---------------------------------------------------------------------- sentences


def _docstrings(root: Path) -> Iterator[str]:
    warnings.simplefilter("ignore")
    for path in sorted(root.rglob("*.py")):
        if {"site-packages", "test", "tests", "idle_test"} & set(path.relative_to(root).parts):
            continue
        try:
            tree = ast.parse(path.read_text("utf8"))
        except (SyntaxError, ValueError, OSError, RecursionError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield ast.get_docstring(node) or ""


def _english_sentences() -> list[str]:
    """The sentences of the standard library's docstrings, in a fixed order."""
    seen: dict[str, None] = {}
    for docstring in _docstrings(Path(sysconfig.get_path("stdlib"))):
        for sentence in re.split(r"(?<=[.!?])\s+|\n\s*\n", docstring):
            flat = " ".join(sentence.split())
            if 30 <= len(flat) <= 200:
                seen[flat] = None
    return list(seen)


def _chinese_clauses() -> list[str]:
    """The clauses of the Chinese conversations shipped as an example, in a fixed order."""
    whole = json.loads((ROOT / "examples" / "data" / "memorybank_zh.json").read_text("utf8"))
    seen: dict[str, None] = {}

    def walk(value: Any) -> None:
        if isinstance(value, str):
            for clause in re.split(r"[，。！？；\n]", value):
                if 5 <= len(clause.strip()) <= 40 and not clause.isascii():
                    seen[clause.strip()] = None
        elif isinstance(value, dict):
            for part in value.values():
                walk(part)
        elif isinstance(value, list):
            for part in value:
                walk(part)

    walk(whole["groups"])
    return list(seen)


def _recombined(sentences: list[str], count: int, parts: int, join: str, end: str) -> list[str]:
    """``count`` different texts of some sentences each: real words in real order, in as many texts as are asked for."""
    rng = np.random.default_rng(SEED)
    texts: dict[str, None] = {}
    while len(texts) < count:
        for chosen in rng.integers(len(sentences), size=(count, parts)):
            texts[join.join(sentences[n] for n in chosen) + end] = None
            if len(texts) == count:
                break
    return list(texts)


def _cached(cache: Path, name: str, make: Any) -> list[str]:
    path = cache / name
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(make(), ensure_ascii=False), "utf8")
    sentences: list[str] = json.loads(path.read_text("utf8"))
    return sentences


def english(count: int, cache: Path) -> list[str]:
    """``count`` English texts of two sentences."""
    return _recombined(_cached(cache, "sentences-en.json", _english_sentences), count, 2, " ", "")


def chinese(count: int, cache: Path) -> list[str]:
    """``count`` Chinese texts of three clauses."""
    return _recombined(_cached(cache, "clauses-zh.json", _chinese_clauses), count, 3, "，", "。")
