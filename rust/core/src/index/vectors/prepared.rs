//! Vectors on their way in: checked, normalised, rounded to f16, coded. And the vector of a question.

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

use super::codes::{self, Line, Measure};
use super::kernels::{CodeQuery, VALUE_LANES};
use crate::base::{Error, Result, limits};

/// A vector shorter than this has no direction worth trusting.
const SHORTEST: f64 = 1e-6;

/// Vectors that were checked, brought to length one and rounded to f16, which is the truth that the disk keeps.
/// The codes beside them follow from the f16 values alone, so a load from disk gives the same state bit for bit.
#[derive(Debug)]
pub struct Prepared {
    dimension: usize,
    halves: Vec<u16>,
    lines: Vec<Line>,
    measures: Vec<Measure>,
}

/// Checks and prepares `vectors`, which lie one behind the other, `dimension` values each. `argument` is what the
/// caller calls them: an error names it, the row and the value.
pub fn prepare(argument: &str, vectors: &[f32], dimension: usize) -> Result<Prepared> {
    let count = rows(argument, vectors.len(), dimension)?;
    // Checked as a whole before anything is allocated.
    let mut norms = Vec::with_capacity(count.min(limits::BATCH));
    for (row, vector) in vectors.chunks_exact(dimension).enumerate() {
        norms.push(length(vector).map_err(|message| Error::invalid(argument, format!("row {row} {message}")))?);
    }
    let mut halves = vec![0_u16; vectors.len()];
    let mut unit = vec![0.0_f32; dimension];
    let mut prepared = Prepared::with_room(dimension, count);
    for ((vector, norm), bits) in vectors.chunks_exact(dimension).zip(norms).zip(halves.chunks_exact_mut(dimension)) {
        normalise(vector, norm, &mut unit);
        bits.reinterpret_cast_mut::<f16>().convert_from_f32_slice(&unit);
        prepared.code(bits, &mut unit);
    }
    prepared.halves = halves;
    Ok(prepared)
}

impl Prepared {
    /// Takes f16 values as the disk kept them: nothing is normalised again. What `prepare` cannot have written is
    /// corruption.
    pub fn from_f16(bits: &[u16], dimension: usize) -> Result<Self> {
        let count = rows("vectors", bits.len(), dimension)?;
        let mut values = vec![0.0_f32; dimension];
        let mut prepared = Self::with_room(dimension, count);
        for (row, bits) in bits.chunks_exact(dimension).enumerate() {
            bits.reinterpret_cast::<f16>().convert_to_f32_slice(&mut values);
            length(&values).map_err(|message| Error::Corrupt {
                what: format!("stored vector {row}"),
                message: format!("it {message}"),
            })?;
            prepared.code(bits, &mut values);
        }
        prepared.halves = bits.to_vec();
        Ok(prepared)
    }

    fn with_room(dimension: usize, count: usize) -> Self {
        Self {
            dimension,
            halves: Vec::new(),
            lines: Vec::with_capacity(count * Line::per_row(dimension)),
            measures: Vec::with_capacity(count),
        }
    }

    /// Appends the codes of one row; `values` is scratch of the same dimension.
    fn code(&mut self, bits: &[u16], values: &mut [f32]) {
        bits.reinterpret_cast::<f16>().convert_to_f32_slice(values);
        let start = self.lines.len();
        self.lines.resize(start + Line::per_row(self.dimension), Line::ZERO);
        self.measures.push(codes::encode(values, &mut self.lines[start..]));
    }

    /// How many vectors there are.
    pub fn count(&self) -> usize {
        self.measures.len()
    }

    /// Values per vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The f16 values of the `i`-th vector, as bits.
    pub fn f16_bits(&self, i: usize) -> &[u16] {
        &self.halves[i * self.dimension..][..self.dimension]
    }

    /// The codes of the `i`-th vector as they lie in memory and in files, for whoever looks for what is left of them.
    pub fn code_bytes(&self, i: usize) -> Vec<u8> {
        let codes = self.row_lines(i).iter().flat_map(|line| line.0);
        codes.take(self.dimension).map(i8::cast_unsigned).collect()
    }

    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    pub(super) fn row_lines(&self, i: usize) -> &[Line] {
        let width = Line::per_row(self.dimension);
        &self.lines[i * width..][..width]
    }

    pub(super) fn measure(&self, i: usize) -> Measure {
        self.measures[i]
    }
}

/// The vector of a question, ready for every row.
#[derive(Debug, Clone)]
pub struct QueryVector {
    dimension: usize,
    /// Padded with zeros to a multiple of [`VALUE_LANES`].
    values: Vec<f32>,
    lines: Vec<Line>,
    measure: Measure,
}

/// Checks and normalises the vector of a question for an index of `dimension`.
pub fn query_vector(argument: &str, vector: &[f32], dimension: usize) -> Result<QueryVector> {
    if vector.len() != dimension {
        let message = format!("it has {} values, the stored vectors have {dimension}", vector.len());
        return Err(Error::invalid(argument, message));
    }
    rows(argument, vector.len(), dimension)?;
    let norm = length(vector).map_err(|message| Error::invalid(argument, format!("it {message}")))?;
    let mut unit = vec![0.0; dimension];
    normalise(vector, norm, &mut unit);
    Ok(QueryVector::of(unit))
}

impl QueryVector {
    /// The query that asks for what is near these values, which are finite and not all zero.
    fn of(mut values: Vec<f32>) -> Self {
        let dimension = values.len();
        let mut lines = vec![Line::ZERO; Line::per_row(dimension)];
        let measure = codes::encode(&values, &mut lines);
        values.resize(dimension.next_multiple_of(VALUE_LANES), 0.0);
        Self { dimension, values, lines, measure }
    }

    /// The query that asks for what is near a stored vector.
    pub(super) fn of_halves(bits: &[u16]) -> Self {
        Self::of(bits.reinterpret_cast::<f16>().to_f32_vec())
    }

    /// Values of the vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    pub(super) fn values(&self) -> &[f32] {
        &self.values
    }

    pub(super) fn codes(&self) -> CodeQuery<'_> {
        CodeQuery::new(&self.lines)
    }

    /// The codes alone, without their padding: what the graph is asked with.
    pub(super) fn bare_codes(&self) -> Vec<i8> {
        self.lines.iter().flat_map(|line| line.0).take(self.dimension).collect()
    }

    pub(super) fn measure(&self) -> Measure {
        self.measure
    }
}

/// How many vectors of `dimension` values `length` values are.
fn rows(argument: &str, length: usize, dimension: usize) -> Result<usize> {
    if dimension == 0 {
        return Err(Error::invalid(argument, "vectors of dimension 0 say nothing"));
    }
    if dimension > limits::DIMENSIONS {
        return Err(Error::limit(format!("dimension of {argument}"), dimension, limits::DIMENSIONS));
    }
    if !length.is_multiple_of(dimension) {
        return Err(Error::invalid(argument, format!("{length} values are no rows of {dimension}")));
    }
    let count = length / dimension;
    if count > limits::ROWS {
        return Err(Error::limit(format!("rows of {argument}"), count, limits::ROWS));
    }
    Ok(count)
}

/// The norm of a vector that has a direction, or what is wrong with it.
fn length(vector: &[f32]) -> Result<f64, String> {
    let norm = codes::norm(vector);
    if norm.is_finite() {
        return if norm > SHORTEST { Ok(norm) } else { Err(format!("has length {norm:e}, which gives no direction")) };
    }
    let (place, value) = vector.iter().enumerate().find(|(_, value)| !value.is_finite()).unwrap_or((0, &f32::NAN));
    Err(format!("has {value} at place {place}; every value must be finite"))
}

fn normalise(vector: &[f32], norm: f64, unit: &mut [f32]) {
    let inverse = 1.0 / norm;
    for (unit, value) in unit.iter_mut().zip(vector) {
        *unit = (f64::from(*value) * inverse) as f32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(result: Result<Prepared>) -> String {
        result.expect_err("refused").to_string()
    }

    #[test]
    fn what_has_no_direction_is_refused_by_name_row_and_value() {
        let mut vectors = vec![0.5_f32; 12];
        assert_eq!(prepare("vectors", &vectors, 4).expect("fine").count(), 3);
        for (value, text) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
            vectors[6] = value;
            let wanted = format!("vectors: row 1 has {text} at place 2; every value must be finite");
            assert_eq!(message(prepare("vectors", &vectors, 4)), wanted);
            assert!(query_vector("vector", &vectors[4..8], 4).is_err());
        }
        vectors[4..8].fill(0.0);
        assert!(message(prepare("vectors", &vectors, 4)).starts_with("vectors: row 1 has length 0e0"));
        vectors[4..8].fill(f32::from_bits(1));
        assert!(message(prepare("vectors", &vectors, 4)).starts_with("vectors: row 1 has length 2.8"));
        assert!(query_vector("vector", &vectors[4..8], 4).is_err());
    }

    #[test]
    fn shapes_and_limits_are_checked() {
        assert!(message(prepare("vectors", &[1.0; 7], 3)).contains("7 values are no rows of 3"));
        assert!(message(prepare("vectors", &[1.0; 7], 0)).contains("dimension 0"));
        assert!(matches!(prepare("vectors", &[], limits::DIMENSIONS + 1), Err(Error::Limit { .. })));
        assert_eq!(prepare("vectors", &[], 3).expect("no rows are fine").count(), 0);
        let error = query_vector("vector", &[1.0; 3], 4).expect_err("too short");
        assert_eq!(error.to_string(), "vector: it has 3 values, the stored vectors have 4");
    }

    #[test]
    fn huge_and_tiny_values_keep_their_direction() {
        for size in [f32::MAX, 1e30, 1.0, 1e-5] {
            let prepared = prepare("vectors", &[size, -size, 0.0, size], 4).expect("fine");
            let third = f16::from_f32(3.0_f32.sqrt().recip());
            assert_eq!(prepared.f16_bits(0), [third, -third, f16::ZERO, third].map(f16::to_bits));
        }
    }

    #[test]
    fn the_disk_hands_over_no_nonsense() {
        for bits in [f16::NAN, f16::INFINITY, f16::ZERO] {
            let stored = [f16::ONE.to_bits(), 0, bits.to_bits(), 0];
            assert!(matches!(Prepared::from_f16(&stored, 2), Err(Error::Corrupt { .. })), "{bits}");
        }
    }

    proptest! {
        #[test]
        fn a_load_gives_the_same_state(dimension in 1_usize..200, seed in prop::collection::vec(-1.0_f32..1.0, 600)) {
            let count = seed.len() / dimension;
            let vectors: Vec<f32> = seed[..count * dimension].iter().map(|value| value + 1e-3).collect();
            let prepared = prepare("vectors", &vectors, dimension);
            prop_assume!(prepared.is_ok());
            let prepared = prepared.expect("checked");
            let loaded = Prepared::from_f16(&prepared.halves, dimension).expect("what was written");
            let state = |prepared: &Prepared| {
                let codes: Vec<i8> = prepared.lines.iter().flat_map(|line| line.0).collect();
                let measures: Vec<_> = prepared
                    .measures
                    .iter()
                    .map(|measure| (measure.factor.to_bits(), measure.inverse_norm.to_bits()))
                    .collect();
                (codes, measures)
            };
            prop_assert_eq!(state(&prepared), state(&loaded));
            for (row, vector) in vectors.chunks_exact(dimension).enumerate() {
                let codes: Vec<i8> = prepared.row_lines(row).iter().flat_map(|line| line.0).collect();
                prop_assert_eq!(codes.iter().map(|code| code.unsigned_abs()).max(), Some(127));
                let step = prepared.measure(row).factor;
                let norm = codes::norm(vector) as f32;
                for (code, value) in codes.iter().zip(vector) {
                    prop_assert!((f32::from(*code) * step - value / norm).abs() <= 0.501 * step + 5e-4);
                }
            }
        }
    }
}
