//! Each limit through the engine: one below it and at it are taken, one over it is refused by name and value, and what
//! was refused has changed nothing.

#[path = "engine_model/mod.rs"]
mod naive;

use naive::{DIMENSION, NOW, direction, in_memory, model, options};
use tiermem_core::base::{Error, MemoryId, Micros, Result, Tier, limits};
use tiermem_core::disk::Durability;
use tiermem_core::engine::{Engine, EngineConfig, Listing, Model, NewMemory, Patch, Query, Viewer};
use tiermem_core::rank::Laws;
use tiermem_core::store::{Condition, Field, Filter, Test, Value};

fn memory(number: u128) -> NewMemory {
    NewMemory::new(MemoryId(number), format!("memory {number}"), Tier::Semantic)
}

fn query(text: &str) -> Query<'_> {
    Query {
        text,
        vector: None,
        k: 3,
        filter: Filter::default(),
        must: Vec::new(),
        viewer: Viewer::default(),
        min_score: None,
        now: NOW,
    }
}

fn names(count: usize) -> Vec<Box<str>> {
    (0..count).map(|number| format!("name {number}").into()).collect()
}

fn count(engine: &Engine) -> usize {
    engine.count(&Filter::default(), &[], &Viewer::owner(), NOW).expect("a count")
}

/// Tries a memory of each size; only the last is over the limit.
fn add_up_to(limit: usize, what: &str, make: impl Fn(NewMemory, usize) -> NewMemory) {
    let engine = in_memory();
    for (number, size) in [limit - 1, limit, limit + 1].into_iter().enumerate() {
        let added = engine.add(&[make(memory(number as u128), size)], None, NOW);
        if size <= limit {
            assert!(added.as_ref().is_ok_and(|added| added[0].created), "{what} of {size}: {added:?}");
            continue;
        }
        let Err(Error::Limit { what: told, got, limit: named }) = added else {
            panic!("{what} of {size}: {added:?}");
        };
        assert!(told.contains(what), "{told:?} does not name {what}");
        assert_eq!((got, named), (size as u64, limit as u64));
    }
    assert_eq!(count(&engine), 2);
}

fn object(bytes: usize) -> String {
    let json = format!(r#"{{"k":"{}"}}"#, "v".repeat(bytes - 8));
    assert_eq!(json.len(), bytes);
    json
}

/// An object that is so many levels deep.
fn nested(depth: usize) -> String {
    let inner = "[".repeat(depth - 1) + &"]".repeat(depth - 1);
    format!(r#"{{"k":{inner}}}"#)
}

#[test]
fn what_a_memory_holds_is_bounded() {
    add_up_to(limits::TEXT_BYTES, "text", |item, size| NewMemory { text: "x".repeat(size), ..item });
    add_up_to(limits::NAME_BYTES, "session", |item, size| NewMemory { session: Some("s".repeat(size).into()), ..item });
    add_up_to(limits::NAME_BYTES, "about", |item, size| NewMemory { about: Some("s".repeat(size).into()), ..item });
    add_up_to(limits::NAME_BYTES, "idempotency_key", |item, size| NewMemory {
        idempotency_key: Some("k".repeat(size).into()),
        ..item
    });
    add_up_to(limits::NAME_BYTES, "tags", |item, size| NewMemory { tags: vec!["t".repeat(size).into()], ..item });
    add_up_to(limits::NAME_BYTES, "labels", |item, size| NewMemory { labels: vec!["l".repeat(size).into()], ..item });
    add_up_to(limits::NAMES_PER_MEMORY, "tags", |item, size| NewMemory { tags: names(size), ..item });
    add_up_to(limits::NAMES_PER_MEMORY, "labels", |item, size| NewMemory { labels: names(size), ..item });
    add_up_to(limits::METADATA_BYTES, "metadata", |item, size| NewMemory { metadata: Some(object(size)), ..item });
    add_up_to(limits::METADATA_BYTES, "private", |item, size| NewMemory { private: Some(object(size)), ..item });
    add_up_to(limits::METADATA_DEPTH, "metadata", |item, size| NewMemory { metadata: Some(nested(size)), ..item });
    add_up_to(limits::METADATA_DEPTH, "private", |item, size| NewMemory { private: Some(nested(size)), ..item });
}

#[test]
fn an_endless_nesting_is_refused_without_falling_over() {
    let engine = in_memory();
    let item = NewMemory { metadata: Some(nested(30_000)), ..memory(1) };
    let refused = engine.add(&[item], None, NOW);
    assert!(matches!(refused, Err(Error::Limit { .. } | Error::Invalid { .. })), "{refused:?}");
    assert_eq!(count(&engine), 0);
}

#[test]
fn a_store_has_room_for_so_many_labels() {
    let engine = in_memory();
    let labelled =
        |number: u128, label: usize| NewMemory { labels: vec![format!("l{label}").into()], ..memory(number) };
    let items: Vec<NewMemory> = (0..limits::LABELS).map(|label| labelled(label as u128, label)).collect();
    engine.add(&items, None, NOW).expect("exactly as many as there are bits");
    let over = engine.add(&[labelled(900, 900)], None, NOW);
    assert!(matches!(over, Err(Error::Limit { got: 65, limit: 64, .. })), "{over:?}");
    let over = engine.update(MemoryId(1), &Patch { labels: Some(vec!["l900".into()]), ..Patch::default() }, NOW);
    assert!(matches!(over, Err(Error::Limit { .. })), "{over:?}");
    let patch = Patch { labels: Some(vec!["l900".into()]), ..Patch::default() };
    let over = engine.supersede(MemoryId(1), MemoryId(901), "new", &patch, None, NOW);
    assert!(matches!(over, Err(Error::Limit { .. })), "{over:?}");
    engine.add(&[labelled(902, 63)], None, NOW).expect("a label that is known takes no room");
    let viewer = Viewer { labels: vec!["l63".into()], ..Viewer::default() };
    let seen = engine.list(&Listing { limit: 100, viewer, ..Listing::default() }, NOW).expect("a list");
    assert_eq!(seen.iter().map(|item| item.head.id.0).collect::<Vec<_>>(), [63, 902], "the last bit is a label too");
    assert_eq!(count(&engine), limits::LABELS + 1);
}

#[test]
fn a_call_takes_so_many_memories() {
    let engine = in_memory();
    // One memory under many names: what is checked is the count, before anything is made of it.
    let item = NewMemory { text: String::new(), ..memory(1) };
    let many = vec![item; limits::BATCH + 1];
    let refused = engine.add(&many, None, NOW);
    assert!(matches!(refused, Err(Error::Limit { got: 1_048_577, limit: 1_048_576, .. })), "{refused:?}");
    let refused = engine.add(&many[1..], None, NOW);
    assert!(matches!(refused, Err(Error::Invalid { .. })), "an empty text is next: {refused:?}");
    assert_eq!(count(&engine), 0);
}

#[test]
fn a_large_call_is_stored_whole() {
    let engine = in_memory();
    // More than one slice of the picture and more than one group of the disk hold.
    let items: Vec<NewMemory> = (0..9_000).map(|number| memory(number % 8_999 + 1)).collect();
    let duplicate = engine.add(&items, None, NOW).expect("the last repeats the first");
    assert_eq!(duplicate.iter().filter(|one| one.created).count(), 8_999);
    assert!(duplicate[8_999].reinforced && duplicate[8_999].id == MemoryId(1));
    assert_eq!(count(&engine), 8_999);
}

#[test]
fn a_question_is_bounded() {
    let engine = in_memory();
    engine.add(&[memory(1)], None, NOW).expect("added");
    let asked = |query: &Query<'_>| engine.search(query).map(|hits| hits.ids.len());
    let words = |bytes: usize| "memory ".repeat(bytes / 7) + &"x".repeat(bytes % 7);
    for (bytes, fits) in
        [(limits::QUERY_BYTES - 1, true), (limits::QUERY_BYTES, true), (limits::QUERY_BYTES + 1, false)]
    {
        let answer = asked(&query(&words(bytes)));
        assert_eq!(answer.is_ok(), fits, "{bytes}: {answer:?}");
    }
    for (k, fits) in [(0, false), (1, true), (limits::RESULTS, true), (limits::RESULTS + 1, false), (usize::MAX, false)]
    {
        assert_eq!(asked(&Query { k, ..query("memory") }).is_ok(), fits, "k = {k}");
        assert!(matches!(asked(&Query { k, ..query("memory") }), Ok(1) | Err(Error::Invalid { .. })));
    }
    for (limit, fits) in [(0, true), (limits::RESULTS, true), (limits::RESULTS + 1, false)] {
        let answer = engine.list(&Listing { limit, ..Listing::default() }, NOW);
        assert_eq!(answer.is_ok(), fits, "limit = {limit}");
    }
    for (count, fits) in [(limits::FILTER_TERMS, true), (limits::FILTER_TERMS + 1, false)] {
        let must = vec!["memory".to_owned(); count];
        assert_eq!(asked(&Query { must: must.clone(), ..query("memory") }).is_ok(), fits, "{count} required words");
        assert_eq!(engine.count(&Filter::default(), &must, &Viewer::default(), NOW).is_ok(), fits);
        let condition =
            |count| Condition { field: Field::Metadata("n".into()), test: Test::In(vec![Value::Null; count]) };
        let filter = Filter { conditions: vec![condition(count)], ..Filter::default() };
        assert_eq!(asked(&Query { filter, ..query("memory") }).is_ok(), fits, "{count} values");
        let filter = Filter { conditions: vec![condition(1); count], ..Filter::default() };
        assert_eq!(asked(&Query { filter, ..query("memory") }).is_ok(), fits, "{count} conditions");
        let filter = Filter { conditions: vec![condition(0); count], ..Filter::default() };
        assert_eq!(asked(&Query { filter, ..query("memory") }).is_ok(), fits, "{count} conditions without a value");
        let item = NewMemory { derived_from: vec![MemoryId(1); count], ..memory(count as u128) };
        assert_eq!(engine.add(&[item], None, NOW).is_ok(), fits, "{count} origins");
    }
    for text in ["", " \n\t", "\u{3000}"] {
        assert!(matches!(asked(&query(text)), Err(Error::Invalid { .. })), "{text:?}");
    }
    assert_eq!(asked(&query("。！?")), Ok(0), "marks are no words, and match nothing");
    for min_score in [f32::NAN, -1.0, 2.0] {
        let answer = asked(&Query { min_score: Some(min_score), ..query("memory") });
        assert!(matches!(answer, Ok(0..=2) | Err(Error::Invalid { .. })), "{min_score}: {answer:?}");
    }
}

#[test]
fn what_is_no_memory_is_refused_by_name() {
    let engine = in_memory();
    engine.add(&[memory(1)], None, NOW).expect("added");
    let before = engine.list(&Listing { limit: 10, ..Listing::default() }, NOW).expect("a list");
    let refused = |argument: &str, result: Result<()>| {
        let Err(Error::Invalid { argument: told, .. }) = &result else { panic!("{argument}: {result:?}") };
        assert_eq!(told, argument);
    };
    let add = |item: NewMemory| engine.add(&[item], None, NOW).map(|_| ());
    refused("text", add(NewMemory { text: String::new(), ..memory(2) }));
    refused("text", add(NewMemory { text: " \u{3000}\n".to_owned(), ..memory(2) }));
    refused("text", add(NewMemory { text: "a\0b".to_owned(), ..memory(2) }));
    for value in [-0.1, 1.1, f32::NAN, f32::INFINITY] {
        refused("importance", add(NewMemory { importance: value, ..memory(2) }));
        refused("trust", add(NewMemory { trust: value, ..memory(2) }));
        refused("importance", engine.update(MemoryId(1), &Patch { importance: Some(value), ..Patch::default() }, NOW));
    }
    for value in [0.0, -1.0, f32::NAN, f32::NEG_INFINITY, 4e10] {
        refused("half_life", add(NewMemory { half_life: Some(value), ..memory(2) }));
        refused("half_life", engine.update(MemoryId(1), &Patch { half_life: Some(value), ..Patch::default() }, NOW));
    }
    for json in ["", "[]", "1", "null", "{", "{\"a\":NaN}", "{\"a\":1}x"] {
        refused("metadata", add(NewMemory { metadata: Some(json.to_owned()), ..memory(2) }));
        refused("private", add(NewMemory { private: Some(json.to_owned()), ..memory(2) }));
    }
    for name in ["", "a\0b"] {
        refused("session", add(NewMemory { session: Some(name.into()), ..memory(2) }));
        refused("about", add(NewMemory { about: Some(name.into()), ..memory(2) }));
        refused("tags", add(NewMemory { tags: vec![name.into()], ..memory(2) }));
        refused("labels", add(NewMemory { labels: vec![name.into()], ..memory(2) }));
        refused("idempotency_key", add(NewMemory { idempotency_key: Some(name.into()), ..memory(2) }));
        refused(
            "session",
            engine.update(MemoryId(1), &Patch { session: Some(Some(name.into())), ..Patch::default() }, NOW),
        );
    }
    refused(
        "items[1].text",
        engine.add(&[memory(2), NewMemory { text: String::new(), ..memory(3) }], None, NOW).map(|_| ()),
    );
    refused("text", engine.supersede(MemoryId(1), MemoryId(2), "", &Patch::default(), None, NOW).map(|_| ()));
    refused("id", add(NewMemory { text: "another".to_owned(), ..memory(1) }));
    assert_eq!(engine.list(&Listing { limit: 10, ..Listing::default() }, NOW), Ok(before));
    assert_eq!(engine.stats(NOW).expect("figures").commit, 1);
}

#[test]
fn vectors_must_be_what_they_say() {
    let engine = in_memory();
    let (model, good) = (model(), direction(1));
    let add = |values: &[f32], model: &Model| engine.add(&[memory(1)], Some((values, model)), NOW).map(|_| ());
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = good.clone();
        values[3] = bad;
        assert!(matches!(add(&values, &model), Err(Error::Invalid { .. })), "{bad}");
    }
    assert!(matches!(add(&[0.0; DIMENSION], &model), Err(Error::Invalid { .. })));
    assert!(matches!(add(&good[1..], &model), Err(Error::Invalid { .. })));
    assert!(matches!(add(&[good.clone(), good.clone()].concat(), &model), Err(Error::Invalid { .. })));
    for dimension in [0, limits::DIMENSIONS + 1] {
        let wrong = Model { id: "m".to_owned(), dimension };
        let refused = add(&vec![1.0; dimension], &wrong);
        assert!(matches!(refused, Err(Error::Invalid { .. } | Error::Limit { .. })), "{dimension}: {refused:?}");
    }
    for id in ["", "a\0b"] {
        assert!(matches!(add(&good, &Model { id: id.to_owned(), ..model.clone() }), Err(Error::Invalid { .. })));
    }
    assert_eq!(engine.stats(NOW).expect("figures").model, None);
    add(&good, &model).expect("a good one");
    let search = |values: &[f32], model: &Model| engine.search(&Query { vector: Some((values, model)), ..query("") });
    assert!(matches!(search(&[f32::NAN; DIMENSION], &model), Err(Error::Invalid { .. })));
    assert!(matches!(search(&[0.0; DIMENSION], &model), Err(Error::Invalid { .. })));
    assert!(matches!(search(&good[1..], &model), Err(Error::Invalid { .. })));
    let other = Model { dimension: DIMENSION - 1, ..model.clone() };
    assert!(matches!(search(&good[1..], &other), Err(Error::ModelMismatch { .. })));
    assert_eq!(search(&good, &model).expect("a search").ids, [MemoryId(1)]);
}

#[test]
fn an_engine_starts_with_lawful_constants_only() {
    let config = EngineConfig { laws: Laws { gain: f64::NAN, ..Laws::default() }, ..EngineConfig::default() };
    let refused = Engine::open(None, options(Durability::Memory), config).map(|_| ());
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
}

#[test]
fn times_at_the_ends_of_what_is_taken_do_no_harm() {
    let engine = in_memory();
    let times = [Micros(0), Micros(1), NOW, Micros(limits::LATEST_MICROS)];
    for (number, created) in times.into_iter().enumerate() {
        for (place, ends) in times.into_iter().enumerate() {
            let item =
                NewMemory { created_at: Some(created), expires_at: Some(ends), ..memory((number * 4 + place) as u128) };
            engine.add(&[item], None, NOW).expect("added");
        }
    }
    for now in times {
        let left = times.iter().filter(|end| **end > now).count() * 4;
        assert_eq!(engine.count(&Filter::default(), &[], &Viewer::owner(), now), Ok(left));
        let hits = engine.search(&Query { now, k: 100, ..query("memory") }).expect("a search");
        assert_eq!(hits.ids.len(), left);
        assert!(hits.strength.iter().all(|strength| (0.0..=1.0).contains(strength)));
        let seen = engine.list(&Listing { limit: 100, ..Listing::default() }, now).expect("a list");
        engine.used(&seen.iter().map(|item| item.head.id).collect::<Vec<_>>(), now).expect("used");
    }
    engine.consolidate(false, Micros(limits::LATEST_MICROS)).expect("a consolidation");
    engine.close(NOW).expect("closed");
}
