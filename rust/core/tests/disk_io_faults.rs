//! The disk fails at the N-th write, sync, truncation or deletion, for every N until a run passes untouched.
//!
//! A file system is put between SQLite and the real one; it is the default of this test's process alone.

#![expect(clippy::unwrap_used, reason = "a test that fails is what they are for")]

mod disk_failing_files;
mod disk_memories;

use std::path::Path;

use disk_failing_files::Faults;
use disk_memories::{Memory, Model, NOW, everything, open, operate, options};
use tiermem_core::base::{Error, Row};
use tiermem_core::disk::{Disk, Durability};

/// A directory in RAM where there is such a place: the real disk's syncs of directories are not what is tested.
fn place_in_ram() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Commits that cover every kind of operation.
const COMMITS: u64 = 14;

/// What a run under faults came to.
struct Outcome {
    acknowledged: u64,
    opened: bool,
}

/// Opens, writes, empties the log and closes, while the disk fails; checks what the handle says about it.
fn run(directory: &Path, durability: Durability) -> Outcome {
    let disk = match Disk::open(Some(directory), options(durability)) {
        Ok(disk) => disk,
        Err(Error::Io { .. } | Error::Durability { .. } | Error::Locked { .. }) => {
            return Outcome { acknowledged: 0, opened: false };
        }
        Err(error) => panic!("opening: {error:?}"),
    };
    let mut acknowledged = 0;
    for number in 1..=COMMITS {
        let poisoned = disk.is_poisoned();
        match disk.write(NOW, |transaction| operate(transaction, number)) {
            Ok(written) => {
                assert!(!poisoned, "a poisoned handle wrote");
                assert_eq!(written.commit, number);
                acknowledged = number;
            }
            Err(Error::Durability { .. }) => assert!(!poisoned && disk.is_poisoned()),
            Err(Error::ReadOnly { .. }) => assert!(poisoned),
            Err(error) => panic!("writing: {error:?}"),
        }
        if disk.is_poisoned() {
            assert_eq!(disk.last_commit(), Ok(acknowledged), "reading goes on, and shows what was acknowledged");
        }
        if number % 6 == 0 {
            match disk.empty_log() {
                Ok(_) => {}
                Err(Error::Durability { .. } | Error::ReadOnly { .. }) => assert!(disk.is_poisoned()),
                Err(error) => panic!("emptying the log: {error:?}"),
            }
        }
    }
    match disk.close() {
        Ok(()) | Err(Error::Durability { .. }) => {}
        Err(error) => panic!("closing: {error:?}"),
    }
    Outcome { acknowledged, opened: true }
}

/// What lies there afterwards, on a disk that works again.
fn judge(directory: &Path, outcome: &Outcome, what: &str) {
    let disk = open(directory);
    let (loaded, found) = everything(&disk);
    assert_eq!(loaded.damaged, [], "{what}");
    assert!(
        loaded.commit == outcome.acknowledged || loaded.commit == outcome.acknowledged + 1,
        "{what}: {} acknowledged, {} found",
        outcome.acknowledged,
        loaded.commit
    );
    let mut model = Model::default();
    (1..=loaded.commit).for_each(|number| model.apply(number));
    assert_eq!(found, model.memories.into_iter().collect::<Vec<_>>(), "{what}");
    let report = disk.verify().unwrap();
    assert!(report.is_sound(), "{what}: {report:?}");
    disk.write(NOW, |transaction| Memory::plain(1 << 40).insert(transaction)).unwrap();
}

/// How many seeds for each operation the power is cut at: 2, or what `DISK_TEST_CUTS` says.
fn cuts() -> u64 {
    std::env::var("DISK_TEST_CUTS").ok().map_or(2, |cuts| cuts.parse().unwrap())
}

/// After the N-th operation nothing reaches the disk any more, and what was not synced is there or not.
#[test]
fn a_power_cut_leaves_what_was_acknowledged() {
    let faults = Faults::install();
    let (mut lost, mut met_all) = (0, false);
    for at in 1.. {
        for seed in 0..cuts() {
            for durability in [Durability::Full, Durability::Normal] {
                let directory = place_in_ram();
                let path = directory.path().canonicalize().unwrap();
                faults.fail(at, true, rusqlite::ffi::SQLITE_IOERR);
                let outcome = run(&path, durability);
                met_all = !faults.heal();
                faults.cut_power(&path, at as u64 * 1_000 + seed);
                let what = format!("cut {at}, seed {seed}, {durability:?}");
                let disk = open(&path);
                let (loaded, found) = everything(&disk);
                assert_eq!(loaded.damaged, [], "{what}");
                let least = if durability == Durability::Full { outcome.acknowledged } else { 0 };
                let range = least..=outcome.acknowledged + 1;
                assert!(range.contains(&loaded.commit), "{what}: {} is not in {range:?}", loaded.commit);
                lost += u64::from(loaded.commit < outcome.acknowledged);
                let mut model = Model::default();
                (1..=loaded.commit).for_each(|number| model.apply(number));
                assert_eq!(found, model.memories.into_iter().collect::<Vec<_>>(), "{what}");
                assert!(disk.verify().unwrap().is_sound(), "{what}");
            }
        }
        if met_all {
            break;
        }
    }
    assert!(lost > 0, "the cuts took nothing from anybody, so they were none");
}

#[test]
fn full_syncs_each_commit_and_normal_does_not() {
    let faults = Faults::install();
    for (durability, syncs) in [(Durability::Full, 10), (Durability::Normal, 0)] {
        let directory = place_in_ram();
        let disk = Disk::open(Some(directory.path()), options(durability)).unwrap();
        disk.write(NOW, |transaction| operate(transaction, 1)).unwrap();
        let before = faults.log_syncs();
        for number in 2..=11 {
            disk.write(NOW, |transaction| operate(transaction, number)).unwrap();
        }
        assert_eq!(faults.log_syncs() - before, syncs, "{durability:?}");
    }
}

#[test]
fn no_fault_of_the_disk_loses_what_was_acknowledged() {
    let faults = Faults::install();
    for code in [rusqlite::ffi::SQLITE_IOERR, rusqlite::ffi::SQLITE_FULL] {
        for forever in [false, true] {
            let mut failed = 0;
            for at in 1.. {
                let directory = place_in_ram();
                faults.fail(at, forever, code);
                let outcome = run(directory.path(), Durability::Full);
                let met = faults.heal();
                judge(directory.path(), &outcome, &format!("fault {at}, code {code}, for ever: {forever}"));
                if !met {
                    assert!(outcome.opened && outcome.acknowledged == COMMITS);
                    assert!(at > 40, "only {at} operations were met");
                    break;
                }
                failed += u64::from(outcome.acknowledged < COMMITS);
            }
            assert!(failed > 20, "only {failed} faults were felt");
        }
    }
    // The same while an existing store is opened again with a log to recover.
    for at in 1.. {
        let directory = place_in_ram();
        let source = place_in_ram();
        let disk = Disk::open(Some(source.path()), options(Durability::Full)).unwrap();
        (1..=5).for_each(|number| {
            disk.write(NOW, |transaction| operate(transaction, number)).unwrap();
        });
        for name in ["memory.db", "memory.db-wal"] {
            std::fs::copy(source.path().join(name), directory.path().join(name)).unwrap();
        }
        drop(disk);
        faults.fail(at, true, rusqlite::ffi::SQLITE_IOERR);
        let reopened = Disk::open(Some(directory.path()), options(Durability::Full));
        let mut acknowledged = 5;
        if let Ok(disk) = &reopened
            && disk.write(NOW, |transaction| operate(transaction, 6)).is_ok()
        {
            acknowledged = 6;
        }
        drop(reopened);
        let met = faults.heal();
        judge(directory.path(), &Outcome { acknowledged, opened: true }, &format!("recovery, fault {at}"));
        if !met {
            assert_eq!(acknowledged, 6);
            break;
        }
    }
    // The log is copied into the file when it is long; a fault there is heard too.
    let directory = place_in_ram();
    let disk = Disk::open(Some(directory.path()), options(Durability::Full)).unwrap();
    let mut rows = 0;
    faults.fail_database_writes();
    for round in 0.. {
        let written = disk.write(NOW, |transaction| {
            (0..2_000_u64).try_for_each(|part| Memory::plain(round * 2_000 + part).insert(transaction).map(|_| ()))
        });
        if let Err(error) = written {
            assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
            break;
        }
        rows += 2_000;
        assert!(round < 40, "the log is never copied");
    }
    drop(disk);
    faults.heal();
    let disk = open(directory.path());
    assert_eq!(everything(&disk).0.next_row, Row(rows));
}
