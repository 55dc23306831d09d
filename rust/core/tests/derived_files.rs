//! Derived files: what opens from them is what opens without them, whatever happens to them.

mod derived_store;

use std::fs;
use std::path::Path;

use derived_store::*;
use tiermem_core::base::{Error, Micros};
use tiermem_core::disk::{DERIVED_DIRECTORY, Disk, DiskOptions, FILE_NAME};
use tiermem_core::engine::{Engine, EngineConfig, Erase, Scope, Viewer};

#[test]
fn a_store_that_is_opened_again_answers_as_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = open(directory.path());
    add(&engine, 0..ROWS);
    (0..20).for_each(|seed| change(&engine, seed, ROWS));
    let before = answers(&engine);
    engine.close(NOW).expect("closed");
    assert_eq!(kinds(directory.path()), ["codes", "columns", "halves", "keywords"]);

    let engine = open(directory.path());
    assert_eq!((stats(&engine).rows_read, stats(&engine).warnings), (0, Vec::new()));
    assert_eq!(answers(&engine), before);
    engine.close(NOW).expect("closed");
    assert_eq!(judged(directory.path()), before);
}

#[test]
fn what_is_newer_than_the_files_is_read_from_the_disk() {
    let directory = saved_store();
    let names = files(directory.path());
    for round in 0..3 {
        let engine = open(directory.path());
        add(&engine, ROWS + round * 50..ROWS + round * 50 + 50);
        (0..15).for_each(|seed| change(&engine, 100 + round * 20 + seed, ROWS));
        let before = answers(&engine);
        engine.close(NOW).expect("closed");
        assert_eq!(files(directory.path()), names, "so few rows are not worth new files");
        let engine = open(directory.path());
        let read = stats(&engine).rows_read;
        assert!((50..600).contains(&read), "{read}");
        assert_eq!(answers(&engine), before);
        engine.close(NOW).expect("closed");
        assert_eq!(judged(directory.path()), before);
    }
    let engine = open(directory.path());
    add(&engine, 5_000..6_200);
    engine.close(NOW).expect("closed");
    assert!(files(directory.path()).iter().all(|path| !names.contains(path)), "the old ones are gone");
    let engine = open(directory.path());
    assert_eq!(stats(&engine).rows_read, 0);
}

#[test]
fn maintenance_saves_what_is_far_behind_and_nothing_else_does() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = open(directory.path());
    add(&engine, 0..ROWS);
    answers(&engine);
    assert_eq!(files(directory.path()), Vec::<std::path::PathBuf>::new());
    engine.maintain(0, NOW).expect("done");
    let names = files(directory.path());
    assert_eq!(names.len(), 4);
    engine.maintain(0, NOW).expect("done");
    assert_eq!(files(directory.path()), names);
    let before = answers(&engine);
    // As after a kill: nothing is closed.
    let copy = tempfile::tempdir().expect("a directory");
    copy_all(directory.path(), copy.path());
    let again = open(copy.path());
    assert_eq!((stats(&again).rows_read, answers(&again)), (0, before));
    add(&engine, ROWS..ROWS + 10);
    assert_eq!(judged(directory.path()), answers(&engine), "the values in the file go on serving");
}

#[test]
fn a_graph_comes_back_as_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = with_graph(directory.path());
    add(&engine, 0..ROWS);
    engine.maintain(10_000, NOW).expect("done");
    let nodes = stats(&engine).vectors.expect("vectors").graph_nodes;
    assert!(nodes > 1_000, "{nodes}");
    let before = answers(&engine);
    engine.close(NOW).expect("closed");
    assert_eq!(kinds(directory.path()), ["codes", "columns", "graph", "halves", "keywords"]);
    let engine = with_graph(directory.path());
    let figures = stats(&engine);
    assert_eq!((figures.rows_read, figures.vectors.expect("vectors").graph_nodes), (0, nodes));
    assert_eq!(answers(&engine), before);
    engine.close(NOW).expect("closed");

    // Without it every vector is scanned.
    let graph = &files(directory.path())[2];
    let mut bytes = fs::read(graph).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(graph, bytes).expect("written");
    let engine = with_graph(directory.path());
    let figures = stats(&engine);
    assert_eq!((figures.warnings.len(), figures.vectors.expect("vectors").graph_nodes), (1, 0));
    assert_eq!(answers(&engine), judged(directory.path()));
    engine.maintain(10_000, NOW).expect("done");
    engine.close(NOW).expect("closed");
    assert_eq!(stats(&with_graph(directory.path())).warnings, Vec::<String>::new());
}

/// Does something to each derived file in turn. Nothing of it is seen in any answer; it is told once, and mended.
fn whatever_happens(harm: impl Fn(&Path, usize)) {
    let directory = saved_store();
    let right = judged(directory.path());
    for place in 0..4 {
        let copy = tempfile::tempdir().expect("a directory");
        copy_all(directory.path(), copy.path());
        harm(&files(copy.path())[place], place);
        let engine = open(copy.path());
        assert!(answers(&engine) == right, "another answer after harm to file {place}");
        let warnings = stats(&engine).warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        engine.close(NOW).expect("closed");
        let engine = open(copy.path());
        assert_eq!((stats(&engine).warnings, stats(&engine).rows_read), (Vec::new(), 0), "it was mended");
        assert!(answers(&engine) == right);
    }
}

#[test]
fn garbage_in_the_place_of_a_file_is_seen() {
    whatever_happens(|path, place| {
        let length = fs::metadata(path).expect("it is there").len() as usize;
        let mut numbers = Numbers(place as u64);
        let garbage: Vec<u8> = (0..length).map(|_| numbers.next(256) as u8).collect();
        fs::write(path, garbage).expect("written");
    });
}

#[test]
fn an_empty_file_and_a_longer_one_are_seen() {
    whatever_happens(|path, place| {
        let mut bytes = fs::read(path).expect("it is there");
        if place % 2 == 0 {
            bytes.clear();
        } else {
            bytes.extend([0; 4_096]);
        }
        fs::write(path, bytes).expect("written");
    });
}

#[test]
fn a_directory_or_a_link_in_the_place_of_a_file_is_seen() {
    whatever_happens(|path, place| {
        let bytes = fs::read(path).expect("it is there");
        fs::remove_file(path).expect("removed");
        if place % 2 == 0 || cfg!(not(unix)) {
            fs::create_dir(path).expect("made");
            fs::write(path.join("inside"), "something").expect("written");
        } else {
            let elsewhere = path.with_file_name("elsewhere");
            fs::write(&elsewhere, bytes).expect("written");
            #[cfg(unix)]
            std::os::unix::fs::symlink(&elsewhere, path).expect("linked");
        }
    });
}

#[test]
fn a_file_that_is_missing_or_cannot_be_read_is_seen() {
    whatever_happens(|path, place| {
        #[cfg(unix)]
        if place % 2 == 0 && !reads_everything() {
            use std::os::unix::fs::PermissionsExt;
            return fs::set_permissions(path, fs::Permissions::from_mode(0o0)).expect("set");
        }
        let _ = place;
        fs::remove_file(path).expect("removed");
    });
}

/// Whether this process may read what nobody may.
#[cfg(unix)]
fn reads_everything() -> bool {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("closed");
    fs::write(&path, "x").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).expect("set");
    fs::read(&path).is_ok()
}

#[test]
fn a_file_of_another_store_is_seen_even_under_the_right_name() {
    let other = tempfile::tempdir().expect("a directory");
    let options = DiskOptions { store_id: 99, ..options() };
    let engine = Engine::open(Some(other.path()), options, EngineConfig::default()).expect("the store opens");
    add(&engine, 0..ROWS);
    engine.close(NOW).expect("closed");
    whatever_happens(|path, place| {
        fs::copy(&files(other.path())[place], path).expect("copied");
    });
}

#[test]
fn an_older_file_of_the_same_store_is_seen_even_under_the_right_name() {
    let directory = saved_store();
    let older = tempfile::tempdir().expect("a directory");
    copy_all(directory.path(), older.path());
    let engine = open(directory.path());
    add(&engine, ROWS..ROWS + 1_300);
    engine.close(NOW).expect("closed");
    let right = judged(directory.path());
    for (old, new) in files(older.path()).iter().zip(files(directory.path())) {
        let kept = fs::read(&new).expect("it is there");
        fs::copy(old, &new).expect("copied");
        let engine = open(directory.path());
        assert!(answers(&engine) == right, "{new:?}");
        assert_eq!(stats(&engine).warnings.len(), 1);
        drop(engine);
        // The drop did not save: whoever closes does.
        fs::write(&new, kept).expect("written");
    }
    // All of them under their own names: they are not named, so they are not looked at.
    for path in files(directory.path()) {
        fs::remove_file(path).expect("removed");
    }
    for path in files(older.path()) {
        fs::copy(&path, directory.path().join(DERIVED_DIRECTORY).join(path.file_name().expect("a name")))
            .expect("copied");
    }
    let engine = open(directory.path());
    assert!(answers(&engine) == right);
}

#[test]
fn files_cut_anywhere_are_refused() {
    let directory = saved_store();
    let right = judged(directory.path());
    for path in files(directory.path()) {
        let whole = fs::read(&path).expect("it is there");
        for cut in 0..64 {
            let length = whole.len() * cut / 64;
            fs::write(&path, &whole[..length]).expect("written");
            // Every cut is read; each eighth through the whole engine.
            if cut % 8 == 0 {
                let engine = open(directory.path());
                assert!(answers(&engine) == right, "{path:?} cut at {length}");
                assert_eq!(stats(&engine).warnings.len(), 1);
            } else {
                assert!(refused(directory.path(), &path), "{path:?} cut at {length}");
            }
        }
        fs::write(&path, &whole).expect("written");
    }
    assert_eq!(stats(&open(directory.path())).warnings, Vec::<String>::new());
}

#[test]
fn two_thousand_flipped_bits_are_all_seen() {
    let directory = saved_store();
    let right = judged(directory.path());
    let mut numbers = Numbers(11);
    let paths = files(directory.path());
    assert!(!paths.iter().any(|path| refused(directory.path(), path)), "the files as they were written are taken");
    for flip in 0..2_000_usize {
        let path = &paths[flip % paths.len()];
        let mut bytes = fs::read(path).expect("it is there");
        // Every other one in the head or the tail, where everything has a meaning.
        let bits = bytes.len() as u64 * 8;
        let bit = match flip % 4 {
            0 => numbers.next(2_048),
            1 => bits - 1 - numbers.next(192),
            _ => numbers.next(bits),
        } as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(path, &bytes).expect("written");
        if flip % 100 == 0 {
            let engine = open(directory.path());
            assert!(answers(&engine) == right, "{path:?} bit {bit}");
            assert_eq!(stats(&engine).warnings.len(), 1);
        } else {
            assert!(refused(directory.path(), path), "{path:?} bit {bit}");
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(path, &bytes).expect("written");
    }
    assert_eq!(stats(&open(directory.path())).warnings, Vec::<String>::new());
}

/// Whether the disk refuses to read a derived file that is not what its name says.
fn refused(directory: &Path, path: &Path) -> bool {
    use tiermem_core::disk::{DerivedKind, DerivedName, DerivedOrigin};
    thread_local! {
        static DISK: std::cell::RefCell<Option<(std::path::PathBuf, Disk, serde_json::Value)>> =
            const { std::cell::RefCell::new(None) };
    }
    DISK.with_borrow_mut(|known| {
        if known.as_ref().is_none_or(|(at, ..)| at != directory) {
            let disk = Disk::open(Some(directory), options()).expect("the store opens");
            let named = disk.meta("derived").expect("read").expect("there");
            let named = serde_json::from_str(&named).expect("JSON");
            *known = Some((directory.to_path_buf(), disk, named));
        }
        let (_, disk, named) = known.as_ref().expect("just made");
        let file_name = path.file_name().expect("a name").to_string_lossy();
        let (kind, digest) = file_name.split_once('-').expect("kind and digest");
        let files = named["tables"]["files"].as_array().expect("a list");
        let bytes = files.iter().find(|file| file[0] == kind).expect("it is named")[2].as_u64().expect("a number");
        let kind = DerivedKind::from_name(kind).expect("a kind");
        let name = DerivedName { kind, bytes, digest: u128::from_str_radix(digest, 16).expect("a digest") };
        let commit = named["tables"]["commit"].as_u64().expect("a number");
        let library = named["library"].as_str().expect("a text");
        disk.read_derived(&name, &DerivedOrigin { commit, format: 1, library }).is_err()
    })
}

#[test]
fn what_a_kill_left_half_done_is_ignored_and_removed() {
    let directory = saved_store();
    let right = judged(directory.path());
    let derived = directory.path().join(DERIVED_DIRECTORY);
    let partial = derived.join("columns.partial");
    fs::write(&partial, "half of a file").expect("written");
    // Whole, but killed before the store named it.
    let unnamed = derived.join("codes-00112233445566778899aabbccddeeff");
    fs::write(&unnamed, "a file").expect("written");
    let engine = open(directory.path());
    assert_eq!((stats(&engine).warnings, stats(&engine).rows_read), (Vec::new(), 0));
    assert!(answers(&engine) == right);
    add(&engine, ROWS..ROWS + 1_300);
    engine.close(NOW).expect("closed");
    assert!(!partial.exists() && !unnamed.exists());
    assert_eq!(files(directory.path()).len(), 4);
    assert_eq!(stats(&open(directory.path())).rows_read, 0);
}

#[test]
fn an_older_database_put_back_under_newer_files_is_believed_and_not_they() {
    let directory = saved_store();
    let older = tempfile::tempdir().expect("a directory");
    copy_database(directory.path(), older.path());
    let engine = open(directory.path());
    add(&engine, ROWS..ROWS + 1_300);
    (200..230).for_each(|seed| change(&engine, seed, ROWS));
    engine.close(NOW).expect("closed");
    copy_database(older.path(), directory.path());
    // Another future than the one that the files know, and a longer one.
    let engine = open(directory.path());
    (300..400).for_each(|seed| change(&engine, seed, ROWS));
    let before = answers(&engine);
    drop(engine);
    assert_eq!(answers(&open(directory.path())), before);
    assert_eq!(judged(directory.path()), before);
}

#[test]
fn what_was_erased_comes_back_from_no_file() {
    let directory = saved_store();
    let engine = open(directory.path());
    let canary: Vec<u8> = {
        let disk = engine.disk().expect("open");
        let row = disk.find(id(10)).expect("read").expect("there");
        let halves = disk.vectors(&[row]).expect("read").remove(0).expect("it has a vector");
        halves.iter().flat_map(|half| half.to_le_bytes()).collect()
    };
    let holds = |path: &Path| {
        let bytes = fs::read(path).expect("it is there");
        bytes.windows(canary.len()).any(|window| window == canary)
    };
    assert_eq!(files(directory.path()).iter().filter(|path| holds(path)).count(), 1);
    drop(engine);

    let disk = Disk::open(Some(directory.path()), options()).expect("the store opens");
    disk.write(NOW, |transaction| {
        let row = transaction.find(id(10))?.expect("there");
        transaction.erase(row)
    })
    .expect("erased");
    disk.close().expect("closed");
    // Killed here: the files still hold it, the store does not.
    let engine = open(directory.path());
    assert_eq!(stats(&engine).warnings, Vec::<String>::new(), "nothing was damaged");
    assert!(engine.get(&[id(10)], &Viewer::owner(), NOW).is_err());
    assert_eq!(answers(&engine), judged(directory.path()));
    engine.rewrite_derived(NOW).expect("written");
    assert_eq!(files(directory.path()).len(), 4);
    assert!(!files(directory.path()).iter().any(|path| holds(path)));
    engine.close(NOW).expect("closed");
    let engine = open(directory.path());
    assert_eq!(stats(&engine).rows_read, 0);
    assert_eq!(answers(&engine), judged(directory.path()));
}

#[test]
fn an_erasure_takes_the_files_along_and_the_next_ones_know_nothing() {
    let directory = saved_store();
    let engine = open(directory.path());
    let ids: Vec<_> = (10..40).map(|number| id(number * 10)).collect();
    let living: Vec<_> = ids.into_iter().filter(|id| engine.get(&[*id], &Viewer::owner(), NOW).is_ok()).collect();
    assert!(living.len() > 20);
    let request = Erase { scope: Scope::Ids(living.clone()), name: "ids", cascade_all: true };
    let receipt = engine.erase(&request, &mut |_| {}, NOW).expect("erased");
    assert!(receipt.residues.is_empty(), "{:?}", receipt.residues);
    assert!(files(directory.path()).is_empty());
    engine.close(NOW).expect("closed");
    assert_eq!(files(directory.path()).len(), 4);
    let engine = open(directory.path());
    assert_eq!((stats(&engine).rows_read, stats(&engine).warnings), (0, Vec::new()));
    assert!(living.iter().all(|id| engine.get(&[*id], &Viewer::owner(), NOW).is_err()));
    assert_eq!(answers(&engine), judged(directory.path()));
}

#[test]
fn dropped_files_are_gone_at_once_and_nothing_is_amiss() {
    let directory = saved_store();
    let right = judged(directory.path());
    let engine = open(directory.path());
    engine.disk().expect("open").drop_derived().expect("dropped");
    assert!(files(directory.path()).is_empty());
    assert!(answers(&engine) == right, "what is mapped goes on being there");
    drop(engine);
    let engine = open(directory.path());
    assert_eq!(stats(&engine).warnings, Vec::<String>::new());
    assert!(answers(&engine) == right);
}

#[test]
fn a_handle_that_only_reads_writes_none() {
    let directory = saved_store();
    let right = judged(directory.path());
    let reading = || {
        let options = DiskOptions { read_only: true, ..options() };
        Engine::open(Some(directory.path()), options, EngineConfig::default()).expect("the store opens")
    };
    let engine = reading();
    assert_eq!(stats(&engine).rows_read, 0);
    assert!(answers(&engine) == right);
    assert!(matches!(engine.rewrite_derived(NOW), Err(Error::ReadOnly { .. })));
    drop(engine);
    fs::remove_file(&files(directory.path())[0]).expect("removed");
    let names = files(directory.path());
    let engine = reading();
    assert!(answers(&engine) == right);
    assert_eq!(stats(&engine).warnings.len(), 1);
    engine.maintain(10, NOW).expect("done");
    engine.close(NOW).expect("closed");
    assert_eq!(files(directory.path()), names);
}

#[test]
fn a_place_that_takes_no_files_fails_no_call() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = open(directory.path());
    // A file where the directory should be.
    fs::write(directory.path().join(DERIVED_DIRECTORY), "no directory").expect("written");
    add(&engine, 0..ROWS);
    engine.maintain(0, NOW).expect("done");
    let warnings = stats(&engine).warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("derived files could not be written: "), "{warnings:?}");
    add(&engine, ROWS..ROWS + 10);
    let before = answers(&engine);
    fs::remove_file(directory.path().join(DERIVED_DIRECTORY)).expect("removed");
    // It is not tried at every call, but on close.
    engine.close(NOW).expect("closed");
    assert_eq!(files(directory.path()).len(), 4);
    assert_eq!(answers(&open(directory.path())), before);
}

#[test]
fn a_store_in_ram_and_a_small_one_have_none() {
    let memory = DiskOptions { durability: tiermem_core::disk::Durability::Memory, ..options() };
    let engine = Engine::open(None, memory, EngineConfig::default()).expect("it opens");
    add(&engine, 0..ROWS);
    engine.maintain(10, NOW).expect("done");
    engine.rewrite_derived(NOW).expect("nothing to do");
    assert_eq!(stats(&engine).warnings, Vec::<String>::new());
    engine.close(NOW).expect("closed");

    let directory = tempfile::tempdir().expect("a directory");
    let engine = open(directory.path());
    add(&engine, 0..500);
    let commit = stats(&engine).commit;
    engine.maintain(10, NOW).expect("done");
    assert_eq!(stats(&engine).commit, commit);
    engine.close(NOW).expect("closed");
    assert!(!directory.path().join(DERIVED_DIRECTORY).exists());
}

#[cfg(unix)]
#[test]
fn files_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = saved_store();
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&directory.path().join(DERIVED_DIRECTORY)), 0o700);
    for path in files(directory.path()) {
        assert_eq!(mode(&path), 0o600, "{path:?}");
    }
}

#[test]
fn a_damaged_memory_is_reported_at_every_open() {
    let directory = saved_store();
    let file = directory.path().join(FILE_NAME);
    let connection = rusqlite::Connection::open(&file).expect("it opens");
    connection.execute("UPDATE content SET text = 'another' WHERE row = 33", []).expect("written");
    drop(connection);
    // The files do not know yet, and what is asked for is checked.
    let engine = open(directory.path());
    assert!(matches!(engine.texts(&[tiermem_core::base::Row(33)]), Err(Error::Corrupt { .. })));
    drop(engine);
    for path in files(directory.path()) {
        fs::remove_file(path).expect("removed");
    }
    for _ in 0..2 {
        let engine = open(directory.path());
        assert_eq!(stats(&engine).damaged.len(), 1);
        engine.close(Micros(NOW.0 + 1)).expect("closed");
        assert!(files(directory.path()).is_empty(), "a store with damage is read in full");
    }
}
