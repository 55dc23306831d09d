"""Private values in a text, found by form and check digit, and taken out before anything is stored.

Owns the default :class:`Redactor`, :func:`redact`. Calls nothing. It covers e-mail addresses, Chinese mobile and landline
numbers, international numbers with a plus, Chinese resident ids and bank cards whose check digits are right, IPv4
addresses, and keys, tokens and passwords of common forms. It does not cover names, postal addresses, IBANs, amounts,
passports, or what is written in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

__all__ = ["Redacted", "Redactor", "redact"]


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its private values.

    Attributes
    ----------
    text
        The text, with a placeholder such as ``[email]`` in the place of each value; a second one of a kind is ``[email2]``.
    found
        The kinds, in the order of the placeholders.
    values
        Placeholder name to value, for whoever may keep them apart. Not shown by ``repr``.
    """

    text: str
    found: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict, repr=False)


class Redactor(Protocol):
    """Takes private values out of a text. :func:`redact` is the default; any callable of this form replaces it."""

    def __call__(self, text: str, /) -> Redacted:
        """Redact."""
        ...


def _luhn(digits: str) -> bool:
    total = 0
    for place, sign in enumerate(reversed(digits)):
        value = int(sign) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _bank_card(found: str) -> bool:
    digits = re.sub(r"\D", "", found)
    return 13 <= len(digits) <= 19 and digits[0] in "23456" and len(set(digits)) > 1 and _luhn(digits)


_RESIDENT_WEIGHTS: Final = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def _resident_id(found: str) -> bool:
    month, day = int(found[10:12]), int(found[12:14])
    total = sum(int(sign) * weight for sign, weight in zip(found, _RESIDENT_WEIGHTS, strict=False))
    return 1 <= month <= 12 and 1 <= day <= 31 and "10X98765432"[total % 11] == found[17].upper()


def _address(found: str) -> bool:
    return all(int(part) <= 255 for part in found.split("."))


def _international(found: str) -> bool:
    return 8 <= len(re.sub(r"\D", "", found)) <= 15


def _yes(_: str) -> bool:
    return True


# In this order: what is longer or has a check digit before what its parts might be.
_DETECTORS: Final[tuple[tuple[str, re.Pattern[str], Callable[[str], bool]], ...]] = (
    (
        "key",
        re.compile(
            r"\b(?:sk|pk|rk)[-_](?:live|test|proj|ant)?[-_]?[A-Za-z0-9_-]{16,200}|\bgh[pousr]_[A-Za-z0-9]{30,255}|\bgithub_pat_\w{20,255}|\bAKIA[0-9A-Z]{16}\b"
            r"|\bAIza[\w-]{35}\b|\bxox[abprs]-[A-Za-z0-9-]{10,200}|\bglpat-[\w-]{20,100}|\beyJ[\w-]{8,2000}\.[\w-]{8,4000}\.[\w-]{8,1000}"
            r"|-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[^-]{0,8000}-----END [A-Z ]{0,20}PRIVATE KEY-----"
        ),
        _yes,
    ),
    (
        "password",
        re.compile(
            r"(?i:(?<=password is )|(?<=password: )|(?<=password=)|(?<=passwd=)|(?<=pwd=)|(?<=api_key=)|(?<=api key is )|(?<=token=)|(?<=secret=)|(?<=passcode is )|(?<=pin is ))[^\s,;，。；]{3,128}"
            r"|(?:(?<=密码是)|(?<=密码：)|(?<=密码:)|(?<=口令是)|(?<=密码为))\s?[^\s,;，。；]{3,128}"
        ),
        _yes,
    ),
    (
        "email",
        re.compile(
            r"(?<![\w.+-])[A-Za-z0-9_][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])"
        ),
        _yes,
    ),
    ("resident_id", re.compile(r"(?<![0-9A-Za-z])[1-9]\d{5}(?:18|19|20)\d{9}[0-9Xx](?![0-9A-Za-z])"), _resident_id),
    ("bank_card", re.compile(r"(?<![\d.-])\d(?:[ -]?\d){12,18}(?![\d-]|\.\d)"), _bank_card),
    ("phone", re.compile(r"(?<![\w+])\+\d{1,3}(?:[ -]?\(?\d{1,4}\)?){2,6}(?!\d)"), _international),
    ("phone", re.compile(r"(?<![\d.-])(?:86[ -]?)?1[3-9]\d(?:[ -]?\d{4}){2}(?![\d-]|\.\d)"), _yes),
    ("phone", re.compile(r"(?<![\d.-])(?:\(0\d{2,3}\)|0\d{2,3}[- ])[ ]?[2-9]\d{6,7}(?:-\d{1,5})?(?!\d)"), _yes),
    ("ip_address", re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d]|\.\d)"), _address),
)


def redact(text: str) -> Redacted:
    """Put a placeholder in the place of each private value.

    Examples
    --------
    >>> redact("Mail anna@example.com or call 13812345678").text
    'Mail [email] or call [phone]'
    >>> redact("身份证 11010519491231002X，卡号 4111 1111 1111 1111").found
    ('resident_id', 'bank_card')
    >>> redact("Order 13800 of 2024-05-03 costs 4111.11").found
    ()
    """
    spans: list[tuple[int, int, str]] = []
    for kind, pattern, check in _DETECTORS:
        for match in pattern.finditer(text):
            free = all(match.end() <= start or match.start() >= end for start, end, _ in spans)
            if free and match[0].strip() and check(match[0]):
                spans.append((match.start(), match.end(), kind))
    if not spans:
        return Redacted(text)
    parts: list[str] = []
    found: list[str] = []
    values: dict[str, str] = {}
    last = 0
    names: dict[str, str] = {}
    for start, end, kind in sorted(spans):
        value = text[start:end]
        if value not in names:
            count = sum(name == kind for name in found) + 1
            names[value] = kind if count == 1 else f"{kind}{count}"
            found.append(kind)
            values[names[value]] = value
        parts += [text[last:start], f"[{names[value]}]"]
        last = end
    return Redacted("".join([*parts, text[last:]]), tuple(found), values)
