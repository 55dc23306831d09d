//! A disk that refuses: nothing acknowledged is lost, nothing unacknowledged is shown, reads go on, writes do not.

#![cfg(unix)]

#[path = "engine_model/mod.rs"]
mod naive;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use naive::{NOW, options};
use tiermem_core::base::{Error, MemoryId, Tier};
use tiermem_core::disk::{DiskOptions, Durability};
use tiermem_core::engine::{Engine, EngineConfig, Item, Listing, NewMemory, Patch, Query, Viewer};
use tiermem_core::store::Filter;

/// Names the directory to the child that runs under a limit.
const DIRECTORY: &str = "TIERMEM_TEST_FULL_DISK";

fn open(directory: &Path, durability: Durability) -> Engine {
    Engine::open(Some(directory), options(durability), EngineConfig::default()).expect("the store opens")
}

fn memory(id: MemoryId) -> NewMemory {
    NewMemory::new(id, format!("tea {id} {}", "leaf ".repeat(400)), Tier::Semantic)
}

fn everything(engine: &Engine) -> Vec<Item> {
    let listing = Listing { filter: Filter::default(), viewer: Viewer::owner(), limit: 10_000, ..Listing::default() };
    engine.list(&listing, NOW).expect("reads go on")
}

fn ids(engine: &Engine) -> BTreeSet<MemoryId> {
    everything(engine).iter().map(|item| item.head.id).collect()
}

fn search(engine: &Engine) -> Vec<String> {
    let query = Query {
        text: "tea",
        vector: None,
        k: 10_000,
        filter: Filter::default(),
        must: Vec::new(),
        viewer: Viewer::default(),
        min_score: None,
        now: NOW,
    };
    let hits = engine.search(&query).expect("reads go on");
    engine.texts(&hits.rows).expect("texts are there")
}

fn refuses_to_write(engine: &Engine, known: MemoryId) {
    let refused = |result: Result<(), Error>| assert!(matches!(result, Err(Error::ReadOnly { .. })), "{result:?}");
    refused(engine.add(&[memory(MemoryId(u128::MAX))], None, NOW).map(|_| ()));
    refused(engine.update(known, &Patch::default(), NOW));
    refused(engine.supersede(known, MemoryId(7), "new", &Patch::default(), None, NOW).map(|_| ()));
    refused(engine.forget(&[known], NOW));
    refused(engine.restore(&[known], NOW));
    refused(engine.used(&[known], NOW));
    refused(engine.consolidate(false, NOW).map(|_| ()));
    assert!(engine.consolidate(true, NOW).is_ok(), "a plan writes nothing");
}

/// Runs in a child whose files may not grow over a limit. Writes what was acknowledged into a file of its own.
#[test]
fn child_on_a_full_disk() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let engine = open(&directory, Durability::Full);
    let acknowledged = Mutex::new(ids(&engine));
    let used = MemoryId(1);
    engine.used(&[used], NOW).expect("used");
    let errors = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 1..=6_u128 {
            let (engine, acknowledged, errors) = (&engine, &acknowledged, &errors);
            scope.spawn(move || {
                for number in 0.. {
                    let id = MemoryId(thread << 64 | number);
                    match engine.add(&[memory(id)], None, NOW) {
                        Ok(_) => _ = acknowledged.lock().expect("no panic").insert(id),
                        Err(error) => {
                            errors.lock().expect("no panic").push(error);
                            return;
                        }
                    }
                }
            });
        }
    });
    let errors = errors.into_inner().expect("no panic");
    assert!(
        errors.iter().all(|error| matches!(error, Error::Durability { .. } | Error::ReadOnly { .. })),
        "{errors:?}"
    );
    assert!(errors.iter().any(|error| matches!(error, Error::Durability { .. })), "{errors:?}");

    let acknowledged = acknowledged.into_inner().expect("no panic");
    assert!(acknowledged.len() > 20, "{} were acknowledged", acknowledged.len());
    assert_eq!(ids(&engine), acknowledged, "the picture is what was acknowledged");
    assert_eq!(search(&engine).len(), acknowledged.len());
    let head = engine.get(&[used], &Viewer::owner(), NOW).expect("there").remove(0).head;
    assert_eq!(head.use_count, 1, "a use that was written, or waits in memory");
    refuses_to_write(&engine, used);
    let fresh = Engine::open(
        Some(&directory),
        DiskOptions { read_only: true, ..options(Durability::Full) },
        EngineConfig::default(),
    )
    .expect("it opens to read");
    assert_eq!(ids(&fresh), acknowledged, "and so does a fresh reader");
    let lines: Vec<String> = acknowledged.iter().map(ToString::to_string).collect();
    std::fs::write(directory.join("acknowledged"), lines.join("\n")).expect("a small file fits");
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = open(directory.path(), Durability::Full);
    engine.add(&[memory(MemoryId(1)), memory(MemoryId(2))], None, NOW).expect("added");
    engine.close(NOW).expect("closed");
    drop(engine);
    // 512-byte blocks; the signal that would end the child is ignored, so that writes fail instead.
    let script = "trap '' XFSZ; ulimit -f 2000; exec \"$0\" --exact child_on_a_full_disk --nocapture";
    let child = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().expect("this test"))
        .env(DIRECTORY, directory.path())
        .output()
        .expect("sh runs");
    let said = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    let acknowledged = std::fs::read_to_string(directory.path().join("acknowledged")).expect("the child got that far");
    let acknowledged: BTreeSet<MemoryId> = acknowledged.lines().map(|line| line.parse().expect("an id")).collect();
    let engine = open(directory.path(), Durability::Full);
    assert_eq!(ids(&engine), acknowledged);
    assert_eq!(search(&engine).len(), acknowledged.len());
    engine.add(&[memory(MemoryId(9))], None, NOW).expect("with room again it writes");
    assert!(engine.disk().expect("open").verify().expect("verified").is_sound());
}

#[test]
fn a_store_whose_files_were_taken_away_writes_no_more_and_still_reads() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("store");
    let engine = open(&store, Durability::Normal);
    engine.add(&[memory(MemoryId(1))], None, NOW).expect("added");
    let before = everything(&engine);
    engine.used(&[MemoryId(1)], NOW).expect("used");
    std::fs::remove_dir_all(&store).expect("removed");
    let failed = engine.add(&[memory(MemoryId(2))], None, NOW);
    assert!(matches!(failed, Err(Error::Durability { .. })), "{failed:?}");
    refuses_to_write(&engine, MemoryId(1));
    let after = everything(&engine);
    assert_eq!(after.iter().find(|item| item.head.id == MemoryId(1)).map(|item| &item.text), Some(&before[0].text));
    assert!(search(&engine).contains(&before[0].text));
    drop(engine);
    assert_eq!(ids(&open(&store, Durability::Normal)), BTreeSet::new(), "a new store begins empty");
}

#[test]
fn a_store_opened_to_read_refuses_every_write_and_follows_the_writer() {
    let directory = tempfile::tempdir().expect("a directory");
    let writer = open(directory.path(), Durability::Normal);
    writer.add(&[memory(MemoryId(1))], None, NOW).expect("added");
    let options = DiskOptions { read_only: true, ..options(Durability::Normal) };
    let reader = Engine::open(Some(directory.path()), options, EngineConfig::default()).expect("it opens to read");
    refuses_to_write(&reader, MemoryId(1));
    writer.add(&[memory(MemoryId(2))], None, NOW).expect("added");
    assert_eq!(ids(&reader), ids(&writer));
    reader.close(NOW).expect("closed");
    assert_eq!(ids(&writer).len(), 2);
}

#[test]
fn a_call_that_is_refused_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = open(directory.path(), Durability::Normal);
    engine.add(&[memory(MemoryId(1)), memory(MemoryId(2))], None, NOW).expect("added");
    engine.used(&[MemoryId(1)], NOW).expect("used");
    let before = (everything(&engine), engine.stats(NOW).expect("figures").commit);
    // The last of each batch is at fault, after the ones before it were written into the transaction.
    let taken = [memory(MemoryId(3)), NewMemory { text: "another".to_owned(), ..memory(MemoryId(2)) }];
    assert!(matches!(engine.add(&taken, None, NOW), Err(Error::Invalid { .. })));
    assert!(matches!(engine.forget(&[MemoryId(1), MemoryId(4)], NOW), Err(Error::NotFound { .. })));
    assert!(matches!(engine.used(&[MemoryId(1), MemoryId(4)], NOW), Err(Error::NotFound { .. })));
    let same = engine.supersede(MemoryId(1), MemoryId(2), "another", &Patch::default(), None, NOW);
    assert!(matches!(same, Err(Error::Invalid { .. })), "{same:?}");
    assert_eq!((everything(&engine), engine.stats(NOW).expect("figures").commit), before);
    assert_eq!(engine.pending_uses(), 1);
    engine.close(NOW).expect("closed");
    assert_eq!(everything(&open(directory.path(), Durability::Normal)), before.0);
}
