//! Derived files: what could be computed from the store anew, kept so that it need not be.
//!
//! They lie in `derived/` beside `memory.db`, each under a name that holds its digest. A file counts only when the
//! store itself names it, by a setting that its writer sets in a transaction *after* the file is whole on disk: so one of
//! another store, an older one, one that was left behind by a kill or one beside a file that was restored from a backup
//! is not mistaken for what belongs here. A file is opened by [`Disk::read_derived`], which reads and compares all of it
//! before anybody sees a byte.
//!
//! ```text
//! 128 bytes  magic, kind, format, commit, store, library, zeros
//!            payload
//! 24 bytes   bytes before this, xxh3-128 of them
//! ```
//!
//! Files are never changed and never cut short, only made, renamed and unlinked, so that one may be mapped. Nothing in
//! here poisons the handle: what cannot be written is told to the caller, and is computed again later.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::{Disk, failure, open, read};
use crate::base::{Blob, Error, Result, Row};

/// The directory inside a store's directory.
pub const DERIVED_DIRECTORY: &str = "derived";

const MAGIC: &[u8; 8] = b"tmderiv1";
/// Keeps the payload on a cache line's boundary.
const HEADER: usize = 128;
const TRAILER: usize = 24;
/// What is read or written at once.
const PIECE: usize = 1 << 20;
/// Shorter files are read, longer ones mapped.
const MAPPED: u64 = 1 << 20;
/// Held, by the system's lock on it, by the one who writes derived files.
const LOCK: &str = "lock";
/// How long [`Disk::drop_derived`] pauses between two tries to get the lock.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// What a derived file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DerivedKind {
    /// The columns and the metadata index.
    Columns,
    /// The keyword index.
    Keywords,
    /// The vectors' codes.
    Codes,
    /// The vectors' f16 values.
    Halves,
    /// The graph over the codes.
    Graph,
}

impl DerivedKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Columns, Self::Keywords, Self::Codes, Self::Halves, Self::Graph];

    /// Its name, which starts the names of its files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Columns => "columns",
            Self::Keywords => "keywords",
            Self::Codes => "codes",
            Self::Halves => "halves",
            Self::Graph => "graph",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A derived file as the store names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DerivedName {
    /// What it holds.
    pub kind: DerivedKind,
    /// Its length.
    pub bytes: u64,
    /// xxh3-128 of it, up to the trailer.
    pub digest: u128,
}

impl DerivedName {
    /// The file's name.
    pub fn file_name(&self) -> String {
        format!("{}-{:032x}", self.kind.name(), self.digest)
    }
}

/// What a derived file must have been made of to be taken.
#[derive(Debug, Clone, Copy)]
pub struct DerivedOrigin<'a> {
    /// The commit that it shows.
    pub commit: u64,
    /// The layout of its payload.
    pub format: u32,
    /// The versions of everything that took part, at most 63 bytes: another one's files are not read.
    pub library: &'a str,
}

/// Where a store stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The last commit.
    pub commit: u64,
    /// The last commit that erased rows.
    pub erased_at: u64,
    /// The row that the next memory gets.
    pub next_row: Row,
    /// The generation of the model in use.
    pub model: u32,
}

/// The right to write derived files: one handle at a time has it, in all processes.
#[derive(Debug)]
pub struct DerivedLock {
    directory: PathBuf,
    file: File,
}

impl Drop for DerivedLock {
    /// Said aloud, since closing alone leaves it with a process that was forked meanwhile.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// A derived file that is being written. Dropped before [`DerivedWriter::finish`], it is gone.
pub struct DerivedWriter {
    kind: DerivedKind,
    directory: PathBuf,
    partial: PathBuf,
    file: Option<File>,
    hash: Box<Xxh3>,
    bytes: u64,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for DerivedWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DerivedWriter").field("partial", &self.partial).finish_non_exhaustive()
    }
}

impl Drop for DerivedWriter {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

impl DerivedWriter {
    /// Appends to the payload.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE { self.pour() } else { Ok(()) }
    }

    fn pour(&mut self) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.write_all(&self.buffer).map_err(|error| told("write", &self.partial, &error))?;
        }
        self.buffer.clear();
        Ok(())
    }

    /// Ends the payload; the file is whole on disk under its name when this returns.
    pub fn finish(mut self) -> Result<DerivedName> {
        let digest = self.hash.digest128();
        let length = self.bytes;
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(&digest.to_le_bytes());
        self.pour()?;
        let name = DerivedName { kind: self.kind, bytes: length + TRAILER as u64, digest };
        let path = self.directory.join(name.file_name());
        if let Some(file) = &self.file {
            file.sync_all().map_err(|error| told("sync", &self.partial, &error))?;
        }
        fs::rename(&self.partial, &path).map_err(|error| told("name", &path, &error))?;
        self.file = None;
        open::sync_directory(&self.directory).map_err(|error| told("sync", &self.directory, &error))?;
        Ok(name)
    }
}

fn told(verb: &str, path: &Path, error: &std::io::Error) -> Error {
    failure::io(format!("{verb} {}", path.display()), error)
}

fn wrong(path: &Path, message: impl Into<String>) -> Error {
    Error::Corrupt { what: path.display().to_string(), message: message.into() }
}

impl Disk {
    /// The directory of the derived files, whether it is there or not; `None` for a store in RAM.
    pub fn derived_directory(&self) -> Option<PathBuf> {
        self.directory().map(|directory| directory.join(DERIVED_DIRECTORY))
    }

    /// Where the store stands.
    pub fn position(&self) -> Result<Position> {
        self.with_reader("read the counters", |connection| {
            let counter = read::counter(connection)?;
            let (commit, erased_at) = (counter.commit, counter.erased_at);
            Ok(Position { commit, erased_at, next_row: Row(counter.next_row), model: counter.model })
        })
    }

    /// How many rows were written or changed after a commit; counting ends at `most`.
    pub fn changed_since(&self, commit: u64, most: usize) -> Result<usize> {
        self.with_reader("count what changed", |connection| {
            let sql = "SELECT count(*) FROM (SELECT 1 FROM memory WHERE commit_number > ?1 LIMIT ?2)";
            let mut statement = connection.prepare_cached(sql)?;
            Ok(statement.query_row((commit as i64, most as i64), |row| row.get::<_, i64>(0))? as usize)
        })
    }

    /// Whether a derived file of this name and length is there. Nothing of it is read.
    pub fn has_derived(&self, name: &DerivedName) -> bool {
        let path = self.derived_directory().map(|directory| directory.join(name.file_name()));
        path.and_then(|path| fs::symlink_metadata(path).ok())
            .is_some_and(|found| found.is_file() && found.len() == name.bytes)
    }

    /// Takes the right to write derived files. `None` when another handle has it, and for a store in RAM.
    pub fn lock_derived(&self) -> Result<Option<DerivedLock>> {
        self.check_writable()?;
        let Some(directory) = self.derived_directory() else { return Ok(None) };
        open::make_directory(&directory)?;
        let found = fs::symlink_metadata(&directory).map_err(|error| told("look at", &directory, &error))?;
        if !found.is_dir() {
            return Err(wrong(&directory, "it is no directory"));
        }
        let path = directory.join(LOCK);
        let mut options = open::private_file();
        let file = options.create(true).truncate(false).open(&path).map_err(|error| told("open", &path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(DerivedLock { directory, file })),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(told("lock", &path, &error)),
        }
    }

    /// Begins a derived file. What an earlier one left half written is removed.
    pub fn create_derived(
        &self,
        lock: &DerivedLock,
        kind: DerivedKind,
        origin: &DerivedOrigin<'_>,
    ) -> Result<DerivedWriter> {
        let partial = lock.directory.join(format!("{}.partial", kind.name()));
        remove(&partial)?;
        let created = open::private_file().create_new(true).open(&partial);
        let file = Some(created.map_err(|error| told("make", &partial, &error))?);
        let (directory, hash, buffer) = (lock.directory.clone(), Box::new(Xxh3::new()), Vec::with_capacity(2 * PIECE));
        let mut writer = DerivedWriter { kind, directory, partial, file, hash, bytes: 0, buffer };
        writer.write(&self.header(kind, origin)?)?;
        Ok(writer)
    }

    /// The payload of a derived file, after all of the file was read and is what its name says.
    pub fn read_derived(&self, name: &DerivedName, origin: &DerivedOrigin<'_>) -> Result<Blob> {
        let directory = self.derived_directory().ok_or_else(|| Error::invalid("store", "it lives in RAM"))?;
        let path = directory.join(name.file_name());
        let failed = |error: std::io::Error| told("read", &path, &error);
        // Asked before it is opened: opening a pipe would wait for its writer.
        let found = fs::symlink_metadata(&path).map_err(failed)?;
        if !found.is_file() {
            return Err(wrong(&path, "it is no file"));
        }
        let mut file = File::open(&path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        if length != name.bytes || length < (HEADER + TRAILER) as u64 {
            return Err(wrong(&path, format!("it has {length} bytes, not {}", name.bytes)));
        }
        let Ok(size) = usize::try_from(length) else { return Err(wrong(&path, "it is too long for this machine")) };
        let blob = if length < MAPPED {
            read_whole(&mut file, size, name.digest).map_err(failed)?
        } else if digest_of(&mut file, size - TRAILER).map_err(failed)? == name.digest {
            Some(if let Some(map) = map(&file, size) {
                Blob::mapped(map)
            } else {
                std::io::Seek::rewind(&mut file).map_err(failed)?;
                read_whole(&mut file, size, name.digest).map_err(failed)?.ok_or_else(|| changed(&path))?
            })
        } else {
            None
        };
        let blob = blob.ok_or_else(|| changed(&path))?;
        let bytes = blob.bytes();
        let trailer = &bytes[size - TRAILER..];
        let sound =
            trailer[..8] == ((size - TRAILER) as u64).to_le_bytes() && trailer[8..] == name.digest.to_le_bytes();
        if !sound || bytes[..HEADER] != self.header(name.kind, origin)? {
            return Err(wrong(&path, "it is of another version or another store"));
        }
        blob.part(HEADER, size - TRAILER).ok_or_else(|| changed(&path))
    }

    /// Removes every derived file but these.
    pub fn keep_derived(&self, lock: &DerivedLock, names: &[DerivedName]) -> Result<()> {
        let kept: Vec<String> = names.iter().map(DerivedName::file_name).collect();
        let failed = |error: std::io::Error| told("list", &lock.directory, &error);
        let mut failure = None;
        for entry in fs::read_dir(&lock.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if name == LOCK || kept.iter().any(|kept| **kept == *name) {
                continue;
            }
            // One that is mapped cannot go where the system forbids it; it does at a later time.
            if let Err(error) = remove(&entry.path()) {
                failure.get_or_insert(error);
            }
        }
        let synced = open::sync_directory(&lock.directory).map_err(|error| told("sync", &lock.directory, &error));
        failure.map_or(synced, Err)
    }

    /// Removes every derived file now. Waits for a handle that is writing some, as long as for the store itself.
    pub fn drop_derived(&self) -> Result<()> {
        self.check_writable()?;
        let Some(directory) = self.derived_directory() else { return Ok(()) };
        if !directory.exists() {
            return Ok(());
        }
        let mut waited = 0;
        loop {
            if let Some(lock) = self.lock_derived()? {
                return self.keep_derived(&lock, &[]);
            }
            if waited >= self.options.busy_timeout_ms {
                return Err(Error::Locked { path: directory.display().to_string(), waited_ms: waited });
            }
            std::thread::sleep(PAUSE);
            waited += PAUSE.as_millis() as u64;
        }
    }

    fn header(&self, kind: DerivedKind, origin: &DerivedOrigin<'_>) -> Result<[u8; HEADER]> {
        let store = self.meta("store_id")?.unwrap_or_default();
        let mut header = [0; HEADER];
        let mut text = [0_u8; 64];
        let library = origin.library.as_bytes();
        let library = &library[..library.len().min(text.len())];
        text[..library.len()].copy_from_slice(library);
        let parts: [&[u8]; 6] = [
            MAGIC,
            &(kind as u32).to_le_bytes(),
            &origin.format.to_le_bytes(),
            &origin.commit.to_le_bytes(),
            &xxh3_128(store.as_bytes()).to_le_bytes(),
            &text,
        ];
        let mut place = 0;
        for part in parts {
            header[place..place + part.len()].copy_from_slice(part);
            place += part.len();
        }
        Ok(header)
    }
}

fn changed(path: &Path) -> Error {
    wrong(path, "its checksum does not match")
}

/// Removes a file or a directory, whatever lies under the name; nothing there is fine.
fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(told("remove", path, &error)),
        _ => Ok(()),
    }
}

/// The file's bytes, if they are what the digest was made of.
fn read_whole(file: &mut File, size: usize, digest: u128) -> std::io::Result<Option<Blob>> {
    let mut bytes = vec![0; size];
    file.read_exact(&mut bytes)?;
    Ok((xxh3_128(&bytes[..size - TRAILER]) == digest).then(|| Blob::read(bytes)))
}

/// The digest of the first `size` bytes, read piece by piece: through a map they would all count as this process's.
fn digest_of(file: &mut File, size: usize) -> std::io::Result<u128> {
    let mut piece = vec![0; PIECE];
    let mut hash = Xxh3::new();
    let mut left = size;
    while left > 0 {
        let piece = &mut piece[..left.min(PIECE)];
        file.read_exact(piece)?;
        hash.update(piece);
        left -= piece.len();
    }
    Ok(hash.digest128())
}

/// The file as memory, where the system gives it.
#[expect(unsafe_code, reason = "a map is only as constant as its file, which the compiler cannot know")]
fn map(file: &File, size: usize) -> Option<memmap2::Mmap> {
    // SAFETY: a derived file is never written or cut short once it has its name: writers make new files and unlink
    // old ones, and the directory is its owner's alone. The map is read-only and private.
    let map = unsafe { memmap2::MmapOptions::new().len(size).map(file) }.ok()?;
    (map.len() == size).then_some(map)
}
