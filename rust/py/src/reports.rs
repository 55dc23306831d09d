//! Reports of the engine as dicts, progress told to Python, and the two calls that need no engine.

use std::path::{Path, PathBuf};

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiermem_core::base::MemoryId;
use tiermem_core::disk::{self, BackupReport, Damaged, Disk, DiskOptions, Durability, Repaired, VerifyReport};
use tiermem_core::engine::{Compacted, Erasure, Verified};

use crate::door::compute;
use crate::engine::disk_options;

/// A callable that hears how far a call is. What it raises is raised once the call is done: half of a deed is none.
pub(crate) struct Progress {
    callable: Option<Py<PyAny>>,
    failure: Option<PyErr>,
}

impl Progress {
    pub(crate) fn new(callable: Option<Py<PyAny>>) -> Self {
        Self { callable, failure: None }
    }

    pub(crate) fn tell(&mut self, arguments: impl for<'py> PyCallArgs<'py>) {
        let Some(callable) = &self.callable else { return };
        if self.failure.is_none() {
            self.failure = Python::attach(|py| callable.call1(py, arguments).err());
        }
    }

    pub(crate) fn finish(self) -> PyResult<()> {
        self.failure.map_or(Ok(()), Err)
    }
}

pub(crate) fn erasure<'py>(py: Python<'py>, receipt: &Erasure) -> PyResult<Bound<'py, PyDict>> {
    let answer = PyDict::new(py);
    answer.set_item("at", receipt.at.seconds())?;
    answer.set_item("commit", receipt.commit)?;
    answer.set_item("scope", &receipt.scope)?;
    answer.set_item("cascade", if receipt.cascade_all { "all" } else { "derived" })?;
    answer.set_item("asked", receipt.asked)?;
    answer.set_item("erased", receipt.erased)?;
    answer.set_item("unreadable", receipt.unreadable)?;
    let review: Vec<_> = receipt.review.iter().map(|one| (one.id.to_string(), &*one.reason)).collect();
    answer.set_item("review", review)?;
    answer.set_item("searched", receipt.searched)?;
    answer.set_item("unsearched", receipt.unsearched)?;
    answer.set_item("files", receipt.files)?;
    answer.set_item("bytes", receipt.bytes)?;
    let residues: Vec<_> = receipt.residues.iter().map(|one| (&*one.file, one.pieces)).collect();
    answer.set_item("residues", residues)?;
    answer.set_item("log_emptied", receipt.log_emptied)?;
    answer.set_item("rewritten", receipt.rewritten)?;
    answer.set_item("completed_later", receipt.completed_later)?;
    answer.set_item("removed", &receipt.removed)?;
    let copies: Vec<_> = receipt.copies.iter().map(|copy| (&*copy.path, copy.at.seconds(), copy.commit)).collect();
    answer.set_item("backups", copies)?;
    Ok(answer)
}

fn damaged(list: &[Damaged]) -> Vec<(Option<String>, u32, &str)> {
    let id = |id: Option<MemoryId>| id.map(|id| id.to_string());
    list.iter().map(|one| (id(one.id), one.row.0, &*one.message)).collect()
}

fn report<'py>(
    py: Python<'py>,
    found: &VerifyReport,
    strays: &[String],
    repaired: Option<&Repaired>,
) -> PyResult<Bound<'py, PyDict>> {
    let answer = PyDict::new(py);
    answer.set_item("commit", found.commit)?;
    answer.set_item("sound", found.sound)?;
    answer.set_item("damaged", damaged(&found.damaged))?;
    answer.set_item("structure", &found.structure)?;
    answer.set_item("entries", &found.entries)?;
    answer.set_item("strays", strays)?;
    answer.set_item("repaired", repaired.is_some())?;
    answer.set_item("lost", repaired.map_or_else(Vec::new, |repaired| damaged(&repaired.lost)))?;
    answer.set_item("without_vector", repaired.map_or_else(Vec::new, |repaired| damaged(&repaired.without_vector)))?;
    answer
        .set_item("kept_aside", repaired.and_then(|repaired| repaired.kept_aside.as_deref()).map(Path::to_path_buf))?;
    Ok(answer)
}

pub(crate) fn verified<'py>(py: Python<'py>, found: &Verified) -> PyResult<Bound<'py, PyDict>> {
    report(py, &found.report, &found.strays, found.repaired.as_ref())
}

pub(crate) fn backup<'py>(py: Python<'py>, done: &BackupReport) -> PyResult<Bound<'py, PyDict>> {
    let answer = PyDict::new(py);
    answer.set_item("commit", done.commit)?;
    answer.set_item("memories", done.rows)?;
    answer.set_item("bytes", done.bytes)?;
    Ok(answer)
}

pub(crate) fn compacted(py: Python<'_>, done: Compacted) -> PyResult<Bound<'_, PyDict>> {
    let answer = PyDict::new(py);
    answer.set_item("forgotten", done.forgotten)?;
    answer.set_item("merged", done.merged)?;
    answer.set_item("bytes_before", done.bytes_before)?;
    answer.set_item("bytes_after", done.bytes_after)?;
    Ok(answer)
}

/// Puts the store of a backup into a directory, all of it verified before anything is replaced.
#[pyfunction]
pub(crate) fn restore_backup(
    py: Python<'_>,
    source: PathBuf,
    directory: PathBuf,
    replace: bool,
    now: f64,
) -> PyResult<Bound<'_, PyDict>> {
    let options = disk_options(py, Durability::Full, false, now)?;
    let done = compute(py, move || disk::restore(&source, &directory, replace, &options))?;
    backup(py, &done)
}

/// Verifies a store that may be too damaged to be opened; with `repair` keeps what is sound.
#[pyfunction]
pub(crate) fn check_store(
    py: Python<'_>,
    path: PathBuf,
    repair: bool,
    discard: bool,
    now: f64,
) -> PyResult<Bound<'_, PyDict>> {
    let options = DiskOptions { read_only: !repair, ..disk_options(py, Durability::Full, false, now)? };
    let (found, repaired) = compute(py, move || {
        let disk = Disk::open(Some(&path), options)?;
        if !repair {
            return Ok((disk.verify()?, None));
        }
        let done = disk.repair(discard)?;
        disk.empty_log()?;
        disk.close()?;
        Ok(done)
    })?;
    report(py, &found, &[], repaired.as_ref())
}
