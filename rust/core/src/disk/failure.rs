//! What went wrong below, told in the words of [`Error`]: the caller's fault, another process's turn, or the disk.

use rusqlite::ErrorCode;

use crate::base::{Error, Result};

/// A fault on its way up: already told, or still in SQLite's words.
#[derive(Debug)]
pub(super) enum Failure {
    Told(Error),
    Sqlite(rusqlite::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Failure {
    /// The fault of a call that reads.
    pub(super) fn reading(self, operation: &str, path: &str, waited_ms: u64) -> Error {
        let error = match self {
            Self::Told(error) => return error,
            Self::Sqlite(error) => error,
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Error::Corrupt { what: path.to_owned(), message: error.to_string() }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Error::Locked { path: path.to_owned(), waited_ms }
            }
            _ => Error::Io { operation: operation.to_owned(), message: error.to_string() },
        }
    }
}

/// Whose fault a failed write is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blame {
    /// The statement was refused and undone; the transaction may go on.
    Caller,
    /// Another process held the store; the transaction is over, the next may succeed.
    Turn,
    /// The disk or the file: the handle writes no more.
    Disk,
}

/// The fault of a write: what the caller is told, and what follows from it.
#[derive(Debug, Clone)]
pub(super) struct WriteFailure {
    pub(super) error: Error,
    pub(super) blame: Blame,
}

impl WriteFailure {
    pub(super) fn new(operation: &str, path: &str, waited_ms: u64, error: &rusqlite::Error) -> Self {
        let message = error.to_string();
        let (error, blame) = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                (Error::Locked { path: path.to_owned(), waited_ms }, Blame::Turn)
            }
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => {
                (Error::invalid(operation, format!("the store refuses it: {message}")), Blame::Caller)
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                (Error::Corrupt { what: path.to_owned(), message }, Blame::Disk)
            }
            _ => (Error::Durability { operation: operation.to_owned(), message }, Blame::Disk),
        };
        Self { error, blame }
    }
}

pub(super) fn durability(operation: &str, error: &rusqlite::Error) -> Error {
    Error::Durability { operation: operation.to_owned(), message: error.to_string() }
}

pub(super) fn io(operation: impl Into<String>, error: &std::io::Error) -> Error {
    Error::Io { operation: operation.into(), message: error.to_string() }
}

/// Turns the answer of a plain function on SQLite into a [`Result`] for a call that reads.
pub(super) fn read<T>(result: Result<T, Failure>, operation: &str, path: &str, waited_ms: u64) -> Result<T> {
    result.map_err(|failure| failure.reading(operation, path, waited_ms))
}
