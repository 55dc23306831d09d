//! The scan: every allowed row by its codes, the best of them again by their f16 values.

use super::VectorIndex;
use super::codes::Line;
use super::kernels;
use super::prepared::QueryVector;
use crate::base::Row;

/// Rows of one word of a row set, and of one step of the scan.
const STEP: usize = 64;
/// A word with at least so many of its rows allowed is read from its first to its last; reading on is cheaper than
/// jumping.
const DENSE: u32 = 24;
/// How many standard deviations of the codes' rounding a row may be misjudged by before the scan looks again.
const DOUBT: f32 = 4.0;
/// Most rows that the second look rescores.
const SECOND_LOOK: usize = 4_096;

/// Rows kept by their codes, from which the best k come out.
fn kept(k: usize) -> usize {
    k.saturating_mul(2).max(k.saturating_add(24))
}

/// What a scan found, by codes alone.
struct Rough {
    rows: Vec<(Row, f32)>,
    /// Rows that were looked at.
    seen: usize,
}

impl VectorIndex {
    /// The k best of the allowed rows (64 a word, by the word's place), best first, and how many were allowed.
    ///
    /// Codes round, so the k best by codes are not quite the k best. The scan keeps more than k, and looks again at
    /// all rows that rounding may have hidden when the last one kept was within [`DOUBT`] deviations of the k-th.
    pub(super) fn scan(
        &self,
        query: &QueryVector,
        allowed: impl Fn(usize) -> u64,
        k: usize,
    ) -> (Vec<(Row, f32)>, usize) {
        let keep = kept(k);
        let rough = self.scan_codes(query, &allowed, keep, f32::NEG_INFINITY);
        let last = (rough.rows.len() == keep).then(|| rough.rows[keep - 1].1);
        let mut best = self.rescore(query, rough.rows.into_iter().map(|(row, _)| row));
        if let (Some(last), Some(worst)) = (last, best.get(k.saturating_sub(1))) {
            let floor = worst.1 - self.doubt(query);
            if last > floor {
                let again = self.scan_codes(query, &allowed, keep.saturating_mul(4).max(SECOND_LOOK), floor);
                best = self.rescore(query, again.rows.into_iter().map(|(row, _)| row));
            }
        }
        best.truncate(k);
        (best, rough.seen)
    }

    /// The allowed rows whose exact cosine reaches `floor`, the best `limit` of them.
    pub(super) fn scan_above(
        &self,
        query: &QueryVector,
        allowed: impl Fn(usize) -> u64,
        floor: f32,
        limit: usize,
    ) -> Vec<(Row, f32)> {
        let slack = slack(self.dimension, query.measure().factor, self.codes.largest_factor());
        let rough = self.scan_codes(query, &allowed, usize::MAX, floor - slack);
        let mut best = self.rescore(query, rough.rows.into_iter().map(|(row, _)| row));
        best.retain(|(_, cosine)| *cosine >= floor);
        best.truncate(limit);
        best
    }

    /// Exact cosines of rows that have a vector, best first, ties to the smaller row.
    pub(super) fn rescore(&self, query: &QueryVector, rows: impl IntoIterator<Item = Row>) -> Vec<(Row, f32)> {
        const AHEAD: usize = 4;
        let rows: Vec<Row> = rows.into_iter().collect();
        for row in rows.iter().take(AHEAD) {
            kernels::prefetch(self.halves.get(*row));
        }
        let mut best: Vec<(Row, f32)> = Vec::with_capacity(rows.len());
        for (place, row) in rows.iter().enumerate() {
            if let Some(next) = rows.get(place + AHEAD) {
                kernels::prefetch(self.halves.get(*next));
            }
            best.push((*row, self.cosine(query, *row)));
        }
        rank(&mut best);
        best
    }

    /// The one exact cosine of this index: every answer's number comes from here.
    #[inline]
    pub(super) fn cosine(&self, query: &QueryVector, row: Row) -> f32 {
        let dot = self.kernels.half(query.values(), self.halves.get(row));
        let scale = query.measure().inverse_norm * self.codes.measure(row).inverse_norm;
        (dot * scale).clamp(-1.0, 1.0)
    }

    /// [`DOUBT`] deviations of a cosine by codes: rounding errs evenly within a step, in the query and in the row.
    fn doubt(&self, query: &QueryVector) -> f32 {
        let steps = [query.measure().factor, self.codes.largest_factor()];
        DOUBT * (steps.iter().map(|step| step * step).sum::<f32>() / 12.0).sqrt()
    }

    /// The best `keep` allowed rows by their codes, as cosines, none of them below `floor`.
    fn scan_codes(&self, query: &QueryVector, allowed: &impl Fn(usize) -> u64, keep: usize, floor: f32) -> Rough {
        let mut scan = Scan::new(self, query, keep, floor);
        let mut seen = 0;
        for place in 0..self.present.words().len() {
            let word = allowed(place);
            if word == 0 {
                continue;
            }
            let count = word.count_ones();
            seen += count as usize;
            if count >= DENSE { scan.run(place, word) } else { scan.gather(place, word) }
        }
        Rough { rows: scan.finish(), seen }
    }
}

/// Sorts the best first, ties to the smaller row.
pub(super) fn rank(rows: &mut [(Row, f32)]) {
    rows.sort_unstable_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
}

/// How far codes can be from the cosine at most, each side's step given: every value is off by half a step at most,
/// so the whole is off by half the root of the dimension, and the other side has length one. The last part is for
/// the f32 arithmetic itself.
pub(super) fn slack(dimension: usize, one: f32, other: f32) -> f32 {
    let reach = (dimension as f32).sqrt() / 2.0;
    reach * (one + other) + reach * reach * one * other + 1e-5
}

struct Scan<'a> {
    index: &'a VectorIndex,
    query: &'a QueryVector,
    codes: kernels::CodeQuery<'a>,
    best: Best,
    /// Rows that wait for their scores, and their codes.
    rows: Vec<Row>,
    lines: Vec<&'a [Line]>,
    dots: [i32; STEP],
}

impl<'a> Scan<'a> {
    fn new(index: &'a VectorIndex, query: &'a QueryVector, keep: usize, floor: f32) -> Self {
        Self {
            index,
            query,
            codes: query.codes(),
            best: Best::new(keep, floor / query.measure().factor),
            rows: Vec::with_capacity(STEP),
            lines: Vec::with_capacity(STEP),
            dots: [0; STEP],
        }
    }

    /// Scores a word's rows from its first to its last.
    fn run(&mut self, place: usize, word: u64) {
        let first = word.trailing_zeros();
        let count = (u64::BITS - word.leading_zeros() - first) as usize;
        let start = Row((place * STEP) as u32 + first);
        let (lines, factors) = self.index.codes.run(start, count);
        let dots = &mut self.dots[..count];
        self.index.kernels.run(self.codes, lines, dots);
        let word = word >> first;
        for (offset, (dot, factor)) in dots.iter().zip(factors).enumerate() {
            let score = *dot as f32 * factor;
            if score >= self.best.threshold && word >> offset & 1 == 1 {
                self.best.push(score, Row(start.0 + offset as u32));
            }
        }
    }

    /// Puts a word's rows among those that wait for their scores.
    fn gather(&mut self, place: usize, word: u64) {
        let mut rest = word;
        while rest != 0 {
            let row = Row((place * STEP) as u32 + rest.trailing_zeros());
            rest &= rest - 1;
            self.rows.push(row);
            self.lines.push(self.index.codes.lines(row));
            if self.rows.len() == STEP {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        let dots = &mut self.dots[..self.rows.len()];
        self.index.kernels.gather(self.codes, &self.lines, dots);
        for (dot, row) in dots.iter().zip(&self.rows) {
            let score = *dot as f32 * self.index.codes.factor(*row);
            if score >= self.best.threshold {
                self.best.push(score, *row);
            }
        }
        self.rows.clear();
        self.lines.clear();
    }

    /// The rows kept, best first, with their cosines by codes.
    fn finish(mut self) -> Vec<(Row, f32)> {
        self.flush();
        let factor = self.query.measure().factor;
        self.best.into_sorted().map(|(row, score)| (row, score * factor)).collect()
    }
}

/// The best of the rows pushed, ties to the smaller row, whatever the order of the pushes. A heap would touch its
/// whole depth at each push; here pushes pile up and are cut back together, which costs a few operations each.
struct Best {
    /// Score and row as one number, larger for the better.
    keys: Vec<u64>,
    keep: usize,
    /// What is below need not be pushed.
    threshold: f32,
}

impl Best {
    /// Pushes that pile up, as a multiple of what is kept.
    const PILE: usize = 4;

    fn new(keep: usize, floor: f32) -> Self {
        Self { keys: Vec::with_capacity(keep.min(STEP) * Self::PILE), keep, threshold: floor }
    }

    #[inline]
    fn push(&mut self, score: f32, row: Row) {
        self.keys.push(key(score, row));
        if self.keys.len() >= self.keep.saturating_mul(Self::PILE) {
            self.cut();
        }
    }

    /// Cuts the pile back to what is kept.
    fn cut(&mut self) {
        if self.keys.len() > self.keep
            && let Some(last) = self.keep.checked_sub(1)
        {
            let (_, worst, _) = self.keys.select_nth_unstable_by(last, |left, right| right.cmp(left));
            self.threshold = self.threshold.max(unkey(*worst).1);
            self.keys.truncate(self.keep);
        }
    }

    /// What is kept, best first.
    fn into_sorted(mut self) -> impl Iterator<Item = (Row, f32)> {
        self.cut();
        self.keys.sort_unstable_by(|left, right| right.cmp(left));
        self.keys.into_iter().map(unkey)
    }
}

/// A number that is larger for the larger score, and between equal scores for the smaller row.
#[inline]
fn key(score: f32, row: Row) -> u64 {
    let bits = score.to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(ordered) << 32 | u64::from(!row.0)
}

/// What [`key`] was made of.
fn unkey(key: u64) -> (Row, f32) {
    let ordered = (key >> 32) as u32;
    let bits = if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered };
    (Row(!(key as u32)), f32::from_bits(bits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_best_are_what_sorting_would_keep(scores in prop::collection::vec((-4_i8..4, 0_u32..1_000), 0..300),
                                                keep in 1_usize..20, floor in -4_i8..4) {
            let floor = f32::from(floor) / 2.0;
            let scores: Vec<(Row, f32)> =
                scores.into_iter().map(|(score, row)| (Row(row), f32::from(score) / 2.0 + 0.0)).collect();
            let mut best = Best::new(keep, floor);
            for (row, score) in scores.iter().filter(|(_, score)| *score >= floor) {
                prop_assert_eq!(unkey(key(*score, *row)), (*row, *score));
                if *score >= best.threshold {
                    best.push(*score, *row);
                }
            }
            let mut sorted: Vec<_> = scores.into_iter().filter(|(_, score)| *score >= floor).collect();
            rank(&mut sorted);
            sorted.truncate(keep);
            prop_assert_eq!(best.into_sorted().collect::<Vec<_>>(), sorted);
        }
    }
}
