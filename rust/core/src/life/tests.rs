//! The laws of a consolidation, on random stores.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{Plan, Step, plan};
use crate::base::{Head, MemoryId, Micros, Row, RowSet, Source, State, Tier};
use crate::rank::Laws;
use crate::store::Columns;

const NOW: Micros = Micros(1_700_000_000_000_000);
const SECOND: i64 = 1_000_000;

/// A memory with its meaning: memories that mean the same are near-duplicates.
#[derive(Debug, Clone)]
struct Told {
    head: Head,
    meaning: u8,
}

fn laws() -> Laws {
    Laws { working_capacity: 4, promote_uses: 2, ..Laws::default() }
}

fn name(of: &'static [&'static str]) -> impl Strategy<Value = Option<Box<str>>> {
    prop::option::weighted(0.8, prop::sample::select(of).prop_map(Into::into))
}

fn told() -> impl Strategy<Value = Told> {
    let place =
        (prop::sample::select(&Tier::ALL[..]), name(&["s1", "s2", "s3", "s4"]), name(&["Li"]), 0..5_u8, 0..3_u8);
    let judged = ((0..=10_u8).prop_map(|tenths| f32::from(tenths) / 10.0), 0..4_u32, prop::bool::weighted(0.15));
    let rest = (
        0..5_000_i64,
        prop::option::weighted(0.2, -100..100_i64),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
    );
    (place, judged, rest).prop_map(
        |((tier, session, about, text, meaning), (importance, spaced_uses, pinned), rest)| {
            let (idle, ends_in, forgotten, labelled) = rest;
            let head = Head {
                id: MemoryId(0),
                state: if forgotten { State::Forgotten } else { State::Alive },
                tier,
                importance,
                session,
                about,
                source: Source::User,
                trust: 1.0,
                tags: vec![],
                labels: if labelled { vec!["health".into()] } else { vec![] },
                created_at: Micros(0),
                last_used_at: Micros(NOW.0 - idle * SECOND),
                use_count: spaced_uses,
                spaced_uses,
                repeat_count: 0,
                half_life: 1_800.0,
                expires_at: ends_in.map(|seconds| Micros(NOW.0 + seconds * SECOND)),
                pinned,
                version: 1,
                text_key: u64::from(text),
            };
            Told { head, meaning }
        },
    )
}

fn stores() -> impl Strategy<Value = Vec<Told>> {
    prop::collection::vec(told(), 0..50).prop_map(|mut all| {
        for (row, told) in all.iter_mut().enumerate() {
            told.head.id = MemoryId(row as u128 + 1);
        }
        all
    })
}

fn columns(all: &[Told]) -> Columns {
    let mut columns = Columns::new();
    for (row, told) in all.iter().enumerate() {
        columns.put(Row(row as u32), &told.head).expect("two labels");
    }
    columns
}

fn planned(all: &[Told], fresh: &RowSet) -> Plan {
    let columns = columns(all);
    let alike = |row: Row, other: Row| {
        let (one, other) = (&all[row.index()], &all[other.index()]);
        one.meaning == other.meaning && (&one.head.about, &one.head.labels) == (&other.head.about, &other.head.labels)
    };
    let planned = plan(&columns, &laws(), NOW, fresh, |row, among| {
        Ok::<_, Infallible>(among.iter().find(|other| alike(row, *other)))
    });
    planned.unwrap_or_else(|never| match never {})
}

fn rows(all: &[Told]) -> RowSet {
    RowSet::full(all.len())
}

/// Does what the plan says, as the engine would.
fn carried_out(all: &[Told], plan: &Plan) -> Vec<Told> {
    let mut all = all.to_vec();
    for step in &plan.steps {
        let head = &mut all[step.row().index()].head;
        match step {
            Step::Promote { to, .. } => head.tier = *to,
            Step::LetGo { .. } => head.state = State::Forgotten,
            Step::Merge { into, .. } => {
                head.state = State::Merged;
                let gone = head.clone();
                let head = &mut all[into.index()].head;
                head.spaced_uses += gone.spaced_uses;
                head.importance = head.importance.max(gone.importance);
                head.last_used_at = head.last_used_at.max(gone.last_used_at);
                head.pinned |= gone.pinned;
                head.expires_at = head.expires_at.zip(gone.expires_at).map(|(one, other)| one.max(other));
            }
        }
    }
    all
}

fn lives(head: &Head) -> bool {
    head.state == State::Alive && head.expires_at.is_none_or(|end| end > NOW)
}

/// The working memories of each session that leave for one reason, as (all of them, those promoted).
fn leaving(all: &[Told]) -> Vec<(Vec<usize>, BTreeSet<usize>)> {
    let laws = laws();
    let mut sessions: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for (row, Told { head, .. }) in all.iter().enumerate() {
        if lives(head) && head.tier == Tier::Working && !head.pinned {
            sessions.entry(head.session.as_deref()).or_default().push(row);
        }
    }
    let mut groups = Vec::new();
    for rows in sessions.into_values() {
        let used = |row: &usize| all[*row].head.last_used_at;
        let (idle, mut busy): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| NOW.seconds_since(used(row)) > laws.working_ttl_seconds);
        busy.sort_by_key(|row| (used(row), *row));
        let over = if busy.len() > laws.working_capacity { busy.len() - laws.working_capacity.div_ceil(2) } else { 0 };
        busy.truncate(over);
        groups.extend([idle, busy].into_iter().filter(|group| !group.is_empty()));
    }
    groups
        .into_iter()
        .map(|group| {
            let then = group.iter().map(|row| all[*row].head.last_used_at).max().expect("not empty");
            let worth = |row: &usize| {
                let head = &all[*row].head;
                head.importance * laws.strength(Tier::Working, then, head.last_used_at, head.half_life)
            };
            // Better than fewer than half of the group; of two equals the later one is the better.
            let beaten_by =
                |row: &usize| group.iter().filter(|other| (worth(other), **other) > (worth(row), *row)).count();
            let best = group.iter().copied().filter(|row| beaten_by(row) * 2 < group.len()).collect();
            (group, best)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, rng_seed: RngSeed::Fixed(0x11fe), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn no_row_is_planned_twice_and_only_the_living_are(all in stores()) {
        let plan = planned(&all, &rows(&all));
        let mut seen = BTreeSet::new();
        for step in &plan.steps {
            prop_assert!(seen.insert(step.row()), "{:?} again", step);
            prop_assert_eq!(all[step.row().index()].head.state, State::Alive);
        }
        prop_assert_eq!(&planned(&all, &rows(&all)), &plan, "planning changes nothing");
    }

    #[test]
    fn after_a_plan_was_carried_out_nothing_is_left_to_do(all in stores(), asked in 0..50_usize) {
        let fresh = RowSet::from_rows(rows(&all).range(asked, all.len()));
        let after = carried_out(&all, &planned(&all, &fresh));
        prop_assert_eq!(planned(&after, &RowSet::new()), Plan::default());
        prop_assert_eq!(planned(&after, &fresh), Plan::default(), "merging is idempotent");
    }

    #[test]
    fn working_memories_leave_as_the_law_says(all in stores()) {
        let plan = planned(&all, &RowSet::new());
        let after = carried_out(&all, &plan);
        let mut left = BTreeSet::new();
        for (group, best) in leaving(&all) {
            for row in group {
                left.insert(row);
                let step = plan.steps.iter().find(|step| step.row().index() == row);
                match step {
                    Some(Step::LetGo { .. }) => prop_assert!(!best.contains(&row), "row {} was among the best", row),
                    Some(Step::Promote { to, .. }) => prop_assert!(best.contains(&row) && *to > Tier::Working),
                    Some(Step::Merge { .. }) => prop_assert!(best.contains(&row), "what is let go is folded into nothing"),
                    None => prop_assert!(false, "row {} stays", row),
                }
            }
        }
        for (row, (before, after)) in all.iter().zip(&after).enumerate() {
            if before.head.tier == Tier::Working && lives(&before.head) && !left.contains(&row) {
                prop_assert!(after.head.tier == Tier::Working && after.head.state == State::Alive, "row {} left", row);
            }
        }
    }

    #[test]
    fn what_is_let_go_is_ended_or_worst_of_the_working_and_never_pinned(all in stores()) {
        let plan = planned(&all, &rows(&all));
        let let_go: BTreeSet<usize> = plan.steps.iter().filter_map(|step| match step {
            Step::LetGo { row, reason } => Some((row.index(), *reason)),
            _ => None,
        }).map(|(row, reason)| { assert!(!reason.is_empty()); row }).collect();
        let worst: BTreeSet<usize> = leaving(&all)
            .into_iter()
            .flat_map(|(group, best)| group.into_iter().filter(move |row| !best.contains(row)))
            .collect();
        for (row, Told { head, .. }) in all.iter().enumerate() {
            let ended = head.state == State::Alive && !lives(head);
            let expected = !head.pinned && (ended || worst.contains(&row));
            prop_assert_eq!(let_go.contains(&row), expected, "row {}", row);
        }
    }

    #[test]
    fn what_becomes_semantic_has_earned_it_and_what_has_earned_it_does(all in stores()) {
        let plan = planned(&all, &rows(&all));
        let after = carried_out(&all, &plan);
        let laws = laws();
        let sessions_of = |key: u64, about: &Option<Box<str>>, labels: &[Box<str>], among: &[Told]| {
            let alike = |told: &&Told| {
                lives(&told.head) && told.head.text_key == key && told.head.about == *about && told.head.labels == labels
            };
            among.iter().filter(alike).filter_map(|told| told.head.session.as_deref()).collect::<BTreeSet<_>>().len()
        };
        for step in &plan.steps {
            if let Step::Promote { row, to: Tier::Semantic, reason } = step {
                let head = &after[row.index()].head;
                prop_assert!(matches!(all[row.index()].head.tier, Tier::Episodic | Tier::Working));
                if *reason == "used again and again" {
                    prop_assert!(head.spaced_uses >= laws.promote_uses && head.importance >= laws.promote_importance);
                } else {
                    let told = sessions_of(head.text_key, &head.about, &head.labels, &all);
                    prop_assert!(told >= laws.promote_sessions as usize, "told in {} sessions", told);
                }
            }
        }
        for Told { head, .. } in after.iter().filter(|told| lives(&told.head) && told.head.tier == Tier::Episodic) {
            prop_assert!(head.spaced_uses < laws.promote_uses || head.importance < laws.promote_importance);
            let episodic: Vec<Told> = after.iter().filter(|told| told.head.tier == Tier::Episodic).cloned().collect();
            prop_assert!(sessions_of(head.text_key, &head.about, &head.labels, &episodic) < laws.promote_sessions as usize);
        }
    }

    #[test]
    fn merges_fold_the_newer_into_a_living_older_one_of_its_kind(all in stores()) {
        let plan = planned(&all, &rows(&all));
        let after = carried_out(&all, &plan);
        for step in &plan.steps {
            let Step::Merge { row, into, reason } = step else { continue };
            let (one, other) = (&all[row.index()], &all[into.index()]);
            prop_assert!(into < row && lives(&one.head) && lives(&other.head));
            prop_assert_eq!((&one.head.about, &one.head.labels), (&other.head.about, &other.head.labels));
            if *reason == "said in several sessions" {
                prop_assert_eq!(one.head.text_key, other.head.text_key);
            } else {
                prop_assert_eq!(one.meaning, other.meaning);
                let survivor = &after[into.index()].head;
                let episodic = lives(survivor) && survivor.tier == Tier::Episodic;
                prop_assert!(!episodic || one.head.session == other.head.session);
            }
            let mut last = *into;
            while let Some(Step::Merge { into, .. }) = plan.steps.iter().find(|step| step.row() == last) {
                last = *into;
            }
            prop_assert!(lives(&after[last.index()].head), "what was folded lives on somewhere");
            prop_assert!(!one.head.pinned || after[last.index()].head.pinned);
        }
        // Nothing that means the same is left beside each other, where it was asked for.
        for (row, one) in after.iter().enumerate() {
            for other in &after[..row] {
                let alike = one.meaning == other.meaning && one.head.tier == other.head.tier
                    && (one.head.tier != Tier::Episodic || one.head.session == other.head.session)
                    && (&one.head.about, &one.head.labels) == (&other.head.about, &other.head.labels);
                prop_assert!(!(alike && lives(&one.head) && lives(&other.head) && one.head.tier != Tier::Working));
            }
        }
    }
}

#[test]
fn what_is_said_in_session_after_session_is_not_folded_together_before_it_counts() {
    let said = |session: &str, row: u128| Told {
        head: Head { id: MemoryId(row + 1), session: Some(session.into()), tier: Tier::Working, ..plain() },
        meaning: 0,
    };
    let mut all: Vec<Told> = Vec::new();
    for (row, session) in ["s1", "s2", "s3"].into_iter().enumerate() {
        all.push(said(session, row as u128));
        let fresh = RowSet::from_rows([Row(row as u32)]);
        all = carried_out(&all, &planned(&all, &fresh));
        let tiers: Vec<Tier> = all.iter().filter(|told| lives(&told.head)).map(|told| told.head.tier).collect();
        assert_eq!(tiers, if row < 2 { vec![Tier::Episodic; row + 1] } else { vec![Tier::Semantic] });
    }
    // Within one session the second is folded into the first at once.
    let twice = [said("s1", 0), said("s1", 1)].map(|mut told| {
        told.head.tier = Tier::Episodic;
        told
    });
    let plan = planned(&twice, &rows(&twice));
    assert!(matches!(plan.steps.as_slice(), [Step::Merge { row: Row(1), into: Row(0), .. }]), "{plan:?}");
}

fn plain() -> Head {
    Head {
        id: MemoryId(1),
        state: State::Alive,
        tier: Tier::Working,
        importance: 0.5,
        session: None,
        about: None,
        source: Source::User,
        trust: 1.0,
        tags: vec![],
        labels: vec![],
        created_at: Micros(0),
        last_used_at: Micros(0),
        use_count: 0,
        spaced_uses: 0,
        repeat_count: 0,
        half_life: 1_800.0,
        expires_at: None,
        pinned: false,
        version: 1,
        text_key: 0,
    }
}

#[test]
fn a_share_of_a_decimal_is_that_of_the_decimal() {
    let working = |row: u32| {
        let (id, text_key) = (MemoryId(u128::from(row) + 1), u64::from(row));
        let head = Head { id, text_key, importance: row as f32 / 100.0, last_used_at: NOW, ..plain() };
        Told { head, meaning: row as u8 }
    };
    let columns = columns(&(0..30).map(working).collect::<Vec<_>>());
    for (share, promoted) in [(0.0, 0), (0.1, 2), (0.3, 6), (0.5, 10), (0.51, 11), (0.9, 18), (1.0, 20)] {
        let laws = Laws { working_capacity: 20, working_keep_share: share, ..Laws::default() };
        let plan = plan(&columns, &laws, NOW, &RowSet::new(), |_, _| Ok::<_, Infallible>(None));
        let steps = plan.unwrap_or_else(|never| match never {}).steps;
        assert_eq!(steps.len(), 20);
        assert_eq!(steps.iter().filter(|step| matches!(step, Step::Promote { .. })).count(), promoted, "{share}");
    }
}
