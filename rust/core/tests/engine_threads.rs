//! Many threads on one engine, and on two engines of one directory: what a reader sees lives or lived, what was
//! acknowledged stays, uses are counted exactly, and nobody waits for ever.

#[path = "engine_model/mod.rs"]
mod naive;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use naive::{DIMENSION, NOW, SECOND, direction, model, options};
use tiermem_core::base::{Error, MemoryId, Micros, Tier};
use tiermem_core::disk::{DiskOptions, Durability};
use tiermem_core::engine::{Engine, EngineConfig, Item, Listing, NewMemory, Patch, Query, Viewer};
use tiermem_core::store::Filter;

/// Ends the process when a test hangs, so that a deadlock is a failure with a name and not a silent machine.
struct Watchdog(Option<Sender<()>>);

impl Watchdog {
    fn over(test: &'static str) -> Self {
        let (alive, wait) = channel();
        std::thread::spawn(move || {
            if wait.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
                // A panic on this thread would end nothing: the test waits for the ones that hang.
                let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{test} hangs\n").as_bytes());
                std::process::abort();
            }
        });
        Self(Some(alive))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.take();
    }
}

fn open(directory: Option<&Path>, durability: Durability) -> Engine {
    let options = DiskOptions { busy_timeout_ms: 30_000, ..options(durability) };
    Engine::open(directory, options, EngineConfig::default()).expect("the store opens")
}

fn id(thread: usize, number: usize) -> MemoryId {
    MemoryId((thread as u128 + 1) << 64 | number as u128)
}

fn text(id: MemoryId) -> String {
    format!("memory {id} of the tea house, number {}", id.0 as u64)
}

fn memory(id: MemoryId) -> NewMemory {
    NewMemory { session: Some(format!("s{}", id.0 >> 64).into()), ..NewMemory::new(id, text(id), Tier::Semantic) }
}

fn everything(engine: &Engine) -> Vec<Item> {
    let listing = Listing { filter: Filter::default(), viewer: Viewer::owner(), limit: 10_000, ..Listing::default() };
    engine.list(&listing, NOW).expect("a list")
}

fn query<'a>(text: &'a str, vector: Option<(&'a [f32], &'a tiermem_core::engine::Model)>) -> Query<'a> {
    Query {
        text,
        vector,
        k: 40,
        filter: Filter::default(),
        must: Vec::new(),
        viewer: Viewer::default(),
        min_score: None,
        now: NOW,
    }
}

/// What the writers have done so far. An id is entered before the call that makes it and after the one that ends it.
#[derive(Default)]
struct Known {
    begun: Mutex<BTreeMap<MemoryId, String>>,
    lasting: Mutex<Vec<MemoryId>>,
    gone: Mutex<BTreeSet<MemoryId>>,
}

fn write(engine: &Engine, thread: usize, rounds: usize, known: &Known) {
    let model = model();
    for round in 0..rounds {
        let at = Micros(NOW.0 + round as i64);
        let ids: Vec<MemoryId> = (0..4).map(|number| id(thread, round * 8 + number)).collect();
        known.begun.lock().expect("no panic").extend(ids.iter().map(|id| (*id, text(*id))));
        let items: Vec<NewMemory> = ids.iter().map(|id| memory(*id)).collect();
        let vectors: Vec<f32> = (0..4).flat_map(|number| direction(round + number)).collect();
        assert_eq!(vectors.len(), 4 * DIMENSION);
        let added = engine.add(&items, (round % 2 == 0).then_some((&vectors, &model)), at).expect("added");
        assert!(added.iter().all(|one| one.created));
        known.lasting.lock().expect("no panic").push(ids[0]);
        engine.forget(&ids[1..2], at).expect("forgotten");
        known.gone.lock().expect("no panic").insert(ids[1]);
        engine.update(ids[0], &Patch { importance: Some(0.75), ..Patch::default() }, at).expect("updated");
        let new = id(thread, round * 8 + 4);
        known.begun.lock().expect("no panic").insert(new, text(new));
        engine.supersede(ids[2], new, &text(new), &Patch::default(), None, at).expect("superseded");
        known.gone.lock().expect("no panic").insert(ids[2]);
        if round % 8 == 7 {
            engine.consolidate(false, at).expect("a consolidation");
            engine.maintain(16, at).expect("maintenance");
        }
        assert_eq!(
            engine.get(&ids[..1], &Viewer::owner(), at).expect("just written")[0].head.importance.to_bits(),
            0.75_f32.to_bits()
        );
    }
}

fn read(engine: &Engine, known: &Known, seed: usize) -> usize {
    let (model, vector) = (model(), direction(seed));
    let gone = known.gone.lock().expect("no panic").clone();
    let lasting = known.lasting.lock().expect("no panic").clone();
    let words = ["tea house", "number 12", "memory"][seed % 3];
    let hits = engine.search(&query(words, seed.is_multiple_of(2).then_some((&vector, &model)))).expect("a search");
    let texts = engine.texts(&hits.rows).expect("the texts of hits are there");
    let begun = known.begun.lock().expect("no panic");
    for (hit, text) in hits.ids.iter().zip(&texts) {
        assert!(!gone.contains(hit), "{hit} was gone before the search began");
        assert_eq!(begun.get(hit), Some(text));
    }
    drop(begun);
    if let Some(id) = lasting.get(seed % lasting.len().max(1)) {
        let item = engine.get(&[*id], &Viewer::owner(), NOW).expect("an acknowledged memory is there").remove(0);
        assert_eq!(item.text, text(*id));
        engine.used(&[*id], NOW).expect("used");
    }
    if seed.is_multiple_of(16) {
        let listed = everything(engine);
        let ids: BTreeSet<MemoryId> = listed.iter().map(|item| item.head.id).collect();
        assert!(gone.is_disjoint(&ids) && lasting.iter().all(|id| ids.contains(id)));
        let stats = engine.stats(NOW).expect("figures");
        assert!(stats.damaged.is_empty());
    }
    hits.ids.len()
}

/// Every handle shows what a fresh one shows.
fn agree(engines: &[&Engine], directory: &Path) {
    let fresh = open(Some(directory), Durability::Normal);
    let truth = everything(&fresh);
    for engine in engines {
        assert_eq!(everything(engine), truth);
        let hits =
            |engine: &Engine| engine.search(&query("tea house number", None)).map(|hits| (hits.ids, hits.scores));
        assert_eq!(hits(engine), hits(&fresh));
    }
    assert!(fresh.disk().expect("open").verify().expect("verified").is_sound());
}

fn readers_beside_writers(directory: Option<&Path>, durability: Durability, rounds: usize) -> Engine {
    let engine = open(directory, durability);
    let (known, done, reads) = (Known::default(), AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let (engine, known, done, reads) = (&engine, &known, &done, &reads);
            scope.spawn(move || {
                let mut seed = reader;
                while !done.load(Ordering::SeqCst) {
                    read(engine, known, seed);
                    reads.fetch_add(1, Ordering::SeqCst);
                    seed += 7;
                }
            });
        }
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let (engine, known) = (&engine, &known);
                scope.spawn(move || write(engine, thread, rounds, known))
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::SeqCst);
        assert!(ended.iter().all(Result::is_ok), "a writer panicked");
    });
    assert_eq!(everything(&engine).len(), 3 * rounds * 3);
    assert!(reads.load(Ordering::SeqCst) >= 8);
    engine
}

#[test]
fn readers_see_the_living_while_writers_write() {
    let _watchdog = Watchdog::over("readers_see_the_living_while_writers_write");
    let directory = tempfile::tempdir().expect("a directory");
    let engine = readers_beside_writers(Some(directory.path()), Durability::Full, 24);
    engine.maintain(0, NOW).expect("maintenance");
    agree(&[&engine], directory.path());
}

#[test]
fn readers_see_the_living_of_a_store_in_memory() {
    let _watchdog = Watchdog::over("readers_see_the_living_of_a_store_in_memory");
    readers_beside_writers(None, Durability::Memory, 24);
}

#[test]
fn writers_that_come_together_share_a_commit() {
    const THREADS: usize = 16;
    const EACH: usize = 12;
    let _watchdog = Watchdog::over("writers_that_come_together_share_a_commit");
    let log_bytes = |threads: usize| {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = open(Some(directory.path()), Durability::Full);
        let start = Barrier::new(threads);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (engine, start) = (&engine, &start);
                scope.spawn(move || {
                    start.wait();
                    for number in 0..THREADS * EACH / threads {
                        let id = id(thread, number);
                        engine.add(&[memory(id)], None, NOW).expect("added");
                        assert_eq!(engine.get(&[id], &Viewer::owner(), NOW).expect("there").len(), 1);
                    }
                });
            }
        });
        // Writes of one transaction touch a page of the log once, however many of them there are.
        let log = std::fs::metadata(directory.path().join("memory.db-wal")).expect("a log").len();
        agree(&[&engine], directory.path());
        assert_eq!(engine.stats(NOW).expect("figures").commit, (THREADS * EACH) as u64, "one number per write");
        log
    };
    let (alone, together) = (log_bytes(1), log_bytes(THREADS));
    assert!(together * 2 < alone, "{together} bytes of log together, {alone} alone");
}

#[test]
fn uses_of_many_threads_and_two_handles_are_exact() {
    const THREADS: usize = 4;
    const EACH: usize = 400;
    let _watchdog = Watchdog::over("uses_of_many_threads_and_two_handles_are_exact");
    let directory = tempfile::tempdir().expect("a directory");
    let engines = [open(Some(directory.path()), Durability::Normal), open(Some(directory.path()), Durability::Normal)];
    let ids: Vec<MemoryId> = (0..5).map(|number| id(0, number)).collect();
    engines[0].add(&ids.iter().map(|id| memory(*id)).collect::<Vec<_>>(), None, NOW).expect("added");
    std::thread::scope(|scope| {
        for (handle, engine) in engines.iter().enumerate() {
            for thread in 0..THREADS {
                let ids = &ids;
                scope.spawn(move || {
                    for number in 0..EACH {
                        engine.used(&[ids[number % 5], ids[(number + 1) % 5]], Micros(NOW.0 + SECOND)).expect("used");
                        if number % 40 == 0 {
                            let new = id(1 + handle * THREADS + thread, number);
                            engine.add(&[memory(new)], None, NOW).expect("added");
                            engine
                                .update(ids[thread], &Patch { trust: Some(0.5), ..Patch::default() }, NOW)
                                .expect("updated");
                        }
                    }
                });
            }
        }
    });
    let counts = |engine: &Engine| -> Vec<u32> {
        let items = engine.get(&ids, &Viewer::owner(), NOW).expect("there");
        items.iter().map(|item| item.head.use_count).collect()
    };
    let all = (2 * THREADS * EACH * 2 / 5) as u32;
    for engine in &engines {
        engine.maintain(0, NOW).expect("maintenance");
    }
    assert_eq!((counts(&engines[0]), counts(&engines[1])), (vec![all; 5], vec![all; 5]));
    agree(&[&engines[0], &engines[1]], directory.path());
    engines[1].used(&ids, NOW).expect("used");
    engines[1].close(NOW).expect("closed");
    engines[0].close(NOW).expect("closed");
    assert_eq!(counts(&open(Some(directory.path()), Durability::Normal)), vec![all + 1; 5]);
}

#[test]
fn two_handles_written_by_many_threads_show_the_same() {
    let _watchdog = Watchdog::over("two_handles_written_by_many_threads_show_the_same");
    let directory = tempfile::tempdir().expect("a directory");
    let engines = [open(Some(directory.path()), Durability::Full), open(Some(directory.path()), Durability::Normal)];
    let known = Known::default();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (engines, known) = (&engines, &known);
            scope.spawn(move || write(&engines[thread % 2], thread, 10, known));
        }
        for reader in 0..2 {
            let (engines, known) = (&engines, &known);
            scope.spawn(move || {
                for seed in 0..60 {
                    // What one handle has acknowledged, the other one shows.
                    read(&engines[(reader + seed) % 2], known, seed);
                }
            });
        }
    });
    for engine in &engines {
        engine.maintain(0, NOW).expect("maintenance");
    }
    assert_eq!(everything(&engines[0]).len(), 4 * 10 * 3);
    agree(&[&engines[0], &engines[1]], directory.path());
}

#[test]
fn closing_beside_others_loses_nothing_that_was_acknowledged() {
    let _watchdog = Watchdog::over("closing_beside_others_loses_nothing_that_was_acknowledged");
    for round in 0..12 {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = open(Some(directory.path()), Durability::Normal);
        let first = id(0, 0);
        engine.add(&[memory(first)], None, NOW).expect("added");
        let (added, used) = (Mutex::new(vec![first]), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 1..4 {
                let (engine, added, used) = (&engine, &added, &used);
                scope.spawn(move || {
                    let mut number = 0;
                    let end = loop {
                        let id = id(thread, number);
                        number += 1;
                        match engine.add(&[memory(id)], None, NOW) {
                            Ok(_) => added.lock().expect("no panic").push(id),
                            Err(error) => break error,
                        }
                        match engine.used(&[first], NOW) {
                            Ok(()) => used.fetch_add(1, Ordering::SeqCst),
                            Err(error) => break error,
                        };
                    };
                    assert_eq!(end, Error::Closed);
                });
            }
            while added.lock().expect("no panic").len() < 4 + round {
                std::thread::yield_now();
            }
            engine.close(NOW).expect("closed");
        });
        let fresh = open(Some(directory.path()), Durability::Normal);
        let ids: Vec<MemoryId> = added.into_inner().expect("no panic");
        let items = fresh.get(&ids, &Viewer::owner(), NOW).expect("all of them");
        assert_eq!(items[0].head.use_count as usize, used.into_inner());
    }
}
