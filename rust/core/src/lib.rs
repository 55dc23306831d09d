//! The core of `tiermem_fast`: memories in four tiers, their decay, their search and their storage.
//!
//! This is the floor plan. Imports go down only, and the rooms of one floor do not see one another;
//! `tests/floors.rs` reads the imports and fails on one that goes up or sideways.
//!
//! | floor | room | owns |
//! | --- | --- | --- |
//! | F0 | [`base`] | the words everything else is said in: ids, tiers, time, limits, row sets, the one error |
//! | F1 | [`store`] | the columns in RAM and the filters over them |
//! | F1 | [`rank`] | the laws: strength, reinforcement, score, fusion, diversity; pure functions over slices |
//! | F1 | [`index`] | what finds rows: vectors (exact scan, graph, planner) and keywords (tokenizer, BM25) |
//! | F2 | [`disk`] | the SQLite file, which is the truth |
//! | F3 | [`life`] | what the four tiers do to a memory: promote, merge, let go |
//! | F4 | [`engine`] | locks, batch operations, the plan of a search, maintenance |
//!
//! The core knows no Python, reads no clock and no environment, draws no random number and prints nothing:
//! time, ids and paths are arguments. It never blocks on anything but its own locks and the disk.

pub mod base;
pub mod disk;
pub mod engine;
pub mod index;
pub mod life;
pub mod rank;
pub mod store;
