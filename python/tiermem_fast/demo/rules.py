"""The demo's own rules: how much a turn matters, and whether a reply used a memory.

They are few and made of words that anybody can check; they are not the write policy of the package, which weighs more
than words. Owns :func:`judge` and :func:`repeated`; calls nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

__all__ = [
    "PROFILE",
    "RULES",
    "SMALL_TALK",
    "Judgement",
    "Rule",
    "judge",
    "names",
    "repeated",
    "speaks_chinese",
    "telling_words",
]

PROFILE: Final = {
    "en": "My name, my job and my hobbies, what I like, prefer and usually do",
    "zh": "我的名字、我的工作和我的爱好，我喜欢什么，通常做什么",
}
"""What the demo's agent asks its memory when a session begins."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How much a turn matters, 0 to 1, and the names of the rules that said so."""

    importance: float
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a turn gains or loses when a pattern is found in it; ``roles`` are those whose turns it looks at."""

    name: str
    gain: float
    roles: tuple[str, ...]
    pattern: re.Pattern[str]


BASE: Final = {"user": 0.5, "assistant": 0.4, "system": 0.5, "tool": 0.4}
"""What a turn starts from: the person's own words count more than the replies."""

_I: Final = r"\bI(?:'m|'ve|’m|’ve| am| have)?\b(?: \w+){0,2}? "

RULES: Final = (
    Rule(
        "asks to be remembered",
        0.3,
        ("user",),
        re.compile(
            r"\bremember (?:that|this|my)\b|\b(?:don['’]t|never) forget|\bfrom now on\b|记住|别忘|不要忘|从现在起|今后",
            re.IGNORECASE,
        ),
    ),
    Rule(
        "lasting: name, taste, habit",
        0.25,
        ("user",),
        re.compile(
            rf"\bmy (?:name|favou?rite|hobb|job|wife|husband|son|daughter|birthday)|\bmy \w+ is\b"
            rf"|{_I}(?:like|love|prefer|enjoy|hate|dislike|usually|always|never|live|work as|work at)\b"
            r"|我叫|我的(?:名字|爱好|兴趣|工作|生日)|我[^，。！？、]{0,6}?(?:喜欢|爱(?:吃|喝|听|看|好)|讨厌|习惯|享受|通常|总是|从不|住在)",
            re.IGNORECASE,
        ),
    ),
    Rule(
        "of the day: done, going on, planned",
        0.1,
        ("user",),
        re.compile(
            rf"{_I}(?:went|made|met|saw|read|tried|bought|started|reading|learning|studying|preparing|thinking of|plan|hope to|want to)\b"
            r"|我[^，。！？]{0,10}?(?:去了|做了|看了|买了|跑步|在学|在看|在准备|学习|思考|想学|想去|打算|计划|正在)|最近在(?:学|看|做|准备)",
            re.IGNORECASE,
        ),
    ),
    Rule(
        "gives advice",
        0.1,
        ("assistant", "user"),
        re.compile(
            r"\b(?:you (?:can|could|might|should)|(?:i|would) (?:suggest|recommend|advise))\b|你[^，。！？]{0,4}可以|建议你|不妨",
            re.IGNORECASE,
        ),
    ),
    Rule(
        "has a name, title or number",
        0.1,
        ("user", "assistant", "system", "tool"),
        re.compile(r"[\"“][^\"”]{2,40}[\"”]|《[^》]+》|\d|(?<=[a-z,;] )(?!I\b|AI\b)[A-Z][\w-]+|我(?:的名字是|叫)\w"),
    ),
)
"""What adds to the importance of a turn, each at most once."""

SMALL_TALK: Final = Rule(
    "small talk",
    -0.2,
    ("user", "assistant"),
    re.compile(
        r"\b(?:hello|hi|hey|thanks?|thank you|welcome|good ?bye|bye|good night|sweet dreams|see you|nice to meet|talk (?:again|to you))\b"
        r"|你好|您好|谢谢|感谢|不用谢|不客气|再见|明天见|晚安|好梦|明天再聊|下次再聊|保持联系|来和你聊天",
        re.IGNORECASE,
    ),
)
"""Takes from a turn to which no other rule applies."""


def judge(role: str, content: str) -> Judgement:
    """How much a turn matters.

    Examples
    --------
    >>> judge("user", "Hello, my name is Frank.")
    Judgement(importance=0.85, rules=('lasting: name, taste, habit', 'has a name, title or number'))
    >>> judge("user", "我喜欢徒步和攀岩。").importance, judge("assistant", "明天见！").importance
    (0.75, 0.2)
    """
    held = [rule for rule in RULES if role in rule.roles and rule.pattern.search(content)]
    if not held and role in SMALL_TALK.roles and SMALL_TALK.pattern.search(content):
        held = [SMALL_TALK]
    total = BASE[role] + sum(rule.gain for rule in held)
    return Judgement(round(min(max(total, 0.0), 1.0), 2), tuple(rule.name for rule in held))


# Words that hold a sentence or a chat together and tell nothing of its topic.
_LITTLE: Final = frozenset(
    """
    about above after again all also although always am an and another any anything are around as at away back be
    because been before being best better between both bring but by can come could day days did different do does doing
    done down each easily else enjoy especially even ever every everyone everything experience face feel feeling few
    find first for from get getting give go going good got great had happy has have having he hear hello help helpful her
    here hi him his hope how however i if important in into is it its just keep kind know lately later learn let life
    like little lot made make many may maybe me mean mind more most much must my myself need never new next nice no not
    now of often ok okay on one only or other others our out over own part people person please provide quite rather
    really recently right same say second secondly see self share should so some someone something sometimes sound
    sounds still such sure take talk than thank thanks that the their them then there these they thing things think this
    those thought through time to today together tomorrow tonight too topic topics try us use used useful usually very
    want was way ways we welcome well were what when where which while who why will wish with without work would yes
    yesterday yet you your yourself chat chatting companion friend friends interact suggest suggestion suggestions
    advice ask answer ai pleasant finally etc don doesn isn related
    """.split()  # noqa: SIM905  # a page of words is read as a page
)
_LITTLE_HAN: Final = frozenset(
    "的了是在我你您他她它们这那有和与或也都很就不没还要会能可以对把被让给到着过吗呢吧啊哦嗯呀什么怎样为因所但如果就像些个种样多少一二三两更最非常太真说话次再见聊天觉得感谢想知道时候自己"
)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'’-]+|[\u3400-\u9fff]+")
_STEM = 6


def telling_words(text: str) -> dict[str, str]:
    """The words that tell the topic: for comparison (a folded beginning, or a pair of Han signs), and as written.

    Examples
    --------
    >>> telling_words("Rock climbing is what I climb for.")
    {'rock': 'Rock', 'climbi': 'climbing', 'climb': 'climb'}
    >>> list(telling_words("我在学习攀岩"))
    ['学习', '习攀', '攀岩']
    """
    words: dict[str, str] = {}
    for run in _WORD.findall(text):
        if run[0] < "\u3400":
            for part in re.split(r"['’-]", run):
                folded = part.casefold()
                if len(folded) > 2 and folded not in _LITTLE:
                    words.setdefault(folded[:_STEM], part)
        else:
            for pair in map("".join, pairwise(run)):
                if not _LITTLE_HAN.intersection(pair):
                    words.setdefault(pair, pair)
    return words


def _common_words(memory: str, reply: str) -> tuple[str, ...]:
    """The telling words of a memory that a reply has too; pairs of Han signs that overlap are one stretch of text."""
    said = telling_words(reply)
    common: list[str] = []
    for key, word in telling_words(memory).items():
        if key not in said:
            continue
        if common and word[0] >= "\u3400" and common[-1][-1] == word[0] and common[-1] + word[1] in memory:
            common[-1] += word[1]
        else:
            common.append(word)
    return tuple(common)


_QUOTED: Final = re.compile(r"[\"“]([^\"”]{2,40})[\"”]|《([^》]{1,40})》")
_INTRODUCED: Final = re.compile(r"我(?:的名字是|的名字叫|叫做?)(\w{2,4})")
_CAPITAL: Final = re.compile(r"(?<=[a-z,;] )(?!I\b|AI\b)[A-Z][\w-]+")


def names(text: str) -> tuple[str, ...]:
    """The names in a text: in quotes, with a capital within a sentence, or as a person introduces themself.

    Examples
    --------
    >>> names('My name is Frank, I watch "Home Cooking".'), names("你好，我的名字是王峰，在看《活着》。")
    (('Frank', 'Home Cooking'), ('王峰', '活着'))
    """
    found = {match.start(): match[1] or match[2] for match in _QUOTED.finditer(text)}
    unquoted = _QUOTED.sub(lambda match: " " * len(match[0]), text)
    found |= {match.start(): match[1] for match in _INTRODUCED.finditer(unquoted)}
    found |= {match.start(): match[0] for match in _CAPITAL.finditer(unquoted)}
    return tuple(dict.fromkeys(name for _, name in sorted(found.items())))


def repeated(memory: str, reply: str) -> tuple[str, ...]:
    """What a reply repeats of a memory: one name in it, or two of its telling words; nothing when it is less.

    Examples
    --------
    >>> repeated("I like hiking and rock climbing.", "Rock climbing takes time and skill.")
    ('rock', 'climbing')
    >>> repeated("I like hiking and rock climbing.", "What would you like to talk about?")
    ()
    >>> repeated("My name is Frank.", "Hello Frank, how are you?")
    ('Frank',)
    >>> repeated("聊聊我的兴趣爱好吧", "你的兴趣爱好真多"), repeated("我常去公园", "公园的花开了")
    (('兴趣爱好',), ())
    """
    words = _common_words(memory, reply)
    named = tuple(name for name in names(memory) if name in reply)
    if named:
        return (*named, *(word for word in words if not any(word in name for name in named)))
    # Four Han signs in a row are two words of two.
    count = sum(len(word) // 2 if word[0] >= "\u3400" else 1 for word in words)
    return words if count >= 2 else ()


_HAN: Final = re.compile(r"[\u3400-\u9fff]")


def speaks_chinese(texts: Iterable[str]) -> bool:
    """Whether the texts are Chinese: a third of their signs are Han."""
    joined = "".join(texts)
    return 3 * len(_HAN.findall(joined)) > len(joined)
