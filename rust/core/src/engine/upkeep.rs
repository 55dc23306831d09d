//! Care for the whole store: verification and repair, backups, compaction.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::Engine;
use crate::base::{EdgeKind, Error, MemoryId, Micros, Result, Row, State};
use crate::disk::{BackupReport, DERIVED_DIRECTORY, Event, FILE_NAME, Repaired, VerifyReport};

/// A copy of this store that was made elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCopy {
    /// Where.
    pub path: String,
    /// When.
    pub at: Micros,
    /// The commit it shows.
    pub commit: u64,
}

impl KnownCopy {
    pub(super) fn to_json(&self) -> Json {
        json!({"path": self.path, "at": self.at.0, "commit": self.commit})
    }

    pub(super) fn from_json(value: &Json) -> Option<Self> {
        Some(Self {
            path: value["path"].as_str()?.to_owned(),
            at: Micros(value["at"].as_i64()?),
            commit: value["commit"].as_u64()?,
        })
    }
}

/// What verification found, and what a repair made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// What the disk says.
    pub report: VerifyReport,
    /// Files in the directory that nobody here made.
    pub strays: Vec<String>,
    /// What the repair did, if one was asked for and there was something to do.
    pub repaired: Option<Repaired>,
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compacted {
    /// Forgotten memories that are gone.
    pub forgotten: usize,
    /// Folded memories that are gone.
    pub merged: usize,
    /// Bytes on disk before.
    pub bytes_before: u64,
    /// Bytes on disk after.
    pub bytes_after: u64,
}

/// The setting that lists the copies.
const COPIES_KEY: &str = "copies";
/// Copies that are remembered, the latest.
const COPIES: usize = 256;

impl Engine {
    /// What happened to a memory in any state, oldest first. Its making is the first entry.
    pub fn history(&self, id: MemoryId) -> Result<Vec<Event>> {
        self.catch_up()?;
        let (row, head) = {
            let picture = self.picture.read();
            let row = picture.columns.find(id).ok_or_else(|| picture.missing(id))?;
            (row, picture.columns.head(row).ok_or_else(|| picture.missing(id))?)
        };
        self.disk.settle_group()?;
        let edges = self.disk.edges(&[row])?;
        let taken = edges.iter().find(|edge| edge.newer == row && edge.kind == EdgeKind::Supersedes);
        let taken = taken.map(|edge| self.picture.read().columns.id(edge.older).to_string());
        let mut events = self.disk.events(id)?;
        let detail = json!({"source": head.source.name(), "supersedes": taken});
        events.insert(
            0,
            Event {
                commit: 0,
                at: head.created_at,
                kind: "created".to_owned(),
                actor: head.source.name().to_owned(),
                detail: Some(detail.to_string()),
            },
        );
        Ok(events)
    }

    /// Reads everything and reports what is not as it was written; with `repair` keeps what is sound and drops the rest.
    /// The damaged file is kept beside the store unless `discard`.
    pub fn verify(&self, repair: bool, discard: bool) -> Result<Verified> {
        self.check_open()?;
        if !repair {
            self.disk.settle_group()?;
            return Ok(Verified { report: self.disk.verify()?, strays: self.strays()?, repaired: None });
        }
        self.check_writable()?;
        let _gate = self.gate.lock();
        self.settle_others()?;
        let (report, repaired) = self.disk.repair(discard)?;
        if repaired.is_some() {
            self.disk.empty_log()?;
            self.clear_derived()?;
            self.reload()?;
        }
        Ok(Verified { report, strays: self.strays()?, repaired })
    }

    /// Copies the store as it is now into a directory that holds none, verified, and remembers where.
    pub fn backup(&self, directory: &Path, progress: &mut dyn FnMut(u64, u64), now: Micros) -> Result<BackupReport> {
        self.check_open()?;
        if self.disk.check_writable().is_ok() {
            self.flush_uses(now)?;
        }
        if let (Some(own), Ok(other)) = (self.disk.directory(), directory.canonicalize())
            && own == other
        {
            return Err(Error::invalid("directory", "is the store's own"));
        }
        let report = self.disk.backup(directory, progress)?;
        self.remember_copy(directory, report.commit, now)?;
        Ok(report)
    }

    /// Notes that a copy of the store, as of a commit, lies elsewhere, so that an erasure can name it. A handle that may
    /// not write knows of no copies: it can make one, and erases nothing.
    pub fn remember_copy(&self, path: &Path, commit: u64, now: Micros) -> Result<()> {
        self.check_open()?;
        if self.disk.check_writable().is_err() {
            return Ok(());
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let path = path.display().to_string();
        let entry = KnownCopy { path, at: now, commit };
        self.commit(self.enter_gate(), now, |_, transaction| {
            let mut copies = read_copies(transaction.meta(COPIES_KEY)?.as_deref());
            copies.retain(|copy| copy.path != entry.path);
            copies.push(entry.clone());
            let excess = copies.len().saturating_sub(COPIES);
            let list: Vec<Json> = copies[excess..].iter().map(KnownCopy::to_json).collect();
            transaction.set_meta(COPIES_KEY, &Json::from(list).to_string())?;
            Ok(Vec::new())
        })
    }

    /// The copies that are still where they were made.
    pub fn known_copies(&self) -> Result<Vec<KnownCopy>> {
        let mut copies = read_copies(self.disk.meta(COPIES_KEY)?.as_deref());
        copies.retain(|copy| Path::new(&copy.path).exists());
        Ok(copies)
    }

    /// Lets go for good of what was forgotten or folded into another memory before a time, drops what could be undone,
    /// and writes the file anew. Takes memory of the file's size while it does.
    pub fn compact(&self, hidden_before: Micros, now: Micros) -> Result<Compacted> {
        self.check_writable()?;
        self.flush_uses(now)?;
        let _gate = self.gate.lock();
        let mut done = Compacted { bytes_before: self.disk.size_bytes()?, ..Compacted::default() };
        loop {
            self.settle_others()?;
            self.catch_up_behind_gate()?;
            let (known, hidden) = {
                let picture = self.picture.read();
                let columns = &picture.columns;
                let hidden: Vec<(Row, State)> = columns
                    .present()
                    .iter()
                    .map(|row| (row, columns.state(row)))
                    .filter(|(_, state)| matches!(state, State::Forgotten | State::Merged))
                    .collect();
                (picture.commit(), hidden)
            };
            let rows: Vec<Row> = hidden.iter().map(|(row, _)| *row).collect();
            let since = self.disk.last_events(&rows)?;
            let old = hidden.iter().zip(since).filter(|(_, at)| at.is_none_or(|at| at <= hidden_before));
            let purged: Vec<(Row, State)> = old.map(|(one, _)| *one).collect();
            let mut moved = false;
            let written = self.disk.write(now, |transaction| {
                if transaction.commit_number() != known + 1 {
                    moved = true;
                    return Err(Error::StalePlan { message: "another process wrote".to_owned() });
                }
                for (row, _) in &purged {
                    transaction.erase(*row)?;
                }
                transaction.drop_undo(None)
            });
            match written {
                Ok(_) => {}
                Err(_) if moved => continue,
                Err(error) => return Err(error),
            }
            done.forgotten = purged.iter().filter(|(_, state)| *state == State::Forgotten).count();
            done.merged = purged.len() - done.forgotten;
            self.disk.remove_old_copies()?;
            self.disk.vacuum()?;
            self.disk.empty_log()?;
            if !purged.is_empty() {
                self.reload()?;
                self.clear_derived()?;
            }
            done.bytes_after = self.disk.size_bytes()?;
            return Ok(done);
        }
    }

    /// Files that are neither SQLite's, nor derived, nor copies of the database that this library keeps.
    fn strays(&self) -> Result<Vec<String>> {
        let ours = |file: &PathBuf| {
            file.starts_with(DERIVED_DIRECTORY) || file.to_string_lossy().starts_with(&format!("{FILE_NAME}."))
        };
        let strays = self.disk.other_files()?.into_iter().filter(|file| !ours(file));
        Ok(strays.map(|file| file.display().to_string()).collect())
    }
}

fn read_copies(text: Option<&str>) -> Vec<KnownCopy> {
    let value: Option<Json> = text.and_then(|text| serde_json::from_str(text).ok());
    let list = value.and_then(|value| value.as_array().cloned()).unwrap_or_default();
    list.iter().filter_map(KnownCopy::from_json).collect()
}
