//! Reading: whether others have committed, and what hangs on the few rows that somebody asks for.

use rusqlite::{Connection, OptionalExtension};

use super::failure::Failure;
use super::record::{self, Counter, Encoder, Reading};
use super::{Disk, open};
use crate::base::{Content, EdgeKind, Error, MemoryId, Micros, Result, Row};

/// An entry of a memory's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The commit that wrote it.
    pub commit: u64,
    /// When.
    pub at: Micros,
    /// What happened.
    pub kind: String,
    /// Who did it.
    pub actor: String,
    /// More about it, JSON.
    pub detail: Option<String>,
}

/// One memory points at another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Edge {
    /// The one that points.
    pub newer: Row,
    /// The one pointed at.
    pub older: Row,
    /// Why.
    pub kind: EdgeKind,
    /// The commit that wrote it.
    pub commit: u64,
}

/// The connection that looks whether others have committed.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    pub(super) connection: Option<Connection>,
    /// SQLite's own number of the state last looked at, and the commit it had.
    seen: Option<(i64, u64)>,
}

impl Disk {
    /// Whether anybody has committed since. Cheap enough for every call.
    pub fn changed(&self, known_commit: u64) -> Result<bool> {
        Ok(self.last_commit()? != known_commit)
    }

    /// The number of the last commit.
    pub fn last_commit(&self) -> Result<u64> {
        self.check_open()?;
        let mut watcher = self.watcher.lock();
        if watcher.connection.is_none()
            && !self.is_poisoned()
            && let Some(place) = &self.place
        {
            watcher.connection = open::reader(place, &self.options).ok();
        }
        let Watcher { connection, seen } = &mut *watcher;
        let Some(connection) = connection else {
            return self.with_reader("read the counters", |connection| Ok(counter(connection)?.commit));
        };
        let mut look = || -> Result<u64, Failure> {
            let version =
                connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get::<_, i64>(0))?;
            if let Some((known, commit)) = *seen
                && known == version
            {
                return Ok(commit);
            }
            // A commit that falls between the two reads is counted here and seen as a new version next time.
            let commit = counter(connection)?.commit;
            *seen = Some((version, commit));
            Ok(commit)
        };
        look().map_err(|failure| failure.reading("read the counters", &self.shown_path(), self.options.busy_timeout_ms))
    }

    /// The contents of these rows, in their order, verified.
    pub fn contents(&self, rows: &[Row]) -> Result<Vec<Content>> {
        self.with_view("read texts", |view| {
            let mut statement = view.prepare_cached(
                "SELECT memory.id, content_checksum, text, metadata, private FROM memory \
                 LEFT JOIN content ON content.row = memory.row WHERE memory.row = ?1",
            )?;
            rows.iter()
                .map(|row| {
                    let read = |found: &rusqlite::Row<'_>| {
                        verified(*row, found, |id| {
                            record::read_content(found, 2, id, record::integer(found, 1, "content_checksum")?)
                        })
                    };
                    one(statement.query_row([row.0], |found| Ok(read(found))), *row)
                })
                .collect()
        })
    }

    /// The vectors of these rows, in their order, as the bits of f16 numbers, verified; `None` where a memory has none
    /// of the current model.
    pub fn vectors(&self, rows: &[Row]) -> Result<Vec<Option<Vec<u16>>>> {
        self.with_view("read vectors", |view| {
            let current = counter(view)?.model;
            let mut statement = view.prepare_cached(
                "SELECT memory.id, model, halves, vector_checksum FROM memory \
                 LEFT JOIN vector ON vector.row = memory.row WHERE memory.row = ?1",
            )?;
            rows.iter()
                .map(|row| {
                    let read = |found: &rusqlite::Row<'_>| {
                        verified(*row, found, |id| {
                            let mut halves = Vec::new();
                            let model = record::read_vector(found, 1, id, &mut halves)?;
                            Ok((model == Some(current)).then_some(halves))
                        })
                    };
                    one(statement.query_row([row.0], |found| Ok(read(found))), *row)
                })
                .collect()
        })
    }

    /// The history of a memory, oldest first, verified.
    pub fn events(&self, id: MemoryId) -> Result<Vec<Event>> {
        self.with_view("read the history", |view| {
            let row: Option<u32> = view
                .prepare_cached("SELECT row FROM memory WHERE id = ?1")?
                .query_row([id.to_bytes()], |row| row.get(0))
                .optional()?;
            let row = row.ok_or_else(|| Error::not_found(id))?;
            let mut statement = view.prepare_cached(EVENTS_OF_ROW)?;
            let mut found = statement.query([row])?;
            let mut events = Vec::new();
            let mut encoder = Encoder::default();
            while let Some(entry) = found.next()? {
                let (.., event) = read_event(entry, &mut encoder)
                    .and_then(|found| follows(found.1, events.len()).map(|()| found))
                    .map_err(|message| Error::Corrupt { what: format!("the history of memory {id}"), message })?;
                events.push(event);
            }
            Ok(events)
        })
    }

    /// The edges that start or end at one of these rows, each once, by newer and older row.
    pub fn edges(&self, rows: &[Row]) -> Result<Vec<Edge>> {
        self.with_view("read edges", |view| {
            let mut encoder = Encoder::default();
            let mut edges = Vec::new();
            for end in ["newer", "older"] {
                let sql = format!("SELECT newer, older, kind, commit_number, checksum FROM edge WHERE {end} = ?1");
                let mut statement = view.prepare_cached(&sql)?;
                for row in rows {
                    let mut found = statement.query([row.0])?;
                    while let Some(entry) = found.next()? {
                        edges.push(read_edge(entry, &mut encoder).map_err(|message| Error::Corrupt {
                            what: format!("an edge of the memory in row {}", row.0),
                            message,
                        })?);
                    }
                }
            }
            edges.sort_unstable_by_key(|edge| (edge.newer, edge.older, edge.kind as u8));
            edges.dedup();
            Ok(edges)
        })
    }

    /// The row of the memory with this id.
    pub fn find(&self, id: MemoryId) -> Result<Option<Row>> {
        self.with_reader("look for a memory", |connection| {
            let mut statement = connection.prepare_cached("SELECT row FROM memory WHERE id = ?1")?;
            Ok(statement.query_row([id.to_bytes()], |row| row.get(0).map(Row)).optional()?)
        })
    }

    /// The settings whose key begins like this, by key, verified.
    pub fn metas(&self, prefix: &str) -> Result<Vec<(String, String)>> {
        self.with_reader("read settings", |connection| {
            let view = connection.transaction()?;
            let mut statement = view.prepare_cached("SELECT key FROM meta WHERE substr(key, 1, length(?1)) = ?1")?;
            let keys = statement.query_map([prefix], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
            let value = |key: String| Ok(meta(&view, &key)?.map(|value| (key, value)));
            keys.into_iter().filter_map(|key| value(key).transpose()).collect()
        })
    }

    /// When a memory's history was last written to, for each of these rows.
    pub fn last_events(&self, rows: &[Row]) -> Result<Vec<Option<Micros>>> {
        self.with_reader("read the history", |connection| {
            let view = connection.transaction()?;
            let mut statement = view.prepare_cached("SELECT max(at) FROM event WHERE row = ?1")?;
            let at = |row: &Row| statement.query_row([row.0], |found| found.get::<_, Option<i64>>(0));
            Ok(rows
                .iter()
                .map(at)
                .collect::<rusqlite::Result<Vec<_>>>()?
                .into_iter()
                .map(|at| at.map(Micros))
                .collect())
        })
    }

    /// A setting of the store.
    pub fn meta(&self, key: &str) -> Result<Option<String>> {
        self.with_reader("read a setting", |connection| meta(connection, key))
    }
}

pub(super) const EVENTS_OF_ROW: &str =
    "SELECT row, number, commit_number, at, kind, actor, detail, checksum FROM event WHERE row = ?1 ORDER BY number";

pub(super) fn read_event(entry: &rusqlite::Row<'_>, encoder: &mut Encoder) -> Reading<(Row, u32, Event)> {
    let (row, number) = (Row(record::unsigned(entry, 0, "row")?), record::unsigned(entry, 1, "number")?);
    let (commit, at) = (record::unsigned(entry, 2, "commit_number")?, Micros(record::integer(entry, 3, "at")?));
    let (kind, actor) = (record::text(entry, 4, "kind")?, record::text(entry, 5, "actor")?);
    let detail = record::optional_text(entry, 6, "detail")?;
    let checksum = encoder.event(row, number, commit, at, [Some(kind), Some(actor), detail]);
    record::matches(checksum, record::integer(entry, 7, "checksum")?, "an entry")?;
    let (kind, actor, detail) = (kind.to_owned(), actor.to_owned(), detail.map(str::to_owned));
    Ok((row, number, Event { commit, at, kind, actor, detail }))
}

/// Fails when an entry of a history is not the next one, so that some before it are lost.
pub(super) fn follows(number: u32, expected: usize) -> Reading<()> {
    if number as usize == expected { Ok(()) } else { Err(format!("entry {expected} is missing")) }
}

pub(super) fn read_edge(entry: &rusqlite::Row<'_>, encoder: &mut Encoder) -> Reading<Edge> {
    let (newer, older) = (Row(record::unsigned(entry, 0, "newer")?), Row(record::unsigned(entry, 1, "older")?));
    let kind = match record::integer(entry, 2, "kind")? {
        0 => EdgeKind::DerivedFrom,
        1 => EdgeKind::Supersedes,
        other => return Err(format!("kind holds {other}")),
    };
    let commit = record::unsigned(entry, 3, "commit_number")?;
    let checksum = encoder.edge(newer, older, kind as u8, commit);
    record::matches(checksum, record::integer(entry, 4, "checksum")?, "the edge")?;
    Ok(Edge { newer, older, kind, commit })
}

pub(super) fn meta(connection: &Connection, key: &str) -> Result<Option<String>, Failure> {
    let mut statement = connection.prepare_cached("SELECT value, checksum FROM meta WHERE key = ?1")?;
    let read = |row: &rusqlite::Row<'_>| -> Reading<String> {
        let value = record::text(row, 0, "value")?;
        record::matches(Encoder::default().meta(key, value), record::integer(row, 1, "checksum")?, "the setting")?;
        Ok(value.to_owned())
    };
    let found = statement.query_row([key], |row| Ok(read(row))).optional()?.transpose();
    Ok(found.map_err(|message| Error::Corrupt { what: format!("the setting {key:?}"), message })?)
}

pub(super) fn counter(connection: &Connection) -> Result<Counter, Failure> {
    let mut statement = connection.prepare_cached(Counter::SELECT)?;
    let found = statement.query_row([], |row| Ok(Counter::read(row))).optional()?;
    let found = found.unwrap_or_else(|| Err("the counters are missing".to_owned()));
    Ok(found.map_err(|message| Error::Corrupt { what: super::FILE_NAME.to_owned(), message })?)
}

/// Reads what hangs on a memory whose id is in column 0.
fn verified<T>(row: Row, found: &rusqlite::Row<'_>, read: impl FnOnce(MemoryId) -> Reading<T>) -> Result<T> {
    let corrupt = |what: String, message: String| Error::Corrupt { what, message };
    let id = record::id(found, 0).map_err(|message| corrupt(format!("the memory in row {}", row.0), message))?;
    read(id).map_err(|message| corrupt(format!("memory {id}"), message))
}

/// Tells a row that is not there from one that cannot be read.
fn one<T>(found: rusqlite::Result<Result<T>>, row: Row) -> Result<T, Failure> {
    match found {
        Ok(result) => Ok(result?),
        Err(rusqlite::Error::QueryReturnedNoRows) => {
            Err(Failure::Told(Error::NotFound { id: format!("(row {})", row.0) }))
        }
        Err(error) => Err(error.into()),
    }
}
