//! The best rows for a query, without scoring those that cannot be among them (MaxScore over windows of rows).
//!
//! Scores are whole numbers while they are summed, so a sum does not depend on the order of its terms: [`search`] and
//! [`scores`] agree to the last bit. A power of two brings them to BM25's scale at the end, exactly.

use super::postings::{Bound, Decoded, Postings};
use crate::base::{Row, RowSet, TopK};

/// Rows in a window: its sums fit in the first-level cache.
const WINDOW: usize = 4_096;
/// Sums stay below 2^24, where f32 holds every whole number.
const LARGEST_SUM: f32 = (1 << 23) as f32;

/// 1/tf, non-increasing, so that a bound computed from a larger tf is a bound.
static RECIPROCALS: [f32; 256] = {
    let mut reciprocals = [1.0; 256];
    let mut frequency = 2;
    while frequency < 256 {
        reciprocals[frequency] = 1.0 / frequency as f32;
        frequency += 1;
    }
    reciprocals
};

/// How the length of a text weakens its terms: `k1·(1 − b + b·length/average)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Norm {
    base: f32,
    slope: f32,
}

impl Norm {
    pub(super) fn new(k1: f32, b: f32, average: f32) -> Self {
        Self { base: k1 * (1.0 - b), slope: k1 * b / average.max(1.0) }
    }
}

/// The whole numbers that a query's terms are summed in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    up: f32,
    down: f32,
}

impl Scale {
    /// The finest scale on which no sum of a query with this best score overflows.
    pub(super) fn new(ideal: f32) -> Self {
        let exponent = (LARGEST_SUM / ideal).log2().floor().clamp(-100.0, 100.0);
        Self { up: exponent.exp2(), down: (-exponent).exp2() }
    }

    pub(super) fn score(self, sum: u32) -> f32 {
        sum as f32 * self.down
    }
}

/// One term of a query, on its way through the rows.
pub(super) struct Cursor<'a> {
    postings: Postings<'a>,
    /// What the term would give with an endless frequency.
    weight: f32,
    block: usize,
    decoded: Option<usize>,
    position: usize,
    buffer: Decoded,
}

impl<'a> Cursor<'a> {
    /// `weight` is idf·(k1 + 1) and whatever else the query weighs the term with.
    pub(super) fn new(postings: Postings<'a>, weight: f32, scale: Scale) -> Self {
        Self { postings, weight: weight * scale.up, block: 0, decoded: None, position: 0, buffer: Decoded::default() }
    }

    /// Every operation rounds monotonically, so a larger frequency and a shorter text never give less. A match gives at least 1.
    #[inline]
    fn contribution(&self, frequency: u8, length: u16, norm: Norm) -> u32 {
        let weakened = (norm.base + norm.slope * f32::from(length)) * RECIPROCALS[frequency as usize];
        ((self.weight / (1.0 + weakened)) as u32).max(1)
    }

    fn most(&self, bound: Bound, norm: Norm) -> u32 {
        self.contribution(bound.frequency, bound.length, norm)
    }

    /// The most that a row from `start` to `end` can get; moves to the first block that reaches `start`.
    fn bound_within(&mut self, start: u32, end: u32, norm: Norm) -> u32 {
        self.seek(start);
        (self.block..self.postings.blocks())
            .take_while(|block| self.postings.first(*block) < end)
            .map(|block| self.most(self.postings.bound(block), norm))
            .max()
            .unwrap_or(0)
    }

    /// Moves to the first block that may hold `row` or a later one.
    fn seek(&mut self, row: u32) {
        while self.block < self.postings.blocks() && self.postings.last(self.block) < row {
            self.block += 1;
        }
    }

    fn decode(&mut self) {
        if self.decoded != Some(self.block) {
            self.postings.decode(self.block, &mut self.buffer);
            self.decoded = Some(self.block);
            self.position = 0;
        }
    }

    /// Adds what the term gives to every row of the window.
    fn accumulate(&mut self, window: &mut Window, norm: Norm, lengths: &[u16]) {
        self.seek(window.start);
        while self.block < self.postings.blocks() && self.postings.first(self.block) < window.end {
            self.decode();
            let rows = &self.buffer.rows[..self.buffer.count];
            let from = rows.partition_point(|row| *row < window.start);
            let to = rows.partition_point(|row| *row < window.end);
            for (row, frequency) in rows[from..to].iter().zip(&self.buffer.frequencies[from..to]) {
                let place = (row - window.start) as usize;
                window.sums[place] += self.contribution(*frequency, lengths[*row as usize], norm);
                window.touched[place / 64] |= 1 << (place % 64);
            }
            if to < rows.len() {
                return;
            }
            self.block += 1;
        }
    }

    /// What the term gives to `row`, 0 if it does not stand there. Rows must be asked for in ascending order.
    fn give(&mut self, row: u32, norm: Norm, lengths: &[u16]) -> u32 {
        self.seek(row);
        if self.block == self.postings.blocks() || self.postings.first(self.block) > row {
            return 0;
        }
        self.decode();
        let rows = &self.buffer.rows[..self.buffer.count];
        self.position += rows[self.position..].partition_point(|at| *at < row);
        if rows.get(self.position) == Some(&row) {
            self.contribution(self.buffer.frequencies[self.position], lengths[row as usize], norm)
        } else {
            0
        }
    }
}

struct Window {
    start: u32,
    end: u32,
    sums: Box<[u32]>,
    touched: [u64; WINDOW / 64],
}

/// The `k` best rows of the mask, best first.
pub(super) fn search(
    cursors: &mut [Cursor<'_>],
    mask: &RowSet,
    k: usize,
    norm: Norm,
    scale: Scale,
    lengths: &[u16],
) -> Vec<(Row, f32)> {
    let mut top = TopK::new(k);
    let mut window = Window { start: 0, end: 0, sums: vec![0; WINDOW].into_boxed_slice(), touched: [0; WINDOW / 64] };
    let mut order: Vec<(u32, usize)> = Vec::with_capacity(cursors.len());
    let mut reachable: Vec<u32> = Vec::with_capacity(cursors.len() + 1);
    let mut candidates: Vec<(u32, u32)> = Vec::new();
    for (number, allowed) in mask.words().chunks(WINDOW / 64).enumerate() {
        window.start = (number * WINDOW) as u32;
        window.end = (number * WINDOW + WINDOW).min(lengths.len()) as u32;
        if window.start >= window.end {
            break;
        }
        if allowed.iter().all(|word| *word == 0) {
            continue;
        }
        order.clear();
        for (place, cursor) in cursors.iter_mut().enumerate() {
            let bound = cursor.bound_within(window.start, window.end, norm);
            if bound > 0 {
                order.push((bound, place));
            }
        }
        order.sort_unstable();
        // reachable[i]: the most that the i weakest terms give together.
        reachable.clear();
        reachable.push(0);
        for (bound, _) in &order {
            reachable.push(reachable.last().map_or(0, |sum| sum + bound));
        }
        let threshold = threshold(&top);
        // A row with none but the weakest terms cannot enter: those are not read, only asked about the candidates of the others.
        let weakest = reachable.partition_point(|sum| *sum <= threshold).saturating_sub(1);
        if weakest == order.len() {
            continue;
        }
        for (_, place) in &order[weakest..] {
            cursors[*place].accumulate(&mut window, norm, lengths);
        }
        candidates.clear();
        for (word, (touched, allowed)) in window.touched.iter().zip(allowed).enumerate() {
            let mut rest = touched & allowed;
            while rest != 0 {
                let place = word * 64 + rest.trailing_zeros() as usize;
                rest &= rest - 1;
                if window.sums[place] + reachable[weakest] > threshold {
                    candidates.push((window.start + place as u32, window.sums[place]));
                }
            }
        }
        window.sums.fill(0);
        window.touched.fill(0);
        for (rank, (_, place)) in order[..weakest].iter().enumerate().rev() {
            candidates.retain(|(_, sum)| sum + reachable[rank + 1] > threshold);
            let cursor = &mut cursors[*place];
            for (row, sum) in &mut candidates {
                *sum += cursor.give(*row, norm, lengths);
            }
        }
        for (row, sum) in &candidates {
            top.offer(*sum as f32, Row(*row));
        }
    }
    top.into_sorted().into_iter().map(|(row, sum)| (row, scale.score(sum as u32))).collect()
}

/// Only a sum above this enters: rows come in ascending order, and a tie goes to the smaller row.
fn threshold(top: &TopK) -> u32 {
    top.threshold().max(0.0) as u32
}

/// The sum of each row, which must ascend.
pub(super) fn sums(cursors: &mut [Cursor<'_>], rows: &[u32], norm: Norm, lengths: &[u16]) -> Vec<u32> {
    let mut sums = vec![0; rows.len()];
    for cursor in cursors {
        let mut place = 0;
        while place < rows.len() {
            cursor.seek(rows[place]);
            if cursor.block == cursor.postings.blocks() {
                break;
            }
            let first = cursor.postings.first(cursor.block);
            if first > rows[place] {
                place += rows[place..].partition_point(|row| *row < first);
                continue;
            }
            sums[place] += cursor.give(rows[place], norm, lengths);
            place += 1;
        }
    }
    sums
}

/// The rows, ascending, in which all these terms stand.
pub(super) fn intersect(mut all: Vec<Postings<'_>>) -> RowSet {
    all.sort_by_key(Postings::len);
    let mut buffer = Decoded::default();
    let Some((rarest, others)) = all.split_first() else { return RowSet::new() };
    let mut rows = Vec::with_capacity(rarest.len());
    for block in 0..rarest.blocks() {
        rarest.decode(block, &mut buffer);
        rows.extend_from_slice(&buffer.rows[..buffer.count]);
    }
    for postings in others {
        let mut block = 0;
        let mut decoded = None;
        rows.retain(|row| {
            while block < postings.blocks() && postings.last(block) < *row {
                block += 1;
            }
            if block == postings.blocks() || postings.first(block) > *row {
                return false;
            }
            if decoded != Some(block) {
                postings.decode(block, &mut buffer);
                decoded = Some(block);
            }
            buffer.rows[..buffer.count].binary_search(row).is_ok()
        });
    }
    RowSet::from_rows(rows.into_iter().map(Row))
}
