//! One relevance from two arms.
//!
//! The order is that of a convex combination of scores normalised per query, which needs no tuning to beat reciprocal rank fusion
//! (Bruch, Gai & Ingber 2023, *An analysis of fusion functions for hybrid retrieval*, ACM TOIS 42). The magnitude is what
//! the arms say absolutely, so that a query which nothing answers has low relevance everywhere.
//!
//! For a candidate with cosine c, clamped to 0..=1, and BM25 b:
//!
//! * The vector arm is seen through a window `[m, M]`: the lowest and the highest clamped cosine of the candidates, but at
//!   least [`WINDOW`] wide (downwards, not below 0). `v̂ = (c − m)/(M − m)`.
//! * The keyword arm starts at 0, where no word matches: `k̂ = b/B` with B the highest BM25 of the candidates.
//!   Absolutely it says `l = b/ideal`, in 0..=1.
//! * `F = w_v·v̂ + w_k·k̂` orders. For a candidate without a vector `v̂ = k̂`: its words speak for both arms. (To put it at the bottom
//!   of the vector arm instead costs a store whose vectors are incomplete much of its recall.)
//! * `A = max(M, highest l)` is what the best match says absolutely, and `r = m + (A − m)·F/F_max` runs up to it.
//! * `e`, the evidence, is the highest `max(c, l)` of the candidates whose F is not higher than this one's. What r claims beyond
//!   it counts by [`UNBACKED`]: `relevance = min(r, e + UNBACKED·(r − e))`. Else the runner-up beside one
//!   excellent match would be lifted to a share of it, however poor it is.
//! * A candidate with neither a cosine above 0 nor a matching word has relevance 0.
//!
//! What follows, and is tested: relevance is in 0..=A, and A for the best; its order is that of F; one arm alone gives c, or l;
//! it never falls when a candidate's own score in an arm rises; the order of the candidates does not matter; a candidate found
//! by one arm only can win.
//!
//! What does not follow: independence of the company. m, M, B and F_max are those of this list, so adding a
//! candidate can move the others, unless it lies at the bottom of both ranges.

/// The least width of the vector arm's window. In a narrower one the differences between cosines are noise, and
/// stretching them over the whole of 0..=1 would let noise outvote the words.
const WINDOW: f32 = 0.05;

/// How much of a relevance counts that no absolute score backs. Above 0, so that the order stays that of F.
const UNBACKED: f32 = 0.25;

/// What the two arms say of one list of candidates. An arm that was not asked is `None`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arms<'a> {
    /// Cosine per candidate; NaN when it has no vector.
    pub cosine: Option<&'a [f32]>,
    /// BM25 per candidate, 0 when no word matches, and the BM25 of an ideal answer to the query.
    pub keyword: Option<(&'a [f32], f32)>,
}

/// How much each arm counts. Both at least 0; an arm of weight 0 is not listened to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Weight of the vector arm.
    pub vector: f32,
    /// Weight of the keyword arm.
    pub keyword: f32,
}

impl Default for Weights {
    fn default() -> Self {
        Self { vector: 0.5, keyword: 0.5 }
    }
}

/// Fuses the arms as the law of this module says. `out_vector` becomes the clamped cosine (0 without a vector) and
/// `out_keyword` the share of the ideal BM25: what each arm says by itself, comparable between queries. An ideal below
/// the best BM25 given is taken to be that.
///
/// # Panics
/// When the slices have different lengths.
pub fn fuse(
    arms: Arms<'_>,
    weights: Weights,
    out_relevance: &mut [f32],
    out_vector: &mut [f32],
    out_keyword: &mut [f32],
) {
    let length = out_relevance.len();
    assert_eq!(out_vector.len(), length, "one vector part per relevance");
    assert_eq!(out_keyword.len(), length, "one keyword part per relevance");
    assert!(arms.cosine.is_none_or(|cosine| cosine.len() == length), "one cosine per relevance");
    assert!(arms.keyword.is_none_or(|(bm25, _)| bm25.len() == length), "one BM25 per relevance");
    show(arms, out_vector, out_keyword);

    let cosine = arms.cosine.filter(|_| weights.vector > 0.0);
    let words = Some(&*out_keyword).filter(|_| weights.keyword > 0.0);
    let window = Window::of(cosine.unwrap_or_default());
    let best_word = words.map_or(0.0, highest);
    let best = window.top.max(best_word);

    // Until the last loop, out_relevance holds F.
    let mut evidence = vec![0.0; length];
    for index in 0..length {
        let word = words.map_or(0.0, |words| words[index]);
        let share = if best_word > 0.0 { word / best_word } else { 0.0 };
        let vector = cosine.map(|cosine| cosine[index]).filter(|cosine| !cosine.is_nan()).map(clamped);
        evidence[index] = vector.unwrap_or(0.0).max(word);
        let place = vector.map_or(share, |vector| window.place(vector));
        out_relevance[index] = weights.vector * place + weights.keyword * share;
    }
    let highest_sum = highest(out_relevance);
    let backing = up_to(out_relevance, &evidence);
    for index in 0..length {
        let ratio = if highest_sum > 0.0 { out_relevance[index] / highest_sum } else { 0.0 };
        let claim = window.bottom + (best - window.bottom) * ratio;
        let relevance = claim.min(backing[index] + UNBACKED * (claim - backing[index]));
        out_relevance[index] = if evidence[index] > 0.0 { relevance.clamp(0.0, best) } else { 0.0 };
    }
}

/// What each arm says by itself, in 0..=1.
fn show(arms: Arms<'_>, out_vector: &mut [f32], out_keyword: &mut [f32]) {
    match arms.cosine {
        Some(cosine) => out_vector.iter_mut().zip(cosine).for_each(|(out, cosine)| *out = clamped(*cosine)),
        None => out_vector.fill(0.0),
    }
    match arms.keyword {
        Some((bm25, ideal)) => {
            let ideal = highest(bm25).max(ideal);
            let share = |bm25: f32| if bm25 > 0.0 { (bm25 / ideal).min(1.0) } else { 0.0 };
            out_keyword.iter_mut().zip(bm25).for_each(|(out, bm25)| *out = share(*bm25));
        }
        None => out_keyword.fill(0.0),
    }
}

/// For each place the highest value among the places whose key is not above its own.
fn up_to(keys: &[f32], values: &[f32]) -> Vec<f32> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_unstable_by(|left, right| keys[*left].total_cmp(&keys[*right]));
    let mut out = vec![0.0; keys.len()];
    let mut running = 0.0;
    for equals in order.chunk_by(|left, right| keys[*left].total_cmp(&keys[*right]).is_eq()) {
        running = equals.iter().map(|index| values[*index]).fold(running, f32::max);
        for index in equals {
            out[*index] = running;
        }
    }
    out
}

/// The range of clamped cosines over which the vector arm is stretched.
struct Window {
    bottom: f32,
    top: f32,
}

impl Window {
    /// The window of these cosines; empty at 0 when there is none.
    fn of(cosine: &[f32]) -> Self {
        let present = || cosine.iter().filter(|cosine| !cosine.is_nan()).map(|cosine| clamped(*cosine));
        let top = present().fold(0.0, f32::max);
        let bottom = present().fold(1.0, f32::min);
        Self { bottom: bottom.min(top - WINDOW).max(0.0), top }
    }

    /// Where a clamped cosine stands in it, 0..=1.
    fn place(&self, cosine: f32) -> f32 {
        let width = self.top - self.bottom;
        if width > 0.0 { (cosine - self.bottom) / width } else { 0.0 }
    }
}

/// A cosine as a level of relevance: opposed is as irrelevant as unrelated, and NaN (no vector) says nothing.
fn clamped(cosine: f32) -> f32 {
    if cosine > 0.0 { cosine.min(1.0) } else { 0.0 }
}

fn highest(values: &[f32]) -> f32 {
    values.iter().copied().fold(0.0, f32::max)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "0, and the same computation twice, are exact")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// (relevance, vector, keyword) of each candidate.
    fn fused(cosine: Option<&[f32]>, keyword: Option<(&[f32], f32)>, weights: Weights) -> Vec<(f32, f32, f32)> {
        let length = cosine.map_or_else(|| keyword.map_or(0, |keyword| keyword.0.len()), <[f32]>::len);
        let (mut relevance, mut vector, mut word) = (vec![9.0; length], vec![9.0; length], vec![9.0; length]);
        fuse(Arms { cosine, keyword }, weights, &mut relevance, &mut vector, &mut word);
        relevance
            .into_iter()
            .zip(vector)
            .zip(word)
            .map(|((relevance, vector), word)| (relevance, vector, word))
            .collect()
    }

    fn relevances(cosine: &[f32], bm25: &[f32], ideal: f32) -> Vec<f32> {
        fused(Some(cosine), Some((bm25, ideal)), Weights::default()).into_iter().map(|candidate| candidate.0).collect()
    }

    fn cosines() -> impl Strategy<Value = f32> {
        prop_oneof![6 => -1.0..=1.0_f32, 3 => 0.7..0.8_f32, 1 => Just(f32::NAN), 1 => Just(0.0), 1 => Just(1.0)]
    }

    fn words() -> impl Strategy<Value = f32> {
        prop_oneof![4 => 0.0..30.0_f32, 3 => Just(0.0), 1 => Just(7.5)]
    }

    fn candidates() -> impl Strategy<Value = Vec<(f32, f32)>> {
        prop::collection::vec((cosines(), words()), 1..20)
    }

    fn weights() -> impl Strategy<Value = Weights> {
        prop_oneof![
            Just(Weights::default()),
            (0.0..=1.0_f32).prop_map(|vector| Weights { vector, keyword: 1.0 - vector })
        ]
    }

    proptest! {
        #![proptest_config(crate::rank::seeded())]

        #[test]
        fn it_is_within_what_the_arms_say(candidates in candidates(), ideal in 0.0..60.0_f32, weights in weights()) {
            let (cosine, bm25): (Vec<_>, Vec<_>) = candidates.into_iter().unzip();
            let fused = fused(Some(&cosine), Some((&bm25, ideal)), weights);
            let heard = |candidate: &(f32, f32, f32)| {
                let vector = if weights.vector > 0.0 { candidate.1 } else { 0.0 };
                vector.max(if weights.keyword > 0.0 { candidate.2 } else { 0.0 })
            };
            let best = fused.iter().map(heard).fold(0.0, f32::max);
            let first = fused.iter().map(|candidate| candidate.0).fold(0.0, f32::max);
            prop_assert!((first - best).abs() < 1e-6, "the best has {first} of {best}");
            for (index, (relevance, vector, word)) in fused.into_iter().enumerate() {
                prop_assert!((0.0..=best).contains(&relevance), "{relevance} of {best}");
                prop_assert_eq!(vector, if cosine[index].is_nan() { 0.0 } else { cosine[index].clamp(0.0, 1.0) });
                prop_assert!((0.0..=1.0).contains(&word));
                if vector == 0.0 && word == 0.0 {
                    prop_assert_eq!(relevance, 0.0);
                }
                if word > 0.0 && weights.keyword > 0.01 {
                    prop_assert!(relevance > 0.0);
                }
            }
        }

        #[test]
        fn one_arm_alone_is_itself(candidates in candidates(), ideal in 0.0..60.0_f32, weights in weights()) {
            let (cosine, bm25): (Vec<_>, Vec<_>) = candidates.into_iter().unzip();
            let silent = vec![0.0; cosine.len()];
            if weights.vector > 0.01 {
                for fused in [fused(Some(&cosine), None, weights), fused(Some(&cosine), Some((&silent, ideal)), weights)] {
                    for (relevance, vector, word) in fused {
                        prop_assert!((relevance - vector).abs() < 1e-6 && word == 0.0);
                    }
                }
            }
            let blind = vec![f32::NAN; cosine.len()];
            let top = bm25.iter().copied().fold(ideal, f32::max);
            if weights.keyword > 0.01 {
                for fused in [fused(None, Some((&bm25, ideal)), weights), fused(Some(&blind), Some((&bm25, ideal)), weights)] {
                    for (index, (relevance, vector, word)) in fused.into_iter().enumerate() {
                        let share = if bm25[index] > 0.0 { bm25[index] / top } else { 0.0 };
                        prop_assert!((relevance - share).abs() < 1e-6 && vector == 0.0);
                        prop_assert!((word - share).abs() < 1e-6);
                    }
                }
            }
        }

        #[test]
        fn a_better_score_never_hurts(candidates in candidates(), place in any::<prop::sample::Index>(), cosine in -1.0..=1.0_f32,
                word in 0.0..40.0_f32, ideal in 0.0..60.0_f32) {
            let index = place.index(candidates.len());
            let (mut cosines, mut words): (Vec<_>, Vec<_>) = candidates.into_iter().unzip();
            let before = relevances(&cosines, &words, ideal)[index];
            let old = words[index];
            words[index] = old.max(word);
            let after = relevances(&cosines, &words, ideal)[index];
            prop_assert!(after >= before - 2e-6, "more words: {before} to {after}");
            words[index] = old;
            if !cosines[index].is_nan() {
                cosines[index] = cosines[index].max(cosine);
                let after = relevances(&cosines, &words, ideal)[index];
                prop_assert!(after >= before - 2e-6, "more alike: {before} to {after}");
            }
        }

        #[test]
        fn better_in_both_arms_is_better(candidates in candidates(), ideal in 0.0..60.0_f32, weights in weights()) {
            let (cosine, bm25): (Vec<_>, Vec<_>) = candidates.into_iter().unzip();
            let fused = fused(Some(&cosine), Some((&bm25, ideal)), weights);
            for left in 0..cosine.len() {
                for right in 0..cosine.len() {
                    if cosine[left] >= cosine[right] && bm25[left] >= bm25[right] {
                        prop_assert!(fused[left].0 >= fused[right].0 - 1e-6);
                    }
                }
            }
        }

        #[test]
        fn the_order_is_that_of_the_weighted_sum(candidates in candidates(), ideal in 0.0..60.0_f32, weights in weights()) {
            let (cosine, bm25): (Vec<f32>, Vec<f32>) = candidates.into_iter().unzip();
            let present = || cosine.iter().filter(|cosine| !cosine.is_nan()).map(|cosine| f64::from(cosine.clamp(0.0, 1.0)));
            let top = present().fold(0.0, f64::max);
            let bottom = present().fold(1.0, f64::min).min(top - f64::from(WINDOW)).max(0.0);
            let best_word = bm25.iter().copied().fold(0.0, f32::max);
            let sum = |index: usize| {
                let share = if best_word > 0.0 { f64::from(bm25[index] / best_word) } else { 0.0 };
                let place = if cosine[index].is_nan() {
                    share
                } else {
                    (f64::from(cosine[index].clamp(0.0, 1.0)) - bottom) / (top - bottom).max(1e-9)
                };
                f64::from(weights.vector) * place + f64::from(weights.keyword) * share
            };
            let fused = fused(Some(&cosine), Some((&bm25, ideal)), weights);
            let any = fused.iter().any(|candidate| candidate.1 > 0.0);
            for left in 0..cosine.len() {
                for right in 0..cosine.len() {
                    let relevant = fused[left].1 > 0.0 || fused[left].2 > 0.0;
                    if any && relevant && weights.vector > 0.01 && weights.keyword > 0.01 && sum(left) > sum(right) + 1e-3 {
                        prop_assert!(fused[left].0 > fused[right].0, "{} {}", sum(left), sum(right));
                    }
                }
            }
        }

        #[test]
        fn the_order_of_the_candidates_does_not_matter(shuffled in candidates().prop_flat_map(|candidates| {
                let order: Vec<usize> = (0..candidates.len()).collect();
                (Just(candidates), Just(order).prop_shuffle())
            }), ideal in 0.0..60.0_f32) {
            let (candidates, order) = shuffled;
            let (cosine, bm25): (Vec<f32>, Vec<f32>) = candidates.iter().copied().unzip();
            let straight = relevances(&cosine, &bm25, ideal);
            let (cosine, bm25): (Vec<f32>, Vec<f32>) = order.iter().map(|index| candidates[*index]).unzip();
            let moved = relevances(&cosine, &bm25, ideal);
            for (place, index) in order.into_iter().enumerate() {
                prop_assert_eq!(moved[place].to_bits(), straight[index].to_bits());
            }
        }

        #[test]
        fn company_within_the_ranges_changes_nothing(candidates in prop::collection::vec((0.0..=1.0_f32, words()), 2..20), ideal in 0.0..60.0_f32) {
            let (mut cosine, mut bm25): (Vec<_>, Vec<_>) = candidates.into_iter().unzip();
            let before = relevances(&cosine, &bm25, ideal);
            // The least similar without a word is the worst that there can be inside the ranges.
            let lowest = cosine.iter().copied().fold(1.0, f32::min);
            cosine.push(lowest);
            bm25.push(0.0);
            let after = relevances(&cosine, &bm25, ideal);
            prop_assert_eq!(&after[..before.len()], &before[..]);
        }
    }

    #[test]
    fn either_arm_alone_can_win() {
        let others = |relevance: &[f32]| relevance[1..].iter().copied().fold(0.0, f32::max);
        let words = relevances(&[0.2, 0.4, 0.35, 0.1], &[18.0, 5.0, 4.0, 0.0], 20.0);
        assert!(words[0] > others(&words), "{words:?}");
        let meaning = relevances(&[0.85, 0.4, 0.35, 0.1], &[0.0, 3.0, 4.0, 5.0], 20.0);
        assert!(meaning[0] > 0.5, "{meaning:?}");
        let unembedded = relevances(&[f32::NAN, 0.4, 0.35, 0.3], &[18.0, 5.0, 4.0, 0.0], 20.0);
        assert!(unembedded[0] > others(&unembedded), "{unembedded:?}");
    }

    #[test]
    fn a_poor_runner_up_is_not_lifted_by_the_best() {
        let relevance = relevances(&[0.1, 0.3, 0.05], &[18.0, 0.0, 0.0], 20.0);
        assert!((relevance[0] - 0.9).abs() < 1e-6, "{relevance:?}");
        assert!(relevance[1] < 0.45, "{relevance:?}");
    }

    #[test]
    fn a_query_that_nothing_answers_has_low_relevance_everywhere() {
        for relevance in relevances(&[0.12, 0.08, -0.2, f32::NAN], &[0.0, 1.0, 0.0, 0.0], 25.0) {
            assert!(relevance <= 0.12, "{relevance}");
        }
    }

    #[test]
    fn noise_between_cosines_does_not_outvote_words() {
        let relevance = relevances(&[0.800, 0.799, 0.801], &[0.0, 12.0, 0.0], 20.0);
        assert!(relevance[1] > relevance[0] && relevance[1] > relevance[2], "{relevance:?}");
    }

    #[test]
    fn one_candidate_and_none() {
        assert_eq!(relevances(&[0.6], &[0.0], 20.0), [0.6]);
        assert_eq!(relevances(&[0.6], &[15.0], 20.0), [0.75]);
        assert_eq!(relevances(&[f32::NAN], &[10.0], 20.0), [0.5]);
        assert_eq!(relevances(&[f32::NAN], &[0.0], 20.0), [0.0]);
        assert_eq!(relevances(&[-0.5], &[0.0], 0.0), [0.0]);
        assert!(relevances(&[], &[], 1.0).is_empty());
    }
}
