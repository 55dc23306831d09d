//! F1: what finds rows.
//!
//! [`keywords`] finds them by words (BM25), [`vectors`] by meaning (exact scan and graph). Neither knows what a row
//! holds beyond what it was given, both answer only with rows of the mask they were handed. May call `base`.

pub mod keywords;
pub mod vectors;
