//! Reads that are no search: single memories, lists, counts, figures.

use super::Engine;
use super::visibility::{Hidden, Viewer, hidden, visible};
use super::write::Model;
use crate::base::{Content, EdgeKind, Error, Head, MemoryId, Micros, Result, Row, RowSet, State, Tier, limits};
use crate::index::vectors::VectorStats;
use crate::store::Filter;

/// A memory, whole, as a reader may see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The narrow part.
    pub head: Head,
    /// What it says.
    pub text: String,
    /// A JSON object.
    pub metadata: Option<String>,
    /// A JSON object, masked where nothing was granted.
    pub private: Option<String>,
    /// What it was made from.
    pub derived_from: Vec<MemoryId>,
    /// Whose place it took.
    pub supersedes: Option<MemoryId>,
    /// Who took its place.
    pub superseded_by: Option<MemoryId>,
}

/// What a listing asks for.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Which memories.
    pub filter: Filter,
    /// Words that must occur in each.
    pub must: Vec<String>,
    /// For whom.
    pub viewer: Viewer,
    /// At most so many.
    pub limit: usize,
    /// Only those that come after this one in the order asked for.
    pub after: Option<MemoryId>,
    /// Latest written first; otherwise in the order of writing.
    pub newest_first: bool,
}

/// How many memories a tier has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierCount {
    /// Remembered.
    pub alive: usize,
    /// Hidden, can come back.
    pub forgotten: usize,
    /// Another took its place; readable in history.
    pub superseded: usize,
    /// Folded into another; readable in history.
    pub merged: usize,
}

/// The figures of a store.
#[derive(Debug, Clone)]
pub struct Stats {
    /// By tier.
    pub tiers: [TierCount; 4],
    /// Living memories whose end has come, waiting to be let go.
    pub expired: usize,
    /// Different sessions.
    pub sessions: usize,
    /// The commit the picture stands at.
    pub commit: u64,
    /// The model of the vectors.
    pub model: Option<Model>,
    /// The vector index.
    pub vectors: Option<VectorStats>,
    /// Bytes of the keyword index.
    pub keyword_bytes: usize,
    /// Bytes of the columns.
    pub column_bytes: usize,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Uses not on disk yet.
    pub pending_uses: usize,
    /// Memories that the disk holds damaged, as (id, why).
    pub damaged: Vec<(String, String)>,
    /// Memories that were read one by one when the store was last loaded; the others came from derived files.
    pub rows_read: usize,
    /// What is amiss without harm: derived files that were damaged and are built anew, or that cannot be written.
    pub warnings: Vec<String>,
}

impl Engine {
    /// The memories with these ids, in their order. Unknown, forgotten and expired ones are not found; one with a
    /// label that was not granted is denied. Superseded and merged ones can be read.
    pub fn get(&self, ids: &[MemoryId], viewer: &Viewer, now: Micros) -> Result<Vec<Item>> {
        self.catch_up()?;
        let heads = {
            let picture = self.picture.read();
            let columns = &picture.columns;
            let mut heads = Vec::with_capacity(ids.len());
            for id in ids {
                let row = columns.find(*id).ok_or_else(|| picture.missing(*id))?;
                let labels = columns.labels(row);
                let missing = match hidden(columns, row, viewer, now) {
                    None => 0,
                    Some(Hidden::Private(missing)) => missing,
                    // What was retired stays readable, to those who might have read it before.
                    Some(Hidden::Gone(State::Superseded | State::Merged)) => labels & !viewer.granted(columns),
                    Some(Hidden::Absent | Hidden::Gone(_) | Hidden::Expired) => return Err(Error::not_found(*id)),
                };
                if let Some(label) = columns.label_names(missing).into_iter().next() {
                    return Err(Error::AccessDenied { id: id.to_string(), label: label.into() });
                }
                heads.push((row, columns.head(row).ok_or_else(|| Error::not_found(*id))?));
            }
            heads
        };
        self.items(heads, viewer)
    }

    /// The texts of rows that a search or a listing of the same reader gave.
    pub fn texts(&self, rows: &[Row]) -> Result<Vec<String>> {
        self.check_open()?;
        Ok(self.contents(rows)?.into_iter().map(|content| content.text).collect())
    }

    /// The contents of rows of the picture. One that is in the picture but not on disk yet is waited for.
    pub(super) fn contents(&self, rows: &[Row]) -> Result<Vec<Content>> {
        match self.disk.contents(rows) {
            Err(Error::NotFound { .. }) => {
                self.disk.settle_group()?;
                self.disk.contents(rows)
            }
            answer => answer,
        }
    }

    fn items(&self, heads: Vec<(Row, Head)>, viewer: &Viewer) -> Result<Vec<Item>> {
        let rows: Vec<Row> = heads.iter().map(|(row, _)| *row).collect();
        let contents = self.contents(&rows)?;
        let edges = self.disk.edges(&rows)?;
        let mut items: Vec<Item> = heads
            .into_iter()
            .zip(contents)
            .map(|((_, head), content)| Item {
                head,
                text: content.text,
                metadata: content.metadata,
                private: content.private.map(|private| viewer.mask(&private)),
                derived_from: Vec::new(),
                supersedes: None,
                superseded_by: None,
            })
            .collect();
        let places: rustc_hash::FxHashMap<Row, usize> =
            rows.iter().enumerate().map(|(place, row)| (*row, place)).collect();
        let picture = self.picture.read();
        let id = |row: Row| picture.columns.present().contains(row).then(|| picture.columns.id(row));
        for edge in edges {
            if let (Some(place), Some(older)) = (places.get(&edge.newer), id(edge.older)) {
                match edge.kind {
                    EdgeKind::DerivedFrom => items[*place].derived_from.push(older),
                    EdgeKind::Supersedes => items[*place].supersedes = Some(older),
                }
            }
            if let (EdgeKind::Supersedes, Some(place), Some(newer)) =
                (edge.kind, places.get(&edge.older), id(edge.newer))
            {
                items[*place].superseded_by = Some(newer);
            }
        }
        Ok(items)
    }

    /// Memories in the order of writing, or the latest first.
    pub fn list(&self, listing: &Listing, now: Micros) -> Result<Vec<Item>> {
        self.catch_up()?;
        if listing.limit > limits::RESULTS {
            return Err(Error::limit("limit", listing.limit, limits::RESULTS));
        }
        let heads = {
            let picture = self.picture.read();
            let columns = &picture.columns;
            let rows = Self::matching(&picture, &listing.filter, &listing.must, &listing.viewer, now)?;
            let after = match listing.after {
                Some(id) => Some(columns.find(id).ok_or_else(|| Error::not_found(id))?.index()),
                None => None,
            };
            let chosen: Vec<Row> = if listing.newest_first {
                let mut all: Vec<Row> = rows.range(0, after.unwrap_or(columns.rows())).collect();
                all.reverse();
                all.truncate(listing.limit);
                all
            } else {
                rows.range(after.map_or(0, |row| row + 1), columns.rows()).take(listing.limit).collect()
            };
            chosen.into_iter().filter_map(|row| columns.head(row).map(|head| (row, head))).collect()
        };
        self.items(heads, &listing.viewer)
    }

    /// How many memories live. Conditions on what a memory says see only what the reader may see.
    pub fn count(&self, filter: &Filter, must: &[String], viewer: &Viewer, now: Micros) -> Result<usize> {
        self.catch_up()?;
        let picture = self.picture.read();
        let owner = Viewer::owner();
        let viewer = if filter.conditions.is_empty() && must.is_empty() { &owner } else { viewer };
        Ok(Self::matching(&picture, filter, must, viewer, now)?.count())
    }

    /// The rows that the filter, the required words and the reader leave.
    pub(super) fn matching(
        picture: &super::picture::Picture,
        filter: &Filter,
        must: &[String],
        viewer: &Viewer,
        now: Micros,
    ) -> Result<RowSet> {
        filter.check()?;
        if must.len() > limits::FILTER_TERMS {
            return Err(Error::limit("required words", must.len(), limits::FILTER_TERMS));
        }
        let mut rows = visible(&picture.columns, viewer, now);
        filter.apply(&picture.columns, &mut rows);
        for word in must {
            rows.intersect(&picture.keywords.rows_with(word)?);
        }
        Ok(rows)
    }

    /// The model that the store's vectors are from, once it has some.
    pub fn model(&self) -> Result<Option<Model>> {
        self.catch_up()?;
        Ok(self.picture.read().model.clone())
    }

    /// The figures of the store.
    pub fn stats(&self, now: Micros) -> Result<Stats> {
        self.catch_up()?;
        let disk_bytes = self.disk.size_bytes()?;
        let picture = self.picture.read();
        let columns = &picture.columns;
        let mut tiers = [TierCount::default(); 4];
        for tier in Tier::ALL {
            for row in columns.tier_rows(tier).iter() {
                let count = &mut tiers[tier as usize];
                match columns.state(row) {
                    State::Alive => count.alive += 1,
                    State::Forgotten => count.forgotten += 1,
                    State::Superseded => count.superseded += 1,
                    State::Merged => count.merged += 1,
                }
            }
        }
        Ok(Stats {
            tiers,
            expired: columns.expired(now).count(),
            sessions: columns.sessions().count(),
            commit: picture.commit(),
            model: picture.model.clone(),
            vectors: picture.vectors.as_ref().map(crate::index::vectors::VectorIndex::stats),
            keyword_bytes: picture.keywords.heap_bytes(),
            column_bytes: columns.heap_bytes(),
            disk_bytes,
            pending_uses: self.pending_uses(),
            damaged: picture
                .damaged
                .iter()
                .map(|damaged| {
                    let id = damaged.id.map_or_else(|| format!("row {}", damaged.row.0), |id| id.to_string());
                    (id, damaged.message.clone())
                })
                .collect(),
            rows_read: picture.rows_read,
            warnings: picture.warnings.iter().cloned().chain(self.saving.failure()).collect(),
        })
    }
}
