//! Names (sessions, subjects, tags, labels) as small numbers, each with the rows that carry it.

use hashbrown::HashTable;

use crate::base::{Row, RowSet};

/// Gives each different name a number, in the order of first sight, and keeps the rows of each.
#[derive(Debug, Default)]
pub(super) struct Names {
    texts: Vec<Box<str>>,
    rows: Vec<Vec<u32>>,
    numbers: HashTable<u32>,
}

fn hash(name: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes())
}

impl Names {
    /// The number of a name that is known.
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.numbers.find(hash(name), |number| *self.texts[*number as usize] == *name).copied()
    }

    /// The number of a name, made when it is new.
    pub(super) fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.find(name) {
            return number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(name.into());
        self.rows.push(Vec::new());
        let texts = &self.texts;
        self.numbers.insert_unique(hash(name), number, |known| hash(&texts[*known as usize]));
        number
    }

    /// The name with this number.
    pub(super) fn name(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }

    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Notes that the row carries the name.
    pub(super) fn attach(&mut self, number: u32, row: Row) {
        let rows = &mut self.rows[number as usize];
        match rows.last() {
            Some(last) if *last >= row.0 => {
                if let Err(place) = rows.binary_search(&row.0) {
                    rows.insert(place, row.0);
                }
            }
            _ => rows.push(row.0),
        }
    }

    /// Notes that the row carries the name no more.
    pub(super) fn detach(&mut self, number: u32, row: Row) {
        let rows = &mut self.rows[number as usize];
        if let Ok(place) = rows.binary_search(&row.0) {
            rows.remove(place);
        }
    }

    /// The rows that carry the name, ascending.
    pub(super) fn rows(&self, number: u32) -> &[u32] {
        &self.rows[number as usize]
    }

    /// The rows that carry the name, as a set.
    pub(super) fn set(&self, name: &str) -> RowSet {
        self.find(name)
            .map_or_else(RowSet::new, |number| RowSet::from_rows(self.rows(number).iter().map(|row| Row(*row))))
    }

    /// Bytes on the heap, near enough.
    pub(super) fn heap_bytes(&self) -> usize {
        self.texts.iter().map(|name| name.len() + 16).sum::<usize>()
            + self.rows.iter().map(|rows| rows.capacity() * 4 + 24).sum::<usize>()
            + self.numbers.capacity() * 5
    }
}
