//! Near-duplicates: rows whose vectors point almost the same way.

use super::codes::Line;
use super::flat::slack;
use super::kernels::{CodeQuery, Kernels};
use super::prepared::{Prepared, QueryVector};
use super::{Found, VectorIndex};
use crate::base::{Row, RowSet};

/// Rows of one block: they stay in the cache while every earlier row passes over them.
const BLOCK: usize = 256;

impl VectorIndex {
    /// The other rows of the mask whose cosine with `row` is at least `min_cosine`, best first, `limit` at most.
    /// Empty when the row has no vector. A scan misses none; where the planner walks the graph instead, the walk's
    /// recall holds.
    pub fn neighbours_above(&self, row: Row, mask: &RowSet, min_cosine: f32, limit: usize) -> Vec<(Row, f32)> {
        if !self.contains(row) || limit == 0 {
            return Vec::new();
        }
        let mut others = mask.clone();
        others.remove(row);
        let query = self.query_of(row);
        if let Some(Found { mut rows, .. }) = self.walk(&query, &others, limit) {
            rows.retain(|(_, cosine)| *cosine >= min_cosine);
            return rows;
        }
        self.scan_above(&query, self.allowed(&others), min_cosine, limit)
    }
}

/// Every pair `i < j` of the vectors with a cosine of at least `min_cosine`, in ascending order. None is missed: a
/// pair is passed over by its codes only when rounding cannot have hidden it.
pub fn near_duplicate_pairs(prepared: &Prepared, min_cosine: f32) -> Vec<(u32, u32, f32)> {
    let kernels = Kernels::best();
    let width = Line::per_row(prepared.dimension());
    let largest = (0..prepared.count()).map(|i| prepared.measure(i).factor).fold(0.0, f32::max);
    let mut dots = [0; BLOCK];
    let mut pairs = Vec::new();
    for start in (0..prepared.count()).step_by(BLOCK) {
        let end = (start + BLOCK).min(prepared.count());
        for i in 0..end {
            let first = start.max(i + 1);
            if first >= end {
                continue;
            }
            let mut query = None;
            let measure = prepared.measure(i);
            let floor = (min_cosine - slack(prepared.dimension(), measure.factor, largest)) / measure.factor;
            let dots = &mut dots[..end - first];
            kernels.run(CodeQuery::new(prepared.row_lines(i)), &prepared.lines()[first * width..end * width], dots);
            for (offset, dot) in dots.iter().enumerate() {
                let j = first + offset;
                let other = prepared.measure(j);
                if (*dot as f32) * other.factor < floor {
                    continue;
                }
                let query = query.get_or_insert_with(|| QueryVector::of_halves(prepared.f16_bits(i)));
                let product = kernels.half(query.values(), prepared.f16_bits(j));
                let cosine = (product * (measure.inverse_norm * other.inverse_norm)).clamp(-1.0, 1.0);
                if cosine >= min_cosine {
                    pairs.push((i as u32, j as u32, cosine));
                }
            }
        }
    }
    pairs.sort_unstable_by_key(|(i, j, _)| (*i, *j));
    pairs
}
