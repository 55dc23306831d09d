//! F1: the columns in RAM and the filters over them.
//!
//! Owns one value per memory and field ([`Columns`]), the index over metadata ([`metadata`]) and the compilation of
//! filters to row sets ([`filter`]). May call `base`. Promises: every column has the same length; a row that was
//! never written, or is gone, is in no set; nothing here touches the disk, the indexes or a clock.

mod columns;
pub mod filter;
pub mod metadata;
mod names;

pub use columns::{Columns, ColumnsSaver};
pub use filter::{Condition, Field, Filter, Test, Value};
