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

mod input;
mod maintain;
mod picture;
mod read;
mod search;
mod transfer;
mod uses;
pub mod visibility;
mod write;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

pub use input::{NewMemory, Patch};
pub use maintain::{Consolidation, Maintained, Moved};
pub use read::{Item, Listing, Stats, TierCount};
pub use search::{Hits, Query};
pub use transfer::{Chunk, Export, Import, Origin, Part};
pub use visibility::{MASK, Viewer};
pub use write::{Added, Model};

use crate::base::{Error, Micros, Result};
use crate::disk::{Disk, DiskOptions};
use crate::index::keywords::KeywordConfig;
use crate::index::vectors::VectorConfig;
use crate::rank::Laws;
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
        Ok(Self {
            config,
            disk,
            picture: RwLock::new(picture),
            gate: Mutex::new(()),
            uses: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        })
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
        self.disk.close()?;
        flushed
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Takes over what other handles and processes have committed. Cheap when nothing was; skipped while a writer of
    /// this engine is at work, who does it himself.
    fn catch_up(&self) -> Result<()> {
        self.check_open()?;
        match self.gate.try_lock() {
            Some(_gate) => self.catch_up_behind_gate(),
            None => Ok(()),
        }
    }

    /// While a write of ours is in flight the store is locked for others, and the picture is ahead of the disk.
    fn catch_up_behind_gate(&self) -> Result<()> {
        if self.in_flight.load(Ordering::SeqCst) > 0 {
            return Ok(());
        }
        let known = self.picture.read().commit();
        if !self.disk.changed(known)? {
            return Ok(());
        }
        let mut fresh = Vec::new();
        let loaded = self.disk.load_since(known, &mut |row| {
            fresh.push(picture::Analyzed::new(row)?);
            Ok(())
        })?;
        if loaded.reload {
            return self.reload();
        }
        self.picture.write().load_model(&self.disk)?;
        let mut picture = self.picture.write();
        for row in fresh {
            picture.take(row)?;
        }
        picture.set_commit(loaded.commit);
        Ok(())
    }

    /// Forgets the picture and takes the disk's.
    fn reload(&self) -> Result<()> {
        let mut picture = Picture::new(&self.config);
        picture.load(&self.disk)?;
        *self.picture.write() = picture;
        Ok(())
    }
}
