//! The one error of the core: what was wrong, with the value, and what to do about it.

use super::MemoryId;

/// The result of every fallible call of the core.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong. The caller's faults come first, the store's after them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument has a value that no call accepts.
    #[error("{argument}: {message}")]
    Invalid {
        /// The argument as the caller named it.
        argument: String,
        /// What was wrong, with the value.
        message: String,
    },
    /// An argument is larger than the limits table allows.
    #[error("{what}: {got} is over the limit of {limit}")]
    Limit {
        /// What was counted.
        what: String,
        /// What the caller gave.
        got: u64,
        /// The most that is taken.
        limit: u64,
    },
    /// No living memory has this id.
    #[error("no memory has the id {id}")]
    NotFound {
        /// The id asked for.
        id: String,
    },
    /// The memory exists, but not for this reader.
    #[error("memory {id} carries the label {label:?}; a grant for it is needed to read it")]
    AccessDenied {
        /// The id asked for.
        id: String,
        /// A label that the reader holds no grant for.
        label: String,
    },
    /// The vectors come from another model than the ones in the store.
    #[error(
        "the store holds vectors of {stored_model:?} with {stored_dimension} dimensions, these are from \
         {given_model:?} with {given_dimension}; open it with the first, or re-embed the store"
    )]
    ModelMismatch {
        /// The model remembered by the store.
        stored_model: String,
        /// Its dimension.
        stored_dimension: usize,
        /// The model of the vectors given.
        given_model: String,
        /// Their dimension.
        given_dimension: usize,
    },
    /// The plan was made for a state of the store that is gone.
    #[error("the plan is stale: {message}; make it again")]
    StalePlan {
        /// What changed.
        message: String,
    },
    /// The handle was closed.
    #[error("the store is closed; open it again with TierMemory.open")]
    Closed,
    /// The process was forked after the store was opened.
    #[error("the store was opened before a fork; open it again in the child process")]
    Forked,
    /// A write was asked of a handle that only reads.
    #[error("the store is read-only: {message}")]
    ReadOnly {
        /// Why.
        message: String,
    },
    /// Somebody else holds the store.
    #[error("the store {path} is locked by another process (waited {waited_ms} ms)")]
    Locked {
        /// The store's directory.
        path: String,
        /// How long the call waited.
        waited_ms: u64,
    },
    /// The file was written by a newer version of this library.
    #[error("{path} has format version {found}, this version reads up to {supported}; upgrade tiermem-fast")]
    NewerFormat {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
        /// The newest version known here.
        supported: u32,
    },
    /// What is on disk is not what was written.
    #[error("{what} is damaged: {message}")]
    Corrupt {
        /// The file or the memory.
        what: String,
        /// How that was seen.
        message: String,
    },
    /// A write or a sync failed. Nothing of it is acknowledged and the handle only reads from now on.
    #[error("could not {operation}: {message}; nothing of it is stored and this handle is read-only from now on")]
    Durability {
        /// What was being done.
        operation: String,
        /// What the operating system or SQLite said.
        message: String,
    },
    /// Reading from the disk failed.
    #[error("could not {operation}: {message}")]
    Io {
        /// What was being done.
        operation: String,
        /// What the operating system or SQLite said.
        message: String,
    },
}

impl Error {
    /// An argument with a value that no call accepts.
    pub fn invalid(argument: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { argument: argument.into(), message: message.into() }
    }

    /// A count over its limit.
    pub fn limit(what: impl Into<String>, got: usize, limit: usize) -> Self {
        Self::Limit { what: what.into(), got: got as u64, limit: limit as u64 }
    }

    /// An id that no living memory has.
    pub fn not_found(id: MemoryId) -> Self {
        Self::NotFound { id: id.to_string() }
    }
}
