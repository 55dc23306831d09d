//! F2: the SQLite file, which is the truth.
//!
//! Owns `memory.db`: its schema, its transactions, its checksums, and the rule that nothing is acknowledged before it
//! is on disk. Calls [`crate::base`] and SQLite. Everything in RAM can be rebuilt from what [`Disk::load`] hands out.
//!
//! What it promises
//! * A [`Disk::write`] that returned `Ok` is found by every later open: after a power cut with [`Durability::Full`],
//!   after a kill with [`Durability::Normal`]. One that returned `Err` left the store as it was.
//! * What was written comes back bit for bit, or is named as damaged; each row carries a checksum (see `record`).
//! * After a failed write or sync the handle only reads.
//! * Rows start at 0, are dense, and are never given twice, not even after erasure.
//! * Any number of handles and processes may have the directory open; each sees the others' commits through
//!   [`Disk::changed`] and [`Disk::load_since`].
//!
//! What it asks: the closures given to its calls do not call the same [`Disk`] again (with [`Durability::Memory`] there
//! is one connection, and that would wait for itself), and no other SQLite library opens the file in this process.

mod backup;
mod commit_view;
mod derived;
mod erase;
mod failure;
mod load;
mod network;
mod open;
mod query;
mod read;
mod record;
mod repair;
mod scan;
mod schema;
mod transaction;
mod verify;
mod write;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use crate::base::{Error, MemoryId, Micros, Result, Row};

pub use backup::BackupReport;
pub use commit_view::CommitView;
pub use derived::{DERIVED_DIRECTORY, DerivedKind, DerivedLock, DerivedName, DerivedOrigin, DerivedWriter, Position};
pub use erase::Trace;
pub use load::{Loaded, Parts, StoredRow};
pub use open::sqlite_version;
pub use query::{Answer, SqlValue};
pub use read::{Edge, Event};
pub use repair::{Repaired, restore};
pub use scan::{Counts, Matcher, Needles, Scanned};
pub use schema::SCHEMA_VERSION;
pub use transaction::Transaction;
pub use verify::VerifyReport;
pub use write::{Arrival, Written};

/// The file inside a store's directory.
pub const FILE_NAME: &str = "memory.db";

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// A power cut: the commit is synced before the call returns.
    Full,
    /// A kill of the process; a power cut may take the last moments, never the file.
    Normal,
    /// Nothing: there is no file.
    Memory,
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Never writes, and refuses a store that is not there.
    pub read_only: bool,
    /// How long a call waits for another process before it gives up with [`Error::Locked`].
    pub busy_timeout_ms: u64,
    /// Opens a directory on a network file system too, where SQLite's locks may not hold.
    pub allow_network: bool,
    /// The time written into a store that is made now.
    pub now: Micros,
    /// The lasting id of a store that is made now.
    pub store_id: u128,
}

/// A memory that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// Where it lies.
    pub row: Row,
    /// Its id as far as it can be read; the id itself may be what is damaged.
    pub id: Option<MemoryId>,
    /// How the damage was seen.
    pub message: String,
}

/// An open store. Shared freely between threads: one connection writes, a few read.
#[derive(Debug)]
pub struct Disk {
    place: Option<Place>,
    options: DiskOptions,
    /// Threads on their way to `writer`. The last of them commits for all (see `write`).
    arriving: AtomicUsize,
    /// Attempts to begin a transaction, counted.
    begun: AtomicU64,
    writer: Mutex<write::Writer>,
    settled: Condvar,
    readers: Mutex<Vec<Connection>>,
    /// Read connections that are in use.
    lent: AtomicUsize,
    watcher: Mutex<read::Watcher>,
    /// Why the handle only reads, once it does.
    poison: OnceLock<String>,
    closed: AtomicBool,
}

/// Where a store lies.
#[derive(Debug, Clone)]
struct Place {
    /// Absolute and free of symbolic links.
    directory: PathBuf,
    /// `memory.db` in it.
    file: PathBuf,
    /// The file system takes no writes and there is no WAL: SQLite need not lock.
    immutable: bool,
}

/// How many idle read connections are kept.
const IDLE_READERS: usize = 8;

impl Disk {
    /// The store's directory; `None` when it lives in RAM.
    pub fn directory(&self) -> Option<&Path> {
        self.place.as_ref().map(|place| place.directory.as_path())
    }

    /// The store's file; `None` when it lives in RAM.
    pub fn path(&self) -> Option<&Path> {
        self.place.as_ref().map(|place| place.file.as_path())
    }

    /// How the store was opened.
    pub fn options(&self) -> &DiskOptions {
        &self.options
    }

    /// Whether a write failed, so that the handle only reads.
    pub fn is_poisoned(&self) -> bool {
        self.poison.get().is_some()
    }

    /// Whether [`Disk::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Bytes of the file, its WAL and its shared index; in RAM, bytes of SQLite's pages.
    pub fn size_bytes(&self) -> Result<u64> {
        let Some(place) = &self.place else {
            return self.with_reader("ask for the size", |connection| {
                let ask = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
                Ok((ask("page_count")? * ask("page_size")?) as u64)
            });
        };
        let mut total = 0;
        for suffix in ["", "-wal", "-shm"] {
            let mut name = place.file.clone().into_os_string();
            name.push(suffix);
            match std::fs::metadata(&name) {
                Ok(metadata) => total += metadata.len(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !suffix.is_empty() => {}
                Err(error) => return Err(failure::io(format!("ask for the size of {}", name.display()), &error)),
            }
        }
        Ok(total)
    }

    /// Writes the WAL into the file and closes. Calls after it answer [`Error::Closed`]; a second one does nothing.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        self.settle(&mut writer);
        self.readers.lock().clear();
        self.watcher.lock().connection = None;
        let Some(connection) = writer.connection.take() else { return Ok(()) };
        if self.place.is_none() {
            return Ok(());
        }
        // A reader elsewhere may keep pages of the WAL alive; then it stays, which loses nothing.
        let written = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        drop(connection);
        written.map_err(|error| failure::durability("write the log into the file", &error))
    }

    /// As [`Disk::with_reader`], in one view of the store that no writer changes.
    fn with_view<T>(
        &self,
        operation: &str,
        work: impl FnOnce(&Connection) -> Result<T, failure::Failure>,
    ) -> Result<T> {
        self.with_reader(operation, |connection| {
            let view = View::new(connection)?;
            work(view.0)
        })
    }

    /// Lets go of the files without writing, in a process that a fork made: the locks are those of the parent. The handle
    /// is closed then. Refused when the fork fell into the middle of a call, whose connection cannot be closed.
    pub fn release_after_fork(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        let (Some(mut writer), Some(mut readers), Some(mut watcher)) =
            (self.writer.try_lock(), self.readers.try_lock(), self.watcher.try_lock())
        else {
            return Err(Error::Forked);
        };
        let within = writer.connection.as_ref().is_some_and(|connection| !connection.is_autocommit());
        if within || self.lent.load(Ordering::SeqCst) > 0 {
            return Err(Error::Forked);
        }
        writer.connection = None;
        readers.clear();
        watcher.connection = None;
        Ok(())
    }

    /// Counts a connection that reads while what this gives lives.
    fn lend(&self) -> Lent<'_> {
        self.lent.fetch_add(1, Ordering::SeqCst);
        Lent(&self.lent)
    }

    fn shown_path(&self) -> String {
        self.path().map_or_else(|| ":memory:".to_owned(), |path| path.display().to_string())
    }

    fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Runs `work` on a connection that reads. `operation` completes "could not …".
    fn with_reader<T>(
        &self,
        operation: &str,
        work: impl FnOnce(&mut Connection) -> Result<T, failure::Failure>,
    ) -> Result<T> {
        self.check_open()?;
        let explain =
            |failure: failure::Failure| failure.reading(operation, &self.shown_path(), self.options.busy_timeout_ms);
        let Some(place) = &self.place else {
            let mut writer = self.writer.lock();
            return work(writer.connection.as_mut().ok_or(Error::Closed)?).map_err(explain);
        };
        let _lent = self.lend();
        let idle = self.readers.lock().pop();
        let opened = match idle {
            Some(connection) => Ok(connection),
            None if self.is_poisoned() => Err(Error::Closed.into()),
            None => open::reader(place, &self.options),
        };
        let mut connection = match opened {
            Ok(connection) => connection,
            // The files may be gone or replaced under their names; what is open still reads them.
            Err(failure) => {
                let mut writer = self.writer.lock();
                self.settle(&mut writer);
                let Some(connection) = writer.connection.as_mut() else { return Err(explain(failure)) };
                return work(connection).map_err(explain);
            }
        };
        let result = work(&mut connection).map_err(explain);
        // A connection that met damage or an I/O error is not trusted again.
        if !matches!(result, Err(Error::Io { .. } | Error::Corrupt { .. })) {
            let mut readers = self.readers.lock();
            if readers.len() < IDLE_READERS && !self.is_closed() && connection.is_autocommit() {
                readers.push(connection);
            }
        }
        result
    }
}

/// A read connection in use.
struct Lent<'disk>(&'disk AtomicUsize);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A transaction that reads. Its statements are prepared once for each connection, which is half of what a small
/// reading costs.
struct View<'connection>(&'connection Connection);

impl<'connection> View<'connection> {
    fn new(connection: &'connection Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached("BEGIN")?.execute([])?;
        Ok(Self(connection))
    }
}

impl Drop for View<'_> {
    /// What only read loses nothing by it, also when the work ended in an error or a panic.
    fn drop(&mut self) {
        let _ = self.0.prepare_cached("ROLLBACK").and_then(|mut statement| statement.execute([]));
    }
}

impl Drop for Disk {
    /// A handle that is dropped closes; what close would report is then lost, so callers that care call it.
    fn drop(&mut self) {
        let _ = self.close();
    }
}
