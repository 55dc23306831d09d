"""``tiermem demo``: a replay, told to a person.

Owns the command, its progress bar and how a report is laid out. Calls :mod:`tiermem_fast.demo`, which does everything
that is shown.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from tiermem_fast import build_info
from tiermem_fast.demo import conversation as conversations
from tiermem_fast.demo.replay import config, replay
from tiermem_fast.demo.rules import speaks_chinese
from tiermem_fast.demo.schema import document, spread
from tiermem_fast.memory import TierMemory
from tiermem_fast.tiers import Tier

from .ending import Json, Page, refuse, speaks, write_json
from .prose import Prose, cut
from .words import CHINESE, ENGLISH, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiermem_fast.demo.conversation import Conversation
    from tiermem_fast.demo.replay import Answer, Fate, Missed, Report

__all__ = ["HELP", "demo", "told"]

HELP = (
    "Replay a real conversation through the four tiers and ask questions of what is left.\n\n"
    "Turn by turn with its real dates: working memory, then episodic, then semantic by the laws of the store; weeks "
    "pass; then each question gets its briefing, with ids, tier, strength, score, reason, and the time the call took. "
    "The output is the same each run but for the measured times.\n\n"
    "The fields of --json are told in docs/demo.md; its schema is tiermem-demo/1.\n\n"
    "Exit codes: 0 done, 1 failed, 2 wrong arguments or input, 130 stopped by Ctrl-C, 141 output closed."
)
"""What ``tiermem demo --help`` says."""

_FEW = 3
"""Memories that a list names unless all are asked for."""

_TABLE_WIDTH = 78
"""Cells that the table of the tiers takes at most."""

_BRIEF = 84
"""Signs of a text that are shown unless all are asked for; a Han sign is as wide as two others."""


def demo(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="Your own conversation, JSON or JSONL: role (user, assistant, system, tool), content, time (ISO 8601 day "
            "or moment, or seconds since 1970), session (a day is one when it is left out). Without FILE, the shipped one.",
        ),
    ] = None,
    lang: Annotated[str | None, typer.Option(help="Which shipped conversation: en or zh.", show_default="en")] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(help="Ask this in place of the questions in the file; may be given again.", show_default=False),
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="Whose conversation, of a file with groups.", show_default="the first")
    ] = None,
    weeks: Annotated[int, typer.Option(min=0, max=520, help="Weeks between the last turn and the questions.")] = 4,
    embedder: Annotated[
        str,
        typer.Option(
            help="lexical (built in: wording, not meaning), none (keywords only), or a library and a model, as in "
            "sentence-transformers:NAME.",
        ),
    ] = "lexical",
    save: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the store in this new directory.", show_default="in RAM")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Name every memory that was let go; show whole texts.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Replay a conversation and tell what became of it; :data:`HELP` is what a reader of ``--help`` gets."""
    with speaks():
        if file is not None and lang is not None:
            refuse("--lang chooses a shipped conversation; leave it out when FILE is given")
        if save is not None and save.exists() and (not save.is_dir() or any(save.iterdir())):
            refuse(f"--save: {save} is not empty; name a new directory, so that nothing is mixed")
        chosen = _conversation(file, lang, person, ask)
        if chosen.ignored:
            sys.stderr.write(f"note: fields that mean nothing here were passed over: {', '.join(chosen.ignored)}\n")
        chosen_embedder = None if embedder == "none" else embedder
        with TierMemory.open(save, embedder=chosen_embedder, config=config()) as mem, _bar(chosen.name) as on_step:
            report = replay(chosen, mem, stopwatch=time.perf_counter, weeks=weeks, on_step=on_step)
        if as_json:
            write_json(document(report))
            return
        console = Page(highlight=False)
        for part in told(report, weeks=weeks, saved=save, everything=everything, width=console.width):
            console.print(part)


def _conversation(file: Path | None, lang: str | None, person: str | None, ask: list[str] | None) -> Conversation:
    if file is None:
        if person is not None:
            refuse("--person: the shipped conversation is of one person; give a FILE with groups")
        chosen = conversations.shipped("en" if lang is None else lang)
    else:
        chosen = conversations.read(file, person=person)
    if ask:
        chosen = conversations.with_questions(chosen, ask)
    return chosen


@contextmanager
def _bar(name: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error that leaves nothing behind; none when nobody looks."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _done, _of: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, of: progress.update(task, completed=done, total=of)


# The report, part by part.


def told(report: Report, *, weeks: int, saved: Path | None, everything: bool, width: int) -> Iterator[RenderableType]:
    """The parts of a report in the order in which they are read."""
    words = CHINESE if speaks_chinese(turn.content for turn in report.conversation.turns) else ENGLISH
    yield _opening(report, words, saved)
    yield _section(words.how, *(_item(rule.format(weeks=weeks)) for rule in words.decided))
    yield _section(words.table, _table(report, words, narrow=width < _TABLE_WIDTH), Prose(words.table_note, "dim"))
    for event, heading in (("promoted", words.promoted), ("merged", words.merged), ("let go", words.let_go)):
        yield _fates(report.of(event), heading, words, everything=everything)
    if not report.answers:
        yield _section(words.questions.format(day=words.full_day(report.asked_at.date())), Prose(words.no_questions))
    else:
        yield _section(words.questions.format(day=words.full_day(report.asked_at.date())))
        for number, answer in enumerate(report.answers, 1):
            yield _answer(number, answer, words, everything=everything)
        yield _section(words.prompt, Prose(report.answers[0].briefing.text or words.empty, "dim"))
    yield _closing(report, words)


def _section(heading: str, *parts: RenderableType) -> RenderableType:
    return Group(Text(), Prose(heading, "bold"), *(Padding(part, (0, 0, 0, 2), expand=False) for part in parts))


def _item(text: str) -> RenderableType:
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_row("•", Prose(text))
    return row


def _opening(report: Report, words: Words, saved: Path | None) -> RenderableType:
    conversation = report.conversation
    lines = [
        words.extent.format(
            turns=len(conversation.turns),
            sessions=conversation.sessions,
            first=words.day(conversation.turns[0].time.date()),
            last=words.full_day(conversation.turns[-1].time.date()),
            origin=conversation.origin,
        ).strip()
    ]
    if conversation.dated:
        lines.append(words.hours_were_set)
    if report.model_id is None:
        lines.append(words.keywords)
    else:
        sentence = words.lexical if report.model_id.startswith("lexical-") else words.other_embedder
        lines.append(sentence.format(model=report.model_id))
    if saved is not None:
        lines.append(words.kept_in.format(path=saved))
    return Group(Prose(f"tiermem demo · {conversation.name}", "bold"), *map(Prose, lines))


def _table(report: Report, words: Words, *, narrow: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    # On a narrow page what only sums up gives way to what happened.
    columns = (0, 2, 3, 4, 8) if narrow else range(len(words.headings))
    for column in columns:
        table.add_column(words.headings[column], justify="right", no_wrap=True)
    for period in report.periods:
        means = [period.strength[Tier.EPISODIC], period.strength[Tier.SEMANTIC]]
        working = period.tiers[Tier.WORKING]
        cells = (
            words.day(period.last),
            str(period.said or "–"),
            f"{period.most_working}→{working}" if period.most_working else str(working),
            str(period.tiers[Tier.EPISODIC]),
            str(period.tiers[Tier.SEMANTIC]),
            *(str(count or "–") for count in (period.used, period.promoted, period.merged, period.let_go)),
            "/".join("–" if mean is None else f"{mean:.2f}" for mean in means),
        )
        table.add_row(*(cells[column] for column in columns), style=None if period.said else "dim")
    return table


def _fates(fates: Sequence[Fate], heading: str, words: Words, *, everything: bool) -> RenderableType:
    if not fates:
        return _section(heading.format(count=words.none))
    # Of what was let go, what mattered most is what somebody may ask about.
    ranked = sorted(fates, key=lambda fate: -fate.importance) if fates[0].event == "let go" else list(fates)
    named = ranked if everything else ranked[:_FEW]
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for fate in named:
        rules = f" ({words.semicolon.join(map(words.said, fate.rules))})" if fate.rules else ""
        importance = words.importance.format(value=fate.importance) + rules
        parts = [words.day(fate.time.date()), words.said(fate.reason), importance]
        if fate.into is not None:
            parts.append(words.into.format(id=_mark(fate.into).plain))
        if fate.event == "promoted":
            days = [f"{words.day(use.time.date())} ({words.comma.join(use.words[:3])})" for use in fate.uses]
            parts.append(words.used_on.format(days=words.comma.join(dict.fromkeys(days))))
        table.add_row(_mark(fate.id), _quoted(fate.text, " · ".join(parts), everything=everything))
    rest = len(ranked) - len(named)
    return _section(
        heading.format(count=len(fates)), table, *([Prose(words.more.format(count=rest), "dim")] if rest else [])
    )


def _mark(id: str) -> Text:
    return Text(f"m:{id[-8:]}", style="cyan")


def _quoted(text: str, beneath: str, *, everything: bool) -> RenderableType:
    row = " ".join(text.split())
    if not everything and cell_len(row) > _BRIEF:
        row = cut(row, _BRIEF - 1).rstrip() + "…"
    return Group(Prose(row), Prose(beneath, "dim"))


def _answer(number: int, answer: Answer, words: Words, *, everything: bool) -> RenderableType:
    briefing = answer.briefing
    parts: list[RenderableType] = []
    if briefing.items:
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
        for place, heading in enumerate(words.columns):
            table.add_column(heading, justify="right" if place in (2, 3) else "left", no_wrap=place < 4)
        shown = briefing.items if everything else briefing.items[:_FEW]
        for item in shown:
            why = words.why.format(
                source=words.said(item.source.value),
                day=words.day(item.created_at.date()),
                why=words.said(item.why),
                relevance=item.relevance or 0.0,
                importance=item.importance,
            )
            table.add_row(
                Text(item.citation, style="cyan"),
                words.said(item.tier.value),
                "–" if item.strength is None else f"{item.strength:.2f}",
                "–" if item.score is None else f"{item.score:.2f}",
                _quoted(item.text, why, everything=everything),
            )
        parts.append(table)
        rest = len(briefing.items) - len(shown)
        if rest:
            parts.append(Prose(words.more.format(count=rest), "dim"))
    else:
        parts.append(Prose(words.empty))
    milliseconds = f"{answer.seconds * 1e3:.2f}"
    cost = words.cost.format(
        count=len(briefing.items), tokens=briefing.tokens, budget=briefing.budget, milliseconds=milliseconds
    )
    reasons = Counter(words.said(one.reason.value) for one in briefing.dropped)
    if reasons:
        cost += " " + words.left_out.format(reasons=words.comma.join(f"{n} {reason}" for reason, n in reasons.items()))
    parts.append(Prose(cost, "dim"))
    parts += _verdict(answer, words)
    return Group(
        Text(),
        Prose(f"{number}. {answer.question.text}", "bold"),
        *(Padding(part, (0, 0, 0, 2), expand=False) for part in parts),
    )


def _verdict(answer: Answer, words: Words) -> list[RenderableType]:
    if answer.held is None:
        return []
    if not answer.question.turns:
        if answer.briefing.items:
            return [Prose(words.wrongly_full, "yellow")]
        return [Prose(words.rightly_empty, "green")]
    if answer.held:
        return [Prose(words.holds.format(turns=words.comma.join(f"#{turn}" for turn in answer.held)), "green")]
    why = words.semicolon.join(_missed(turn, missed, words) for turn, missed in answer.missed.items())
    return [Prose(words.lacks.format(why=why), "yellow")]


def _missed(turn: int, missed: Missed, words: Words) -> str:
    if missed.time is None:
        return f"#{turn} {words.said(missed.reason)}{f' ({missed.detail})' if missed.detail else ''}"
    return f"#{turn} {words.gone.format(day=words.day(missed.time.date()), why=words.said(missed.detail))}"


def _closing(report: Report, words: Words) -> RenderableType:
    lines: list[str] = []
    known = [answer for answer in report.answers if answer.held is not None]
    answerable = [answer for answer in known if answer.question.turns]
    others = [answer for answer in known if not answer.question.turns]
    if answerable:
        right = sum(bool(answer.held) for answer in answerable)
        lines.append(words.answered.format(right=right, all=len(answerable)))
    if others:
        right = sum(not answer.briefing.items for answer in others)
        lines.append(words.unrelated.format(right=right, all=len(others)))
    briefs, adds = spread(report.briefed), spread(report.written)
    if briefs["calls"]:
        lines.append(
            words.speed.format(
                profile=build_info()["profile"],
                memories=sum(report.periods[-1].tiers.values()),
                brief=_short(briefs["median"]),
                briefs=briefs["calls"],
                p95=_short(briefs["p95"]),
                add=_short(adds["median"]),
            )
        )
    return Group(Text(), *map(Prose, lines))


def _short(milliseconds: Any) -> str:
    return f"{milliseconds:.2f}"
