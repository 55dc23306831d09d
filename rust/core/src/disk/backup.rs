//! A consistent copy of the file while writers go on, verified before it gets its name.

use std::fs::{self, File};
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::failure::{self, Failure};
use super::{Disk, FILE_NAME, open, verify};
use crate::base::{Error, Result};

/// A finished backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// The commit it shows.
    pub commit: u64,
    /// Its memories, all verified.
    pub rows: usize,
    /// Bytes of its file.
    pub bytes: u64,
}

/// Pages between two calls of the progress function.
const PAGES: i32 = 512;

impl Disk {
    /// Copies the store as it is now into `directory`, made if missing; one that holds a store already is refused.
    /// `progress` hears of pages done and pages in all. The copy is read whole and verified, synced, and only then
    /// called `memory.db`. Writers go on meanwhile and are not in it.
    pub fn backup(&self, directory: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<BackupReport> {
        let file = directory.join(FILE_NAME);
        if file.exists() {
            return Err(Error::invalid("directory", format!("{} exists already", file.display())));
        }
        open::make_directory(directory)?;
        let partial = directory.join(format!("{FILE_NAME}.partial"));
        let result = self.with_reader("back the store up", |connection| {
            let target = copy(connection, &partial, progress)?;
            let report = verify::report(&target)?;
            if let Some(fault) = report.first_fault() {
                let message = format!("it was not copied as a backup: {fault}");
                return Err(Failure::Told(Error::Corrupt { what: self.shown_path(), message }));
            }
            drop(target);
            let synced = File::open(&partial).and_then(|file| file.sync_all().and_then(|()| file.metadata()));
            let bytes = synced.map_err(|error| failure::io(format!("sync {}", partial.display()), &error))?.len();
            Ok(BackupReport { commit: report.commit, rows: report.sound, bytes })
        });
        let told = |error: std::io::Error| failure::io(format!("back the store up to {}", directory.display()), &error);
        match result {
            Ok(report) => {
                fs::rename(&partial, &file).map_err(told)?;
                open::sync_directory(directory).map_err(told)?;
                Ok(report)
            }
            Err(error) => {
                // What is left of a copy that failed is of no use; the fault itself is what the caller needs.
                let _ = fs::remove_file(&partial);
                Err(error)
            }
        }
    }
}

/// Copies what the connection sees into a new file, replacing one of that name. The copy's connection comes back.
pub(super) fn copy(
    connection: &mut Connection,
    file: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Connection, Failure> {
    open::make_private(file).map_err(|error| failure::io(format!("write {}", file.display()), &error))?;
    // One view for the whole copy: without it SQLite would begin anew after each commit of a writer.
    let view = connection.transaction()?;
    view.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut target = Connection::open_with_flags(file, flags)?;
    target.pragma_update(None, "synchronous", "FULL")?;
    {
        let backup = Backup::new(&view, &mut target)?;
        loop {
            let step = backup.step(PAGES)?;
            let pages = backup.progress();
            progress((pages.pagecount - pages.remaining).max(0) as u64, pages.pagecount.max(0) as u64);
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                // Nobody else has the new file, and a view of the source holds: neither can come.
                _ => return Err(Failure::Told(Error::Locked { path: file.display().to_string(), waited_ms: 0 })),
            }
        }
    }
    // The copy says of itself that it is in WAL mode; one plain file is what a backup is.
    let _: String = target.pragma_update_and_check(None, "journal_mode", "delete", |row| row.get(0))?;
    Ok(target)
}
