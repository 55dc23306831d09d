//! What goes in comes out: round trips, reopening, rollback, threads.

#![expect(clippy::unwrap_used, reason = "a test that fails is what they are for")]

mod disk_memories;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use disk_memories::{Memory, NOW, everything, float_bits, heads, memories, open, options, plain};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tiermem_core::base::{EdgeKind, Error, MemoryId, Micros, Row};
use tiermem_core::disk::{Disk, DiskOptions, Durability, Parts, SqlValue};

/// One step of the model test.
#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<Memory>),
    Update(usize, tiermem_core::base::Head),
    Content(usize, Memory),
    Vector(usize, Option<Vec<u16>>),
    Erase(usize),
    Fail(Memory),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let vector = prop::option::of(prop::collection::vec(any::<u16>(), 0..30));
    let step = prop_oneof![
        4 => prop::collection::vec(memories(), 1..4).prop_map(Step::Insert),
        2 => (any::<usize>(), heads()).prop_map(|(at, head)| Step::Update(at, head)),
        1 => (any::<usize>(), memories()).prop_map(|(at, memory)| Step::Content(at, memory)),
        1 => (any::<usize>(), vector).prop_map(|(at, vector)| Step::Vector(at, vector)),
        1 => any::<usize>().prop_map(Step::Erase),
        1 => memories().prop_map(Step::Fail),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..12)
}

fn pick(model: &BTreeMap<Row, Memory>, at: usize) -> Option<Row> {
    (!model.is_empty()).then(|| *model.keys().nth(at % model.len()).unwrap())
}

/// Drives a store and a map with the same steps, and compares them after each.
fn follow(steps: Vec<Step>, directory: Option<&std::path::Path>) {
    let again = || match directory {
        Some(directory) => open(directory),
        None => Disk::open(None, options(Durability::Memory)).unwrap(),
    };
    let mut disk = again();
    let mut model: BTreeMap<Row, Memory> = BTreeMap::new();
    let (mut commit, mut next_row) = (0, 0);
    for step in steps {
        let written = match step {
            Step::Insert(new) => disk.write(NOW, |transaction| {
                for memory in &new {
                    let row = memory.insert(transaction)?;
                    assert_eq!(row, Row(next_row));
                    next_row += 1;
                    model.insert(row, memory.clone());
                }
                Ok(())
            }),
            Step::Update(at, mut head) => {
                let Some(row) = pick(&model, at) else { continue };
                let memory = model.get_mut(&row).unwrap();
                head.id = memory.head.id;
                memory.head = head.clone();
                disk.write(NOW, |transaction| transaction.update(row, &head))
            }
            Step::Content(at, with) => {
                let Some(row) = pick(&model, at) else { continue };
                model.get_mut(&row).unwrap().content = with.content.clone();
                disk.write(NOW, |transaction| transaction.set_content(row, &with.content))
            }
            Step::Vector(at, vector) => {
                let Some(row) = pick(&model, at) else { continue };
                model.get_mut(&row).unwrap().vector.clone_from(&vector);
                disk.write(NOW, |transaction| transaction.set_vector(row, vector.as_deref()))
            }
            Step::Erase(at) => {
                let Some(row) = pick(&model, at) else { continue };
                model.remove(&row);
                disk.write(NOW, |transaction| transaction.erase(row).map(|gone| assert!(gone)))
            }
            Step::Fail(memory) => {
                let failed = disk.write(NOW, |transaction| {
                    memory.insert(transaction)?;
                    Err::<(), _>(Error::invalid("text", "the caller thought better of it"))
                });
                assert!(matches!(failed, Err(Error::Invalid { .. })));
                continue;
            }
            Step::Reopen => {
                if directory.is_some() {
                    disk.close().unwrap();
                    disk = again();
                }
                continue;
            }
        };
        commit += 1;
        assert_eq!(written.unwrap().commit, commit);
        compare(&disk, &model, commit, next_row);
    }
    compare(&disk, &model, commit, next_row);
    let report = disk.verify().unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.sound, model.len());
}

fn compare(disk: &Disk, model: &BTreeMap<Row, Memory>, commit: u64, next_row: u32) {
    let (loaded, found) = everything(disk);
    assert_eq!((loaded.commit, loaded.next_row, loaded.rows), (commit, Row(next_row), model.len()));
    assert_eq!(loaded.damaged, []);
    assert_eq!(found.len(), model.len());
    for ((row, found), (expected_row, expected)) in found.iter().zip(model) {
        assert_eq!(row, expected_row);
        assert_eq!(found, expected);
        assert_eq!(float_bits(&found.head), float_bits(&expected.head));
        assert_eq!(disk.find(found.head.id).unwrap(), Some(*row));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: RngSeed::Fixed(3), ..ProptestConfig::default() })]

    #[test]
    fn a_file_is_a_map(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        follow(steps, Some(directory.path()));
    }

    #[test]
    fn so_is_a_store_in_memory(steps in steps()) {
        follow(steps, None);
    }
}

#[test]
fn nan_and_a_second_use_of_an_id_are_refused_and_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let disk = open(directory.path());
    let memory = Memory::plain(1);
    disk.write(NOW, |transaction| memory.insert(transaction)).unwrap();
    let twice = disk.write(NOW, |transaction| {
        Memory::plain(2).insert(transaction)?;
        memory.insert(transaction)
    });
    let error = twice.unwrap_err();
    assert!(error.to_string().contains(&memory.head.id.to_string()), "{error}");
    for spoil in [
        |head: &mut tiermem_core::base::Head| head.importance = f32::NAN,
        |head: &mut tiermem_core::base::Head| head.trust = f32::NAN,
        |head: &mut tiermem_core::base::Head| head.half_life = f32::NAN,
    ] {
        let mut spoilt = Memory::plain(3);
        spoil(&mut spoilt.head);
        let refused = disk.write(NOW, |transaction| spoilt.insert(transaction));
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        spoilt.head.id = memory.head.id;
        let refused = disk.write(NOW, |transaction| transaction.update(Row(0), &spoilt.head));
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    let long = vec![0; 16_385];
    let (head, content) = plain(4);
    let refused = disk.write(NOW, |transaction| transaction.insert(&head, &content, Some(&long)));
    assert!(matches!(refused, Err(Error::Limit { .. })), "{refused:?}");
    assert!(!disk.is_poisoned());
    let (loaded, found) = everything(&disk);
    assert_eq!((loaded.commit, loaded.next_row), (1, Row(1)));
    assert_eq!(found, [(Row(0), memory)]);
}

#[test]
fn a_write_that_writes_nothing_is_no_commit() {
    let directory = tempfile::tempdir().unwrap();
    let disk = open(directory.path());
    disk.write(NOW, |transaction| Memory::plain(1).insert(transaction)).unwrap();
    let read = disk.write(NOW, |transaction| transaction.find(plain(1).0.id)).unwrap();
    assert_eq!((read.value, read.commit), (Some(Row(0)), 1));
    assert_eq!(disk.last_commit().unwrap(), 1);
}

#[test]
fn what_hangs_on_a_memory_comes_back_and_goes_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let disk = open(directory.path());
    let ids: Vec<MemoryId> = (0..4).map(|number| plain(number).0.id).collect();
    disk.write(NOW, |transaction| {
        for number in 0..4 {
            let row = Memory::plain(number).insert(transaction)?;
            transaction.event(row, "added", "agent", None)?;
        }
        transaction.edge(Row(2), Row(0), EdgeKind::DerivedFrom)?;
        transaction.edge(Row(2), Row(1), EdgeKind::DerivedFrom)?;
        transaction.edge(Row(2), Row(1), EdgeKind::DerivedFrom)?;
        transaction.edge(Row(3), Row(2), EdgeKind::Supersedes)?;
        transaction.remember_idempotency("retry 1", ids[2])?;
        transaction.keep_undo("plan", Row(2), "{\"state\":0}")?;
        transaction.keep_undo("plan", Row(1), "{\"state\":1}")?;
        transaction.set_meta("model", "minilm")
    })
    .unwrap();
    disk.write(Micros(NOW.0 + 5), |transaction| transaction.event(Row(2), "changed", "人", Some("{\"x\":1}"))).unwrap();

    let events = disk.events(ids[2]).unwrap();
    let told: Vec<_> =
        events.iter().map(|event| (event.commit, event.at.0 - NOW.0, &*event.kind, &*event.actor)).collect();
    assert_eq!(told, [(1, 0, "added", "agent"), (2, 5, "changed", "人")]);
    assert_eq!(events[1].detail.as_deref(), Some("{\"x\":1}"));
    let edges = |disk: &Disk, rows: &[Row]| -> Vec<_> {
        disk.edges(rows).unwrap().iter().map(|edge| (edge.newer.0, edge.older.0, edge.kind)).collect()
    };
    let all = [(2, 0, EdgeKind::DerivedFrom), (2, 1, EdgeKind::DerivedFrom), (3, 2, EdgeKind::Supersedes)];
    assert_eq!(edges(&disk, &[Row(2)]), all);
    assert_eq!(edges(&disk, &[Row(0), Row(2), Row(3)]), all);
    assert_eq!(edges(&disk, &[Row(1)]), all[1..2]);
    assert_eq!(disk.meta("model").unwrap().as_deref(), Some("minilm"));
    assert_eq!(disk.meta("created_at").unwrap(), Some(NOW.0.to_string()));
    assert_eq!(disk.meta("store_id").unwrap(), Some(MemoryId(0x5707_e1d0).to_string()));
    assert_eq!(disk.meta("nothing").unwrap(), None);
    let known = disk.write(NOW, |transaction| {
        Ok((transaction.idempotency("retry 1")?, transaction.idempotency("retry 2")?, transaction.meta("model")?))
    });
    assert_eq!(known.unwrap().value, (Some(ids[2]), None, Some("minilm".to_owned())));

    let taken = disk.write(NOW, |transaction| {
        let taken = transaction.take_undo("plan")?;
        transaction.keep_undo("plan", Row(2), "kept")?;
        Ok((taken, transaction.take_undo("plan")?, transaction.take_undo("plan")?))
    });
    let (first, second, third) = taken.unwrap().value;
    assert_eq!(first, [(Row(1), "{\"state\":1}".to_owned()), (Row(2), "{\"state\":0}".to_owned())]);
    assert_eq!((second, third), (vec![(Row(2), "kept".to_owned())], Vec::new()));

    for (unknown, result) in [
        ("edge", disk.write(NOW, |transaction| transaction.edge(Row(9), Row(0), EdgeKind::Supersedes)).map(|_| ())),
        ("event", disk.write(NOW, |transaction| transaction.event(Row(9), "x", "y", None)).map(|_| ())),
        ("undo", disk.write(NOW, |transaction| transaction.keep_undo("t", Row(9), "{}")).map(|_| ())),
    ] {
        assert!(matches!(result, Err(Error::Invalid { .. })), "{unknown}: {result:?}");
    }
    assert!(matches!(disk.events(MemoryId(7)), Err(Error::NotFound { .. })));
    assert!(matches!(disk.contents(&[Row(0), Row(9)]), Err(Error::NotFound { .. })));
    assert!(matches!(disk.vectors(&[Row(9)]), Err(Error::NotFound { .. })));

    disk.write(NOW, |transaction| {
        transaction.keep_undo("plan", Row(2), "{}")?;
        assert!(transaction.erase(Row(2))?);
        assert!(!transaction.erase(Row(2))?);
        Ok(())
    })
    .unwrap();
    assert_eq!(edges(&disk, &[Row(0), Row(1), Row(2), Row(3)]), []);
    for table in ["event", "undo", "idempotency", "content", "vector", "memory"] {
        let sql = format!("SELECT count(*) FROM {table} WHERE row = 2");
        assert_eq!(disk.query(&sql, 1).unwrap().rows, [[SqlValue::Integer(0)]], "{table}");
    }
    assert!(disk.verify().unwrap().is_sound());
}

#[test]
fn rows_are_never_given_twice() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..3_u32 {
        let disk = open(directory.path());
        let row = disk.write(NOW, |transaction| Memory::plain(u64::from(round)).insert(transaction)).unwrap().value;
        assert_eq!(row, Row(round));
        disk.write(NOW, |transaction| transaction.erase(row)).unwrap();
    }
}

#[test]
fn vectors_of_an_earlier_model_are_kept_back() {
    let disk = Disk::open(None, options(Durability::Memory)).unwrap();
    disk.write(NOW, |transaction| {
        Memory::plain(0).insert(transaction)?;
        Memory::plain(2).insert(transaction)?;
        transaction.set_model(7);
        assert_eq!(transaction.model(), 7);
        transaction.set_vector(Row(1), Some(&[1, 2, 3]))
    })
    .unwrap();
    let mut vectors = Vec::new();
    let loaded = disk
        .load(&mut |stored| {
            vectors.push(stored.vector.map(<[u16]>::to_vec));
            Ok(())
        })
        .unwrap();
    assert_eq!((loaded.model, loaded.outdated_vectors), (7, 1));
    assert_eq!(vectors, [None, Some(vec![1, 2, 3])]);
    assert_eq!(disk.vectors(&[Row(1), Row(0)]).unwrap(), [Some(vec![1, 2, 3]), None]);
    assert!(disk.verify().unwrap().is_sound());
}

#[test]
fn parts_leave_out_what_was_not_asked_for() {
    let disk = Disk::open(None, options(Durability::Memory)).unwrap();
    disk.write(NOW, |transaction| Memory::plain(0).insert(transaction)).unwrap();
    for (parts, text, vector) in [
        (Parts::ALL, true, true),
        (Parts::HEADS, false, false),
        (Parts { content: true, vectors: false }, true, false),
        (Parts { content: false, vectors: true }, false, true),
    ] {
        disk.load_parts(parts, &mut |stored| {
            assert_eq!((!stored.text.is_empty(), stored.metadata.is_some()), (text, text));
            assert_eq!(stored.vector.is_some(), vector);
            Ok(())
        })
        .unwrap();
    }
    let stopped = disk.load(&mut |_| Err(Error::invalid("each", "enough")));
    assert_eq!(stopped, Err(Error::invalid("each", "enough")));
}

#[test]
fn a_panic_in_a_write_undoes_it_and_the_handle_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let disk = open(directory.path());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        disk.write(NOW, |transaction| {
            Memory::plain(0).insert(transaction)?;
            assert_eq!(transaction.next_row(), Row(7), "the caller's bug");
            Ok(())
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(disk.write(NOW, |transaction| Memory::plain(1).insert(transaction)).unwrap().value, Row(0));
    assert_eq!(everything(&disk).1, [(Row(0), Memory::plain(1))]);
}

#[test]
fn many_threads_write_and_each_write_is_its_own_commit() {
    for durability in [Durability::Full, Durability::Memory] {
        let directory = tempfile::tempdir().unwrap();
        let path = (durability == Durability::Full).then(|| directory.path());
        let disk = Disk::open(path, options(durability)).unwrap();
        let (threads, each) = (8, 40);
        let mut commits: Vec<u64> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..threads)
                .map(|thread| {
                    let disk = &disk;
                    scope.spawn(move || {
                        let mut commits = Vec::new();
                        for round in 0..each {
                            let memory = Memory::plain(thread * 1_000 + round);
                            if round % 8 == 7 {
                                let failed = disk.write(NOW, |transaction| {
                                    memory.insert(transaction)?;
                                    Err::<(), _>(Error::invalid("x", "y"))
                                });
                                assert_eq!(failed, Err(Error::invalid("x", "y")));
                                continue;
                            }
                            if round % 8 == 6 {
                                let unseen = plain(thread * 1_000 + round).0.id;
                                assert_eq!(
                                    disk.write(NOW, |transaction| transaction.find(unseen)).unwrap().value,
                                    None
                                );
                            }
                            let written = disk.write(NOW, |transaction| memory.insert(transaction)).unwrap();
                            // Acknowledged, so visible to everybody.
                            assert_eq!(disk.contents(&[written.value]).unwrap(), [memory.content]);
                            assert!(disk.last_commit().unwrap() >= written.commit);
                            commits.push(written.commit);
                        }
                        commits
                    })
                })
                .collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        commits.sort_unstable();
        let expected = threads * (each - each / 8);
        assert_eq!(commits, (1..=expected).collect::<Vec<_>>());
        let (loaded, found) = everything(&disk);
        assert_eq!((loaded.commit, found.len()), (expected, expected as usize));
        assert!(disk.verify().unwrap().is_sound());
    }
}

#[test]
fn readers_see_whole_commits_while_writers_write() {
    let directory = tempfile::tempdir().unwrap();
    let disk = open(directory.path());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = || {
            let mut last = 0;
            while !done.load(Ordering::Acquire) {
                let mut rows = 0;
                let loaded = disk
                    .load(&mut |_| {
                        rows += 1;
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(rows % 3, 0, "a part of a commit is seen");
                assert_eq!(rows as u64, loaded.commit * 3);
                assert!(loaded.commit >= last);
                last = loaded.commit;
            }
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        for commit in 0..60 {
            disk.write(NOW, |transaction| {
                (0..3).try_for_each(|part| Memory::plain(commit * 3 + part).insert(transaction).map(|_| ()))
            })
            .unwrap();
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn a_closed_store_says_so_and_closes_again() {
    let directory = tempfile::tempdir().unwrap();
    let disk = open(directory.path());
    disk.write(NOW, |transaction| Memory::plain(0).insert(transaction)).unwrap();
    assert!(disk.size_bytes().unwrap() > 0);
    disk.close().unwrap();
    disk.close().unwrap();
    assert!(disk.is_closed());
    assert_eq!(disk.write(NOW, |transaction| transaction.find(MemoryId(0))).unwrap_err(), Error::Closed);
    assert_eq!(disk.load(&mut |_| Ok(())).unwrap_err(), Error::Closed);
    assert_eq!(disk.contents(&[Row(0)]).unwrap_err(), Error::Closed);
    assert_eq!(disk.changed(0).unwrap_err(), Error::Closed);
    assert_eq!(disk.query("SELECT 1", 1).unwrap_err(), Error::Closed);
    assert_eq!(disk.verify().unwrap_err(), Error::Closed);
    let names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["memory.db"], "the log is gone");
}

#[test]
fn a_store_in_memory_needs_no_directory_and_a_directory_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    for (path, durability) in [(None, Durability::Full), (Some(directory.path()), Durability::Memory)] {
        let refused = Disk::open(path, options(durability));
        assert!(matches!(refused, Err(Error::Invalid { ref argument, .. }) if argument == "durability"), "{refused:?}");
    }
    let reading = DiskOptions { read_only: true, ..options(Durability::Memory) };
    assert!(matches!(Disk::open(None, reading), Err(Error::Invalid { .. })));
}

#[test]
fn questions_in_sql_only_read() {
    let directory = tempfile::tempdir().unwrap();
    for path in [Some(directory.path()), None] {
        let durability = if path.is_some() { Durability::Normal } else { Durability::Memory };
        let disk = Disk::open(path, options(durability)).unwrap();
        disk.write(NOW, |transaction| (0..5).try_for_each(|n| Memory::plain(n).insert(transaction).map(|_| ())))
            .unwrap();
        let answer =
            disk.query("SELECT id, tier, state, source, about FROM memories WHERE tier = 'semantic';", 9).unwrap();
        assert_eq!(answer.columns, ["id", "tier", "state", "source", "about"]);
        let text = |text: &str| SqlValue::Text(text.to_owned());
        let expected =
            [text(&plain(2).0.id.to_string()), text("semantic"), text("alive"), text("user"), SqlValue::Null];
        assert_eq!((answer.rows, answer.more), (vec![expected.to_vec()], false));
        let answer = disk.query("SELECT row FROM memory ORDER BY row", 2).unwrap();
        assert_eq!((answer.rows.len(), answer.more), (2, true));
        let answer = disk
            .query("WITH RECURSIVE n(x) AS (SELECT 1 UNION SELECT x + 1 FROM n WHERE x < 4) SELECT x / 2.0 FROM n", 9);
        assert_eq!(answer.unwrap().rows[3], [SqlValue::Real(2.0)]);
        for refused in [
            "",
            " -- nothing",
            "SELECT 1; SELECT 2",
            "DELETE FROM memory",
            "UPDATE memory SET tier = 0",
            "PRAGMA query_only = 0",
            "ATTACH 'x' AS x",
            "CREATE TABLE x (y)",
            "CREATE TEMP TABLE x (y)",
            "VACUUM",
            "BEGIN",
            "SELECT load_extension('x')",
            "SELECT ?1",
            "SELEC 1",
            "SELECT nothing FROM memory",
            "SELECT cast(x'ff' AS TEXT)",
            "SELECT zeroblob(1000000000)",
            "INSERT INTO meta VALUES ('a', 'b', 0) RETURNING key",
            "PRAGMA writable_schema = 1",
            "DROP TABLE memory",
        ] {
            let answer = disk.query(refused, 10);
            assert!(
                matches!(answer, Err(Error::Invalid { ref argument, .. }) if argument == "sql"),
                "{refused}: {answer:?}"
            );
        }
        let many = "SELECT 1;".repeat(7_000);
        assert!(matches!(disk.query(&many, 10), Err(Error::Invalid { .. })));
        assert!(matches!(disk.query(&"x".repeat(70_000), 10), Err(Error::Limit { .. })));
        assert!(disk.verify().unwrap().is_sound());
        disk.write(NOW, |transaction| Memory::plain(9).insert(transaction)).unwrap();
    }
}

#[test]
fn a_question_without_end_is_cut_short() {
    let disk = Disk::open(None, options(Durability::Memory)).unwrap();
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n";
    assert!(matches!(disk.query(endless, 1), Err(Error::Limit { .. })));
    assert_eq!(disk.query("SELECT 1", 1).unwrap().rows, [[SqlValue::Integer(1)]]);
}

#[cfg(unix)]
#[test]
fn directories_and_files_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("a/b");
    let disk = open(&inner);
    disk.write(NOW, |transaction| Memory::plain(0).insert(transaction)).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&outer.path().join("a")), mode(&inner)), (0o700, 0o700));
    for name in ["memory.db", "memory.db-wal", "memory.db-shm"] {
        assert_eq!(mode(&inner.join(name)), 0o600, "{name}");
    }
}
