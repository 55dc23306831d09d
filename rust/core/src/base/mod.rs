//! F0: the words everything else is said in.
//!
//! Owns the newtypes, the limits table and the one [`Error`]. Calls nothing above it.

mod blob;
mod error;
mod ids;
pub mod limits;
mod memory;
mod rows;
mod tier;
mod time;
mod top_k;

pub use blob::{Blob, Reader, put_count, put_text};
pub use error::{Error, Result};
pub use ids::{MemoryId, Row};
pub use memory::{Content, EdgeKind, Head, State};
pub use rows::RowSet;
pub use tier::{Source, Tier};
pub use time::Micros;
pub use top_k::TopK;
