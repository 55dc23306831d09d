//! The graph over the codes, and the fence around usearch.
//!
//! What the fence holds, each because the library breaks without it: one writer, and no walk beside a write to the
//! same graph (a lock); room and threads are reserved before use and alone (`&mut`); never more walks at once than
//! threads reserved ([`Gate`]); nothing is ever removed, renamed or compacted, the graph only grows and is built anew
//! when too much of it is dead; only checked codes go in; the predicate cannot panic; and a row that comes out counts
//! only if the mask says so too. An error of the library takes the graph out of service, never the search.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex, RwLock, RwLockWriteGuard};
use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

use super::VectorConfig;
use super::codes::Codes;
use crate::base::{Error, Result, Row, RowSet};

/// Walks at once in one graph; more wait for their turn. The library keeps scratch memory for each.
const WALKS: usize = 32;
/// Rows added under one hold of the lock that walks wait for.
const HELD: usize = 2;
/// A graph built aside takes over when so few rows are missing; the rest is added in place.
const CAUGHT_UP: usize = 256;
/// Least room of a new graph.
const FIRST_ROOM: usize = 4_096;
/// What a saved graph starts with; the digit is the version of the layout.
const MAGIC: &[u8; 8] = b"TMGRAPH1";
/// Magic, dimension, connectivity, words of the row set, bytes of the library's own format.
const HEADER: usize = 8 + 4 + 4 + 8 + 8;

/// The graph of one index, in whatever state: none, built aside, serving, out of service.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// The one that is walked.
    serving: RwLock<Option<Built>>,
    /// The one that is being built; whoever holds this lock is the writer.
    next: Mutex<Option<Built>>,
    gate: Gate,
    /// Whether there is anything to walk: spares flat stores the lock.
    serves: AtomicBool,
    /// Rows that have a vector and wait for a graph that pays.
    waiting: AtomicUsize,
    /// Dead nodes over nodes at the last look, as the bits of an f32.
    dead_share: AtomicU32,
    /// Nodes and bytes of the graph that is being built, as of the last slice: asking must not wait for the writer.
    building: AtomicUsize,
    building_bytes: AtomicUsize,
    failure: Mutex<Option<String>>,
}

/// The graph of an index in the hands of who saves it. Walks go on meanwhile, and so does everything but the graph's
/// own growth.
#[derive(Debug)]
pub struct SavedGraph {
    pub(super) graph: Arc<Graph>,
    pub(super) dimension: usize,
    pub(super) config: VectorConfig,
}

impl SavedGraph {
    /// The serving graph as bytes; nothing when none serves.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        self.graph.to_bytes(self.dimension, &self.config)
    }

    /// How many nodes it has now.
    pub fn nodes(&self) -> usize {
        self.graph.with(|built| built.nodes).unwrap_or(0)
    }
}

/// What a walk came back with.
#[derive(Debug)]
pub(super) struct Walk {
    /// Rows of the mask, in no promised order.
    pub(super) rows: Vec<Row>,
    /// Whether the walk was given up.
    pub(super) tripped: bool,
}

/// One graph of the library, and which rows are in it.
pub(super) struct Built {
    index: Index,
    pub(super) rows: RowSet,
    pub(super) nodes: usize,
}

impl std::fmt::Debug for Built {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Built").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

/// How the graph stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct GraphStats {
    pub(super) nodes: usize,
    pub(super) building: usize,
    pub(super) heap_bytes: usize,
    pub(super) acceleration: Option<String>,
    pub(super) dead_share: f32,
    pub(super) failure: Option<String>,
}

impl Built {
    /// An empty graph. The expansion of a search is asked for query by query, through the count of its results.
    fn new(dimension: usize, config: &VectorConfig) -> Result<Self, String> {
        let index = Index::new(&IndexOptions {
            dimensions: dimension,
            metric: MetricKind::Cos,
            quantization: ScalarKind::I8,
            connectivity: config.connectivity,
            expansion_add: config.expansion_add,
            expansion_search: 1,
            multi: false,
        })
        .map_err(told)?;
        Ok(Self { index, rows: RowSet::new(), nodes: 0 })
    }

    /// Adds a row. `&mut` is the promise that nobody walks meanwhile.
    fn add(&mut self, row: Row, codes: &[i8]) -> Result<(), String> {
        let room = self.index.capacity();
        if self.nodes >= room {
            let room = (room + room / 2).max(FIRST_ROOM);
            self.index.reserve_capacity_and_threads(room, WALKS).map_err(told)?;
            if self.index.capacity() <= self.nodes {
                return Err(format!("no room for {room} nodes"));
            }
        }
        self.index.add(u64::from(row.0), codes).map_err(told)?;
        self.rows.insert(row);
        self.nodes += 1;
        Ok(())
    }

    /// Adds these rows, none of which is in it.
    fn take(&mut self, rows: &[Row], codes: &Codes, buffer: &mut [i8]) -> Result<(), String> {
        for row in rows {
            codes.copy_to(*row, buffer);
            self.add(*row, buffer)?;
        }
        Ok(())
    }

    /// The rows of the mask near the query. The walk is given up after `budget` calls of its predicate: from then on
    /// everything passes, the library's heap fills up, and what came in that way is dropped here.
    fn walk(&self, query: &[i8], expansion: usize, mask: &RowSet, budget: Option<usize>) -> Result<Walk, String> {
        let allows = |key: u64| u32::try_from(key).is_ok_and(|row| mask.contains(Row(row)));
        let calls = std::cell::Cell::new(0_usize);
        let found = match budget {
            None => self.index.search(query, expansion),
            // Nothing in here can panic, which would end the process: the sum wraps and the set answers for any row.
            Some(budget) => self.index.filtered_search(query, expansion, |key| {
                calls.set(calls.get().wrapping_add(1));
                calls.get() > budget || allows(key)
            }),
        }
        .map_err(told)?;
        let rows = found.keys.into_iter().filter(|key| allows(*key)).map(|key| Row(key as u32)).collect();
        Ok(Walk { rows, tripped: budget.is_some_and(|budget| calls.get() > budget) })
    }

    fn heap_bytes(&self) -> usize {
        let stats = self.index.memory_stats();
        stats.graph_allocated + stats.vectors_allocated + self.rows.words().len() * 8
    }
}

impl Graph {
    /// Whether there is a graph to walk.
    pub(super) fn serves(&self) -> bool {
        self.serves.load(Ordering::Acquire)
    }

    /// Hands the graph to `look`, which may walk it; writes wait meanwhile. Nothing when there is none.
    pub(super) fn with<T>(&self, look: impl FnOnce(&Built) -> T) -> Option<T> {
        if !self.serves() {
            return None;
        }
        self.serving.read().as_ref().map(look)
    }

    /// Walks, when fewer than [`WALKS`] do, and otherwise after one of them. An error takes the graph out of service.
    pub(super) fn walk(
        &self,
        built: &Built,
        query: &[i8],
        expansion: usize,
        mask: &RowSet,
        budget: Option<usize>,
    ) -> Option<Walk> {
        let _turn = self.gate.enter();
        built.walk(query, expansion, mask, budget).map_err(|failure| self.fail(failure)).ok()
    }

    fn fail(&self, failure: String) {
        self.serves.store(false, Ordering::Release);
        self.failure.lock().get_or_insert(failure);
    }

    /// So many more rows have a vector.
    pub(super) fn count_in(&self, rows: usize) {
        self.waiting.fetch_add(rows, Ordering::Relaxed);
    }

    /// Rows that were given a vector and that no graph holds yet, as of the last look of `absorb`.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Brings at most `limit` of the `wanted` rows into the graph, or into the one that is being built, and says how
    /// many are still missing.
    pub(super) fn absorb(
        &self,
        wanted: &RowSet,
        limit: usize,
        codes: &Codes,
        dimension: usize,
        config: &VectorConfig,
    ) -> usize {
        let mut next = self.next.lock();
        let still = match self.absorb_as_writer(&mut next, wanted, limit, codes, dimension, config) {
            Ok(still) => still,
            Err(failure) => {
                self.fail(failure);
                *next = None;
                *self.serving.write() = None;
                0
            }
        };
        self.waiting.store(still, Ordering::Relaxed);
        self.building.store(next.as_ref().map_or(0, |next| next.nodes), Ordering::Relaxed);
        self.building_bytes.store(next.as_ref().map_or(0, Built::heap_bytes), Ordering::Relaxed);
        still
    }

    fn absorb_as_writer(
        &self,
        next: &mut Option<Built>,
        wanted: &RowSet,
        limit: usize,
        codes: &Codes,
        dimension: usize,
        config: &VectorConfig,
    ) -> Result<usize, String> {
        if let Some(failure) = self.failure.lock().clone() {
            return Err(failure);
        }
        let mut buffer = vec![0; dimension];
        let alive = self.with(|built| (built.nodes, both(&built.rows, wanted)));
        let dead_share = alive.map_or(0.0, |(nodes, alive)| (nodes - alive) as f32 / nodes.max(1) as f32);
        self.dead_share.store(dead_share.to_bits(), Ordering::Relaxed);
        let pays = wanted.count().saturating_mul(codes.row_bytes()) > config.graph_bytes;
        if next.is_none() && (alive.is_none() && pays || dead_share > config.max_dead_share) {
            *next = Some(Built::new(dimension, config)?);
        }
        if let Some(built) = next {
            let mut still = missing(wanted, &built.rows);
            let rows: Vec<Row> = still.iter().take(limit).collect();
            built.take(&rows, codes, &mut buffer)?;
            still.subtract(&built.rows);
            let still = still.count();
            if still <= CAUGHT_UP {
                let old = std::mem::replace(&mut *self.serving.write(), next.take());
                self.serves.store(true, Ordering::Release);
                self.dead_share.store(0.0_f32.to_bits(), Ordering::Relaxed);
                drop(old);
            }
            return Ok(still);
        }
        let Some(still) = self.with(|built| missing(wanted, &built.rows)) else { return Ok(0) };
        let rows: Vec<Row> = still.iter().take(limit).collect();
        for rows in rows.chunks(HELD) {
            let mut serving = self.serving.write();
            if let Some(built) = serving.as_mut() {
                built.take(rows, codes, &mut buffer)?;
            }
            RwLockWriteGuard::unlock_fair(serving);
        }
        Ok(still.count() - rows.len())
    }

    pub(super) fn stats(&self) -> GraphStats {
        let (nodes, heap_bytes, acceleration) = self
            .with(|built| (built.nodes, built.heap_bytes(), Some(built.index.hardware_acceleration())))
            .unwrap_or_default();
        GraphStats {
            nodes,
            building: self.building.load(Ordering::Relaxed),
            heap_bytes: heap_bytes + self.building_bytes.load(Ordering::Relaxed),
            acceleration,
            dead_share: f32::from_bits(self.dead_share.load(Ordering::Relaxed)),
            failure: self.failure.lock().clone(),
        }
    }

    /// The serving graph as bytes, for a file that keeps a checksum of them. Nothing when none serves.
    pub(super) fn to_bytes(&self, dimension: usize, config: &VectorConfig) -> Option<Vec<u8>> {
        self.with(|built| {
            let words = built.rows.words();
            let length = built.index.serialized_length();
            let mut bytes = Vec::with_capacity(HEADER + words.len() * 8 + length);
            bytes.extend_from_slice(MAGIC);
            bytes.extend_from_slice(&(dimension as u32).to_le_bytes());
            bytes.extend_from_slice(&(config.connectivity as u32).to_le_bytes());
            bytes.extend_from_slice(&(words.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&(length as u64).to_le_bytes());
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            let start = bytes.len();
            bytes.resize(start + length, 0);
            built.index.save_to_buffer(&mut bytes[start..]).ok().map(|()| bytes)
        })?
    }

    /// Puts a saved graph into service. The caller has verified a checksum of the bytes: the library believes them.
    pub(super) fn restore(
        &self,
        bytes: &[u8],
        present: &RowSet,
        dimension: usize,
        config: &VectorConfig,
    ) -> Result<()> {
        let built = Self::read(bytes, present, dimension, config)
            .map_err(|message| Error::Corrupt { what: "the saved graph".into(), message })?;
        let mut next = self.next.lock();
        *next = None;
        *self.failure.lock() = None;
        self.waiting.store(missing(present, &built.rows).count(), Ordering::Relaxed);
        *self.serving.write() = Some(built);
        self.serves.store(true, Ordering::Release);
        Ok(())
    }

    fn read(bytes: &[u8], present: &RowSet, dimension: usize, config: &VectorConfig) -> Result<Built, String> {
        let short = || format!("it ends after {} bytes", bytes.len());
        let (head, rest) = bytes.split_at_checked(HEADER).ok_or_else(short)?;
        let number = |start: usize, length: usize| {
            head[start..start + length].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        if &head[..8] != MAGIC {
            return Err("it is no graph of this version".into());
        }
        if (number(8, 4), number(12, 4)) != (dimension as u64, config.connectivity as u64) {
            return Err(format!("it has dimension {} and connectivity {}", number(8, 4), number(12, 4)));
        }
        let words = usize::try_from(number(16, 8)).ok().and_then(|words| words.checked_mul(8)).ok_or_else(short)?;
        let (words, body) = rest.split_at_checked(words).ok_or_else(short)?;
        if body.len() as u64 != number(24, 8) {
            return Err(short());
        }
        let mut rows = RowSet::with_rows(words.len() * 8);
        for (place, byte) in words.iter().enumerate() {
            (0..8).filter(|bit| byte >> bit & 1 == 1).for_each(|bit| rows.insert(Row((place * 8 + bit) as u32)));
        }
        if !missing(&rows, present).is_empty() {
            return Err("it holds rows without a vector".into());
        }
        let nodes = rows.count();
        let head = Index::metadata_from_buffer(body).map_err(told)?;
        if head.dimensions != dimension as u64
            || head.metric != MetricKind::Cos
            || head.quantization != ScalarKind::I8
            || head.multi
            || (head.count_present, head.count_deleted) != (nodes as u64, 0)
        {
            return Err("its head contradicts itself".into());
        }
        let mut built = Built::new(dimension, config)?;
        built.index.load_from_buffer(body).map_err(told)?;
        if built.index.size() != nodes || built.index.connectivity() != config.connectivity {
            return Err("its body contradicts its head".into());
        }
        built.index.change_expansion_add(config.expansion_add);
        built.index.change_expansion_search(1);
        built.index.reserve_capacity_and_threads(nodes.max(FIRST_ROOM), WALKS).map_err(told)?;
        built.rows = rows;
        built.nodes = nodes;
        Ok(built)
    }
}

/// Lets [`WALKS`] through at once.
#[derive(Debug, Default)]
struct Gate {
    inside: Mutex<usize>,
    left: Condvar,
}

struct Turn<'a>(&'a Gate);

impl Gate {
    fn enter(&self) -> Turn<'_> {
        let mut inside = self.inside.lock();
        self.left.wait_while(&mut inside, |inside| *inside >= WALKS);
        *inside += 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.inside.lock() -= 1;
        self.0.left.notify_one();
    }
}

/// The rows of `wanted` that are not in `held`.
fn missing(wanted: &RowSet, held: &RowSet) -> RowSet {
    let mut missing = wanted.clone();
    missing.subtract(held);
    missing
}

/// How many rows are in both.
fn both(left: &RowSet, right: &RowSet) -> usize {
    left.words().iter().zip(right.words()).map(|(left, right)| (left & right).count_ones() as usize).sum()
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
