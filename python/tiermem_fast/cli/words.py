"""What the demo says, in the language of the conversation.

Owns the sentences and the translations of what the store gives as reasons; calls nothing. A reason that has no
translation is said as it came.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Final

__all__ = ["CHINESE", "ENGLISH", "Words"]

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class Words:
    """The sentences of one language; those with fields in braces are filled in."""

    day: Callable[[date], str]
    full_day: Callable[[date], str]
    extent: str
    hours_were_set: str
    keywords: str
    lexical: str
    other_embedder: str
    kept_in: str
    how: str
    decided: tuple[str, ...]
    table: str
    table_note: str
    headings: tuple[str, ...]
    promoted: str
    merged: str
    let_go: str
    none: str
    importance: str
    used_on: str
    into: str
    more: str
    questions: str
    columns: tuple[str, ...]
    why: str
    empty: str
    cost: str
    left_out: str
    holds: str
    lacks: str
    rightly_empty: str
    wrongly_full: str
    prompt: str
    no_questions: str
    answered: str
    unrelated: str
    speed: str
    translations: dict[str, str]
    comma: str
    semicolon: str
    gone: str

    def said(self, reason: str) -> str:
        """A reason in this language."""
        return self.translations.get(reason, reason)


ENGLISH: Final = Words(
    day=lambda day: f"{day.day} {_MONTHS[day.month - 1]}",
    full_day=lambda day: f"{day.day} {_MONTHS[day.month - 1]} {day.year}",
    extent="{turns} turns in {sessions} sessions, {first} to {last}. {origin}",
    hours_were_set="The source dates days, not hours: the turns of a day are set a minute apart from 19:00.",
    keywords="Search: keywords only, no embedder.",
    lexical="Search: keywords, and the built-in embedder {model}: lexical, not semantic; it knows wording, not meaning.",
    other_embedder="Search: keywords, and the embedder {model}.",
    kept_in="The store is kept in {path}.",
    how="How it is decided",
    decided=(
        "Every turn enters the working memory of its session. Its importance is set by the demo's own rules, a few word patterns: names, tastes and habits count most, small talk least.",
        "When a session is over, the better half of its turns (importance × strength) becomes episodic, the rest is let go. These are the laws of the store, as are all below.",
        "Before each reply the agent asks the store about the turn, and when a session begins about the person. A memory was used if the reply really given repeats a name in it, or two of its telling words.",
        "Used three times, an hour or more apart, and importance 0.7 or more: episodic becomes semantic.",
        "After the last turn {weeks} weeks pass without a word. Then the questions are asked.",
    ),
    table="What became of the turns",
    table_note="working: the most at once → the rest at the end; strength: mean of episodic/semantic.",
    headings=("until", "said", "working", "episodic", "semantic", "used", "promoted", "merged", "let go", "strength"),
    promoted="Promoted from episodic to semantic: {count}",
    merged="Merged: {count}",
    let_go="Let go: {count}",
    none="none",
    importance="importance {value:.2f}",
    used_on="used on {days}",
    into="into {id}",
    more="… and {count} more; --all names them",
    questions="Asked on {day}",
    columns=("memory", "tier", "strength", "score", "what it says, and why it is here"),
    why="{source}, {day} · {why} · relevance {relevance:.2f} · importance {importance:.2f}",
    empty="Nothing relevant: the briefing is empty, and nothing goes into the prompt.",
    cost="{count} memories, {tokens} of {budget:,} tokens, {milliseconds} ms.",
    left_out="Left out: {reasons}.",
    holds="✓ The turn that answers it is there ({turns}).",
    lacks="✗ The turn that answers it is not there. {why}",
    rightly_empty="✓ Nothing in the conversation answers it.",
    wrongly_full="✗ Nothing in the conversation answers it; these memories only share words with it.",
    prompt="What the prompt gets for question 1",
    no_questions='No questions were given: ask some with --ask "…", as often as you like.',
    answered="Answered by a turn: the briefing has it for {right} of {all}.",
    unrelated="Answered by nothing: the briefing is empty for {right} of {all}.",
    speed=(
        "Measured here ({profile} build, {memories} memories): a briefing {brief} ms (median of {briefs}, 95 % within "
        "{p95} ms), a turn written in {add} ms."
    ),
    translations={
        "below_threshold": "unrelated",
        "over_budget": "no room",
        "duplicate": "says the same",
        "not found": "not found: no word in common",
    },
    comma=", ",
    semicolon="; ",
    gone="let go on {day}: {why}",
)

CHINESE: Final = Words(
    day=lambda day: f"{day.month}月{day.day}日",
    full_day=lambda day: f"{day.year}年{day.month}月{day.day}日",
    extent="{turns} 句话，{sessions} 次会话，{first}至{last}。{origin}",
    hours_were_set="原始数据只有日期：每天的对话从 19:00 起按一分钟一句排列。",
    keywords="检索：只用关键词，没有嵌入模型。",
    lexical="检索：关键词，加上内置嵌入 {model}：它是词面的，不是语义的，只认用词，不懂含义。",
    other_embedder="检索：关键词，加上嵌入模型 {model}。",
    kept_in="存储保留在 {path}。",
    how="怎样决定",
    decided=(
        "每句话先进入本次会话的工作记忆。重要性由演示自带的几条词语规则给出：姓名、喜好、习惯最高，寒暄最低。",
        "会话结束后，按“重要性×强度”较好的一半成为情景记忆，其余放下。这是存储本身的法则，以下也是。",
        "每次回复之前，助手就这句话询问存储；会话开始时还会询问此人的情况。如果真实的回复里出现了某条记忆中的名字，或至少两个实词，就算用到了它。",
        "用到三次、彼此相隔一小时以上，且重要性不低于 0.7：情景记忆成为语义记忆。",
        "最后一句话之后静默 {weeks} 周，然后提问。",
    ),
    table="每句话的去向",
    table_note="工作：当天最多 → 当天结束时；强度：情景/语义的平均值。",
    headings=("截至", "说了", "工作", "情景", "语义", "用到", "提升", "合并", "放下", "强度"),
    promoted="由情景提升为语义：{count}",
    merged="合并：{count}",
    let_go="放下：{count}",
    none="无",
    importance="重要性 {value:.2f}",
    used_on="用到：{days}",
    into="并入 {id}",
    more="……另有 {count} 条，--all 全部列出",
    questions="{day}提问",
    columns=("记忆", "层", "强度", "得分", "内容，以及为何在此"),
    why="{source}，{day} · {why} · 相关度 {relevance:.2f} · 重要性 {importance:.2f}",
    empty="没有相关的内容：简报为空，提示词里什么也不放。",
    cost="{count} 条记忆，{tokens} / {budget:,} 词元，{milliseconds} 毫秒。",
    left_out="未放入：{reasons}。",
    holds="✓ 含有能回答它的那句话（{turns}）。",
    lacks="✗ 能回答它的那句话不在其中。{why}",
    rightly_empty="✓ 对话里没有它的答案。",
    wrongly_full="✗ 对话里没有它的答案；这些记忆只是与它用词相近。",
    prompt="第 1 个问题放进提示词的文字",
    no_questions="没有给出问题：用 --ask “……” 提问，可以多次。",
    answered="对话里有答案的问题：{all} 个中有 {right} 个，简报含有那句话。",
    unrelated="对话里没有答案的问题：{all} 个中有 {right} 个，简报为空。",
    speed="本机实测（{profile} 构建，{memories} 条记忆）：一次简报 {brief} 毫秒（{briefs} 次的中位数，95% 在 {p95} 毫秒以内），写入一句话 {add} 毫秒。",
    translations={
        "below_threshold": "不相关",
        "over_budget": "放不下",
        "duplicate": "意思相同",
        "not found": "没有找到：与问题没有共同的词",
        "working": "工作",
        "episodic": "情景",
        "semantic": "语义",
        "procedural": "程序",
        "user": "用户",
        "assistant": "助手",
        "tool": "工具",
        "system": "系统",
        "answers the question": "回答了问题",
        "in working memory": "在工作记忆中",
        "said lately in this session": "本次会话中刚说过",
        "used again and again": "一再被用到",
        "said in several sessions": "在多次会话中说过",
        "says the same in nearly the same words": "用几乎相同的话说了同样的意思",
        "idle in the working tier": "工作记忆中闲置",
        "the working tier overflowed": "工作记忆已满",
        "its end has come": "到期",
        "asks to be remembered": "要求记住",
        "lasting: name, taste, habit": "长久的：姓名、喜好、习惯",
        "of the day: done, going on, planned": "近来的：做过、在做、打算做",
        "gives advice": "给出建议",
        "has a name, title or number": "有名称、书名或数字",
        "small talk": "寒暄",
    },
    comma="，",
    semicolon="；",
    gone="{day}放下：{why}",
)
