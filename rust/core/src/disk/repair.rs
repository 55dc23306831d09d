//! A store put right, or put back: a sound database is built beside the file and then takes its place in one commit, so
//! that a kill leaves the old one or the new one, and whoever has the file open goes on with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::backup::{BackupReport, copy};
use super::failure::{self, Failure};
use super::load::{self, Parts, Scan};
use super::read;
use super::record::{Counter, Encoder, Reading};
use super::verify::{self, VerifyReport};
use super::{Damaged, Disk, DiskOptions, FILE_NAME, open};
use crate::base::{Error, Result, Row, RowSet};

/// What a repair kept and what it could not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// Memories that are gone, because their head or their text is not what was written.
    pub lost: Vec<Damaged>,
    /// Memories that were kept without their vector, which is not what was written.
    pub without_vector: Vec<Damaged>,
    /// The file as it was, if it was to be kept.
    pub kept_aside: Option<PathBuf>,
    /// The commit that holds the repair.
    pub commit: u64,
}

impl Disk {
    /// Keeps every memory that is as it was written, and drops the rest; the file as it was is kept as
    /// `memory.db.damaged-<commit>` unless `discard`. Nothing is touched when nothing is damaged.
    pub fn repair(&self, discard: bool) -> Result<(VerifyReport, Option<Repaired>)> {
        self.check_writable()?;
        let Some(place) = &self.place else {
            let report = self.verify()?;
            if report.is_sound() {
                return Ok((report, None));
            }
            return Err(Error::invalid("repair", "a store in RAM has no file to repair"));
        };
        self.take_place(&mut |_| Ok(()), &mut |own, target| {
            let view = own.transaction()?;
            let (found, sound) = verify::examine(&view)?;
            if found.is_sound() {
                return Ok((None, (found, None)));
            }
            let (lost, without_vector) = tell_apart(&view, &found.damaged)?;
            let bare: BTreeSet<Row> = without_vector.iter().map(|found| found.row).collect();
            let mut rows: Vec<Row> = sound.iter().chain(bare.iter().copied()).collect();
            rows.sort_unstable();
            salvage(&view, target, &rows, &bare)?;
            let counter = next_counter(&view, target, rows.len())?;
            drop(view);
            let kept_aside = if discard { None } else { Some(keep_aside(own, &place.directory, counter.commit)?) };
            let repaired = Repaired { lost, without_vector, kept_aside, commit: counter.commit };
            Ok((Some(counter), (found, Some(repaired))))
        })
    }

    /// Puts the content of another store, a backup, in the place of this one's. All of it is verified before.
    pub fn replace_with(&self, source: &Self) -> Result<BackupReport> {
        self.check_writable()?;
        if self.place.is_none() {
            return Err(Error::invalid("directory", "a store in RAM has no file to restore into"));
        }
        let mut fill = |target: &mut Connection| {
            source.with_reader("read the backup", |connection| {
                let view = connection.transaction()?;
                view.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
                run(&Backup::new(&view, target)?, -1)
            })?;
            Ok(())
        };
        self.take_place(&mut fill, &mut |own, target| {
            let report = verify::report(target)?;
            if let Some(fault) = report.first_fault() {
                let message = format!("nothing was restored from it: {fault}");
                return Err(Failure::Told(Error::Corrupt { what: source.shown_path(), message }));
            }
            // What is replaced may be damaged; then everybody loads anew all the same, from a later commit.
            let known = read::counter(own).map_or(0, |counter| counter.commit);
            let counter = read::counter(target)?;
            let commit = counter.commit.max(known) + 1;
            let ask = |name| target.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            let bytes = (ask("page_count")? * ask("page_size")?) as u64;
            let done = BackupReport { commit, rows: report.sound, bytes };
            Ok((Some(Counter { commit, erased_at: commit, ..counter }), done))
        })
    }

    /// Makes a database that `fill` may copy into, lets `build` complete it while nobody can write to this store, and
    /// then makes it this store's content under the counter that `build` gives; without one nothing is changed.
    fn take_place<T>(
        &self,
        fill: &mut dyn FnMut(&mut Connection) -> Result<(), Failure>,
        build: &mut Build<'_, T>,
    ) -> Result<T> {
        let place = self.place.as_ref().ok_or(Error::Closed)?;
        let mending = place.directory.join(format!("{FILE_NAME}.mending"));
        let mut writer = self.writer.lock();
        self.settle(&mut writer);
        let mut exchange = || -> Result<T, Failure> {
            let told = |error| failure::io(format!("write {}", mending.display()), &error);
            open::make_private(&mending).map_err(told)?;
            let mut target = Connection::open(&mending)?;
            open::settle_in(&mut target, &self.options)?;
            // A kill leaves a file that nobody reads.
            let _: String = target.pragma_update_and_check(None, "journal_mode", "off", |row| row.get(0))?;
            target.pragma_update(None, "synchronous", "OFF")?;
            open::create(&mut target, &self.options)?;
            fill(&mut target)?;
            let connection = writer.connection.as_mut().ok_or(Failure::Told(Error::Closed))?;
            connection.flush_prepared_statement_cache();
            let mut own = open::reader(place, &self.options)?;
            let backup = Backup::new(&target, connection)?;
            // No pages yet: it takes the lock that keeps writers out until the content is exchanged.
            run(&backup, 0)?;
            let (counter, told) = build(&mut own, &target)?;
            if let Some(counter) = counter {
                target.execute(Counter::UPDATE, counter.params())?;
                run(&backup, -1)?;
            }
            Ok(told)
        };
        let result = exchange();
        // What is left of it is of no use, and the next open removes what could not be removed here.
        let _ = fs::remove_file(&mending);
        result.map_err(|failure| match failure {
            Failure::Told(error) => error,
            Failure::Sqlite(error) => self.failed("put the store right", &error),
        })
    }
}

/// Completes the new database from this store's own, and says what it counts.
type Build<'a, T> = dyn FnMut(&mut Connection, &Connection) -> Result<(Option<Counter>, T), Failure> + 'a;

fn run(backup: &Backup<'_, '_>, pages: i32) -> Result<(), Failure> {
    match backup.step(pages)? {
        StepResult::Done | StepResult::More => Ok(()),
        _ => Err(Failure::Told(Error::Locked { path: FILE_NAME.to_owned(), waited_ms: 0 })),
    }
}

/// Puts the store of a backup into a directory. One that holds a store already is refused, unless it is to be replaced;
/// whoever has that open goes on with what was restored.
pub fn restore(source: &Path, directory: &Path, replace: bool, options: &DiskOptions) -> Result<BackupReport> {
    let backup = Disk::open(Some(source), DiskOptions { read_only: true, ..options.clone() })?;
    let file = directory.join(FILE_NAME);
    if !file.exists() {
        return backup.backup(directory, &mut |_, _| {});
    }
    if !replace {
        return Err(Error::invalid("directory", format!("{} exists already", file.display())));
    }
    let own = Disk::open(Some(directory), DiskOptions { read_only: false, ..options.clone() })?;
    let done = own.replace_with(&backup)?;
    own.drop_derived()?;
    own.empty_log()?;
    own.close()?;
    Ok(done)
}

/// Of the damaged memories, those whose texts are lost and those that only lost their vector.
fn tell_apart(view: &Connection, damaged: &[Damaged]) -> Result<(Vec<Damaged>, Vec<Damaged>), Failure> {
    let (mut lost, mut without_vector) = (Vec::new(), Vec::new());
    let mut statement =
        view.prepare(&load::select(Parts { content: true, vectors: false }, "WHERE memory.row = ?1"))?;
    for found in damaged {
        let mut scan = Scan::without_counter(Parts { content: true, vectors: false }, u32::MAX);
        let read = statement.query([found.row.0]).and_then(|mut rows| {
            Ok(match rows.next()? {
                Some(row) => scan.take(row, &mut |_| Ok(())).is_ok() && scan.loaded.rows == 1,
                None => false,
            })
        });
        if read.unwrap_or(false) { without_vector.push(found.clone()) } else { lost.push(found.clone()) }
    }
    Ok((lost, without_vector))
}

/// What the store counts after the repair. Rows are not given twice, and every other handle loads anew.
fn next_counter(view: &Connection, target: &Connection, rows: usize) -> Result<Counter, Failure> {
    let most = |sql: &str| target.query_row(sql, [], |row| row.get::<_, Option<i64>>(0));
    let known = read::counter(view).unwrap_or(Counter::NEW);
    let commit = known.commit.max(most("SELECT max(commit_number) FROM memory")?.unwrap_or(0) as u64) + 1;
    let next_row = most("SELECT max(row) + 1 FROM memory")?.unwrap_or(0) as u32;
    let model = known.model.max(most("SELECT max(model) FROM vector")?.unwrap_or(0) as u32);
    Ok(Counter { commit, next_row: known.next_row.max(next_row), rows: rows as u32, erased_at: commit, model })
}

/// Copies these memories with all that hangs on them and is sound; of `bare` ones not the vector.
fn salvage(view: &Connection, target: &Connection, rows: &[Row], bare: &BTreeSet<Row>) -> Result<(), Failure> {
    let kept = RowSet::from_rows(rows.iter().copied());
    target.execute_batch("BEGIN")?;
    let mut encoder = Encoder::default();
    for table in ["memory", "content", "vector"] {
        let mut from = view.prepare(&format!("SELECT * FROM {table} WHERE row = ?1"))?;
        let mut into = target.prepare(&insert(table, from.column_count()))?;
        for row in rows.iter().filter(|row| table != "vector" || !bare.contains(row)) {
            let mut found = from.query([row.0])?;
            while let Some(values) = found.next()? {
                into.execute(params_from_iter(all(values)?))?;
            }
        }
    }
    let mut strip = target.prepare("UPDATE memory SET vector_checksum = NULL WHERE row = ?1")?;
    for row in bare {
        strip.execute([row.0])?;
    }
    for (table, key) in [("edge", "newer"), ("event", "row"), ("undo", "row"), ("idempotency", "row")] {
        let mut from = view.prepare(&format!("SELECT * FROM {table} WHERE {key} = ?1 ORDER BY 1, 2"))?;
        let mut into = target.prepare(&insert(table, from.column_count()))?;
        for row in rows {
            let mut number = 0;
            let Ok(mut found) = from.query([row.0]) else { continue };
            // An entry that cannot be read is one of those that are lost.
            while let Ok(Some(entry)) = found.next() {
                if let Ok(values) = entry_values(table, entry, &mut encoder, &kept, &mut number) {
                    into.execute(params_from_iter(values))?;
                }
            }
        }
    }
    let mut from = view.prepare("SELECT key, value, checksum FROM meta")?;
    let mut into = target.prepare("INSERT OR REPLACE INTO meta VALUES (?1, ?2, ?3)")?;
    let mut found = from.query([])?;
    while let Ok(Some(entry)) = found.next() {
        if verify::check_entry("meta", entry, &mut encoder).is_ok() {
            into.execute(params_from_iter(all(entry)?))?;
        }
    }
    target.execute_batch("COMMIT")?;
    Ok(())
}

fn insert(table: &str, columns: usize) -> String {
    let places: Vec<String> = (1..=columns).map(|number| format!("?{number}")).collect();
    format!("INSERT INTO {table} VALUES ({})", places.join(", "))
}

fn all(row: &rusqlite::Row<'_>) -> rusqlite::Result<Vec<Value>> {
    (0..row.as_ref().column_count()).map(|column| row.get(column)).collect()
}

/// The values of an entry to be kept. What came before an entry of a history may be lost, so it is numbered anew.
fn entry_values(
    table: &str,
    entry: &rusqlite::Row<'_>,
    encoder: &mut Encoder,
    kept: &RowSet,
    number: &mut u32,
) -> Reading<Vec<Value>> {
    let mut values = all(entry).map_err(|error| error.to_string())?;
    match table {
        "edge" => {
            let edge = read::read_edge(entry, encoder)?;
            if !kept.contains(edge.older) {
                return Err("it points at a memory that is lost".to_owned());
            }
        }
        "event" => {
            let (row, _, event) = read::read_event(entry, encoder)?;
            let words = [Some(&*event.kind), Some(&*event.actor), event.detail.as_deref()];
            let checksum = encoder.event(row, *number, event.commit, event.at, words);
            values[1] = Value::Integer(i64::from(*number));
            values[7] = Value::Integer(checksum);
            *number += 1;
        }
        _ => verify::check_entry(table, entry, encoder)?,
    }
    Ok(values)
}

/// Copies the file as it is, damage and all, to a name that no copy has.
fn keep_aside(own: &mut Connection, directory: &Path, commit: u64) -> Result<PathBuf, Failure> {
    let name = |number: u32| match number {
        0 => format!("{FILE_NAME}.damaged-{commit}"),
        _ => format!("{FILE_NAME}.damaged-{commit}-{number}"),
    };
    let free = (0..u32::MAX).map(|number| directory.join(name(number))).find(|path| !path.exists());
    let path = free.unwrap_or_else(|| directory.join(name(0)));
    let copied = copy(own, &path, &mut |_, _| {})?;
    drop(copied);
    let synced = fs::File::open(&path).and_then(|file| file.sync_all()).and_then(|()| open::sync_directory(directory));
    synced.map_err(|error| failure::io(format!("sync {}", path.display()), &error))?;
    Ok(path)
}
