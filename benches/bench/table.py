"""The report: rows with their ratios, printed, and kept as JSON and Markdown. Nothing is asserted, losses are shown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .timing import Figures


@dataclass
class Row:
    """One comparison."""

    subject: str
    what: str
    ours: float
    unit: str
    beside: str = "–"
    theirs: float | None = None
    ratio: float | None = None
    """Ours to theirs, the median of pairs where there were rounds."""
    target: str = ""
    """What the ratio, or where it says a unit the value, is to reach."""
    met: bool | None = None
    quality: str = ""
    """Recall or share found, ours / theirs."""
    detail: dict[str, Any] = field(default_factory=dict)


def number(value: float | None) -> str:
    """Three significant digits, thousands apart."""
    if value is None:
        return "–"
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


class Table:
    """The rows of a run, and where it took place."""

    def __init__(self, machine: dict[str, str]) -> None:
        self.machine = machine
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Takes a row and prints it."""
        self.rows.append(row)
        print(
            f"{row.subject:10} {row.what:58} {number(row.ours):>9} {row.unit:9} {row.beside:30}"
            f" {number(row.theirs):>9}  x{number(row.ratio):6} {row.target:10} {row.quality}",
            flush=True,
        )

    def compare(
        self,
        subject: str,
        what: str,
        ours: Figures,
        beside: str,
        theirs: Figures,
        *,
        at_most: float | None = None,
        quality: str = "",
    ) -> None:
        """A row of p50 beside p50."""
        ratio = ours.ratio(theirs)
        self.add(
            Row(
                subject, what, ours.p50, "ms p50", beside, theirs.p50, ratio,
                target="" if at_most is None else f"≤ {at_most:g} ×",
                met=None if at_most is None else ratio <= at_most,
                quality=quality,
                detail={"ours": ours.as_json(), "theirs": theirs.as_json(), "cpu_ratio": ours.cpu_ratio(theirs)},
            )
        )  # fmt: skip

    def value(
        self,
        subject: str,
        what: str,
        ours: float,
        unit: str,
        *,
        beside: str = "–",
        theirs: float | None = None,
        at_most: float | None = None,
        at_least: float | None = None,
        of_ratio: bool = True,
        quality: str = "",
        **detail: Any,
    ) -> None:
        """A row of single figures; the target is on the ratio, or on the value when there is none."""
        ratio = ours / theirs if theirs else None
        judged = ratio if of_ratio and ratio is not None else ours
        suffix = " ×" if of_ratio and ratio is not None else f" {unit}"
        target, met = "", None
        if at_most is not None:
            target, met = f"≤ {at_most:g}{suffix}", judged <= at_most
        if at_least is not None:
            target, met = f"≥ {at_least:g}{suffix}", judged >= at_least
        self.add(Row(subject, what, ours, unit, beside, theirs, ratio, target, met, quality, detail))

    def as_markdown(self) -> str:
        """The table, after the machine."""
        lines = [f"* {name}: {value}" for name, value in self.machine.items()]
        head = (
            "| what | ours | p99 | beside | theirs | p99 | ratio | CPU ratio | target | met | recall, ours / theirs |"
        )
        subject = None
        subjects = list(dict.fromkeys(row.subject for row in self.rows))
        for row in sorted(self.rows, key=lambda row: subjects.index(row.subject)):
            if row.subject != subject:
                subject = row.subject
                lines += ["", f"### {subject}", "", head, "|---|---:|---:|---|---:|---:|---:|---:|---|---|---|"]
            mine, other = row.detail.get("ours", {}), row.detail.get("theirs", {})
            met = {None: "", True: "yes", False: "**no**"}[row.met]
            lines.append(
                f"| {row.what} | {number(row.ours)} {row.unit} | {number(mine.get('p99_ms'))} | {row.beside}"
                f" | {number(row.theirs)} | {number(other.get('p99_ms'))} | {number(row.ratio)}"
                f" | {number(row.detail.get('cpu_ratio'))} | {row.target} | {met} | {row.quality} |"
            )
        return "\n".join(lines) + "\n"

    def save(self, folder: Path, name: str) -> None:
        """Writes JSON and Markdown."""
        folder.mkdir(parents=True, exist_ok=True)
        whole = {"machine": self.machine, "rows": [asdict(row) for row in self.rows]}
        (folder / f"{name}.json").write_text(json.dumps(whole, indent=1, ensure_ascii=False), "utf8")
        (folder / f"{name}.md").write_text(self.as_markdown(), "utf8")
