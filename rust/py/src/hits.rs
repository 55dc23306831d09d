//! The columns of an answer, handed over once and as arrays.

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tiermem_core::engine::Hits;

/// The answer to a search: each column can be taken as often as wanted, texts and items are fetched by the engine.
#[pyclass(module = "tiermem_fast._core", name = "NativeHits", frozen)]
#[derive(Debug)]
pub(crate) struct PyHits {
    pub(crate) hits: Hits,
}

impl PyHits {
    pub(crate) fn new(hits: Hits) -> Self {
        Self { hits }
    }
}

const _: fn() = || {
    fn assert_shareable<T: Send + Sync>() {}
    assert_shareable::<PyHits>();
};

#[pymethods]
impl PyHits {
    fn __len__(&self) -> usize {
        self.hits.rows.len()
    }

    /// The ids, as a new list.
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.hits.ids.iter().map(ToString::to_string))
    }

    /// Relevance, strength and importance in one, float32.
    fn scores<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        self.hits.scores.clone().into_pyarray(py)
    }

    /// How well each answers, float32.
    fn relevance<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        self.hits.relevance.clone().into_pyarray(py)
    }

    /// How strongly each is remembered, float32.
    fn strength<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        self.hits.strength.clone().into_pyarray(py)
    }

    /// How much each matters, float32.
    fn importance<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        self.hits.importance.clone().into_pyarray(py)
    }

    /// Cosines, float32; NaN where there is no vector.
    fn vector_scores<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        self.hits.vector_scores.clone().into_pyarray(py)
    }

    /// Shares of the best possible BM25, float32; NaN when the question has no words.
    fn keyword_scores<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        self.hits.keyword_scores.clone().into_pyarray(py)
    }

    /// The tiers' numbers, uint8.
    fn tiers<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u8>> {
        self.hits.tiers.iter().map(|tier| *tier as u8).collect::<Vec<u8>>().into_pyarray(py)
    }

    /// How many memories were left to search by filter and reader.
    #[getter]
    fn searched(&self) -> usize {
        self.hits.searched
    }

    /// How the vector arm went about it, or None.
    #[getter]
    fn plan(&self) -> Option<String> {
        self.hits.plan.as_ref().map(|plan| format!("{plan:?}"))
    }
}
