//! The laws on plain numpy arrays, for people who keep their memories elsewhere. Shapes, ranges and broadcasting are
//! settled in `tiermem_fast.kernels`; here arrays of one length come in.

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tiermem_core::base::Error;
use tiermem_core::index::vectors;
use tiermem_core::life::{self, Verdict};
use tiermem_core::rank;

use crate::convert;
use crate::door::compute;
use crate::errors::invalid;

type Array<'py, T> = Bound<'py, PyArray1<T>>;

/// The values of a contiguous array, borrowed while the GIL is held. What is computed from them is one pass over
/// memory, which a copy for the sake of letting go of the GIL would more than double.
fn borrowed<'py>(argument: &str, array: &Array<'py, f64>) -> PyResult<PyReadonlyArray1<'py, f64>> {
    let values = array.readonly();
    match values.as_slice() {
        Ok(_) => Ok(values),
        Err(_) => Err(invalid(array.py(), argument, "is not contiguous")),
    }
}

/// Fills a new array from the columns, row by row.
macro_rules! by_row {
    ($py:expr, |$($value:ident),+| $formula:expr) => {{
        $(let $value = borrowed(stringify!($value), $value)?;)+
        $(let $value = $value.as_slice()?;)+
        let rows = [$($value.len()),+].into_iter().min().unwrap_or(0);
        $(let $value = &$value[..rows];)+
        let mut out = Vec::with_capacity(rows);
        out.extend((0..rows).map(|row| {
            $(let $value = $value[row];)+
            $formula
        }));
        Ok(out.into_pyarray($py))
    }};
}

/// Strength of memories last used so many seconds ago.
#[pyfunction]
pub(crate) fn strength<'py>(
    elapsed: &Array<'py, f64>,
    half_life: &Array<'py, f64>,
    shape: f64,
) -> PyResult<Array<'py, f64>> {
    let py = elapsed.py();
    // With d = 1 the law is a division, which runs over several rows at once. Infinity over infinity alone comes out as
    // NaN, and then the law itself is asked.
    if shape.to_bits() == 1.0_f64.to_bits() {
        let quick: PyResult<Array<'py, f64>> = by_row!(py, |elapsed, half_life| 1.0 / (1.0 + elapsed / half_life));
        let quick = quick?;
        if !quick.readonly().as_slice()?.iter().fold(false, |any, value| any | value.is_nan()) {
            return Ok(quick);
        }
    }
    by_row!(py, |elapsed, half_life| rank::strength(elapsed, half_life, shape))
}

/// Half-lives after a use.
#[pyfunction]
pub(crate) fn reinforce<'py>(
    half_life: &Array<'py, f64>,
    strength: &Array<'py, f64>,
    gain: f64,
    max_half_life: f64,
) -> PyResult<Array<'py, f64>> {
    let py = half_life.py();
    by_row!(py, |half_life, strength| rank::reinforce(half_life, strength, gain, max_half_life))
}

/// Scores from relevance, strength and importance.
#[pyfunction]
pub(crate) fn score<'py>(
    relevance: &Array<'py, f64>,
    strength: &Array<'py, f64>,
    importance: &Array<'py, f64>,
    strength_share: f64,
    importance_share: f64,
) -> PyResult<Array<'py, f64>> {
    let py = relevance.py();
    let base = 1.0 - strength_share - importance_share;
    by_row!(py, |relevance, strength, importance| {
        relevance * (base + strength_share * strength + importance_share * importance)
    })
}

/// Places of the k highest scores, best first; equal scores in their order.
#[pyfunction]
pub(crate) fn top_k<'py>(scores: &Array<'py, f64>, k: usize) -> PyResult<Array<'py, i64>> {
    let py = scores.py();
    let scores = borrowed("scores", scores)?.as_slice()?.to_vec();
    let out = compute(py, move || {
        let mut places: Vec<i64> = (0..scores.len() as i64).collect();
        let better =
            |left: &i64, right: &i64| scores[*right as usize].total_cmp(&scores[*left as usize]).then(left.cmp(right));
        if k < places.len() {
            places.select_nth_unstable_by(k, better);
            places.truncate(k);
        }
        places.sort_unstable_by(better);
        Ok(places)
    })?;
    Ok(out.into_pyarray(py))
}

/// Pairs of places (i < j) whose vectors and words are both nearly the same, and whose numbers and names do not differ.
#[pyfunction]
pub(crate) fn near_duplicates<'py>(
    vectors: &Bound<'py, PyAny>,
    texts: &Bound<'py, PyList>,
    min_cosine: f32,
    min_jaccard: f32,
) -> PyResult<Bound<'py, PyArray2<i64>>> {
    let py = vectors.py();
    let (values, rows, dimension) = convert::vectors("vectors", vectors, 2)?;
    let texts: Vec<String> = texts
        .iter()
        .map(|text| convert::text("texts", &text).map(std::borrow::Cow::into_owned))
        .collect::<PyResult<_>>()?;
    if texts.len() != rows {
        return Err(invalid(py, "texts", format!("{} texts for {rows} vectors", texts.len())));
    }
    let pairs = compute(py, move || {
        if rows == 0 {
            return Ok(Vec::new());
        }
        let prepared = vectors::prepare("vectors", &values, dimension)?;
        let near = vectors::near_duplicate_pairs(&prepared, min_cosine);
        let same = near.into_iter().filter(|(left, right, _)| {
            matches!(life::compare(&texts[*left as usize], &texts[*right as usize], min_jaccard), Verdict::Same(_))
        });
        Ok::<_, Error>(same.map(|(left, right, _)| vec![i64::from(left), i64::from(right)]).collect::<Vec<_>>())
    })?;
    if pairs.is_empty() {
        return Ok(PyArray2::zeros(py, [0, 2], false));
    }
    PyArray2::from_vec2(py, &pairs).map_err(|error| invalid(py, "vectors", error.to_string()))
}
