//! The matrix that is scanned: one row of i8 codes per vector, in whole cache lines, and two numbers beside it.

mod persist;

use crate::base::{Blob, Row};

/// Rows per chunk. A chunk is allocated when its first vector comes, and grows with them.
const CHUNK_ROWS: usize = 4_096;
/// Rows that a new chunk has room for.
const FIRST_ROWS: usize = 64;

/// 64 codes, one cache line. Codes past the dimension are zero and add nothing to a dot product.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [i8; Line::CODES]);

impl Line {
    pub(super) const CODES: usize = 64;
    pub(super) const ZERO: Self = Self([0; Self::CODES]);

    /// Lines that a row of `dimension` codes takes.
    pub(super) fn per_row(dimension: usize) -> usize {
        dimension.div_ceil(Self::CODES)
    }
}

/// What stands beside a row's codes: `cosine ≈ dot(query codes, row codes) · query factor · factor`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measure {
    /// The value of one code step, divided by the norm.
    pub(super) factor: f32,
    /// One over the norm of the f16 values.
    pub(super) inverse_norm: f32,
}

/// Writes the codes of `values` into zeroed `lines` and says what stands beside them. The largest absolute value
/// becomes ±127, the rest is rounded to the nearest step, ties to even. `values` are finite and not all zero.
pub(super) fn encode(values: &[f32], lines: &mut [Line]) -> Measure {
    /// Adding 1.5 · 2²³ leaves a number below 2²² rounded to an integer in the low mantissa bits.
    const ROUNDER: f32 = 12_582_912.0;
    let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let per_value = 127.0 / largest;
    for (line, part) in lines.iter_mut().zip(values.chunks(Line::CODES)) {
        for (code, value) in line.0.iter_mut().zip(part) {
            *code = (value * per_value + ROUNDER).to_bits().wrapping_sub(ROUNDER.to_bits()) as i8;
        }
    }
    let inverse_norm = 1.0 / norm(values);
    Measure { factor: (f64::from(largest) / 127.0 * inverse_norm) as f32, inverse_norm: inverse_norm as f32 }
}

/// The Euclidean norm; in f64, so that no finite f32 over- or underflows. Eight sums, always in the same order.
pub(super) fn norm(values: &[f32]) -> f64 {
    let mut sums = [0.0_f64; 8];
    let mut chunks = values.chunks_exact(sums.len());
    for chunk in &mut chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(*value) * f64::from(*value);
        }
    }
    for (sum, value) in sums.iter_mut().zip(chunks.remainder()) {
        *sum += f64::from(*value) * f64::from(*value);
    }
    sums.iter().sum::<f64>().sqrt()
}

/// The codes of every row that has a vector, at the row's own place.
#[derive(Debug)]
pub(super) struct Codes {
    lines_per_row: usize,
    chunks: Vec<Chunk>,
    largest_factor: f32,
}

#[derive(Debug, Default)]
struct Chunk {
    lines: Vec<Line>,
    factors: Vec<f32>,
    inverse_norms: Vec<f32>,
}

impl Codes {
    pub(super) fn new(dimension: usize) -> Self {
        Self { lines_per_row: Line::per_row(dimension), chunks: Vec::new(), largest_factor: 0.0 }
    }

    /// Bytes of one row's codes.
    pub(super) fn row_bytes(&self) -> usize {
        self.lines_per_row * size_of::<Line>()
    }

    /// The largest factor of any row: it bounds what rounding to codes can do to a cosine.
    pub(super) fn largest_factor(&self) -> f32 {
        self.largest_factor
    }

    /// Puts a row in its place.
    pub(super) fn put(&mut self, row: Row, lines: &[Line], measure: Measure) {
        let (chunk, place) = split(row);
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, Chunk::default);
        }
        let width = self.lines_per_row;
        let chunk = &mut self.chunks[chunk];
        grow(&mut chunk.lines, place, width, Line::ZERO);
        grow(&mut chunk.factors, place, 1, 0.0);
        grow(&mut chunk.inverse_norms, place, 1, 0.0);
        chunk.lines[place * width..][..width].copy_from_slice(lines);
        chunk.factors[place] = measure.factor;
        chunk.inverse_norms[place] = measure.inverse_norm;
        self.largest_factor = self.largest_factor.max(measure.factor);
    }

    /// The codes of a row that has a vector.
    #[inline]
    pub(super) fn lines(&self, row: Row) -> &[Line] {
        let (chunk, place) = split(row);
        &self.chunks[chunk].lines[place * self.lines_per_row..][..self.lines_per_row]
    }

    /// What stands beside a row that has a vector.
    #[inline]
    pub(super) fn measure(&self, row: Row) -> Measure {
        let (chunk, place) = split(row);
        let chunk = &self.chunks[chunk];
        Measure { factor: chunk.factors[place], inverse_norm: chunk.inverse_norms[place] }
    }

    #[inline]
    pub(super) fn factor(&self, row: Row) -> f32 {
        let (chunk, place) = split(row);
        self.chunks[chunk].factors[place]
    }

    /// The codes and factors of `count` rows from `first` on; all of one chunk, the last of them with a vector.
    #[inline]
    pub(super) fn run(&self, first: Row, count: usize) -> (&[Line], &[f32]) {
        let (chunk, place) = split(first);
        let chunk = &self.chunks[chunk];
        (&chunk.lines[place * self.lines_per_row..][..count * self.lines_per_row], &chunk.factors[place..][..count])
    }

    /// The codes alone, without their padding: what the graph is fed with.
    pub(super) fn copy_to(&self, row: Row, codes: &mut [i8]) {
        for (part, line) in codes.chunks_mut(Line::CODES).zip(self.lines(row)) {
            part.copy_from_slice(&line.0[..part.len()]);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.lines.capacity() * size_of::<Line>()).sum()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let beside = |chunk: &Chunk| (chunk.factors.capacity() + chunk.inverse_norms.capacity()) * size_of::<f32>();
        self.bytes() + self.chunks.iter().map(beside).sum::<usize>() + self.chunks.capacity() * size_of::<Chunk>()
    }
}

/// The f16 values of every row that has a vector: the truth that search rescores from. They lie in RAM, or in a file
/// that was saved and mapped; nothing outside knows which.
#[derive(Debug)]
pub(super) struct Halves {
    dimension: usize,
    chunks: Vec<HalfChunk>,
}

#[derive(Debug)]
enum HalfChunk {
    Own(Vec<u16>),
    /// Bytes that [`Blob::numbers`] gives as numbers.
    Saved(Blob),
}

impl HalfChunk {
    #[inline]
    fn values(&self) -> &[u16] {
        match self {
            Self::Own(values) => values,
            Self::Saved(blob) => blob.numbers().expect("asked when it was saved"),
        }
    }

    /// The values in RAM, to be written to.
    fn own(&mut self) -> &mut Vec<u16> {
        if let Self::Saved(_) = self {
            *self = Self::Own(self.values().to_vec());
        }
        match self {
            Self::Own(values) => values,
            Self::Saved(_) => unreachable!("it was brought into RAM"),
        }
    }
}

impl Halves {
    pub(super) fn new(dimension: usize) -> Self {
        Self { dimension, chunks: Vec::new() }
    }

    pub(super) fn put(&mut self, row: Row, bits: &[u16]) {
        let (chunk, place) = split(row);
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || HalfChunk::Own(Vec::new()));
        }
        let chunk = self.chunks[chunk].own();
        grow(chunk, place, self.dimension, 0);
        chunk[place * self.dimension..][..self.dimension].copy_from_slice(bits);
    }

    /// The values of a row that has a vector.
    #[inline]
    pub(super) fn get(&self, row: Row) -> &[u16] {
        let (chunk, place) = split(row);
        &self.chunks[chunk].values()[place * self.dimension..][..self.dimension]
    }

    /// Bytes on the heap; what is mapped is not.
    pub(super) fn heap_bytes(&self) -> usize {
        let own = |chunk: &HalfChunk| match chunk {
            HalfChunk::Own(values) => values.capacity() * size_of::<u16>(),
            // A file so small that it was read rather than mapped.
            HalfChunk::Saved(blob) if blob.is_in_ram() => blob.bytes().len(),
            HalfChunk::Saved(_) => 0,
        };
        self.chunks.iter().map(own).sum::<usize>() + self.chunks.capacity() * size_of::<HalfChunk>()
    }
}

#[inline]
fn split(row: Row) -> (usize, usize) {
    (row.index() / CHUNK_ROWS, row.index() % CHUNK_ROWS)
}

/// Makes room for the row at `place`; the memory doubles until the chunk is whole.
fn grow<T: Clone>(column: &mut Vec<T>, place: usize, width: usize, empty: T) {
    let needed = (place + 1) * width;
    if needed > column.len() {
        if needed > column.capacity() {
            let rows = (place + 1).next_power_of_two().clamp(FIRST_ROWS, CHUNK_ROWS);
            column.reserve_exact(rows * width - column.len());
        }
        column.resize(needed, empty);
    }
}
