//! Looking at everything: SQLite's structure, every checksum, every reference.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use super::failure::Failure;
use super::load::{self, Parts, Scan, StoredRow};
use super::read;
use super::record::{self, Encoder, Reading};
use super::{Damaged, Disk};
use crate::base::{MemoryId, Result, Row, RowSet};

/// What [`Disk::verify`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// The commit that was looked at.
    pub commit: u64,
    /// Memories that are sound.
    pub sound: usize,
    /// Memories that are not, by ascending row, each once, with its first fault.
    pub damaged: Vec<Damaged>,
    /// What SQLite says about the file's structure; nothing when it is fine.
    pub structure: Vec<String>,
    /// Entries of other tables that are damaged or point nowhere.
    pub entries: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing was found.
    pub fn is_sound(&self) -> bool {
        self.first_fault().is_none()
    }

    /// The first thing that was found, in words.
    pub fn first_fault(&self) -> Option<String> {
        let named = |id: Option<MemoryId>| id.map_or_else(String::new, |id| format!(" ({id})"));
        let damaged = self.damaged.first();
        let memory =
            damaged.map(|found| format!("the memory in row {}{}: {}", found.row.0, named(found.id), found.message));
        memory.or_else(|| self.structure.first().or(self.entries.first()).cloned())
    }
}

/// Messages of one kind that a report carries at most.
const MESSAGES: usize = 1_000;

impl Disk {
    /// Reads every byte of the store and reports what is not as it was written. Writers go on meanwhile; the report
    /// shows the store as it was at the start. Derived files are not the disk's and not looked at.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.with_view("verify the store", report)
    }
}

pub(super) fn report(view: &Connection) -> Result<VerifyReport, Failure> {
    examine(view).map(|(report, _)| report)
}

/// The report, and the rows of the memories that are sound.
pub(super) fn examine(view: &Connection) -> Result<(VerifyReport, RowSet), Failure> {
    let mut report =
        VerifyReport { commit: 0, sound: 0, damaged: Vec::new(), structure: Vec::new(), entries: Vec::new() };
    let sound = memories(view, &mut report)?;
    if let Err(error) = structure(view, &mut report.structure) {
        report.structure.push(error.to_string());
    }
    for table in ["counter", "meta", "edge", "event", "undo", "idempotency"] {
        if let Err(error) = entries(view, table, &mut report.entries) {
            report.entries.push(format!("{table}: {error}"));
        }
    }
    Ok((report, sound))
}

/// Every memory with its text and vector: by a scan, and one by one where the scan meets a page it cannot read.
fn memories(view: &Connection, report: &mut VerifyReport) -> Result<RowSet, Failure> {
    let mut scan = match Scan::new(view, Parts::ALL) {
        Ok(scan) => scan,
        Err(failure) => {
            report.entries.push(format!("counter: {}", told(failure)));
            let last = view.query_row("SELECT max(row) FROM memory INDEXED BY memory_by_id", [], |row| row.get(0));
            let last: Option<u32> = last.unwrap_or_default();
            Scan::without_counter(Parts::ALL, last.map_or(0, |last| last.saturating_add(1)))
        }
    };
    let mut sound = RowSet::new();
    let mut each = |stored: StoredRow<'_>| {
        sound.insert(stored.row);
        Ok(())
    };
    let mut statement = view.prepare(&load::select(Parts::ALL, "ORDER BY memory.row"))?;
    let mut rows = statement.query([])?;
    let broken = loop {
        match rows.next() {
            Ok(Some(row)) => scan.take(row, &mut each)?,
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    drop(rows);
    if let Some(error) = broken {
        report.structure.push(error.to_string());
        let mut statement = view.prepare(&load::select(Parts::ALL, "WHERE memory.row = ?1"))?;
        for place in 0..scan.loaded.next_row.0 {
            let mut rows = statement.query([place])?;
            match rows.next() {
                Ok(Some(row)) => scan.take(row, &mut each)?,
                Ok(None) => {}
                Err(error) => scan.damaged(Row(place), None, error.to_string()),
            }
        }
    }
    drop(statement);
    let damaged_rows = |scan: &Scan| scan.loaded.damaged.iter().map(|damaged| damaged.row).collect::<BTreeSet<_>>();
    let found = sound.count() + damaged_rows(&scan).len();
    if let Err(failure) = scan.count_missing(view, found) {
        report.structure.push(told(failure));
    }
    let mut damaged = BTreeMap::new();
    for found in scan.loaded.damaged {
        damaged.entry(found.row).or_insert(found);
    }
    report.commit = scan.loaded.commit;
    report.sound = sound.count();
    report.damaged = damaged.into_values().collect();
    Ok(sound)
}

fn structure(view: &Connection, messages: &mut Vec<String>) -> rusqlite::Result<()> {
    let mut statement = view.prepare(&format!("PRAGMA integrity_check({MESSAGES})"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let message: String = row.get(0)?;
        if message != "ok" {
            messages.push(message);
        }
    }
    let mut statement = view.prepare("PRAGMA foreign_key_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, parent) = (row.get::<_, String>(0)?, row.get::<_, String>(2)?);
        messages.push(format!("an entry of {table} points at a {parent} that is not there"));
        if messages.len() >= MESSAGES {
            break;
        }
    }
    Ok(())
}

/// Checks the checksums of a table whose entries carry one.
fn entries(view: &Connection, table: &str, messages: &mut Vec<String>) -> rusqlite::Result<()> {
    let columns = match table {
        "counter" => "commit_number, next_row, rows, erased_at, model, checksum",
        "meta" => "key, value, checksum",
        "edge" => "newer, older, kind, commit_number, checksum",
        "event" => "row, number, commit_number, at, kind, actor, detail, checksum",
        "undo" => "token, row, before, checksum",
        _ => "key, row, checksum",
    };
    let mut encoder = Encoder::default();
    let mut statement = view.prepare(&format!("SELECT {columns} FROM {table}"))?;
    let mut rows = statement.query([])?;
    let mut last_event: Option<(Row, u32)> = None;
    while let Some(entry) = rows.next()? {
        let mut check = || -> Reading<()> {
            if table != "event" {
                return check_entry(table, entry, &mut encoder);
            }
            let (row, number, _) = read::read_event(entry, &mut encoder)?;
            let before = last_event.replace((row, number)).filter(|(last, _)| *last == row);
            read::follows(number, before.map_or(0, |(_, last)| last as usize + 1))
        };
        if let Err(message) = check() {
            messages.push(format!("{table}: {message}"));
            if messages.len() >= MESSAGES {
                break;
            }
        }
    }
    Ok(())
}

/// Checks the checksum of one entry, all columns of which are there in the table's order.
pub(super) fn check_entry(table: &str, entry: &rusqlite::Row<'_>, encoder: &mut Encoder) -> Reading<()> {
    let checksum = match table {
        "counter" => return record::Counter::read(entry).map(|_| ()),
        "edge" => return read::read_edge(entry, encoder).map(|_| ()),
        "event" => return read::read_event(entry, encoder).map(|_| ()),
        "meta" => encoder.meta(record::text(entry, 0, "key")?, record::text(entry, 1, "value")?),
        "undo" => {
            let row = Row(record::unsigned(entry, 1, "row")?);
            encoder.undo(record::text(entry, 0, "token")?, row, record::text(entry, 2, "before")?)
        }
        _ => {
            let row = Row(record::unsigned(entry, 1, "row")?);
            encoder.idempotency(record::text(entry, 0, "key")?, row)
        }
    };
    let last = entry.as_ref().column_count() - 1;
    record::matches(checksum, record::integer(entry, last, "checksum")?, "an entry")
}

fn told(failure: Failure) -> String {
    match failure {
        Failure::Told(error) => error.to_string(),
        Failure::Sqlite(error) => error.to_string(),
    }
}
