//! One number to rank by, and the k best of a column.

use super::decay::strengths;
use super::widest::{Loop, widest};
use crate::base::{Micros, Row, TopK};

/// Rows whose strengths still lie in the first-level cache when their scores are computed.
const STRIDE: usize = 1_024;

/// Scores that are compared with the threshold of the k best at once.
const PART: usize = 128;

/// `relevance · (1 − a − b + a·S + b·importance)`, in `0..=relevance`.
///
/// Relevance gates: strength (with its share a) and importance (with its share b) order relevant memories and cannot lift
/// an irrelevant one. All arguments are in 0..=1 and a + b ≤ 1.
#[inline(always)]
#[expect(clippy::inline_always, reason = "so that it is compiled with the caller's target features")]
pub fn score(relevance: f32, strength: f32, importance: f32, strength_share: f32, importance_share: f32) -> f32 {
    let rest = 1.0 - strength_share - importance_share;
    // The min takes back what rounding may put above 1.
    relevance * (rest + strength_share * strength + importance_share * importance).min(1.0)
}

/// [`score`] of columns.
///
/// # Panics
/// When the slices have different lengths.
pub fn scores(
    relevance: &[f32],
    strength: &[f32],
    importance: &[f32],
    strength_share: f32,
    importance_share: f32,
    out: &mut [f32],
) {
    assert_eq!(relevance.len(), out.len(), "one relevance per score");
    assert_eq!(strength.len(), out.len(), "one strength per score");
    assert_eq!(importance.len(), out.len(), "one importance per score");
    widest(Column { relevance, strength, importance, strength_share, importance_share, out });
}

/// Columns of memories of one shape to be aged and scored in one pass.
#[derive(Debug, Clone, Copy)]
pub struct Aged<'a> {
    /// When each was last used.
    pub last_used: &'a [Micros],
    /// The half-life of each in seconds.
    pub half_life: &'a [f32],
    /// The relevance of each.
    pub relevance: &'a [f32],
    /// The importance of each.
    pub importance: &'a [f32],
}

/// [`strengths`] and [`scores`] in one pass over memory, with the same results.
///
/// # Panics
/// When the slices have different lengths.
pub fn aged_scores(
    now: Micros,
    columns: Aged<'_>,
    shape: f64,
    (strength_share, importance_share): (f32, f32),
    out_strength: &mut [f32],
    out_score: &mut [f32],
) {
    let length = out_score.len();
    assert_eq!(out_strength.len(), length, "one strength per score");
    assert_eq!(columns.last_used.len(), length, "one last use per score");
    assert_eq!(columns.half_life.len(), length, "one half-life per score");
    assert_eq!(columns.relevance.len(), length, "one relevance per score");
    assert_eq!(columns.importance.len(), length, "one importance per score");
    for start in (0..length).step_by(STRIDE) {
        let part = start..length.min(start + STRIDE);
        let strength = &mut out_strength[part.clone()];
        strengths(now, &columns.last_used[part.clone()], &columns.half_life[part.clone()], shape, strength);
        let (relevance, importance) = (&columns.relevance[part.clone()], &columns.importance[part.clone()]);
        scores(relevance, strength, importance, strength_share, importance_share, &mut out_score[part]);
    }
}

/// The indices of the `k` highest scores, best first; equal scores go to the smaller index, NaN is below everything.
pub fn top_k(scores: &[f32], k: usize) -> Vec<u32> {
    let mut best = TopK::new(k);
    for (number, part) in scores.chunks(PART).enumerate() {
        let threshold = best.threshold();
        // While there is room, or something that ranks below all numbers is kept, only the exact comparison decides.
        let open = threshold.is_nan() || threshold == f32::NEG_INFINITY;
        // Counted rather than searched for, so that the loop is vectorised: almost every part has none.
        let above: u32 = part.iter().map(|score| u32::from(*score > threshold)).sum();
        if !open && above == 0 {
            continue;
        }
        for (offset, score) in part.iter().enumerate().filter(|(_, score)| open || **score > threshold) {
            best.offer(*score, Row((number * PART + offset) as u32));
        }
    }
    best.into_sorted().into_iter().map(|(row, _)| row.0).collect()
}

struct Column<'a> {
    relevance: &'a [f32],
    strength: &'a [f32],
    importance: &'a [f32],
    strength_share: f32,
    importance_share: f32,
    out: &'a mut [f32],
}

impl Loop for Column<'_> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "so that it is compiled with the caller's target features")]
    fn run(self) {
        let columns = self.relevance.iter().zip(self.strength).zip(self.importance);
        for (out, ((relevance, strength), importance)) in self.out.iter_mut().zip(columns) {
            *out = score(*relevance, *strength, *importance, self.strength_share, self.importance_share);
        }
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "0 is exact, and so is the same computation twice")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unit() -> impl Strategy<Value = f32> {
        prop_oneof![8 => 0.0..=1.0_f32, 1 => Just(0.0), 1 => Just(1.0)]
    }

    /// Two shares that leave something, or nothing, for relevance alone.
    fn shares() -> impl Strategy<Value = (f32, f32)> {
        prop_oneof![Just((0.2, 0.1)), (0.0..=0.5_f32, 0.0..=0.5_f32)]
    }

    proptest! {
        #![proptest_config(crate::rank::seeded())]

        #[test]
        fn relevance_gates_and_everything_orders(relevance in unit(), strength in unit(), importance in unit(),
                more in unit(), (a, b) in shares()) {
            let here = score(relevance, strength, importance, a, b);
            prop_assert!((0.0..=relevance).contains(&here));
            prop_assert_eq!(score(0.0, strength, importance, a, b), 0.0);
            prop_assert!(score(relevance.max(more), strength, importance, a, b) >= here);
            prop_assert!(score(relevance, strength.max(more), importance, a, b) >= here);
            prop_assert!(score(relevance, strength, importance.max(more), a, b) >= here);
            let floor = relevance * (1.0 - a - b);
            prop_assert!(here >= floor - 1e-6);
        }

        #[test]
        fn columns_say_what_rows_say(rows in prop::collection::vec((0..10_i64.pow(15), 1e2..1e9_f32, unit(), unit()), 0..3_000),
                (a, b) in shares(), shape in prop_oneof![Just(1.0), Just(f64::INFINITY)]) {
            let now = Micros(10_i64.pow(15));
            let last_used: Vec<_> = rows.iter().map(|row| Micros(row.0)).collect();
            let half_life: Vec<_> = rows.iter().map(|row| row.1).collect();
            let relevance: Vec<_> = rows.iter().map(|row| row.2).collect();
            let importance: Vec<_> = rows.iter().map(|row| row.3).collect();
            let mut strength = vec![f32::NAN; rows.len()];
            strengths(now, &last_used, &half_life, shape, &mut strength);
            let mut column = vec![f32::NAN; rows.len()];
            scores(&relevance, &strength, &importance, a, b, &mut column);
            for row in 0..rows.len() {
                let alone = score(relevance[row], strength[row], importance[row], a, b);
                prop_assert_eq!(column[row].to_bits(), alone.to_bits());
            }
            let columns = Aged { last_used: &last_used, half_life: &half_life, relevance: &relevance, importance: &importance };
            let (mut aged, mut scored) = (vec![f32::NAN; rows.len()], vec![f32::NAN; rows.len()]);
            aged_scores(now, columns, shape, (a, b), &mut aged, &mut scored);
            prop_assert_eq!(aged, strength);
            prop_assert_eq!(scored, column);
        }

        #[test]
        fn the_newer_of_two_equals_never_scores_lower(now in 0..10_i64.pow(16), one in 0..10_i64.pow(16), other in 0..10_i64.pow(16),
                half_life in 1.0..1e9_f32, relevance in unit(), importance in unit(), (a, b) in shares(),
                shape in prop_oneof![Just(1.0), Just(f64::INFINITY), 0.05..20.0_f64]) {
            let last_used = [Micros(one.min(other)), Micros(one.max(other))];
            let columns = Aged { last_used: &last_used, half_life: &[half_life; 2], relevance: &[relevance; 2], importance: &[importance; 2] };
            let (mut strength, mut score) = ([0.0; 2], [0.0; 2]);
            aged_scores(Micros(now), columns, shape, (a, b), &mut strength, &mut score);
            prop_assert!(score[0] <= score[1]);
        }

        #[test]
        fn the_k_best_are_those_of_sorting(scores in prop::collection::vec(prop_oneof![
                9 => (0_u8..60).prop_map(|score| f32::from(score) / 8.0 - 2.0), 1 => Just(f32::NAN),
                1 => Just(f32::NEG_INFINITY), 1 => Just(f32::INFINITY)], 0..400), k in 0_usize..450) {
            let key = |index: &u32| {
                let score = scores[*index as usize];
                if score.is_nan() { f32::NEG_INFINITY } else { score }
            };
            let mut sorted: Vec<u32> = (0..scores.len() as u32).collect();
            sorted.sort_by(|left, right| key(right).total_cmp(&key(left)));
            sorted.truncate(k);
            prop_assert_eq!(top_k(&scores, k), sorted);
        }
    }
}
