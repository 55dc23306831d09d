//! The engine as Python sees it: convert, door, core call, convert.
#![expect(clippy::too_many_arguments, reason = "a method has the arguments of the Python call it serves")]

use std::path::PathBuf;

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use tiermem_core::base::Tier;
use tiermem_core::disk::{DiskOptions, Durability, SqlValue};
use tiermem_core::engine::{Consolidation, Engine, Erase, Listing, Model, Moved, Query, Scope};

use crate::convert::{self, filter, ids, new_memories, patch, time, viewer};
use crate::door::enter;
use crate::errors::{exception, invalid};
use crate::hits::PyHits;
use crate::ids::from_system;
use crate::options;
use crate::reports;
use crate::shared::Handle;
use crate::transfer::PyExport;

/// How long a call waits for another process before it says that the store is locked.
const BUSY_TIMEOUT_MS: u64 = 5_000;

/// A store of memories; `tiermem_fast.TierMemory` is its face.
#[pyclass(module = "tiermem_fast._core", name = "Engine", frozen)]
#[derive(Debug)]
pub(crate) struct PyEngine {
    handle: Handle,
}

const _: fn() = || {
    fn assert_shareable<T: Send + Sync>() {}
    assert_shareable::<PyEngine>();
};

/// The vectors of a call and the model they are from.
fn given_vectors(
    argument: &str,
    vectors: Option<&Bound<'_, PyAny>>,
    model: Option<&str>,
    rank: usize,
) -> PyResult<Option<(Vec<f32>, usize, Model)>> {
    let (Some(vectors), Some(model)) = (vectors, model) else { return Ok(None) };
    let (values, rows, dimension) = convert::vectors(argument, vectors, rank)?;
    Ok(Some((values, rows, Model { id: model.to_owned(), dimension })))
}

/// How a file is opened.
pub(crate) fn disk_options(
    py: Python<'_>,
    durability: Durability,
    allow_network: bool,
    now: f64,
) -> PyResult<DiskOptions> {
    let random = || from_system().map(u128::from).map_err(|error| exception(py, &error));
    Ok(DiskOptions {
        durability,
        read_only: false,
        busy_timeout_ms: BUSY_TIMEOUT_MS,
        allow_network,
        now: time(py, "now", now)?,
        store_id: random()? << 64 | random()?,
    })
}

impl PyEngine {
    /// A handle on an engine that nobody else has.
    pub(crate) fn alone(engine: Engine, given: options::Options) -> Self {
        Self { handle: Handle::alone(engine, given) }
    }
}

#[pymethods]
impl PyEngine {
    /// Opens the store in a directory, or one in RAM.
    #[staticmethod]
    #[pyo3(signature = (path, option_values, *, read_only, allow_network, now))]
    fn open(
        py: Python<'_>,
        path: Option<PathBuf>,
        option_values: &Bound<'_, PyDict>,
        read_only: bool,
        allow_network: bool,
        now: f64,
    ) -> PyResult<Self> {
        let given = options::read(option_values)?;
        let process = std::process::id();
        let durability = if path.is_none() { Durability::Memory } else { given.durability };
        let disk = DiskOptions { read_only, ..disk_options(py, durability, allow_network, now)? };
        let handle = enter(py, process, move || Handle::open(path.as_deref(), disk, given))?;
        Ok(Self { handle })
    }

    /// Writes what is pending and lets go of the files.
    fn close(&self, py: Python<'_>, now: f64) -> PyResult<()> {
        let now = time(py, "now", now)?;
        enter(py, self.handle.process(), || self.handle.close(now))
    }

    /// Adds memories: ids, and for each 1 (created), 2 (reinforced) or 0 (a retry of an earlier call).
    #[pyo3(signature = (texts, shared, columns, vectors, model, now))]
    fn add<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyList>,
        shared: &Bound<'py, PyDict>,
        columns: &Bound<'py, PyDict>,
        vectors: Option<&Bound<'py, PyAny>>,
        model: Option<&str>,
        now: f64,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyArray1<u8>>)> {
        let now = time(py, "now", now)?;
        let new_ids = self.handle.mint().mint(now, texts.len()).map_err(|error| exception(py, &error))?;
        let items = new_memories(texts, shared, columns, new_ids)?;
        let vectors = given_vectors("vectors", vectors, model, 2)?;
        if let Some((_, rows, _)) = &vectors
            && *rows != items.len()
        {
            return Err(invalid(py, "vectors", format!("{rows} vectors for {} memories", items.len())));
        }
        let added = enter(py, self.handle.process(), move || {
            self.handle.engine()?.add(
                &items,
                vectors.as_ref().map(|(values, _, model)| (values.as_slice(), model)),
                now,
            )
        })?;
        let list = PyList::new(py, added.iter().map(|added| added.id.to_string()))?;
        let outcomes: Vec<u8> =
            added.iter().map(|added| u8::from(added.created) + 2 * u8::from(added.reinforced)).collect();
        Ok((list, outcomes.into_pyarray(py)))
    }

    /// Memories by id, as dicts.
    #[pyo3(signature = (id_list, grant, now))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        id_list: &Bound<'py, PyAny>,
        grant: Option<&Bound<'py, PyDict>>,
        now: f64,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let (wanted, reader, now) = (ids("ids", id_list)?, viewer(grant)?, time(py, "now", now)?);
        let items = enter(py, self.handle.process(), || self.handle.engine()?.get(&wanted, &reader, now))?;
        items.iter().map(|item| convert::item(py, item)).collect()
    }

    /// Memories in the order of writing, or the latest first, as dicts.
    #[pyo3(signature = (filter_values, limit, after, newest_first, grant, now))]
    fn list<'py>(
        &self,
        py: Python<'py>,
        filter_values: &Bound<'py, PyDict>,
        limit: usize,
        after: Option<&Bound<'py, PyAny>>,
        newest_first: bool,
        grant: Option<&Bound<'py, PyDict>>,
        now: f64,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let now = time(py, "now", now)?;
        let (filter, must) = filter(filter_values)?;
        let after = after.map(convert::id).transpose()?;
        let listing = Listing { filter, must, viewer: viewer(grant)?, limit, after, newest_first };
        let items = enter(py, self.handle.process(), || self.handle.engine()?.list(&listing, now))?;
        items.iter().map(|item| convert::item(py, item)).collect()
    }

    /// How many memories live.
    #[pyo3(signature = (filter_values, grant, now))]
    fn count(
        &self,
        py: Python<'_>,
        filter_values: &Bound<'_, PyDict>,
        grant: Option<&Bound<'_, PyDict>>,
        now: f64,
    ) -> PyResult<usize> {
        let now = time(py, "now", now)?;
        let ((filter, must), reader) = (filter(filter_values)?, viewer(grant)?);
        enter(py, self.handle.process(), || self.handle.engine()?.count(&filter, &must, &reader, now))
    }

    /// Changes fields of a memory.
    fn update(&self, py: Python<'_>, id: &Bound<'_, PyAny>, fields: &Bound<'_, PyDict>, now: f64) -> PyResult<()> {
        let (id, change, now) = (convert::id(id)?, patch(fields)?, time(py, "now", now)?);
        enter(py, self.handle.process(), || self.handle.engine()?.update(id, &change, now))
    }

    /// Puts a new memory in the place of an old one; gives the new id.
    #[pyo3(signature = (id, text, fields, vector, model, now))]
    fn supersede(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        text: &Bound<'_, PyAny>,
        fields: &Bound<'_, PyDict>,
        vector: Option<&Bound<'_, PyAny>>,
        model: Option<&str>,
        now: f64,
    ) -> PyResult<String> {
        let (id, change, now) = (convert::id(id)?, patch(fields)?, time(py, "now", now)?);
        let text = convert::text("text", text)?.into_owned();
        let vector = given_vectors("vector", vector, model, 1)?;
        let new_id = self.handle.mint().mint(now, 1).map_err(|error| exception(py, &error))?[0];
        let made = enter(py, self.handle.process(), move || {
            let vector = vector.as_ref().map(|(values, _, model)| (values.as_slice(), model));
            self.handle.engine()?.supersede(id, new_id, &text, &change, vector, now)
        })?;
        Ok(made.to_string())
    }

    /// Hides memories at once.
    fn forget(&self, py: Python<'_>, id_list: &Bound<'_, PyAny>, now: f64) -> PyResult<()> {
        let (wanted, now) = (ids("ids", id_list)?, time(py, "now", now)?);
        enter(py, self.handle.process(), || self.handle.engine()?.forget(&wanted, now))
    }

    /// Brings forgotten memories back.
    fn restore(&self, py: Python<'_>, id_list: &Bound<'_, PyAny>, now: f64) -> PyResult<()> {
        let (wanted, now) = (ids("ids", id_list)?, time(py, "now", now)?);
        enter(py, self.handle.process(), || self.handle.engine()?.restore(&wanted, now))
    }

    /// Notes that these memories were used.
    fn used(&self, py: Python<'_>, id_list: &Bound<'_, PyAny>, now: f64) -> PyResult<()> {
        let (wanted, now) = (ids("ids", id_list)?, time(py, "now", now)?);
        enter(py, self.handle.process(), || self.handle.engine()?.used(&wanted, now))
    }

    /// The k best memories that match at all.
    #[pyo3(signature = (text, vector, model, k, filter_values, min_score, grant, now))]
    fn search(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        vector: Option<&Bound<'_, PyAny>>,
        model: Option<&str>,
        k: usize,
        filter_values: &Bound<'_, PyDict>,
        min_score: Option<f32>,
        grant: Option<&Bound<'_, PyDict>>,
        now: f64,
    ) -> PyResult<PyHits> {
        let now = time(py, "now", now)?;
        let text = convert::text("query", text)?.into_owned();
        let vector = given_vectors("vector", vector, model, 1)?;
        let ((filter, must), viewer) = (filter(filter_values)?, viewer(grant)?);
        let hits = enter(py, self.handle.process(), move || {
            let vector = vector.as_ref().map(|(values, _, model)| (values.as_slice(), model));
            self.handle.engine()?.search(&Query { text: &text, vector, k, filter, must, viewer, min_score, now })
        })?;
        Ok(PyHits::new(hits))
    }

    /// The texts of an answer, in its order.
    fn texts(&self, py: Python<'_>, hits: &Bound<'_, PyHits>) -> PyResult<Vec<String>> {
        let hits = hits.get();
        enter(py, self.handle.process(), || self.handle.engine()?.texts(&hits.hits.rows))
    }

    /// The model of the store's vectors and their dimension, or None.
    fn model(&self, py: Python<'_>) -> PyResult<Option<(String, usize)>> {
        let model = enter(py, self.handle.process(), || self.handle.engine()?.model())?;
        Ok(model.map(|model| (model.id, model.dimension)))
    }

    /// The figures of the store.
    fn stats<'py>(&self, py: Python<'py>, now: f64) -> PyResult<Bound<'py, PyDict>> {
        let now = time(py, "now", now)?;
        let stats = enter(py, self.handle.process(), || self.handle.engine()?.stats(now))?;
        let tiers = PyDict::new(py);
        for tier in Tier::ALL {
            let count = stats.tiers[tier as usize];
            let counts = PyDict::new(py);
            counts.set_item("alive", count.alive)?;
            counts.set_item("forgotten", count.forgotten)?;
            counts.set_item("superseded", count.superseded)?;
            counts.set_item("merged", count.merged)?;
            tiers.set_item(tier.name(), counts)?;
        }
        let answer = PyDict::new(py);
        answer.set_item("tiers", tiers)?;
        answer.set_item("expired", stats.expired)?;
        answer.set_item("sessions", stats.sessions)?;
        answer.set_item("commit", stats.commit)?;
        answer.set_item("model_id", stats.model.as_ref().map(|model| model.id.as_str()))?;
        answer.set_item("dimension", stats.model.as_ref().map(|model| model.dimension))?;
        answer.set_item("vectors", stats.vectors.as_ref().map_or(0, |vectors| vectors.vectors))?;
        answer.set_item("graph_nodes", stats.vectors.as_ref().map_or(0, |vectors| vectors.graph_nodes))?;
        answer.set_item("vectors_waiting", stats.vectors.as_ref().map_or(0, |vectors| vectors.tail))?;
        answer.set_item("vector_bytes", stats.vectors.as_ref().map_or(0, |vectors| vectors.heap_bytes))?;
        answer.set_item("keyword_bytes", stats.keyword_bytes)?;
        answer.set_item("column_bytes", stats.column_bytes)?;
        answer.set_item("disk_bytes", stats.disk_bytes)?;
        answer.set_item("pending_uses", stats.pending_uses)?;
        answer.set_item("damaged", stats.damaged)?;
        answer.set_item("rows_read", stats.rows_read)?;
        answer.set_item("warnings", stats.warnings)?;
        Ok(answer)
    }

    /// Flushes and lets the graph take in at most `rows` vectors: (uses flushed, absorbed, still waiting).
    fn maintain(&self, py: Python<'_>, rows: usize, now: f64) -> PyResult<(usize, usize, usize)> {
        let now = time(py, "now", now)?;
        let done = enter(py, self.handle.process(), || self.handle.engine()?.maintain(rows, now))?;
        Ok((done.uses_flushed, done.absorbed, done.waiting))
    }

    /// Moves memories between the tiers by the laws; gives what was promoted, merged and let go.
    fn consolidate<'py>(&self, py: Python<'py>, dry_run: bool, now: f64) -> PyResult<Bound<'py, PyDict>> {
        let now = time(py, "now", now)?;
        let report = enter(py, self.handle.process(), || self.handle.engine()?.consolidate(dry_run, now))?;
        consolidation(py, &report)
    }

    /// Begins to export the store as it is now.
    fn export(&self, py: Python<'_>, with_vectors: bool, now: f64) -> PyResult<PyExport> {
        let now = time(py, "now", now)?;
        let process = self.handle.process();
        let export = enter(py, process, || self.handle.engine()?.export(with_vectors, now))?;
        Ok(PyExport::new(export, process))
    }

    /// The vectors of memories by id: for each its f16 numbers as bytes, None where there is none to be seen.
    #[pyo3(signature = (id_list, grant, now))]
    fn vectors<'py>(
        &self,
        py: Python<'py>,
        id_list: &Bound<'py, PyAny>,
        grant: Option<&Bound<'py, PyDict>>,
        now: f64,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let (wanted, reader, now) = (ids("ids", id_list)?, viewer(grant)?, time(py, "now", now)?);
        let vectors = enter(py, self.handle.process(), || self.handle.engine()?.vectors(&wanted, &reader, now))?;
        let bytes = |halves: Vec<u16>| halves.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<u8>>();
        Ok(vectors.into_iter().map(|halves| halves.map(|halves| PyBytes::new(py, &bytes(halves)))).collect())
    }

    /// What happened to a memory, oldest first.
    fn history<'py>(&self, py: Python<'py>, id: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let id = convert::id(id)?;
        let events = enter(py, self.handle.process(), || self.handle.engine()?.history(id))?;
        let mut answer = Vec::with_capacity(events.len());
        for event in events {
            let entry = PyDict::new(py);
            entry.set_item("at", event.at.seconds())?;
            entry.set_item("kind", event.kind)?;
            entry.set_item("actor", event.actor)?;
            entry.set_item("detail", event.detail)?;
            answer.push(entry);
        }
        Ok(answer)
    }

    /// Erases memories; `scope` is ids, session, where or everything. The receipt as a dict.
    #[pyo3(signature = (scope, id_list, filter_values, cascade_all, progress, now))]
    fn erase<'py>(
        &self,
        py: Python<'py>,
        scope: &str,
        id_list: Option<&Bound<'py, PyAny>>,
        filter_values: &Bound<'py, PyDict>,
        cascade_all: bool,
        progress: Option<Py<PyAny>>,
        now: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let now = time(py, "now", now)?;
        let (name, scope) = match (scope, id_list) {
            (_, Some(id_list)) => ("ids", Scope::Ids(ids("ids", id_list)?)),
            ("everything", _) => ("everything", Scope::Everything),
            ("session", _) => ("session", Scope::Matching(filter(filter_values)?.0)),
            _ => ("where", Scope::Matching(filter(filter_values)?.0)),
        };
        let request = Erase { scope, name, cascade_all };
        let mut told = reports::Progress::new(progress);
        let receipt = enter(py, self.handle.process(), || {
            self.handle.engine()?.erase(&request, &mut |step| told.tell((step,)), now)
        });
        told.finish()?;
        reports::erasure(py, &receipt?)
    }

    /// Completes an erasure that was cut short; its receipt, or None.
    fn complete_erasure<'py>(&self, py: Python<'py>, now: f64) -> PyResult<Option<Bound<'py, PyDict>>> {
        let now = time(py, "now", now)?;
        let receipt = enter(py, self.handle.process(), || self.handle.engine()?.complete_erasure(now))?;
        receipt.map(|receipt| reports::erasure(py, &receipt)).transpose()
    }

    /// The receipts of all erasures, oldest first.
    fn erasures<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let receipts = enter(py, self.handle.process(), || self.handle.engine()?.erasures())?;
        receipts.iter().map(|receipt| reports::erasure(py, receipt)).collect()
    }

    /// Reads everything and reports what is not as it was written; with `repair` keeps the rest.
    fn verify<'py>(&self, py: Python<'py>, repair: bool, discard: bool) -> PyResult<Bound<'py, PyDict>> {
        let found = enter(py, self.handle.process(), || self.handle.engine()?.verify(repair, discard))?;
        reports::verified(py, &found)
    }

    /// Copies the store into a directory that holds none.
    #[pyo3(signature = (directory, progress, now))]
    fn backup<'py>(
        &self,
        py: Python<'py>,
        directory: PathBuf,
        progress: Option<Py<PyAny>>,
        now: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let now = time(py, "now", now)?;
        let mut told = reports::Progress::new(progress);
        let hears = &mut told;
        let report = enter(py, self.handle.process(), move || {
            self.handle.engine()?.backup(&directory, &mut |done, total| hears.tell((done, total)), now)
        });
        told.finish()?;
        reports::backup(py, &report?)
    }

    /// Notes that a copy of the store, as of a commit, lies elsewhere.
    fn remember_copy(&self, py: Python<'_>, path: PathBuf, commit: u64, now: f64) -> PyResult<()> {
        let now = time(py, "now", now)?;
        enter(py, self.handle.process(), move || self.handle.engine()?.remember_copy(&path, commit, now))
    }

    /// Lets go for good of what was hidden before a time, and writes the file anew.
    fn compact<'py>(&self, py: Python<'py>, hidden_before: f64, now: f64) -> PyResult<Bound<'py, PyDict>> {
        let (hidden_before, now) = (time(py, "hidden_before", hidden_before)?, time(py, "now", now)?);
        let done = enter(py, self.handle.process(), || self.handle.engine()?.compact(hidden_before, now))?;
        reports::compacted(py, done)
    }

    /// A select over the store's own tables: (column names, rows).
    fn sql<'py>(&self, py: Python<'py>, statement: &str, limit: usize) -> PyResult<(Vec<String>, Bound<'py, PyList>)> {
        let answer = enter(py, self.handle.process(), || self.handle.engine()?.disk()?.query(statement, limit))?;
        let list = PyList::empty(py);
        for row in answer.rows {
            let values: Vec<Bound<'py, PyAny>> =
                row.into_iter().map(|value| sql_value(py, value)).collect::<PyResult<_>>()?;
            list.append(PyTuple::new(py, values)?)?;
        }
        Ok((answer.columns, list))
    }
}

fn sql_value(py: Python<'_>, value: SqlValue) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        SqlValue::Null => py.None().into_bound(py),
        SqlValue::Integer(value) => value.into_pyobject(py)?.into_any(),
        SqlValue::Real(value) => value.into_pyobject(py)?.into_any(),
        SqlValue::Text(value) => value.into_pyobject(py)?.into_any(),
        SqlValue::Blob(value) => PyBytes::new(py, &value).into_any(),
    })
}

fn consolidation<'py>(py: Python<'py>, report: &Consolidation) -> PyResult<Bound<'py, PyDict>> {
    let entries = |moved: &[Moved]| -> PyResult<Vec<Bound<'py, PyDict>>> {
        moved
            .iter()
            .map(|moved| {
                let entry = PyDict::new(py);
                entry.set_item("id", moved.id.to_string())?;
                entry.set_item("text", &moved.text)?;
                entry.set_item("from_tier", moved.from.name())?;
                entry.set_item("to_tier", moved.to.map(Tier::name))?;
                entry.set_item("into", moved.into.map(|id| id.to_string()))?;
                entry.set_item("reason", moved.reason)?;
                Ok(entry)
            })
            .collect()
    };
    let answer = PyDict::new(py);
    answer.set_item("promoted", entries(&report.promoted)?)?;
    answer.set_item("merged", entries(&report.merged)?)?;
    answer.set_item("let_go", entries(&report.let_go)?)?;
    Ok(answer)
}
