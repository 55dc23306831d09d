//! Changes: each is planned on the picture, written in one transaction, then applied to the picture.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::MutexGuard;
use serde_json::Value as Json;

use super::input::{NewMemory, Patch, check_name, check_text};
use super::picture::Picture;
use super::uses::reinforce;
use super::{Engine, visibility};
use crate::base::{Content, EdgeKind, Error, Head, MemoryId, Micros, Result, Row, RowSet, State, Tier, limits};
use crate::disk::{Arrival, Transaction};
use crate::index::keywords::{Terms, analyze};
use crate::index::vectors::{self, Prepared};
use crate::rank::{self, Laws};
use crate::store::metadata;

/// The gate, held, by a write that the disk knows to be on its way.
pub(super) struct Gate<'engine> {
    held: MutexGuard<'engine, ()>,
    arrival: Arrival<'engine>,
}

/// Counts a write as being on its way for as long as it lives.
struct InFlight<'engine>(&'engine AtomicUsize);

impl<'engine> InFlight<'engine> {
    fn begin(count: &'engine AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<'engine> Gate<'engine> {
    pub(super) fn new(held: MutexGuard<'engine, ()>, arrival: Arrival<'engine>) -> Self {
        Self { held, arrival }
    }
}

/// Rows applied to the picture before readers get a turn.
const SLICE: usize = 512;

/// Which model the vectors of a store are from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The model's name, as its embedder gives it.
    pub id: String,
    /// The dimensions of its vectors.
    pub dimension: usize,
}

impl Model {
    pub(super) fn to_json(&self) -> String {
        serde_json::json!({"id": self.id, "dimension": self.dimension}).to_string()
    }

    pub(super) fn from_json(text: &str) -> Option<Self> {
        let value: Json = serde_json::from_str(text).ok()?;
        let dimension = usize::try_from(value.get("dimension")?.as_u64()?).ok()?;
        (1..=limits::DIMENSIONS).contains(&dimension).then_some(())?;
        Some(Self { id: value.get("id")?.as_str()?.to_owned(), dimension })
    }

    /// Refuses another model than the one the store has.
    pub(super) fn check_same(&self, other: &Self) -> Result<()> {
        if self == other {
            return Ok(());
        }
        Err(Error::ModelMismatch {
            stored_model: self.id.clone(),
            stored_dimension: self.dimension,
            given_model: other.id.clone(),
            given_dimension: other.dimension,
        })
    }
}

/// What became of an added memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// The id under which it is found: its own, or that of the memory it repeats.
    pub id: MemoryId,
    /// Whether a new memory was made.
    pub created: bool,
    /// Whether a memory that said the same was reinforced instead.
    pub reinforced: bool,
}

/// One row's change, to be applied to the picture once it is on disk.
#[derive(Debug)]
pub(super) enum Change {
    /// A new row; `item` is its place among the terms and vectors of the call.
    Insert { row: Row, head: Head, item: usize, metadata: Option<Json> },
    /// A row with another head, and with other metadata when they are given (old, new).
    Update { row: Row, head: Head, metadata: Option<(Option<Json>, Option<Json>)> },
}

/// Vectors of a call with the model they are from.
#[derive(Debug)]
pub(super) struct Vectors {
    model: Model,
    prepared: Prepared,
}

fn prepare_vectors(argument: &str, items: usize, given: Option<(&[f32], &Model)>) -> Result<Option<Vectors>> {
    let Some((values, model)) = given else { return Ok(None) };
    check_name("model_id", &model.id)?;
    let prepared = vectors::prepare(argument, values, model.dimension)?;
    if prepared.count() != items {
        return Err(Error::invalid(argument, format!("{} vectors for {items} memories", prepared.count())));
    }
    Ok(Some(Vectors { model: model.clone(), prepared }))
}

impl Engine {
    /// Waits until it is this thread's turn to write.
    pub(super) fn enter_gate(&self) -> Gate<'_> {
        let arrival = self.disk.arrive();
        Gate { held: self.gate.lock(), arrival }
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.disk.check_writable()
    }

    /// Adds memories; all of them or, on an error, none. A memory that says the same as a living one in the same
    /// tier, session and subject reinforces that one. `vectors` is row-major, one vector an item.
    pub fn add(&self, items: &[NewMemory], vectors: Option<(&[f32], &Model)>, now: Micros) -> Result<Vec<Added>> {
        self.check_writable()?;
        if items.len() > limits::BATCH {
            return Err(Error::limit("memories in one call", items.len(), limits::BATCH));
        }
        for (place, item) in items.iter().enumerate() {
            item.check().map_err(|error| at_item(error, place, items.len()))?;
        }
        let vectors = prepare_vectors("vectors", items.len(), vectors)?;
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let terms: Vec<Terms> = items.iter().map(|item| analyze(&item.text)).collect();
        let keys: Vec<u64> = items.iter().map(|item| Head::text_key(&item.text)).collect();
        let laws = &self.config.laws;
        let (added, _) = self.commit_with(
            self.enter_gate(),
            now,
            || self.told_before(items, &keys, vectors.as_ref(), now),
            |transaction, told| {
                if let Some(vectors) = &vectors {
                    let (key, value) = Picture::model_entry(&vectors.model);
                    if transaction.meta(key)?.is_none() {
                        transaction.set_meta(key, &value)?;
                    }
                }
                insert_all(transaction, items, &keys, told, vectors.as_ref(), laws, now)
            },
            &terms,
            vectors.as_ref(),
        )?;
        Ok(added)
    }

    /// The living row in the same place with the same key, for each item that has one; equal keys are not yet equal
    /// texts. Refuses what the store as it stands cannot take.
    fn told_before(
        &self,
        items: &[NewMemory],
        keys: &[u64],
        vectors: Option<&Vectors>,
        now: Micros,
    ) -> Result<Vec<Option<Row>>> {
        let picture = self.picture.read();
        if let (Some(vectors), Some(model)) = (vectors, &picture.model) {
            model.check_same(&vectors.model)?;
        }
        let labels = items.iter().flat_map(|item| item.labels.iter().map(|label| &**label));
        let total = picture.columns.label_count() + picture.columns.new_labels(labels);
        if total > limits::LABELS {
            return Err(Error::limit("different labels in one store", total, limits::LABELS));
        }
        if picture.columns.rows() + items.len() > limits::ROWS {
            return Err(Error::limit("memories in one store", picture.columns.rows() + items.len(), limits::ROWS));
        }
        for item in items {
            if let Some(id) = item.derived_from.iter().find(|id| picture.columns.find(**id).is_none()) {
                return Err(Error::not_found(*id));
            }
        }
        let find = |(item, key): (&NewMemory, &u64)| {
            picture.columns.find_content(item.tier, item.session.as_deref(), item.about.as_deref(), *key, now)
        };
        Ok(items.iter().zip(keys).map(find).collect())
    }

    /// Changes fields of a memory. Its text stays: what is said anew supersedes.
    pub fn update(&self, id: MemoryId, patch: &Patch, now: Micros) -> Result<()> {
        self.check_writable()?;
        patch.check()?;
        self.commit(self.enter_gate(), now, |engine, transaction| {
            let (row, mut head) = engine.living(transaction, id, now)?;
            let before = (head.tier, head.pinned);
            let metadata = apply_patch(&mut head, patch, transaction, row)?;
            if never_decays(&head) {
                head.half_life = f32::INFINITY;
            } else if patch.half_life.is_none() && before != (head.tier, head.pinned) {
                fit_half_life(&mut head, &engine.config.laws);
            }
            head.version += 1;
            engine.check_labels(&head)?;
            transaction.update(row, &head)?;
            let fields = Json::from_iter([("fields", Json::from(patch.fields()))]);
            transaction.event(row, "update", "owner", Some(&fields.to_string()))?;
            Ok(vec![Change::Update { row, head, metadata }])
        })
    }

    /// Puts a new memory in the place of an old one, which stays readable in history. The new one has the old one's
    /// fields, changed by the patch, and starts its own life.
    pub fn supersede(
        &self,
        id: MemoryId,
        new_id: MemoryId,
        text: &str,
        patch: &Patch,
        vector: Option<(&[f32], &Model)>,
        now: Micros,
    ) -> Result<MemoryId> {
        self.check_writable()?;
        check_text("text", text)?;
        patch.check()?;
        let vectors = prepare_vectors("vector", 1, vector)?;
        let terms = [analyze(text)];
        let laws = &self.config.laws;
        self.commit_with(
            self.enter_gate(),
            now,
            || {
                if let (Some(vectors), Some(model)) = (&vectors, &self.picture.read().model) {
                    model.check_same(&vectors.model)?;
                }
                Ok(())
            },
            |transaction, ()| {
                let (old_row, mut old) = self.living(transaction, id, now)?;
                let content = transaction.content(old_row)?.ok_or_else(|| Error::not_found(id))?;
                if content.text == text {
                    return Err(Error::invalid("text", "is what the memory says already; use update for its fields"));
                }
                let mut head = Head {
                    id: new_id,
                    created_at: now,
                    last_used_at: now,
                    use_count: 0,
                    spaced_uses: 0,
                    repeat_count: 0,
                    version: 1,
                    text_key: Head::text_key(text),
                    ..old.clone()
                };
                let mut content = Content { text: text.to_owned(), ..content };
                patch_head(&mut head, patch);
                patch_content(&mut content, patch);
                if patch.half_life.is_none() || never_decays(&head) {
                    head.half_life = rank::birth_half_life(laws, head.tier, head.importance, head.pinned);
                }
                self.check_labels(&head)?;
                let metadata = content.metadata.as_deref().map(|json| metadata::parse("metadata", json)).transpose()?;
                if let Some(vectors) = &vectors {
                    let (key, value) = Picture::model_entry(&vectors.model);
                    if transaction.meta(key)?.is_none() {
                        transaction.set_meta(key, &value)?;
                    }
                }
                let bits = vectors.as_ref().map(|vectors| vectors.prepared.f16_bits(0));
                let row = transaction.insert(&head, &content, bits)?;
                transaction.edge(row, old_row, EdgeKind::Supersedes)?;
                old.state = State::Superseded;
                old.version += 1;
                transaction.update(old_row, &old)?;
                let by = Json::from_iter([("by", new_id.to_string())]);
                transaction.event(old_row, "supersede", "owner", Some(&by.to_string()))?;
                let changes = vec![
                    Change::Insert { row, head, item: 0, metadata },
                    Change::Update { row: old_row, head: old, metadata: None },
                ];
                Ok((new_id, changes))
            },
            &terms,
            vectors.as_ref(),
        )
        .map(|(id, ())| id)
    }

    /// Hides memories at once; [`Self::restore`] brings them back until compaction.
    pub fn forget(&self, ids: &[MemoryId], now: Micros) -> Result<()> {
        self.check_writable()?;
        self.commit(self.enter_gate(), now, |engine, transaction| {
            each_once(ids)
                .map(|id| {
                    let (row, head) = engine.living(transaction, id, now)?;
                    change_state(transaction, row, head, State::Forgotten, "forget")
                })
                .collect()
        })
    }

    /// Brings forgotten memories back.
    pub fn restore(&self, ids: &[MemoryId], now: Micros) -> Result<()> {
        self.check_writable()?;
        self.commit(self.enter_gate(), now, |_, transaction| {
            each_once(ids)
                .map(|id| {
                    let row = transaction.find(id)?.ok_or_else(|| Error::not_found(id))?;
                    let head = transaction.head(row)?.ok_or_else(|| Error::not_found(id))?;
                    if head.state != State::Forgotten {
                        let message = format!("{id} is {}, not forgotten", head.state.name());
                        return Err(Error::invalid("ids", message));
                    }
                    change_state(transaction, row, head, State::Alive, "restore")
                })
                .collect()
        })
    }

    /// The row and the head, as the disk has it, of a memory that lives.
    pub(super) fn living(&self, transaction: &mut Transaction<'_>, id: MemoryId, now: Micros) -> Result<(Row, Head)> {
        let row = {
            let picture = self.picture.read();
            let row = picture.columns.find(id).ok_or_else(|| Error::not_found(id))?;
            if visibility::hidden(&picture.columns, row, &visibility::Viewer::owner(), now).is_some() {
                return Err(Error::not_found(id));
            }
            row
        };
        let head = transaction.head(row)?.ok_or_else(|| Error::not_found(id))?;
        Ok((row, head))
    }

    fn check_labels(&self, head: &Head) -> Result<()> {
        let picture = self.picture.read();
        let columns = &picture.columns;
        let total = columns.label_count() + columns.new_labels(head.labels.iter().map(|label| &**label));
        if total > limits::LABELS {
            return Err(Error::limit("different labels in one store", total, limits::LABELS));
        }
        Ok(())
    }

    /// A change that inserts nothing and needs no plan.
    pub(super) fn commit(
        &self,
        gate: Gate<'_>,
        now: Micros,
        mut write: impl FnMut(&Self, &mut Transaction<'_>) -> Result<Vec<Change>>,
    ) -> Result<()> {
        let write = |transaction: &mut Transaction<'_>, (): &()| Ok(((), write(self, transaction)?));
        self.commit_with(gate, now, || Ok(()), write, &[], None).map(|_| ())
    }

    /// Plans on the picture, writes together with the pending uses, applies, opens the gate, and returns when all of it
    /// is on disk. So writers follow one another without waiting for each other's sync, and the disk commits them as one
    /// group. Readers may see a change a moment before it is on disk, its caller never hears of it before.
    ///
    /// When another process commits between plan and transaction, both are done again.
    pub(super) fn commit_with<P, T>(
        &self,
        gate: Gate<'_>,
        now: Micros,
        plan: impl Fn() -> Result<P>,
        mut write: impl FnMut(&mut Transaction<'_>, &P) -> Result<(T, Vec<Change>)>,
        terms: &[Terms],
        vectors: Option<&Vectors>,
    ) -> Result<(T, P)> {
        let Gate { held, arrival } = gate;
        let (mut held, mut arrival) = (Some(held), Some(arrival));
        loop {
            self.catch_up_behind_gate()?;
            let planned = plan()?;
            let known = self.picture.read().commit();
            let uses = self.take_uses();
            let (mut moved, mut applied) = (false, false);
            let flight = InFlight::begin(&self.in_flight);
            let arrived = arrival.take().unwrap_or_else(|| self.disk.arrive());
            let written = self.disk.write_arrived(arrived, now, |transaction| {
                if transaction.commit_number() != known + 1 {
                    moved = true;
                    return Err(Error::StalePlan { message: "another process wrote".to_owned() });
                }
                let reinforced = Self::write_uses(&self.config.laws, &uses, transaction)?;
                let (value, changes) = write(transaction, &planned)?;
                if !transaction.is_empty() {
                    applied = true;
                    self.apply(reinforced, changes, terms, vectors, transaction.commit_number())?;
                }
                drop(held.take());
                Ok(value)
            });
            drop(flight);
            match written {
                Ok(written) => return Ok((written.value, planned)),
                Err(error) => {
                    self.give_back_uses(uses);
                    if moved {
                        continue;
                    }
                    if applied {
                        // The picture goes back to what the disk has; where that fails now, the next call sees to it.
                        let _gate = held.unwrap_or_else(|| self.gate.lock());
                        let _ = self.reload();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Brings the picture to what was just committed.
    fn apply(
        &self,
        used: Vec<(Row, Head)>,
        changes: Vec<Change>,
        terms: &[Terms],
        vectors: Option<&Vectors>,
        commit: u64,
    ) -> Result<()> {
        let used = used.into_iter().map(|(row, head)| Change::Update { row, head, metadata: None });
        let mut changes = used.chain(changes).peekable();
        if let Some(vectors) = vectors {
            self.picture.write().set_model(vectors.model.clone());
        }
        while changes.peek().is_some() {
            let mut picture = self.picture.write();
            let mut updated = RowSet::new();
            for change in changes.by_ref().take(SLICE) {
                match change {
                    Change::Insert { row, head, item, metadata } => {
                        picture.columns.put(row, &head)?;
                        if let Some(metadata) = metadata {
                            picture.columns.metadata.insert(row, &metadata);
                        }
                        picture.keywords.insert(row, &terms[item]);
                        if let (Some(index), Some(vectors)) = (picture.vectors.as_mut(), vectors) {
                            index.insert(row, &vectors.prepared, item);
                        }
                    }
                    Change::Update { row, head, metadata } => {
                        picture.columns.put(row, &head)?;
                        updated.insert(row);
                        if let Some((old, new)) = metadata {
                            if let Some(old) = old {
                                picture.columns.metadata.remove(row, &old);
                            }
                            if let Some(new) = new {
                                picture.columns.metadata.insert(row, &new);
                            }
                        }
                    }
                }
            }
            self.count_pending(&mut picture, |row| updated.contains(row));
        }
        self.picture.write().set_commit(commit);
        Ok(())
    }
}

/// Writes the items, each as if it were added after those before it: one that says what a living memory says reinforces
/// that one.
fn insert_all(
    transaction: &mut Transaction<'_>,
    items: &[NewMemory],
    keys: &[u64],
    told: &[Option<Row>],
    vectors: Option<&Vectors>,
    laws: &Laws,
    now: Micros,
) -> Result<(Vec<Added>, Vec<Change>)> {
    let mut added: Vec<Added> = Vec::with_capacity(items.len());
    let mut changes: Vec<Change> = Vec::with_capacity(items.len());
    let mut change_of_row = rustc_hash::FxHashMap::default();
    // The first item of this call that made or reinforced the memory of its place and key, with its change.
    let mut told_here: rustc_hash::FxHashMap<_, (usize, usize)> = rustc_hash::FxHashMap::default();
    for (place, item) in items.iter().enumerate() {
        if let Some(key) = &item.idempotency_key
            && let Some(id) = transaction.idempotency(key)?
        {
            added.push(Added { id, created: false, reinforced: false });
            continue;
        }
        let told_at = item.created_at.unwrap_or(now);
        let key = (keys[place], item.tier, item.session.as_deref(), item.about.as_deref());
        let mut repeated = match told_here.get(&key) {
            Some((first, change)) if items[*first].text == item.text => Some(*change),
            _ => None,
        };
        if repeated.is_none()
            && let Some(row) = told[place]
            && transaction.content(row)?.is_some_and(|content| content.text == item.text)
        {
            repeated = match change_of_row.get(&row) {
                Some(change) => Some(*change),
                None => transaction.head(row)?.map(|head| {
                    changes.push(Change::Update { row, head, metadata: None });
                    change_of_row.insert(row, changes.len() - 1);
                    changes.len() - 1
                }),
            };
        }
        let change = if let Some(change) = repeated {
            let (Change::Insert { row, head, .. } | Change::Update { row, head, .. }) = &mut changes[change];
            tell_again(head, item, told_at, laws);
            transaction.update(*row, head)?;
            transaction.event(*row, "told_again", item.source.name(), None)?;
            added.push(Added { id: head.id, created: false, reinforced: true });
            change
        } else {
            let head = head_of(item, keys[place], laws, told_at);
            let content =
                Content { text: item.text.clone(), metadata: item.metadata.clone(), private: item.private.clone() };
            let bits = vectors.map(|vectors| vectors.prepared.f16_bits(place));
            let row = transaction.insert(&head, &content, bits)?;
            for older in &item.derived_from {
                let older = transaction.find(*older)?.ok_or_else(|| Error::not_found(*older))?;
                transaction.edge(row, older, EdgeKind::DerivedFrom)?;
            }
            let metadata = item.metadata.as_deref().map(|json| metadata::parse("metadata", json)).transpose()?;
            added.push(Added { id: head.id, created: true, reinforced: false });
            changes.push(Change::Insert { row, head, item: place, metadata });
            changes.len() - 1
        };
        // An item whose end has come already is nothing that a later one could reinforce.
        if item.expires_at.is_none_or(|end| end > now) {
            told_here.entry(key).or_insert((place, change));
        }
        if let (Some(key), Some(last)) = (&item.idempotency_key, added.last()) {
            transaction.remember_idempotency(key, last.id)?;
        }
    }
    Ok((added, changes))
}

/// What hearing the same again makes of a memory. It takes nothing back: labels add up, and of two ends the later holds.
fn tell_again(head: &mut Head, item: &NewMemory, at: Micros, laws: &Laws) {
    reinforce(head, at, laws);
    head.repeat_count = head.repeat_count.saturating_add(1);
    head.importance = head.importance.max(item.importance);
    for label in &item.labels {
        if !head.labels.contains(label) {
            head.labels.push(label.clone());
        }
    }
    head.expires_at = later_end(head.expires_at, item.expires_at);
    if item.pinned && !head.pinned {
        head.pinned = true;
        head.half_life = f32::INFINITY;
    }
    head.version += 1;
}

/// The later of two ends; none is the latest.
pub(super) fn later_end(one: Option<Micros>, other: Option<Micros>) -> Option<Micros> {
    one.zip(other).map(|(one, other)| one.max(other))
}

fn head_of(item: &NewMemory, text_key: u64, laws: &Laws, told_at: Micros) -> Head {
    let born = rank::birth_half_life(laws, item.tier, item.importance, item.pinned);
    let mut head = Head {
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
        half_life: item.half_life.unwrap_or(born),
        expires_at: item.expires_at,
        pinned: item.pinned,
        version: 1,
        text_key,
    };
    if never_decays(&head) {
        head.half_life = born;
    }
    head
}

fn patch_head(head: &mut Head, patch: &Patch) {
    fn set<T: Clone>(field: &mut T, value: Option<&T>) {
        if let Some(value) = value {
            field.clone_from(value);
        }
    }
    set(&mut head.importance, patch.importance.as_ref());
    set(&mut head.tier, patch.tier.as_ref());
    set(&mut head.session, patch.session.as_ref());
    set(&mut head.about, patch.about.as_ref());
    set(&mut head.source, patch.source.as_ref());
    set(&mut head.trust, patch.trust.as_ref());
    set(&mut head.tags, patch.tags.as_ref());
    set(&mut head.labels, patch.labels.as_ref());
    set(&mut head.half_life, patch.half_life.as_ref());
    set(&mut head.expires_at, patch.expires_at.as_ref());
    set(&mut head.pinned, patch.pinned.as_ref());
}

/// Whatever half-life the caller tells.
fn never_decays(head: &Head) -> bool {
    head.pinned || head.tier == Tier::Procedural
}

/// After a change of tier, or a release: what decays does so at least as slowly as a new memory of its tier.
fn fit_half_life(head: &mut Head, laws: &Laws) {
    let born = rank::birth_half_life(laws, head.tier, head.importance, head.pinned);
    head.half_life = if head.half_life.is_infinite() { born } else { head.half_life.max(born) };
}

fn patch_content(content: &mut Content, patch: &Patch) {
    if let Some(metadata) = &patch.metadata {
        content.metadata.clone_from(metadata);
    }
    if let Some(private) = &patch.private {
        content.private.clone_from(private);
    }
}

/// Patches head and content; gives the metadata before and after when they change.
fn apply_patch(
    head: &mut Head,
    patch: &Patch,
    transaction: &mut Transaction<'_>,
    row: Row,
) -> Result<Option<(Option<Json>, Option<Json>)>> {
    patch_head(head, patch);
    if patch.metadata.is_none() && patch.private.is_none() {
        return Ok(None);
    }
    let old = transaction.content(row)?.ok_or_else(|| Error::not_found(head.id))?;
    let mut new = old.clone();
    patch_content(&mut new, patch);
    transaction.set_content(row, &new)?;
    let parsed = |json: &Option<String>| json.as_deref().map(|json| metadata::parse("metadata", json)).transpose();
    Ok(patch.metadata.is_some().then_some((parsed(&old.metadata)?, parsed(&new.metadata)?)))
}

fn change_state(
    transaction: &mut Transaction<'_>,
    row: Row,
    mut head: Head,
    state: State,
    event: &str,
) -> Result<Change> {
    head.state = state;
    head.version += 1;
    transaction.update(row, &head)?;
    transaction.event(row, event, "owner", None)?;
    Ok(Change::Update { row, head, metadata: None })
}

/// The ids in their order, each once.
fn each_once(ids: &[MemoryId]) -> impl Iterator<Item = MemoryId> {
    let mut seen = rustc_hash::FxHashSet::default();
    ids.iter().copied().filter(move |id| seen.insert(*id))
}

/// Says which item of a batch an error is about.
fn at_item(error: Error, place: usize, items: usize) -> Error {
    if items == 1 {
        return error;
    }
    match error {
        Error::Invalid { argument, message } => {
            Error::Invalid { argument: format!("items[{place}].{argument}"), message }
        }
        Error::Limit { what, got, limit } => Error::Limit { what: format!("items[{place}]: {what}"), got, limit },
        other => other,
    }
}
