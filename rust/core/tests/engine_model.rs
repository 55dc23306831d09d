//! The engine against a naive model: two handles on one directory, driven by the same operations as the model, show what
//! the model shows after each of them, and after a restart of either.

#[path = "engine_model/mod.rs"]
mod naive;

use std::path::Path;

use naive::{DIMENSION, NOW, Naive, Refusal, SECOND, direction, model, numbers, open};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tiermem_core::base::{Error, MemoryId, Micros, Row, RowSet, Source, Tier};
use tiermem_core::engine::{Engine, Listing, NewMemory, Patch, Query, Viewer};
use tiermem_core::store::{Condition, Field, Filter, Test, Value};

const TEXTS: [&str; 10] = [
    "The formal letter to Director Li is due on 12 May",
    "The formal letter to Director Li is due on 13 May",
    "The formal letter to Director Li is due on 12 May!",
    "Green tea in the morning",
    "She drinks green tea, never coffee",
    "会议改到5月3日下午三点",
    "会议改到5月4日下午三点",
    "用户喜欢在早上喝绿茶",
    "error E1234 in module parser_v2",
    "x",
];

#[derive(Debug, Clone)]
struct Item {
    text: usize,
    tier: Tier,
    importance: f32,
    session: Option<Box<str>>,
    about: Option<Box<str>>,
    trust: f32,
    tags: Vec<Box<str>>,
    labels: Vec<Box<str>>,
    metadata: Option<String>,
    private: Option<String>,
    back: Option<i64>,
    ends_in: Option<i64>,
    half_life: Option<f32>,
    pinned: bool,
    derived_from: Vec<usize>,
    key: Option<Box<str>>,
}

#[derive(Debug, Clone)]
#[expect(clippy::option_option, reason = "the outer says whether it changes, the inner to what")]
enum Operation {
    Add {
        items: Vec<Item>,
        vectors: bool,
    },
    Retry {
        key: Box<str>,
    },
    Update {
        target: usize,
        patch: Patch,
        ends_in: Option<Option<i64>>,
    },
    Supersede {
        target: usize,
        text: usize,
        patch: Patch,
        vector: bool,
    },
    Forget(Vec<usize>),
    Restore(Vec<usize>),
    Used(Vec<usize>),
    Consolidate {
        dry_run: bool,
    },
    Maintain,
    Wait(i64),
    Search {
        text: Option<usize>,
        vector: Option<usize>,
        filter: Filter,
        must: bool,
        viewer: Viewer,
        k: usize,
        min_score: Option<f32>,
    },
    List {
        filter: Filter,
        viewer: Viewer,
        limit: usize,
        after: Option<usize>,
        newest_first: bool,
    },
    Get {
        target: usize,
        viewer: Viewer,
    },
    Reopen,
}

fn name(of: &'static [&'static str]) -> impl Strategy<Value = Option<Box<str>>> {
    prop::option::of(prop::sample::select(of).prop_map(Into::into))
}

fn labels() -> impl Strategy<Value = Vec<Box<str>>> {
    prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::sample::subsequence(vec!["health", "secret"], 1..=2)
            .prop_map(|labels| labels.into_iter().map(Into::into).collect()),
    ]
}

fn tags() -> impl Strategy<Value = Vec<Box<str>>> {
    prop::collection::vec(prop::sample::select(&["red", "blue"][..]).prop_map(Into::into), 0..3)
}

fn metadata() -> impl Strategy<Value = Option<String>> {
    prop::option::of((0..3_u8, any::<bool>()).prop_map(|(number, kind)| {
        if kind { format!(r#"{{"n":{number},"kind":"k{number}"}}"#) } else { format!(r#"{{"n":{number}}}"#) }
    }))
}

fn private() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.3, Just(r#"{"iban":"DE00","phone":"1"}"#.to_owned()))
}

fn tiers() -> impl Strategy<Value = Tier> {
    prop::sample::select(&Tier::ALL[..])
}

fn share() -> impl Strategy<Value = f32> {
    (0..=10_u8).prop_map(|tenths| f32::from(tenths) / 10.0)
}

fn seconds() -> impl Strategy<Value = i64> {
    prop_oneof![0..10_i64, 1_000..10_000_i64, 80_000..1_000_000_i64]
}

fn items() -> impl Strategy<Value = Item> {
    let place = (0..TEXTS.len(), tiers(), name(&["s1", "s2", "s3"]), name(&["Li", "Zhang"]));
    let judged = (share(), share(), tags(), labels());
    let hung = (metadata(), private(), prop::option::weighted(0.2, seconds()), prop::option::weighted(0.2, seconds()));
    let kept = (
        (prop::bool::weighted(0.1), prop::option::weighted(0.2, prop_oneof![100.0..1e7_f32, Just(f32::INFINITY)])),
        prop::collection::vec(any::<usize>(), 0..2),
        prop::option::weighted(0.2, prop::sample::select(&["k1", "k2", "k3"][..]).prop_map(Into::into)),
    );
    (place, judged, hung, kept).prop_map(|(place, judged, hung, kept)| Item {
        text: place.0,
        tier: place.1,
        session: place.2,
        about: place.3,
        importance: judged.0,
        trust: judged.1,
        tags: judged.2,
        labels: judged.3,
        metadata: hung.0,
        private: hung.1,
        back: hung.2,
        ends_in: hung.3,
        pinned: kept.0.0,
        half_life: kept.0.1,
        derived_from: kept.1,
        key: kept.2,
    })
}

fn patches() -> impl Strategy<Value = Patch> {
    let some = 0.25;
    let place = (
        prop::option::weighted(some, tiers()),
        prop::option::weighted(some, name(&["s1", "s4"])),
        prop::option::weighted(some, name(&["Li", "Wang"])),
    );
    let judged = (
        prop::option::weighted(some, share()),
        prop::option::weighted(some, share()),
        prop::option::weighted(some, prop_oneof![100.0..1e7_f32, Just(f32::INFINITY)]),
        prop::option::weighted(some, any::<bool>()),
    );
    let hung = (
        prop::option::weighted(some, tags()),
        prop::option::weighted(some, labels()),
        prop::option::weighted(some, metadata()),
        prop::option::weighted(some, private()),
    );
    (place, judged, hung).prop_map(|(place, judged, hung)| Patch {
        tier: place.0,
        session: place.1,
        about: place.2,
        importance: judged.0,
        trust: judged.1,
        half_life: judged.2,
        pinned: judged.3,
        tags: hung.0,
        labels: hung.1,
        metadata: hung.2,
        private: hung.3,
        source: None,
        expires_at: None,
    })
}

fn conditions() -> impl Strategy<Value = Condition> {
    let text = |text: &str| Value::Text(text.into());
    let when = |field, test| Condition { field, test };
    let metadata = |name: &str| Field::Metadata(name.into());
    prop_oneof![
        (0..3_u8).prop_map(move |number| when(metadata("n"), Test::In(vec![Value::Number(f64::from(number))]))),
        (0..3_u8).prop_map(move |number| when(metadata("kind"), Test::NotIn(vec![text(&format!("k{number}"))]))),
        any::<bool>().prop_map(move |there| when(metadata("kind"), Test::Exists(there))),
        (0..3_u8, any::<bool>()).prop_map(move |(low, with)| when(
            metadata("n"),
            Test::Range { low: Some((f64::from(low), with)), high: None }
        )),
        Just(when(Field::Tags, Test::In(vec![text("red")]))),
        Just(when(Field::Labels, Test::In(vec![text("health")]))),
        any::<bool>().prop_map(move |there| when(Field::Labels, Test::Exists(there))),
        any::<bool>().prop_map(move |there| when(Field::Session, Test::Exists(there))),
        any::<bool>().prop_map(move |pinned| when(Field::Pinned, Test::In(vec![Value::Bool(pinned)]))),
        (0..3_u8).prop_map(move |uses| when(
            Field::UseCount,
            Test::Range { low: Some((f64::from(uses), true)), high: Some((f64::from(uses) + 1.0, false)) }
        )),
    ]
}

fn filters() -> impl Strategy<Value = Filter> {
    (
        prop::collection::vec(tiers(), 0..3),
        prop::option::weighted(0.3, prop::sample::select(&["s1", "s2", "nobody's"][..]).prop_map(Into::into)),
        prop::option::weighted(0.3, prop::sample::select(&["Li", "Zhang", "nobody"][..]).prop_map(Into::into)),
        prop::option::weighted(0.2, share()),
        prop::collection::vec(conditions(), 0..2),
    )
        .prop_map(|(tiers, session, about, min_trust, conditions)| Filter {
            tiers,
            session,
            about,
            min_trust,
            conditions,
        })
}

fn viewers() -> impl Strategy<Value = Viewer> {
    prop_oneof![
        Just(Viewer::owner()),
        Just(Viewer::default()),
        Just(Viewer { labels: vec!["health".into()], fields: vec!["phone".into()], everything: false }),
        Just(Viewer { labels: vec!["secret".into(), "health".into(), "unheard of".into()], ..Viewer::default() }),
    ]
}

fn operations() -> impl Strategy<Value = Operation> {
    let targets = || prop::collection::vec(any::<usize>(), 1..4);
    prop_oneof![
        6 => (prop::collection::vec(items(), 1..6), any::<bool>())
            .prop_map(|(items, vectors)| Operation::Add { items, vectors }),
        1 => prop::sample::select(&["k1", "k2"][..]).prop_map(|key| Operation::Retry { key: key.into() }),
        3 => (any::<usize>(), patches(), prop::option::weighted(0.2, prop::option::of(seconds())))
            .prop_map(|(target, patch, ends_in)| Operation::Update { target, patch, ends_in }),
        2 => (any::<usize>(), 0..TEXTS.len(), patches(), any::<bool>())
            .prop_map(|(target, text, patch, vector)| Operation::Supersede { target, text, patch, vector }),
        2 => targets().prop_map(Operation::Forget),
        2 => targets().prop_map(Operation::Restore),
        4 => targets().prop_map(Operation::Used),
        2 => any::<bool>().prop_map(|dry_run| Operation::Consolidate { dry_run }),
        1 => Just(Operation::Maintain),
        3 => seconds().prop_map(Operation::Wait),
        4 => ((prop::option::of(0..TEXTS.len()), prop::option::of(0..TEXTS.len())), (filters(), prop::bool::weighted(0.2)),
              viewers(), 1..12_usize, prop::option::weighted(0.2, share()))
            .prop_map(|((text, vector), (filter, must), viewer, k, min_score)| Operation::Search {
                text, vector, filter, must, viewer, k, min_score }),
        3 => (filters(), viewers(), 0..9_usize, prop::option::of(any::<usize>()), any::<bool>())
            .prop_map(|(filter, viewer, limit, after, newest_first)| Operation::List {
                filter, viewer, limit, after, newest_first }),
        2 => (any::<usize>(), viewers()).prop_map(|(target, viewer)| Operation::Get { target, viewer }),
        2 => Just(Operation::Reopen),
    ]
}

fn refusal(error: &Error) -> Refusal {
    match error {
        Error::NotFound { .. } => Refusal::NotFound,
        Error::AccessDenied { .. } => Refusal::Denied,
        Error::Invalid { .. } => Refusal::Invalid,
        other => panic!("no operation of the tests may answer {other}"),
    }
}

struct World<'directory> {
    directory: &'directory Path,
    engines: [Engine; 2],
    naive: Naive,
    now: Micros,
    made: u128,
}

impl World<'_> {
    fn id(&mut self) -> MemoryId {
        self.made += 1;
        MemoryId(self.made << 64 | self.made)
    }

    /// One of the ids that were handed out, whether or not anything came of it; now and then one that never was.
    fn target(&self, number: usize) -> MemoryId {
        let number = number as u128 % (self.made + 2);
        MemoryId(number << 64 | number)
    }

    fn targets(&self, numbers: &[usize]) -> Vec<MemoryId> {
        numbers.iter().map(|number| self.target(*number)).collect()
    }

    fn after(&self, seconds: i64) -> Micros {
        Micros(self.now.0 + seconds * SECOND)
    }

    #[expect(clippy::too_many_lines, reason = "one short arm for each operation")]
    fn run(&mut self, handle: usize, operation: &Operation) {
        let now = self.now;
        let owner = Viewer::owner();
        match operation {
            Operation::Add { items, vectors } => {
                let new: Vec<NewMemory> = items.iter().map(|item| self.new_memory(item)).collect();
                let values: Vec<f32> = items.iter().flat_map(|item| direction(item.text)).collect();
                let model = model();
                let given = vectors.then_some((values.as_slice(), &model));
                let expected = self.naive.add(handle, &new, given.map(|given| given.0), now);
                let found = self.engines[handle].add(&new, given, now);
                let found = found.map(|added| added.iter().map(|one| (one.id, one.created, one.reinforced)).collect());
                assert_eq!(found.map_err(|error| refusal(&error)), expected);
            }
            Operation::Retry { key } => {
                let id = self.id();
                let item = NewMemory {
                    idempotency_key: Some(key.clone()),
                    ..NewMemory::new(id, "said at most once", Tier::Episodic)
                };
                for _ in 0..2 {
                    // The very same call again, with the same id.
                    let expected = self.naive.add(handle, std::slice::from_ref(&item), None, now).map(|added| added[0]);
                    let found = self.engines[handle].add(std::slice::from_ref(&item), None, now);
                    let found = found.map(|added| (added[0].id, added[0].created, added[0].reinforced));
                    assert_eq!(found.map_err(|error| refusal(&error)), expected);
                }
            }
            Operation::Update { target, patch, ends_in } => {
                let id = self.target(*target);
                let expires_at = ends_in.map(|ends_in| ends_in.map(|seconds| self.after(seconds)));
                let patch = Patch { expires_at, ..patch.clone() };
                let expected = self.naive.update(handle, id, &patch, now);
                let found = self.engines[handle].update(id, &patch, now);
                assert_eq!(found.map_err(|error| refusal(&error)), expected);
            }
            Operation::Supersede { target, text, patch, vector } => {
                let (id, new_id) = (self.target(*target), self.id());
                let values = direction(*text);
                let model = model();
                let given = vector.then_some((values.as_slice(), &model));
                let given_values = given.map(|given| given.0);
                let expected = self.naive.supersede(handle, (id, new_id), TEXTS[*text], patch, given_values, now);
                let found = self.engines[handle].supersede(id, new_id, TEXTS[*text], patch, given, now);
                assert_eq!(found.map_err(|error| refusal(&error)), expected);
            }
            Operation::Forget(targets) => {
                let ids = self.targets(targets);
                let expected = self.naive.forget(handle, &ids, now);
                let found = self.engines[handle].forget(&ids, now);
                assert_eq!(found.map_err(|error| refusal(&error)), expected);
            }
            Operation::Restore(targets) => {
                let ids = self.targets(targets);
                let expected = self.naive.restore(handle, &ids);
                let found = self.engines[handle].restore(&ids, now);
                assert_eq!(found.map_err(|error| refusal(&error)), expected);
            }
            Operation::Used(targets) => {
                let ids = self.targets(targets);
                let expected = self.naive.used(handle, &ids, now);
                let found = self.engines[handle].used(&ids, now);
                assert_eq!(found.map_err(|error| refusal(&error)), expected);
            }
            Operation::Consolidate { dry_run } => {
                let foreseen = self.engines[handle].consolidate(true, now).expect("a plan");
                if *dry_run {
                    return;
                }
                let report = self.engines[handle].consolidate(false, now).expect("a consolidation");
                assert_eq!(report, foreseen);
                for moved in report.promoted.iter().chain(&report.merged).chain(&report.let_go) {
                    let row = self.naive.find(moved.id).expect("a memory of the store");
                    assert_eq!(moved.text, self.naive.rows[row].content.text);
                }
                self.naive.consolidated(handle, &report);
                let again = self.engines[handle].consolidate(false, now).expect("a consolidation");
                assert_eq!(again, tiermem_core::engine::Consolidation::default(), "after {report:?}");
            }
            Operation::Maintain => {
                let done = self.engines[handle].maintain(64, now).expect("maintenance");
                assert_eq!(done.uses_flushed, self.naive.pending[handle].len());
                self.naive.flush(handle);
            }
            Operation::Wait(seconds) => self.now = self.after(*seconds),
            Operation::Search { text, vector, filter, must, viewer, k, min_score } => {
                let values = vector.map(direction);
                let model = model();
                let query = Query {
                    text: text.map_or("", |text| TEXTS[text]),
                    vector: values.as_deref().map(|values| (values, &model)),
                    k: *k,
                    filter: filter.clone(),
                    must: if *must { vec!["tea".to_owned()] } else { Vec::new() },
                    viewer: viewer.clone(),
                    min_score: *min_score,
                    now,
                };
                let found = self.engines[handle].search(&query);
                if text.is_none() && vector.is_none() {
                    assert_eq!(found.map(|_| ()).map_err(|error| refusal(&error)), Err(Refusal::Invalid));
                    return;
                }
                let hits = found.expect("a search");
                let found: Vec<(MemoryId, f32)> = hits.ids.iter().copied().zip(hits.scores.iter().copied()).collect();
                assert_eq!(found, self.naive.search(handle, &query), "{query:?}");
                let texts = self.engines[handle].texts(&hits.rows).expect("the texts of hits");
                for (text, id) in texts.iter().zip(&hits.ids) {
                    assert_eq!(*text, self.naive.rows[self.naive.find(*id).expect("a hit")].content.text);
                }
            }
            Operation::List { filter, viewer, limit, after, newest_first } => {
                let listing = Listing {
                    filter: filter.clone(),
                    must: Vec::new(),
                    viewer: viewer.clone(),
                    limit: *limit,
                    after: after.map(|after| self.target(after)),
                    newest_first: *newest_first,
                };
                let sorted = |mut items: Vec<tiermem_core::engine::Item>| {
                    for item in &mut items {
                        item.head.labels.sort();
                    }
                    items
                };
                let found = self.engines[handle].list(&listing, now).map(sorted);
                assert_eq!(found.map_err(|error| refusal(&error)), self.naive.list(handle, &listing, now));
                let counted = self.engines[handle].count(filter, &[], viewer, now).expect("a count");
                // A count over fields that every reader may see counts for every reader.
                let reader = if filter.conditions.is_empty() { &owner } else { viewer };
                assert_eq!(counted, self.naive.visible(handle, filter, &[], reader, now).len());
            }
            Operation::Get { target, viewer } => {
                let id = self.target(*target);
                let found = self.engines[handle].get(&[id], viewer, now).map(|mut items| items.remove(0));
                let found = found.map(|mut item| {
                    item.head.labels.sort();
                    item
                });
                assert_eq!(found.map_err(|error| refusal(&error)), self.naive.get(handle, id, viewer, now));
            }
            Operation::Reopen => {
                self.engines[handle].close(now).expect("it closes");
                assert_eq!(self.engines[handle].count(&Filter::default(), &[], &owner, now), Err(Error::Closed));
                self.naive.flush(handle);
                self.engines[handle] = open(self.directory);
            }
        }
    }

    fn new_memory(&mut self, item: &Item) -> NewMemory {
        NewMemory {
            importance: item.importance,
            session: item.session.clone(),
            about: item.about.clone(),
            source: Source::User,
            trust: item.trust,
            tags: item.tags.clone(),
            labels: item.labels.clone(),
            metadata: item.metadata.clone(),
            private: item.private.clone(),
            created_at: item.back.map(|seconds| self.after(-seconds)),
            half_life: item.half_life,
            expires_at: item.ends_in.map(|seconds| self.after(seconds)),
            pinned: item.pinned,
            derived_from: self.targets(&item.derived_from),
            idempotency_key: item.key.clone(),
            ..NewMemory::new(self.id(), TEXTS[item.text], item.tier)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        max_shrink_iters: 2_000,
        rng_seed: RngSeed::Fixed(0x7133),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn two_handles_and_a_model_agree(steps in prop::collection::vec((0..2_usize, operations()), 1..40)) {
        let directory = tempfile::tempdir().expect("a directory");
        let engines = [open(directory.path()), open(directory.path())];
        let mut world = World { directory: directory.path(), engines, naive: Naive::default(), now: NOW, made: 0 };
        for (handle, operation) in &steps {
            world.run(*handle, operation);
            world.naive.agrees(*handle, &world.engines[*handle], world.now);
            world.naive.agrees(1 - *handle, &world.engines[1 - *handle], world.now);
        }
        for handle in [0, 1] {
            world.run(handle, &Operation::Reopen);
        }
        for handle in [0, 1] {
            world.naive.agrees(handle, &world.engines[handle], world.now);
            for text in 0..TEXTS.len() {
                let everything = Operation::Search {
                    text: Some(text), vector: Some(text), filter: Filter::default(), must: false, viewer: Viewer::owner(),
                    k: 100, min_score: None,
                };
                world.run(handle, &everything);
            }
        }
        prop_assert!(world.engines[0].disk().expect("open").verify().expect("verified").is_sound());
    }
}

#[test]
fn the_model_means_what_it_says() {
    // The comparison above is worth as much as the model: a few of its answers by hand.
    let mut naive = Naive::default();
    let one = NewMemory::new(MemoryId(1), TEXTS[3], Tier::Semantic);
    let two = NewMemory { id: MemoryId(2), ..one.clone() };
    let both = naive.add(0, &[one, two], None, NOW).expect("two adds");
    assert_eq!(both, [(MemoryId(1), true, false), (MemoryId(1), false, true)]);
    assert_eq!(naive.rows.len(), 1);
    assert_eq!(naive.forget(0, &[MemoryId(1)], NOW), Ok(()));
    assert_eq!(naive.forget(0, &[MemoryId(1)], NOW), Err(Refusal::NotFound));
    assert_eq!(naive.get(0, MemoryId(1), &Viewer::owner(), NOW), Err(Refusal::NotFound));
    assert_eq!(numbers(&RowSet::from_rows([Row(3)])), [3]);
    assert_eq!(direction(1).len(), DIMENSION);
}
