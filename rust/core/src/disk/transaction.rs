//! What can be done inside a write.

use std::sync::LazyLock;

use rusqlite::{CachedStatement, Connection, ErrorCode, OptionalExtension};

use super::Disk;
use super::failure::{Blame, WriteFailure};
use super::record::{self, Counter, Encoder, HEAD_COLUMNS, Reading};
use crate::base::{Content, EdgeKind, Error, Head, MemoryId, Micros, Result, Row, limits};

/// An open write. Everything in it becomes durable together, or nothing does.
#[derive(Debug)]
pub struct Transaction<'disk> {
    disk: &'disk Disk,
    connection: &'disk Connection,
    encoder: &'disk mut Encoder,
    /// As it will be after this commit.
    counter: Counter,
    now: Micros,
    /// Rows written, of any table.
    touched: usize,
    bytes: Vec<u8>,
    /// A fault after which the transaction must not be committed, even if the caller's closure lets it pass.
    failure: Option<WriteFailure>,
}

const INSERT_MEMORY: &str = "INSERT INTO memory VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, \
     ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)";

/// The id stays out of the list: a column that is named has its index written anew.
const UPDATE_MEMORY: &str = "UPDATE memory SET commit_number = ?3, state = ?4, tier = ?5, source = ?6, pinned = ?7, \
     importance = ?8, trust = ?9, half_life = ?10, created_at = ?11, last_used_at = ?12, expires_at = ?13, \
     use_count = ?14, spaced_uses = ?15, repeat_count = ?16, version = ?17, text_key = ?18, session = ?19, about = ?20, tags = ?21, \
     labels = ?22, head_checksum = ?23 WHERE row = ?1 AND id = ?2";

static SELECT_HEAD: LazyLock<String> = LazyLock::new(|| format!("SELECT {HEAD_COLUMNS} FROM memory WHERE row = ?1"));

impl<'disk> Transaction<'disk> {
    pub(super) fn new(
        disk: &'disk Disk,
        connection: &'disk Connection,
        encoder: &'disk mut Encoder,
        counter: Counter,
        now: Micros,
    ) -> Self {
        Self { disk, connection, encoder, counter, now, touched: 0, bytes: Vec::new(), failure: None }
    }

    pub(super) fn end(self) -> (Counter, usize, Option<WriteFailure>) {
        (self.counter, self.touched, self.failure)
    }

    /// The number of this commit.
    pub fn commit_number(&self) -> u64 {
        self.counter.commit
    }

    /// Whether nothing was written so far; then there will be no commit of this number.
    pub fn is_empty(&self) -> bool {
        self.touched == 0
    }

    /// The last commit that erased rows; this one, when it does.
    pub fn erased_at(&self) -> u64 {
        self.counter.erased_at
    }

    /// The row that the next [`Transaction::insert`] gives.
    pub fn next_row(&self) -> Row {
        Row(self.counter.next_row)
    }

    /// The time of this write.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// The generation of the model whose vectors are written now; see [`Transaction::set_model`].
    pub fn model(&self) -> u32 {
        self.counter.model
    }

    /// Writes a new memory, and its vector as the bits of f16 numbers.
    ///
    /// Refuses an id that is there already and NaN. Zero loses its sign.
    pub fn insert(&mut self, head: &Head, content: &Content, vector: Option<&[u16]>) -> Result<Row> {
        record::check_head(head)?;
        if let Some(vector) = vector
            && vector.len() > limits::DIMENSIONS
        {
            return Err(Error::limit("dimensions", vector.len(), limits::DIMENSIONS));
        }
        if self.counter.next_row as usize >= limits::ROWS {
            return Err(Error::limit("rows", self.counter.next_row as usize + 1, limits::ROWS));
        }
        let row = Row(self.counter.next_row);
        let commit = self.counter.commit;
        let head_checksum = self.encoder.head(row, commit, head);
        let Content { text, metadata, private } = content;
        let (metadata, private) = (metadata.as_deref(), private.as_deref());
        let content_checksum = record::content_checksum(head.id, text, metadata, private);
        let vector_checksum = vector.map(|vector| self.encode_vector(head.id, vector));

        let written = self.connection.prepare_cached(INSERT_MEMORY).and_then(|mut statement| {
            record::bind_head(&mut statement, row, commit, head, head_checksum)?;
            statement.raw_bind_parameter(24, content_checksum)?;
            statement.raw_bind_parameter(25, vector_checksum)?;
            statement.raw_execute()
        });
        if let Err(error) = &written
            && error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
        {
            return Err(Error::invalid("id", format!("{} is already in the store", head.id)));
        }
        self.done("store a memory", written)?;
        self.run("store a text", "INSERT INTO content VALUES (?1, ?2, ?3, ?4)", |statement| {
            statement.execute((row.0, text, metadata, private))
        })?;
        if vector.is_some() {
            self.write_vector(row)?;
        }
        self.counter.next_row += 1;
        self.counter.rows += 1;
        Ok(row)
    }

    /// Writes a memory's head anew. The id must be the one that lies there.
    pub fn update(&mut self, row: Row, head: &Head) -> Result<()> {
        record::check_head(head)?;
        let commit = self.counter.commit;
        let checksum = self.encoder.head(row, commit, head);
        let changed = self.run("store a change", UPDATE_MEMORY, |statement| {
            record::bind_head(statement, row, commit, head, checksum)?;
            statement.raw_execute()
        })?;
        if changed == 0 { Err(Error::not_found(head.id)) } else { Ok(()) }
    }

    /// Writes a memory's texts anew, and stamps its head with this commit.
    pub fn set_content(&mut self, row: Row, content: &Content) -> Result<()> {
        let head = self.present(row)?;
        let Content { text, metadata, private } = content;
        let (metadata, private) = (metadata.as_deref(), private.as_deref());
        let checksum = record::content_checksum(head.id, text, metadata, private);
        let sql = "INSERT OR REPLACE INTO content VALUES (?1, ?2, ?3, ?4)";
        self.run("store a text", sql, |statement| statement.execute((row.0, text, metadata, private)))?;
        self.run("store a text", "UPDATE memory SET content_checksum = ?2 WHERE row = ?1", |statement| {
            statement.execute((row.0, checksum))
        })?;
        self.update(row, &head)
    }

    /// Writes a memory's vector anew, or takes it away, and stamps its head with this commit.
    pub fn set_vector(&mut self, row: Row, vector: Option<&[u16]>) -> Result<()> {
        if let Some(vector) = vector
            && vector.len() > limits::DIMENSIONS
        {
            return Err(Error::limit("dimensions", vector.len(), limits::DIMENSIONS));
        }
        let head = self.present(row)?;
        let checksum = vector.map(|vector| self.encode_vector(head.id, vector));
        match vector {
            Some(_) => self.write_vector(row)?,
            None => {
                self.run("drop a vector", "DELETE FROM vector WHERE row = ?1", |statement| statement.execute([row.0]))?;
            }
        }
        self.run("store a vector", "UPDATE memory SET vector_checksum = ?2 WHERE row = ?1", |statement| {
            statement.execute((row.0, checksum))
        })?;
        self.update(row, &head)
    }

    /// Says that vectors come from another model from now on. Those of earlier generations stay, but are no longer
    /// handed out, so that a store whose vectors are being made anew never mixes two models.
    pub fn set_model(&mut self, generation: u32) {
        self.counter.model = generation;
        self.touched += 1;
    }

    /// The head that lies in a row, verified.
    pub fn head(&mut self, row: Row) -> Result<Option<Head>> {
        let found = self.connection.prepare_cached(&SELECT_HEAD).and_then(|mut statement| {
            statement.query_row([row.0], |found| Ok(record::read_head(found, self.encoder))).optional()
        });
        match self.done("read a memory", found)? {
            None => Ok(None),
            Some(Ok((_, _, head))) => Ok(Some(head)),
            Some(Err(message)) => Err(Error::Corrupt { what: format!("the memory in row {}", row.0), message }),
        }
    }

    /// The content that lies in a row, verified.
    pub fn content(&mut self, row: Row) -> Result<Option<Content>> {
        let sql =
            "SELECT id, content_checksum, text, metadata, private FROM memory JOIN content USING (row) WHERE row = ?1";
        let found = self.run_reading("read a memory", sql, |statement| {
            let read = |found: &rusqlite::Row<'_>| -> Reading<Content> {
                let written = record::integer(found, 1, "content_checksum")?;
                record::read_content(found, 2, record::id(found, 0)?, written)
            };
            statement.query_row([row.0], |found| Ok(read(found))).optional()
        })?;
        let corrupt = |message| Error::Corrupt { what: format!("the memory in row {}", row.0), message };
        found.transpose().map_err(corrupt)
    }

    /// The row of the memory with this id.
    pub fn find(&mut self, id: MemoryId) -> Result<Option<Row>> {
        self.row_of("SELECT row FROM memory WHERE id = ?1", id.to_bytes())
    }

    /// Says that `newer` points at `older`. Saying it again changes nothing.
    pub fn edge(&mut self, newer: Row, older: Row, kind: EdgeKind) -> Result<()> {
        let (number, commit) = (kind as u8, self.counter.commit);
        let checksum = self.encoder.edge(newer, older, number, commit);
        let sql = "INSERT INTO edge VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
        self.run("edge", sql, |statement| statement.execute((newer.0, older.0, number, commit as i64, checksum)))?;
        Ok(())
    }

    /// Writes into a memory's history what happened to it, now, by whom; `detail` is JSON.
    pub fn event(&mut self, row: Row, kind: &str, actor: &str, detail: Option<&str>) -> Result<()> {
        self.event_at(row, self.now, kind, actor, detail)
    }

    /// As [`Transaction::event`], for something that happened at another time: the entries of a history that is
    /// restored come in their order.
    pub fn event_at(&mut self, row: Row, at: Micros, kind: &str, actor: &str, detail: Option<&str>) -> Result<()> {
        let last = "SELECT max(number) FROM event WHERE row = ?1";
        let last = self.run_reading("read the history", last, |statement| {
            statement.query_row([row.0], |found| found.get::<_, Option<u32>>(0))
        })?;
        let number = last.map_or(0, |last| last + 1);
        let commit = self.counter.commit;
        let checksum = self.encoder.event(row, number, commit, at, [Some(kind), Some(actor), detail]);
        self.run("event", "INSERT INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)", |statement| {
            statement.execute((row.0, number, commit as i64, at.0, kind, actor, detail, checksum))
        })?;
        Ok(())
    }

    /// The memory that was written under an idempotency key.
    pub fn idempotency(&mut self, key: &str) -> Result<Option<MemoryId>> {
        let sql = "SELECT row, checksum FROM idempotency WHERE key = ?1";
        let found = self.run_reading("read an idempotency key", sql, |statement| {
            let read = |found: &rusqlite::Row<'_>| -> Reading<(u32, i64)> {
                Ok((record::unsigned(found, 0, "row")?, record::integer(found, 1, "checksum")?))
            };
            statement.query_row([key], |found| Ok(read(found))).optional()
        })?;
        let corrupt = |message| Error::Corrupt { what: format!("the idempotency key {key:?}"), message };
        let Some((row, written)) = found.transpose().map_err(corrupt)? else { return Ok(None) };
        record::matches(self.encoder.idempotency(key, Row(row)), written, "the key").map_err(corrupt)?;
        Ok(self.head(Row(row))?.map(|head| head.id))
    }

    /// Remembers under a key which memory was written, so that a retry finds it.
    pub fn remember_idempotency(&mut self, key: &str, id: MemoryId) -> Result<()> {
        let row = self.find(id)?.ok_or_else(|| Error::not_found(id))?;
        let checksum = self.encoder.idempotency(key, row);
        let sql = "INSERT OR REPLACE INTO idempotency VALUES (?1, ?2, ?3)";
        self.run("idempotency_key", sql, |statement| statement.execute((key, row.0, checksum)))?;
        Ok(())
    }

    /// Keeps, under a token, what a memory was before a change (JSON of the caller).
    pub fn keep_undo(&mut self, token: &str, row: Row, before: &str) -> Result<()> {
        let checksum = self.encoder.undo(token, row, before);
        let sql = "INSERT OR REPLACE INTO undo VALUES (?1, ?2, ?3, ?4)";
        self.run("undo", sql, |statement| statement.execute((token, row.0, before, checksum)))?;
        Ok(())
    }

    /// Takes out what was kept under a token, by ascending row.
    pub fn take_undo(&mut self, token: &str) -> Result<Vec<(Row, String)>> {
        let sql = "SELECT row, before, checksum FROM undo WHERE token = ?1 ORDER BY row";
        let found = self.connection.prepare_cached(sql).and_then(|mut statement| {
            let encoder = &mut *self.encoder;
            let read = |found: &rusqlite::Row<'_>| -> Reading<(Row, String)> {
                let (row, before) = (Row(record::unsigned(found, 0, "row")?), record::text(found, 1, "before")?);
                record::matches(encoder.undo(token, row, before), record::integer(found, 2, "checksum")?, "it")?;
                Ok((row, before.to_owned()))
            };
            let mut read = read;
            statement.query_map([token], |found| Ok(read(found)))?.collect::<rusqlite::Result<Vec<_>>>()
        });
        let kept: Reading<Vec<_>> = self.done("read what can be undone", found)?.into_iter().collect();
        let kept = kept.map_err(|message| Error::Corrupt { what: format!("what {token:?} would undo"), message })?;
        self.drop_undo(Some(token))?;
        Ok(kept)
    }

    /// Drops what was kept under a token, or everything that could be undone.
    pub fn drop_undo(&mut self, token: Option<&str>) -> Result<()> {
        let operation = "drop what could be undone";
        match token {
            Some(token) => {
                self.run(operation, "DELETE FROM undo WHERE token = ?1", |statement| statement.execute([token]))
            }
            None => self.run(operation, "DELETE FROM undo", |statement| statement.execute([])),
        }?;
        Ok(())
    }

    /// Sets a setting of the store.
    pub fn set_meta(&mut self, key: &str, value: &str) -> Result<()> {
        let checksum = self.encoder.meta(key, value);
        let sql = "INSERT OR REPLACE INTO meta VALUES (?1, ?2, ?3)";
        self.run("store a setting", sql, |statement| statement.execute((key, value, checksum)))?;
        Ok(())
    }

    /// A setting of the store.
    pub fn meta(&mut self, key: &str) -> Result<Option<String>> {
        let found = super::read::meta(self.connection, key);
        let found = match found {
            Ok(found) => Ok(found),
            Err(super::failure::Failure::Told(error)) => return Err(error),
            Err(super::failure::Failure::Sqlite(error)) => Err(error),
        };
        self.done("read a setting", found)
    }

    /// Takes a memory out of every table, its freed bytes zeroed. The row is not given again. `false` when it is not
    /// there. Older states of the pages stay in the WAL until [`Disk::empty_log`].
    pub fn erase(&mut self, row: Row) -> Result<bool> {
        let gone =
            self.run("erase a memory", "DELETE FROM memory WHERE row = ?1", |statement| statement.execute([row.0]))?;
        if gone == 0 {
            return Ok(false);
        }
        self.erased_rows(Some(1));
        Ok(true)
    }

    /// Counts rows that were taken out, `None` for all; other handles then load anew.
    pub(super) fn erased_rows(&mut self, rows: Option<u32>) {
        self.counter.rows = rows.map_or(0, |rows| self.counter.rows.saturating_sub(rows));
        self.counter.erased_at = self.counter.commit;
    }

    fn present(&mut self, row: Row) -> Result<Head> {
        self.head(row)?.ok_or_else(|| Error::NotFound { id: format!("(row {})", row.0) })
    }

    /// Puts the vector's bytes where [`Self::write_vector`] takes them, and gives their checksum.
    fn encode_vector(&mut self, id: MemoryId, vector: &[u16]) -> i64 {
        self.bytes.clear();
        self.bytes.extend(vector.iter().flat_map(|half| half.to_le_bytes()));
        record::vector_checksum(id, self.counter.model, &self.bytes)
    }

    fn write_vector(&mut self, row: Row) -> Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        let model = self.counter.model;
        let written = self.run("store a vector", "INSERT OR REPLACE INTO vector VALUES (?1, ?2, ?3)", |statement| {
            statement.execute((row.0, model, &bytes[..]))
        });
        self.bytes = bytes;
        written.map(|_| ())
    }

    fn row_of(&mut self, sql: &str, key: [u8; 16]) -> Result<Option<Row>> {
        self.run_reading("look for a memory", sql, |statement| {
            statement.query_row([key], |found| found.get(0).map(Row)).optional()
        })
    }

    pub(super) fn run(
        &mut self,
        operation: &str,
        sql: &str,
        execute: impl FnOnce(&mut CachedStatement<'_>) -> rusqlite::Result<usize>,
    ) -> Result<usize> {
        let result = self.connection.prepare_cached(sql).and_then(|mut statement| execute(&mut statement));
        let changed = self.done(operation, result)?;
        self.touched += changed;
        Ok(changed)
    }

    fn run_reading<T>(
        &mut self,
        operation: &str,
        sql: &str,
        query: impl FnOnce(&mut CachedStatement<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let result = self.connection.prepare_cached(sql).and_then(|mut statement| query(&mut statement));
        self.done(operation, result)
    }

    fn done<T>(&mut self, operation: &str, result: rusqlite::Result<T>) -> Result<T> {
        result.map_err(|error| {
            let failure = self.disk.write_failure(operation, &error);
            let told = failure.error.clone();
            if failure.blame != Blame::Caller {
                self.failure.get_or_insert(failure);
            }
            told
        })
    }
}
