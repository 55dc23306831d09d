//! Not the same thing five times.

/// Picks up to `k` candidates, best first, by maximal marginal relevance: at each step the one with the highest
/// `λ·relevance − (1 − λ)·(highest similarity to a picked one)`.
///
/// Carbonell & Goldstein 1998, *The use of MMR, diversity-based reranking for reordering documents and producing summaries*,
/// SIGIR '98. `similarity` takes two indices into `relevance` and is asked once for each picked and each remaining
/// candidate: k·n calls. λ = 1 sorts by relevance. Equal values go to the smaller index, NaN is below
/// everything.
pub fn mmr(relevance: &[f32], similarity: &dyn Fn(usize, usize) -> f32, lambda: f32, k: usize) -> Vec<usize> {
    let mut rest: Vec<(usize, f32)> = (0..relevance.len()).map(|index| (index, f32::NEG_INFINITY)).collect();
    let mut picked = Vec::with_capacity(k.min(relevance.len()));
    while picked.len() < k {
        let value = |&(index, nearest): &(usize, f32)| {
            // Nothing is near the first pick, and 0·∞ has no value.
            let penalty = if nearest == f32::NEG_INFINITY || lambda >= 1.0 { 0.0 } else { (1.0 - lambda) * nearest };
            let value = lambda * relevance[index] - penalty;
            if value.is_nan() { f32::NEG_INFINITY } else { value }
        };
        let best = (0..rest.len()).max_by(|left, right| {
            value(&rest[*left]).total_cmp(&value(&rest[*right])).then(rest[*right].0.cmp(&rest[*left].0))
        });
        let Some(best) = best else { break };
        let (index, _) = rest.swap_remove(best);
        picked.push(index);
        for (other, nearest) in &mut rest {
            *nearest = nearest.max(similarity(index, *other));
        }
    }
    picked
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "a chosen constant is compared")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, read aloud.
    fn naive(relevance: &[f32], similarity: &[Vec<f32>], lambda: f32, k: usize) -> Vec<usize> {
        let mut picked: Vec<usize> = Vec::new();
        while picked.len() < k.min(relevance.len()) {
            let value = |index: usize| {
                let nearest = picked.iter().map(|other| similarity[*other][index]).fold(f32::NEG_INFINITY, f32::max);
                lambda * relevance[index] - if picked.is_empty() { 0.0 } else { (1.0 - lambda) * nearest }
            };
            let mut best: Option<usize> = None;
            for index in (0..relevance.len()).filter(|index| !picked.contains(index)) {
                if best.is_none_or(|best| value(index) > value(best)) {
                    best = Some(index);
                }
            }
            picked.extend(best);
        }
        picked
    }

    proptest! {
        #![proptest_config(crate::rank::seeded())]

        #[test]
        fn it_is_the_definition(places in prop::collection::vec((0_u8..16, 0_u8..8), 0..25), k in 0_usize..30,
                lambda in prop_oneof![Just(0.0_f32), Just(1.0), Just(0.5), Just(0.75)]) {
            let relevance: Vec<f32> = places.iter().map(|(relevance, _)| f32::from(*relevance) / 16.0).collect();
            let similarity: Vec<Vec<f32>> = places.iter().map(|(_, left)| places.iter()
                .map(|(_, right)| 1.0 - f32::from(left.abs_diff(*right)) / 4.0).collect()).collect();
            let picked = mmr(&relevance, &|left, right| similarity[left][right], lambda, k);
            prop_assert_eq!(&picked, &naive(&relevance, &similarity, lambda, k));
            if lambda == 1.0 {
                let mut sorted: Vec<usize> = (0..relevance.len()).collect();
                sorted.sort_by(|left, right| relevance[*right].total_cmp(&relevance[*left]));
                sorted.truncate(k);
                prop_assert_eq!(picked, sorted);
            }
        }
    }

    #[test]
    fn the_second_of_two_twins_waits() {
        let twins = |left: usize, right: usize| if left + right == 1 { 0.99 } else { 0.1 };
        assert_eq!(mmr(&[0.9, 0.89, 0.6], &twins, 0.7, 3), [0, 2, 1]);
        assert_eq!(mmr(&[0.9, 0.89, 0.6], &twins, 1.0, 3), [0, 1, 2]);
    }

    #[test]
    fn no_number_comes_last_and_once() {
        assert_eq!(mmr(&[f32::NAN, 0.1, 0.5], &|_, _| f32::NAN, 0.5, 5), [2, 1, 0]);
        assert_eq!(mmr(&[0.1, 0.5], &|_, _| f32::INFINITY, 0.5, 5), [1, 0]);
    }
}
