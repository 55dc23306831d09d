//! The Python binding of tiermem-core, as the module `tiermem_fast._core`.
//!
//! Every method is four lines: convert, door, core call, convert. [`door`] is the only way into the core, [`errors`]
//! the only place where an error becomes an exception, [`convert`] the only one that reads Python values.

mod convert;
mod door;
mod engine;
mod errors;
mod hits;
mod ids;
mod kernels;
mod options;
mod reports;
mod shared;
mod transfer;

use pyo3::prelude::*;

/// The native part of `tiermem_fast`.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::engine::PyEngine;
    #[pymodule_export]
    use super::hits::PyHits;
    #[pymodule_export]
    use super::kernels::{near_duplicates, reinforce, score, strength, top_k};
    #[pymodule_export]
    use super::reports::{check_store, restore_backup};
    #[pymodule_export]
    use super::transfer::{PyExport, PyImport};
    #[pymodule_export]
    use super::{build_info, default_options};
}

/// What this build is: version, profile, and the versions of what it carries.
#[pyfunction]
fn build_info(py: Python<'_>) -> PyResult<Bound<'_, pyo3::types::PyDict>> {
    let info = pyo3::types::PyDict::new(py);
    info.set_item("version", env!("CARGO_PKG_VERSION"))?;
    info.set_item("profile", if cfg!(debug_assertions) { "debug" } else { "release" })?;
    info.set_item("abi3", cfg!(feature = "abi3"))?;
    info.set_item("sqlite", tiermem_core::disk::sqlite_version())?;
    info.set_item("usearch", tiermem_core::index::vectors::usearch_version())?;
    info.set_item("kernel", tiermem_core::index::vectors::kernel_name())?;
    Ok(info)
}

/// The options that an engine opened without any goes by.
#[pyfunction]
fn default_options(py: Python<'_>) -> PyResult<Bound<'_, pyo3::types::PyDict>> {
    options::defaults(py)
}
