//! Transactions: one commit number each, grouped by a leader, acknowledged when they are on disk.
//!
//! A thread that finishes its work while others are arriving leaves SQLite's transaction open and waits; each joins it
//! behind a savepoint, and the one that finds nobody behind it commits, with one sync, for all. When those on the way
//! take too long, the first that loses patience commits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::Disk;
use super::failure::{Blame, WriteFailure};
use super::record::{Counter, Encoder};
use super::transaction::Transaction;
use crate::base::{Error, Micros, Result};

/// What a write gave back, and the commit that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written<T> {
    /// What the closure returned.
    pub value: T,
    /// The commit's number; the last one before when the closure wrote nothing.
    pub commit: u64,
}

/// The connection that writes, and the group it is in the middle of.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Option<Connection>,
    files: Files,
    group: Option<Group>,
    /// The last attempt to begin that found another process there until the time was out.
    locked: Option<u64>,
    encoder: Encoder,
    /// Pages in the WAL after the last commit.
    log_pages: Arc<AtomicU32>,
}

impl Writer {
    pub(super) fn new(mut connection: Option<Connection>, files: Files) -> rusqlite::Result<Self> {
        let log_pages = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&log_pages);
        if let Some(connection) = &mut connection {
            // Takes the place of SQLite's own automatic checkpoint, whose errors nobody would hear.
            connection.wal_hook(Some(move |_: &mut Wal, pages: i32| {
                told.store(pages.max(0) as u32, Ordering::Relaxed);
                Ok(())
            }))?;
        }
        Ok(Self { connection, files, group: None, locked: None, encoder: Encoder::default(), log_pages })
    }
}

/// Pages of WAL after which a commit copies them into the file.
pub(super) const CHECKPOINT_PAGES: u32 = 4_000;

/// An open transaction of SQLite with the writes that share its commit.
#[derive(Debug)]
struct Group {
    counter: Counter,
    members: usize,
    written_rows: usize,
    outcome: Arc<OnceLock<Result<()>>>,
}

/// How long a write waits for the next one, writes in one group, and rows after which it closes: bounds what the first
/// of them waits.
const GROUP_PATIENCE: std::time::Duration = std::time::Duration::from_millis(1);
const GROUP_WRITES: usize = 64;
const GROUP_ROWS: usize = 8_192;

/// A write that is on its way to [`Disk::write_arrived`], or has given up when it is dropped.
#[derive(Debug)]
pub struct Arrival<'disk> {
    disk: &'disk Disk,
    /// How many attempts to lock the store had begun by then.
    begun: u64,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.disk.arriving.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The files that are written, as the system knows them. A file that was deleted under its name goes on taking writes
/// that nobody will find again.
#[derive(Debug, Default)]
pub(super) struct Files(Vec<(PathBuf, (u64, u64))>);

impl Files {
    /// The database and its WAL. Call when both exist.
    pub(super) fn of(file: &Path) -> Self {
        let mut wal = file.to_path_buf().into_os_string();
        wal.push("-wal");
        let known = |path: PathBuf| identity(&path).map(|identity| (path, identity));
        Self([file.to_path_buf(), wal.into()].into_iter().filter_map(known).collect())
    }

    fn moved(&self) -> Option<&Path> {
        self.0.iter().find(|(path, known)| identity(path) != Some(*known)).map(|(path, _)| path.as_path())
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Elsewhere an open file cannot be deleted.
#[cfg(not(unix))]
fn identity(_path: &Path) -> Option<(u64, u64)> {
    None
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}

impl Disk {
    /// Runs `work` in a transaction and returns when it is on disk, as far as the durability asks.
    ///
    /// An error from `work` undoes what it did and is handed on; the handle stays fine. An error of SQLite or the disk
    /// undoes it, answers [`Error::Durability`] and makes the handle read-only. Another process that holds the store
    /// longer than the busy timeout is [`Error::Locked`]. A commit whose sync failed may still be found by a later open.
    pub fn write<T>(&self, now: Micros, work: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<Written<T>> {
        self.write_arrived(self.arrive(), now, work)
    }

    /// Says that a write of this thread is on its way: others that have theirs done wait for it a moment, so that one
    /// sync serves both.
    pub fn arrive(&self) -> Arrival<'_> {
        let begun = self.begun.load(Ordering::SeqCst);
        self.arriving.fetch_add(1, Ordering::SeqCst);
        Arrival { disk: self, begun }
    }

    /// As [`Disk::write`], for a thread that has said so before.
    pub fn write_arrived<T>(
        &self,
        arrival: Arrival<'_>,
        now: Micros,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<Written<T>> {
        let mut writer = self.writer.lock();
        let arrived = arrival.begun;
        drop(arrival);
        if writer.locked.is_some_and(|attempt| attempt > arrived) {
            // Somebody has waited the whole time out while this thread stood behind: it has waited as long.
            self.settle(&mut writer);
            return Err(self.locked());
        }
        let member = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.join(&mut writer, now, work)));
        let member = match member {
            Ok(member) => member,
            Err(panic) => {
                self.leave(&mut writer);
                self.settle(&mut writer);
                std::panic::resume_unwind(panic);
            }
        };
        let full = writer.group.as_ref().is_none_or(|group| {
            group.members == 0 || group.members >= GROUP_WRITES || group.written_rows >= GROUP_ROWS
        });
        // In RAM there is no sync to share, and readers on the one connection would see the open group.
        if full || self.place.is_none() || self.arriving.load(Ordering::SeqCst) == 0 {
            self.settle(&mut writer);
        }
        let (written, outcome) = member?;
        loop {
            match outcome.get() {
                Some(Ok(())) => return Ok(written),
                Some(Err(error)) => return Err(error.clone()),
                // Who is on the way may be held up; a sync is not worth more than this.
                None if self.settled.wait_for(&mut writer, GROUP_PATIENCE).timed_out() => self.settle(&mut writer),
                None => {}
            }
        }
    }

    /// Copies the WAL into the file and empties it, so that nothing erased stays in it. `false` when a reader still
    /// needed it.
    pub fn empty_log(&self) -> Result<bool> {
        self.check_writable()?;
        let mut writer = self.writer.lock();
        self.settle(&mut writer);
        let connection = writer.connection.as_ref().ok_or(Error::Closed)?;
        if self.place.is_none() {
            return Ok(true);
        }
        let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        busy.map(|busy| busy == 0).map_err(|error| self.failed("write the log into the file", &error))
    }

    /// Copies the WAL into the file once it is long. The commit before it is on disk and told already.
    fn shorten_log(&self, writer: &Writer) {
        let Some(connection) = writer.connection.as_ref() else { return };
        if writer.log_pages.load(Ordering::Relaxed) < CHECKPOINT_PAGES {
            return;
        }
        if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            self.poison_by(&self.write_failure("write the log into the file", &error));
        }
    }

    /// Commits what other threads have written so far, without waiting for more of them.
    pub fn settle_group(&self) -> Result<()> {
        self.check_open()?;
        self.settle(&mut self.writer.lock());
        Ok(())
    }

    /// Refuses a handle that was opened to read, or that only reads since a write failed.
    pub fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if let Some(message) = self.poison.get() {
            return Err(Error::ReadOnly { message: message.clone() });
        }
        if self.options.read_only {
            return Err(Error::ReadOnly { message: "it was opened to read".to_owned() });
        }
        Ok(())
    }

    fn locked(&self) -> Error {
        Error::Locked { path: self.shown_path(), waited_ms: self.options.busy_timeout_ms }
    }

    pub(super) fn write_failure(&self, operation: &str, error: &rusqlite::Error) -> WriteFailure {
        WriteFailure::new(operation, &self.shown_path(), self.options.busy_timeout_ms, error)
    }

    /// What a failed write outside of a transaction means for the handle, and is told.
    pub(super) fn failed(&self, operation: &str, error: &rusqlite::Error) -> Error {
        let failure = self.write_failure(operation, error);
        self.poison_by(&failure);
        failure.error
    }

    fn poison_by(&self, failure: &WriteFailure) {
        if failure.blame == Blame::Disk {
            let _ = self.poison.set(format!("an earlier write failed: {}", failure.error));
        }
    }

    /// Runs the work inside the open group, or opens one. On an error nothing of the work is left in it.
    #[expect(clippy::type_complexity, reason = "the pair lives for one line")]
    fn join<T>(
        &self,
        writer: &mut Writer,
        now: Micros,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<(Written<T>, Arc<OnceLock<Result<()>>>)> {
        self.check_writable()?;
        let Writer { connection, group, encoder, locked, .. } = &mut *writer;
        let connection = connection.as_ref().ok_or(Error::Closed)?;
        let group = if let Some(open) = group {
            if let Err(error) = run(connection, "SAVEPOINT member") {
                let failure = self.write_failure("mark a write", &error);
                return Err(self.fail_group(writer, failure));
            }
            open
        } else {
            let attempt = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            let begun = self.begin(connection);
            if matches!(begun, Err(Error::Locked { .. })) {
                *locked = Some(attempt);
            }
            group.insert(begun?)
        };
        let next = Counter { commit: group.counter.commit + 1, ..group.counter };
        let mut transaction = Transaction::new(self, connection, encoder, next, now);
        let result = work(&mut transaction);
        let (counter, touched, failure) = transaction.end();
        // Whatever the work made of it, after such a failure the transaction is gone or not to be trusted.
        if let Some(failure) = failure {
            return Err(self.fail_group(writer, failure));
        }
        let outcome = Arc::clone(&group.outcome);
        match result {
            Ok(value) if touched == 0 => {
                let commit = group.counter.commit;
                let alone = group.members == 0;
                self.leave(writer);
                if alone {
                    self.settle(writer);
                }
                Ok((Written { value, commit }, outcome))
            }
            Ok(value) => {
                if group.members > 0 {
                    let kept = run(connection, "RELEASE member");
                    if let Err(error) = kept {
                        let failure = self.write_failure("keep a write", &error);
                        return Err(self.fail_group(writer, failure));
                    }
                }
                group.counter = counter;
                group.members += 1;
                group.written_rows += touched;
                Ok((Written { value, commit: counter.commit }, outcome))
            }
            Err(error) => {
                self.leave(writer);
                Err(error)
            }
        }
    }

    /// Starts SQLite's transaction and reads where the store stands.
    fn begin(&self, connection: &Connection) -> Result<Group> {
        let operation = "begin a write";
        if let Err(error) = run(connection, "BEGIN IMMEDIATE") {
            let failure = self.write_failure(operation, &error);
            self.poison_by(&failure);
            return Err(failure.error);
        }
        let counter = connection
            .prepare_cached(Counter::SELECT)
            .and_then(|mut statement| statement.query_row([], |row| Ok(Counter::read(row))));
        let failure = match counter {
            Ok(Ok(counter)) => {
                return Ok(Group { counter, members: 0, written_rows: 0, outcome: Arc::default() });
            }
            Ok(Err(message)) => {
                WriteFailure { error: Error::Corrupt { what: self.shown_path(), message }, blame: Blame::Disk }
            }
            Err(error) => self.write_failure(operation, &error),
        };
        let _ = connection.execute_batch("ROLLBACK");
        self.poison_by(&failure);
        Err(failure.error)
    }

    /// Undoes the last member's part: back to its savepoint, or the whole transaction when it was alone.
    fn leave(&self, writer: &mut Writer) {
        let (Some(connection), Some(group)) = (&writer.connection, &writer.group) else { return };
        if group.members == 0 {
            return;
        }
        if let Err(error) = connection.execute_batch("ROLLBACK TO member; RELEASE member") {
            let failure = self.write_failure("undo a write", &error);
            self.fail_group(writer, failure);
        }
    }

    /// Undoes the whole group and tells all its members.
    fn fail_group(&self, writer: &mut Writer, failure: WriteFailure) -> Error {
        self.poison_by(&failure);
        if let Some(connection) = &writer.connection
            && !connection.is_autocommit()
        {
            let _ = connection.execute_batch("ROLLBACK");
        }
        if let Some(group) = writer.group.take() {
            let _ = group.outcome.set(Err(failure.error.clone()));
            self.settled.notify_all();
        }
        failure.error
    }

    /// Ends the open group, if there is one: commits it, or undoes it when nothing is in it.
    pub(super) fn settle(&self, writer: &mut Writer) {
        let Some(group) = &writer.group else { return };
        let Some(connection) = &writer.connection else { return };
        let result = if group.members == 0 {
            connection.execute_batch("ROLLBACK")
        } else {
            let counted = connection
                .prepare_cached(Counter::UPDATE)
                .and_then(|mut statement| statement.execute(group.counter.params()));
            counted.and_then(|_| run(connection, "COMMIT"))
        };
        let failure = match result {
            Err(error) => self.write_failure("commit a write", &error),
            Ok(()) => match writer.files.moved() {
                None => {
                    if let Some(group) = writer.group.take() {
                        let _ = group.outcome.set(Ok(()));
                        self.settled.notify_all();
                    }
                    self.shorten_log(writer);
                    return;
                }
                Some(path) => WriteFailure {
                    error: Error::Durability {
                        operation: "commit a write".to_owned(),
                        message: format!("{} was deleted or replaced while it was open", path.display()),
                    },
                    blame: Blame::Disk,
                },
            },
        };
        self.fail_group(writer, failure);
    }
}
