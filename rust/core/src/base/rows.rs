//! A set of rows as bits: what every filter compiles to.

use super::Row;

/// A set of rows, one bit each. Sets of different length combine as if the shorter were padded with absent rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowSet {
    words: Vec<u64>,
}

impl RowSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The empty set with room for rows below `rows`.
    pub fn with_rows(rows: usize) -> Self {
        Self { words: vec![0; rows.div_ceil(64)] }
    }

    /// Every row below `rows`.
    pub fn full(rows: usize) -> Self {
        let mut words = vec![u64::MAX; rows.div_ceil(64)];
        if !rows.is_multiple_of(64)
            && let Some(last) = words.last_mut()
        {
            *last = (1 << (rows % 64)) - 1;
        }
        Self { words }
    }

    /// The set with these bits, as [`Self::words`] gives them.
    pub fn from_words(words: Vec<u64>) -> Self {
        Self { words }
    }

    /// The set of these rows.
    pub fn from_rows(rows: impl IntoIterator<Item = Row>) -> Self {
        let mut set = Self::new();
        for row in rows {
            set.insert(row);
        }
        set
    }

    /// The bits, 64 rows a word, lowest row in the lowest bit.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Whether the row is in the set.
    #[inline]
    pub fn contains(&self, row: Row) -> bool {
        self.words.get(row.index() / 64).is_some_and(|word| word >> (row.0 % 64) & 1 == 1)
    }

    /// Puts the row in.
    pub fn insert(&mut self, row: Row) {
        let word = row.index() / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (row.0 % 64);
    }

    /// Takes the row out.
    pub fn remove(&mut self, row: Row) {
        if let Some(word) = self.words.get_mut(row.index() / 64) {
            *word &= !(1 << (row.0 % 64));
        }
    }

    /// How many rows are in it.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no row is in it.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Keeps what is also in `other`.
    pub fn intersect(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        for (word, with) in self.words.iter_mut().zip(&other.words) {
            *word &= with;
        }
    }

    /// Adds what is in `other`.
    pub fn unite(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, with) in self.words.iter_mut().zip(&other.words) {
            *word |= with;
        }
    }

    /// Takes out what is in `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (word, without) in self.words.iter_mut().zip(&other.words) {
            *word &= !without;
        }
    }

    /// Keeps only the rows that pass.
    pub fn retain(&mut self, mut passes: impl FnMut(Row) -> bool) {
        for (place, word) in self.words.iter_mut().enumerate() {
            let (mut rest, mut kept) = (*word, 0);
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                // No branch: whether a row passes is anybody's guess.
                kept |= u64::from(passes(Row(place as u32 * 64 + bit))) << bit;
            }
            *word = kept;
        }
    }

    /// The rows in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Row> + '_ {
        self.words.iter().enumerate().flat_map(|(place, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    Row(place as u32 * 64 + bit)
                })
            })
        })
    }

    /// The rows from `start` (inclusive) to `end` (exclusive) that are in the set, ascending.
    pub fn range(&self, start: usize, end: usize) -> impl Iterator<Item = Row> + '_ {
        let first = start / 64;
        let last = end.div_ceil(64).min(self.words.len());
        (first..last).flat_map(move |place| {
            let mut rest = self.words[place];
            let base = place * 64;
            if base < start {
                rest &= u64::MAX << (start - base);
            }
            if base + 64 > end {
                rest &= (1_u64 << (end - base)).wrapping_sub(1);
            }
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    Row(base as u32 + bit)
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn rows(set: &RowSet) -> Vec<u32> {
        set.iter().map(|row| row.0).collect()
    }

    proptest! {
        #[test]
        fn it_is_a_set(left in prop::collection::btree_set(0_u32..300, 0..40),
                       right in prop::collection::btree_set(0_u32..300, 0..40),
                       start in 0_usize..310, length in 0_usize..310) {
            let of = |set: &BTreeSet<u32>| RowSet::from_rows(set.iter().map(|row| Row(*row)));
            let (a, b) = (of(&left), of(&right));
            prop_assert_eq!(rows(&a), left.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(a.count(), left.len());
            prop_assert_eq!(a.is_empty(), left.is_empty());
            let mut both = a.clone();
            both.intersect(&b);
            prop_assert_eq!(rows(&both), left.intersection(&right).copied().collect::<Vec<_>>());
            let mut any = a.clone();
            any.unite(&b);
            prop_assert_eq!(rows(&any), left.union(&right).copied().collect::<Vec<_>>());
            let mut rest = a.clone();
            rest.subtract(&b);
            prop_assert_eq!(rows(&rest), left.difference(&right).copied().collect::<Vec<_>>());
            let mut even = a.clone();
            even.retain(|row| row.0 % 2 == 0);
            prop_assert_eq!(rows(&even), left.iter().copied().filter(|row| row % 2 == 0).collect::<Vec<_>>());
            let end = start + length;
            prop_assert_eq!(
                a.range(start, end).map(|row| row.0).collect::<Vec<_>>(),
                left.iter().copied().filter(|row| (start..end).contains(&(*row as usize))).collect::<Vec<_>>()
            );
            for row in 0..320 {
                prop_assert_eq!(a.contains(Row(row)), left.contains(&row));
            }
        }
    }

    #[test]
    fn full_ends_where_it_should() {
        for count in [0, 1, 63, 64, 65, 128, 130] {
            assert_eq!(rows(&RowSet::full(count)), (0..count as u32).collect::<Vec<_>>());
        }
    }
}
