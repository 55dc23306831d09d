//! A store taken apart and put together again: one commit however many write, no holes, and nothing half taken in.

#[path = "engine_model/mod.rs"]
mod naive;

use naive::{NOW, in_memory, open};
use tiermem_core::base::{Error, MemoryId, Tier};
use tiermem_core::disk::{DiskOptions, Durability};
use tiermem_core::engine::{Chunk, Engine, EngineConfig, Export, Import, Listing, NewMemory, Part, Viewer};

fn memory(number: u128) -> NewMemory {
    NewMemory {
        session: number.is_multiple_of(2).then(|| "s".into()),
        tags: vec!["标签".into(); usize::from(number.is_multiple_of(3))],
        ..NewMemory::new(MemoryId(number), format!("memory {number}"), Tier::Semantic)
    }
}

fn add(engine: &Engine, numbers: std::ops::Range<u128>) {
    let items: Vec<_> = numbers.map(memory).collect();
    engine.add(&items, None, NOW).expect("added");
}

fn options(durability: Durability) -> DiskOptions {
    DiskOptions { durability, read_only: false, busy_timeout_ms: 1_000, allow_network: false, now: NOW, store_id: 9 }
}

fn chunks(export: &mut Export, rows: usize) -> Vec<(Part, Chunk)> {
    std::iter::from_fn(|| export.next_chunk(rows).expect("a chunk")).collect()
}

fn filled(chunks: &[(Part, Chunk)]) -> Engine {
    let mut import = Import::new(None, options(Durability::Memory), NOW, None).expect("an empty store");
    for (part, chunk) in chunks {
        import.add(*part, chunk, NOW).expect("taken in");
    }
    import.into_engine(EngineConfig::default()).expect("whole")
}

fn texts(engine: &Engine) -> Vec<String> {
    let listing = Listing { viewer: Viewer::owner(), limit: 1_000, ..Listing::default() };
    engine.list(&listing, NOW).expect("a list").into_iter().map(|item| item.text).collect()
}

#[test]
fn an_export_shows_one_commit_while_others_write() {
    let directory = tempfile::tempdir().expect("a directory");
    for engine in [in_memory(), open(directory.path())] {
        add(&engine, 1..21);
        let mut export = engine.export(true, NOW).expect("an export");
        let mut given = vec![export.next_chunk(7).expect("a chunk").expect("one at least")];
        add(&engine, 21..41);
        engine.forget(&[MemoryId(15)], NOW).expect("forgotten");
        given.extend(chunks(&mut export, 7));
        assert_eq!(given.iter().map(|(_, chunk)| chunk.rows).collect::<Vec<_>>(), [7, 7, 6]);
        assert_eq!((export.origin().memories, export.origin().commit), (20, 1));
        assert_eq!(texts(&filled(&given)), (1..21).map(|number| format!("memory {number}")).collect::<Vec<_>>());
        assert_eq!(texts(&engine).len(), 39);
    }
}

#[test]
fn erased_rows_leave_no_hole() {
    let engine = in_memory();
    add(&engine, 1..11);
    let disk = engine.disk().expect("open");
    disk.write(NOW, |transaction| {
        for number in [1, 4, 10] {
            let row = transaction.find(MemoryId(number))?.expect("it is there");
            transaction.erase(row)?;
        }
        Ok(())
    })
    .expect("erased");
    let copy = filled(&chunks(&mut engine.export(true, NOW).expect("an export"), 3));
    let numbers = [2, 3, 5, 6, 7, 8, 9];
    assert_eq!(texts(&copy), numbers.map(|number| format!("memory {number}")));
    add(&copy, 20..21);
    let row = copy.disk().expect("open").find(MemoryId(20)).expect("a look").expect("a row");
    assert_eq!(row.index(), numbers.len());
}

#[test]
fn large_rows_make_small_chunks() {
    let engine = in_memory();
    let large = "x".repeat(60_000);
    let items: Vec<_> =
        (1..301).map(|number| NewMemory { text: format!("{number} {large}"), ..memory(number) }).collect();
    engine.add(&items, None, NOW).expect("added");
    let chunks = chunks(&mut engine.export(true, NOW).expect("an export"), 4_096);
    assert_eq!(chunks.len(), 3);
    let bytes = |chunk: &Chunk| chunk.columns.iter().map(|column| column.1.len()).sum::<usize>();
    assert!(chunks.iter().all(|(_, chunk)| bytes(chunk) < (8 << 20) + 70_000));
    assert_eq!(texts(&filled(&chunks)).len(), 300);
}

#[test]
fn a_store_that_holds_anything_is_not_filled() {
    let directory = tempfile::tempdir().expect("a directory");
    add(&open(directory.path()), 1..2);
    let refused = Import::new(Some(directory.path()), options(Durability::Normal), NOW, None);
    assert!(matches!(refused, Err(Error::Invalid { argument, .. }) if argument == "path"));
}

#[test]
fn a_chunk_is_taken_whole_or_not_at_all() {
    let engine = in_memory();
    add(&engine, 1..6);
    let (part, good) = chunks(&mut engine.export(true, NOW).expect("an export"), 100).remove(0);
    let mut import = Import::new(None, options(Durability::Memory), NOW, None).expect("an empty store");
    let mut bad = good.clone();
    let column = bad.columns.iter_mut().find(|column| column.0 == "state").expect("a column");
    column.1[4] = 9;
    let Err(Error::Corrupt { message, .. }) = import.add(part, &bad, NOW) else { panic!("a state that is none") };
    assert!(message.contains("row 4 of a chunk of memories: state"), "{message}");
    import.add(part, &good, NOW).expect("its first rows were not kept");
    assert!(matches!(import.add(part, &good, NOW), Err(Error::Corrupt { .. })), "the same ids again");
    import.add(Part::Keys, &key(5), NOW).expect("a key");
    assert!(matches!(import.add(Part::Edges, &good, NOW), Err(Error::Corrupt { .. })), "parts have an order");
    assert_eq!(texts(&import.into_engine(EngineConfig::default()).expect("whole")).len(), 5);
}

fn key(number: u128) -> Chunk {
    let columns = [("key", b"k".to_vec()), ("key_ends", vec![1, 0, 0, 0]), ("id", number.to_be_bytes().to_vec())];
    Chunk { rows: 1, columns: columns.map(|(name, values)| (name.to_owned(), values)).to_vec() }
}
