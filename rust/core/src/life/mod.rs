//! F3: what the four tiers do to a memory.
//!
//! Owns the rules by which memories move between tiers, are folded together or let go. May call everything below.
//! Promises: it only plans. A [`Plan`] names rows and reasons; the engine carries it out in one transaction. Planning
//! twice without a change in between gives the same plan, and planning after a plan was carried out gives an empty one.

mod consolidate;
#[cfg(test)]
mod tests;
mod twins;

pub use consolidate::{Plan, Step, plan};
pub use twins::{Verdict, compare};
