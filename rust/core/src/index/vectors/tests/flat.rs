//! Scans against a naive model.

use proptest::prelude::*;

use super::super::*;
use super::clustered::Clustered;
use super::{index_of, ranks_before};

/// Every masked row's cosine in f64, best first.
fn naive(index: &VectorIndex, query: &[f32], mask: &RowSet) -> Vec<(Row, f64)> {
    let wide = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect::<Vec<_>>();
    let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let query = wide(query);
    let mut all: Vec<(Row, f64)> = mask
        .iter()
        .filter_map(|row| {
            let vector = wide(&index.vector(row)?);
            let dot: f64 = vector.iter().zip(&query).map(|(left, right)| left * right).sum();
            Some((row, dot / norm(&vector) / norm(&query)))
        })
        .collect();
    all.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    all
}

prop_compose! {
    /// Vectors of one dimension, rows with gaps for them, a mask and a query.
    fn case()(dimension in prop_oneof![1_usize..10, 10_usize..140])(
        vectors in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, dimension), 1..120),
        gaps in prop::collection::vec(prop_oneof![8 => Just(1_u32), 2 => 1_u32..200, 1 => 4_000_u32..9_000], 120),
        allowed in prop_oneof![Just(vec![true; 120]), prop::collection::vec(any::<bool>(), 120)],
        query in prop::collection::vec(-1.0_f32..1.0, dimension),
        k in 0_usize..150,
    ) -> (Vec<Vec<f32>>, Vec<Row>, RowSet, Vec<f32>, usize) {
        let lift = |values: Vec<f32>| values.into_iter().map(|value| value + 0.001).collect::<Vec<_>>();
        let rows: Vec<Row> = gaps.iter().scan(0, |row, gap| { *row += gap; Some(Row(*row - 1)) }).collect();
        let mask = RowSet::from_rows(rows.iter().zip(&allowed).filter(|(_, allowed)| **allowed).map(|(row, _)| *row));
        (vectors.into_iter().map(lift).collect(), rows, mask, lift(query), k)
    }
}

proptest! {
    #[test]
    fn a_scan_is_exact((vectors, rows, mask, query, k) in case()) {
        let dimension = query.len();
        let prepared = prepare("vectors", &vectors.concat(), dimension);
        let question = query_vector("vector", &query, dimension);
        prop_assume!(prepared.is_ok() && question.is_ok());
        let (prepared, question) = (prepared.expect("checked"), question.expect("checked"));
        let rows = &rows[..prepared.count()];
        let index = index_of(&prepared, rows.iter().copied(), VectorConfig::default());
        let model = naive(&index, &query, &mask);
        let found = index.search(&question, &mask, k);
        prop_assert_eq!(found.rows.len(), k.min(model.len()));
        for ((row, cosine), (_, wanted)) in found.rows.iter().zip(&model) {
            // The k-th best is as good as the model's k-th best, and its number is its own.
            prop_assert!((f64::from(*cosine) - wanted).abs() < 2e-6, "{} {}", cosine, wanted);
            let own = model.iter().find(|(other, _)| other == row).expect("of the mask");
            prop_assert!((f64::from(*cosine) - own.1).abs() < 2e-6);
        }
        for pair in found.rows.windows(2) {
            prop_assert!(ranks_before(pair[0], pair[1]));
        }
        let plan = match model.len() {
            _ if k == 0 => Plan::Empty,
            0 => Plan::Empty,
            all if all == rows.len() => Plan::Flat,
            _ => Plan::Gather,
        };
        prop_assert_eq!(found.plan, plan);
        // One kernel, one number, whichever way it is asked for.
        let asked: Vec<Row> = found.rows.iter().map(|(row, _)| *row).collect();
        prop_assert_eq!(index.cosines(&question, &asked), found.rows.iter().map(|(_, cosine)| *cosine).collect::<Vec<_>>());
        prop_assert!(index.cosines(&question, &[Row(5_000_000)])[0].is_nan());
    }

    #[test]
    fn neighbours_and_pairs_miss_none((vectors, rows, mask, query, limit) in case(), min_cosine in -1.0_f32..1.0) {
        let dimension = query.len();
        let prepared = prepare("vectors", &vectors.concat(), dimension);
        prop_assume!(prepared.is_ok());
        let prepared = prepared.expect("checked");
        let rows = &rows[..prepared.count()];
        let index = index_of(&prepared, rows.iter().copied(), VectorConfig::default());
        let mut wanted = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            for (j, other) in rows.iter().enumerate().skip(i + 1) {
                let cosine = index.cosine_between(*row, *other).expect("both have one");
                prop_assert_eq!(index.cosine_between(*other, *row), Some(cosine));
                if cosine >= min_cosine {
                    wanted.push((i as u32, j as u32, cosine));
                }
            }
        }
        prop_assert_eq!(near_duplicate_pairs(&prepared, min_cosine), wanted.clone());
        for (i, row) in rows.iter().enumerate() {
            let mut near: Vec<(Row, f32)> = wanted
                .iter()
                .filter_map(|(left, right, cosine)| match (*left as usize, *right as usize) {
                    (left, right) if left == i => Some((rows[right], *cosine)),
                    (left, right) if right == i => Some((rows[left], *cosine)),
                    _ => None,
                })
                .filter(|(other, _)| mask.contains(*other))
                .collect();
            near.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
            near.truncate(limit);
            prop_assert_eq!(index.neighbours_above(*row, &mask, min_cosine, limit), near);
        }
        prop_assert!(index.neighbours_above(Row(5_000_000), &mask, min_cosine, limit).is_empty());
        prop_assert_eq!(index.cosine_between(rows[0], Row(5_000_000)), None);
    }
}

#[test]
fn a_crowd_of_near_equals_is_ranked_exactly() {
    // All 4,000 lie so close together that codes cannot tell them apart; they cross from one chunk into the next.
    const DIMENSION: usize = 40;
    let mut source = Clustered::new(DIMENSION, 1, 21);
    let centre = source.vectors(1);
    let crowd: Vec<f32> = source
        .vectors(4_000)
        .chunks_exact(DIMENSION)
        .flat_map(|other| centre.iter().zip(other).map(|(centre, other)| centre + 0.01 * other))
        .collect();
    let prepared = prepare("vectors", &crowd, DIMENSION).expect("fine");
    let index = index_of(&prepared, (3_000..7_000).map(Row), VectorConfig::default());
    let everything = RowSet::full(7_000);
    for query in source.near(&crowd, 5) {
        let question = query_vector("vector", &query, DIMENSION).expect("fine");
        let found = index.search(&question, &everything, 10);
        let model = naive(&index, &query, &everything);
        for ((_, cosine), (_, wanted)) in found.rows.iter().zip(&model) {
            assert!((f64::from(*cosine) - wanted).abs() < 2e-6, "{cosine} {wanted}");
        }
    }
}
