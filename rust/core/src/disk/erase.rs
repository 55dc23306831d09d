//! Erasure as the disk sees it: what a memory leaves in which table, what the living hold of the same, and the file
//! written anew without anything else.

use rusqlite::types::ValueRef;

use super::failure::Failure;
use super::transaction::Transaction;
use super::{Disk, scan};
use crate::base::{Error, Result, Row};

/// What kind of value a memory left on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// Its 16 bytes of id.
    Id,
    /// A text: what it says, JSON, a name, an entry of its history, a key.
    Text,
    /// Its vector, f16 numbers, little-endian.
    Vector,
}

/// The columns that can hold something of one memory, by the table's own column that names its row.
const TRACES: [(&str, &str); 6] = [
    ("SELECT id, session, about, tags, labels FROM memory", "row"),
    ("SELECT text, metadata, private FROM content", "row"),
    ("SELECT halves FROM vector", "row"),
    ("SELECT detail FROM event", "row"),
    ("SELECT before FROM undo", "row"),
    ("SELECT key FROM idempotency", "row"),
];

/// What belongs to no memory but lies in the same file.
const OTHERS: [&str; 2] = ["SELECT key, value FROM meta", "SELECT sql FROM sqlite_schema"];

/// The table of vectors in [`TRACES`], and that of the ids.
const VECTOR: usize = 2;
const MEMORY: usize = 0;

impl Disk {
    /// Hands out what these memories have in any table, unverified: a damaged memory is erased like any other.
    pub fn traces(&self, rows: &[Row], each: &mut dyn FnMut(Trace, &[u8])) -> Result<()> {
        self.with_reader("read what is to be erased", |connection| {
            let view = connection.transaction()?;
            for (table, (select, key)) in TRACES.iter().enumerate() {
                let mut statement = view.prepare(&format!("{select} WHERE {key} = ?1"))?;
                for row in rows {
                    hand_out(&mut statement.query([row.0])?, table, each)?;
                }
            }
            Ok(())
        })
    }

    /// Hands out every value that the store holds for good reason, so that what is shared is not taken for a leftover.
    pub fn living_values(&self, each: &mut dyn FnMut(Trace, &[u8])) -> Result<()> {
        self.with_reader("read what lives", |connection| {
            let view = connection.transaction()?;
            let tables = TRACES.iter().map(|(select, _)| *select).chain(OTHERS);
            for (table, select) in tables.enumerate() {
                let mut statement = view.prepare(select)?;
                hand_out(&mut statement.query([])?, table, each)?;
            }
            Ok(())
        })
    }

    /// Writes the file anew with nothing in it but what lives, in rows as dense as they can be. It takes memory of the
    /// size of the file: SQLite's own temporary file would hold texts outside of the store.
    pub fn vacuum(&self) -> Result<()> {
        self.check_writable()?;
        let mut writer = self.writer.lock();
        self.settle(&mut writer);
        let connection = writer.connection.as_ref().ok_or(Error::Closed)?;
        connection.flush_prepared_statement_cache();
        connection.execute_batch("VACUUM").map_err(|error| self.failed("write the file anew", &error))
    }

    /// Removes the copies of the database that this library made on its way and needs no more; their names.
    pub fn remove_old_copies(&self) -> Result<Vec<String>> {
        let mut removed = Vec::new();
        let Some(directory) = self.directory() else { return Ok(removed) };
        for file in self.other_files()? {
            if scan::is_old_copy(&file) {
                let told = |error| super::failure::io(format!("remove {}", file.display()), &error);
                std::fs::remove_file(directory.join(&file)).map_err(told)?;
                removed.push(file.display().to_string());
            }
        }
        if !removed.is_empty() {
            let told = |error| super::failure::io("remove old copies".to_owned(), &error);
            super::open::sync_directory(directory).map_err(told)?;
        }
        Ok(removed)
    }
}

fn hand_out(rows: &mut rusqlite::Rows<'_>, table: usize, each: &mut dyn FnMut(Trace, &[u8])) -> Result<(), Failure> {
    while let Some(found) = rows.next()? {
        for column in 0..found.as_ref().column_count() {
            let kind = match (table, column) {
                (MEMORY, 0) => Trace::Id,
                (VECTOR, _) => Trace::Vector,
                _ => Trace::Text,
            };
            if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = found.get_ref(column)? {
                each(kind, bytes);
            }
        }
    }
    Ok(())
}

impl Transaction<'_> {
    /// Takes every memory out, readable or not, with all that hangs on them. How many there were.
    pub fn erase_all(&mut self) -> Result<usize> {
        for table in ["content", "vector", "edge", "event", "undo", "idempotency"] {
            self.run("erase the memories", &format!("DELETE FROM {table}"), |statement| statement.execute([]))?;
        }
        let gone = self.run("erase the memories", "DELETE FROM memory", |statement| statement.execute([]))?;
        self.erased_rows(None);
        Ok(gone)
    }

    /// Drops a setting of the store.
    pub fn drop_meta(&mut self, key: &str) -> Result<()> {
        self.run("drop a setting", "DELETE FROM meta WHERE key = ?1", |statement| statement.execute([key]))?;
        Ok(())
    }
}
