"""Whom a text is about: people by title, by kinship, and by names that are known already.

Owns the default :class:`SubjectFinder`; calls the reading of texts. It finds what is written, it guesses nothing: a name
without a title is found only once it is known. What is known of one person never colours another because ``about`` of
a memory is such a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from .sentences import folded

__all__ = ["Subject", "SubjectFinder", "find_subjects", "resolve"]


@dataclass(frozen=True, slots=True)
class Subject:
    """Somebody a text is about.

    Attributes
    ----------
    name
        As memories have it in ``about``.
    known_as
        What else the text calls them, as "my sister" in "my sister Anna".
    """

    name: str
    known_as: str | None = None


class SubjectFinder(Protocol):
    """Finds whom a text is about. :func:`find_subjects` is the default; any callable of this form replaces it."""

    def __call__(self, text: str, known: Mapping[str, str]) -> list[Subject]:
        """Find them; see :func:`find_subjects`."""
        ...


_SURNAMES: Final = (
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜范"
    "方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文"
)
_COMPOUND: Final = "欧阳|司马|上官|诸葛|司徒|东方|尉迟|公孙|慕容|令狐"
# What may follow a surname, longest first. A bare 总 must not be the beginning of another word.
_TITLES: Final = (
    "董事长|总经理|总监|总裁|副总|经理|主任|主管|主席|教授|老师|博士|医生|大夫|律师|会计|秘书|助理|书记|部长|处长|局长|科长|院长|校长|"
    "所长|厂长|店长|队长|组长|班长|行长|市长|县长|村长|先生|女士|小姐|太太|同学|师傅|阿姨|叔叔|大哥|大姐|工程师|总(?![是会共体之算结数额计量部统要能在有不得的觉])"
)
_TITLED_ZH = re.compile(
    rf"(?<![主夸扩紧慌纸开伸嚣])(?:{_COMPOUND}|[{_SURNAMES}])(?:[\u4e00-\u9fff]{{1,2}}(?=董事长|总经理|主任|经理|教授|老师|医生|先生|女士|小姐))?"
    rf"(?:{_TITLES})"
)
_FAMILIAR_ZH = re.compile(
    r"(?:(?<![\u4e00-\u9fff])|(?<=[和跟给问找请对让与替向把叫，。、是]))[小老](?:[王李张刘陈杨赵吴徐孙胡朱林何郭梁宋郑谢韩唐冯董程曹袁邓许沈曾彭吕苏卢蒋蔡魏薛潘杜姜范姚谭廖邹])"
    r"(?![\u4e00-\u9fff]?[子姐])"
)
_KIN_ZH: Final = (
    "妹妹|姐姐|哥哥|弟弟|妈妈|母亲|爸爸|父亲|爷爷|奶奶|外公|外婆|姥姥|姥爷|老婆|妻子|太太|老公|丈夫|儿子|女儿|表哥|表姐|表弟|表妹|"
    "堂哥|堂弟|舅舅|叔叔|姑姑|阿姨|岳父|岳母|婆婆|公公|男朋友|女朋友|未婚妻|未婚夫|室友|同桌|房东|导师"
)
_KINDRED_ZH = re.compile(
    rf"我的?({_KIN_ZH})(?:叫([\u4e00-\u9fff]{{2,3}}|[A-Z][a-z]+)(?![\u4e00-\u9fff])|([A-Z][a-z]+))?"
)

_TITLED_EN = re.compile(
    r"\b(Director|Manager|Professor|Prof\.?|Doctor|Dr\.?|Mr\.?|Mrs\.?|Ms\.?|Miss|President|Chairman|Chairwoman|Captain|Coach|"
    r"Uncle|Aunt|Aunty|Judge|Senator|Minister|Officer|Engineer|Comrade|Teacher|Secretary|General Manager) "
    r"((?:[A-Z][\w'’-]+)(?: [A-Z][\w'’-]+)?)"
)
_KIN_EN: Final = (
    "sister|brother|mother|mom|mum|father|dad|wife|husband|son|daughter|aunt|uncle|cousin|grandmother|grandma|grandfather|"
    "grandpa|nephew|niece|girlfriend|boyfriend|fiancee|fiancé|fiancée|partner|friend|roommate|flatmate|boss|manager|"
    "colleague|coworker|client|customer|landlord|neighbou?r|teacher|doctor|mentor|supervisor|assistant"
)
_KINDRED_EN = re.compile(
    rf"\b(?:[Mm]y|[Oo]ur) (?:(?:older|younger|elder|little|big|best|new|old|dear) )?({_KIN_EN})\b(?!['’]s (?:name|birthday) is)(?:,? (?:called |named )?([A-Z][\w-]+))?"
)
_NOT_NAMES = frozenset({"I", "The", "And", "But", "Is", "In", "On", "At", "A", "He", "She", "It", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Please", "Chinese", "English"})  # fmt: skip
_SHORT_TITLE: Final = {
    "prof": "Professor",
    "dr": "Dr",
    "doctor": "Dr",
    "mr": "Mr",
    "mrs": "Mrs",
    "ms": "Ms",
}


def find_subjects(text: str, known: Mapping[str, str]) -> list[Subject]:
    """Whom a text is about, in the order they are named, each once.

    Parameters
    ----------
    text
        One text.
    known
        What a subject of the store may be called, folded, to the name the store has. :func:`resolve` makes use of it too.

    Examples
    --------
    >>> [one.name for one in find_subjects("Write to Director Li about Dr. Chen", {})]
    ['Director Li', 'Dr Chen']
    >>> find_subjects("给李主任和张总发邮件", {})
    [Subject(name='李主任', known_as=None), Subject(name='张总', known_as=None)]
    >>> find_subjects("My sister Anna likes jazz", {})
    [Subject(name='Anna', known_as='my sister')]
    >>> find_subjects("A gift for my sister", {"my sister": "Anna"})
    [Subject(name='Anna', known_as=None)]
    >>> find_subjects("我主张总是先写测试", {})
    []
    """
    found: dict[int, tuple[int, Subject]] = {}
    by_name = [(start, end, Subject(name)) for start, end, name in _known_in(text, known)]
    for start, end, subject in (*_named(text), *by_name):
        # What is within a longer name that was found before is part of it.
        if not any(begin <= start < stop for begin, (stop, _) in found.items()):
            found[start] = (end, subject)
    unique: dict[str, Subject] = {}
    for start in sorted(found):
        one = found[start][1]
        name = known.get(folded(one.name), one.name)
        if name not in unique or one.known_as is not None:
            unique[name] = Subject(name, one.known_as)
    return list(unique.values())


def _named(text: str) -> Iterator[tuple[int, int, Subject]]:
    """People by title, by kinship and by familiar names: where they stand, and who they are."""
    for match in _TITLED_EN.finditer(text):
        title = _SHORT_TITLE.get(match[1].rstrip(".").casefold(), match[1])
        yield match.start(), match.end(), Subject(f"{title} {_possessor(match[2])}")
    for match in _TITLED_ZH.finditer(text):
        yield match.start(), match.end(), Subject(match[0])
    for match in _KINDRED_EN.finditer(text):
        role = f"my {match[1].casefold()}"
        name = None if match[2] is None or match[2] in _NOT_NAMES else _possessor(match[2])
        yield match.start(), match.end(), Subject(name, role) if name else Subject(role)
    for match in _KINDRED_ZH.finditer(text):
        name = match[2] or match[3]
        yield match.start(), match.end(), Subject(name, f"我{match[1]}") if name else Subject(f"我{match[1]}")
    for match in _FAMILIAR_ZH.finditer(text):
        yield match.start(), match.end(), Subject(match[0])


def resolve(name: str, known: Mapping[str, str]) -> str:
    """The name the store has for somebody: itself when it is one, else whom it is known to mean.

    Examples
    --------
    >>> resolve("director li", {"director li": "Director Li"}), resolve(" 张总 ", {})
    ('Director Li', '张总')
    """
    bare = name.strip()
    return known.get(folded(bare), bare)


def calls(name: str, known_as: Iterable[str] = ()) -> list[str]:
    """What somebody may be called in a text, folded: the whole name, the name without title, other names."""
    found = [folded(name), *map(folded, known_as)]
    bare = _TITLED_EN.fullmatch(name)
    if bare is not None:
        found.append(folded(bare[2]))
    return found


def _possessor(name: str) -> str:
    return re.sub(r"['’]s?$", "", name)


_WORD = re.compile(r"[^\W\u2e80-\u9fff]+(?:[-'’][^\W\u2e80-\u9fff]+)*")
_HAN_RUN = re.compile(r"[\u3400-\u9fff]+")
_LONGEST_NAME = 4
_POSSESSIVE = ("'s", "’s", "'", "’")


def _known_in(text: str, known: Mapping[str, str]) -> list[tuple[int, int, str]]:
    """Where somebody known is called by name, longer names first: runs of whole words, and of Han signs."""
    if not known:
        return []
    spans: list[tuple[int, int]] = []
    found_words = [(match.start(), match.end()) for match in _WORD.finditer(text)]
    for length in range(_LONGEST_NAME, 0, -1):
        spans += [
            (found_words[place][0], found_words[place + length - 1][1])
            for place in range(len(found_words) - length + 1)
        ]
        for run in _HAN_RUN.finditer(text):
            spans += [(start, start + length) for start in range(run.start(), run.end() - length + 1)]
    # One pass over the text where folding keeps its length, which it does but for a few signs.
    plain = text.casefold()
    whole = len(plain) == len(text)
    hits = []
    for start, end in spans:
        called = plain[start:end] if whole else text[start:end]
        if called.endswith(_POSSESSIVE):
            called = _possessor(called)
        name = known.get(called if whole and called.isascii() else folded(called))
        if name is not None:
            hits.append((start, end, name))
    return hits
