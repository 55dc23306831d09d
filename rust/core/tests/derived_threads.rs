//! Derived files that are written while others write the store: whatever they caught, what opens from them is right.

mod derived_store;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use derived_store::*;
use tiermem_core::base::Error;
use tiermem_core::engine::Engine;

/// Says how often files were written.
fn save_until(engine: &Engine, done: &AtomicBool) -> usize {
    let mut saved = 0;
    while !done.load(Ordering::SeqCst) {
        match engine.rewrite_derived(NOW) {
            Ok(()) => saved += 1,
            // Something was erased meanwhile, or the other handle is at it.
            Err(Error::StalePlan { .. } | Error::Locked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    saved
}

#[test]
fn files_written_beside_writers_and_readers_are_right() {
    for round in 0..4_u64 {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = open(directory.path());
        add(&engine, 0..ROWS);
        let (done, at_work) = (AtomicBool::new(false), AtomicUsize::new(2));
        let saved = std::thread::scope(|scope| {
            for writer in 0..2 {
                let (engine, done, at_work) = (&engine, &done, &at_work);
                scope.spawn(move || {
                    for step in 0..60 {
                        let number = round * 10_000 + writer * 1_000 + step;
                        change(engine, number, ROWS);
                        add(engine, 100_000 + number * 7..100_000 + number * 7 + 7);
                    }
                    if at_work.fetch_sub(1, Ordering::SeqCst) == 1 {
                        done.store(true, Ordering::SeqCst);
                    }
                });
            }
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    answers(&engine);
                }
            });
            let saver = scope.spawn(|| save_until(&engine, &done));
            saver.join().expect("it saves")
        });
        assert!(saved > 0);
        // Not closed, so not saved once more.
        drop(engine);
        let right = judged(directory.path());
        let engine = open(directory.path());
        assert_eq!(stats(&engine).warnings, Vec::<String>::new());
        assert!((stats(&engine).rows_read as u64) < ROWS, "the files were used");
        assert!(answers(&engine) == right, "round {round}");
    }
}

#[test]
fn two_handles_write_erase_and_save_and_the_files_are_right() {
    for round in 0..4_u64 {
        let directory = tempfile::tempdir().expect("a directory");
        let handles = [open(directory.path()), open(directory.path())];
        add(&handles[0], 0..ROWS);
        let (done, at_work) = (AtomicBool::new(false), AtomicUsize::new(2));
        std::thread::scope(|scope| {
            for (place, engine) in handles.iter().enumerate() {
                let (done, at_work) = (&done, &at_work);
                scope.spawn(move || {
                    for step in 0..40 {
                        let number = round * 10_000 + place as u64 * 1_000 + step;
                        change(engine, number, ROWS);
                        add(engine, 100_000 + number * 7..100_000 + number * 7 + 7);
                        if step % 20 == 10 {
                            let disk = engine.disk().expect("open");
                            let gone = id(number % ROWS);
                            let erased = disk.write(NOW, |transaction| match transaction.find(gone)? {
                                Some(row) => transaction.erase(row),
                                None => Ok(false),
                            });
                            erased.expect("erased");
                        }
                    }
                    if at_work.fetch_sub(1, Ordering::SeqCst) == 1 {
                        done.store(true, Ordering::SeqCst);
                    }
                });
                scope.spawn(|| save_until(engine, done));
            }
        });
        drop(handles);
        let right = judged(directory.path());
        let engine = open(directory.path());
        assert_eq!(stats(&engine).warnings, Vec::<String>::new());
        assert!(answers(&engine) == right, "round {round}");
    }
}
