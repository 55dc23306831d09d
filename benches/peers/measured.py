"""What a measured process does with one library and one dataset."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np

from .adapters import ADAPTERS
from .workload import NUMBER, K, load


def rss_mb(field="VmRSS"):
    """MiB of the process and its descendants (VmHWM: the process alone)."""

    def one(pid):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        return 0.0

    if field == "VmHWM":
        return one("self")
    total, todo = 0.0, [os.getpid()]
    while todo:
        pid = todo.pop()
        with contextlib.suppress(OSError):
            total += one(pid)
            for task in Path(f"/proc/{pid}/task").iterdir():
                todo += [int(c) for c in (task / "children").read_text().split()]
    return round(total, 1)


def stats(seconds):
    if not seconds:
        return {"count": 0}
    ms = np.array(seconds) * 1e3
    return {
        "count": len(ms),
        "p50_ms": float(np.percentile(ms, 50)),
        "p99_ms": float(np.percentile(ms, 99)),
        "mean_ms": float(ms.mean()),
    }


def timed(calls, budget, at_least=5):
    """Run each call, timing it, until budget seconds are over; (summary, results).

    cpu_ms is the process's CPU time per call, all threads: unlike the others it holds on a busy machine.
    """
    times, results, end, cpu = [], [], time.perf_counter() + budget, time.process_time()
    for call in calls:
        t = time.perf_counter()
        results.append(call())
        now = time.perf_counter()
        times.append(now - t)
        if now > end and len(times) >= at_least:
            break
    return {**stats(times), "cpu_ms": (time.process_time() - cpu) * 1e3 / len(times)}, results


def recall(stored, queries, results, by_tag):
    """Mean recall@K against the exact answer among the stored items (queries that nothing matches are left out)."""
    vectors, ns = np.stack([i.vec for i in stored]), np.array([i.n for i in stored])
    labels, codes = np.unique([i.user + i.tag * by_tag for i in stored], return_inverse=True)
    code = {str(label): c for c, label in enumerate(labels)}
    each = []
    for start in range(0, len(results), 50):
        part = queries[start : start + 50]
        for q, scores, got in zip(part, (vectors @ np.stack([q.vec for q in part]).T).T, results[start:]):
            mask = codes == code.get(q.user + q.tag * by_tag, -1)
            k = min(K, int(mask.sum()))
            if k:
                exact = set(ns[np.argpartition(np.where(mask, -scores, 9), k - 1)[:k]].tolist())
                each.append(len(exact & {n for n, _ in got}) / k)
    return float(np.mean(each)) if each else None


class Report(dict):
    """A dict that is written to its file at every note(), so that a killed process loses only its last phase."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def note(self, **kw):
        self.update(kw)
        self.path.write_text(json.dumps(self))


@contextlib.contextmanager
def phase(rep, name):
    """A failing phase is recorded and the next one goes on."""
    rep.note(running=name)
    try:
        yield
    except NotImplementedError:
        rep.note(**{name: "not offered"})
    except Exception as e:
        rep.note(**{name: f"failed: {type(e).__name__}: {str(e)[:200]}"})
    rep.note(running=None)


def child_main(ad, rep, dir, items, extra, queries, seconds):
    rep.note(rss_base=rss_mb())
    t = time.perf_counter()
    exec(ad.imports, {})
    rep.note(import_warm_s=time.perf_counter() - t, rss_import=rss_mb(), running="setup")
    t = time.perf_counter()
    ad.setup(dir)
    rep.note(create_s=time.perf_counter() - t, running="bulk add")

    stored, t0, cpu = 0, time.perf_counter(), time.process_time()
    while stored < len(items) and time.perf_counter() - t0 < 0.6 * seconds:
        ad.add(items[stored : stored + ad.batch])
        stored += len(items[stored : stored + ad.batch])
        rep.note(stored=stored, bulk_s=time.perf_counter() - t0)
    rep.note(running="settle")
    t = time.perf_counter()
    ad.settle()
    settle_s = time.perf_counter() - t
    rep.note(
        settle_s=settle_s,
        add_per_s=stored / (rep["bulk_s"] + settle_s),
        add_cpu_ms=(time.process_time() - cpu) * 1e3 / stored,
        rss_bulk=rss_mb(),
        peak_bulk=rss_mb("VmHWM"),
    )

    budget = min(15, 0.1 * seconds)
    results = {}
    for name, by_tag in (("search", False), ("search_tag", True)):
        with phase(rep, name):
            for q in queries[-3:]:  # warm up
                hits = ad.search(q.vec, q.text, K, q.user, {"tag": q.tag} if by_tag else None)
                wrong = [n for n, text in hits if NUMBER[text] != n]
                if wrong:
                    raise AssertionError(f"text and number differ: {wrong}")
            rep[name], results[name] = timed(
                (lambda q=q: ad.search(q.vec, q.text, K, q.user, {"tag": q.tag} if by_tag else None) for q in queries),
                budget,
            )
    rep.note(rss_search=rss_mb())  # before recall() takes memory of its own
    for name, got in results.items():
        if isinstance(rep[name], dict):
            rep[name]["recall"] = recall(items[:stored], queries, got, name == "search_tag")
    if not results.get("search"):
        raise SystemExit("no search, nothing more to measure")

    singles = extra[:500]
    with phase(rep, "add_one"):
        rep["add_one"], got = timed((lambda i=i: ad.add([i]) for i in singles), budget)
        singles = singles[: len(got)]
    with phase(rep, "touch"):
        rep["touch"], _ = timed((lambda i=i: ad.touch(i, 0.9) for i in singles[:200]), budget / 2)
    with phase(rep, "search_after_one_by_one"):
        found, got = timed((lambda q=q: ad.search(q.vec, q.text, K, q.user) for q in queries), budget / 2)
        found["recall"] = recall(items[:stored] + singles, queries, got, False)
        rep["search_after_one_by_one"] = found

    stop, added, errors = threading.Event(), [0], []

    def writer(per_second=500):
        start = time.perf_counter()
        try:
            for i in extra[500:]:
                if stop.wait(max(0, start + added[0] / per_second - time.perf_counter())):
                    return
                ad.add([i])
                added[0] += 1
        except Exception as e:
            errors.append(f"{type(e).__name__}: {str(e)[:200]}")

    with phase(rep, "concurrent"):
        thread = threading.Thread(target=writer)
        thread.start()
        try:
            times, start = [], time.perf_counter()
            while thread.is_alive() and time.perf_counter() < start + 5:
                q = queries[len(times) % len(queries)]
                t = time.perf_counter()
                ad.search(q.vec, q.text, K, q.user)
                times.append(time.perf_counter() - t)
            lasted = time.perf_counter() - start
        finally:
            stop.set()
            thread.join()
        rep.note(concurrent={**stats(times), "adds_per_s": added[0] / lasted, "writer_errors": errors})
    singles = singles + extra[500 : 500 + added[0]]

    rep.note(running="close")
    t = time.perf_counter()
    ad.close()
    rep.note(close_s=time.perf_counter() - t, total=stored + len(singles), running=None)
    if ad.persistent:
        rep.note(disk_bytes=ad.disk_bytes(dir))


def child_reopen(ad, rep, dir, items, extra, queries, seconds):
    exec(ad.imports, {})
    rep.note(rss_import=rss_mb(), running="reopen")
    q = queries[0]
    t = time.perf_counter()
    ad.setup(dir)
    hits = ad.search(q.vec, q.text, K, q.user)
    rep.note(reopen_s=time.perf_counter() - t, reopen_hits=len(hits), rss_reopen=rss_mb())
    with phase(rep, "delete"):
        t = time.perf_counter()
        ad.delete(q.user)
        rep.note(delete={"seconds": time.perf_counter() - t, "left": len(ad.search(q.vec, q.text, K, q.user))})


def child_crash(ad, rep, dir, items, extra, queries, seconds):
    """Add 100 memories one by one and die without closing."""
    ad.setup(dir)
    for i in items[:100]:
        ad.add([i])
    rep.note(crash_added=100)
    os.kill(os.getpid(), signal.SIGKILL)


def child_crashcheck(ad, rep, dir, items, extra, queries, seconds):
    ad.setup(dir)
    rep.note(crash_found=sum(any(n == i.n for n, _ in ad.search(i.vec, i.text, K, i.user)) for i in items[:100]))


def child(name, dataset, phase_name, data, folder, report, seconds):
    """Runs one phase, noting as it goes, and ends the process."""
    items, extra, queries = load(data, dataset)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.update((k, v.format(dir=folder)) for k, v in ADAPTERS[name].env.items())
    rep = Report(report)
    phases = {"main": child_main, "reopen": child_reopen, "crash": child_crash, "crashcheck": child_crashcheck}
    try:
        phases[phase_name](ADAPTERS[name](), rep, folder, items, extra, queries, seconds)
    except BaseException as e:  # whatever the library raises is a result
        rep.note(error=f"during {rep.get('running') or phase_name}: {type(e).__name__}: {str(e)[:300]}")
    os._exit(0)  # some libraries' threads would keep the process alive
