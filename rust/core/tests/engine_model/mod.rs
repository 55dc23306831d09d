//! A naive model of a store: vectors of plain memories, every question answered by looking at all of them.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tiermem_core::base::{Content, Head, MemoryId, Micros, Row, RowSet, State, Tier};
use tiermem_core::disk::{DiskOptions, Durability};
use tiermem_core::engine::{Engine, EngineConfig, Item, MASK, Model, NewMemory, Patch, Query, Viewer};
use tiermem_core::index::keywords::{KeywordConfig, KeywordIndex, analyze};
use tiermem_core::index::vectors::{VectorConfig, VectorIndex, prepare, query_vector};
use tiermem_core::rank::{self, Arms, Laws, Weights};
use tiermem_core::store::{Condition, Field, Filter, Test, Value};

pub const NOW: Micros = Micros(1_700_000_000_000_000);
pub const SECOND: i64 = 1_000_000;
pub const DIMENSION: usize = 8;

pub fn options(durability: Durability) -> DiskOptions {
    DiskOptions {
        durability,
        read_only: false,
        busy_timeout_ms: 5_000,
        allow_network: false,
        now: NOW,
        store_id: 0xe09_14e,
    }
}

/// A store on disk without syncs, which are not what these tests are about.
pub fn open(directory: &Path) -> Engine {
    Engine::open(Some(directory), options(Durability::Normal), EngineConfig::default()).expect("the store opens")
}

pub fn in_memory() -> Engine {
    Engine::open(None, options(Durability::Memory), EngineConfig::default()).expect("the store opens")
}

pub fn model() -> Model {
    Model { id: "test-model".to_owned(), dimension: DIMENSION }
}

/// One of a few directions that lie at different angles to each other.
pub fn direction(number: usize) -> Vec<f32> {
    (0..DIMENSION).map(|axis| ((number * 7 + axis * 3) % 11) as f32 - 4.5).collect()
}

/// A memory as the model keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    pub head: Head,
    pub content: Content,
    pub vector: Option<Vec<f32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    DerivedFrom,
    Supersedes,
}

/// What every handle of one store together must look like.
#[derive(Debug, Clone, Default)]
pub struct Naive {
    pub rows: Vec<Kept>,
    pub keys: BTreeMap<String, usize>,
    pub edges: BTreeSet<(usize, usize, Kind)>,
    pub laws: Laws,
    pub has_model: bool,
    /// Uses that a handle has counted and not written yet.
    pub pending: [Vec<(usize, Micros)>; 2],
}

/// What a call should have said, as far as the model says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    NotFound,
    Denied,
    Invalid,
}

pub type Answer<T> = Result<T, Refusal>;

pub fn count_use(head: &mut Head, at: Micros, laws: &Laws) {
    if at.seconds_since(head.last_used_at) >= laws.promote_use_spacing_seconds {
        head.spaced_uses += 1;
    }
    head.use_count += 1;
    reinforce(head, at, laws);
}

fn reinforce(head: &mut Head, at: Micros, laws: &Laws) {
    head.half_life = laws.half_life_after_use(head.tier, at, head.last_used_at, head.half_life);
    head.last_used_at = head.last_used_at.max(at);
}

fn later(one: Option<Micros>, other: Option<Micros>) -> Option<Micros> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        _ => None,
    }
}

pub fn lives(head: &Head, now: Micros) -> bool {
    head.state == State::Alive && head.expires_at.is_none_or(|end| end > now)
}

impl Naive {
    pub fn find(&self, id: MemoryId) -> Option<usize> {
        self.rows.iter().position(|kept| kept.head.id == id)
    }

    fn living(&self, id: MemoryId, now: Micros) -> Answer<usize> {
        self.find(id).filter(|row| lives(&self.rows[*row].head, now)).ok_or(Refusal::NotFound)
    }

    /// The head as a handle shows it: with the uses it has not written yet.
    pub fn shown(&self, handle: usize, row: usize) -> Head {
        let mut head = self.rows[row].head.clone();
        for (used, at) in &self.pending[handle] {
            if *used == row {
                count_use(&mut head, *at, &self.laws);
            }
        }
        head
    }

    /// Each write of a handle takes its uses along.
    pub fn flush(&mut self, handle: usize) {
        for (row, at) in std::mem::take(&mut self.pending[handle]) {
            count_use(&mut self.rows[row].head, at, &self.laws);
        }
    }

    pub fn used(&mut self, handle: usize, ids: &[MemoryId], now: Micros) -> Answer<()> {
        let rows: Vec<usize> = ids.iter().map(|id| self.living(*id, now)).collect::<Answer<_>>()?;
        self.pending[handle].extend(rows.into_iter().map(|row| (row, now)));
        Ok(())
    }

    /// (id, created, reinforced) of each.
    pub fn add(
        &mut self,
        handle: usize,
        items: &[NewMemory],
        vectors: Option<&[f32]>,
        now: Micros,
    ) -> Answer<Vec<(MemoryId, bool, bool)>> {
        if items.iter().flat_map(|item| &item.derived_from).any(|id| self.find(*id).is_none()) {
            return Err(Refusal::NotFound);
        }
        let mut next = self.clone();
        next.flush(handle);
        let mut answers = Vec::new();
        for (place, item) in items.iter().enumerate() {
            if let Some(row) = item.idempotency_key.as_deref().and_then(|key| next.keys.get(key)) {
                answers.push((next.rows[*row].head.id, false, false));
                continue;
            }
            let told_at = item.created_at.unwrap_or(now);
            let same = |kept: &Kept| {
                let head = &kept.head;
                lives(head, now)
                    && (head.tier, &head.session, &head.about) == (item.tier, &item.session, &item.about)
                    && kept.content.text == item.text
            };
            let row = if let Some(row) = next.rows.iter().position(same) {
                let head = &mut next.rows[row].head;
                reinforce(head, told_at, &next.laws);
                head.repeat_count += 1;
                head.importance = head.importance.max(item.importance);
                head.expires_at = later(head.expires_at, item.expires_at);
                for label in &item.labels {
                    if !head.labels.contains(label) {
                        head.labels.push(label.clone());
                    }
                }
                if item.pinned && !head.pinned {
                    (head.pinned, head.half_life) = (true, f32::INFINITY);
                }
                head.version += 1;
                answers.push((head.id, false, true));
                row
            } else {
                if next.find(item.id).is_some() {
                    return Err(Refusal::Invalid);
                }
                let born = rank::birth_half_life(&next.laws, item.tier, item.importance, item.pinned);
                let head = Head {
                    id: item.id,
                    state: State::Alive,
                    tier: item.tier,
                    importance: item.importance,
                    session: item.session.clone(),
                    about: item.about.clone(),
                    source: item.source,
                    trust: item.trust,
                    tags: item.tags.clone(),
                    labels: item.labels.clone(),
                    created_at: told_at,
                    last_used_at: told_at,
                    use_count: 0,
                    spaced_uses: 0,
                    repeat_count: 0,
                    half_life: item.half_life.filter(|_| born < f32::INFINITY).unwrap_or(born),
                    expires_at: item.expires_at,
                    pinned: item.pinned,
                    version: 1,
                    text_key: Head::text_key(&item.text),
                };
                let content =
                    Content { text: item.text.clone(), metadata: item.metadata.clone(), private: item.private.clone() };
                let vector = vectors.map(|vectors| vectors[place * DIMENSION..][..DIMENSION].to_vec());
                next.rows.push(Kept { head, content, vector });
                let row = next.rows.len() - 1;
                for older in &item.derived_from {
                    let older = next.find(*older).expect("looked for above");
                    next.edges.insert((row, older, Kind::DerivedFrom));
                }
                answers.push((item.id, true, false));
                row
            };
            if let Some(key) = &item.idempotency_key {
                next.keys.insert(key.to_string(), row);
            }
        }
        next.has_model |= vectors.is_some();
        *self = next;
        Ok(answers)
    }

    pub fn update(&mut self, handle: usize, id: MemoryId, patch: &Patch, now: Micros) -> Answer<()> {
        let row = self.living(id, now)?;
        self.flush(handle);
        let Kept { head, content, .. } = &mut self.rows[row];
        let (tier, pinned) = (head.tier, head.pinned);
        change(head, content, patch);
        let born = rank::birth_half_life(&self.laws, head.tier, head.importance, head.pinned);
        if born == f32::INFINITY {
            head.half_life = born;
        } else if patch.half_life.is_none() && (tier, pinned) != (head.tier, head.pinned) {
            head.half_life = if head.half_life == f32::INFINITY { born } else { born.max(head.half_life) };
        }
        head.version += 1;
        Ok(())
    }

    pub fn supersede(
        &mut self,
        handle: usize,
        (id, new_id): (MemoryId, MemoryId),
        text: &str,
        patch: &Patch,
        vector: Option<&[f32]>,
        now: Micros,
    ) -> Answer<MemoryId> {
        let old = self.living(id, now)?;
        if self.rows[old].content.text == text || self.find(new_id).is_some() {
            return Err(Refusal::Invalid);
        }
        self.flush(handle);
        let mut new = self.rows[old].clone();
        new.vector = vector.map(<[f32]>::to_vec);
        text.clone_into(&mut new.content.text);
        change(&mut new.head, &mut new.content, patch);
        new.head = Head {
            id: new_id,
            created_at: now,
            last_used_at: now,
            use_count: 0,
            spaced_uses: 0,
            repeat_count: 0,
            version: 1,
            text_key: Head::text_key(text),
            ..new.head
        };
        let born = rank::birth_half_life(&self.laws, new.head.tier, new.head.importance, new.head.pinned);
        if patch.half_life.is_none() || born == f32::INFINITY {
            new.head.half_life = born;
        }
        self.rows.push(new);
        self.edges.insert((self.rows.len() - 1, old, Kind::Supersedes));
        self.rows[old].head.state = State::Superseded;
        self.rows[old].head.version += 1;
        self.has_model |= vector.is_some();
        Ok(new_id)
    }

    pub fn forget(&mut self, handle: usize, ids: &[MemoryId], now: Micros) -> Answer<()> {
        let rows: BTreeSet<usize> = ids.iter().map(|id| self.living(*id, now)).collect::<Answer<_>>()?;
        self.flush(handle);
        self.turn(rows, State::Forgotten);
        Ok(())
    }

    pub fn restore(&mut self, handle: usize, ids: &[MemoryId]) -> Answer<()> {
        let mut rows = BTreeSet::new();
        for id in ids {
            let row = self.find(*id).ok_or(Refusal::NotFound)?;
            if self.rows[row].head.state != State::Forgotten {
                return Err(Refusal::Invalid);
            }
            rows.insert(row);
        }
        self.flush(handle);
        self.turn(rows, State::Alive);
        Ok(())
    }

    fn turn(&mut self, rows: BTreeSet<usize>, state: State) {
        for row in rows {
            self.rows[row].head.state = state;
            self.rows[row].head.version += 1;
        }
    }

    /// Does what a consolidation says it has done.
    pub fn consolidated(&mut self, handle: usize, report: &tiermem_core::engine::Consolidation) {
        self.flush(handle);
        for moved in &report.merged {
            let row = self.find(moved.id).expect("a memory of the store");
            let into = self.find(moved.into.expect("a merge says into which")).expect("a memory of the store");
            let gone = self.rows[row].head.clone();
            let head = &mut self.rows[into].head;
            head.use_count += gone.use_count;
            head.spaced_uses += gone.spaced_uses;
            head.repeat_count += gone.repeat_count + 1;
            head.half_life = head.half_life.max(gone.half_life);
            head.importance = head.importance.max(gone.importance);
            head.last_used_at = head.last_used_at.max(gone.last_used_at);
            head.trust = head.trust.min(gone.trust);
            head.pinned |= gone.pinned;
            head.expires_at = later(head.expires_at, gone.expires_at);
            head.version += 1;
            self.edges.insert((into, row, Kind::DerivedFrom));
            self.turn(BTreeSet::from([row]), State::Merged);
        }
        for moved in &report.promoted {
            let row = self.find(moved.id).expect("a memory of the store");
            let head = &mut self.rows[row].head;
            assert_eq!(head.tier, moved.from);
            head.tier = moved.to.expect("a promotion says where to");
            let born = rank::birth_half_life(&self.laws, head.tier, head.importance, head.pinned);
            head.half_life = head.half_life.max(born);
            head.version += 1;
        }
        for moved in &report.let_go {
            let row = self.find(moved.id).expect("a memory of the store");
            self.turn(BTreeSet::from([row]), State::Forgotten);
        }
    }

    pub fn get(&self, handle: usize, id: MemoryId, viewer: &Viewer, now: Micros) -> Answer<Item> {
        let row = self.find(id).ok_or(Refusal::NotFound)?;
        let kept = &self.rows[row];
        let readable = lives(&kept.head, now) || matches!(kept.head.state, State::Superseded | State::Merged);
        if !readable {
            return Err(Refusal::NotFound);
        }
        if !granted(&kept.head, viewer) {
            return Err(Refusal::Denied);
        }
        Ok(self.item(handle, row, viewer))
    }

    fn item(&self, handle: usize, row: usize, viewer: &Viewer) -> Item {
        let id = |row: usize| self.rows[row].head.id;
        let edges = |kind: Kind| self.edges.iter().filter(move |edge| edge.2 == kind);
        let content = &self.rows[row].content;
        let private = content.private.as_ref().map(|private| {
            if viewer.everything {
                return private.clone();
            }
            let mut fields: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(private).expect("the tests give objects");
            for (name, value) in &mut fields {
                if !viewer.fields.iter().any(|granted| **granted == **name) {
                    *value = MASK.into();
                }
            }
            serde_json::Value::Object(fields).to_string()
        });
        let mut head = self.shown(handle, row);
        head.labels.sort();
        Item {
            head,
            text: content.text.clone(),
            metadata: content.metadata.clone(),
            private,
            derived_from: edges(Kind::DerivedFrom).filter(|edge| edge.0 == row).map(|edge| id(edge.1)).collect(),
            supersedes: edges(Kind::Supersedes).find(|edge| edge.0 == row).map(|edge| id(edge.1)),
            superseded_by: edges(Kind::Supersedes).find(|edge| edge.1 == row).map(|edge| id(edge.0)),
        }
    }

    pub fn visible(&self, handle: usize, filter: &Filter, must: &[String], viewer: &Viewer, now: Micros) -> Vec<usize> {
        let words = self.keywords();
        (0..self.rows.len())
            .filter(|row| {
                let head = self.shown(handle, *row);
                lives(&head, now)
                    && granted(&head, viewer)
                    && matches(&head, &self.rows[*row].content, filter)
                    && must.iter().all(|word| words.rows_with(word).expect("a word").contains(Row(*row as u32)))
            })
            .collect()
    }

    pub fn list(&self, handle: usize, listing: &tiermem_core::engine::Listing, now: Micros) -> Answer<Vec<Item>> {
        let mut rows = self.visible(handle, &listing.filter, &listing.must, &listing.viewer, now);
        if listing.newest_first {
            rows.reverse();
        }
        if let Some(after) = listing.after {
            let after = self.find(after).ok_or(Refusal::NotFound)?;
            rows.retain(|row| if listing.newest_first { *row < after } else { *row > after });
        }
        rows.truncate(listing.limit);
        Ok(rows.into_iter().map(|row| self.item(handle, row, &listing.viewer)).collect())
    }

    fn keywords(&self) -> KeywordIndex {
        let mut index = KeywordIndex::new(KeywordConfig::default());
        for (row, kept) in self.rows.iter().enumerate() {
            index.insert(Row(row as u32), &analyze(&kept.content.text));
        }
        index
    }

    /// Every memory that matches at all, judged one by one: (id, score), best first, ties to the one written first.
    pub fn search(&self, handle: usize, query: &Query<'_>) -> Vec<(MemoryId, f32)> {
        let rows: Vec<Row> = self
            .visible(handle, &query.filter, &query.must, &query.viewer, query.now)
            .into_iter()
            .map(|row| Row(row as u32))
            .collect();
        let words = self.keywords();
        let asked = words.query(query.text);
        let bm25 = (!asked.is_empty()).then(|| words.scores(&asked, &rows));
        let cosine = query.vector.filter(|_| self.has_model).map(|(values, _)| {
            let mut index = VectorIndex::new(DIMENSION, VectorConfig::default());
            for (row, kept) in self.rows.iter().enumerate() {
                if let Some(vector) = &kept.vector {
                    index.insert(Row(row as u32), &prepare("vector", vector, DIMENSION).expect("a direction"), 0);
                }
            }
            index.cosines(&query_vector("vector", values, DIMENSION).expect("a direction"), &rows)
        });
        let place: Vec<usize> = (0..rows.len())
            .filter(|place| {
                cosine.as_ref().is_some_and(|cosine| !cosine[*place].is_nan())
                    || bm25.as_ref().is_some_and(|bm25| bm25[*place] > 0.0)
            })
            .collect();
        let take = |all: &Vec<f32>| place.iter().map(|place| all[*place]).collect::<Vec<f32>>();
        let (cosine, bm25) = (cosine.as_ref().map(take), bm25.as_ref().map(take));
        let mut relevance = vec![0.0; place.len()];
        let (mut one, mut other) = (relevance.clone(), relevance.clone());
        let weights = Weights { vector: self.laws.vector_weight, keyword: self.laws.keyword_weight };
        let arms = Arms { cosine: cosine.as_deref(), keyword: bm25.as_deref().map(|bm25| (bm25, asked.ideal())) };
        rank::fuse(arms, weights, &mut relevance, &mut one, &mut other);
        let mut scored: Vec<(MemoryId, f32)> = place
            .iter()
            .zip(relevance)
            .map(|(place, relevance)| {
                let head = self.shown(handle, rows[*place].index());
                let strength = self.laws.strength(head.tier, query.now, head.last_used_at, head.half_life);
                let (a, b) = (self.laws.strength_share, self.laws.importance_share);
                (head.id, rank::score(relevance, strength, head.importance, a, b))
            })
            .filter(|(_, score)| *score > 0.0 && query.min_score.is_none_or(|least| *score >= least))
            .collect();
        scored.sort_by(|left, right| right.1.total_cmp(&left.1));
        scored.truncate(query.k);
        scored
    }

    /// Everything that an engine shows of the store is what the model holds.
    pub fn agrees(&self, handle: usize, engine: &Engine, now: Micros) {
        let owner = Viewer::owner();
        for kept in &self.rows {
            let found = engine.get(&[kept.head.id], &owner, now).map(|mut items| {
                let mut item = items.remove(0);
                item.head.labels.sort();
                item
            });
            match self.get(handle, kept.head.id, &owner, now) {
                Ok(item) => assert_eq!(found, Ok(item)),
                Err(_) => assert!(matches!(found, Err(tiermem_core::base::Error::NotFound { .. })), "{found:?}"),
            }
        }
        let stats = engine.stats(now).expect("figures");
        assert_eq!(stats.pending_uses, self.pending[handle].len());
        assert_eq!(stats.damaged, []);
        assert_eq!(stats.model, self.has_model.then(model));
        for tier in Tier::ALL {
            let count =
                |state| self.rows.iter().filter(|kept| kept.head.tier == tier && kept.head.state == state).count();
            let shown = stats.tiers[tier as usize];
            assert_eq!(
                (shown.alive, shown.forgotten, shown.superseded, shown.merged),
                (count(State::Alive), count(State::Forgotten), count(State::Superseded), count(State::Merged))
            );
        }
        let expired =
            self.rows.iter().filter(|kept| kept.head.state == State::Alive && !lives(&kept.head, now)).count();
        assert_eq!(stats.expired, expired);
    }
}

fn change(head: &mut Head, content: &mut Content, patch: &Patch) {
    let patch = patch.clone();
    head.importance = patch.importance.unwrap_or(head.importance);
    head.tier = patch.tier.unwrap_or(head.tier);
    head.session = patch.session.unwrap_or(head.session.take());
    head.about = patch.about.unwrap_or(head.about.take());
    head.source = patch.source.unwrap_or(head.source);
    head.trust = patch.trust.unwrap_or(head.trust);
    head.tags = patch.tags.unwrap_or_else(|| head.tags.clone());
    head.labels = patch.labels.unwrap_or_else(|| head.labels.clone());
    head.half_life = patch.half_life.unwrap_or(head.half_life);
    head.expires_at = patch.expires_at.unwrap_or(head.expires_at);
    head.pinned = patch.pinned.unwrap_or(head.pinned);
    content.metadata = patch.metadata.unwrap_or(content.metadata.take());
    content.private = patch.private.unwrap_or(content.private.take());
}

fn granted(head: &Head, viewer: &Viewer) -> bool {
    viewer.everything || head.labels.iter().all(|label| viewer.labels.contains(label))
}

/// The filters that the tests ask for, one row at a time.
fn matches(head: &Head, content: &Content, filter: &Filter) -> bool {
    let metadata: serde_json::Value =
        content.metadata.as_ref().map_or(serde_json::Value::Null, |json| serde_json::from_str(json).expect("JSON"));
    (filter.tiers.is_empty() || filter.tiers.contains(&head.tier))
        && filter.session.as_ref().is_none_or(|session| head.session.as_ref() == Some(session))
        && filter.about.as_ref().is_none_or(|about| head.about.as_ref().is_none_or(|own| own == about))
        && filter.min_trust.is_none_or(|least| head.trust >= least)
        && filter.conditions.iter().all(|condition| {
            let Condition { field, test } = condition;
            let values: Vec<Value> = match field {
                Field::Metadata(name) => match metadata.get(&**name) {
                    Some(serde_json::Value::Number(number)) => vec![Value::Number(number.as_f64().expect("a number"))],
                    Some(serde_json::Value::String(text)) => vec![Value::Text(text.as_str().into())],
                    Some(other) => panic!("the tests have no {other}"),
                    None => vec![],
                },
                Field::Tags => head.tags.iter().cloned().map(Value::Text).collect(),
                Field::Labels => head.labels.iter().cloned().map(Value::Text).collect(),
                Field::UseCount => vec![Value::Number(f64::from(head.use_count))],
                Field::Session => head.session.iter().cloned().map(Value::Text).collect(),
                Field::Pinned => vec![Value::Bool(head.pinned)],
                other => panic!("the tests do not ask for {other:?}"),
            };
            match test {
                Test::In(wanted) => values.iter().any(|value| wanted.contains(value)),
                Test::NotIn(wanted) => !values.iter().any(|value| wanted.contains(value)),
                Test::Exists(wanted) => values.is_empty() != *wanted,
                Test::Range { low, high } => values.iter().any(|value| {
                    let Value::Number(number) = value else { return false };
                    low.is_none_or(|(end, with)| *number > end || (with && *number >= end))
                        && high.is_none_or(|(end, with)| *number < end || (with && *number <= end))
                }),
            }
        })
}

/// The rows of a set.
pub fn numbers(rows: &RowSet) -> Vec<u32> {
    rows.iter().map(|row| row.0).collect()
}
