//! A store on its way into a file and back: columns, chunk by chunk.
//!
//! Owns what a snapshot holds and how its columns are laid; the file around them is written in Python. [`Export`] shows
//! one commit however long it takes and however many write meanwhile. [`Import`] believes nothing: what it reads may
//! have been made by anybody, is checked by the rules of `add`, and a fault is [`Error::Corrupt`] with its place.

mod columns;
mod export;
mod import;

pub use export::Export;
pub use import::Import;

use super::Engine;
use super::visibility::{Viewer, hidden};
use super::write::Model;
use crate::base::{Error, MemoryId, Micros, Result};

/// What a chunk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Memories in the order of writing: heads, contents, vectors.
    Memories,
    /// What happened to them, those of one memory together and in their order.
    Events,
    /// Which points at which.
    Edges,
    /// Idempotency keys.
    Keys,
}

impl Part {
    /// All parts, in the order in which they are exported and must be imported.
    pub const ALL: [Self; 4] = [Self::Memories, Self::Events, Self::Edges, Self::Keys];

    /// The name as it is written everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memories => "memories",
            Self::Events => "events",
            Self::Edges => "edges",
            Self::Keys => "keys",
        }
    }

    /// The part with this name.
    pub fn from_name(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|part| part.name() == name)
            .ok_or_else(|| Error::invalid("part", format!("{name:?} is not one of memories, events, edges, keys")))
    }
}

/// Some rows of a part: for each column its name and its values, little-endian, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chunk {
    /// How many rows.
    pub rows: usize,
    /// The columns; which ones is told in `columns`.
    pub columns: Vec<(String, Vec<u8>)>,
}

/// Where a store comes from: what is known before its first row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The commit that is shown.
    pub commit: u64,
    /// Memories in any state.
    pub memories: usize,
    /// When the store was made.
    pub created_at: Micros,
    /// The model of the vectors; `None` when there are none to come.
    pub model: Option<Model>,
}

impl Engine {
    /// The vectors of memories as the bits of f16 numbers; `None` where there is none, or none that the reader may see.
    pub fn vectors(&self, ids: &[MemoryId], viewer: &Viewer, now: Micros) -> Result<Vec<Option<Vec<u16>>>> {
        self.catch_up()?;
        let mut places = Vec::with_capacity(ids.len());
        let mut rows = Vec::with_capacity(ids.len());
        {
            let picture = self.picture.read();
            let columns = &picture.columns;
            for (place, id) in ids.iter().enumerate() {
                if let Some(row) = columns.find(*id)
                    && hidden(columns, row, viewer, now).is_none()
                {
                    places.push(place);
                    rows.push(row);
                }
            }
        }
        self.disk.settle_group()?;
        let mut vectors = vec![None; ids.len()];
        for (place, vector) in places.into_iter().zip(self.disk.vectors(&rows)?) {
            vectors[place] = vector;
        }
        Ok(vectors)
    }
}
