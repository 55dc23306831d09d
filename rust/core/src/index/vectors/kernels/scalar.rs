//! The portable kernels: what the others are measured against.

use super::{CodeQuery, Line};

pub(super) fn run(query: CodeQuery<'_>, rows: &[Line], dots: &mut [i32]) {
    for (dot, row) in dots.iter_mut().zip(rows.chunks_exact(query.lines.len())) {
        *dot = codes(query.lines, row);
    }
}

pub(super) fn gather(query: CodeQuery<'_>, rows: &[&[Line]], dots: &mut [i32]) {
    for (dot, row) in dots.iter_mut().zip(rows) {
        *dot = codes(query.lines, row);
    }
}

fn codes(query: &[Line], row: &[Line]) -> i32 {
    let line = |(query, row): (&Line, &Line)| -> i32 {
        query.0.iter().zip(&row.0).map(|(query, row)| i32::from(i16::from(*query) * i16::from(*row))).sum()
    };
    query.iter().zip(row).map(line).sum()
}

pub(super) fn half(values: &[f32], halves: &[u16]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0_f32; LANES];
    for (values, halves) in values.chunks(LANES).zip(halves.chunks(LANES)) {
        for ((sum, value), bits) in sums.iter_mut().zip(values).zip(halves) {
            *sum += value * widen(*bits);
        }
    }
    sums.iter().sum()
}

/// 2¹¹²: the exponents of f16 and f32 are biased by 15 and 127.
pub(super) const RAISE: f32 = f32::from_bits((127 + 112) << 23);

/// A finite f16 as f32. Moved to the place of an f32's bits it is 2¹¹² too small, subnormals too.
pub(in super::super) fn widen(bits: u16) -> f32 {
    let size = f32::from_bits(u32::from(bits & 0x7fff) << 13) * RAISE;
    f32::from_bits(size.to_bits() | u32::from(bits & 0x8000) << 16)
}
