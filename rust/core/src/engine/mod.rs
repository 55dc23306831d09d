//! F4: the engine: locks, batch operations, the plan of a search, maintenance.
//!
//! Owns the one living picture of a store: the columns and indexes in RAM, and the disk behind them.
//!
//! **Locks**, taken in this order and no other: the *gate* (one writer at a time plans and writes), the disk's own, the
//! *picture* (readers share it, a writer has it alone for the moment in which changes are applied), the pending uses.
//! Nothing waits for the disk's writer with the picture in hand; texts are fetched with no lock held.
//!
//! **Promises.** A change is on disk and in the picture before its call returns. A call that fails changes nothing.
//! Every read goes through [`visibility`].

mod derived;
mod erase;
mod input;
mod maintain;
mod picture;
mod read;
mod search;
mod transfer;
mod upkeep;
mod uses;
pub mod visibility;
mod write;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

pub use erase::{Erase, Erasure, Residue, Review, Scope};
pub use input::{NewMemory, Patch};
pub use maintain::{Consolidation, Maintained, Moved};
pub use read::{Item, Listing, Stats, TierCount};
pub use search::{Hits, Query};
pub use transfer::{Chunk, Export, Import, Origin, Part};
pub use upkeep::{Compacted, KnownCopy, Verified};
pub use visibility::{MASK, Viewer};
pub use write::{Added, Model};

use crate::base::{Error, Micros, Result, RowSet};
use crate::disk::{Disk, DiskOptions};
use crate::index::keywords::KeywordConfig;
use crate::index::vectors::VectorConfig;
use crate::rank::Laws;
use derived::Saving;
use picture::Picture;
use uses::PendingUses;

/// Everything an engine is told at its birth.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// The constants of the laws.
    pub laws: Laws,
    /// BM25's parameters.
    pub keywords: KeywordConfig,
    /// When a graph pays, and how it is built.
    pub vectors: VectorConfig,
    /// Candidates that each arm of a search gives at least, so that strength and importance have something to order.
    pub candidates: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            laws: Laws::default(),
            keywords: KeywordConfig::default(),
            vectors: VectorConfig::default(),
            candidates: 100,
        }
    }
}

/// A store of memories, open for use by any number of threads.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    disk: Disk,
    picture: RwLock<Picture>,
    /// Held by the one who writes.
    gate: Mutex<()>,
    uses: Mutex<PendingUses>,
    /// Writes that are on their way to the disk, some of them in the picture already.
    in_flight: AtomicUsize,
    /// The picture shows what did not reach the disk, and could not be loaded anew so far.
    outdated: AtomicBool,
    saving: Saving,
    closed: AtomicBool,
}

impl Engine {
    /// Opens the store in a directory, making it when it is missing; `None` is a store in RAM.
    pub fn open(directory: Option<&Path>, options: DiskOptions, config: EngineConfig) -> Result<Self> {
        config.laws.check()?;
        Self::over(Disk::open(directory, options)?, config)
    }

    /// An engine over a disk that is open already.
    fn over(disk: Disk, config: EngineConfig) -> Result<Self> {
        let mut picture = Picture::new(&config);
        picture.load(&disk)?;
        let now = disk.options().now;
        let engine = Self {
            config,
            disk,
            picture: RwLock::new(picture),
            gate: Mutex::new(()),
            uses: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            outdated: AtomicBool::new(false),
            saving: Saving::default(),
            closed: AtomicBool::new(false),
        };
        if engine.disk.check_writable().is_ok() && engine.is_erasing()? {
            match engine.complete_erasure(now) {
                // Another process is at it, or will be; the intent stays until one of them is done.
                Ok(_) | Err(Error::Locked { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(engine)
    }

    /// The laws this engine goes by.
    pub fn laws(&self) -> &Laws {
        &self.config.laws
    }

    /// The disk behind the engine, for what needs no picture: history, SQL, backup.
    pub fn disk(&self) -> Result<&Disk> {
        self.check_open()?;
        Ok(&self.disk)
    }

    /// Writes what is pending and lets go of the files. Closing twice is fine.
    pub fn close(&self, now: Micros) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let flushed = if self.disk.check_writable().is_ok() { self.flush_uses(now) } else { Ok(()) };
        self.save_if_behind(false, now);
        self.disk.close()?;
        flushed
    }

    /// Lets go of the files without writing, in a process that a fork made; see [`Disk::release_after_fork`].
    pub fn release_after_fork(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        self.disk.release_after_fork()
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Takes over what other handles and processes have committed. Cheap when nothing was; left to the writer of this
    /// engine who is at work, unless there is something that he cannot have seen.
    fn catch_up(&self) -> Result<()> {
        self.check_open()?;
        if let Some(_gate) = self.gate.try_lock() {
            return self.catch_up_behind_gate();
        }
        if self.shared() {
            let last = self.disk.last_commit()?;
            if last > self.picture.read().commit() {
                let _gate = self.gate.lock();
                return self.catch_up_behind_gate();
            }
        }
        Ok(())
    }

    /// Whether others can write into the store at all.
    fn shared(&self) -> bool {
        self.disk.path().is_some()
    }

    /// Call with the gate in hand. While writes of ours are in flight the picture is ahead of the disk, and nobody else
    /// can commit; once the disk is ahead of the picture, ours have all arrived.
    fn catch_up_behind_gate(&self) -> Result<()> {
        if self.outdated.load(Ordering::SeqCst) {
            return self.reload();
        }
        if !self.shared() {
            return Ok(());
        }
        let last = self.disk.last_commit()?;
        let known = self.picture.read().commit();
        if last == known || (last < known && self.in_flight.load(Ordering::SeqCst) > 0) {
            return Ok(());
        }
        let mut fresh = Vec::new();
        let loaded = self.disk.load_since(known, &mut |row| {
            fresh.push(picture::Analyzed::new(row)?);
            Ok(())
        })?;
        let other_model = loaded.model != self.picture.read().model_generation;
        // A damaged row leaves every column, so it is left out by loading anew as it is at open.
        if loaded.reload || other_model || !loaded.damaged.is_empty() {
            return self.reload();
        }
        let model = self.disk_model()?;
        let mut picture = self.picture.write();
        if let Some(model) = model {
            picture.set_model(model);
        }
        let rows = RowSet::from_rows(fresh.iter().map(|row| row.row));
        for row in fresh {
            if picture.take(row).is_err() {
                // Names that no memory carries any more take up room; a new picture does without them.
                drop(picture);
                return self.reload();
            }
        }
        self.count_pending(&mut picture, |row| rows.contains(row));
        picture.set_commit(loaded.commit);
        Ok(())
    }

    /// The model on disk, when the picture has none.
    fn disk_model(&self) -> Result<Option<Model>> {
        if self.picture.read().model.is_some() { Ok(None) } else { Picture::disk_model(&self.disk) }
    }

    /// Forgets the picture and takes the disk's, with the uses that are not on disk yet. Call with the gate in hand. When
    /// it fails, the next call tries again.
    fn reload(&self) -> Result<()> {
        self.outdated.store(true, Ordering::SeqCst);
        let mut fresh = Picture::new(&self.config);
        fresh.load(&self.disk)?;
        let mut picture = self.picture.write();
        self.count_pending(&mut fresh, |_| true);
        fresh.follow(&mut picture);
        *picture = fresh;
        self.outdated.store(false, Ordering::SeqCst);
        Ok(())
    }
}
