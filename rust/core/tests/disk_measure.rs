//! What the disk layer costs beside raw SQLite with the same bytes and the same sync, in one run:
//! `cargo test -p tiermem-core --profile perf --test disk_measure -- --ignored --nocapture`

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "it measures and prints")]

mod disk_memories;

use std::path::Path;
use std::time::{Duration, Instant};

use disk_memories::{NOW, options, plain, vector};
use rusqlite::Connection;
use tiermem_core::base::{Content, Head, Row};
use tiermem_core::disk::{Disk, Durability, Parts};

const DIMENSION: usize = 384;

fn memory(number: u64) -> (Head, Content, Vec<u16>) {
    let (head, mut content) = plain(number);
    content.text = format!("{} {}", content.text, "x".repeat(300));
    content.text.truncate(300);
    (head, content, vector(number, DIMENSION))
}

/// One table, one statement, the same bytes: the least that SQLite can be asked.
fn raw(directory: &Path, full: bool) -> Connection {
    let connection = Connection::open(directory.join("raw.db")).unwrap();
    let _: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).unwrap();
    connection.pragma_update(None, "synchronous", if full { "FULL" } else { "NORMAL" }).unwrap();
    connection
        .execute_batch("CREATE TABLE memory (id INTEGER PRIMARY KEY, key BLOB, head BLOB, text TEXT, vector BLOB)")
        .unwrap();
    connection
}

fn raw_insert(connection: &Connection, (head, content, vector): &(Head, Content, Vec<u16>)) {
    let bytes: Vec<u8> = vector.iter().flat_map(|half| half.to_le_bytes()).collect();
    let sql = "INSERT INTO memory (key, head, text, vector) VALUES (?1, ?2, ?3, ?4)";
    let mut statement = connection.prepare_cached(sql).unwrap();
    statement.execute((head.id.to_bytes(), [7_u8; 90], &content.text, bytes)).unwrap();
}

fn quantiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

#[test]
#[ignore = "measures"]
fn single_adds() {
    for (name, durability, count) in [("full", Durability::Full, 600), ("normal", Durability::Normal, 4_000)] {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::open(Some(directory.path()), options(durability)).unwrap();
        let connection = raw(directory.path(), durability == Durability::Full);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for number in 0..count {
            let new = memory(number);
            let start = Instant::now();
            disk.write(NOW, |transaction| transaction.insert(&new.0, &new.1, Some(&new.2))).unwrap();
            ours.push(start.elapsed());
            let start = Instant::now();
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            raw_insert(&connection, &new);
            connection.execute_batch("COMMIT").unwrap();
            theirs.push(start.elapsed());
        }
        let ((ours, ours_99), (theirs, theirs_99)) = (quantiles(ours), quantiles(theirs));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!(
            "add one, {name}: p50 {ours:.1?} p99 {ours_99:.1?}; raw {theirs:.1?} {theirs_99:.1?}; p50 ratio {ratio:.2}"
        );
    }
}

#[test]
#[ignore = "measures"]
fn batches() {
    for (batch, count) in [(1_000, 40_u64), (10_000, 6)] {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::open(Some(directory.path()), options(Durability::Full)).unwrap();
        let connection = raw(directory.path(), true);
        let (mut ours, mut theirs) = (Duration::ZERO, Duration::ZERO);
        for number in 0..count {
            let new: Vec<_> = (number * batch..(number + 1) * batch).map(memory).collect();
            let start = Instant::now();
            disk.write(NOW, |transaction| {
                new.iter().try_for_each(|new| transaction.insert(&new.0, &new.1, Some(&new.2)).map(|_| ()))
            })
            .unwrap();
            ours += start.elapsed();
            let start = Instant::now();
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            for new in &new {
                raw_insert(&connection, new);
            }
            connection.execute_batch("COMMIT").unwrap();
            theirs += start.elapsed();
        }
        let rate = |time: Duration| (batch * count) as f64 / time.as_secs_f64();
        let ratio = rate(theirs) / rate(ours);
        println!("batch {batch}, full: {:.0} rows/s; raw {:.0}; ratio {ratio:.2}", rate(ours), rate(theirs));
        let bytes = disk.size_bytes().unwrap() / (batch * count);
        println!("  {bytes} bytes on disk per memory, log included");
    }
}

/// The largest store to load, 1,000,000 or what `DISK_MEASURE_ROWS` says.
fn largest() -> u64 {
    std::env::var("DISK_MEASURE_ROWS").ok().map_or(1_000_000, |rows| rows.parse().unwrap())
}

#[test]
#[ignore = "measures"]
fn loads() {
    for count in [10_000_u64, 100_000, 1_000_000].into_iter().filter(|count| *count <= largest()) {
        let directory = tempfile::tempdir().unwrap();
        let with_vectors = count <= 100_000;
        let disk = Disk::open(Some(directory.path()), options(Durability::Normal)).unwrap();
        for start in (0..count).step_by(10_000) {
            disk.write(NOW, |transaction| {
                (start..start + 10_000).try_for_each(|number| {
                    let new = memory(number);
                    transaction.insert(&new.0, &new.1, with_vectors.then_some(&new.2)).map(|_| ())
                })
            })
            .unwrap();
        }
        disk.close().unwrap();
        for parts in [Parts::ALL, Parts { content: true, vectors: false }, Parts::HEADS] {
            let mut best = Duration::MAX;
            let mut open = Duration::MAX;
            for _ in 0..5 {
                let start = Instant::now();
                let disk = Disk::open(Some(directory.path()), options(Durability::Normal)).unwrap();
                open = open.min(start.elapsed());
                let mut bytes = 0;
                let loaded = disk
                    .load_parts(parts, &mut |stored| {
                        bytes += stored.text.len() + stored.vector.map_or(0, <[u16]>::len);
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(loaded.rows as u64, count);
                best = best.min(start.elapsed());
            }
            println!("load {count}, {parts:?}: {best:.1?} (of it opening {open:.1?})");
        }
        let connection = Connection::open(directory.path().join("memory.db")).unwrap();
        let start = Instant::now();
        let mut statement = connection
            .prepare("SELECT * FROM memory LEFT JOIN content USING (row) LEFT JOIN vector USING (row)")
            .unwrap();
        let mut rows = statement.query([]).unwrap();
        let (mut bytes, width) = (0, 28);
        while let Some(row) = rows.next().unwrap() {
            for column in 0..width {
                bytes += match row.get_ref_unwrap(column) {
                    rusqlite::types::ValueRef::Text(text) | rusqlite::types::ValueRef::Blob(text) => text.len(),
                    _ => 8,
                };
            }
        }
        println!("  raw SQLite, every column touched, nothing built: {:.1?} ({bytes} bytes)", start.elapsed());
        let disk = Disk::open(Some(directory.path()), options(Durability::Normal)).unwrap();
        let rows: Vec<Row> = (0..10).map(|number| Row((number * count / 10) as u32)).collect();
        disk.contents(&rows).unwrap();
        let start = Instant::now();
        for _ in 0..1_000 {
            disk.contents(&rows).unwrap();
        }
        println!("  contents of 10 rows: {:.1?}", start.elapsed() / 1_000);
        let commit = disk.last_commit().unwrap();
        let start = Instant::now();
        for _ in 0..10_000 {
            assert!(!disk.changed(commit).unwrap());
        }
        println!("  changed: {:.2?}", start.elapsed() / 10_000);
        let start = Instant::now();
        assert!(disk.verify().unwrap().is_sound());
        println!("  verify: {:.1?}", start.elapsed());
    }
}

#[test]
#[ignore = "measures"]
fn threads() {
    for (threads, each) in [(1_u64, 400_u64), (4, 400), (16, 200)] {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::open(Some(directory.path()), options(Durability::Full)).unwrap();
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let disk = &disk;
                scope.spawn(move || {
                    for round in 0..each {
                        let new = memory(thread * 10_000 + round);
                        disk.write(NOW, |transaction| transaction.insert(&new.0, &new.1, Some(&new.2))).unwrap();
                    }
                });
            }
        });
        println!("{threads} threads, full: {:.0} adds/s", (threads * each) as f64 / start.elapsed().as_secs_f64());
    }
}
