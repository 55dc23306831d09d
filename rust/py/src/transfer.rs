//! Export and import as Python sees them: a chunk is a dict of column names to bytes.
#![expect(clippy::too_many_arguments, reason = "a method has the arguments of the Python call it serves")]

use std::path::PathBuf;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tiermem_core::base::{Error, Micros, Result};
use tiermem_core::disk::Durability;
use tiermem_core::engine::{Chunk, Export, Import, Model, Part};

use crate::convert::{text, time};
use crate::door::enter;
use crate::engine::{PyEngine, disk_options};
use crate::errors::exception;
use crate::options::{self, Options};

/// A store at one commit, given out chunk by chunk.
#[pyclass(module = "tiermem_fast._core", name = "Export", frozen)]
#[derive(Debug)]
pub(crate) struct PyExport {
    export: Mutex<Option<Export>>,
    process: u32,
}

/// A store that is being filled.
#[pyclass(module = "tiermem_fast._core", name = "Import", frozen)]
#[derive(Debug)]
pub(crate) struct PyImport {
    import: Mutex<Option<Import>>,
    options: Options,
    process: u32,
}

const _: fn() = || {
    fn assert_shareable<T: Send + Sync>() {}
    assert_shareable::<PyExport>();
    assert_shareable::<PyImport>();
};

impl PyExport {
    pub(crate) fn new(export: Export, process: u32) -> Self {
        Self { export: Mutex::new(Some(export)), process }
    }
}

#[pymethods]
impl PyExport {
    /// What the store is: `commit, memories, created_at` (microseconds since 1970), `model, dimension` (None without
    /// vectors).
    fn origin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let origin = enter(py, self.process, || self.with(|export| Ok(export.origin().clone())))?;
        let answer = PyDict::new(py);
        answer.set_item("commit", origin.commit)?;
        answer.set_item("memories", origin.memories)?;
        answer.set_item("created_at", origin.created_at.0)?;
        answer.set_item("model", origin.model.as_ref().map(|model| model.id.as_str()))?;
        answer.set_item("dimension", origin.model.as_ref().map(|model| model.dimension))?;
        Ok(answer)
    }

    /// The next chunk, of `rows` rows at most: (part, rows, columns); None after the last one.
    fn chunk<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<Option<(&'static str, usize, Bound<'py, PyDict>)>> {
        let chunk = enter(py, self.process, || self.with(|export| export.next_chunk(rows)))?;
        let Some((part, chunk)) = chunk else { return Ok(None) };
        let columns = PyDict::new(py);
        for (name, values) in chunk.columns {
            columns.set_item(name, PyBytes::new(py, &values))?;
        }
        Ok(Some((part.name(), chunk.rows, columns)))
    }

    /// Lets go of the commit. Closing twice is fine.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        enter(py, self.process, || {
            drop(self.export.lock().take());
            Ok(())
        })
    }
}

impl PyExport {
    fn with<T>(&self, call: impl FnOnce(&mut Export) -> Result<T>) -> Result<T> {
        call(self.export.lock().as_mut().ok_or(Error::Closed)?)
    }
}

#[pymethods]
impl PyImport {
    /// Makes an empty store, in a directory or in RAM, to be filled with what has this origin.
    #[staticmethod]
    #[pyo3(signature = (path, option_values, *, allow_network, created_at, model, dimension, now))]
    fn begin(
        py: Python<'_>,
        path: Option<PathBuf>,
        option_values: &Bound<'_, PyDict>,
        allow_network: bool,
        created_at: i64,
        model: Option<String>,
        dimension: Option<usize>,
        now: f64,
    ) -> PyResult<Self> {
        let options = options::read(option_values)?;
        let process = std::process::id();
        let durability = if path.is_none() { Durability::Memory } else { options.durability };
        let disk = disk_options(py, durability, allow_network, now)?;
        let model = model.zip(dimension).map(|(id, dimension)| Model { id, dimension });
        let import =
            enter(py, process, move || Import::new(path.as_deref(), disk, Micros(created_at), model.as_ref()))?;
        Ok(Self { import: Mutex::new(Some(import)), options, process })
    }

    /// Takes in one chunk.
    fn add(&self, py: Python<'_>, part: &str, rows: usize, columns: &Bound<'_, PyDict>, now: f64) -> PyResult<()> {
        let part = Part::from_name(part).map_err(|error| exception(py, &error))?;
        let now = time(py, "now", now)?;
        let mut chunk = Chunk { rows, columns: Vec::with_capacity(columns.len()) };
        for (name, values) in columns {
            let values = values.cast_into::<PyBytes>()?.as_bytes().to_vec();
            chunk.columns.push((text("column", &name)?.into_owned(), values));
        }
        enter(py, self.process, || self.import.lock().as_mut().ok_or(Error::Closed)?.add(part, &chunk, now))
    }

    /// Writes everything into the file and lets go of it. Closing twice is fine.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        enter(py, self.process, || self.import.lock().take().map_or(Ok(()), Import::close))
    }

    /// The engine over the store, now that it is whole.
    fn engine(&self, py: Python<'_>) -> PyResult<PyEngine> {
        let config = self.options.engine.clone();
        let engine = enter(py, self.process, || self.import.lock().take().ok_or(Error::Closed)?.into_engine(config))?;
        Ok(PyEngine::alone(engine, self.options.clone()))
    }
}
