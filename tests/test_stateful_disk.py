"""Erasing, compacting, copying and dying in the midst of everything else: what is left is what the model says.

The operations of `stateful.py` go on between. ``HYPOTHESIS_PROFILE=explore`` looks for new cases.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from stateful import DAY, FIELDS, GRANT, MOST, PICKS, TEXTS, VECTORS, Machine, Memory, assert_same
from tiermem_fast import ErasureReceipt, MemoryNotFound, TierMemory

if TYPE_CHECKING:
    from collections.abc import Iterable

# What is made, and the places of what it is made from, counted from the youngest memory.
BONDS = st.lists(st.tuples(TEXTS, FIELDS, st.sets(st.integers(0, 5), min_size=1, max_size=2)), min_size=1, max_size=3)
# In a process of its own: one that opens and closes a file by itself drops the locks that SQLite holds on it.
COPY = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2], ignore=shutil.ignore_patterns(*sys.argv[3:]))"


class DiskMachine(Machine):
    """The machine with what takes memories out of the store for good, and with all the ways to make a second store of it."""

    @initialize(items=st.lists(st.tuples(TEXTS, FIELDS, VECTORS), min_size=5, max_size=5), bonds=BONDS)
    def open_both(self, items, bonds) -> None:
        super().open_both()
        self.room = Path(tempfile.mkdtemp(prefix="tiermem-copies-"))
        self.copies = 0
        # The uses that no commit holds yet: what these memories were before them.
        self.unwritten: dict[str, Memory] = {}
        self.commit = 0
        self.receipts: list[ErasureReceipt] = []
        self.add_many(items=items, given_vectors=True)
        self.derive(bonds=bonds)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "room"):
            shutil.rmtree(self.room)

    def new_place(self) -> Path:
        self.copies += 1
        return self.room / str(self.copies)

    # ------------------------------------------------------------------ what the model says

    def drop(self, gone: set[str]) -> None:
        """Takes memories out of the model: nothing points to them any more."""
        self.memories = [one for one in self.memories if one.id not in gone]
        for one in self.memories:
            one.derived_from = tuple(id for id in one.derived_from if id not in gone)
            one.supersedes = None if one.supersedes in gone else one.supersedes
            one.superseded_by = None if one.superseded_by in gone else one.superseded_by
        self.keys = {key: id for key, id in self.keys.items() if id not in gone}

    def tied(self, one: Memory, gone: set[str]) -> bool:
        """Whether a memory was made from, or is the version before or after, one of these."""
        return not gone.isdisjoint((*one.derived_from, one.supersedes, one.superseded_by))

    def follow(self, gone: set[str], everything_tied: bool) -> set[str]:
        """What goes when these go: what was made from them alone, or all that is tied to them."""
        while True:
            more = {
                one.id
                for one in self.memories
                if (one.derived_from and gone.issuperset(one.derived_from))
                or (everything_tied and self.tied(one, gone))
            }
            if more <= gone:
                return gone
            gone |= more

    def compare(self, mem: TierMemory, memories: list[Memory]) -> None:
        """A store made of this one holds these memories, in whatever state, and answers with them."""
        living = [one for one in memories if one.state == "alive" and (one.expires_at or np.inf) > self.now]
        listed = mem.list(limit=MOST, grant=GRANT, now=self.now)
        assert [item.id for item in listed] == [one.id for one in living]
        for item, one in zip(listed, living, strict=True):
            assert_same(item, one)
        for one in memories:
            if one.state == "superseded":
                assert_same(mem.get(one.id, grant=GRANT, now=self.now), one)
        rows = mem.sql("select id, text from memories")
        assert {row["id"]: row["text"] for row in rows} == {one.id: one.text for one in memories}
        stats = mem.stats(now=self.now)
        states = [one.state for one in memories]
        assert (stats.alive, stats.forgotten, stats.superseded) == tuple(
            states.count(state) for state in ("alive", "forgotten", "superseded")
        )
        report = mem.verify()
        assert report.ok
        assert report.sound == len(memories)
        if any(one.vector is not None for one in memories):
            query = np.array([1.0, -2.0, 0.5, 1.0], np.float32)
            here, there = (one.search(vector=query, k=MOST, grant=GRANT, now=self.now) for one in (self.mem, mem))
            assert set(there.ids) == set(here.ids)
            relevance = dict(zip(here.ids, here.relevance, strict=True))
            np.testing.assert_allclose([relevance[id] for id in there.ids], there.relevance)

    def compare_keys(self, mem: TierMemory) -> None:
        """Keys answer as they do in this store, and the one that was never used makes a memory. Changes the store."""
        for key, id in self.keys.items():
            again = mem.add("unheard of", idempotency_key=key, now=self.now)
            assert (again, again.created, again.reinforced) == (id, False, False)
        assert mem.add("unheard of", idempotency_key="k3", now=self.now).created

    # ------------------------------------------------------------------ operations

    @precondition(lambda self: self.memories and len(self.memories) < MOST - 3)
    @rule(bonds=BONDS)
    def derive(self, bonds) -> None:
        for text, fields, places in bonds:
            told = self.dated(fields)
            older = sorted({len(self.memories) - 1 - place % len(self.memories) for place in places})
            sources = tuple(self.memories[place].id for place in older)
            added = self.mem.add(text, derived_from=sources, now=self.now, **told)
            self.take(added, text, told, None)
            if added.created:
                self.memories[-1].derived_from = sources

    @precondition(lambda self: self.living())
    @rule(picks=st.lists(PICKS, min_size=1, max_size=4))
    def use(self, picks) -> None:
        before = {one.id: copy(one) for one in self.living()}
        super().use(picks=picks)
        for id in {self.living()[pick % len(self.living())].id for pick in picks}:
            self.unwritten.setdefault(id, before[id])

    def erase(self, asked: Iterable[str], everything_tied: bool, **scope) -> None:
        """Erases, and compares the receipt with what the model loses."""
        gone = self.follow(set(asked), everything_tied)
        review = [one.id for one in self.memories if one.id not in gone and self.tied(one, gone)]
        receipt = self.mem.erase(cascade="all" if everything_tied else "derived", now=self.now, **scope)
        assert (receipt.asked, receipt.erased) == (len(set(asked)), len(gone))
        assert [one.id for one in receipt.review] == review
        assert receipt.complete, receipt
        assert receipt.backups == (), "those were deleted"
        self.drop(gone)
        for id in gone:
            with pytest.raises(MemoryNotFound):
                self.mem.get(id, grant=GRANT, now=self.now)
            with pytest.raises(MemoryNotFound):
                self.mem.history(id)
        if gone:
            self.receipts.append(receipt)

    def others_hang_on(self) -> list[str]:
        """Memories that others were made from, and versions before and after others."""
        ids = {id for one in self.memories for id in (*one.derived_from, one.supersedes, one.superseded_by)}
        return [one.id for one in self.memories if one.id in ids]

    @precondition(lambda self: self.memories)
    @rule(picks=st.lists(PICKS, min_size=1, max_size=2), everything_tied=st.booleans(), any_at_all=st.booleans())
    def erase_by_ids(self, picks, everything_tied, any_at_all) -> None:
        ids = [one.id for one in self.memories]
        if not any_at_all:
            ids = self.others_hang_on() or ids
        asked = sorted({ids[pick % len(ids)] for pick in picks})
        self.erase(asked, everything_tied, ids=asked)

    @rule(session=st.sampled_from(["s1", "s2", "s3"]), everything_tied=st.booleans())
    def erase_a_session(self, session, everything_tied) -> None:
        self.erase([one.id for one in self.memories if one.session == session], everything_tied, session=session)

    @rule(picks=st.lists(PICKS, max_size=2), wait=st.sampled_from([0.0, DAY]), days=st.sampled_from([0.0, 1.0]))
    def compact(self, picks, wait, days) -> None:
        if picks and self.living():
            self.forget(picks=picks)
        self.now += wait
        gone = {one.id for one in self.forgotten() if one.hidden_at <= self.now - days * DAY}
        report = self.mem.compact(hidden_for_days=days, now=self.now)
        assert (report.forgotten, report.merged) == (len(gone), 0)
        self.drop(gone)

    @rule()
    def verify(self) -> None:
        report = self.mem.verify()
        assert report.ok, report
        assert (report.sound, report.strays) == (len(self.memories), ())

    @rule()
    def backup(self) -> None:
        place = self.new_place()
        report = self.mem.backup(place, now=self.now)
        assert report.memories == len(self.memories)
        with TierMemory.open(place, now=self.now) as mem:
            self.compare(mem, self.memories)
            assert mem.erasures() == self.receipts
            self.compare_keys(mem)
        shutil.rmtree(place)

    @rule(in_ram=st.booleans())
    def snapshot(self, in_ram) -> None:
        file, place = self.new_place(), self.new_place()
        report = self.mem.snapshot(file, now=self.now)
        assert report.memories == len(self.memories)
        with TierMemory.from_snapshot(file, None if in_ram else place, now=self.now) as mem:
            self.compare(mem, self.memories)
            self.compare_keys(mem)
        file.unlink()

    @rule(picks=st.lists(PICKS, max_size=3), goes_on=st.booleans(), with_shared_memory=st.booleans())
    def kill(self, picks, goes_on, with_shared_memory) -> None:
        """What a process that dies now, perhaps soon after some uses, leaves, and the next one finds."""
        if picks and self.living():
            self.use(picks=picks)
        place = self.new_place()
        ignored = [] if with_shared_memory else ["*-shm"]
        subprocess.run([sys.executable, "-I", "-S", "-c", COPY, self.directory, place, *ignored], check=True)
        mem = TierMemory.open(place, now=self.now)
        left = self.memories
        # Asked in SQL: a list leaves out what has ended since it was used.
        for row in mem.sql("select id, use_count from memories"):
            if row["id"] in self.unwritten and row["use_count"] != self.found(row["id"]).use_count:
                # The uses of which no commit was told are lost together.
                left = [self.unwritten.get(one.id, one) for one in self.memories]
                break
        self.compare(mem, left)
        assert mem.erasures() == self.receipts
        if not goes_on:
            self.compare_keys(mem)
            mem.close()
            shutil.rmtree(place)
            return
        self.mem.close()
        self.second.close()
        shutil.rmtree(self.directory)
        self.directory, self.mem, self.memories = str(place), mem, left
        self.second = TierMemory.open(place, now=self.now)
        self.unwritten = {}

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def a_commit_takes_the_uses_along(self) -> None:
        if not hasattr(self, "mem"):
            return
        commit = self.mem.stats(now=self.now).commit
        if commit != self.commit:
            self.commit, self.unwritten = commit, {}

    @invariant()
    def the_receipts_are_kept(self) -> None:
        if hasattr(self, "mem"):
            assert self.mem.erasures() == self.receipts


TestDiskMachine = DiskMachine.TestCase
if "HYPOTHESIS_PROFILE" not in os.environ:
    TestDiskMachine.settings = settings(max_examples=30, stateful_step_count=40)


@pytest.mark.slow
@pytest.mark.timeout(7_200)
def test_many_more_histories() -> None:
    examples = int(os.environ.get("TIERMEM_HISTORIES", "1000"))
    run_state_machine_as_test(DiskMachine, settings=settings(max_examples=examples, stateful_step_count=60))
