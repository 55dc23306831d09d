"""The table of the libraries: figures as measured, failures by their message."""

from __future__ import annotations

import os
from pathlib import Path

from bench.data import DIMENSION as DIM

from .adapters import ADAPTERS
from .workload import DATASETS, K


def cell(r, key, *more):
    """A printable number out of a nested result, or why there is none."""
    v = r
    for k in (key, *more):
        if isinstance(v, str):
            return "n/a" if v == "not offered" else "fails"
        v = v.get(k) if isinstance(v, dict) else None
    if v is None:
        return "-"
    return f"{v:,.0f}" if v >= 100 else f"{v:.3g}" if v >= 1 else f"{v:.2g}"


def recall_cell(r, key):
    v = r.get(key)
    return f"{v['recall']:.3f}" if isinstance(v, dict) and "recall" in v else cell(r, key, "recall")


def write_report(results: dict, out_path: Path) -> None:
    """Writes the Markdown table."""
    head = (
        f"# Memory libraries side by side\n\nk={K}, {DIM}-d float32 vectors, {os.cpu_count()} cores, "
        "times in ms unless said, as p50 / p99 [CPU of the process per call, all threads]; every row from processes of "
        "its own; *others* = share of all cores that other processes used meanwhile: where it is high, trust the CPU "
        "figures and distrust p99.\n"
    )
    out = [head]
    out += [
        "| system | version | import s (warm) | site-packages MiB | dists | found of 100 after kill -9 |",
        "|" + "---|" * 6,
    ]
    for name, r in results.items():
        pkg = ADAPTERS[name].packages[-1 if name == "milvus-lite" else 0] if name in ADAPTERS else name
        version = next((v for k, v in r["versions"].items() if k.lower().replace("_", "-") == pkg.lower()), "?")
        out.append(
            f"| {name} | {version} | {r['import']['best_s']:.3f} | {cell(r, 'site_packages_mb')}"
            f" | {r.get('distributions', '-')} | {r.get('kill9_found_of_100', 'in memory only')} |"
        )
    head = (
        "system | stored | bulk add/s | add one | search | recall | search +tag | recall |"
        " search after 1-by-1 adds | touch | search while adding (adds/s reached, 500 tried) |"
        " persist, close s | reopen to 1st answer s | delete user s | B/memory | RSS +MiB import / data | others"
    )
    for dataset in DATASETS:
        out += [f"\n## {dataset}\n", f"| {head} |", "|" + "---|" * 17]
        for name, row in results.items():
            r = row["datasets"].get(dataset) or {}
            re = r.get("reopen", {})

            def pair(key):
                if not isinstance(r.get(key), dict):
                    return cell(r, key, "p50_ms")
                cpu = f" [{cell(r, key, 'cpu_ms')}]" if "cpu_ms" in r[key] else ""
                return f"{cell(r, key, 'p50_ms')} / {cell(r, key, 'p99_ms')}{cpu}"

            con = r.get("concurrent")
            con = pair("concurrent") + (
                f" ({con['adds_per_s']:.0f}{', writer fails' if con['writer_errors'] else ''})"
                if isinstance(con, dict)
                else ""
            )
            full = DATASETS[dataset][0]
            stored = r.get("stored", 0)
            deleted = re.get("delete")
            cells = [
                name,
                f"{stored:,}" if stored == full else f"{stored:,} (too slow: stopped)",
                f"{cell(r, 'add_per_s')} [{cell(r, 'add_cpu_ms')}]",
                pair("add_one"),
                pair("search"),
                recall_cell(r, "search"),
                pair("search_tag"),
                recall_cell(r, "search_tag"),
                pair("search_after_one_by_one"),
                pair("touch"),
                con,
                cell(r, "close_s") if row["persistent"] else "n/a",
                cell(re, "reopen_s") if row["persistent"] else "n/a",
                cell(re, "delete", "seconds")
                + (" INCOMPLETE" if isinstance(deleted, dict) and deleted["left"] else ""),
                f"{r['disk_bytes'] / r['total']:,.0f}"
                if "disk_bytes" in r
                else "n/a"
                if not row["persistent"]
                else "-",
                (
                    f"{r['rss_import'] - r['rss_base']:.0f} / {r['rss_search'] - r['rss_import']:.0f}"
                    if "rss_search" in r
                    else "-"
                ),
                f"{r.get('others_cpu', 0):.0%}",
            ]
            out.append("| " + " | ".join(cells) + " |")
    out.append("\n## Notes\n")
    for name, row in results.items():
        out.append(f"- **{name}**: {ADAPTERS[name].notes if name in ADAPTERS else row['notes']}")
        for dataset, r in row["datasets"].items():
            for key, v in [*r.items(), *r.get("reopen", {}).items()]:
                if isinstance(v, str) and key != "running" and v != "not offered":
                    out.append(f"  - {dataset} {key}: {v}")
            for part, x in (("", r), (" reopen", r.get("reopen", {}))):
                if "killed_after_s" in x:
                    out.append(
                        f"  - {dataset}{part}: killed after {x['killed_after_s']:.0f} s while in: {x.get('running')}"
                    )
            if isinstance(r.get("concurrent"), dict) and r["concurrent"]["writer_errors"]:
                out.append(f"  - {dataset} concurrent writer: {r['concurrent']['writer_errors'][0]}")
    out_path.write_text("\n".join(out) + "\n")
