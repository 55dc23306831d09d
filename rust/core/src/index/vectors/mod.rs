//! What finds rows by meaning: the cosine of their vectors with the vector of a question.
//!
//! Owns the vectors in RAM: i8 codes that are scanned, f16 values that the best are scored from again, and, for
//! large stores, a graph over the codes. Calls `base` alone. Promises: an answer holds only rows of the mask that
//! was handed in, its numbers are exact cosines of the f16 values, and equal ones go to the smaller row; whether
//! the rows themselves were found by scan or by graph is said in the [`Plan`].

mod codes;
mod duplicates;
mod flat;
mod kernels;
mod prepared;
#[cfg(test)]
mod tests;

use codes::{Codes, Halves};
use kernels::Kernels;

pub use duplicates::near_duplicate_pairs;
pub use prepared::{Prepared, QueryVector, prepare, query_vector};

use crate::base::{Row, RowSet};

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
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Rows and their cosines, best first, ties to the smaller row.
    pub rows: Vec<(Row, f32)>,
    /// The way taken.
    pub plan: Plan,
}

/// The vectors of one store.
#[derive(Debug)]
pub struct VectorIndex {
    dimension: usize,
    config: VectorConfig,
    kernels: &'static Kernels,
    codes: Codes,
    halves: Halves,
    present: RowSet,
    count: usize,
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
        let (rows, seen) = self.scan(query, self.allowed(mask), k);
        let plan = match seen {
            0 => Plan::Empty,
            seen if seen == self.count => Plan::Flat,
            _ => Plan::Gather,
        };
        Found { rows, plan }
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
}
