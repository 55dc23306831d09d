//! Which memories follow erased ones: what was made of them, what was folded into them.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value as Json;

use super::receipt::Review;
use crate::base::{EdgeKind, MemoryId, Result, Row, State};
use crate::disk::{Disk, Edge};

/// Which memories follow erased ones.
pub(super) struct Following<'a> {
    pub(super) disk: &'a Disk,
    /// Every memory that can be read.
    pub(super) states: FxHashMap<Row, (MemoryId, State)>,
    /// Whatever is tied to an erased memory follows.
    pub(super) all: bool,
}

impl Following<'_> {
    /// All rows that go, by ascending row, and what is to be looked at.
    pub(super) fn of(&self, asked: Vec<Row>) -> Result<(Vec<Row>, Vec<Review>)> {
        let mut gone: FxHashSet<Row> = asked.iter().copied().collect();
        let mut review: BTreeMap<Row, &'static str> = BTreeMap::new();
        let mut fresh = asked;
        while !fresh.is_empty() {
            let mut next = Vec::new();
            for edge in self.disk.edges(&fresh)? {
                let (row, follows, reason) = match (edge.kind, gone.contains(&edge.older), gone.contains(&edge.newer)) {
                    (EdgeKind::DerivedFrom, true, false) => self.derived(&edge, &gone)?,
                    // What was folded into an erased memory says the same.
                    (EdgeKind::DerivedFrom, false, true) if self.was_folded(&edge)? => (edge.older, true, ""),
                    (EdgeKind::Supersedes, true, false) => (edge.newer, false, "it took the place of an erased memory"),
                    (EdgeKind::Supersedes, false, true) => (edge.older, false, "an erased memory took its place"),
                    _ => continue,
                };
                if follows || self.all {
                    if gone.insert(row) {
                        next.push(row);
                    }
                } else {
                    review.insert(row, reason);
                }
            }
            fresh = next;
        }
        let mut rows: Vec<Row> = gone.iter().copied().collect();
        rows.sort_unstable();
        let review = review.into_iter().filter(|(row, _)| !gone.contains(row));
        let review = review.filter_map(|(row, reason)| {
            self.states.get(&row).map(|(id, _)| Review { id: *id, reason: reason.to_owned() })
        });
        Ok((rows, review.collect()))
    }

    /// Whether a memory that was made from an erased one goes too: when nothing else that it was made from stays.
    fn derived(&self, edge: &Edge, gone: &FxHashSet<Row>) -> Result<(Row, bool, &'static str)> {
        if self.was_folded(edge)? {
            return Ok((edge.newer, false, "an erased memory was folded into it"));
        }
        let sources = self.disk.edges(&[edge.newer])?;
        let mut sources = sources.iter().filter(|one| one.newer == edge.newer && one.kind == EdgeKind::DerivedFrom);
        let follows = sources.all(|source| gone.contains(&source.older));
        Ok((edge.newer, follows, "it was made from an erased memory and others"))
    }

    /// Whether the older memory of an edge was folded into the newer one as its near-duplicate.
    fn was_folded(&self, edge: &Edge) -> Result<bool> {
        let Some((id, State::Merged)) = self.states.get(&edge.older) else { return Ok(false) };
        let Some((into, _)) = self.states.get(&edge.newer) else { return Ok(false) };
        let events = self.disk.events(*id)?;
        let merge = events.iter().rev().find(|event| event.kind == "merge").and_then(|event| event.detail.as_deref());
        let detail: Option<Json> = merge.and_then(|detail| serde_json::from_str(detail).ok());
        Ok(detail.is_some_and(|detail| detail["into"].as_str() == Some(&into.to_string())))
    }
}
