//! Several handles and several processes on one store, and processes that are killed in the middle.

#![expect(clippy::unwrap_used, reason = "a test that fails is what they are for")]

mod disk_memories;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use disk_memories::{Memory, Model, NOW, everything, open, operate, options};
use tiermem_core::base::{Error, Row, State};
use tiermem_core::disk::{Disk, DiskOptions, Durability};

/// Runs one of the ignored tests below as another process on `directory`.
fn start(part: &str, directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([part, "--exact", "--ignored", "--nocapture", "--test-threads", "1"])
        .env("DISK_TEST_DIRECTORY", directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn given_directory() -> Option<std::path::PathBuf> {
    std::env::var_os("DISK_TEST_DIRECTORY").map(Into::into)
}

fn changes(disk: &Disk, since: u64) -> (Vec<u32>, bool, u64) {
    let mut rows = Vec::new();
    let loaded = disk
        .load_since(since, &mut |stored| {
            assert!(stored.commit > since);
            rows.push(stored.row.0);
            Ok(())
        })
        .unwrap();
    assert_eq!(loaded.damaged, []);
    (rows, loaded.reload, loaded.commit)
}

#[test]
fn two_handles_see_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (open(directory.path()), open(directory.path()));
    assert!(!one.changed(0).unwrap() && !two.changed(0).unwrap());
    let insert =
        |disk: &Disk, number| disk.write(NOW, |transaction| Memory::plain(number).insert(transaction)).unwrap();
    assert_eq!(insert(&one, 0).value, Row(0));
    assert!(two.changed(0).unwrap() && one.changed(0).unwrap());
    assert!(!one.changed(1).unwrap() && !two.changed(1).unwrap());
    assert_eq!(changes(&two, 0), (vec![0], false, 1));
    assert_eq!((insert(&two, 1).value, insert(&one, 2).value), (Row(1), Row(2)));
    assert_eq!(changes(&one, 1), (vec![1, 2], false, 3));
    assert_eq!(changes(&one, 3), (vec![], false, 3));
    let mut head = Memory::plain(0).head;
    head.state = State::Forgotten;
    two.write(NOW, |transaction| transaction.update(Row(0), &head)).unwrap();
    assert!(one.changed(3).unwrap());
    assert_eq!(changes(&one, 3), (vec![0], false, 4));
    assert_eq!(changes(&one, 2), (vec![0, 2], false, 4));
    two.write(NOW, |transaction| transaction.set_vector(Row(1), Some(&[5]))).unwrap();
    two.write(NOW, |transaction| transaction.set_content(Row(2), &Memory::plain(7).content)).unwrap();
    assert_eq!(changes(&one, 4), (vec![1, 2], false, 6));
    two.write(NOW, |transaction| transaction.erase(Row(1))).unwrap();
    assert!(one.changed(6).unwrap());
    assert_eq!(changes(&one, 6), (vec![], true, 7));
    assert_eq!(changes(&one, 7), (vec![], false, 7));
    // A handle that knows a later commit than the file, as after a restored backup, starts anew.
    assert_eq!(changes(&one, 9), (vec![], true, 7));
    assert_eq!(everything(&one), everything(&two));
}

#[test]
fn a_store_that_is_held_is_locked_and_then_free_again() {
    let directory = tempfile::tempdir().unwrap();
    let holder = open(directory.path());
    let impatient = DiskOptions { busy_timeout_ms: 40, ..options(Durability::Normal) };
    let waiter = Disk::open(Some(directory.path()), impatient).unwrap();
    holder
        .write(NOW, |transaction| {
            Memory::plain(0).insert(transaction)?;
            let refused = waiter.write(NOW, |transaction| Memory::plain(1).insert(transaction));
            assert!(matches!(refused, Err(Error::Locked { waited_ms: 40, .. })), "{refused:?}");
            assert_eq!(everything(&waiter).1, [], "reading goes on");
            std::thread::scope(|scope| {
                for number in 1..9 {
                    let waiter = &waiter;
                    scope.spawn(move || {
                        let refused = waiter.write(NOW, |transaction| Memory::plain(number).insert(transaction));
                        assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
                    });
                }
            });
            Ok(())
        })
        .unwrap();
    assert!(!waiter.is_poisoned());
    assert_eq!(waiter.write(NOW, |transaction| Memory::plain(1).insert(transaction)).unwrap().value, Row(1));
}

#[test]
fn a_reader_follows_a_writer_and_never_writes() {
    let directory = tempfile::tempdir().unwrap();
    let reading = || DiskOptions { read_only: true, ..options(Durability::Normal) };
    let nothing = Disk::open(Some(directory.path()), reading());
    assert!(matches!(nothing, Err(Error::Io { .. })), "{nothing:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "it leaves no file");
    let writer = open(directory.path());
    let reader = Disk::open(Some(directory.path()), reading()).unwrap();
    writer.write(NOW, |transaction| Memory::plain(0).insert(transaction)).unwrap();
    assert!(reader.changed(0).unwrap());
    assert_eq!(everything(&reader).1, [(Row(0), Memory::plain(0))]);
    for refused in [
        reader.write(NOW, |transaction| Memory::plain(1).insert(transaction)).map(|_| ()),
        reader.empty_log().map(|_| ()),
    ] {
        assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
    }
    drop(writer);
    let later = Disk::open(Some(directory.path()), reading()).unwrap();
    assert_eq!(everything(&later), everything(&reader));
}

const THREADS: u32 = 4;
const USES: u32 = 50;

fn use_it_often(disk: &Disk) {
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..USES {
                    disk.write(NOW, |transaction| {
                        let mut head = transaction.head(Row(0))?.expect("it is there");
                        head.use_count += 1;
                        transaction.update(Row(0), &head)
                    })
                    .unwrap();
                }
            });
        }
    });
}

#[test]
#[ignore = "runs as a process of another test"]
fn part_use_it_often() {
    if let Some(directory) = given_directory() {
        use_it_often(&open(&directory));
    }
}

#[test]
fn no_update_of_two_processes_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let disk = open(directory.path());
    disk.write(NOW, |transaction| Memory::plain(0).insert(transaction)).unwrap();
    let mut other = start("part_use_it_often", directory.path());
    use_it_often(&disk);
    assert!(other.wait().unwrap().success());
    let (loaded, found) = everything(&disk);
    assert_eq!(found[0].1.head.use_count, 2 * THREADS * USES);
    assert_eq!(loaded.commit, 1 + u64::from(2 * THREADS * USES));
}

/// Writes for ever; says the number of each commit once it is acknowledged.
#[test]
#[ignore = "runs as a process of another test"]
fn part_write_until_killed() {
    let Some(directory) = given_directory() else { return };
    let disk = Disk::open(Some(&directory), options(Durability::Full)).unwrap();
    let mut out = std::io::stdout();
    loop {
        let number = disk.last_commit().unwrap() + 1;
        let written = disk.write(NOW, |transaction| operate(transaction, number)).unwrap();
        assert_eq!(written.commit, number);
        writeln!(out, "\nacknowledged {number}").unwrap();
        out.flush().unwrap();
    }
}

/// The number of kills, 40 or what `DISK_TEST_KILLS` says.
fn kills() -> u64 {
    std::env::var("DISK_TEST_KILLS").ok().map_or(40, |kills| kills.parse().unwrap())
}

#[test]
fn a_killed_writer_loses_nothing_it_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let mut model = Model::default();
    let mut state = 1_u64;
    for kill in 0..kills() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (after, pause) = ((state >> 33) % 25, (state >> 50) % 3_000);
        let mut writer = start("part_write_until_killed", directory.path());
        let mut acknowledged = model.commit;
        let mut hear = |line: &str| {
            if let Some(number) = line.strip_prefix("acknowledged ") {
                acknowledged = number.parse().unwrap();
                return true;
            }
            false
        };
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut heard = 0;
        while heard < after {
            heard += u64::from(hear(&lines.next().unwrap().unwrap()));
        }
        std::thread::sleep(Duration::from_micros(pause));
        writer.kill().unwrap();
        writer.wait().unwrap();
        for line in lines {
            // So short a write to a pipe is there whole or not at all.
            hear(&line.unwrap());
        }
        let disk = open(directory.path());
        let (loaded, found) = everything(&disk);
        assert_eq!(loaded.damaged, []);
        let reached = loaded.commit;
        // The writer does one thing at a time: at most one commit is done and not yet told.
        assert!(
            reached == acknowledged || reached == acknowledged + 1,
            "kill {kill}: {acknowledged} acknowledged, {reached} found"
        );
        for number in model.commit + 1..=reached {
            model.apply(number);
        }
        assert_eq!(loaded.next_row, Row(model.next_row));
        assert_eq!(found, model.memories.clone().into_iter().collect::<Vec<_>>(), "kill {kill}");
        assert_eq!(disk.meta("last").unwrap().map(|last| last.parse().unwrap()), (reached > 0).then_some(reached));
        if kill % 8 == 0 {
            let report = disk.verify().unwrap();
            assert!(report.is_sound(), "{report:?}");
        }
    }
}
