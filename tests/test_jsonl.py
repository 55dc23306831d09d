"""Memories as lines of JSON: out for people, in from anybody."""

import io
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem_fast import InvalidInput, LimitExceeded, MemoryItem, MemoryNotFound, StorageError, StoreClosed, TierMemory
from tiermem_fast.jsonl import LINE_BYTES

NOW = 1_767_225_600.0
DAY = 86_400.0


@pytest.fixture
def mem():
    with TierMemory.open(config={"id_seed": 1}, now=NOW) as opened:
        yield opened


def lines_of(mem: TierMemory, **options: Any) -> list[dict[str, Any]]:
    out = io.StringIO()
    count = mem.export_jsonl(out, now=NOW, **options)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert len(lines) == count
    return lines


def imported(mem: TierMemory, *lines: Any, **options: Any) -> Any:
    text = "".join((line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)) + "\n" for line in lines)
    return mem.import_jsonl(io.StringIO(text), now=NOW, **options)


class TestExport:
    def test_a_line_is_a_memory_in_json(self, mem):
        id = mem.add("喝茶\n不喝咖啡\u2028", tags=["饮料"], metadata={"n": 1}, half_life=float("inf"), now=NOW)
        out = io.BytesIO()
        assert mem.export_jsonl(out, now=NOW) == 1
        assert out.getvalue().count(b"\n") == 1
        assert "喝茶".encode() in out.getvalue()
        assert MemoryItem.model_validate_json(out.getvalue()) == mem.get(id, now=NOW)
        assert list(json.loads(out.getvalue())) == list(MemoryItem.model_fields)

    def test_only_what_lives_and_may_be_seen(self, mem):
        mem.add("public", private={"phone": "1", "mail": "2"}, now=NOW)
        mem.add("hidden", labels=["health"], now=NOW)
        mem.add("over", expires_at=NOW - 1, now=NOW - DAY)
        mem.forget(mem.add("gone", now=NOW), now=NOW)
        (line,) = lines_of(mem)
        assert line["private"] == {"phone": "***", "mail": "***"}
        lines = lines_of(mem, grant={"labels": ["health"], "fields": ["phone"]})
        assert [line["text"] for line in lines] == ["public", "hidden"]
        assert lines[0]["private"] == {"phone": "1", "mail": "***"}

    def test_where(self, mem):
        mem.add_many([{"text": f"t{place}", "metadata": {"n": place}} for place in range(5)], now=NOW)
        assert [line["text"] for line in lines_of(mem, where={"n": {"gte": 3}})] == ["t3", "t4"]

    def test_many_pages(self, mem):
        texts = [f"number {place}" for place in range(2_345)]
        mem.add_many(texts, now=NOW)
        assert [line["text"] for line in lines_of(mem)] == texts

    def test_vectors_come_back_to_the_bit(self, mem):
        vectors = np.random.default_rng(1).normal(size=(50, 7)).astype(np.float32)
        ids = mem.add_many([f"t{place}" for place in range(50)], vectors=vectors, now=NOW)
        (halves,) = {line["vector_model"] for line in lines_of(mem, vectors=True)}
        assert halves == "external"
        written = np.asarray([line["vector"] for line in lines_of(mem, vectors=True)], np.float16)
        stored = [np.frombuffer(halves, "<f2") for halves in mem._engine.vectors(ids, None, NOW) if halves]
        assert np.array_equal(written, np.stack(stored))
        assert "vector" not in lines_of(mem)[0]

    def test_a_memory_without_a_vector(self, mem):
        mem.add("with", vector=np.ones(3, np.float32), now=NOW)
        mem.add("without", now=NOW)
        mem.add("hidden", labels=["health"], vector=np.ones(3, np.float32), now=NOW)
        assert [("vector" in line) for line in lines_of(mem, vectors=True)] == [True, False]

    def test_a_path_has_its_file_when_it_is_whole(self, mem, tmp_path):
        mem.add("one", now=NOW)
        assert mem.export_jsonl(tmp_path / "x.jsonl", now=NOW) == 1
        assert (tmp_path / "x.jsonl").stat().st_mode & 0o077 == 0
        before = (tmp_path / "x.jsonl").read_bytes()
        with pytest.raises(InvalidInput):
            mem.export_jsonl(tmp_path / "x.jsonl", where={"a": {"odd": 1}}, now=NOW)
        with pytest.raises(StorageError):
            mem.export_jsonl(tmp_path / "missing" / "x.jsonl", now=NOW)
        assert [path.name for path in tmp_path.iterdir()] == ["x.jsonl"]
        assert (tmp_path / "x.jsonl").read_bytes() == before

    def test_beside_writers_that_forget(self, mem):
        ids = mem.add_many([f"t{place}" for place in range(3_000)], now=NOW)

        def forget() -> None:
            for start in range(0, 3_000, 10):
                mem.forget(ids[start : start + 5], now=NOW)

        writer = threading.Thread(target=forget)
        writer.start()
        while writer.is_alive():
            texts = [line["text"] for line in lines_of(mem, vectors=True)]
            assert len(texts) == len(set(texts)) >= 1_500
        writer.join()
        assert len(lines_of(mem)) == 1_500

    def test_goes_on_when_the_last_memory_of_a_page_is_gone(self, mem, monkeypatch):
        ids = mem.add_many([f"t{place}" for place in range(10)], now=NOW)
        monkeypatch.setattr("tiermem_fast.memory._PAGE", 4)
        listed = mem._engine.list

        class Erasing:
            """An engine in which some memories are erased after they were listed."""

            def __getattr__(self, name: str) -> Any:
                return getattr(mem._engine, name)

            def list(self, filters: Any, limit: int, after: str | None, *rest: Any) -> Any:
                if after in gone:
                    raise MemoryNotFound("no memory has the id", id=after)
                return listed(filters, limit, after, *rest)

        gone = {ids[3], ids[2]}
        texts: list[str] = []
        other = TierMemory(Erasing(), path=None, embedder=None, config=None, read_only=False)  # type: ignore[arg-type]
        out = io.StringIO()
        other.export_jsonl(out, now=NOW)
        texts = [json.loads(line)["text"] for line in out.getvalue().splitlines()]
        assert texts[:4] == ["t0", "t1", "t2", "t3"]
        assert texts[-1] == "t9"
        gone |= set(ids)
        with pytest.raises(MemoryNotFound):
            other.export_jsonl(io.StringIO(), now=NOW)


class TestImport:
    def test_what_was_exported_comes_back(self, mem, tmp_path):
        first = mem.add("Lives in Bonn", about="Anna", source="assistant", trust=0.25, now=NOW - 9 * DAY)
        mem.add(
            "Anna likes jazz",
            tier="episodic",
            session="s1",
            importance=0.75,
            tags=["音乐"],
            labels=["taste"],
            private={"phone": "1"},
            metadata={"a": {"b": [1, None]}},
            half_life=1_000.0,
            expires_at=NOW + DAY,
            pinned=True,
            derived_from=[first],
            now=NOW - DAY,
        )
        grant = {"labels": ["taste"], "fields": ["phone"]}
        mem.export_jsonl(tmp_path / "x", grant=grant, now=NOW)
        with TierMemory.open(now=NOW) as other:
            report = other.import_jsonl(tmp_path / "x", now=NOW)
            assert (report.read, report.created, report.reinforced, report.skipped) == (2, 2, 0, ())
            own = {"id", "derived_from"}
            for one, two in zip(mem.list(grant=grant, now=NOW), other.list(grant=grant, now=NOW), strict=True):
                assert one.model_dump(exclude=own) == two.model_dump(exclude=own)
                assert one.id != two.id
            derived, source = reversed(other.list(grant=grant, now=NOW))
            assert derived.derived_from == (source.id,)

    def test_into_the_same_store_it_reinforces(self, mem):
        mem.add_many(["one", "two"], now=NOW)
        report = imported(mem, *lines_of(mem))
        assert (report.created, report.reinforced, mem.count(now=NOW)) == (0, 2, 2)

    def test_text_alone_is_enough(self, mem):
        report = imported(mem, {"text": "喝茶"}, "", "  ", {"text": "two", "created_at": "2024-05-03T00:00:00Z"})
        assert (report.read, report.created) == (2, 2)
        one, two = mem.list(now=NOW)
        assert (one.tier, one.created_at.timestamp(), one.half_life < 1e9) == ("semantic", NOW, True)
        assert two.created_at.year == 2024

    def test_endings_marks_and_binary_files(self, mem, tmp_path):
        (tmp_path / "x").write_bytes(b'\xef\xbb\xbf{"text": "one"}\r\n{"text": "two"}\r\n\r\n{"text": "three"}')
        assert mem.import_jsonl(tmp_path / "x", now=NOW).created == 3
        with (tmp_path / "x").open("rb") as file:
            assert mem.import_jsonl(file, now=NOW).reinforced == 3

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            ("{", "line: is not JSON"),
            ("[" * 100_000, "line: is not JSON"),
            ("[1]", "line: [1] is not a JSON object"),
            ('"text"', "is not a JSON object"),
            ("{}", "text: is needed"),
            ('{"text": ""}', "text: "),
            ('{"text": "  "}', "text: "),
            ('{"text": 7}', "text: "),
            ('{"text": "a\\u0000b"}', "text: has a NUL byte"),
            ('{"text": "a\\ud800"}', "text: "),
            ('{"text": "x", "importance": 1.5}', "importance: "),
            ('{"text": "x", "tier": "semantik"}', "did you mean 'semantic'"),
            ('{"text": "x", "sesion": "s"}', "did you mean 'session'"),
            ('{"text": "x", "created_at": "yesterday"}', "created_at: "),
            ('{"text": "x", "created_at": -1}', "created_at: "),
            ('{"text": "x", "metadata": [1]}', "metadata: "),
            ('{"text": "x", "metadata": {"a": NaN}}', "metadata: "),
            ('{"text": "x", "tags": "t"}', "tags: "),
            ('{"text": "x", "vector": "v"}', "vector: "),
            ('{"text": "x", "vector": [true]}', "vector: "),
            ('{"text": "x", "vector": [0, 0]}', "vector"),
            ('{"text": "x", "vector": []}', "vector"),
            ('{"text": "x", "vector": [1e99, 1]}', "vector"),
            ('{"text": "x", "vector": [1], "vector_model": 7}', "vector_model: "),
            (json.dumps({"text": "x" * 70_000}), "bytes of text"),
            (json.dumps({"text": "x", "metadata": {"a": "x" * 70_000}}), "bytes of metadata"),
            (json.dumps({"text": "x", "tags": [str(n) for n in range(99)]}), "tags"),
            ('{"text": "' + "x" * LINE_BYTES + '"}', "over the limit of"),
        ],
        ids=lambda value: value[:40],
    )
    def test_a_line_at_fault_is_named(self, mem, line, says):
        good = [{"text": f"good {place}"} for place in range(7)]
        with pytest.raises(InvalidInput) as caught:
            imported(mem, *good[:5], "", line, *good[5:])
        error: Any = caught.value
        assert str(error).startswith("line 7: ")
        assert says in str(error)
        assert error.line == 7
        assert len(str(error)) < 500
        assert (error.report.read, error.report.created) == (6, 5)
        assert mem.count(now=NOW) == 5

        report = imported(mem, *good[:5], "", line, *good[5:], on_error="skip")
        assert (report.read, report.created, report.reinforced) == (8, 2, 5)
        (skipped,) = report.skipped
        assert skipped.line == 7
        assert says in skipped.reason
        assert mem.count(now=NOW) == 7

    def test_what_is_no_utf8(self, mem, tmp_path):
        (tmp_path / "x").write_bytes(b'{"text": "one"}\n{"text": "\xff"}\n{"text": "two"}\n')
        report = mem.import_jsonl(tmp_path / "x", on_error="skip", now=NOW)
        assert [(skipped.line, skipped.reason) for skipped in report.skipped] == [(2, "text: is not UTF-8 at byte 10")]
        assert report.created == 2

    def test_masks_are_left_out(self, mem):
        report = imported(mem, {"text": "x", "private": {"phone": "***", "mail": "a@b"}})
        assert report.masked == 1
        (item,) = mem.list(grant={"fields": ["mail", "phone"]}, now=NOW)
        assert item.private == {"mail": "a@b"}

    def test_links_that_lead_nowhere_are_counted(self, mem):
        there = mem.add("there", now=NOW)
        lost = "018bcfe5-6872-7007-bfff-00005c9e01aa"
        report = imported(mem, {"text": "x", "derived_from": [lost, there, "odd"]})
        assert report.unlinked == 2
        assert mem.list(now=NOW)[1].derived_from == (there,)

    def test_vectors_and_their_model(self, mem):
        with_vectors = [{"text": f"v{n}", "vector": [1.0, n], "vector_model": "m"} for n in range(3)]
        report = imported(mem, *with_vectors, {"text": "none"}, {"text": "v9", "vector": [0, 1], "vector_model": "m"})
        assert report.created == 5
        assert mem.stats(now=NOW).model_id == "m"
        assert mem.stats(now=NOW).vectors == 4
        report = imported(mem, {"text": "w", "vector": [1, 2, 3], "vector_model": "m"}, on_error="skip")
        assert "2 dimensions" in report.skipped[0].reason

    def test_vectors_of_another_model_than_the_embedder(self):
        with TierMemory.open(embedder="lexical", now=NOW) as mem:
            line = {"text": "x", "vector": [1.0, 2.0], "vector_model": "m"}
            report = imported(mem, line, {"text": "y"}, on_error="skip")
            assert "'m'" in report.skipped[0].reason
            assert report.created == 1
            assert mem.stats(now=NOW).vectors == 1

    def test_progress(self, mem, tmp_path):
        (tmp_path / "x").write_text("".join(f'{{"text": "t{place}"}}\n' for place in range(2_500)))
        heard: list[tuple[int, int]] = []
        mem.import_jsonl(tmp_path / "x", progress=lambda done, total: heard.append((done, total)), now=NOW)
        size = (tmp_path / "x").stat().st_size
        assert heard == sorted(heard)
        assert heard[-1] == (size, size)
        assert len(heard) == 3

    def test_other_mistakes(self, mem, tmp_path):
        with pytest.raises(InvalidInput, match="on_error"):
            imported(mem, {"text": "x"}, on_error="ignore")
        with pytest.raises(StorageError):
            mem.import_jsonl(tmp_path / "missing")
        with pytest.raises(StorageError):
            mem.import_jsonl(tmp_path)
        with pytest.raises(InvalidInput, match="file: "):
            mem.import_jsonl(None)
        mem.close()
        with pytest.raises(StoreClosed) as caught:
            imported(mem, {"text": "x"}, on_error="skip")
        assert caught.value.report.created == 0  # type: ignore[attr-defined]

    def test_a_line_without_end_costs_little(self, mem, tmp_path):
        import tracemalloc

        with (tmp_path / "x").open("wb") as file:
            file.truncate(200 << 20)
        tracemalloc.start()
        with pytest.raises(LimitExceeded):
            mem.import_jsonl(tmp_path / "x", now=NOW)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
        tracemalloc.stop()


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)


@given(
    items=st.lists(
        st.fixed_dictionaries(
            {"text": TEXTS.filter(lambda text: text.strip())},
            optional={
                "importance": st.floats(0, 1, width=32),
                "session": TEXTS,
                "about": TEXTS,
                "tags": st.lists(TEXTS, max_size=3, unique=True),
                "metadata": st.dictionaries(
                    TEXTS, st.none() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
                ),
                "created_at": st.floats(0, NOW).map(lambda seconds: round(seconds, 3)),
                "half_life": st.floats(1, 1e9, width=32) | st.just(float("inf")),
            },
        ),
        max_size=8,
        unique_by=lambda item: (item["text"], item.get("session"), item.get("about")),
    )
)
@settings(max_examples=60)
def test_any_memories_come_back(items):
    with TierMemory.open(now=NOW) as mem, TierMemory.open(now=NOW) as other:
        mem.add_many(items, now=NOW)
        out = io.BytesIO()
        mem.export_jsonl(out, now=NOW)
        report = other.import_jsonl(io.BytesIO(out.getvalue()), now=NOW)
        assert report.created == len(items)
        for one, two in zip(mem.list(now=NOW), other.list(now=NOW), strict=True):
            assert one.model_dump(exclude={"id"}) == two.model_dump(exclude={"id"})


@given(data=st.binary(max_size=200))
@settings(max_examples=200)
def test_no_bytes_do_harm(data):
    with TierMemory.open(now=NOW) as mem:
        report = mem.import_jsonl(io.BytesIO(data), on_error="skip", now=NOW)
        assert report.created + report.reinforced + len(report.skipped) == report.read
        assert mem.count(now=NOW) == report.created


def test_stored_where_the_docs_say(tmp_path):
    path = Path(tmp_path, "x.jsonl")
    with TierMemory.open(tmp_path / "store", now=NOW) as mem:
        mem.add("Prefers tea", now=NOW)
        mem.export_jsonl(str(path), now=NOW)
    assert json.loads(path.read_text("utf-8"))["text"] == "Prefers tea"
