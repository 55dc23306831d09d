//! The one table of limits. Each is checked before anything is allocated for the value it bounds.

/// Bytes of UTF-8 in one text.
pub const TEXT_BYTES: usize = 64 * 1024;
/// Bytes of the JSON of one memory's metadata, and of its private fields.
pub const METADATA_BYTES: usize = 64 * 1024;
/// Nesting depth of metadata and private fields.
pub const METADATA_DEPTH: usize = 16;
/// Bytes of a session, of an `about`, of a tag, of a label, of an idempotency key, of a model id.
pub const NAME_BYTES: usize = 512;
/// Tags on one memory, and labels on one memory.
pub const NAMES_PER_MEMORY: usize = 64;
/// Different labels in one store: they are the bits of one word.
pub const LABELS: usize = 64;
/// Results of one search.
pub const RESULTS: usize = 10_000;
/// Dimensions of a vector.
pub const DIMENSIONS: usize = 16_384;
/// Memories in one store: rows are `u32`, and the top values are kept free.
pub const ROWS: usize = u32::MAX as usize - 16;
/// Memories in one call; the Python layer cuts longer input into such chunks.
pub const BATCH: usize = 1 << 20;
/// Required keywords, ids in a filter, or conditions in one `where`.
pub const FILTER_TERMS: usize = 4_096;
/// Bytes of a query's text; what follows cannot change the ranking of a sane question.
pub const QUERY_BYTES: usize = 64 * 1024;
/// Latest accepted time: the end of the year 9999, in microseconds.
pub const LATEST_MICROS: i64 = 253_402_300_799_999_999;
/// Longest half-life in seconds: a thousand years. Memories that never decay carry infinity instead.
pub const HALF_LIFE_SECONDS: f64 = 31_557_600_000.0;
