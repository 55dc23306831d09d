//! Putting a store together from chunks that anybody may have made.

use std::path::Path;

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use rustc_hash::FxHashSet;

use super::columns::{Reader, TextLists, damaged};
use super::export::NEVER;
use super::{Chunk, Part};
use crate::base::{Content, EdgeKind, Error, Head, MemoryId, Micros, Result, Row, Source, State, Tier, limits};
use crate::disk::{Disk, DiskOptions, Transaction};
use crate::engine::input::{check_name, check_share, check_text};
use crate::engine::picture::Picture;
use crate::engine::write::Model;
use crate::engine::{Engine, EngineConfig};
use crate::store::metadata;

/// A store that is being filled. One that is given up half way is to be thrown away.
#[derive(Debug)]
pub struct Import {
    disk: Disk,
    dimension: usize,
    labels: FxHashSet<Box<str>>,
    /// The part that was filled last: they come in their order.
    part: Part,
}

impl Import {
    /// Makes an empty store to be filled; one that holds anything is refused. `created_at` is when the store that was
    /// exported was made, `model` what its vectors are from.
    pub fn new(
        directory: Option<&Path>,
        options: DiskOptions,
        created_at: Micros,
        model: Option<&Model>,
    ) -> Result<Self> {
        let now = options.now;
        check_time("created_at", created_at.0).map_err(damaged)?;
        if let Some(model) = model {
            check_name("model", &model.id).map_err(|error| damaged(error.to_string()))?;
            if !(1..=limits::DIMENSIONS).contains(&model.dimension) {
                return Err(damaged(format!("vectors of {} dimensions", model.dimension)));
            }
        }
        let disk = Disk::open(directory, options)?;
        disk.write(now, |transaction| {
            if transaction.next_row() != Row(0) {
                return Err(Error::invalid("path", "a store is there already; restore into a new directory"));
            }
            transaction.set_meta("created_at", &created_at.0.to_string())?;
            if let Some(model) = model {
                let (key, value) = Picture::model_entry(model);
                transaction.set_meta(key, &value)?;
            }
            Ok(())
        })?;
        let dimension = model.map_or(0, |model| model.dimension);
        Ok(Self { disk, dimension, labels: FxHashSet::default(), part: Part::Memories })
    }

    /// Takes in one chunk, whole or, on an error, not at all.
    pub fn add(&mut self, part: Part, chunk: &Chunk, now: Micros) -> Result<()> {
        if (part as u8) < self.part as u8 {
            return Err(damaged(format!("its {} come after its {}", part.name(), self.part.name())));
        }
        self.part = part;
        let Self { disk, dimension, labels, .. } = self;
        let mut place = 0;
        let written = disk.write(now, |transaction| match part {
            Part::Memories => add_memories(transaction, chunk, *dimension, labels, &mut place),
            Part::Events => add_events(transaction, chunk, &mut place),
            Part::Edges => add_edges(transaction, chunk, &mut place),
            Part::Keys => add_keys(transaction, chunk, &mut place),
        });
        written.map(|_| ()).map_err(|error| match error {
            Error::Invalid { .. } | Error::Limit { .. } | Error::NotFound { .. } => {
                damaged(format!("row {place} of a chunk of {}: {error}", part.name()))
            }
            other => other,
        })
    }

    /// Writes everything into the file and lets go of it.
    pub fn close(self) -> Result<()> {
        self.disk.close()
    }

    /// The engine over the store, now that it is whole.
    pub fn into_engine(self, config: EngineConfig) -> Result<Engine> {
        config.laws.check()?;
        Engine::over(self.disk, config)
    }
}

fn add_memories(
    transaction: &mut Transaction<'_>,
    chunk: &Chunk,
    dimension: usize,
    known_labels: &mut FxHashSet<Box<str>>,
    place: &mut usize,
) -> Result<()> {
    let mut reader = Reader::new(chunk)?;
    let ids = reader.fixed("id")?;
    let [states, tiers, sources, pinned] = ["state", "tier", "source", "pinned"].map(|name| reader.fixed::<1>(name));
    let (states, tiers, sources, pinned) = (states?, tiers?, sources?, pinned?);
    let [importance, trust, half_life] = ["importance", "trust", "half_life"].map(|name| reader.fixed(name));
    let (importance, trust, half_life) = (importance?, trust?, half_life?);
    let [created_at, last_used_at, expires_at] =
        ["created_at", "last_used_at", "expires_at"].map(|name| reader.fixed(name));
    let (created_at, last_used_at, expires_at) = (created_at?, last_used_at?, expires_at?);
    let [uses, spaced_uses, repeats, versions] =
        ["use_count", "spaced_uses", "repeat_count", "version"].map(|name| reader.fixed(name));
    let (uses, spaced_uses, repeats, versions) = (uses?, spaced_uses?, repeats?, versions?);
    let (sessions, abouts) = (reader.text("session")?, reader.text("about")?);
    let (tags, labels) = (reader.texts("tags")?, reader.texts("labels")?);
    let (texts, metadata, private) = (reader.text("text")?, reader.text("metadata")?, reader.text("private")?);
    let (has_vector, halves) = (reader.fixed("has_vector")?, reader.raw("halves")?);
    reader.finish()?;
    let mut vectors = Vectors::new(has_vector, halves, dimension)?;

    for (row, id) in ids.iter().enumerate() {
        *place = row;
        let text = texts.get(row).unwrap_or_default();
        check_text("text", text)?;
        let content = Content {
            text: text.to_owned(),
            metadata: object("metadata", metadata.get(row))?,
            private: object("private", private.get(row))?,
        };
        let head = Head {
            id: MemoryId::from_bytes(*id),
            state: coded("state", states[row], State::from_number)?,
            tier: coded("tier", tiers[row], Tier::from_number)?,
            importance: share("importance", importance[row])?,
            session: name("session", sessions.get(row))?,
            about: name("about", abouts.get(row))?,
            source: coded("source", sources[row], Source::from_number)?,
            trust: share("trust", trust[row])?,
            tags: names("tags", &tags, row)?,
            labels: names("labels", &labels, row)?,
            created_at: time("created_at", created_at[row])?,
            last_used_at: time("last_used_at", last_used_at[row])?,
            use_count: u32::from_le_bytes(uses[row]),
            spaced_uses: u32::from_le_bytes(spaced_uses[row]),
            repeat_count: u32::from_le_bytes(repeats[row]),
            half_life: positive("half_life", half_life[row])?,
            expires_at: match i64::from_le_bytes(expires_at[row]) {
                NEVER => None,
                _ => Some(time("expires_at", expires_at[row])?),
            },
            pinned: coded("pinned", pinned[row], |number| [false, true].get(number as usize).copied())?,
            version: u32::from_le_bytes(versions[row]),
            text_key: Head::text_key(text),
        };
        for label in &head.labels {
            if !known_labels.contains(label) {
                known_labels.insert(label.clone());
            }
        }
        if known_labels.len() > limits::LABELS {
            return Err(Error::limit("different labels in one store", known_labels.len(), limits::LABELS));
        }
        transaction.insert(&head, &content, vectors.next()?)?;
    }
    Ok(())
}

fn add_events(transaction: &mut Transaction<'_>, chunk: &Chunk, place: &mut usize) -> Result<()> {
    let mut reader = Reader::new(chunk)?;
    let (ids, times) = (reader.fixed("id")?, reader.fixed("at")?);
    let (kinds, actors, details) = (reader.text("kind")?, reader.text("actor")?, reader.text("detail")?);
    reader.finish()?;
    for (row, id) in ids.iter().enumerate() {
        *place = row;
        let memory = found(transaction, *id)?;
        let (kind, actor) = (kinds.get(row).unwrap_or_default(), actors.get(row).unwrap_or_default());
        check_name("kind", kind)?;
        check_name("actor", actor)?;
        let detail = details.get(row);
        if let Some(detail) = detail {
            json("detail", detail)?;
        }
        transaction.event_at(memory, time("at", times[row])?, kind, actor, detail)?;
    }
    Ok(())
}

fn add_edges(transaction: &mut Transaction<'_>, chunk: &Chunk, place: &mut usize) -> Result<()> {
    let mut reader = Reader::new(chunk)?;
    let (newer, older, kinds) = (reader.fixed("newer")?, reader.fixed("older")?, reader.fixed("kind")?);
    reader.finish()?;
    for (row, kind) in kinds.iter().enumerate() {
        *place = row;
        let kind =
            coded("kind", *kind, |number| [EdgeKind::DerivedFrom, EdgeKind::Supersedes].get(number as usize).copied())?;
        let (newer, older) = (found(transaction, newer[row])?, found(transaction, older[row])?);
        transaction.edge(newer, older, kind)?;
    }
    Ok(())
}

fn add_keys(transaction: &mut Transaction<'_>, chunk: &Chunk, place: &mut usize) -> Result<()> {
    let mut reader = Reader::new(chunk)?;
    let (keys, ids) = (reader.text("key")?, reader.fixed("id")?);
    reader.finish()?;
    for (row, id) in ids.iter().enumerate() {
        *place = row;
        let key = keys.get(row).unwrap_or_default();
        check_name("idempotency_key", key)?;
        transaction.remember_idempotency(key, MemoryId::from_bytes(*id))?;
    }
    Ok(())
}

/// The vectors of the rows that have one, in their order.
struct Vectors<'chunk> {
    has_vector: std::slice::Iter<'chunk, [u8; 1]>,
    halves: Vec<u16>,
    dimension: usize,
    taken: usize,
}

impl<'chunk> Vectors<'chunk> {
    fn new(has_vector: &'chunk [[u8; 1]], bytes: &[u8], dimension: usize) -> Result<Self> {
        if has_vector.iter().any(|flag| flag[0] > 1) {
            return Err(damaged("the column has_vector holds more than yes and no"));
        }
        let count = has_vector.iter().filter(|flag| flag[0] == 1).count();
        if count > 0 && dimension == 0 {
            return Err(damaged("there are vectors, but of no model"));
        }
        let (pairs, rest) = bytes.as_chunks::<2>();
        if !rest.is_empty() || pairs.len() != count * dimension {
            return Err(damaged(format!("the column halves is not {count} vectors of {dimension} values")));
        }
        let halves: Vec<u16> = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
        if count > 0 {
            check_lengths(&halves, dimension)?;
        }
        Ok(Self { has_vector: has_vector.iter(), halves, dimension, taken: 0 })
    }

    fn next(&mut self) -> Result<Option<&[u16]>> {
        match self.has_vector.next() {
            None => Err(damaged("the column has_vector is too short")),
            Some([0]) => Ok(None),
            Some(_) => {
                self.taken += self.dimension;
                Ok(self.halves.get(self.taken - self.dimension..self.taken))
            }
        }
    }
}

/// Refuses vectors that are not finite and of length one, as every stored one is but for its rounding.
fn check_lengths(halves: &[u16], dimension: usize) -> Result<()> {
    let mut values = vec![0.0_f32; dimension];
    for bits in halves.chunks_exact(dimension) {
        bits.reinterpret_cast::<f16>().convert_to_f32_slice(&mut values);
        let length = values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt();
        if !(0.99..=1.01).contains(&length) {
            return Err(damaged(format!("a vector has the length {length}, not 1")));
        }
    }
    Ok(())
}

fn found(transaction: &mut Transaction<'_>, id: [u8; 16]) -> Result<Row> {
    let id = MemoryId::from_bytes(id);
    transaction.find(id)?.ok_or_else(|| Error::not_found(id))
}

fn coded<T>(argument: &str, number: [u8; 1], decode: impl FnOnce(u8) -> Option<T>) -> Result<T> {
    decode(number[0]).ok_or_else(|| Error::invalid(argument, format!("{} is not a number of one", number[0])))
}

fn share(argument: &str, bytes: [u8; 4]) -> Result<f32> {
    let value = f32::from_le_bytes(bytes);
    check_share(argument, value).map(|()| value)
}

fn positive(argument: &str, bytes: [u8; 4]) -> Result<f32> {
    let value = f32::from_le_bytes(bytes);
    if value > 0.0 { Ok(value) } else { Err(Error::invalid(argument, format!("{value} is not above 0"))) }
}

fn time(argument: &str, bytes: [u8; 8]) -> Result<Micros> {
    let micros = i64::from_le_bytes(bytes);
    check_time(argument, micros).map(|()| Micros(micros)).map_err(|message| Error::invalid(argument, message))
}

fn check_time(what: &str, micros: i64) -> Result<(), String> {
    if (0..=limits::LATEST_MICROS).contains(&micros) {
        Ok(())
    } else {
        Err(format!("{micros} microseconds since 1970 as {what} is not a time between 1970 and 9999"))
    }
}

fn name(argument: &str, text: Option<&str>) -> Result<Option<Box<str>>> {
    text.map(|text| check_name(argument, text).map(|()| text.into())).transpose()
}

/// A list of names; merging may have made it longer than `add` takes.
fn names(argument: &str, lists: &TextLists<'_>, row: usize) -> Result<Vec<Box<str>>> {
    if lists.count(row) > limits::FILTER_TERMS {
        return Err(Error::limit(argument, lists.count(row), limits::FILTER_TERMS));
    }
    let names = lists.get(row);
    names.iter().try_for_each(|name| check_name(argument, name))?;
    Ok(names)
}

fn object(argument: &str, text: Option<&str>) -> Result<Option<String>> {
    text.map(|text| metadata::parse(argument, text).map(|_| text.to_owned())).transpose()
}

/// Any JSON, as the detail of an event is.
fn json(argument: &str, text: &str) -> Result<()> {
    if text.len() > limits::METADATA_BYTES {
        return Err(Error::limit(format!("bytes of {argument}"), text.len(), limits::METADATA_BYTES));
    }
    serde_json::from_str::<serde_json::Value>(text)
        .map(|_| ())
        .map_err(|error| Error::invalid(argument, format!("is not JSON: {error}")))
}
