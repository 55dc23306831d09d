"""Observing turns: what is kept, where, about whom, in whose place, and what is never learned."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem_fast import Decision, InvalidInput, Policies, TierMemory
from tiermem_fast.policy import signals
from tiermem_fast.policy.privacy import Redacted, redact
from tiermem_fast.policy.sentences import claim_key, contained, overlap, sentences, units, words
from tiermem_fast.policy.subjects import find_subjects
from tiermem_fast.policy.write import Kept, Known, Turn, Verdict, WriteRules, judge_turn
from tiermem_fast.tiers import Tier

NOW = 1_700_000_000.0
HOUR = 3_600.0


@pytest.fixture
def mem():
    with TierMemory.open(now=NOW) as opened:
        yield opened


def tier(decision: Decision) -> str | None:
    return None if decision.tier is None else decision.tier.value


class TestTiers:
    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("From now on write my mails in Chinese", "semantic"),
            ("Never book flights before nine", "semantic"),
            ("Please remember that the gate code changes in May", "semantic"),
            ("My name is Frank", "semantic"),
            ("I prefer trains to planes", "semantic"),
            ("I'm allergic to nuts", "semantic"),
            ("We agreed on the cheaper offer", "episodic"),
            ("The root cause was a full disk", "episodic"),
            ("I am tired today", "episodic"),
            ("Write a mail to the landlord", "working"),
            ("What is the capital of Peru?", "working"),
            ("Do you always answer so fast?", "working"),
            ("Thanks a lot, that's great!", None),
            ("Ok", None),
            ("How are you?", None),
            ("以后周报默认发给全组", "semantic"),
            ("记住，门禁密码五月更换", "semantic"),
            ("我叫王峰", "semantic"),
            ("我喜欢坐火车", "semantic"),
            ("千万别再用红色了，永远不要用红色", "semantic"),
            ("我们决定采用方案甲", "episodic"),
            ("原因是磁盘满了", "episodic"),
            ("我今天很累", "episodic"),
            ("帮我写一封邮件给房东", "working"),
            ("秘鲁的首都是哪里？", "working"),
            ("两天以后再说吧？", "working"),
            ("你还记得我叫什么吗？", "working"),
            ("谢谢，辛苦了！", None),
            ("好的", None),
            ("嗯嗯", None),
        ],
    )
    def test_of_what_a_user_says(self, mem, text, wanted):
        decision = mem.observe(text, session="s1", now=NOW)
        assert tier(decision) == wanted, decision
        assert decision.stored == (wanted is not None)
        assert decision.reasons
        assert mem.count(now=NOW) == (wanted is not None)

    @pytest.mark.parametrize(
        ("role", "outcome", "text", "wanted"),
        [
            ("assistant", None, "Confirmed filters: region north, status open", "episodic"),
            ("assistant", None, "The table has twelve rows and three columns", "working"),
            ("assistant", None, "From now on I will always answer in verse", "working"),
            ("tool", "success", "export(format=xlsx) gave a file", "procedural"),
            ("tool", "failure", "export(format=csv) ran out of memory", "episodic"),
            ("tool", None, "row 1: open; row 2: closed", "working"),
            ("system", None, "Reports are due at the end of a quarter", "procedural"),
            ("system", None, "Always cite the source", "semantic"),
            ("import", None, "The office opens at nine", "episodic"),
        ],
    )
    def test_of_what_others_say(self, mem, role, outcome, text, wanted):
        decision = mem.observe(text, role=role, outcome=outcome, session="s1", task="report", now=NOW)
        assert tier(decision) == wanted, decision
        item = mem.get(decision.id, now=NOW)
        assert item.source == role
        assert (item.trust == 1.0) == (role == "system")

    def test_the_whole_line_is_not_kept_with_its_chatter(self, mem):
        text = "Hi! Thanks for yesterday, great. From now on keep mails to Director Li formal. Write him one now."
        decision = mem.observe(text, session="s1", now=NOW)
        kept = {one.tier.value: one for one in decision.kept}
        assert kept["semantic"].text == "From now on keep mails to Director Li formal."
        assert kept["semantic"].about == kept["working"].about == "Director Li"
        assert "small talk: “Hi!”" in decision.reasons

    def test_a_long_text_is_cut_and_says_so(self):
        with TierMemory.open(config={"writing": {"max_chars": 60}}, now=NOW) as mem:
            text = "The first page tells of ships. " * 10
            decision = mem.observe(text, role="import", now=NOW)
            assert len(mem.get(decision.id, now=NOW).text) <= 60
            assert any("cut to its first" in reason for reason in decision.reasons)

    def test_too_many_facts_in_one_turn_are_cut_by_importance(self):
        with TierMemory.open(config={"writing": {"max_memories": 2}}, now=NOW) as mem:
            decision = mem.observe("I like tea. From now on use metric units. I like jazz. I like dogs.", now=NOW)
            assert len(decision.kept) == 2
            assert "From now on use metric units." in [one.text for one in decision.kept]
            assert any("less important" in reason for reason in decision.reasons)

    def test_a_correction_is_more_than_the_day(self, mem):
        assert tier(mem.observe("其实李主任现在喜欢简短的邮件", now=NOW)) == "semantic"


class TestRepetition:
    def test_in_another_session_makes_it_stronger(self, mem):
        first = mem.observe("I prefer window seats", session="s1", now=NOW)
        second = mem.observe("I prefer window seats.", session="s2", now=NOW + HOUR)
        assert second.kept[0].action == "reinforced"
        assert second.ids == first.ids
        item = mem.get(first.id, now=NOW + HOUR)
        assert (item.repeat_count, item.importance) == (1, pytest.approx(first.importance + 0.05))

    def test_other_numbers_or_a_denial_are_not_the_same(self, mem):
        texts = ("I like rooms with 2 beds near the sea", "I like rooms with 3 beds near the sea", "I don't like rooms with 2 beds near the sea")  # fmt: skip
        for text in texts:
            assert mem.observe(text, now=NOW).kept[0].action == "added"

    def test_a_tool_that_works_twice_is_a_candidate_no_more(self, mem):
        use = {"role": "tool", "outcome": "success", "task": "report"}
        first = mem.observe("export(format=xlsx) gave a file", session="s1", now=NOW, **use)
        assert mem.get(first.id, now=NOW).tags == ("candidate",)
        mem.observe("export(format=xlsx) gave a file", session="s2", now=NOW + HOUR, **use)
        item = mem.get(first.id, now=NOW + HOUR)
        assert item.tags == ()
        assert item.importance > first.importance

    def test_the_assistant_does_not_strengthen_what_it_repeats(self, mem):
        first = mem.observe("The final decision is the northern route", session="s1", now=NOW)
        again = mem.observe("The final decision is the northern route", role="assistant", session="s2", now=NOW)
        assert mem.get(first.id, now=NOW).repeat_count == 0
        assert not again.ids or again.ids != first.ids


class TestCorrections:
    def test_the_old_one_stays_readable_and_unsearched(self, mem):
        old = mem.observe("I live in Bonn", session="s1", now=NOW)
        new = mem.observe("I moved to Oslo", session="s1", now=NOW + HOUR)
        assert new.superseded == old.ids
        assert mem.get(old.id, now=NOW + HOUR).superseded_by == new.id
        assert mem.search("live in Bonn", now=NOW + HOUR).texts == []

    def test_labels_are_inherited_and_their_text_is_not_told(self, mem):
        old = mem.add("My phone is in the drawer", labels=["secret"], metadata={"slot": "phone"}, now=NOW)
        new = mem.observe("My phone is in the safe", now=NOW + HOUR)
        assert new.superseded == (old,)
        assert new.labels == ("secret",)
        assert "drawer" not in repr(new.reasons)
        assert mem.search("phone", now=NOW + HOUR).texts == []

    def test_about_somebody_else_is_left_alone(self, mem):
        li = mem.observe("Director Li's office is in Ghent", now=NOW)
        zhang = mem.observe("Correction: Director Zhang's office is in Liege", now=NOW + HOUR)
        assert zhang.superseded == ()
        assert mem.get(li.id, now=NOW + HOUR).superseded_by is None

    def test_without_anything_to_correct_it_is_added(self, mem):
        decision = mem.observe("Actually, I prefer the night train", now=NOW)
        assert decision.stored
        assert "a correction, but nothing known is corrected" in decision.reasons

    @pytest.mark.parametrize("role", ["user", "assistant", "tool", "import"])
    def test_nobody_brings_the_old_text_back(self, mem, role):
        mem.observe("My favourite colour is blue", now=NOW)
        mem.observe("My favourite colour is green", now=NOW + HOUR)
        again = mem.observe("Please remember: my favourite colour is BLUE!", role=role, now=NOW + 2 * HOUR)
        assert not again.stored
        assert "was corrected" in again.reasons[0]

    def test_a_new_correction_does(self, mem):
        mem.observe("I live in Bonn", now=NOW)
        mem.observe("Actually I live in Oslo", now=NOW + HOUR)
        back = mem.observe("Actually I live in Bonn", now=NOW + 2 * HOUR)
        assert len(back.superseded) == 1
        assert [item.text for item in mem.list(now=NOW + 2 * HOUR)] == ["Actually I live in Bonn"]


class TestForgetting:
    def test_what_was_deleted_is_never_learned_again(self, mem):
        id = mem.observe("I work at the harbour", session="s1", now=NOW).id
        mem.forget([id], now=NOW)
        for text in (
            "I work at the harbour",
            "Remember that I work at the harbour!",
            "I WORK AT THE HARBOUR. I like tea.",
        ):
            decision = mem.observe(text, session="s2", now=NOW + HOUR)
            assert any(f"restore('{id}')" in reason for reason in decision.reasons)
            assert all("harbour" not in one.text.lower() for one in decision.kept)

    def test_until_it_is_restored(self, mem):
        id = mem.observe("I work at the harbour", session="s1", now=NOW).id
        mem.forget([id], now=NOW)
        mem.observe("I work at the harbour", session="s2", now=NOW)
        mem.restore([id], now=NOW + 1)
        assert mem.observe("I work at the harbour", session="s2", now=NOW + 2).ids == (id,)

    def test_another_handle_knows_it_from_the_file(self, tmp_path: Path):
        with TierMemory.open(tmp_path, now=NOW) as mem:
            mem.forget([mem.observe("I work at the harbour", now=NOW).id], now=NOW)
        with TierMemory.open(tmp_path, now=NOW) as again:
            assert not again.observe("I work at the harbour", now=NOW + HOUR).stored

    def test_a_handle_learns_what_another_one_deletes(self, tmp_path: Path):
        with TierMemory.open(tmp_path, now=NOW) as one, TierMemory.open(tmp_path, now=NOW) as other:
            id = one.observe("I work at the harbour", now=NOW).id
            assert other.observe("I like tea", now=NOW).stored
            one.forget([id], now=NOW)
            assert not other.observe("I work at the harbour", now=NOW).stored

    def test_what_housekeeping_lets_go_may_be_learned_again(self, mem):
        for number in range(25):
            mem.observe(f"What about point {number} of the plan?", session="s1", now=NOW + number)
        gone = mem.consolidate(now=NOW + HOUR).let_go
        assert gone
        assert mem.observe(gone[0].preview, session="s1", now=NOW + 2 * HOUR).stored

    def test_about_another_person_it_is_another_claim(self, mem):
        id = mem.observe("Director Li likes tea", now=NOW).id
        mem.forget([id], now=NOW)
        assert mem.observe("Likes tea", about="Director Zhang", now=NOW).stored

    @pytest.mark.parametrize(
        ("told", "asked"),
        [
            ("My favourite colour is blue", "Forget my favourite colour"),
            ("I live in Bonn", "Please forget that I live in Bonn."),
            ("我对花生过敏", "忘掉我的花生过敏"),
            ("我住在杭州", "请忘记我住在杭州"),
        ],
    )
    def test_by_request(self, mem, told, asked):
        id = mem.observe(told, now=NOW).id
        kept = mem.observe("I prefer the blue template for reports", now=NOW).id
        decision = mem.observe(asked, now=NOW + HOUR)
        assert decision.forgotten == (id,)
        assert [item.id for item in mem.list(now=NOW + HOUR)] == [kept]

    @pytest.mark.parametrize(
        "text", ["Don't forget the meeting on Friday", "我忘了带钥匙", "I forgot my umbrella", "不要忘记明天开会"]
    )
    def test_to_forget_something_else_is_no_request(self, mem, text):
        mem.observe("I like meetings and keys and umbrellas, 我喜欢开会和钥匙", now=NOW)
        assert mem.observe(text, now=NOW).forgotten == ()

    def test_an_unknown_one_says_so(self, mem):
        decision = mem.observe("Forget my shoe size", now=NOW)
        assert not decision.stored
        assert "nothing known is meant" in decision.reasons[0]


class TestEchoes:
    def test_the_words_of_a_briefing_are_not_stored_again(self, mem):
        mem.observe("Director Li prefers formal mails with a subject line", now=NOW)
        mem.brief("Mail to Director Li", now=NOW)
        for role in ("assistant", "tool"):
            again = mem.observe("Director Li prefers formal mails with a subject line.", role=role, now=NOW)
            assert not again.stored

    @pytest.mark.parametrize("format", ["markdown", "xml", "messages"])
    @pytest.mark.parametrize("role", ["user", "assistant", "import"])
    def test_nor_the_whole_of_it_whoever_pastes_it(self, mem, format, role):
        mem.observe("Director Li prefers formal mails. I like tea with lemon.", now=NOW)
        mem.add("总是用中文写邮件。别用缩写。", now=NOW)
        briefing = mem.brief("mail to Director Li, tea with lemon, 用中文写邮件", format=format, now=NOW)
        assert len(briefing) >= 2
        with TierMemory.open(now=NOW) as other:
            other.observe(briefing.text, role=role, now=NOW)
            before = mem.count(now=NOW)
            assert not mem.observe(briefing.text, role=role, now=NOW).stored
            assert mem.count(now=NOW) == before

    def test_what_is_new_beside_it_is_kept(self, mem):
        text = "## Known facts\n- Likes tea [m:5c9e01aa] (user, 1 Jan 1970)\nI prefer trains to planes."
        decision = mem.observe(text, now=NOW)
        assert [one.text for one in decision.kept] == ["I prefer trains to planes."]


class TestSubjects:
    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("Write to Director Li", ["Director Li"]),
            ("Mr. Smith and Mrs. Jones called", ["Mr Smith", "Mrs Jones"]),
            ("Dr Chen's office", ["Dr Chen"]),
            ("my sister Anna likes jazz", ["Anna"]),
            ("My older brother is a pilot", ["my brother"]),
            ("给李主任写信", ["李主任"]),
            ("张总和王经理开会", ["张总", "王经理"]),
            ("欧阳老师退休了", ["欧阳老师"]),
            ("跟小李说一声", ["小李"]),
            ("我妹妹喜欢爵士", ["我妹妹"]),
            ("我主张总结一下", []),
            ("总体来说不错", []),
            ("老师说得对", []),
            ("The director said so", []),
            ("What is the matter, Miss?", []),
        ],
    )
    def test_are_found_as_written(self, text, names):
        assert [one.name for one in find_subjects(text, {})] == names

    def test_a_name_that_two_have_is_nobodys(self, mem):
        mem.observe("Director Li likes tea", now=NOW)
        mem.observe("Professor Li likes coffee", now=NOW)
        assert mem.observe("Li prefers calls", now=NOW).about is None
        assert mem.observe("Professor Li prefers calls", now=NOW).about == "Professor Li"

    def test_an_alias_is_learned(self, mem):
        mem.observe("My sister Anna likes jazz", now=NOW)
        assert mem.observe("My sister plays the cello", now=NOW).about == "Anna"

    def test_what_is_given_is_resolved(self, mem):
        mem.observe("Director Li likes tea", now=NOW)
        assert mem.observe("Prefers short mails", about="director li", now=NOW).about == "Director Li"
        assert mem.brief("short mails", about="Li", now=NOW).items[0].about == "Director Li"

    @given(
        st.lists(st.sampled_from(["Director Li", "Director Zhang", "李主任", "张总", "Anna"]), min_size=1, max_size=6)
    )
    @settings(max_examples=40)
    def test_no_briefing_about_one_has_what_is_known_of_another(self, people):
        with TierMemory.open(now=NOW) as mem:
            for number, name in enumerate(people):
                mem.observe(f"prefers mails of kind {number}", about=name, now=NOW)
            mem.add("mails of any kind are archived", now=NOW)
            for name in set(people):
                briefing = mem.brief("prefers mails of which kind?", about=name, now=NOW)
                assert {item.about for item in briefing} <= {name, None}
                assert any(item.about == name for item in briefing)


class TestExtractor:
    def test_it_says_what_is_reusable(self):
        def extractor(turn: Turn) -> Any:
            assert turn.role == "user"
            return [{"text": "Prefers aisle seats", "importance": 0.66, "tags": ["travel"]}, "Has two children"]

        with TierMemory.open(extractor=extractor, now=NOW) as mem:
            decision = mem.observe("Well, you know, with two kids I would rather sit at the aisle.", now=NOW)
            assert [one.text for one in decision.kept] == ["Prefers aisle seats", "Has two children"]
            assert decision.kept[0].importance == 0.66
            assert mem.get(decision.ids[0], now=NOW).tags == ("travel",)

    @pytest.mark.parametrize(("answer", "stored"), [(None, True), ([], False)])
    def test_it_may_leave_it_to_the_rules_or_keep_nothing(self, answer, stored):
        with TierMemory.open(extractor=lambda _: answer, now=NOW) as mem:
            assert mem.observe("I prefer tea", now=NOW).stored is stored

    def test_its_failure_is_named_and_the_rules_decide(self):
        def broken(_: Turn) -> Any:
            raise TimeoutError("no answer in 30 s")

        with TierMemory.open(extractor=broken, now=NOW) as mem:
            decision = mem.observe("I prefer tea", now=NOW)
            assert decision.stored
            assert "the extractor failed (TimeoutError: no answer in 30 s); the rules decided" in decision.reasons

    def test_it_cannot_bring_back_what_was_deleted(self):
        with TierMemory.open(extractor=lambda _: "Works at the harbour", now=NOW) as mem:
            id = mem.observe("I am at the harbour all day", now=NOW).id
            mem.forget([id], now=NOW)
            assert not mem.observe("I am at the harbour all day, as I said", now=NOW).stored

    def test_it_sees_no_private_value(self):
        seen: list[str] = []
        with TierMemory.open(extractor=lambda turn: seen.append(turn.text), now=NOW) as mem:
            mem.observe("My mail is anna@example.com", now=NOW)
        assert seen == ["My mail is [email]"]

    @pytest.mark.parametrize(
        ("answer", "argument"),
        [
            (3, "extractor"),
            ([3], "extractor[0]"),
            ([{"txt": "x"}], "extractor[0].txt"),
            ([{"text": " "}], "extractor[0].text"),
        ],
    )
    def test_a_bad_answer_is_refused(self, answer, argument):
        with TierMemory.open(extractor=lambda _: answer, now=NOW) as mem:
            with pytest.raises(InvalidInput) as caught:
                mem.observe("I prefer tea", now=NOW)
            assert caught.value.argument == argument
            assert mem.count(now=NOW) == 0


class TestReplacing:
    def test_the_policy(self):
        def keep_all(turn: Turn, _: Known, __: WriteRules | None = None) -> Verdict:
            return Verdict((Kept(turn.text, Tier.EPISODIC, 0.5, reasons=("all is kept",)),))

        with TierMemory.open(policies=Policies(write=keep_all), now=NOW) as mem:
            assert mem.observe("Hi!", now=NOW).reasons == ("all is kept",)

    def test_the_default_is_one_of_that_form(self, mem):
        with TierMemory.open(
            policies=Policies(write=judge_turn, redactor=redact, subjects=find_subjects), now=NOW
        ) as same:
            text = "From now on call Director Li at +49 228 1234567"
            one, other = same.observe(text, now=NOW), mem.observe(text, now=NOW)
            assert (one.reasons, one.tier, one.about, one.redactions) == (other.reasons, other.tier, other.about, other.redactions)  # fmt: skip

    @pytest.mark.parametrize("rule", ["write", "extractor", "redactor", "subjects", "briefing", "procedures", "tiers"])
    def test_what_is_no_rule_is_refused(self, rule):
        with pytest.raises(InvalidInput) as caught:
            Policies(**{rule: 3})
        assert caught.value.argument == f"policies.{rule}"

    def test_the_redactor(self):
        rule = Policies(redactor=lambda text: Redacted(text.replace("tea", "[drink]"), ("drink",), {"drink": "tea"}))
        with TierMemory.open(policies=rule, config={"writing": {"private_values": "vault"}}, now=NOW) as mem:
            decision = mem.observe("I prefer tea", now=NOW)
            assert decision.redactions == ("drink",)
            assert mem.get(decision.id, now=NOW).private == {"drink": "***"}
            assert mem.get(decision.id, grant={"fields": ["drink"]}, now=NOW).private == {"drink": "tea"}


class TestPrivateValues:
    @pytest.mark.parametrize(
        ("text", "kinds"),
        [
            ("anna@example.com", ["email"]),
            ("call 13812345678", ["phone"]),
            ("+86 138 1234 5678", ["phone"]),
            ("电话 010-62345678", ["phone"]),
            ("+44 20 7946 0958", ["phone"]),
            ("身份证 11010519491231002X", ["resident_id"]),
            ("card 4111 1111 1111 1111", ["bank_card"]),
            ("host 192.168.10.4", ["ip_address"]),
            ("key AKIAIOSFODNN7EXAMPLE", ["key"]),
            ("my password is hunter2!", ["password"]),
            ("密码是hunter2", ["password"]),
            ("token ghp_0123456789abcdefghijABCDEFGHIJ012345", ["key"]),
            ("a@example.com and b@example.com", ["email", "email2"]),
            ("a@example.com and again a@example.com", ["email"]),
            ("身份证 110105194912310021", []),
            ("card 4111 1111 1111 1112", []),
            ("order 20240503123456, 1.5 kg, 12:30, page 13800", []),
            ("version 1.2.3.4000", []),
            ("2024-05-03 10:20:30", []),
            ("the @handle and user@host", []),
            ("¥12,345,678.90", []),
        ],
    )
    def test_are_found(self, text, kinds):
        found = redact(text)
        assert len(found.found) == len(kinds)
        assert list(found.values) == kinds
        assert all(value not in found.text for value in found.values.values())
        assert (found.text == text) == (not kinds)

    def test_allowed_they_stay(self):
        with TierMemory.open(config={"writing": {"private_values": "allow"}}, now=NOW) as mem:
            assert mem.observe("My mail is anna@example.com", now=NOW).kept[0].text == "My mail is anna@example.com"

    @given(st.text(max_size=200))
    def test_redacting_twice_is_redacting_once(self, text):
        once = redact(text).text
        assert redact(once).text == once


class TestReading:
    def test_sentences_keep_every_sign_but_blanks(self):
        text = "Hi! Dr. Li called at 3.5 p.m. today. 好吗？好。\n- one\n- two"
        assert "".join("".join(sentences(text)).split()) == "".join(text.split())

    @given(st.text(max_size=300))
    def test_units_keep_every_sign_but_blanks(self, text):
        assert "".join("".join(units(text)).split()) == "".join(text.split())
        assert all(unit.strip() for unit in units(text))

    @given(st.text(max_size=200), st.text(max_size=200))
    def test_overlap_is_symmetric_and_a_share(self, one, other):
        assert overlap(one, other) == overlap(other, one)
        assert 0.0 <= overlap(one, other) <= 1.0
        assert 0.0 <= contained(one, other) <= 1.0
        assert overlap(one, one) == (1.0 if words(one) else 0.0)
        assert claim_key(claim_key(one)) == claim_key(claim_key(one))

    @pytest.mark.parametrize("sign", ["a", "哈", "ok ", "不", "i ", "我", "\n", "(", "my a ", "1", "@", "a@", "以后", "记住", "-", "ignore all "])  # fmt: skip
    def test_no_text_makes_reading_slow(self, sign):
        text = (sign * 20_000)[:20_000]
        start = time.process_time()
        with TierMemory.open(now=NOW) as mem:
            mem.observe(text + "!", now=NOW) if text.strip() else None
        signals.read(text)
        redact(text)
        find_subjects(text, {"anna": "Anna"})
        # Not a measurement: whatever backtracks takes hours here.
        assert time.process_time() - start < 60

    @given(st.text(min_size=1, max_size=120), st.sampled_from(["user", "assistant", "tool", "system", "import"]))
    @settings(max_examples=150)
    def test_any_text_is_decided(self, text, role):
        with TierMemory.open(now=NOW) as mem:
            try:
                decision = mem.observe(text, role=role, session="s1", now=NOW)
            except InvalidInput:
                assert not text.strip() or "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text)
                return
            assert decision.reasons
            assert mem.count(now=NOW) == len(set(decision.ids))
            assert decision.stored == bool(decision.ids)


class TestArguments:
    @pytest.mark.parametrize(
        ("given", "argument"),
        [
            ({"role": "robot"}, "source"),
            ({"session": ""}, "session"),
            ({"task": 3}, "task"),
            ({"about": " "}, "about"),
            ({"outcome": []}, "outcome"),
        ],
    )
    def test_bad_ones_are_refused(self, mem, given, argument):
        with pytest.raises(InvalidInput) as caught:
            mem.observe("I prefer tea", now=NOW, **given)
        assert caught.value.argument == argument
        assert mem.count(now=NOW) == 0

    def test_many_threads_may_observe(self, mem):
        def work(number: int) -> None:
            for turn in range(20):
                mem.observe(f"I like dish {number}-{turn} of restaurant {number}", session=f"s{number}", now=NOW + turn)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert mem.count(now=NOW) == 80
