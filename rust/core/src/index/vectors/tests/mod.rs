//! The index as a whole: against naive models, against its own scan, and under threads.

mod clustered;
mod flat;
mod graph;

use super::*;

fn index_of(prepared: &Prepared, rows: impl IntoIterator<Item = Row>, config: VectorConfig) -> VectorIndex {
    let mut index = VectorIndex::new(prepared.dimension(), config);
    for (i, row) in rows.into_iter().enumerate() {
        index.insert(row, prepared, i);
    }
    index
}

/// Whether `left` comes first: the larger cosine, then the smaller row.
fn ranks_before(left: (Row, f32), right: (Row, f32)) -> bool {
    right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)).is_lt()
}

/// So many vectors, the same ones for the same seed.
pub(super) fn random_vectors(count: usize, dimension: usize, seed: u64) -> Vec<f32> {
    let mut state = seed ^ 0x2545_f491_4f6c_dd1d;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / (1 << 23) as f32) - 1.0
    };
    (0..count * dimension).map(|_| next()).collect()
}
