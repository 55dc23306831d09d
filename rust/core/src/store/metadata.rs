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
    /// What each row entered, as a hash.
    entered: FxHashMap<u32, u64>,
}

fn hash(metadata: &Json) -> u64 {
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
    /// Makes these the metadata of a row, whatever it had. Looks through the whole index when they are others: who
    /// knows the old ones calls [`Self::remove`] and [`Self::insert`].
    pub fn set(&mut self, row: Row, metadata: Option<&Json>) {
        if self.entered.get(&row.0).copied() == metadata.map(hash) {
            return;
        }
        if self.entered.remove(&row.0).is_some() {
            self.keys.values_mut().for_each(|key| {
                if key.present.remove(&row.0).is_some() {
                    key.numbers.retain(|(known, _)| *known != row.0);
                    key.rows.retain(|_, rows| {
                        rows.retain(|known| *known != row.0);
                        !rows.is_empty()
                    });
                }
            });
        }
        if let Some(metadata) = metadata {
            self.insert(row, metadata);
        }
    }

    /// Takes out whatever was entered for these rows, in one pass over everything.
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

    /// Enters the metadata of a row that has none here.
    pub fn insert(&mut self, row: Row, metadata: &Json) {
        self.entered.insert(row.0, hash(metadata));
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn objects() -> impl Strategy<Value = Option<Json>> {
        let scalar = prop_oneof![
            (0..3_u8).prop_map(Json::from),
            any::<bool>().prop_map(Json::from),
            Just(Json::Null),
            "[ab]".prop_map(Json::from),
        ];
        let value = prop_oneof![
            3 => scalar.clone(),
            1 => prop::collection::vec(scalar.clone(), 0..4).prop_map(Json::from),
            1 => scalar.prop_map(|scalar| serde_json::json!({"x": scalar})),
        ];
        let object = prop::collection::btree_map("[pqx]", value, 0..4);
        prop::option::of(object.prop_map(|fields| Json::Object(fields.into_iter().collect())))
    }

    /// Every value under every key, by row.
    fn contents(index: &MetadataIndex) -> Vec<(String, u64, Vec<u32>)> {
        let mut all: Vec<_> = index
            .keys
            .iter()
            .flat_map(|(name, key)| key.rows.iter().map(|(value, rows)| (name.to_string(), *value, rows.clone())))
            .collect();
        all.sort();
        all
    }

    fn numbers(index: &MetadataIndex) -> Vec<(String, Vec<(u32, f64)>)> {
        let mut all: Vec<_> = index.keys.iter().map(|(name, key)| (name.to_string(), key.numbers.clone())).collect();
        all.retain(|(_, numbers)| !numbers.is_empty());
        all.sort_by(|left, right| left.0.cmp(&right.0));
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: prop::test_runner::RngSeed::Fixed(3), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn however_it_came_to_be_the_index_is_that_of_what_the_rows_have(
            changes in prop::collection::vec((0..4_u32, objects(), any::<bool>()), 1..20)) {
            let mut index = MetadataIndex::default();
            let mut rows: [Option<Json>; 4] = Default::default();
            for (row, new, known) in changes {
                let old = std::mem::replace(&mut rows[row as usize], new.clone());
                if known {
                    if let Some(old) = &old {
                        index.remove(Row(row), old);
                    }
                    if let Some(new) = &new {
                        index.insert(Row(row), new);
                    }
                } else {
                    index.set(Row(row), new.as_ref());
                }
            }
            let mut fresh = MetadataIndex::default();
            for (row, metadata) in rows.iter().enumerate() {
                if let Some(metadata) = metadata {
                    fresh.insert(Row(row as u32), metadata);
                }
            }
            prop_assert_eq!(contents(&index), contents(&fresh));
            prop_assert_eq!(numbers(&index), numbers(&fresh));
            for row in 0..4 {
                for key in ["p", "q", "x", "p.x", "q.x", "x.x"] {
                    prop_assert_eq!(index.has(key, Row(row)), fresh.has(key, Row(row)));
                }
            }
        }
    }
}
