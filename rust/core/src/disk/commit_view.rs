//! The store at one commit, read part by part for as long as somebody holds the view, while writers go on.
//!
//! Everything that hangs on a memory is told by the memory's id, so that it can be read in without its rows. A row that
//! is not what was written ends a reading as [`Error::Corrupt`], by name: nothing damaged is handed on.

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::failure::Failure;
use super::load::{Scan, select};
use super::read::{counter, follows, meta, read_edge, read_event};
use super::record::{self, Encoder};
use super::{Disk, Event, Parts, StoredRow, open};
use crate::base::{EdgeKind, Error, MemoryId, Result, Row};

/// A look at the store that stays the same until it is dropped. The log is not emptied meanwhile.
#[derive(Debug)]
pub struct CommitView {
    connection: Connection,
    path: String,
    busy_timeout_ms: u64,
    commit: u64,
    memories: u32,
}

impl Disk {
    /// Opens a view of the last commit. A store in RAM has one connection, so its pages are copied first.
    pub fn commit_view(&self) -> Result<CommitView> {
        self.check_open()?;
        let (path, busy_timeout_ms) = (self.shown_path(), self.options.busy_timeout_ms);
        let opened = || -> Result<CommitView, Failure> {
            let connection = match &self.place {
                Some(place) => open::reader(place, &self.options)?,
                None => self.copy_in_memory()?,
            };
            connection.execute_batch("BEGIN")?;
            // SQLite's transaction starts with the first read.
            let counter = counter(&connection)?;
            let (commit, memories) = (counter.commit, counter.rows);
            Ok(CommitView { connection, path: path.clone(), busy_timeout_ms, commit, memories })
        };
        opened().map_err(|failure| failure.reading("open a view of the store", &path, busy_timeout_ms))
    }

    fn copy_in_memory(&self) -> Result<Connection, Failure> {
        let mut writer = self.writer.lock();
        self.settle(&mut writer);
        let source = writer.connection.as_ref().ok_or(Error::Closed)?;
        let mut copy = Connection::open_in_memory()?;
        if Backup::new(source, &mut copy)?.step(-1)? != StepResult::Done {
            return Err(Failure::Told(Error::Locked { path: self.shown_path(), waited_ms: 0 }));
        }
        Ok(copy)
    }
}

impl CommitView {
    /// The commit it shows.
    pub fn commit(&self) -> u64 {
        self.commit
    }

    /// How many memories there are, in any state.
    pub fn memories(&self) -> usize {
        self.memories as usize
    }

    /// A setting of the store.
    pub fn meta(&self, key: &str) -> Result<Option<String>> {
        self.told("read a setting", meta(&self.connection, key))
    }

    /// Hands out the memories behind `after`, by ascending row, until `each` answers `false` or there are no more.
    pub fn memories_after(
        &self,
        after: Option<Row>,
        parts: Parts,
        each: &mut dyn FnMut(StoredRow<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut read = || -> Result<(), Failure> {
            let mut scan = Scan::new(&self.connection, parts)?;
            let mut statement =
                self.connection.prepare_cached(&select(parts, "WHERE memory.row > ?1 ORDER BY memory.row"))?;
            let mut rows = statement.query([after.map_or(-1, |row| i64::from(row.0))])?;
            let mut more = true;
            while more && let Some(row) = rows.next()? {
                scan.take(row, &mut |stored| {
                    more = each(stored)?;
                    Ok(())
                })?;
                if let Some(damaged) = scan.loaded.damaged.pop() {
                    let what = damaged.id.map_or_else(|| format!("the memory in row {}", damaged.row.0), named);
                    return Err(Failure::Told(Error::Corrupt { what, message: damaged.message }));
                }
            }
            Ok(())
        };
        self.told("read memories", read())
    }

    /// Hands out the entries of all histories behind `after` (row and number), those of one memory together and in
    /// their order, until `each` answers `false` or there are no more.
    pub fn events_after(
        &self,
        after: Option<(Row, u32)>,
        each: &mut dyn FnMut(Row, u32, MemoryId, Event) -> Result<bool>,
    ) -> Result<()> {
        let mut read = || -> Result<(), Failure> {
            let mut statement = self.connection.prepare_cached(
                "SELECT event.row, number, event.commit_number, at, kind, actor, detail, checksum, memory.id \
                 FROM event JOIN memory ON memory.row = event.row \
                 WHERE (event.row, number) > (?1, ?2) ORDER BY event.row, number",
            )?;
            let mut last = after;
            let (row, number) = after.map_or((-1, -1), |(row, number)| (i64::from(row.0), i64::from(number)));
            let mut found = statement.query((row, number))?;
            let mut encoder = Encoder::default();
            while let Some(entry) = found.next()? {
                let read = read_event(entry, &mut encoder).and_then(|(row, number, event)| {
                    let expected = last.filter(|last| last.0 == row).map_or(0, |last| last.1 as usize + 1);
                    follows(number, expected)?;
                    Ok((row, number, record::id(entry, 8)?, event))
                });
                let (row, number, id, event) = read.map_err(|message| corrupt("a history", message))?;
                last = Some((row, number));
                if !each(row, number, id, event)? {
                    break;
                }
            }
            Ok(())
        };
        self.told("read histories", read())
    }

    /// Hands out the edges behind `after` (newer and older row, kind), until `each` answers `false` or there are no
    /// more. Of an edge, the newer memory comes first.
    pub fn edges_after(
        &self,
        after: Option<(Row, Row, EdgeKind)>,
        each: &mut dyn FnMut((Row, Row, EdgeKind), [MemoryId; 2]) -> Result<bool>,
    ) -> Result<()> {
        let mut read = || -> Result<(), Failure> {
            let mut statement = self.connection.prepare_cached(
                "SELECT edge.newer, edge.older, edge.kind, edge.commit_number, edge.checksum, newer.id, older.id \
                 FROM edge JOIN memory AS newer ON newer.row = edge.newer JOIN memory AS older ON older.row = edge.older \
                 WHERE (edge.newer, edge.older, edge.kind) > (?1, ?2, ?3) \
                 ORDER BY edge.newer, edge.older, edge.kind",
            )?;
            let after = after.map_or((-1, -1, -1), |(newer, older, kind)| {
                (i64::from(newer.0), i64::from(older.0), i64::from(kind as u8))
            });
            let mut found = statement.query(after)?;
            let mut encoder = Encoder::default();
            while let Some(entry) = found.next()? {
                let read = read_edge(entry, &mut encoder)
                    .and_then(|edge| Ok((edge, [record::id(entry, 5)?, record::id(entry, 6)?])));
                let (edge, ids) = read.map_err(|message| corrupt("an edge", message))?;
                if !each((edge.newer, edge.older, edge.kind), ids)? {
                    break;
                }
            }
            Ok(())
        };
        self.told("read edges", read())
    }

    /// Hands out the idempotency keys behind `after`, each with the memory that was written under it, until `each`
    /// answers `false` or there are no more.
    pub fn keys_after(&self, after: Option<&str>, each: &mut dyn FnMut(&str, MemoryId) -> Result<bool>) -> Result<()> {
        let mut read = || -> Result<(), Failure> {
            let mut statement = self.connection.prepare_cached(
                "SELECT key, idempotency.row, checksum, memory.id FROM idempotency \
                 JOIN memory ON memory.row = idempotency.row WHERE key > ?1 ORDER BY key",
            )?;
            let mut found = statement.query([after.unwrap_or_default()])?;
            let mut encoder = Encoder::default();
            while let Some(entry) = found.next()? {
                let mut read = || -> record::Reading<(&str, MemoryId)> {
                    let (key, row) = (record::text(entry, 0, "key")?, Row(record::unsigned(entry, 1, "row")?));
                    let computed = encoder.idempotency(key, row);
                    record::matches(computed, record::integer(entry, 2, "checksum")?, "it")?;
                    Ok((key, record::id(entry, 3)?))
                };
                let (key, id) = read().map_err(|message| corrupt("an idempotency key", message))?;
                if !each(key, id)? {
                    break;
                }
            }
            Ok(())
        };
        self.told("read idempotency keys", read())
    }

    fn told<T>(&self, operation: &str, result: Result<T, Failure>) -> Result<T> {
        result.map_err(|failure| failure.reading(operation, &self.path, self.busy_timeout_ms))
    }
}

fn named(id: MemoryId) -> String {
    format!("memory {id}")
}

fn corrupt(what: &str, message: String) -> Failure {
    Failure::Told(Error::Corrupt { what: what.to_owned(), message })
}
