//! Stores that are large enough to have derived files, and everything one can ask of them.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::fs;
use std::path::{Path, PathBuf};

use tiermem_core::base::{MemoryId, Micros, Source, Tier};
use tiermem_core::disk::{DERIVED_DIRECTORY, DiskOptions, Durability, FILE_NAME};
use tiermem_core::engine::{Engine, EngineConfig, Listing, Model, NewMemory, Patch, Query, Stats, Viewer};
use tiermem_core::store::{Condition, Field, Filter, Test, Value};

pub const NOW: Micros = Micros(1_700_000_000_000_000);
pub const DIMENSION: usize = 12;
/// More than may be newer than the derived files.
pub const ROWS: u64 = 1_500;

pub fn options() -> DiskOptions {
    DiskOptions {
        durability: Durability::Normal,
        read_only: false,
        busy_timeout_ms: 2_000,
        allow_network: false,
        now: NOW,
        store_id: 0x5707_e1d0,
    }
}

pub fn open(directory: &Path) -> Engine {
    Engine::open(Some(directory), options(), EngineConfig::default()).expect("the store opens")
}

/// With a graph over however few vectors.
pub fn with_graph(directory: &Path) -> Engine {
    let mut config = EngineConfig::default();
    config.vectors.graph_bytes = 0;
    Engine::open(Some(directory), options(), config).expect("the store opens")
}

pub fn model() -> Model {
    Model { id: "test".to_owned(), dimension: DIMENSION }
}

pub fn id(number: u64) -> MemoryId {
    MemoryId::version_7(NOW.0 / 1_000 + number as i64, 0, number)
}

/// Numbers without end, the same ones for the same seed.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

pub fn vector(number: u64) -> Vec<f32> {
    let mut numbers = Numbers(number ^ 0x2545_f491_4f6c_dd1d);
    (0..DIMENSION).map(|_| numbers.next(2_001) as f32 / 1_000.0 - 1.0).collect()
}

const WORDS: [&str; 12] = [
    "budget",
    "meeting",
    "tea",
    "report",
    "李明",
    "会议记录",
    "mails",
    "formal",
    "quarter",
    "deadline",
    "ISSUE-7",
    "42",
];

pub fn memory(number: u64) -> NewMemory {
    let mut numbers = Numbers(number);
    let mut text = format!("memory {number} says");
    for _ in 0..numbers.next(12) {
        text.push(' ');
        text.push_str(WORDS[numbers.next(WORDS.len() as u64) as usize]);
    }
    let some = |share: u64, text: String| number.is_multiple_of(share).then(|| text.into());
    NewMemory {
        importance: (number % 11) as f32 / 10.0,
        session: some(2, format!("session {}", number % 9)),
        about: some(3, format!("person {}", number % 5)),
        source: Source::ALL[number as usize % 5],
        tags: some(4, format!("tag {}", number % 7)).into_iter().collect(),
        labels: some(50, format!("label {}", number % 3)).into_iter().collect(),
        metadata: some(5, format!(r#"{{"n":{},"list":["a",{}]}}"#, number % 13, number % 2)).map(Into::into),
        expires_at: number.is_multiple_of(70).then_some(Micros(NOW.0 + 1_000_000 * number as i64)),
        pinned: number.is_multiple_of(90),
        ..NewMemory::new(id(number), text, Tier::ALL[number as usize % 4])
    }
}

/// Adds the memories with these numbers; every eighth call without vectors.
pub fn add(engine: &Engine, numbers: std::ops::Range<u64>) {
    let all: Vec<u64> = numbers.collect();
    for (place, part) in all.chunks(100).enumerate() {
        let items: Vec<NewMemory> = part.iter().map(|number| memory(*number)).collect();
        let vectors: Vec<f32> = part.iter().flat_map(|number| vector(*number)).collect();
        let model = model();
        let vectors = (place % 8 != 7).then_some((vectors.as_slice(), &model));
        engine.add(&items, vectors, NOW).expect("they are added");
    }
}

/// Changes of every sort, to memories that are there.
pub fn change(engine: &Engine, seed: u64, below: u64) {
    let mut numbers = Numbers(seed);
    let mut pick = || id(numbers.next(below / 5) * 5);
    let patch = Patch { metadata: Some(Some(format!(r#"{{"n":{},"new":true}}"#, seed % 13))), ..Patch::default() };
    // Those that are gone already stay gone.
    let _ = engine.update(pick(), &patch, NOW);
    let patch = Patch { session: Some(Some("elsewhere".into())), importance: Some(0.25), ..Patch::default() };
    let _ = engine.update(pick(), &patch, NOW);
    let _ = engine.update(pick(), &Patch { metadata: Some(None), ..Patch::default() }, NOW);
    let _ = engine.forget(&[pick()], NOW);
    let text = format!("the budget was changed for the {seed}th time");
    let new = vector(seed + 77_777);
    let new_id = id(1_000_000 + seed);
    let _ = engine.supersede(pick(), new_id, &text, &Patch::default(), Some((&new, &model())), NOW);
    let _ = engine.used(&[pick()], Micros(NOW.0 + 10_000_000_000));
}

/// Everything that can be asked, to the bit.
pub fn answers(engine: &Engine) -> Vec<String> {
    let mut answers = Vec::new();
    let condition =
        |field: Field, test: Test| Filter { conditions: vec![Condition { field, test }], ..Filter::default() };
    let equal = |value: Value| Test::In(vec![value]);
    let filters = [
        Filter::default(),
        condition(Field::Metadata("n".into()), equal(Value::Number(3.0))),
        condition(Field::Metadata("list".into()), equal(Value::Text("a".into()))),
        condition(Field::Metadata("new".into()), equal(Value::Bool(true))),
        condition(Field::Session, equal(Value::Text("elsewhere".into()))),
        condition(Field::Session, equal(Value::Text("session 4".into()))),
        condition(Field::About, equal(Value::Text("person 3".into()))),
        condition(Field::Tags, equal(Value::Text("tag 4".into()))),
        condition(Field::Tier, equal(Value::Text("semantic".into()))),
        condition(Field::Source, equal(Value::Text("tool".into()))),
    ];
    let model = model();
    let later = Micros(NOW.0 + 50_000_000);
    for viewer in [Viewer::owner(), Viewer::default()] {
        for filter in &filters {
            answers.push(format!("count {:?}", engine.count(filter, &[], &viewer, later)));
            for (text, seed) in
                [("budget meeting", None), ("", Some(3)), ("李明 会议记录 tea", Some(4)), ("42", Some(5))]
            {
                let vector = seed.map(vector);
                let query = Query {
                    text,
                    vector: vector.as_deref().map(|values| (values, &model)),
                    k: 20,
                    filter: filter.clone(),
                    must: Vec::new(),
                    viewer: viewer.clone(),
                    min_score: None,
                    now: later,
                };
                let hits = engine.search(&query).expect("an answer");
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                answers.push(format!(
                    "search {:?} {:?} {:?} {:?} {:?}",
                    hits.ids,
                    bits(&hits.scores),
                    bits(&hits.vector_scores),
                    bits(&hits.keyword_scores),
                    hits.searched
                ));
            }
        }
    }
    let must = ["formal".to_owned(), "tea".to_owned()];
    answers.push(format!("must {:?}", engine.count(&Filter::default(), &must, &Viewer::owner(), later)));
    let listing = Listing { viewer: Viewer::owner(), limit: 10_000, ..Listing::default() };
    answers.push(format!("list {:?}", engine.list(&listing, later).expect("a list")));
    answers.push(format!("tiers {:?}", stats(engine).tiers));
    answers
}

pub fn stats(engine: &Engine) -> Stats {
    engine.stats(NOW).expect("figures")
}

/// What a store answers that has the same database and no derived files.
pub fn judged(directory: &Path) -> Vec<String> {
    let copy = tempfile::tempdir().expect("a directory");
    copy_database(directory, copy.path());
    let engine = open(copy.path());
    assert_eq!(stats(&engine).warnings, Vec::<String>::new(), "a copy without derived files is nothing to warn of");
    answers(&engine)
}

/// Copies the database, of which nobody is writing.
pub fn copy_database(from: &Path, to: &Path) {
    for suffix in ["", "-wal"] {
        let name = format!("{FILE_NAME}{suffix}");
        if from.join(&name).exists() {
            fs::copy(from.join(&name), to.join(&name)).expect("it is copied");
        }
    }
}

pub fn copy_all(from: &Path, to: &Path) {
    copy_database(from, to);
    let derived = to.join(DERIVED_DIRECTORY);
    fs::create_dir_all(&derived).expect("a directory");
    for path in files(from) {
        fs::copy(&path, derived.join(path.file_name().expect("a name"))).expect("it is copied");
    }
}

/// The derived files, by name.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory.join(DERIVED_DIRECTORY)) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.file_name().is_some_and(|name| name != "lock"));
    files.sort();
    files
}

pub fn kinds(directory: &Path) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    files(directory).iter().map(|path| name(path).split('-').next().unwrap_or_default().to_owned()).collect()
}

/// A store with derived files, closed.
pub fn saved_store() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = open(directory.path());
    add(&engine, 0..ROWS);
    (0..20).for_each(|seed| change(&engine, seed, ROWS));
    engine.close(NOW).expect("closed");
    directory
}
