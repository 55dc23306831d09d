"""The replay behind `tiermem demo`: what it reads, how it judges, and that its account adds up."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tiermem_fast import InvalidInput, LimitExceeded, Tier, TierMemory
from tiermem_fast.demo import conversation as conversations
from tiermem_fast.demo.conversation import Conversation, Turn, parse, read, shipped, with_questions
from tiermem_fast.demo.replay import Report, config, replay
from tiermem_fast.demo.rules import BASE, judge, repeated
from tiermem_fast.demo.schema import SCHEMA, document

LANGUAGES = ("en", "zh")


def replayed(conversation: Conversation, embedder: str | None = "lexical", **options: Any) -> Report:
    """A replay in RAM with a stopwatch that ticks once a look."""
    with TierMemory.open(embedder=embedder, config=config(), durability="memory") as mem:
        return replay(conversation, mem, stopwatch=count().__next__, **options)


def turn(**fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": "Hi", "time": "2024-05-03"} | fields


class TestReading:
    def test_json_list_object_and_lines_are_the_same(self, tmp_path: Path) -> None:
        turns = [turn(content="one"), turn(role="assistant", content="two", time="2024-05-04", session="later")]
        forms = {
            "list.json": json.dumps(turns),
            "object.json": json.dumps({"name": "mine", "turns": turns}, indent=1),
            "lines.jsonl": "\n".join(json.dumps(one) for one in turns) + "\n\n",
            "marked.jsonl": "\ufeff" + "\r\n".join(json.dumps(one) for one in turns),
        }
        found = []
        for name, text in forms.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
            found.append(read(tmp_path / name).turns)
        assert all(turns == found[0] for turns in found)
        assert [one.session for one in found[0]] == ["2024-05-03", "later"]

    def test_one_line_of_json_lines(self) -> None:
        assert len(parse(json.dumps(turn()), name="one").turns) == 1

    def test_times(self) -> None:
        times = ["2024-05-03T09:00:00+02:00", "2024-05-03T08:00", 1_714_730_400, 1_714_730_400.5]
        found = parse(json.dumps([turn(time=time) for time in times]), name="x")
        morning = datetime(2024, 5, 3, tzinfo=UTC)
        assert [one.time - morning for one in found.turns] == [
            timedelta(hours=7),
            timedelta(hours=8),
            timedelta(hours=10),
            timedelta(hours=10, seconds=0.5),
        ]
        assert not found.dated

    def test_a_day_of_many_turns_ends_on_that_day(self) -> None:
        found = parse(json.dumps([turn(content=f"turn {place}") for place in range(2_000)]), name="x")
        times = [one.time for one in found.turns]
        assert times == sorted(set(times))
        assert {time.date().isoformat() for time in times} == {"2024-05-03"}
        assert found.dated

    def test_days_and_moments_mixed_stay_in_order(self) -> None:
        times = ["2024-05-03T23:30", "2024-05-03", "2024-05-04", "2024-05-04T08:00"]
        found = [one.time for one in parse(json.dumps([turn(time=time) for time in times]), name="x").turns]
        assert found == sorted(found)

    def test_a_person_of_a_file_of_exchanges(self, project_root: Path) -> None:
        path = project_root / "examples" / "data" / "memorybank_zh.json"
        found, ours = read(path, person="王峰"), shipped("zh")
        assert found.turns == ours.turns
        assert all(question.turns for question in found.questions)
        assert read(path).name.endswith("张曼婷")
        with pytest.raises(InvalidInput, match=r"'王锋' is not in .* known are '张曼婷', '王峰'"):
            read(path, person="王锋")

    def test_unlabelled_questions_are_unknown_not_unanswerable(self, project_root: Path) -> None:
        found = read(project_root / "examples" / "data" / "memorybank_en.json", person="Frank")
        assert found.questions
        assert all(question.turns is None for question in found.questions)

    def test_what_means_nothing_here_is_named(self) -> None:
        assert parse(json.dumps([turn(lang="en"), turn(id=7)]), name="x").ignored == ("lang", "id")

    @pytest.mark.parametrize(
        ("fields", "field", "words"),
        [
            ({"role": "usr"}, "role", "'usr' is unknown; did you mean 'user'?"),
            ({"role": ["user"]}, "role", "is unknown"),
            ({"role": None}, "role", "is needed; write one of user, assistant, system, tool"),
            ({"content": None}, "content", "is needed"),
            ({"content": " \n"}, "content", "is not a text"),
            ({"content": 5}, "content", "5 is not a text"),
            ({"content": "a\0b"}, "content", "NUL"),
            ({"content": "\ud800"}, "content", "lone surrogate"),
            ({"content": "x" * 65_537}, "content", "65,537 bytes, 65,536 are the most; cut the turn"),
            ({"time": None}, "time", 'is needed; write a day as "2023-04-27"'),
            ({"time": "yesterday"}, "time", "'yesterday' is not an ISO 8601 time; write a day"),
            ({"time": "2024-02-30"}, "time", "is not an ISO 8601 time"),
            ({"time": "1969-12-31"}, "time", "is not a time after 1970"),
            ({"time": "9999-12-31"}, "time", "is after 9900"),
            ({"time": 1_714_730_400_000}, "time", "write seconds since 1970"),
            ({"time": float("nan")}, "time", "is not a time"),
            ({"time": -1}, "time", "is not a time after 1970"),
            ({"time": True}, "time", "is not a time"),
            ({"time": "2024-05-02"}, "time", "is before 2024-05-03 of the turn above; sort the turns by time"),
            ({"session": ["s"]}, "session", "is not a name"),
            ({"session": True}, "session", "is not a name"),
            ({"session": " "}, "session", "is not a name"),
            ({"session": "s" * 513}, "session", "513 bytes, 512 are the most"),
        ],
    )
    @pytest.mark.parametrize("form", ["lines", "list", "object"])
    def test_a_fault_names_line_field_value_and_remedy(
        self, fields: dict[str, Any], field: str, words: str, form: str
    ) -> None:
        rows = [json.dumps(one) for one in (turn(), turn(role="assistant"), turn(**fields))]
        text, line = {
            "lines": ("\n".join(rows[:2]) + "\n\n" + rows[2], 4),
            "list": ("[\n" + ",\n".join(rows) + "\n]", 4),
            "object": ('{"questions": [],\n "turns":\n [' + ",\n".join(rows) + "]}", 5),
        }[form]
        with pytest.raises(InvalidInput) as caught:
            parse(text, name="mine.json")
        assert str(caught.value).startswith(f"mine.json, line {line}, {field}: ")
        assert words in str(caught.value)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "is empty"),
            (" \n", "is empty"),
            ("[]", "is an empty list"),
            ("{}", 'has no "turns"'),
            ('{"messages": []}', "only 'messages'"),
            ("7", "holds 7"),
            ('"role"', "holds 'role'"),
            ("[1]", "line 1, turn: 1 is not a turn"),
            ('[\n{"role":]', "line 2: is not JSON: Expecting value at column 9"),
            ('{"role": "user"}\n{"role": ', "line 2: is not JSON"),
            ("hello\nthere", "line 1: is not JSON"),
            ('{"turns": {}}', "turns: {} is not a list of turns"),
            ('{"groups": {}}', "is not a list of people"),
            ('{"groups": [{"id": "A"}]}', "items: None is not a list of exchanges"),
            ('{"groups": [{"id": "A", "items": [\n7]}]}', "line 2: 7 is not an exchange"),
            ('{"groups": [{"id": "A", "items": [\n{"text": "x"}]}]}', "line 2, time: is needed"),
            (json.dumps({"turns": [turn()], "questions": "why?"}), "questions: 'why?' is not a list of questions"),
            (json.dumps({"turns": [turn()], "questions": [{"q": "why?"}]}), "is not a question"),
            (json.dumps({"turns": [turn()], "questions": [{"text": "why?", "turns": [1]}]}), "places of turns, 0 to 0"),
            ("[" * 100_000, "cannot be read as JSON"),
            ("1" * 5_000, "cannot be read as JSON"),
        ],
    )
    def test_a_file_that_is_no_conversation(self, text: str, words: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            parse(text, name="mine.json")
        assert words in str(caught.value)
        assert str(caught.value).startswith("mine.json")

    def test_a_file_that_is_not_utf8_names_the_line(self, tmp_path: Path) -> None:
        path = tmp_path / "latin.jsonl"
        path.write_bytes(json.dumps(turn()).encode() + b'\n{"content": "caf\xe9"}')
        with pytest.raises(InvalidInput, match="line 2: the byte 0xe9 is not UTF-8"):
            read(path)

    def test_limits_come_before_reading(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "long.json"
        path.write_text(json.dumps([turn(), turn()]), encoding="utf-8")
        monkeypatch.setattr(conversations, "MAX_TURNS", 1)
        with pytest.raises(LimitExceeded, match="has 2 turns, 1 are the most"):
            read(path)
        monkeypatch.setattr(conversations, "MAX_BYTES", 10)
        with pytest.raises(LimitExceeded, match="10 are the most"):
            read(path)

    def test_unknown_language(self) -> None:
        with pytest.raises(InvalidInput, match="lang: 'de' is unknown"):
            shipped("de")

    def test_an_empty_question_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="ask: ' ' is empty"):
            with_questions(shipped("en"), ["What?", " "])


class TestRules:
    @pytest.mark.parametrize(
        ("more", "less"),
        [
            ("My name is Frank.", "I went to the park today."),
            ("I went to the park today.", "Okay, thank you!"),
            ("Please remember that I am allergic to nuts.", "I am tired."),
            ("我的名字是王峰。", "今天我去了公园。"),
            ("今天我去了公园。", "好的，谢谢你！"),
            ("请记住我对坚果过敏。", "有点累。"),
        ],
    )
    def test_what_lasts_counts_more_than_what_passes(self, more: str, less: str) -> None:
        assert judge("user", more).importance > judge("user", less).importance

    def test_the_person_counts_more_than_the_reply(self) -> None:
        assert judge("user", "Rain again.").importance > judge("assistant", "Rain again.").importance
        assert judge("assistant", "I love hiking.").rules == ()

    @pytest.mark.parametrize("language", LANGUAGES)
    def test_importance_stays_a_share_and_is_explained(self, language: str) -> None:
        for one in shipped(language).turns:
            judgement = judge(one.role, one.content)
            assert 0.0 <= judgement.importance <= 1.0
            assert bool(judgement.rules) == (judgement.importance != BASE[one.role])

    @pytest.mark.parametrize(
        ("memory", "reply", "words"),
        [
            ("I like hiking and rock climbing.", "Rock climbing is hard.", ("rock", "climbing")),
            ("I like hiking.", "Hiking is fun.", ()),
            ("My name is Frank.", "Hello Frank!", ("Frank",)),
            ("I am reading “To Live”.", "To Live is a fine book.", ("To Live",)),
            ("How are you today?", "How are you today?", ()),
            ("我喜欢军事历史和攀岩", "军事历史很有意思", ("军事历史",)),
            ("我喜欢攀岩", "攀岩很难", ()),
            ("我的名字是王峰", "你好，王峰", ("王峰",)),
            ("你好吗", "你好吗", ()),
        ],
    )
    def test_a_reply_uses_what_it_repeats(self, memory: str, reply: str, words: tuple[str, ...]) -> None:
        assert repeated(memory, reply) == words


@pytest.fixture(scope="module", params=LANGUAGES)
def report(request: pytest.FixtureRequest) -> Report:
    return replayed(shipped(request.param))


class TestReplay:
    def test_every_turn_is_somewhere(self, report: Report) -> None:
        turns = len(report.conversation.turns)
        living = sum(report.periods[-1].tiers.values())
        assert living + len(report.of("merged")) + len(report.of("let go")) + report.reinforced == turns
        gone = Counter(fate.id for fate in report.fates if fate.event != "promoted")
        assert set(gone.values()) == {1}

    def test_the_table_adds_up(self, report: Report) -> None:
        before = {"episodic": 0, "semantic": 0}
        for period in report.periods:
            tiers = {tier.value: number for tier, number in period.tiers.items()}
            # No shipped conversation merges anything, so every change is one of these.
            assert period.merged == 0
            assert tiers["episodic"] == before["episodic"] + period.kept - period.promoted
            assert tiers["semantic"] == before["semantic"] + period.promoted
            assert tiers["working"] == 0
            assert period.said == period.kept + period.let_go
            before = tiers
        assert sum(period.said for period in report.periods) == len(report.conversation.turns)

    def test_the_better_half_of_a_session_stays(self, report: Report) -> None:
        gone = {fate.turn for fate in report.of("let go")}
        by_session: dict[str, list[tuple[bool, float]]] = {}
        for place, one in enumerate(report.conversation.turns):
            by_session.setdefault(one.session, []).append((place in gone, judge(one.role, one.content).importance))
        for turns in by_session.values():
            kept = [importance for lost, importance in turns if not lost]
            lost = [importance for lost, importance in turns if lost]
            assert len(kept) == -(-len(turns) // 2)
            # Strength falls within the half hour of a session, so a little more importance can be a little too old.
            assert max(lost) - min(kept) <= 0.1

    def test_what_the_replies_use_again_and_again_becomes_knowledge(self, report: Report) -> None:
        promoted = report.of("promoted")
        assert promoted
        introduction = promoted[0]
        assert introduction.turn == 0  # where the person says their name
        for fate in promoted:
            days = {use.time.date() for use in fate.uses if use.time <= fate.time}
            assert len(days) >= 3
            assert fate.importance >= 0.7
            assert fate.reason == "used again and again"
            for use in fate.uses:
                replies = [one.content for one in report.conversation.turns if one.time == use.time]
                assert any(all(word.casefold() in reply.casefold() for word in use.words) for reply in replies)

    def test_strength_fades_in_silence_and_knowledge_fades_less(self, report: Report) -> None:
        silent = [period.strength for period in report.periods if not period.said]
        assert len(silent) == 4
        episodic, semantic = ([strength[tier] or 0.0 for strength in silent] for tier in (Tier.EPISODIC, Tier.SEMANTIC))
        for means in (episodic, semantic):
            assert means == sorted(means, reverse=True)
        assert all(known > said > 0.0 for known, said in zip(semantic, episodic, strict=True))

    def test_questions_find_their_turns(self, report: Report) -> None:
        answerable = [answer for answer in report.answers if answer.question.turns]
        assert sum(bool(answer.held) for answer in answerable) >= 4
        for answer in answerable:
            assert answer.held is not None
            assert sorted((*answer.held, *answer.missed)) == sorted(answer.question.turns or ())

    def test_no_flight_no_memory(self, report: Report) -> None:
        flight = next(a for a in report.answers if "Lisbon" in a.question.text or "里斯本" in a.question.text)
        assert not flight.briefing
        assert flight.briefing.text == ""

    @pytest.mark.parametrize("embedder", ["lexical", None])
    def test_a_run_comes_out_the_same_twice(self, embedder: str | None) -> None:
        first, second = (document(replayed(shipped("zh"), embedder)) for _ in range(2))
        assert first == second
        assert first["schema"] == SCHEMA
        json.dumps(first, allow_nan=False)

    def test_on_disk_it_is_the_same_as_in_ram(self, tmp_path: Path) -> None:
        conversation = shipped("en")
        with TierMemory.open(tmp_path, embedder="lexical", config=config()) as mem:
            kept = document(replay(conversation, mem, stopwatch=count().__next__))
        assert kept == document(replayed(conversation))
        with TierMemory.open(tmp_path, read_only=True) as mem:
            assert mem.count() == sum(kept["periods"][-1]["tiers"].values())

    def test_a_long_session_overflows_working_memory(self) -> None:
        start = datetime(2024, 5, 3, tzinfo=UTC)
        turns = tuple(
            Turn("user", f"Fact number {place} is this", start + timedelta(seconds=10 * place), "s")
            for place in range(50)
        )
        report = replayed(Conversation("long", turns), None, weeks=0)
        (period,) = report.periods
        assert period.most_working == 21
        assert {fate.reason for fate in report.fates} == {"the working tier overflowed", "idle in the working tier"}

    def test_many_days_are_told_by_weeks(self) -> None:
        start = datetime(2024, 1, 1, 20, tzinfo=UTC)  # a Monday
        turns = tuple(Turn("user", f"Day {day}", start + timedelta(days=day), f"{day}") for day in range(30))
        report = replayed(Conversation("month", turns), None, weeks=1)
        assert [period.said for period in report.periods] == [7, 7, 7, 7, 2, 0]
        assert [(period.first.day, period.last.day) for period in report.periods[:2]] == [(1, 7), (8, 14)]

    def test_what_is_said_in_three_sessions_becomes_knowledge(self) -> None:
        start = datetime(2024, 5, 3, 20, tzinfo=UTC)
        turns = tuple(Turn("user", "I never eat nuts", start + timedelta(days=day), f"{day}") for day in range(3))
        report = replayed(Conversation("nuts", turns), None, weeks=0)
        assert [(fate.turn, fate.reason) for fate in report.of("promoted")] == [(0, "said in several sessions")]
        assert {fate.into for fate in report.of("merged")} == {report.of("promoted")[0].id}

    def test_a_question_about_what_was_let_go_says_so(self) -> None:
        report = replayed(shipped("en"))
        music = next(answer for answer in report.answers if "music" in answer.question.text)
        assert {missed.reason for missed in music.missed.values()} >= {"let go"}
        assert all(missed.time for missed in music.missed.values() if missed.reason == "let go")

    def test_steps_are_told_one_by_one(self) -> None:
        steps: list[tuple[int, int]] = []
        replayed(shipped("en"), None, on_step=lambda done, of: steps.append((done, of)))
        assert steps == [(place + 1, 104 + 4 + 8) for place in range(104 + 4 + 8)]

    def test_only_an_empty_store(self) -> None:
        with TierMemory.open() as mem:
            mem.add("here before")
            with pytest.raises(InvalidInput, match=r"mem: .* give an empty store"):
                replay(shipped("en"), mem, stopwatch=count().__next__)
            assert mem.count() == 1
