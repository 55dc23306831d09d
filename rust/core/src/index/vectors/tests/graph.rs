//! The graph against the scan, through its whole life, and under threads.

use super::super::*;
use super::clustered::{Chance, Clustered};
use super::{index_of, ranks_before};

const DIMENSION: usize = 48;

/// A graph pays from the first row on.
fn eager() -> VectorConfig {
    VectorConfig { graph_bytes: 0, ..VectorConfig::default() }
}

/// No graph ever pays.
fn never() -> VectorConfig {
    VectorConfig { graph_bytes: usize::MAX, ..VectorConfig::default() }
}

fn all(count: usize) -> impl Iterator<Item = Row> {
    (0..count as u32).map(Row)
}

fn questions(source: &mut Clustered, vectors: &[f32], count: usize) -> Vec<QueryVector> {
    let queries = source.near(vectors, count);
    queries.iter().map(|query| query_vector("vector", query, DIMENSION).expect("fine")).collect()
}

fn absorb_all(index: &VectorIndex, alive: &RowSet) {
    let mut left = usize::MAX;
    while left > 0 {
        let now = index.absorb(3_000, alive);
        assert!(now < left, "a slice brings the end nearer: {left} then {now}");
        left = now;
    }
}

/// Each row of `rows` with the chance of `permille` in a thousand.
fn some(rows: &RowSet, permille: usize, seed: u64) -> RowSet {
    let mut chance = Chance(seed);
    RowSet::from_rows(rows.iter().filter(|_| chance.below(1_000) < permille))
}

/// The share of the scan's answers that the index finds, and the plans it took.
fn recall(index: &VectorIndex, exact: &VectorIndex, queries: &[QueryVector], mask: &RowSet) -> (f64, Vec<Plan>) {
    let (mut found, mut wanted) = (0, 0);
    let mut plans = Vec::new();
    for query in queries {
        let answer = index.search(query, mask, 10);
        let truth = exact.search(query, mask, 10);
        assert!(answer.rows.iter().all(|(row, _)| mask.contains(*row)));
        assert!(answer.rows.is_sorted_by(|left, right| ranks_before(*left, *right)));
        assert_eq!(answer.rows.len(), truth.rows.len());
        let rows: Vec<Row> = answer.rows.iter().map(|(row, _)| *row).collect();
        let cosines: Vec<f32> = answer.rows.iter().map(|(_, cosine)| *cosine).collect();
        assert_eq!(index.cosines(query, &rows), cosines);
        found += truth.rows.iter().filter(|row| answer.rows.contains(row)).count();
        wanted += truth.rows.len();
        if !plans.contains(&answer.plan) {
            plans.push(answer.plan);
        }
    }
    (found as f64 / wanted.max(1) as f64, plans)
}

#[test]
fn a_graph_finds_what_a_scan_finds_through_churn() {
    const FIRST: usize = 20_000;
    const LATER: usize = 8_000;
    let mut source = Clustered::new(DIMENSION, 300, 1);
    let vectors = source.vectors(FIRST + LATER);
    let prepared = prepare("vectors", &vectors, DIMENSION).expect("fine");
    let queries = questions(&mut source, &vectors, 60);
    let mut index = index_of(&prepared, all(FIRST), eager());
    let mut exact = index_of(&prepared, all(FIRST), never());
    let mut alive = RowSet::full(FIRST);
    assert_eq!((index.pending(), exact.pending()), (FIRST, 0));
    assert_eq!(exact.absorb(FIRST, &alive), 0);
    absorb_all(&index, &alive);
    let stats = index.stats();
    assert_eq!((stats.graph_nodes, stats.tail, index.pending()), (FIRST, 0, 0));
    if cfg!(feature = "numkong") {
        assert_ne!(stats.graph_kernels.as_deref(), Some("serial"));
    }

    let check = |index: &VectorIndex, exact: &VectorIndex, alive: &RowSet, wide: Plan| {
        for permille in [1_000, 800, 500, 100, 10, 1] {
            let mask = some(alive, permille, 3);
            let (recall, plans) = recall(index, exact, &queries, &mask);
            assert!(recall >= 0.98, "{recall} at {permille} ‰ by {plans:?}");
            match permille {
                1_000 => assert_eq!(plans, [wide]),
                800 => assert!(!plans.contains(&Plan::Gather), "{plans:?}"),
                500 => {}
                _ => assert_eq!(plans, [Plan::Gather]),
            }
        }
    };
    check(&index, &exact, &alive, Plan::Graph { expansion: 64 });

    // New rows are found at once, by the scan of the tail.
    for row in all(FIRST + LATER).skip(FIRST) {
        index.insert(row, &prepared, row.index());
        exact.insert(row, &prepared, row.index());
        alive.insert(row);
    }
    assert_eq!(index.pending(), LATER);
    check(&index, &exact, &alive, Plan::GraphWithTail { expansion: 64, tail: LATER });

    // A sixth is dead, and the rest is absorbed in place: the graph is not built anew.
    alive.subtract(&some(&RowSet::full(FIRST), 240, 4));
    absorb_all(&index, &alive);
    let stats = index.stats();
    assert!(stats.dead_share > 0.15 && stats.dead_share <= 0.25, "{stats:?}");
    assert_eq!((stats.graph_nodes, stats.building_nodes), (FIRST + LATER, 0));
    check(&index, &exact, &alive, Plan::Graph { expansion: 64 });

    // More dies, and a new graph is built aside in slices while the old one serves.
    alive.subtract(&some(&alive, 150, 5));
    let waiting = index.absorb(5_000, &alive);
    let stats = index.stats();
    assert_eq!(waiting, alive.count() - 5_000);
    assert_eq!((stats.graph_nodes, stats.building_nodes), (FIRST + LATER, 5_000));
    check(&index, &exact, &alive, Plan::Graph { expansion: 64 });
    absorb_all(&index, &alive);
    let stats = index.stats();
    assert_eq!((stats.graph_nodes, stats.building_nodes), (alive.count(), 0));
    assert!(stats.dead_share == 0.0);
    check(&index, &exact, &alive, Plan::Graph { expansion: 64 });

    // The dead come back, as `restore` lets them: the graph has never heard of them, the tail has.
    let everything = RowSet::full(FIRST + LATER);
    let tail = everything.count() - alive.count();
    check(&index, &exact, &everything, Plan::GraphWithTail { expansion: 64, tail });
}

#[test]
fn a_filter_that_shuns_the_question_costs_a_scan_and_no_recall() {
    const COUNT: usize = 8_000;
    let mut source = Clustered::new(DIMENSION, 40, 6);
    let vectors = source.vectors(COUNT);
    let prepared = prepare("vectors", &vectors, DIMENSION).expect("fine");
    let index = index_of(&prepared, all(COUNT), eager());
    let exact = index_of(&prepared, all(COUNT), never());
    absorb_all(&index, &RowSet::full(COUNT));
    for query in questions(&mut source, &vectors, 10) {
        let ranked = exact.search(&query, &RowSet::full(COUNT), COUNT).rows;
        let far = RowSet::from_rows(ranked[COUNT / 2..].iter().map(|(row, _)| *row));
        let (recall, _) = recall(&index, &exact, std::slice::from_ref(&query), &far);
        assert!(recall >= 0.9, "{recall}");
        // A walk that is given up brings nothing that the mask forbids.
        let walk = index
            .graph
            .with(|built| index.graph.walk(built, &query.bare_codes(), 64, &far, Some(50)))
            .flatten()
            .expect("a graph serves");
        assert!(walk.tripped);
        assert!(walk.rows.iter().all(|row| far.contains(*row)));
    }
}

#[test]
fn searches_and_one_writer_go_side_by_side() {
    const BUILT: usize = 6_000;
    const COUNT: usize = 7_000;
    let mut source = Clustered::new(DIMENSION, 60, 8);
    let vectors = source.vectors(COUNT);
    let prepared = prepare("vectors", &vectors, DIMENSION).expect("fine");
    let mut index = index_of(&prepared, all(BUILT), eager());
    let alive = RowSet::full(COUNT);
    absorb_all(&index, &RowSet::full(BUILT));
    for row in all(COUNT).skip(BUILT) {
        index.insert(row, &prepared, row.index());
    }
    let exact = index_of(&prepared, all(COUNT), never());
    let queries = questions(&mut source, &vectors, 20);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (index, exact, queries, alive) = (&index, &exact, &queries, &alive);
            scope.spawn(move || {
                for round in 0..4 {
                    let mask = some(alive, [1_000, 700, 900, 50][(thread + round) % 4], round as u64);
                    let (recall, plans) = recall(index, exact, queries, &mask);
                    assert!(recall >= 0.98, "{recall} {plans:?}");
                }
            });
        }
        scope.spawn(|| while index.absorb(20, &alive) > 0 {});
    });
    let stats = index.stats();
    assert_eq!((stats.graph_nodes, stats.tail, stats.graph_failure), (COUNT, 0, None));
}

#[test]
fn more_searches_than_the_graph_has_room_for_wait_their_turn() {
    const COUNT: usize = 5_000;
    let mut source = Clustered::new(DIMENSION, 60, 9);
    let vectors = source.vectors(COUNT);
    let prepared = prepare("vectors", &vectors, DIMENSION).expect("fine");
    let index = index_of(&prepared, all(COUNT), eager());
    let alive = RowSet::full(COUNT);
    absorb_all(&index, &alive);
    let query = &questions(&mut source, &vectors, 1)[0];
    let wanted = index.search(query, &alive, 10);
    assert_eq!(wanted.plan, Plan::Graph { expansion: 64 });
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(index.search(query, &alive, 10), wanted);
                }
            });
        }
    });
    assert_eq!(index.stats().graph_failure, None);
}

#[test]
fn a_saved_graph_serves_again_and_a_wrong_one_does_not() {
    const COUNT: usize = 5_000;
    let mut source = Clustered::new(DIMENSION, 60, 10);
    let vectors = source.vectors(COUNT + 500);
    let prepared = prepare("vectors", &vectors, DIMENSION).expect("fine");
    let index = index_of(&prepared, all(COUNT), eager());
    assert_eq!(index.graph_to_bytes(), None);
    let alive = RowSet::full(COUNT + 500);
    absorb_all(&index, &alive);
    let bytes = index.graph_to_bytes().expect("a graph serves");

    let mut again = index_of(&prepared, all(COUNT), eager());
    again.graph_from_bytes(&bytes).expect("what was saved");
    assert_eq!((again.pending(), again.stats().graph_nodes), (0, COUNT));
    for query in questions(&mut source, &vectors, 20) {
        let answer = again.search(&query, &alive, 10);
        assert_eq!(answer.plan, Plan::Graph { expansion: 64 });
        assert_eq!(answer, index.search(&query, &alive, 10));
    }
    for row in all(COUNT + 500).skip(COUNT) {
        again.insert(row, &prepared, row.index());
    }
    absorb_all(&again, &alive);
    assert_eq!(again.stats().graph_nodes, COUNT + 500);

    let refused = |index: &mut VectorIndex, bytes: &[u8]| {
        let error = index.graph_from_bytes(bytes).expect_err("refused").to_string();
        assert_eq!(index.stats().graph_nodes, 0);
        error
    };
    let mut fewer = index_of(&prepared, all(COUNT - 1), eager());
    assert!(refused(&mut fewer, &bytes).contains("rows without a vector"));
    let mut other = index_of(&prepared, all(COUNT), VectorConfig { connectivity: 8, ..eager() });
    assert!(refused(&mut other, &bytes).contains("connectivity 16"));
    let mut fresh = index_of(&prepared, all(COUNT), eager());
    for cut in [0, 20, 40, 400, bytes.len() - 1] {
        assert!(refused(&mut fresh, &bytes[..cut]).contains(&format!("ends after {cut} bytes")));
    }
    let mut fewer_rows = bytes.clone();
    fewer_rows[32] &= !1;
    assert!(refused(&mut fresh, &fewer_rows).contains("contradicts"));
    let mut endless = bytes.clone();
    endless[16..24].fill(u8::MAX);
    assert!(refused(&mut fresh, &endless).contains("ends after"));
    let mut older = bytes;
    older[7] = b'0';
    assert!(refused(&mut fresh, &older).contains("no graph of this version"));
}

#[test]
fn an_error_of_the_library_takes_the_graph_out_of_service_and_not_the_search() {
    const COUNT: usize = 5_000;
    let mut source = Clustered::new(DIMENSION, 60, 11);
    let vectors = source.vectors(COUNT);
    let prepared = prepare("vectors", &vectors, DIMENSION).expect("fine");
    let index = index_of(&prepared, all(COUNT), eager());
    let alive = RowSet::full(COUNT);
    absorb_all(&index, &alive);
    let query = &questions(&mut source, &vectors, 1)[0];
    assert_eq!(index.search(query, &alive, 3).plan, Plan::Graph { expansion: 64 });
    let short = [1; DIMENSION - 1];
    assert!(index.graph.with(|built| index.graph.walk(built, &short, 64, &alive, None)).flatten().is_none());
    assert!(index.stats().graph_failure.is_some_and(|failure| failure.contains("length")));
    let answer = index.search(query, &alive, 3);
    assert_eq!((answer.plan, answer.rows.len()), (Plan::Flat, 3));
    assert_eq!((index.absorb(COUNT, &alive), index.pending(), index.graph_to_bytes()), (0, 0, None));
}

#[test]
fn neighbours_by_the_graph_are_near_and_allowed() {
    const COUNT: usize = 5_000;
    let mut source = Clustered::new(DIMENSION, 60, 12);
    let vectors = source.vectors(COUNT);
    let prepared = prepare("vectors", &vectors, DIMENSION).expect("fine");
    let index = index_of(&prepared, all(COUNT), eager());
    let exact = index_of(&prepared, all(COUNT), never());
    let alive = RowSet::full(COUNT);
    absorb_all(&index, &alive);
    let (mut found, mut wanted) = (0, 0);
    for row in all(COUNT).step_by(40) {
        let near = index.neighbours_above(row, &alive, 0.9, 20);
        let truth = exact.neighbours_above(row, &alive, 0.9, 20);
        assert!(near.iter().all(|(other, cosine)| *other != row && *cosine >= 0.9));
        found += truth.iter().filter(|pair| near.contains(pair)).count();
        wanted += truth.len();
    }
    assert!(wanted > 100 && found * 100 >= wanted * 98, "{found} of {wanted}");
}
