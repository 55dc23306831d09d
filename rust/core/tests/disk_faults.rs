//! What is damaged is named, what cannot be written is not acknowledged, and what is not ours is left alone.

#![expect(clippy::unwrap_used, reason = "a test that fails is what they are for")]

mod disk_memories;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use disk_memories::{Memory, NOW, everything, open, options};
use rusqlite::Connection;
use tiermem_core::base::{Content, EdgeKind, Error, MemoryId, Row};
use tiermem_core::disk::{Disk, DiskOptions, Durability, Edge, Event, VerifyReport};

const COUNT: u64 = 30;

/// A store with something in every table.
fn fill(disk: &Disk) {
    disk.write(NOW, |transaction| {
        for number in 0..COUNT {
            let mut memory = Memory::plain(number);
            memory.content.private = (number % 4 == 0).then(|| "{\"iban\":\"DE02\"}".to_owned());
            memory.head.labels = vec!["finance".into()];
            memory.head.expires_at = Some(NOW);
            let row = memory.insert(transaction)?;
            transaction.event(row, "added", "agent", Some("{}"))?;
            transaction.event(row, "used", "agent", Some("{}"))?;
            if number > 0 {
                transaction.edge(row, Row(row.0 - 1), EdgeKind::DerivedFrom)?;
            }
            transaction.keep_undo("plan", row, "{\"before\":1}")?;
            transaction.remember_idempotency(&format!("key {number}"), memory.head.id)?;
        }
        transaction.set_meta("model", "minilm")
    })
    .unwrap();
}

fn filled(directory: &Path) {
    let disk = open(directory);
    fill(&disk);
    disk.close().unwrap();
}

/// Everything that a store says, each part as it was read or as it was refused.
#[derive(Debug, Clone, PartialEq)]
struct Said {
    heads: Vec<(Row, Memory)>,
    contents: Vec<Result<Content, ()>>,
    vectors: Vec<Result<Option<Vec<u16>>, ()>>,
    events: Vec<Result<Vec<Event>, ()>>,
    edges: Vec<Result<Vec<Edge>, ()>>,
    meta: Vec<Result<Option<String>, ()>>,
    keys: Vec<Result<Option<MemoryId>, ()>>,
}

fn listen(disk: &Disk) -> (Said, Vec<Row>, bool) {
    let mut heads = Vec::new();
    let loaded = disk.load(&mut |stored| {
        let metadata = stored.metadata.map(str::to_owned);
        let content = Content { text: stored.text.to_owned(), metadata, private: None };
        heads.push((stored.row, Memory { head: stored.head, content, vector: stored.vector.map(<[u16]>::to_vec) }));
        Ok(())
    });
    let rows = (0..COUNT).map(|row| Row(row as u32));
    let ids = (0..COUNT).map(|number| Memory::plain(number).head.id);
    let said = Said {
        heads,
        contents: rows.clone().map(|row| disk.contents(&[row]).map(|mut one| one.remove(0)).map_err(drop)).collect(),
        vectors: rows.clone().map(|row| disk.vectors(&[row]).map(|mut one| one.remove(0)).map_err(drop)).collect(),
        events: ids.map(|id| disk.events(id).map_err(drop)).collect(),
        edges: rows.map(|row| disk.edges(&[row]).map_err(drop)).collect(),
        meta: ["model", "created_at", "store_id"].map(|key| disk.meta(key).map_err(drop)).to_vec(),
        keys: (0..COUNT)
            .map(|number| {
                let key = format!("key {number}");
                disk.write(NOW, |transaction| transaction.idempotency(&key)).map(|found| found.value).map_err(drop)
            })
            .collect(),
    };
    let refused = loaded.is_err();
    (said, loaded.map_or_else(|_| Vec::new(), |loaded| loaded.damaged.iter().map(|found| found.row).collect()), refused)
}

/// Fails when something was said that was never written. Something may be left unsaid, but only if `verify` tells.
fn judge(what: &str, truth: &Said, said: &Said, damaged: &[Row], refused: bool, report: Option<&VerifyReport>) {
    fn same<T: PartialEq + std::fmt::Debug>(what: &str, truth: &[Result<T, ()>], said: &[Result<T, ()>]) -> bool {
        let mut all = true;
        for (number, (truth, said)) in truth.iter().zip(said).enumerate() {
            if said.is_err() {
                all = false;
            } else if truth != said {
                // An index or a page may have lost entries, which only a look at the whole can see.
                all = false;
                assert!(is_part(said, truth), "{what}: entry {number} was {truth:?} and is said to be {said:?}");
            }
        }
        all
    }
    let mut all = !refused;
    for (row, memory) in &said.heads {
        assert_eq!(memory, &truth.heads[row.index()].1, "{what}: row {}", row.0);
    }
    if said.heads.len() != truth.heads.len() {
        all = false;
        assert!(
            refused || said.heads.len() + damaged.len() == truth.heads.len(),
            "{what}: memories vanished in silence"
        );
    }
    all &= same(what, &truth.contents, &said.contents);
    all &= same(what, &truth.vectors, &said.vectors);
    all &= same(what, &truth.events, &said.events);
    all &= same(what, &truth.edges, &said.edges);
    all &= same(what, &truth.meta, &said.meta);
    all &= same(what, &truth.keys, &said.keys);
    if !all && let Some(report) = report {
        assert!(!report.is_sound(), "{what}: verify() saw nothing");
    }
}

/// Whether an answer only lacks something of the truth.
fn is_part<T: std::fmt::Debug>(said: &Result<T, ()>, truth: &Result<T, ()>) -> bool {
    let (said, truth) = (format!("{said:?}"), format!("{truth:?}"));
    if said == "Ok(None)" || said == "Ok([])" {
        return true;
    }
    let entries = |text: &str| {
        text.split("}, ").map(|part| part.trim_matches(|c| "Ok([{}])".contains(c)).to_owned()).collect::<Vec<_>>()
    };
    let truth = entries(&truth);
    entries(&said).iter().all(|entry| truth.contains(entry))
}

/// How many flips: 300, or what `DISK_TEST_FLIPS` says.
fn flips() -> u64 {
    std::env::var("DISK_TEST_FLIPS").ok().map_or(300, |flips| flips.parse().unwrap())
}

#[test]
fn a_flipped_bit_anywhere_is_never_a_wrong_answer() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path());
    let sound = fs::read(directory.path().join("memory.db")).unwrap();
    let (truth, damaged, refused) = listen(&open(directory.path()));
    assert!(damaged.is_empty() && !refused && truth.heads.len() as u64 == COUNT);
    let mut state = 7_u64;
    for flip in 0..flips() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bit = (state >> 20) as usize % (sound.len() * 8);
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("memory.db"), &bytes).unwrap();
        let what = format!("flip {flip} of bit {bit}");
        let disk = match Disk::open(Some(place.path()), options(Durability::Normal)) {
            Ok(disk) => disk,
            Err(Error::Corrupt { .. } | Error::NewerFormat { .. } | Error::Io { .. }) => continue,
            Err(error) => panic!("{what}: {error:?}"),
        };
        let report = disk.verify();
        let (said, damaged, refused) = listen(&disk);
        judge(&what, &truth, &said, &damaged, refused, report.as_ref().ok());
    }
}

/// Changes each column of each table as a stray write would, and asks who notices.
#[test]
fn every_column_of_every_table_is_watched() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path());
    let sound = fs::read(directory.path().join("memory.db")).unwrap();
    let (truth, ..) = listen(&open(directory.path()));
    let mut columns = Vec::new();
    {
        let connection = Connection::open(directory.path().join("memory.db")).unwrap();
        let mut statement = connection
            .prepare(
                "SELECT s.name, c.name, c.type, c.pk FROM sqlite_schema s, pragma_table_info(s.name) c WHERE s.type = 'table'",
            )
            .unwrap();
        let found = statement.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get::<_, bool>(3)?))
        });
        columns.extend(found.unwrap().map(Result::unwrap));
    }
    assert!(columns.len() > 50);
    for (table, column, kind, key) in columns {
        if table == "counter" && column == "one" {
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("memory.db");
        fs::write(&file, &sound).unwrap();
        let change = match &*kind {
            "INTEGER" if key => format!("{column} + 1000"),
            "INTEGER" if matches!(&*column, "state" | "tier" | "source" | "pinned" | "kind") => {
                format!("1 - min({column}, 1)")
            }
            "INTEGER" => format!("{column} + 1"),
            "REAL" => format!("{column} + 0.125"),
            "TEXT" => format!("coalesce({column}, '') || 'x'"),
            "BLOB" => format!("cast(substr({column}, 1, length({column}) - 1) || x'2e' AS BLOB)"),
            other => panic!("a column of type {other}"),
        };
        let connection = Connection::open(&file).unwrap();
        connection.pragma_update(None, "foreign_keys", false).unwrap();
        let one = if table == "meta" {
            "WHERE key = 'model'".to_owned()
        } else {
            format!("WHERE {} = 6", key_column(&table))
        };
        let sql = format!("UPDATE {table} SET {column} = {change} {one}");
        let changed = connection.execute(&sql, []).unwrap();
        assert!(changed > 0, "{sql}");
        drop(connection);

        let what = format!("{table}.{column}");
        let disk = open(place.path());
        let report = disk.verify().unwrap();
        assert!(!report.is_sound(), "{what} was changed and verify() saw nothing");
        if matches!(&*table, "memory" | "content" | "vector") && !key {
            assert_eq!(
                report.damaged.iter().map(|found| found.row).collect::<Vec<_>>(),
                [Row(6)],
                "{what}: {report:?}"
            );
        }
        let (said, damaged, refused) = listen(&disk);
        judge(&what, &truth, &said, &damaged, refused, Some(&report));
    }
}

/// A column in which 6 names some entries of the table.
fn key_column(table: &str) -> &'static str {
    match table {
        "edge" => "newer",
        "idempotency" | "event" | "undo" | "memory" | "content" | "vector" => "row",
        _ => "6",
    }
}

#[test]
fn entries_that_are_taken_away_are_missed() {
    for (sql, row) in [
        ("DELETE FROM content WHERE row = 6", Some(6)),
        ("DELETE FROM vector WHERE row = 6", Some(6)),
        ("INSERT INTO vector VALUES (7, 0, x'0000')", Some(7)),
        ("DELETE FROM memory WHERE row = 6", None),
        ("DELETE FROM event WHERE row = 6 AND number = 0", None),
        ("UPDATE content SET text = (SELECT text FROM content WHERE row = 5) WHERE row = 6", Some(6)),
        ("DELETE FROM counter", None),
        ("UPDATE memory SET row = 500 WHERE row = 6", Some(500)),
    ] {
        let directory = tempfile::tempdir().unwrap();
        filled(directory.path());
        let connection = Connection::open(directory.path().join("memory.db")).unwrap();
        connection.pragma_update(None, "foreign_keys", false).unwrap();
        assert_eq!(connection.execute(sql, []).unwrap(), 1);
        drop(connection);
        let disk = open(directory.path());
        let report = disk.verify().unwrap();
        assert!(!report.is_sound(), "{sql}");
        if let Some(row) = row {
            assert_eq!(report.damaged[0].row, Row(row), "{sql}: {report:?}");
            let loaded = disk.load(&mut |stored| {
                assert_ne!(stored.row, Row(row));
                Ok(())
            });
            assert_eq!(loaded.unwrap().damaged.len(), 1, "{sql}");
        }
    }
}

#[test]
fn what_is_not_ours_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("memory.db");
    let refused = |expected: &str| {
        let before = fs::read(&file).unwrap();
        let error = Disk::open(Some(directory.path()), options(Durability::Full)).unwrap_err();
        assert!(format!("{error:?}").starts_with(expected), "{error:?}");
        assert_eq!(fs::read(&file).unwrap(), before, "{expected}: the file was touched");
    };
    fs::write(&file, "this is a diary, not a database. ".repeat(300)).unwrap();
    refused("Corrupt");
    fs::remove_file(&file).unwrap();
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE notes (text)").unwrap();
    refused("Corrupt");
    fs::remove_file(&file).unwrap();
    filled(directory.path());
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 2).unwrap();
    refused("NewerFormat");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(Disk::open(Some(directory.path()), options(Durability::Full)).is_err());
    fs::remove_dir(&file).unwrap();
    fs::write(&file, "").unwrap();
    assert_eq!(everything(&open(directory.path())).1, [], "an empty file is a store that was never begun");
    let inside = Disk::open(Some(&file.join("deeper")), options(Durability::Full));
    assert!(matches!(inside, Err(Error::Io { .. })), "{inside:?}");
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_the_file_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    filled(elsewhere.path());
    std::os::unix::fs::symlink(elsewhere.path().join("memory.db"), directory.path().join("memory.db")).unwrap();
    assert!(Disk::open(Some(directory.path()), options(Durability::Full)).is_err());
    let linked = directory.path().join("linked");
    std::os::unix::fs::symlink(elsewhere.path(), &linked).unwrap();
    assert_eq!(everything(&open(&linked)).0.rows as u64, COUNT, "a link to a directory is a directory");
}

/// After a failed write: nothing acknowledged, no further write, reading as before.
fn assert_poisoned(disk: &Disk, failed: &Error) {
    assert!(matches!(failed, Error::Durability { .. }), "{failed:?}");
    assert!(disk.is_poisoned());
    let (before, commit) = (disk.contents(&[Row(0)]).unwrap(), disk.last_commit().unwrap());
    let again = disk.write(NOW, |transaction| Memory::plain(900).insert(transaction));
    assert!(matches!(again, Err(Error::ReadOnly { .. })), "{again:?}");
    assert_eq!(before, [Memory::plain(0).content]);
    assert_eq!(disk.last_commit().unwrap(), commit);
}

#[cfg(unix)]
#[test]
fn a_store_that_was_deleted_takes_no_more_writes() {
    for way in ["directory", "file", "log", "replaced"] {
        let outer = tempfile::tempdir().unwrap();
        let directory = outer.path().join("store");
        let disk = open(&directory);
        disk.write(NOW, |transaction| Memory::plain(0).insert(transaction)).unwrap();
        match way {
            "directory" => fs::remove_dir_all(&directory).unwrap(),
            "file" => fs::remove_file(directory.join("memory.db")).unwrap(),
            "log" => fs::remove_file(directory.join("memory.db-wal")).unwrap(),
            _ => {
                fs::copy(directory.join("memory.db"), directory.join("copy")).unwrap();
                fs::rename(directory.join("copy"), directory.join("memory.db")).unwrap();
            }
        }
        let failed = disk.write(NOW, |transaction| Memory::plain(1).insert(transaction)).unwrap_err();
        assert_poisoned(&disk, &failed);
    }
}

#[test]
#[ignore = "runs as a process of another test"]
fn part_write_until_full() {
    let Some(directory) = std::env::var_os("DISK_TEST_DIRECTORY") else { return };
    let disk = Disk::open(Some(Path::new(&directory)), options(Durability::Full)).unwrap();
    for number in 0.. {
        match disk.write(NOW, |transaction| Memory::plain(number).insert(transaction)) {
            Ok(_) => fs::write(Path::new(&directory).join("acknowledged"), number.to_string()).unwrap(),
            Err(failed) => {
                assert_poisoned(&disk, &failed);
                return;
            }
        }
    }
}

/// The shell sets the limit on the size of any file, and that meeting it is an error and not a signal.
#[cfg(unix)]
#[test]
fn a_full_disk_ends_writing_and_loses_nothing() {
    for blocks in [200, 350, 700, 1_400] {
        let directory = tempfile::tempdir().unwrap();
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" part_write_until_full --exact --ignored");
        let status = Command::new("sh")
            .args(["-c", &script])
            .arg(std::env::current_exe().unwrap())
            .env("DISK_TEST_DIRECTORY", directory.path())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{blocks}");
        let acknowledged: usize = fs::read_to_string(directory.path().join("acknowledged")).unwrap().parse().unwrap();
        let disk = open(directory.path());
        let (loaded, found) = everything(&disk);
        assert_eq!(loaded.damaged, []);
        assert!(found.len() == acknowledged + 1 || found.len() == acknowledged + 2, "{blocks}");
        for (row, memory) in found {
            assert_eq!(memory, Memory::plain(u64::from(row.0)));
        }
        assert!(disk.verify().unwrap().is_sound());
        disk.write(NOW, |transaction| Memory::plain(5_000_000).insert(transaction)).unwrap();
    }
}

#[test]
fn a_backup_beside_writers_is_a_whole_commit() {
    let directory = tempfile::tempdir().unwrap();
    let disk = open(&directory.path().join("store"));
    fill(&disk);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(std::sync::atomic::Ordering::Acquire) {
                    break;
                }
                // Two to a commit: a copy that shows an odd number shows half a commit.
                disk.write(NOW, |transaction| {
                    Memory::plain(1_000 + 2 * number).insert(transaction)?;
                    Memory::plain(1_001 + 2 * number).insert(transaction)
                })
                .unwrap();
            }
        });
        let mut last = 0;
        for round in 0..6 {
            let target = directory.path().join(format!("backup {round}"));
            let mut calls = Vec::new();
            let report = disk.backup(&target, &mut |done, all| calls.push((done, all))).unwrap();
            assert!(calls.is_sorted() && calls.last().is_some_and(|(done, all)| done == all && *done > 0));
            assert!(report.commit >= last);
            last = report.commit;
            let names: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names, ["memory.db"]);
            assert_eq!(fs::metadata(target.join("memory.db")).unwrap().len(), report.bytes);
            let copy = open(&target);
            let (loaded, found) = everything(&copy);
            assert_eq!((loaded.commit, found.len()), (report.commit, report.rows));
            assert_eq!(found.len() as u64, COUNT + 2 * (report.commit - 1));
            assert!(copy.verify().unwrap().is_sound());
            let again = disk.backup(&target, &mut |_, _| {});
            assert!(matches!(again, Err(Error::Invalid { ref argument, .. }) if argument == "directory"), "{again:?}");
        }
        stop.store(true, std::sync::atomic::Ordering::Release);
    });
}

#[test]
fn a_store_in_memory_is_backed_up_to_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::open(None, options(Durability::Memory)).unwrap();
    fill(&disk);
    disk.backup(directory.path(), &mut |_, _| {}).unwrap();
    assert_eq!(everything(&open(directory.path())).1, everything(&disk).1);
}

#[test]
fn a_damaged_store_is_not_copied_as_a_backup() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path());
    Connection::open(directory.path().join("memory.db"))
        .unwrap()
        .execute("UPDATE content SET text = 'another' WHERE row = 3", [])
        .unwrap();
    let target = directory.path().join("backup");
    let refused = open(directory.path()).backup(&target, &mut |_, _| {}).unwrap_err();
    assert!(refused.to_string().contains(&Memory::plain(3).head.id.to_string()), "{refused}");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
}

#[test]
fn erased_texts_leave_no_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let disk = open(directory.path());
    let canary = |number: u64| format!("canary-{number}-{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    disk.write(NOW, |transaction| {
        for number in 0..300 {
            let mut memory = Memory::plain(number);
            memory.content.text = canary(number);
            memory.content.metadata = Some(format!("{{\"m\":\"{}\"}}", canary(1_000 + number)));
            let row = memory.insert(transaction)?;
            transaction.event(row, "added", "agent", Some(&canary(2_000 + number)))?;
            transaction.keep_undo(&canary(3_000 + number), row, &canary(4_000 + number))?;
            transaction.remember_idempotency(&canary(5_000 + number), memory.head.id)?;
        }
        Ok(())
    })
    .unwrap();
    assert!(disk.empty_log().unwrap());
    disk.write(NOW, |transaction| (0..300).try_for_each(|row| transaction.erase(Row(row)).map(|gone| assert!(gone))))
        .unwrap();
    assert!(disk.empty_log().unwrap());
    let mut residues = 0;
    for entry in fs::read_dir(directory.path()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        residues += text.matches("canary-").count();
    }
    assert_eq!(residues, 0);
    assert_eq!(everything(&disk).1, []);
    assert!(disk.verify().unwrap().is_sound());
}

/// A file system that takes no writes: a read-only mount for root, a directory without the right for others.
#[cfg(target_os = "linux")]
#[test]
fn a_store_on_a_read_only_file_system_reads() {
    use std::os::unix::fs::PermissionsExt;
    let outer = tempfile::tempdir().unwrap();
    let directory = outer.path().join("store");
    filled(&directory);
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o500)).unwrap();
    let run = |arguments: &[&str]| {
        Command::new("mount").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let path = directory.to_str().unwrap();
    let writable = || fs::write(directory.join("probe"), "").is_ok();
    let mounted = writable() && run(&["--bind", path, path]) && run(&["-o", "remount,bind,ro", path]);
    let read_only = !writable();
    let _ = fs::remove_file(directory.join("probe"));
    let reading = DiskOptions { read_only: true, ..options(Durability::Full) };
    let read = Disk::open(Some(&directory), reading).map(|disk| everything(&disk).0.rows);
    let write = Disk::open(Some(&directory), options(Durability::Full)).map(drop);
    if mounted {
        assert!(Command::new("umount").arg(&directory).status().unwrap().success());
    }
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(read, Ok(COUNT as usize));
    // Root without the right to mount meets a directory that it can write after all.
    assert_eq!(write.is_err(), read_only, "{write:?}");
}
