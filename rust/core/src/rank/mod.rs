//! F1: the laws by which memories fade, are strengthened and are ranked.
//!
//! Owns every formula between "these rows are candidates" and "these are the k best", and the constants of all tiers in
//! [`Laws`]. May call `base` only. Everything here is a pure function over numbers and slices: no clock, no state, no
//! failure except [`Laws::check`]. Values are checked where they enter the engine; a slice of the wrong length is a
//! mistake of the caller in this crate and panics.
//!
//! | file | owns |
//! | --- | --- |
//! | `laws` | the constants, and what they make of one memory |
//! | `decay` | strength, half-life at birth, reinforcement |
//! | `fuse` | one relevance from the vector arm and the keyword arm |
//! | `score` | relevance, strength and importance to one score; the k best |
//! | `diversity` | maximal marginal relevance |
//! | `widest` | which instructions the loops over columns are compiled for |

mod decay;
mod diversity;
mod fuse;
mod laws;
mod score;
mod widest;

pub use decay::{reinforce, strength, strengths};
pub use diversity::mmr;
pub use fuse::{Arms, Weights, fuse};
pub use laws::{Laws, birth_half_life};
pub use score::{Aged, aged_scores, score, scores, top_k};

/// The same cases in every run.
#[cfg(test)]
fn seeded() -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    Config { rng_seed: RngSeed::Fixed(1885), failure_persistence: None, ..Config::default() }
}
