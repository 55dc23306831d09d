//! What finds rows by meaning: the cosine of their vectors with the vector of a question.
//!
//! Owns the vectors in RAM: i8 codes that are scanned, f16 values that the best are scored from again, and, for
//! large stores, a graph over the codes. Calls `base` alone. Promises: an answer holds only rows of the mask that
//! was handed in, its numbers are exact cosines of the f16 values, and equal ones go to the smaller row; whether
//! the rows themselves were found by scan or by graph is said in the [`Plan`].

mod codes;
mod duplicates;
mod flat;
mod graph;
mod kernels;
mod persist;
mod planner;
mod prepared;
#[cfg(test)]
mod tests;

use codes::{Codes, Halves};
use graph::Graph;
use kernels::Kernels;
use planner::Way;

pub use duplicates::near_duplicate_pairs;
pub use graph::SavedGraph;
pub use persist::VectorsSaver;
pub use prepared::{Prepared, QueryVector, prepare, query_vector};

use std::sync::Arc;

use crate::base::{Result, Row, RowSet};

/// The version of usearch that is built in.
pub fn usearch_version() -> &'static str {
    usearch::version()
}

/// The instructions that the scans of this machine use.
pub fn kernel_name() -> &'static str {
    Kernels::best().name()
}

/// When a graph is built, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorConfig {
    /// Bytes of codes above which a graph beats the scan.
    pub graph_bytes: usize,
    /// Neighbours of a node; its lowest level has twice as many.
    pub connectivity: usize,
    /// Candidates looked at when a node is added.
    pub expansion_add: usize,
    /// Candidates looked at by a search, at least; it grows with the store and with k.
    pub expansion_search: usize,
    /// Share of dead nodes past which the graph is built anew.
    pub max_dead_share: f32,
}

impl Default for VectorConfig {
    fn default() -> Self {
        Self { graph_bytes: 16 << 20, connectivity: 16, expansion_add: 128, expansion_search: 64, max_dead_share: 0.25 }
    }
}

/// The way that a search took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Plan {
    /// No row of the mask has a vector, or none was asked for.
    Empty,
    /// Every vector was scanned.
    Flat,
    /// The vectors of the mask were scanned.
    Gather,
    /// The graph was walked; it holds every vector of the mask.
    Graph {
        /// Candidates that the walk kept.
        expansion: usize,
    },
    /// The graph was walked, and the vectors that it does not hold yet were scanned.
    GraphWithTail {
        /// Candidates that the walk kept.
        expansion: usize,
        /// Vectors scanned.
        tail: usize,
    },
    /// A walk was given up, or came back with too little; the vectors of the mask were scanned after it.
    GraphThenScan {
        /// Candidates that the walk was to keep.
        expansion: usize,
    },
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Rows and their cosines, best first, ties to the smaller row.
    pub rows: Vec<(Row, f32)>,
    /// The way taken.
    pub plan: Plan,
}

/// How an index stands.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorStats {
    /// Rows that have a vector, dead or alive.
    pub vectors: usize,
    /// Nodes of the graph that serves.
    pub graph_nodes: usize,
    /// Nodes of the graph that is being built to take over.
    pub building_nodes: usize,
    /// Vectors that the serving graph does not hold: they are scanned.
    pub tail: usize,
    /// Share of the graph's nodes that were dead when it was last looked at.
    pub dead_share: f32,
    /// Bytes of i8 codes.
    pub code_bytes: usize,
    /// Bytes on the heap, the graph's included.
    pub heap_bytes: usize,
    /// The instruction set of the scan.
    pub kernels: &'static str,
    /// The instruction set of the graph, when there is one.
    pub graph_kernels: Option<String>,
    /// Why the graph was taken out of service, if it was; every search scans since.
    pub graph_failure: Option<String>,
}

/// The vectors of one store.
///
/// Many may search while one absorbs; inserting needs the index alone.
#[derive(Debug)]
pub struct VectorIndex {
    dimension: usize,
    config: VectorConfig,
    kernels: &'static Kernels,
    codes: Codes,
    halves: Halves,
    present: RowSet,
    count: usize,
    /// Shared with who saves it, which takes too long to hold the index for.
    graph: Arc<Graph>,
}

impl VectorIndex {
    /// An index of vectors of `dimension` values, without any.
    pub fn new(dimension: usize, config: VectorConfig) -> Self {
        Self {
            dimension,
            config,
            kernels: Kernels::best(),
            codes: Codes::new(dimension),
            halves: Halves::new(dimension),
            present: RowSet::new(),
            count: 0,
            graph: Arc::default(),
        }
    }

    /// Values per vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Gives `row` the `i`-th prepared vector. A row is given a vector once; a changed memory is a new row.
    ///
    /// # Panics
    /// When the vectors are not of this index's dimension, which the caller has checked.
    pub fn insert(&mut self, row: Row, prepared: &Prepared, i: usize) {
        assert_eq!(prepared.dimension(), self.dimension, "vectors of one index have one dimension");
        debug_assert!(!self.present.contains(row), "row {} has a vector already", row.0);
        self.codes.put(row, prepared.row_lines(i), prepared.measure(i));
        self.halves.put(row, prepared.f16_bits(i));
        self.present.insert(row);
        self.count += 1;
        self.graph.count_in(1);
    }

    /// Whether the row has a vector.
    pub fn contains(&self, row: Row) -> bool {
        self.present.contains(row)
    }

    /// The rows that have a vector, dead or alive.
    pub fn rows_with_vectors(&self) -> &RowSet {
        &self.present
    }

    /// How many rows have a vector.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The row's vector as it is kept, of length one.
    pub fn vector(&self, row: Row) -> Option<Vec<f32>> {
        self.contains(row).then(|| self.halves.get(row).iter().map(|bits| kernels::widen(*bits)).collect())
    }

    /// The `k` rows of the mask with the largest cosines.
    ///
    /// # Panics
    /// When the query was made for another dimension.
    pub fn search(&self, query: &QueryVector, mask: &RowSet, k: usize) -> Found {
        assert_eq!(query.dimension(), self.dimension, "queries and vectors have one dimension");
        if k == 0 {
            return Found { rows: Vec::new(), plan: Plan::Empty };
        }
        if let Some(found) = self.walk(query, mask, k) {
            return found;
        }
        let (rows, seen) = self.scan(query, self.allowed(mask), k);
        let plan = match seen {
            0 => Plan::Empty,
            seen if seen == self.count => Plan::Flat,
            _ => Plan::Gather,
        };
        Found { rows, plan }
    }

    /// Searches by the graph, when there is one and the planner prefers it: the walk for what it holds, a scan for the
    /// rest, both under one hold of the graph, so that no row falls between them.
    fn walk(&self, query: &QueryVector, mask: &RowSet, k: usize) -> Option<Found> {
        let allowed = self.allowed(mask);
        self.graph.with(|built| {
            let held = |place: usize| built.rows.words().get(place).copied().unwrap_or(0);
            let (mut matching, mut tail) = (0, 0);
            for place in 0..self.present.words().len() {
                let (word, held) = (allowed(place), held(place));
                matching += (word & held).count_ones() as usize;
                tail += (word & !held).count_ones() as usize;
            }
            let expansion = planner::expansion(self.config.expansion_search, built.nodes, k);
            let Way::Walk { budget } = planner::choose(built.nodes, matching, expansion) else { return None };
            let walk = self.graph.walk(built, &query.bare_codes(), expansion, mask, budget)?;
            if walk.tripped || walk.rows.len() < k.min(matching) {
                let (rows, _) = self.scan(query, &allowed, k);
                return Some(Found { rows, plan: Plan::GraphThenScan { expansion } });
            }
            let mut rows = self.rescore(query, walk.rows);
            if tail == 0 {
                rows.truncate(k);
                return Some(Found { rows, plan: Plan::Graph { expansion } });
            }
            rows.extend(self.scan(query, |place| allowed(place) & !held(place), k).0);
            flat::rank(&mut rows);
            rows.truncate(k);
            Some(Found { rows, plan: Plan::GraphWithTail { expansion, tail } })
        })?
    }

    /// The rows of the mask that have a vector, 64 a word.
    fn allowed<'a>(&'a self, mask: &'a RowSet) -> impl Fn(usize) -> u64 + 'a {
        let (mask, present) = (mask.words(), self.present.words());
        move |place| mask.get(place).zip(present.get(place)).map_or(0, |(mask, present)| mask & present)
    }

    /// The cosine of each row with the query; NaN where a row has no vector.
    ///
    /// # Panics
    /// When the query was made for another dimension.
    pub fn cosines(&self, query: &QueryVector, rows: &[Row]) -> Vec<f32> {
        assert_eq!(query.dimension(), self.dimension, "queries and vectors have one dimension");
        rows.iter().map(|row| if self.contains(*row) { self.cosine(query, *row) } else { f32::NAN }).collect()
    }

    /// The cosine of two rows, when both have a vector.
    pub fn cosine_between(&self, a: Row, b: Row) -> Option<f32> {
        (self.contains(a) && self.contains(b)).then(|| self.cosine(&self.query_of(a), b))
    }

    /// The question for what is near a row.
    fn query_of(&self, row: Row) -> QueryVector {
        QueryVector::of_halves(self.halves.get(row))
    }

    /// Brings at most `rows` living rows into the graph, when one pays, and says how many still wait. Takes up to a
    /// millisecond a row; searches go on beside it. A graph of which too much is dead is built anew, slice by slice,
    /// while the old one serves.
    pub fn absorb(&self, rows: usize, alive: &RowSet) -> usize {
        let mut wanted = self.present.clone();
        wanted.intersect(alive);
        self.graph.absorb(&wanted, rows, &self.codes, self.dimension, &self.config)
    }

    /// How many rows wait for [`absorb`](Self::absorb). Rows inserted since it last looked all count, dead ones too;
    /// none do in a store so small that no graph pays.
    pub fn pending(&self) -> usize {
        let pays = self.count * self.codes.row_bytes() > self.config.graph_bytes;
        if pays || self.graph.serves() { self.graph.waiting() } else { 0 }
    }

    /// How the index stands.
    pub fn stats(&self) -> VectorStats {
        let graph = self.graph.stats();
        VectorStats {
            vectors: self.count,
            graph_nodes: graph.nodes,
            building_nodes: graph.building,
            tail: self.count - graph.nodes,
            dead_share: graph.dead_share,
            code_bytes: self.codes.bytes(),
            heap_bytes: self.codes.heap_bytes()
                + self.halves.heap_bytes()
                + size_of_val(self.present.words())
                + graph.heap_bytes,
            kernels: self.kernels.name(),
            graph_kernels: graph.acceleration,
            graph_failure: graph.failure,
        }
    }

    /// The serving graph as bytes, to be kept in a file with a checksum. Nothing when there is none.
    pub fn graph_to_bytes(&self) -> Option<Vec<u8>> {
        self.saved_graph().to_bytes()
    }

    /// The graph, to be saved without the index in hand.
    pub fn saved_graph(&self) -> SavedGraph {
        SavedGraph { graph: Arc::clone(&self.graph), dimension: self.dimension, config: self.config.clone() }
    }

    /// Puts a graph saved from the same vectors into service, after they were inserted. The caller has verified a
    /// checksum: usearch believes what it is given. An error leaves the index as it was, and a graph is built anew.
    pub fn graph_from_bytes(&self, bytes: &[u8]) -> Result<()> {
        self.graph.restore(bytes, &self.present, self.dimension, &self.config)
    }
}
