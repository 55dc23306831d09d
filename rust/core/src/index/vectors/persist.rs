//! Codes and f16 values as bytes and back.
//!
//! Saving is cut into steps, so that no lock is held for the whole of it. A row is given its vector once, so the rows
//! below the first step's end stay as they are while later steps run. The f16 values lie in the bytes as they do in
//! RAM, so that a mapped file serves in their place.

use super::codes::{Codes, Halves};
use super::{VectorConfig, VectorIndex};
use crate::base::{Blob, Reader, Result, RowSet, limits, put_count};

/// The saving of one half of an index: its codes or its f16 values.
#[derive(Debug)]
pub struct VectorsSaver {
    part: Part,
    /// Rows that each chunk had at the first step.
    chunks: Vec<usize>,
    next: usize,
    started: bool,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Codes,
    Halves,
}

impl VectorsSaver {
    /// Of the codes.
    pub fn codes() -> Self {
        Self::new(Part::Codes)
    }

    /// Of the f16 values.
    pub fn halves() -> Self {
        Self::new(Part::Halves)
    }

    fn new(part: Part) -> Self {
        Self { part, chunks: Vec::new(), next: 0, started: false }
    }

    /// Appends the next part; `false` after the last.
    pub fn step(&mut self, index: &VectorIndex, into: &mut Vec<u8>) -> bool {
        if !self.started {
            self.started = true;
            into.extend_from_slice(&(index.dimension as u64).to_le_bytes());
            match self.part {
                Part::Codes => {
                    self.chunks = index.codes.chunk_rows();
                    put_count(index.present.words().len(), into);
                    into.extend(index.present.words().iter().flat_map(|word| word.to_le_bytes()));
                }
                Part::Halves => self.chunks = index.halves.chunk_rows(),
            }
            put_count(self.chunks.len(), into);
            into.extend(self.chunks.iter().flat_map(|rows| (*rows as u32).to_le_bytes()));
            if matches!(self.part, Part::Halves) {
                into.resize(into.len().next_multiple_of(Halves::ALIGNMENT), 0);
            }
        } else if let Some(rows) = self.chunks.get(self.next) {
            match self.part {
                Part::Codes => index.codes.put_chunk(self.next, *rows, into),
                Part::Halves => index.halves.put_chunk(self.next, *rows, into),
            }
            self.next += 1;
        }
        self.next < self.chunks.len()
    }
}

impl VectorIndex {
    /// An index as its two halves were saved, without a graph. Bytes that cannot have been are refused; no bytes do
    /// harm.
    pub fn from_saved(dimension: usize, config: VectorConfig, codes: &[u8], halves: &Blob) -> Result<Self> {
        let mut index = Self::new(dimension, config);
        let mut reader = Reader::new("the saved codes", codes);
        let found = reader.u64()?;
        reader.check(found == dimension as u64, "they have another dimension")?;
        let words = reader.count(8)?;
        let present = RowSet::from_words(reader.u64s(words)?.collect());
        reader.check(words <= limits::ROWS / 64, "they have too many rows")?;
        index.codes = Codes::take(&mut reader, dimension)?;
        reader.end()?;
        index.halves = Halves::from_blob(halves, dimension)?;
        let reader = Reader::new("the saved codes", codes);
        let whole = present.iter().all(|row| index.codes.has_room(row) && index.halves.has_room(row));
        reader.check(whole, "a row is not in them")?;
        let sound = present.iter().all(|row| {
            let measure = index.codes.measure(row);
            measure.factor.is_finite() && measure.inverse_norm.is_finite()
        });
        reader.check(sound, "a factor is no number")?;
        index.count = present.count();
        index.present = present;
        index.graph.count_in(index.count);
        Ok(index)
    }

    /// Lets a mapped file, of which [`VectorsSaver::halves`] wrote the bytes from this index, serve in the place of
    /// the f16 values in RAM, as far as it holds whole chunks of them.
    pub fn serve_halves_from(&mut self, halves: &Blob) -> Result<()> {
        let saved = Halves::from_blob(halves, self.dimension)?;
        self.halves.serve_from(saved);
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that fails is what they are for")]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::random_vectors;
    use super::*;
    use crate::base::Row;
    use crate::index::vectors::{prepare, query_vector};

    fn saved(index: &VectorIndex) -> (Vec<u8>, Vec<u8>) {
        let run = |mut saver: VectorsSaver| {
            let mut bytes = Vec::new();
            while saver.step(index, &mut bytes) {}
            bytes
        };
        (run(VectorsSaver::codes()), run(VectorsSaver::halves()))
    }

    fn add(index: &mut VectorIndex, rows: std::ops::Range<u32>, gap: u32, seed: u64) {
        let vectors = random_vectors(rows.len(), index.dimension(), seed);
        let prepared = prepare("vectors", &vectors, index.dimension()).unwrap();
        for (place, row) in rows.enumerate() {
            index.insert(Row(row * gap), &prepared, place);
        }
    }

    fn same(left: &VectorIndex, right: &VectorIndex, rows: usize) {
        assert_eq!(left.count(), right.count());
        let mask = RowSet::full(rows);
        for seed in 0..5 {
            let query = query_vector("vector", &random_vectors(1, left.dimension(), 90 + seed), left.dimension());
            let query = query.unwrap();
            let (left, right) = (left.search(&query, &mask, 20), right.search(&query, &mask, 20));
            assert_eq!(left, right);
        }
    }

    #[test]
    fn it_comes_back_as_it_was_and_grows_on() {
        for (dimension, count, gap) in [(8, 0, 1), (24, 1, 1), (70, 300, 1), (16, 4_096, 1), (16, 5_000, 3)] {
            let config = VectorConfig::default();
            let mut index = VectorIndex::new(dimension, config.clone());
            add(&mut index, 0..count, gap, 1);
            let (codes, halves) = saved(&index);
            let halves = Blob::read(halves);
            let mut loaded = VectorIndex::from_saved(dimension, config, &codes, &halves).unwrap();
            same(&index, &loaded, (count * gap) as usize);
            for index in [&mut index, &mut loaded] {
                add(index, count..count + 200, gap, 2);
            }
            same(&index, &loaded, ((count + 200) * gap) as usize);
            index.serve_halves_from(&halves).unwrap();
            same(&index, &loaded, ((count + 200) * gap) as usize);
            for row in loaded.rows_with_vectors().iter() {
                assert_eq!(index.vector(row), loaded.vector(row));
            }
        }
    }

    #[test]
    fn rows_that_come_while_it_is_saved_are_left_out() {
        let mut index = VectorIndex::new(16, VectorConfig::default());
        add(&mut index, 0..5_000, 1, 1);
        let (mut savers, mut bytes) = ([VectorsSaver::codes(), VectorsSaver::halves()], [Vec::new(), Vec::new()]);
        let mut more = true;
        let mut next = 5_000;
        // What the first steps saw is what counts, for both.
        while more {
            more = false;
            for (saver, bytes) in savers.iter_mut().zip(&mut bytes) {
                more |= saver.step(&index, bytes);
            }
            add(&mut index, next..next + 100, 1, u64::from(next));
            next += 100;
        }
        let [codes, halves] = bytes;
        let loaded = VectorIndex::from_saved(16, VectorConfig::default(), &codes, &Blob::read(halves)).unwrap();
        assert_eq!(loaded.count(), 5_000);
        for row in loaded.rows_with_vectors().iter() {
            assert_eq!(index.vector(row), loaded.vector(row));
        }
    }

    #[test]
    fn no_flip_and_no_cut_does_harm() {
        let mut index = VectorIndex::new(24, VectorConfig::default());
        add(&mut index, 0..150, 2, 1);
        let (codes, halves) = saved(&index);
        let load = |codes: &[u8], halves: &[u8]| {
            VectorIndex::from_saved(24, VectorConfig::default(), codes, &Blob::read(halves.to_vec()))
        };
        for cut in (0..codes.len()).step_by(97) {
            assert!(load(&codes[..cut], &halves).is_err(), "{cut}");
        }
        for cut in (0..halves.len()).step_by(97) {
            assert!(load(&codes, &halves[..cut]).is_err(), "{cut}");
        }
        let query = query_vector("vector", &random_vectors(1, 24, 5), 24).unwrap();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for number in 0..2_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut files = [codes.clone(), halves.clone()];
            let file = &mut files[number % 2];
            // The head is where it could hurt.
            let bits = if number % 4 < 2 { 8 * 64 } else { file.len() * 8 };
            let bit = (state >> 16) as usize % bits;
            file[bit / 8] ^= 1 << (bit % 8);
            if let Ok(mut index) = load(&files[0], &files[1]) {
                index.search(&query, &RowSet::full(400), 10);
                add(&mut index, 200..230, 2, 3);
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(codes in prop::collection::vec(any::<u8>(), 0..300),
                            halves in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = VectorIndex::from_saved(8, VectorConfig::default(), &codes, &Blob::read(halves));
        }
    }
}
