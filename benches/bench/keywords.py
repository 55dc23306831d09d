"""Search by words, English and Chinese, beside bm25s and tantivy where they are installed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tiermem_fast import TierMemory

from .data import SEED, chinese, english
from .stores import NOW, WRITTEN, K
from .table import Table
from .timing import in_turns

QUESTIONS = 200
WORDS = 5


def _questions(texts: Sequence[str], language: str) -> tuple[list[str], list[int]]:
    """Five words of a text, and which text it was: of real rarity, and with a known answer.

    English words have four letters at least: some of the contenders leave out function words, others do not.
    """
    rng = np.random.default_rng(SEED + 5)
    questions, answers = [], []
    for n in rng.permutation(len(texts)):
        if language == "en":
            words = re.findall(r"\w{4,}", texts[n])
            if len(words) < WORDS:
                continue
            questions.append(" ".join(words[p] for p in sorted(rng.choice(len(words), WORDS, replace=False))))
        else:
            text = texts[n]
            starts = sorted(rng.choice(len(text) - 2, min(WORDS, len(text) - 2), replace=False))
            questions.append(" ".join(text[p : p + 2] for p in starts))
        answers.append(int(n))
        if len(questions) == QUESTIONS:
            break
    return questions, answers


def _grams(text: str) -> list[str]:
    """Single characters and pairs, for those that cannot cut Chinese themselves."""
    bare = re.sub(r"[^\w]", " ", text)
    return [
        piece[start : start + size]
        for piece in bare.split()
        for size in (1, 2)
        for start in range(len(piece) - size + 1)
    ]


def _bm25s(texts: list[str], language: str) -> Callable[[str], list[int]] | None:
    try:
        import bm25s
    except ImportError:
        return None
    index = bm25s.BM25(k1=1.2, b=0.75)
    if language == "en":
        index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    else:
        index.index([_grams(text) for text in texts], show_progress=False)

    def search(question: str) -> list[int]:
        if language == "en":
            tokens: Any = bm25s.tokenize([question], show_progress=False, return_ids=False)
        else:
            tokens = [_grams(question)]
        return index.retrieve(tokens, k=K, show_progress=False)[0][0].tolist()  # type: ignore[no-any-return]

    return search


def _tantivy(texts: list[str], language: str) -> Callable[[str], list[int]] | None:
    try:
        import tantivy
    except ImportError:
        return None
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("n", stored=True, fast=True)
    builder.add_text_field("text", tokenizer_name="en_stem" if language == "en" else "grams")
    index = tantivy.Index(builder.build())
    if language != "en":
        index.register_tokenizer("grams", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.ngram(1, 2)).build())
    writer = index.writer(128_000_000, 1)
    for n, text in enumerate(texts):
        writer.add_document(tantivy.Document(n=n, text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(question: str) -> list[int]:
        query = index.parse_query(question, ["text"])
        return [searcher.doc(address)["n"][0] for _, address in searcher.search(query, K).hits]

    return search


def measure(table: Table, work: Path, cache: Path, sizes: Sequence[int]) -> None:
    for language, name, make in (("en", "English", english), ("zh", "Chinese", chinese)):
        for size in sizes:
            texts = make(size, cache)
            questions, answers = _questions(texts, language)
            with TierMemory.open(work / f"words-{language}-{size}", now=WRITTEN) as mem:
                ids = mem.add_many(texts, now=WRITTEN)
                place = {str(id): n for n, id in enumerate(ids)}
                others = {"bm25s": _bm25s(texts, language), "tantivy": _tantivy(texts, language)}
                contenders: dict[str, Callable[[int], Any]] = {
                    "ours": lambda n: mem.search(questions[n], k=K, tiers=["semantic"], now=NOW).ids  # noqa: B023
                }
                for other, search in others.items():
                    if search is not None:
                        contenders[other] = lambda n, search=search: search(questions[n])  # noqa: B023
                figures = in_turns(contenders, calls=len(questions))
            found = {
                contender: np.mean(
                    [
                        answer in [place[id] if contender == "ours" else id for id in got]
                        for answer, got in zip(answers, figures[contender].answers, strict=False)
                    ]
                )
                for contender in contenders
            }
            what = f"{size:,} {name} texts, {WORDS} words"
            if len(figures) == 1:
                table.value("keywords", what, figures["ours"].p50, "ms p50", quality=f"found {found['ours']:.3f}")
            for other in figures:
                if other != "ours":
                    table.compare(
                        "keywords", what, figures["ours"], other, figures[other],
                        at_most=1.0 if size >= 100_000 else None,
                        quality=f"found {found['ours']:.3f} / {found[other]:.3f}",
                    )  # fmt: skip
