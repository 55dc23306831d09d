//! The one door into the core: fork check, release of the GIL, panic to exception, error to exception.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;
use tiermem_core::base::{Error, Result};

use crate::errors;

/// Refuses a handle that a fork carried into another process: its locks and files belong to the parent.
fn check_process(opened_by: u32) -> Result<()> {
    if std::process::id() == opened_by { Ok(()) } else { Err(Error::Forked) }
}

/// Runs a call of the core that may take long or wait: the GIL is free meanwhile.
pub(crate) fn enter<T: Send>(py: Python<'_>, opened_by: u32, call: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    check_process(opened_by).map_err(|error| errors::exception(py, &error))?;
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(call)));
    settle(py, outcome)
}

/// Runs a pure function of the core with the GIL free.
pub(crate) fn compute<T: Send>(py: Python<'_>, call: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(call)));
    settle(py, outcome)
}

fn settle<T>(py: Python<'_>, outcome: std::thread::Result<Result<T>>) -> PyResult<T> {
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(errors::exception(py, &error)),
        Err(payload) => Err(errors::panicked(&*payload)),
    }
}
