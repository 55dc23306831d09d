//! Two handles on one directory, and what comes back after closing: the cases that once went wrong, one by one.

#![allow(clippy::float_cmp, reason = "what comes back is what went in, to the bit")]

#[path = "engine_model/mod.rs"]
mod naive;

use std::path::Path;

use naive::{NOW, SECOND, in_memory, open};
use tiermem_core::base::{MemoryId, Micros, State, Tier};
use tiermem_core::engine::{Engine, Item, NewMemory, Patch, Query, Viewer};
use tiermem_core::store::{Condition, Field, Filter, Test, Value};

const LATER: Micros = Micros(NOW.0 + 7_200 * SECOND);

fn memory(number: u128, text: &str) -> NewMemory {
    NewMemory::new(MemoryId(number), text, Tier::Semantic)
}

fn add(engine: &Engine, items: &[NewMemory]) -> Vec<(bool, bool)> {
    let added = engine.add(items, None, NOW).expect("added");
    added.iter().map(|one| (one.created, one.reinforced)).collect()
}

fn get(engine: &Engine, number: u128, now: Micros) -> Item {
    engine.get(&[MemoryId(number)], &Viewer::owner(), now).expect("it is there").remove(0)
}

fn count_where(engine: &Engine, name: &str, value: &str) -> usize {
    let test = Test::In(vec![Value::Text(value.into())]);
    let filter =
        Filter { conditions: vec![Condition { field: Field::Metadata(name.into()), test }], ..Filter::default() };
    engine.count(&filter, &[], &Viewer::owner(), NOW).expect("a count")
}

fn both(directory: &Path) -> (Engine, Engine) {
    (open(directory), open(directory))
}

#[test]
fn metadata_that_another_handle_changed_are_filtered_by() {
    let directory = tempfile::tempdir().expect("a directory");
    let (one, other) = both(directory.path());
    let item = NewMemory { metadata: Some(r#"{"project":"q3"}"#.to_owned()), ..memory(1, "the budget") };
    add(&one, &[item]);
    assert_eq!((count_where(&one, "project", "q3"), count_where(&other, "project", "q3")), (1, 1));
    let patch = Patch { metadata: Some(Some(r#"{"project":"q4"}"#.to_owned())), ..Patch::default() };
    one.update(MemoryId(1), &patch, NOW).expect("updated");
    assert_eq!((count_where(&other, "project", "q3"), count_where(&other, "project", "q4")), (0, 1));
    other.update(MemoryId(1), &Patch { metadata: Some(None), ..Patch::default() }, NOW).expect("updated");
    assert_eq!((count_where(&one, "project", "q4"), count_where(&other, "project", "q4")), (0, 0));
}

#[test]
fn a_call_that_writes_nothing_leaves_no_gap_in_which_others_are_missed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (one, other) = both(directory.path());
    let item = NewMemory { idempotency_key: Some("k".into()), ..memory(1, "said once") };
    assert_eq!(add(&one, std::slice::from_ref(&item)), [(true, false)]);
    assert_eq!(add(&one, &[item]), [(false, false)], "the very same call again");
    one.forget(&[], NOW).expect("nothing to forget");
    add(&other, &[memory(2, "said by the other")]);
    assert_eq!(get(&one, 2, NOW).text, "said by the other");
    let commits =
        |engine: &Engine| (engine.stats(NOW).expect("figures").commit, engine.disk().expect("open").last_commit());
    assert_eq!(commits(&one), (2, Ok(2)));
}

#[test]
fn uses_stay_in_view_while_others_write_the_same_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    let (one, other) = both(directory.path());
    add(&one, &[memory(1, "green tea")]);
    one.used(&[MemoryId(1)], LATER).expect("used");
    other.used(&[MemoryId(1)], LATER).expect("used");
    assert_eq!((get(&one, 1, LATER).head.use_count, get(&other, 1, LATER).head.use_count), (1, 1));
    let patch = Patch { importance: Some(0.9), ..Patch::default() };
    one.update(MemoryId(1), &patch, LATER).expect("updated");
    let seen = get(&other, 1, LATER).head;
    assert_eq!((seen.use_count, seen.importance), (2, 0.9), "its own use and that of the other");
    other.close(LATER).expect("closed");
    assert_eq!(get(&one, 1, LATER).head, seen);
    one.close(LATER).expect("closed");
    assert_eq!(get(&open(directory.path()), 1, LATER).head, seen);
}

#[test]
fn a_text_whose_memory_has_ended_is_a_new_memory() {
    let engine = in_memory();
    let ending = |number| NewMemory { expires_at: Some(Micros(NOW.0 + SECOND)), ..memory(number, "on call today") };
    assert_eq!(add(&engine, &[ending(1)]), [(true, false)]);
    let added = engine.add(&[memory(2, "on call today")], None, LATER).expect("added");
    assert!(added[0].created);
    assert_eq!(get(&engine, 2, LATER).text, "on call today");
}

#[test]
fn hearing_it_again_takes_nothing_back() {
    let engine = in_memory();
    let first = NewMemory { expires_at: Some(Micros(NOW.0 + SECOND)), ..memory(1, "lives at 5 Elm Street") };
    let again = NewMemory { labels: vec!["address".into()], pinned: true, ..memory(2, "lives at 5 Elm Street") };
    assert_eq!(add(&engine, &[first, again]), [(true, false), (false, true)]);
    let head = get(&engine, 1, LATER).head;
    assert_eq!((head.expires_at, head.pinned, head.half_life), (None, true, f32::INFINITY));
    assert_eq!(head.labels, ["address".into()]);
    assert_eq!(engine.count(&Filter::default(), &[], &Viewer::default(), LATER), Ok(1), "a count tells no text");
    let denied = engine.get(&[MemoryId(1)], &Viewer::default(), LATER);
    assert!(matches!(denied, Err(tiermem_core::base::Error::AccessDenied { .. })), "{denied:?}");
}

#[test]
fn an_item_after_a_retried_one_is_judged_by_itself() {
    let engine = in_memory();
    let keyed = |number, key: &str| NewMemory { idempotency_key: Some(key.into()), ..memory(number, "tea") };
    assert_eq!(add(&engine, &[keyed(1, "k1")]), [(true, false)]);
    assert_eq!(add(&engine, &[keyed(2, "k1"), keyed(3, "k2")]), [(false, false), (false, true)]);
    assert_eq!(add(&engine, &[keyed(4, "k2")]), [(false, false)], "its key was remembered");
    assert_eq!(get(&engine, 1, NOW).head.repeat_count, 1);
}

#[test]
fn what_is_pinned_never_decays_and_decays_again_once_released() {
    let engine = in_memory();
    add(&engine, &[memory(1, "tea")]);
    let born = get(&engine, 1, NOW).head.half_life;
    let pin = |pinned| Patch { pinned: Some(pinned), ..Patch::default() };
    engine.update(MemoryId(1), &pin(true), NOW).expect("pinned");
    assert_eq!(get(&engine, 1, NOW).head.half_life, f32::INFINITY);
    engine.update(MemoryId(1), &pin(false), NOW).expect("released");
    assert_eq!(get(&engine, 1, NOW).head.half_life, born);
    engine.update(MemoryId(1), &Patch { tier: Some(Tier::Procedural), ..Patch::default() }, NOW).expect("moved");
    assert_eq!(get(&engine, 1, NOW).head.half_life, f32::INFINITY);
}

#[test]
fn of_two_that_say_the_same_the_older_is_reinforced_before_and_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = open(directory.path());
    add(&engine, &[memory(1, "tea")]);
    engine.forget(&[MemoryId(1)], NOW).expect("forgotten");
    add(&engine, &[memory(2, "tea")]);
    engine.restore(&[MemoryId(1)], NOW).expect("restored");
    assert_eq!(engine.add(&[memory(3, "tea")], None, NOW).expect("told")[0].id, MemoryId(1));
    engine.close(NOW).expect("closed");
    let engine = open(directory.path());
    assert_eq!(engine.add(&[memory(4, "tea")], None, NOW).expect("told")[0].id, MemoryId(1));
}

#[test]
fn labels_that_are_on_no_memory_any_more_do_not_stop_a_handle() {
    let directory = tempfile::tempdir().expect("a directory");
    let one = open(directory.path());
    let labelled = |number: u128, label: usize| NewMemory {
        labels: vec![format!("label {label}").into()],
        ..memory(number, &format!("memory {number}"))
    };
    for number in 0..64 {
        add(&one, &[labelled(number as u128 + 1, number)]);
    }
    for number in 0..8_u128 {
        let patch = Patch { labels: Some(Vec::new()), ..Patch::default() };
        one.update(MemoryId(number + 1), &patch, NOW).expect("updated");
    }
    // The other handle has never heard of the eight, and has room for them.
    let other = open(directory.path());
    add(&other, &[labelled(100, 100), labelled(101, 101)]);
    assert_eq!(get(&one, 101, NOW).head.labels, ["label 101".into()]);
    add(&one, &[labelled(102, 102)]);
    assert_eq!(get(&other, 102, NOW).head.state, State::Alive);
}

#[test]
fn a_handle_opened_before_there_were_vectors_finds_by_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let (one, other) = both(directory.path());
    let (model, values) = (naive::model(), naive::direction(2));
    one.add(&[memory(1, "tea")], Some((&values, &model)), NOW).expect("added");
    let query = Query {
        text: "",
        vector: Some((&values, &model)),
        k: 3,
        filter: Filter::default(),
        must: Vec::new(),
        viewer: Viewer::default(),
        min_score: None,
        now: NOW,
    };
    assert_eq!(other.search(&query).expect("a search").ids, [MemoryId(1)]);
    let stranger = tiermem_core::engine::Model { id: "another".to_owned(), ..model };
    let refused = other.add(&[memory(2, "coffee")], Some((&values, &stranger)), NOW);
    assert!(matches!(refused, Err(tiermem_core::base::Error::ModelMismatch { .. })), "{refused:?}");
}

#[test]
fn consolidation_folds_what_is_said_twice_and_names_it() {
    let engine = in_memory();
    let (model, same) = (naive::model(), naive::direction(2));
    let said = |number: u128, tier, text: &str| NewMemory { tier, session: Some("s".into()), ..memory(number, text) };
    let items = [
        said(1, Tier::Episodic, "The flight leaves at 10:35"),
        said(2, Tier::Episodic, "The flight leaves at 10:45"),
        said(3, Tier::Working, "the flight leaves at 10:35!"),
        said(4, Tier::Semantic, "The flight leaves at 10:35"),
    ];
    let vectors: Vec<f32> = items.iter().flat_map(|_| same.clone()).collect();
    engine.add(&items, Some((&vectors, &model)), NOW).expect("added");
    let report = engine.consolidate(false, LATER).expect("a consolidation");
    assert!(report.promoted.is_empty() && report.let_go.is_empty(), "{report:?}");
    let [merged] = report.merged.as_slice() else { panic!("{report:?}") };
    assert_eq!((merged.id, merged.into), (MemoryId(3), Some(MemoryId(1))), "straight from the working tier");
    assert_eq!(merged.text, "the flight leaves at 10:35!");
    let survivor = get(&engine, 1, LATER);
    assert_eq!((survivor.head.repeat_count, survivor.derived_from), (1, vec![MemoryId(3)]));
    assert_eq!(get(&engine, 3, LATER).head.state, State::Merged, "and is readable still");
}
