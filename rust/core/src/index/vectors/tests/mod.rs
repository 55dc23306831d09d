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
