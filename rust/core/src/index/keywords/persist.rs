//! The keyword index as bytes and back.
//!
//! Saving is cut into steps, so that no lock is held for the whole of it. Rows only ascend, so what is below the first
//! step's last row stays as it is while later steps run, whatever is added above.

use super::postings::{Entry, Lists};
use super::{KeywordConfig, KeywordIndex};
use crate::base::{Reader, Result, Row, RowSet, limits, put_count};

/// Lists of one step, and bytes after which a step ends anyway.
const LISTS: usize = 2_048;
const STEP_BYTES: usize = 1 << 20;
/// Bytes of one term.
const TERM_BYTES: usize = 8 + 4 + 1;
/// In the place of a frequency: the number is that of a list.
const MANY: u8 = 0;

/// The saving of an index.
#[derive(Debug, Default)]
pub struct KeywordsSaver {
    rows: u32,
    lists: usize,
    next: usize,
    started: bool,
}

impl KeywordsSaver {
    /// Appends the next part; `false` after the last. The first takes the longest: it walks all terms.
    pub fn step(&mut self, index: &KeywordIndex, into: &mut Vec<u8>) -> bool {
        if !self.started {
            self.started = true;
            self.rows = index.lengths.len() as u32;
            self.lists = index.lists.len();
            index.put_terms(into);
            return true;
        }
        let start = into.len();
        let end = (self.next + LISTS).min(self.lists);
        while self.next < end && into.len() - start < STEP_BYTES {
            index.lists.put(self.next, self.rows, &index.lengths, into);
            self.next += 1;
        }
        self.next < self.lists
    }
}

impl KeywordIndex {
    fn put_terms(&self, into: &mut Vec<u8>) {
        put_count(self.lengths.len(), into);
        into.extend(self.lengths.iter().flat_map(|length| length.to_le_bytes()));
        put_count(self.rows, into);
        into.extend_from_slice(&self.total_length.to_le_bytes());
        put_count(self.lists.len(), into);
        put_count(self.terms.len(), into);
        into.reserve(self.terms.len() * TERM_BYTES);
        self.terms.iter().for_each(|(hash, entry)| {
            let (number, frequency) = match entry {
                Entry::One { row, frequency } => (*row, (*frequency).max(1)),
                Entry::Many(number) => (*number, MANY),
            };
            into.extend_from_slice(&hash.to_le_bytes());
            into.extend_from_slice(&number.to_le_bytes());
            into.push(frequency);
        });
    }

    /// An index as it was saved. Bytes that cannot have been are refused; no bytes do harm.
    pub fn from_bytes(bytes: &[u8], config: KeywordConfig) -> Result<Self> {
        let mut reader = Reader::new("the saved keyword index", bytes);
        let mut index = Self::new(config);
        let rows = reader.count(2)?;
        reader.check(rows <= limits::ROWS, "it has too many rows")?;
        index.lengths = reader.u16s(rows)?.collect();
        index.rows = reader.u64()? as usize;
        reader.check(index.rows <= rows, "it has more texts than rows")?;
        index.total_length = reader.u64()?;
        let most = index.rows as u64 * u64::from(u16::MAX);
        reader.check(index.total_length <= most, "its texts are too long")?;
        let lists = reader.count(1)?;
        let terms = reader.count(TERM_BYTES)?;
        index.terms.reserve(terms);
        let mut named = RowSet::with_rows(lists);
        for _ in 0..terms {
            let (hash, number, frequency) = (reader.u64()?, reader.u32()?, reader.u8()?);
            let (entry, end) = match frequency {
                MANY => (Entry::Many(number), lists),
                frequency => (Entry::One { row: number, frequency }, rows),
            };
            reader.check((number as usize) < end, "a term stands nowhere")?;
            if frequency == MANY {
                // Two that share a list would put the same row into it twice.
                reader.check(!named.contains(Row(number)), "two terms share a list")?;
                named.insert(Row(number));
            }
            index.terms.insert(hash, entry);
        }
        index.lists = Lists::default();
        for _ in 0..lists {
            index.lists.take(&mut reader, &index.lengths)?;
        }
        reader.end()?;
        Ok(index)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that fails is what they are for")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::index::keywords::analyze;

    fn saved(index: &KeywordIndex) -> Vec<u8> {
        let (mut saver, mut bytes) = (KeywordsSaver::default(), Vec::new());
        while saver.step(index, &mut bytes) {}
        bytes
    }

    /// Texts of words that are anything from everywhere to unique.
    fn text(row: u32) -> String {
        let mut text = format!("all half{} third{} tenth{} of{}", row % 2, row % 3, row % 10, row / 40);
        for repeated in 0..row % 5 {
            text.push_str(if repeated % 2 == 0 { " all again" } else { " 记忆" });
        }
        text
    }

    fn index(rows: std::ops::Range<u32>, gap: u32) -> KeywordIndex {
        let mut index = KeywordIndex::new(KeywordConfig::default());
        add(&mut index, rows, gap);
        index
    }

    fn add(index: &mut KeywordIndex, rows: std::ops::Range<u32>, gap: u32) {
        for row in rows {
            index.insert(Row(row * gap), &analyze(&text(row)));
        }
    }

    fn same(left: &KeywordIndex, right: &KeywordIndex, rows: usize) {
        assert_eq!(left.rows(), right.rows());
        assert_eq!(left.distinct_terms(), right.distinct_terms());
        let mask = RowSet::full(rows);
        for question in ["all", "half1 third2", "tenth7 again all", "of3 记忆", "nothing", "half0 of1 tenth1 third1"]
        {
            let bits = |index: &KeywordIndex| {
                let found = index.search(&index.query(question), &mask, 40);
                found.into_iter().map(|(row, score)| (row, score.to_bits())).collect::<Vec<_>>()
            };
            assert_eq!(bits(left), bits(right), "{question}");
            assert_eq!(left.rows_with("all again").unwrap(), right.rows_with("all again").unwrap());
        }
    }

    #[test]
    fn it_comes_back_as_it_was_and_grows_on() {
        for (count, gap) in [(0, 1), (1, 1), (127, 1), (128, 1), (129, 3), (700, 1), (1_500, 7)] {
            let mut index = index(0..count, gap);
            let mut loaded = KeywordIndex::from_bytes(&saved(&index), KeywordConfig::default()).unwrap();
            same(&index, &loaded, (count * gap + 10) as usize);
            add(&mut index, count..count + 300, gap);
            add(&mut loaded, count..count + 300, gap);
            same(&index, &loaded, ((count + 300) * gap) as usize);
        }
    }

    #[test]
    fn rows_that_come_while_it_is_saved_are_left_out() {
        let mut growing = index(0..700, 1);
        let (mut saver, mut bytes) = (KeywordsSaver::default(), Vec::new());
        let mut row = 700;
        while saver.step(&growing, &mut bytes) {
            add(&mut growing, row..row + 90, 1);
            row += 90;
        }
        assert!(row > 700);
        let loaded = KeywordIndex::from_bytes(&bytes, KeywordConfig::default()).unwrap();
        same(&index(0..700, 1), &loaded, 700);
    }

    #[test]
    fn no_flip_and_no_cut_does_harm() {
        let bytes = saved(&index(0..300, 2));
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for cut in (0..bytes.len()).step_by(41) {
            assert!(KeywordIndex::from_bytes(&bytes[..cut], KeywordConfig::default()).is_err(), "{cut}");
        }
        for _ in 0..3_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut bytes = bytes.clone();
            let bit = (state >> 16) as usize % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(mut index) = KeywordIndex::from_bytes(&bytes, KeywordConfig::default()) {
                index.search(&index.query("all half1 tenth7 again of3"), &RowSet::full(700), 20);
                let _ = index.rows_with("all half1");
                add(&mut index, 400..540, 2);
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = KeywordIndex::from_bytes(&bytes, KeywordConfig::default());
        }
    }
}
