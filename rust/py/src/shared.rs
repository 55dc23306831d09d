//! One engine per directory: every handle that this process opens on it shares the locks, the picture and the group of
//! writers. The last handle that closes closes the engine.
//!
//! A fork copies handles into a process that holds none of their locks. They are refused there and never closed, which
//! would write; when the child opens the same directory, what it inherited is let go first.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tiermem_core::base::{Error, Micros, Result};
use tiermem_core::disk::{DiskOptions, FILE_NAME};
use tiermem_core::engine::Engine;

use crate::ids::IdMint;
use crate::options::{self, Options};

/// An engine with everything its handles have in common.
#[derive(Debug)]
struct Shared {
    engine: Engine,
    mint: IdMint,
    options: Options,
    handles: AtomicUsize,
}

impl Shared {
    /// Counts one more handle, unless the last one is gone.
    fn join(&self) -> bool {
        let more = |handles| (handles > 0).then_some(handles + 1);
        self.handles.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }
}

/// What tells one opened store from another: who opened it, which file it is, and whether it may write. The file, not the
/// directory: an engine holds it open, so that its number is nobody else's, whereas the number of a directory that was
/// deleted under an open handle may soon be another store's.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    process: u32,
    place: Identity,
    read_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Identity {
    #[cfg_attr(not(unix), expect(dead_code, reason = "only Unix numbers its files for everybody"))]
    File(u64, u64),
    #[cfg_attr(unix, expect(dead_code, reason = "elsewhere the path must do"))]
    Path(PathBuf),
}

impl Identity {
    /// `None` while there is no store in the directory.
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path.join(FILE_NAME)).ok().map(|metadata| Self::File(metadata.dev(), metadata.ino()))
    }

    #[cfg(not(unix))]
    fn of(path: &Path) -> Option<Self> {
        std::fs::canonicalize(path.join(FILE_NAME)).ok().map(Self::Path)
    }
}

static OPENED: Mutex<Vec<(Key, Weak<Shared>)>> = Mutex::new(Vec::new());

/// How long an open waits for the list of what is open. Nobody holds it for long, but a fork may have copied it locked.
const PATIENCE: Duration = Duration::from_secs(2);

/// One opening of a store.
#[derive(Debug)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
    process: u32,
    closed: AtomicBool,
}

impl Handle {
    /// Opens the store in a directory, or joins those who have it open; `None` is a store in RAM of its own.
    pub(crate) fn open(path: Option<&Path>, disk: DiskOptions, given: Options) -> Result<Self> {
        let process = std::process::id();
        let read_only = disk.read_only;
        let key = |path: &Path| Identity::of(path).map(|place| Key { process, place, read_only });
        if let Some(known) = path.and_then(key) {
            let_go_of_inherited(&known)?;
            if let Some(shared) = find(&known) {
                return Self::joined(shared, process, &given);
            }
        }
        let mint = IdMint::new(given.id_seed);
        let engine = Engine::open(path, disk, given.engine.clone())?;
        let shared = Arc::new(Shared { engine, mint, options: given, handles: AtomicUsize::new(1) });
        if let Some(key) = path.and_then(key)
            && let Some(mut opened) = OPENED.try_lock_for(PATIENCE)
        {
            opened.retain(|(known, shared)| shared.strong_count() > 0 || known.process != process);
            let earlier = opened.iter().filter(|(known, _)| *known == key).find_map(|(_, shared)| shared.upgrade());
            if let Some(earlier) = earlier.filter(|earlier| earlier.join()) {
                // Another thread was as fast. What was opened here is closed by being dropped.
                drop(opened);
                return Self::joined(earlier, process, &shared.options);
            }
            opened.push((key, Arc::downgrade(&shared)));
        }
        Ok(Self { shared, process, closed: AtomicBool::new(false) })
    }

    /// A handle on an engine that nobody else has, nor will have.
    pub(crate) fn alone(engine: Engine, given: Options) -> Self {
        let mint = IdMint::new(given.id_seed);
        let shared = Arc::new(Shared { engine, mint, options: given, handles: AtomicUsize::new(1) });
        Self { shared, process: std::process::id(), closed: AtomicBool::new(false) }
    }

    /// A handle on an engine that has counted it already; refused when it was to be opened otherwise.
    fn joined(shared: Arc<Shared>, process: u32, given: &Options) -> Result<Self> {
        let handle = Self { shared, process, closed: AtomicBool::new(false) };
        if let Some((name, open, wanted)) = options::difference(&handle.shared.options, given) {
            let message = format!("this process has the store open with {open}, not {wanted}; the two must agree");
            return Err(Error::invalid(name, message));
        }
        Ok(handle)
    }

    /// The process that opened it.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// The engine, while this handle is open.
    pub(crate) fn engine(&self) -> Result<&Engine> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(&self.shared.engine) }
    }

    /// Makes the ids of all handles on the store.
    pub(crate) fn mint(&self) -> &IdMint {
        &self.shared.mint
    }

    /// Writes what is pending; the last handle lets go of the files. Closing twice is fine.
    pub(crate) fn close(&self, now: Micros) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if self.shared.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            return self.shared.engine.close(now);
        }
        self.shared.engine.maintain(0, now).map(|_| ())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            // Inherited: closing would write with locks that this process does not hold.
            std::mem::forget(Arc::clone(&self.shared));
        } else if !self.closed.swap(true, Ordering::AcqRel) {
            self.shared.handles.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The engine that is open under this key, with one more handle counted.
fn find(key: &Key) -> Option<Arc<Shared>> {
    let opened = OPENED.try_lock_for(PATIENCE)?;
    let shared = opened.iter().filter(|(known, _)| known == key).find_map(|(_, shared)| shared.upgrade());
    shared.filter(|shared| shared.join())
}

/// SQLite believes of the connections that a fork copied here that they hold their locks. While it does, a fresh one on
/// the same file would lock nothing.
fn let_go_of_inherited(key: &Key) -> Result<()> {
    let Some(mut opened) = OPENED.try_lock_for(PATIENCE) else { return Err(Error::Forked) };
    let inherited = |known: &Key| known.process != key.process && known.place == key.place;
    for (known, shared) in opened.iter() {
        if inherited(known)
            && let Some(shared) = shared.upgrade()
        {
            let released = shared.engine.release_after_fork();
            std::mem::forget(shared);
            released?;
        }
    }
    opened.retain(|(known, _)| !inherited(known));
    Ok(())
}
