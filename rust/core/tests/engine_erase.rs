//! Erasure: what goes, what stays, what is looked for, and that a store is clean however far it came.

#![expect(clippy::unwrap_used, reason = "a test that fails is what they are for")]

use std::path::Path;

use tiermem_core::base::{Error, MemoryId, Micros, Tier};
use tiermem_core::disk::{Counts, DiskOptions, Durability, Needles};
use tiermem_core::engine::{Engine, EngineConfig, Erase, Model, NewMemory, Patch, Scope, Viewer};
use tiermem_core::store::Filter;

const NOW: Micros = Micros(1_700_000_000_000_000);
const DIMENSION: usize = 48;

fn options(durability: Durability) -> DiskOptions {
    DiskOptions { durability, read_only: false, busy_timeout_ms: 5_000, allow_network: false, now: NOW, store_id: 7 }
}

fn open(directory: &Path) -> Engine {
    Engine::open(Some(directory), options(Durability::Normal), EngineConfig::default()).unwrap()
}

fn id(number: u64) -> MemoryId {
    MemoryId::version_7(NOW.0 + number as i64 * 1_000, 0, number)
}

fn text(number: u64) -> String {
    format!("canary {:016x} 秘密 \"quoted\" {number}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn vector(number: u64) -> Vec<f32> {
    let mut state = number.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    (0..DIMENSION).map(next).collect()
}

fn memory(number: u64) -> NewMemory {
    let mut memory = NewMemory::new(id(number), text(number), Tier::Semantic);
    memory.session = Some(format!("session number {}", number % 4).into());
    memory.metadata = Some(format!("{{\"note\":\"metadata of {number:09}\"}}"));
    memory.private = Some(format!("{{\"phone\":\"private of {number:09}\"}}"));
    memory.idempotency_key = Some(format!("idempotency key {number:09}").into());
    memory
}

fn fill(engine: &Engine, count: u64) {
    let items: Vec<NewMemory> = (0..count).map(memory).collect();
    let vectors: Vec<f32> = (0..count).flat_map(vector).collect();
    let model = Model { id: "test".to_owned(), dimension: DIMENSION };
    engine.add(&items, Some((&vectors, &model)), NOW).unwrap();
    for number in 0..count {
        let patch = Patch { importance: Some(0.75), ..Patch::default() };
        engine.update(id(number), &patch, NOW).unwrap();
    }
}

fn erase(engine: &Engine, scope: Scope) -> tiermem_core::engine::Erasure {
    let request = Erase { scope, name: "test", cascade_all: false };
    engine.erase(&request, &mut |_| {}, NOW).unwrap()
}

/// What is found in the plain bytes of every file, with the engine closed.
fn found(directory: &Path, values: &[Vec<u8>]) -> u64 {
    let mut total = 0;
    let mut needles = Needles::new(usize::MAX);
    for value in values {
        assert!(needles.add_text(value));
    }
    let matcher = needles.seal();
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let mut counts = Counts::default();
            matcher.count(&std::fs::read(&path).unwrap(), &mut counts);
            total += counts.values().sum::<u64>();
        }
    }
    total
}

fn traces(number: u64) -> Vec<Vec<u8>> {
    vec![
        text(number).into_bytes(),
        format!("metadata of {number:09}").into_bytes(),
        format!("private of {number:09}").into_bytes(),
        format!("idempotency key {number:09}").into_bytes(),
    ]
}

#[test]
fn erased_by_session_and_found_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    fill(&engine, 40);
    engine.forget(&[id(1)], NOW).unwrap();
    let filter = Filter { session: Some("session number 1".into()), ..Filter::default() };
    let receipt = erase(&engine, Scope::Matching(filter));
    assert_eq!((receipt.asked, receipt.erased), (10, 10), "the forgotten one too");
    assert!(receipt.is_complete() && !receipt.rewritten, "{receipt:?}");
    assert!(receipt.searched > 100 && receipt.files >= 2 && receipt.bytes > 0);
    assert!(matches!(engine.get(&[id(5)], &Viewer::owner(), NOW), Err(Error::NotFound { .. })));
    assert_eq!(engine.get(&[id(6)], &Viewer::owner(), NOW).unwrap()[0].text, text(6));
    assert_eq!(engine.erasures().unwrap(), [receipt]);
    assert!(!engine.is_erasing().unwrap());
    engine.close(NOW).unwrap();
    let (gone, kept): (Vec<u64>, Vec<u64>) = (0..40).partition(|number| number % 4 == 1);
    assert_eq!(found(directory.path(), &gone.into_iter().flat_map(traces).collect::<Vec<_>>()), 0);
    assert!(found(directory.path(), &kept.into_iter().flat_map(traces).collect::<Vec<_>>()) >= 120);
    let engine = open(directory.path());
    assert!(engine.verify(false, false).unwrap().report.is_sound());
    assert_eq!(engine.count(&Filter::default(), &[], &Viewer::owner(), NOW).unwrap(), 30);
}

#[test]
fn what_the_living_share_is_no_residue() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    let mut twin = NewMemory::new(id(100), text(0), Tier::Semantic);
    twin.session = Some("another session".into());
    fill(&engine, 4);
    engine.add(&[twin], None, NOW).unwrap();
    let receipt = erase(&engine, Scope::Ids(vec![id(0)]));
    assert!(receipt.is_complete() && !receipt.rewritten, "{receipt:?}");
    assert_eq!(engine.get(&[id(100)], &Viewer::owner(), NOW).unwrap()[0].text, text(0));
}

#[test]
fn a_leftover_in_a_stray_file_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    fill(&engine, 4);
    std::fs::create_dir(directory.path().join("notes")).unwrap();
    std::fs::write(directory.path().join("notes/copy.txt"), format!("somebody copied: {}", text(2))).unwrap();
    std::fs::write(directory.path().join("memory.db.version-0"), text(2)).unwrap();
    let receipt = erase(&engine, Scope::Ids(vec![id(2)]));
    assert!(!receipt.is_complete());
    assert_eq!(receipt.residues.len(), 1, "{:?}", receipt.residues);
    assert_eq!(receipt.residues[0].file, "notes/copy.txt");
    assert_eq!(receipt.removed, ["memory.db.version-0"]);
    assert_eq!(engine.verify(false, false).unwrap().strays, ["notes/copy.txt"]);
}

#[test]
fn everything_goes_and_the_store_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    fill(&engine, 20);
    let receipt = erase(&engine, Scope::Everything);
    assert_eq!(receipt.erased, 20);
    assert!(receipt.is_complete());
    assert_eq!(engine.count(&Filter::default(), &[], &Viewer::owner(), NOW).unwrap(), 0);
    engine
        .add(&[memory(50)], Some((&vector(50), &Model { id: "test".to_owned(), dimension: DIMENSION })), NOW)
        .unwrap();
    engine.close(NOW).unwrap();
    assert_eq!(found(directory.path(), &(0..20).flat_map(traces).collect::<Vec<_>>()), 0);
    let engine = open(directory.path());
    assert_eq!(engine.count(&Filter::default(), &[], &Viewer::owner(), NOW).unwrap(), 1);
}

#[test]
fn what_is_made_from_erased_memories_follows() {
    for all in [false, true] {
        let engine = Engine::open(None, options(Durability::Memory), EngineConfig::default()).unwrap();
        let derived = |number, from: &[u64]| {
            let mut memory = NewMemory::new(id(number), text(number), Tier::Semantic);
            memory.derived_from = from.iter().map(|number| id(*number)).collect();
            engine.add(&[memory], None, NOW).unwrap();
        };
        derived(0, &[]);
        derived(1, &[]);
        derived(2, &[0]);
        derived(3, &[0, 1]);
        derived(4, &[2]);
        derived(5, &[2, 4]);
        derived(6, &[3]);
        engine.supersede(id(2), id(7), "says it better", &Patch::default(), None, NOW).unwrap();
        let request = Erase { scope: Scope::Ids(vec![id(0)]), name: "ids", cascade_all: all };
        let receipt = engine.erase(&request, &mut |_| {}, NOW).unwrap();
        let left: Vec<u64> =
            (0..8).filter(|number| engine.get(&[id(*number)], &Viewer::owner(), NOW).is_ok()).collect();
        let review: Vec<MemoryId> = receipt.review.iter().map(|one| one.id).collect();
        if all {
            assert_eq!((receipt.asked, receipt.erased), (1, 7));
            assert_eq!(left, [1]);
            assert_eq!(review, []);
        } else {
            assert_eq!((receipt.asked, receipt.erased), (1, 4));
            assert_eq!(left, [1, 3, 6, 7]);
            assert_eq!(review, [id(3), id(7)]);
        }
    }
}

#[test]
fn an_unknown_id_erases_nothing() {
    let engine = Engine::open(None, options(Durability::Memory), EngineConfig::default()).unwrap();
    engine.add(&[NewMemory::new(id(1), "stays", Tier::Semantic)], None, NOW).unwrap();
    let request = Erase { scope: Scope::Ids(vec![id(1), id(2)]), name: "ids", cascade_all: false };
    assert!(matches!(engine.erase(&request, &mut |_| {}, NOW), Err(Error::NotFound { .. })));
    assert_eq!(engine.count(&Filter::default(), &[], &Viewer::owner(), NOW).unwrap(), 1);
}

#[test]
fn another_engine_on_the_store_loses_them_too() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (open(directory.path()), open(directory.path()));
    fill(&one, 8);
    assert_eq!(other.count(&Filter::default(), &[], &Viewer::owner(), NOW).unwrap(), 8);
    let receipt = erase(&one, Scope::Ids(vec![id(3)]));
    assert!(receipt.is_complete());
    assert!(matches!(other.get(&[id(3)], &Viewer::owner(), NOW), Err(Error::NotFound { .. })));
    assert_eq!(other.count(&Filter::default(), &[], &Viewer::owner(), NOW).unwrap(), 7);
    other.update(id(4), &Patch { importance: Some(0.1), ..Patch::default() }, NOW).unwrap();
    assert!(one.get(&[id(4)], &Viewer::owner(), NOW).unwrap()[0].head.importance < 0.2);
}

#[test]
fn compaction_lets_go_of_what_was_forgotten_long_ago() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    fill(&engine, 200);
    let early: Vec<MemoryId> = (0..150).map(id).collect();
    engine.forget(&early, NOW).unwrap();
    let late = Micros(NOW.0 + 10_000_000);
    engine.forget(&[id(160)], late).unwrap();
    let done = engine.compact(Micros(NOW.0 + 5_000_000), late).unwrap();
    assert_eq!((done.forgotten, done.merged), (150, 0));
    assert!(done.bytes_after < done.bytes_before);
    engine.restore(&[id(160)], late).unwrap();
    assert!(engine.restore(&[id(0)], late).is_err());
    assert_eq!(engine.count(&Filter::default(), &[], &Viewer::owner(), NOW).unwrap(), 50);
    assert!(engine.verify(false, false).unwrap().report.is_sound());
}

#[test]
fn what_a_freed_page_still_holds_is_found_and_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    fill(&engine, 4);
    // As a program without secure_delete would leave it.
    let other = rusqlite::Connection::open(directory.path().join("memory.db")).unwrap();
    other.pragma_update(None, "secure_delete", false).unwrap();
    let leave = format!("CREATE TABLE copy (text TEXT); INSERT INTO copy VALUES ('{}'); DROP TABLE copy;", text(2));
    other.execute_batch(&leave).unwrap();
    drop(other);
    let receipt = erase(&engine, Scope::Ids(vec![id(2)]));
    assert!(receipt.rewritten && receipt.is_complete(), "{receipt:?}");
    engine.close(NOW).unwrap();
    assert_eq!(found(directory.path(), &traces(2)), 0);
    assert!(found(directory.path(), &traces(3)) >= 4);
}

#[test]
fn an_intent_that_was_left_is_completed_by_the_next_open_and_by_one_only() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    fill(&engine, 12);
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let request = Erase { scope: Scope::Ids((0..6).map(id).collect()), name: "ids", cascade_all: false };
        engine.erase(&request, &mut |step| assert_ne!(step, "log", "as far as this"), NOW)
    }));
    assert!(stopped.is_err());
    assert!(engine.is_erasing().unwrap());
    drop(engine);
    let engine = open(directory.path());
    assert!(!engine.is_erasing().unwrap());
    let receipts = engine.erasures().unwrap();
    assert_eq!(receipts.len(), 1);
    assert!(receipts[0].completed_later && receipts[0].rewritten && receipts[0].is_complete());
    assert_eq!((receipts[0].erased, receipts[0].scope.as_str()), (6, "ids"));
    assert_eq!(engine.complete_erasure(NOW).unwrap(), None);
    engine.close(NOW).unwrap();
    assert_eq!(found(directory.path(), &(0..6).flat_map(traces).collect::<Vec<_>>()), 0);
}
