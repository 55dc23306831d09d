//! The only place where an error of the core becomes an exception of `tiermem_fast.errors`.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiermem_core::base::Error;

/// The class in `tiermem_fast.errors` and the attributes of each error.
fn parts<'py>(py: Python<'py>, error: &Error) -> PyResult<(&'static str, Bound<'py, PyDict>)> {
    let fields = PyDict::new(py);
    let class = match error {
        Error::Invalid { argument, .. } => {
            fields.set_item("argument", argument)?;
            "InvalidInput"
        }
        Error::Limit { what, got, limit } => {
            fields.set_item("argument", what)?;
            fields.set_item("got", got)?;
            fields.set_item("limit", limit)?;
            "LimitExceeded"
        }
        Error::NotFound { id } => {
            fields.set_item("id", id)?;
            "MemoryNotFound"
        }
        Error::AccessDenied { id, label } => {
            fields.set_item("id", id)?;
            fields.set_item("label", label)?;
            "AccessDenied"
        }
        Error::ModelMismatch { stored_model, stored_dimension, given_model, given_dimension } => {
            fields.set_item("argument", "vectors")?;
            fields.set_item("stored_model", stored_model)?;
            fields.set_item("stored_dimension", stored_dimension)?;
            fields.set_item("given_model", given_model)?;
            fields.set_item("given_dimension", given_dimension)?;
            "ModelMismatch"
        }
        Error::StalePlan { .. } => "StalePlan",
        Error::Closed => "StoreClosed",
        Error::Forked => "StoreForked",
        Error::ReadOnly { .. } => "ReadOnlyStore",
        Error::Locked { path, waited_ms } => {
            fields.set_item("path", path)?;
            fields.set_item("waited_ms", waited_ms)?;
            "StoreLocked"
        }
        Error::NewerFormat { path, found, supported } => {
            fields.set_item("path", path)?;
            fields.set_item("found", found)?;
            fields.set_item("supported", supported)?;
            "NewerFormat"
        }
        Error::Corrupt { what, .. } => {
            fields.set_item("what", what)?;
            "CorruptStore"
        }
        Error::Durability { operation, .. } => {
            fields.set_item("operation", operation)?;
            "DurabilityError"
        }
        Error::Io { operation, .. } => {
            fields.set_item("operation", operation)?;
            "StorageError"
        }
        // The enum is open to later variants; they are at least the package's own error.
        _ => "TiermemError",
    };
    Ok((class, fields))
}

/// The exception of an error.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let made = parts(py, error).and_then(|(class, fields)| {
        py.import("tiermem_fast.errors")?.getattr(class)?.call((error.to_string(),), Some(&fields))
    });
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(failure) => failure,
    }
}

/// An argument with a value that no call accepts.
pub(crate) fn invalid(py: Python<'_>, argument: impl Into<String>, message: impl Into<String>) -> PyErr {
    exception(py, &Error::invalid(argument, message))
}

/// What a panic in the core becomes: a bug of this library, reported, with the process alive.
pub(crate) fn panicked(payload: &(dyn std::any::Any + Send)) -> PyErr {
    let message = payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    PyRuntimeError::new_err(format!("tiermem_fast has a bug: {message}; please report it"))
}
