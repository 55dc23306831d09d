//! Scan or walk: which of the two answers a question sooner. Pure arithmetic over counts that are known exactly.
//!
//! A walk with a predicate measures distances until enough of the *matching* nodes were met, about
//! `9 · expansion · (nodes / matching)^¾` of them, so the rarer the filter the dearer the walk; a scan of the matching
//! rows costs one distance each, and reads memory in order, so that [`SCANNED_PER_STEP`] of them take the time of one
//! step of a walk.

/// Distances that a walk measures for each candidate of its expansion when every node matches.
const STEPS_PER_CANDIDATE: f64 = 9.0;
/// How the steps grow as fewer nodes match.
const RARITY: f64 = 0.75;
/// Rows scanned in the time of one step of a walk.
const SCANNED_PER_STEP: f64 = 8.0;
/// So few matching rows are scanned whatever else is true.
const ALWAYS_SCANNED: usize = 2_000;
/// Nodes from which the expansion doubles: recall at one expansion falls slowly as a graph grows.
const LARGE: usize = 1_000_000;

/// The way to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Scan the matching rows.
    Scan,
    /// Walk the graph.
    Walk {
        /// Predicate calls after which the walk is given up for a scan; none when every node matches.
        budget: Option<usize>,
    },
}

/// Candidates that a walk keeps for the best `k` of a graph with `nodes`. The last of them are found less surely than
/// the first, so whoever needs the k-th as surely as the first asks for more; a search does, for its candidates.
pub(super) fn expansion(configured: usize, nodes: usize, k: usize) -> usize {
    let configured = if nodes >= LARGE { configured.saturating_mul(2) } else { configured };
    configured.max(k).max(1)
}

/// The cheaper way to the `matching` of a graph's `nodes`.
pub(super) fn choose(nodes: usize, matching: usize, expansion: usize) -> Way {
    if matching <= ALWAYS_SCANNED {
        return Way::Scan;
    }
    let steps = STEPS_PER_CANDIDATE * expansion as f64 * (nodes as f64 / matching as f64).powf(RARITY);
    let scan = matching as f64 / SCANNED_PER_STEP;
    if scan <= steps {
        return Way::Scan;
    }
    // A filter that shuns what the question is about makes a walk endless: at the price of two scans it is given up.
    Way::Walk { budget: (matching < nodes).then_some((2.0 * steps.max(scan)) as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walks(nodes: usize, matching: usize) -> bool {
        choose(nodes, matching, expansion(64, nodes, 10)) != Way::Scan
    }

    #[test]
    fn rare_filters_scan_and_wide_ones_walk() {
        // The crossovers that were measured: 12 to 15 thousand of 100 thousand, about 45 thousand of a million.
        assert!(!walks(100_000, 10_000) && walks(100_000, 20_000) && walks(100_000, 100_000));
        assert!(!walks(1_000_000, 30_000) && walks(1_000_000, 100_000));
        assert!(!walks(3_000, 2_000));
    }

    #[test]
    fn more_matching_rows_never_turn_a_walk_into_a_scan() {
        for nodes in [5_000, 50_000, 500_000, 5_000_000] {
            let ways: Vec<bool> = (1..=50).map(|part| walks(nodes, nodes * part / 50)).collect();
            assert!(ways.is_sorted(), "{nodes}: {ways:?}");
        }
    }

    #[test]
    fn only_an_unfiltered_walk_is_unbounded() {
        assert_eq!(choose(100_000, 100_000, 64), Way::Walk { budget: None });
        let Way::Walk { budget: Some(budget) } = choose(100_000, 50_000, 64) else { panic!("a bounded walk") };
        assert!((2_000..40_000).contains(&budget), "{budget}");
    }

    #[test]
    fn the_expansion_grows_with_k_and_with_the_graph() {
        assert_eq!(expansion(64, 100_000, 10), 64);
        assert_eq!(expansion(64, 100_000, 100), 100);
        assert_eq!(expansion(64, 1_000_000, 10), 128);
        assert_eq!(expansion(0, 0, 0), 1);
    }
}
