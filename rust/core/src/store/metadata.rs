//! The index over metadata: which rows carry which value under which key.
//!
//! A key is the path of a scalar inside the JSON object, joined with dots. The elements of a list count each as a
//! value of the list's key, so `{"projects": ["a", "b"]}` is found by `projects = "a"`.

mod persist;

pub(super) use persist::MetadataSaver;
use rustc_hash::FxHashMap;
use serde_json::Value as Json;

use crate::base::{Error, Result, Row, RowSet, limits};

/// A scalar as filters compare it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// JSON null.
    Null,
    /// JSON true or false.
    Bool(bool),
    /// Any JSON number; integers beyond 2^53 lose their last digits.
    Number(f64),
    /// A JSON string.
    Text(Box<str>),
}

impl Value {
    fn key(&self) -> u64 {
        match self {
            Self::Null => 1,
            Self::Bool(value) => 2 + u64::from(*value),
            // -0 and 0 are one number.
            Self::Number(value) => xxhash_rust::xxh3::xxh3_64_with_seed(&(value + 0.0).to_le_bytes(), 1),
            Self::Text(value) => xxhash_rust::xxh3::xxh3_64_with_seed(value.as_bytes(), 2),
        }
    }
}

#[derive(Debug, Default)]
struct Key {
    rows: FxHashMap<u64, Vec<u32>>,
    /// Ascending by row.
    numbers: Vec<(u32, f64)>,
    /// Every row that has the key at all, with how many values it has there.
    present: FxHashMap<u32, u32>,
}

/// The rows of every key and value.
#[derive(Debug, Default)]
pub struct MetadataIndex {
    keys: FxHashMap<Box<str>, Key>,
    /// What each row that has metadata was entered with, as a digest.
    entered: FxHashMap<u32, u64>,
}

fn digest(metadata: &Json) -> u64 {
    xxhash_rust::xxh3::xxh3_64(metadata.to_string().as_bytes())
}

/// Reads a JSON object and checks it against the limits.
pub fn parse(argument: &str, json: &str) -> Result<Json> {
    if json.len() > limits::METADATA_BYTES {
        return Err(Error::limit(format!("bytes of {argument}"), json.len(), limits::METADATA_BYTES));
    }
    let value: Json =
        serde_json::from_str(json).map_err(|error| Error::invalid(argument, format!("is not JSON: {error}")))?;
    if !value.is_object() {
        return Err(Error::invalid(argument, "is not a JSON object"));
    }
    if depth(&value) > limits::METADATA_DEPTH {
        return Err(Error::limit(format!("nesting depth of {argument}"), depth(&value), limits::METADATA_DEPTH));
    }
    Ok(value)
}

fn depth(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Json::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn each_scalar(path: &mut String, value: &Json, visit: &mut dyn FnMut(&str, Value)) {
    match value {
        Json::Null => visit(path, Value::Null),
        Json::Bool(value) => visit(path, Value::Bool(*value)),
        Json::Number(value) => visit(path, Value::Number(value.as_f64().unwrap_or(f64::NAN))),
        Json::String(value) => visit(path, Value::Text(value.as_str().into())),
        Json::Array(items) => {
            for item in items {
                each_scalar(path, item, visit);
            }
        }
        Json::Object(fields) => {
            for (name, field) in fields {
                let length = path.len();
                if length > 0 {
                    path.push('.');
                }
                path.push_str(name);
                each_scalar(path, field, visit);
                path.truncate(length);
            }
        }
    }
}

impl MetadataIndex {
    /// Enters the metadata of a row.
    pub fn insert(&mut self, row: Row, metadata: &Json) {
        self.entered.insert(row.0, digest(metadata));
        each_scalar(&mut String::new(), metadata, &mut |path, value| {
            if !self.keys.contains_key(path) {
                self.keys.insert(path.into(), Key::default());
            }
            let Some(key) = self.keys.get_mut(path) else { return };
            *key.present.entry(row.0).or_default() += 1;
            if let Value::Number(number) = value {
                let place = key.numbers.partition_point(|(known, _)| *known <= row.0);
                key.numbers.insert(place, (row.0, number));
            }
            let rows = key.rows.entry(value.key()).or_default();
            if let Err(place) = rows.binary_search(&row.0) {
                rows.insert(place, row.0);
            }
        });
    }

    /// Takes out what [`Self::insert`] entered for the same row and metadata.
    pub fn remove(&mut self, row: Row, metadata: &Json) {
        self.entered.remove(&row.0);
        each_scalar(&mut String::new(), metadata, &mut |path, value| {
            let Some(key) = self.keys.get_mut(path) else { return };
            key.present.remove(&row.0);
            let start = key.numbers.partition_point(|(known, _)| *known < row.0);
            let end = key.numbers.partition_point(|(known, _)| *known <= row.0);
            key.numbers.drain(start..end);
            let value = value.key();
            if let Some(rows) = key.rows.get_mut(&value) {
                if let Ok(place) = rows.binary_search(&row.0) {
                    rows.remove(place);
                }
                if rows.is_empty() {
                    key.rows.remove(&value);
                }
            }
        });
    }

    /// Whether the row was entered with just this.
    pub fn has_just(&self, row: Row, metadata: Option<&Json>) -> bool {
        self.entered.get(&row.0).copied() == metadata.map(digest)
    }

    /// Takes out whatever was entered for these rows, in one pass over everything: for who does not know what it was.
    pub fn remove_rows(&mut self, gone: &RowSet) {
        if self.entered.is_empty() || gone.is_empty() {
            return;
        }
        self.entered.retain(|row, _| !gone.contains(Row(*row)));
        self.keys.retain(|_, key| {
            key.present.retain(|row, _| !gone.contains(Row(*row)));
            key.numbers.retain(|(row, _)| !gone.contains(Row(*row)));
            key.rows.retain(|_, rows| {
                rows.retain(|row| !gone.contains(Row(*row)));
                !rows.is_empty()
            });
            !key.present.is_empty()
        });
    }

    /// The rows with this value under this key, ascending.
    pub(super) fn equal(&self, key: &str, value: &Value) -> &[u32] {
        self.keys.get(key).and_then(|key| key.rows.get(&value.key())).map_or(&[], Vec::as_slice)
    }

    /// The rows with a number under this key, with the number.
    pub(super) fn numbers(&self, key: &str) -> &[(u32, f64)] {
        self.keys.get(key).map_or(&[], |key| key.numbers.as_slice())
    }

    /// Whether the row has the key.
    pub(super) fn has(&self, key: &str, row: Row) -> bool {
        self.keys.get(key).is_some_and(|key| key.present.contains_key(&row.0))
    }

    /// Bytes on the heap, near enough.
    pub(super) fn heap_bytes(&self) -> usize {
        self.keys
            .values()
            .map(|key| {
                key.rows.capacity() * 33
                    + key.rows.values().map(|rows| rows.capacity() * 4).sum::<usize>()
                    + key.numbers.capacity() * 16
                    + key.present.capacity() * 9
            })
            .sum::<usize>()
            + self.entered.capacity() * 13
    }
}
