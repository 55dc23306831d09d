//! The index over metadata as bytes and back, key by key.

use rustc_hash::FxHashMap;

use super::{Key, MetadataIndex};
use crate::base::{Reader, Result, put_count, put_text};

/// The saving of an index.
#[derive(Debug)]
pub(in crate::store) struct MetadataSaver {
    rows: u32,
    /// The keys that are still to come, and their number before the first.
    keys: Vec<Box<str>>,
    started: bool,
    ended: bool,
}

impl MetadataSaver {
    /// Of the rows below `rows`.
    pub(in crate::store) fn new(index: &MetadataIndex, rows: usize) -> Self {
        let mut keys: Vec<Box<str>> = index.keys.keys().cloned().collect();
        keys.sort_unstable_by(|left, right| right.cmp(left));
        Self { rows: rows as u32, keys, started: false, ended: false }
    }

    /// Appends the next key; `false` after the last.
    pub(in crate::store) fn step(&mut self, index: &MetadataIndex, into: &mut Vec<u8>) -> bool {
        if !self.started {
            self.started = true;
            put_count(self.keys.len(), into);
        } else if let Some(path) = self.keys.pop() {
            put_text(&path, into);
            index.keys.get(&path).unwrap_or(&Key::default()).put(self.rows, into);
        } else if !self.ended {
            self.ended = true;
            put_pairs(&index.entered, self.rows, into, |digest, into| into.extend_from_slice(&digest.to_le_bytes()));
            return false;
        }
        true
    }
}

fn put_pairs<V>(map: &FxHashMap<u32, V>, rows: u32, into: &mut Vec<u8>, put: impl Fn(&V, &mut Vec<u8>)) {
    let start = into.len();
    put_count(0, into);
    let mut count = 0_u64;
    map.iter().filter(|(row, _)| **row < rows).for_each(|(row, value)| {
        into.extend_from_slice(&row.to_le_bytes());
        put(value, into);
        count += 1;
    });
    into[start..start + 8].copy_from_slice(&count.to_le_bytes());
}

impl Key {
    fn put(&self, rows: u32, into: &mut Vec<u8>) {
        put_count(self.rows.len(), into);
        self.rows.iter().for_each(|(value, holders)| {
            let holders = &holders[..holders.partition_point(|row| *row < rows)];
            into.extend_from_slice(&value.to_le_bytes());
            put_count(holders.len(), into);
            into.extend(holders.iter().flat_map(|row| row.to_le_bytes()));
        });
        let numbers = &self.numbers[..self.numbers.partition_point(|(row, _)| *row < rows)];
        put_count(numbers.len(), into);
        for (row, number) in numbers {
            into.extend_from_slice(&row.to_le_bytes());
            into.extend_from_slice(&number.to_le_bytes());
        }
        put_pairs(&self.present, rows, into, |count, into| into.extend_from_slice(&count.to_le_bytes()));
    }

    fn read(reader: &mut Reader<'_>, rows: usize) -> Result<Self> {
        let values = reader.count(16)?;
        let mut key = Self { rows: FxHashMap::default(), numbers: Vec::new(), present: FxHashMap::default() };
        key.rows.reserve(values);
        for _ in 0..values {
            let value = reader.u64()?;
            let count = reader.count(4)?;
            let holders: Vec<u32> = reader.u32s(count)?.collect();
            let sound = holders.is_sorted_by(|left, right| left < right) && below(holders.last(), rows);
            reader.check(sound, "the rows of a value do not ascend")?;
            if !holders.is_empty() {
                key.rows.insert(value, holders);
            }
        }
        let count = reader.count(12)?;
        key.numbers.reserve_exact(count);
        for _ in 0..count {
            key.numbers.push((reader.u32()?, reader.f64()?));
        }
        let sound =
            key.numbers.is_sorted_by_key(|(row, _)| *row) && below(key.numbers.last().map(|(row, _)| row), rows);
        reader.check(sound, "the rows of the numbers do not ascend")?;
        key.present = pairs(reader, rows, 8, Reader::u32)?;
        Ok(key)
    }
}

fn below(last: Option<&u32>, rows: usize) -> bool {
    last.is_none_or(|last| (*last as usize) < rows)
}

fn pairs<'bytes, V>(
    reader: &mut Reader<'bytes>,
    rows: usize,
    width: usize,
    value: impl Fn(&mut Reader<'bytes>) -> Result<V>,
) -> Result<FxHashMap<u32, V>> {
    let count = reader.count(width)?;
    let mut map = FxHashMap::default();
    map.reserve(count);
    for _ in 0..count {
        let row = reader.u32()?;
        reader.check(below(Some(&row), rows), "it speaks of a row that is not there")?;
        map.insert(row, value(reader)?);
    }
    Ok(map)
}

impl MetadataIndex {
    /// An index as it was saved, over rows below `rows`.
    pub(in crate::store) fn read(reader: &mut Reader<'_>, rows: usize) -> Result<Self> {
        let mut index = Self::default();
        let keys = reader.count(4 + 3 * 8)?;
        for _ in 0..keys {
            let path = reader.text()?;
            let key = Key::read(reader, rows)?;
            if !key.present.is_empty() {
                index.keys.insert(path.into(), key);
            }
        }
        index.entered = pairs(reader, rows, 12, Reader::u64)?;
        Ok(index)
    }

    /// All there is, in words and in order.
    #[cfg(test)]
    pub(in crate::store) fn contents(&self) -> Vec<String> {
        let mut contents: Vec<String> = Vec::new();
        self.keys.iter().for_each(|(path, key)| {
            contents.extend(key.rows.iter().map(|(value, rows)| format!("{path} {value} {rows:?}")));
            contents.extend(key.numbers.iter().map(|number| format!("{path} {number:?}")));
            contents.extend(key.present.iter().map(|present| format!("{path} {present:?}")));
        });
        contents.extend(self.entered.iter().map(|entered| format!("{entered:?}")));
        contents.sort();
        contents
    }
}
