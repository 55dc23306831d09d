"""How texts are cut and compared: units, keys, and the words that carry meaning.

Owns the reading of a text in both languages for the rules around it; calls nothing. Two texts with the same key say the
same; what the overlap of words means is for the caller to judge.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

__all__ = [
    "claim_key",
    "clauses",
    "contained",
    "folded",
    "forget_texts",
    "key",
    "overlap",
    "sentences",
    "units",
    "words",
]

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_END = re.compile(r"(?<=[。！？!?；])[”」』\"'’)）]?\s*|(?<=\.)\s+(?=[^a-z\s])|\s*\n+\s*")
_ABBREVIATION = re.compile(r"(?:\b(?:mr|mrs|ms|dr|prof|st|no|vs|etc|e\.g|i\.e|a\.m|p\.m)|\b[A-Z])\.$", re.IGNORECASE)


def folded(text: str) -> str:
    """The text in one form: NFKC, without case, with single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, in order; none is empty.

    Examples
    --------
    >>> sentences("Hi! Dr. Li called. 以后用中文。好吗？")
    ['Hi!', 'Dr. Li called.', '以后用中文。', '好吗？']
    """
    found: list[str] = []
    start = 0
    for end in _END.finditer(text):
        piece = text[start : end.end()].strip()
        if piece and _ABBREVIATION.search(piece) is None:
            found.append(piece)
            start = end.end()
    last = text[start:].strip()
    return [*found, last] if last else found


_LEANING = re.compile(
    r"\[m:|(?:and|but|so|because|then|he|she|him|her|his|they|them|their|it|its|that|this|those|these)\b"
    rf"|(?:而且|但是?|所以|因为|然后|他们?|她们?|它们?|这样?|那样?)(?![{_HAN}]{{0,2}}以后)",
    re.IGNORECASE,
)


def units(text: str) -> list[str]:
    """Sentences that can stand alone: one that leans on the one before, by a pronoun or a conjunction, stays with it.

    Examples
    --------
    >>> units("Anna moved to Oslo. She likes it there. I live in Bonn.")
    ['Anna moved to Oslo. She likes it there.', 'I live in Bonn.']
    """
    found: list[str] = []
    for sentence in sentences(text):
        if found and _LEANING.match(sentence):
            joint = "" if found[-1][-1] in "。！？；" else " "
            found[-1] = f"{found[-1]}{joint}{sentence}"
        else:
            found.append(sentence)
    return found


_JOINT = re.compile(
    rf",? and (?=(?:i|i['’]m|my|we|our)\b)|[,;] ?(?=(?:i|i['’]m|my)\b)|[，,；;]\s*(?=(?:我|以后|住在|今后|请?记住)[{_HAN}])",
    re.IGNORECASE,
)


def clauses(unit: str) -> list[str]:
    """The clauses of a unit in which somebody goes on about themself; the unit alone when there is one.

    Examples
    --------
    >>> (
    ...     clauses("My name is Frank and I live in Bonn."),
    ...     clauses("我叫王峰，我住在北京。"),
    ...     clauses("I like tea and cake"),
    ... )
    (['My name is Frank', 'I live in Bonn.'], ['我叫王峰', '我住在北京。'], ['I like tea and cake'])
    """
    return [piece for piece in (one.strip() for one in _JOINT.split(unit)) if piece]


_SIGNS = re.compile(r"[^\w]+|_+")
_OPENING = re.compile(
    r"(?:(?:ok(?:ay)?|hi|hey|hello|well|so|oh|and|also|no|sorry|please|actually|correction|by the way|just|again)\b[\s,:;!.—-]*"
    r"|(?:please )?(?:remember|note|keep in mind|do not forget|don['’]?t forget)(?: that)?\b[\s,:—-]*"
    r"|(?:好的|嗯|请|另外|还有|对了|其实|更正|不对|顺便说一下|麻烦)[\s，,：:。]*"
    r"|(?:你)?(?:要)?(?:请)?(?:记住|记得|记一下|记下|别忘了?|不要忘记)[\s，,：:。]*)+",
    re.IGNORECASE,
)


def key(text: str) -> str:
    """What is left of a text when signs, case and widths are taken out: equal keys say the same.

    Examples
    --------
    >>> key("Likes  TEA!"), key("喜欢喝茶。") == key("喜欢喝茶")
    ('likes tea', True)
    """
    return _SIGNS.sub(" ", folded(text)).strip()


@lru_cache(maxsize=4_096)
def claim_key(text: str) -> str:
    """The key without the words that only introduce a claim, as "remember that" or “记住”.

    Examples
    --------
    >>> claim_key("Please remember that I like tea."), claim_key("记住：我喜欢茶")
    ('i like tea', '我喜欢茶')
    """
    bare = _OPENING.match(text)
    rest = text[bare.end() :] if bare else text
    return key(rest) or key(text)


_LATIN = re.compile(r"[a-z0-9À-ɏ]+(?:[._+@/-][a-z0-9À-ɏ]+)*")
_HAN_RUN = re.compile(f"[{_HAN}\u3040-\u30ff\uac00-\ud7af]+")
_EMPTY_WORDS = frozenset(
    """
    a about actually again all also always am an and any anymore are as at be been but by can correction could did do does for from
    get got had has have he her him his how i if in instead into is it its just let like ll longer me mine my never no not
    now of on one only or our out please really remember s she should so some sorry t than that the their them then there
    these they this those to too up us ve very was we were what when where which who will with would you your yours
    """.split()  # noqa: SIM905  # a page of words is read as a page
)
_EMPTY_HAN = frozenset(
    "的了是在我你您他她它们这那有和与或也都很就不没还要会能可以对把被让给到着过吗呢吧啊哦嗯呀请其实更正应该再"
)
_SUFFIX = re.compile(r"(?:'s|ies|es|s)$")


@lru_cache(maxsize=4_096)
def words(text: str) -> frozenset[str]:
    """The words that carry meaning: Latin ones without plural, numbers, and pairs of Han signs.

    Examples
    --------
    >>> sorted(words("The reports are due on 5 May")), sorted(words("我喜欢绿茶"))
    (['5', 'due', 'may', 'report'], ['喜欢', '欢绿', '绿茶'])
    """
    plain = folded(text)
    found = {
        word if len(word) < 4 or word.endswith("ss") else _SUFFIX.sub("", word)
        for word in _LATIN.findall(plain)
        if word not in _EMPTY_WORDS
    }
    for run in _HAN_RUN.findall(plain):
        pairs = [run] if len(run) == 1 else map("".join, pairwise(run))
        found.update(pair for pair in pairs if not _EMPTY_HAN.intersection(pair))
    return frozenset(found)


def overlap(one: str, other: str) -> float:
    """Share of the words of both that both have (Jaccard); 0 when neither has any."""
    left, right = words(one), words(other)
    union = len(left | right)
    return len(left & right) / union if union else 0.0


def contained(part: str, whole: str) -> float:
    """Share of the words of ``part`` that ``whole`` has too; 0 when it has none."""
    inner = words(part)
    return len(inner & words(whole)) / len(inner) if inner else 0.0


def forget_texts() -> None:
    """Let go of every text that was read: what is erased must not stay in a cache."""
    words.cache_clear()
    claim_key.cache_clear()
