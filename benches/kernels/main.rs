//! The laws over a million rows, beside a plain copy of the same bytes.
//!
//! `cargo bench -p tiermem-bench --bench kernels -- rank`; before criterion's own figures it prints what share of the copy's bandwidth each
//! kernel reaches, both measured in the same run.
#![expect(clippy::print_stdout, reason = "a benchmark speaks to whoever runs it")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use tiermem_core::base::Micros;
use tiermem_core::rank::{Aged, Arms, Weights, aged_scores, fuse, mmr, scores, strengths, top_k};

const ROWS: usize = 1_000_000;
const NOW: Micros = Micros(1_760_000_000_000_000);
const SHARES: (f32, f32) = (0.2, 0.1);
const SHAPES: [(&str, f64); 3] = [("shape 1", 1.0), ("exponential", f64::INFINITY), ("shape ½", 0.5)];

/// Columns of a store that was used over a year, and room for the answers.
struct Columns {
    last_used: Vec<Micros>,
    half_life: Vec<f32>,
    relevance: Vec<f32>,
    importance: Vec<f32>,
    strength: Vec<f32>,
    score: Vec<f32>,
}

impl Columns {
    fn new() -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 24) as f32
        };
        let mut column = |scale: f32| (0..ROWS).map(|_| draw() * scale).collect::<Vec<f32>>();
        let ages = column(365.0 * 86_400.0);
        Self {
            last_used: ages.into_iter().map(|age| Micros(NOW.0 - (f64::from(age) * 1e6) as i64)).collect(),
            half_life: column(30.0 * 86_400.0).into_iter().map(|half_life| half_life + 900.0).collect(),
            relevance: column(1.0),
            importance: column(1.0),
            strength: vec![0.0; ROWS],
            score: vec![0.0; ROWS],
        }
    }

    fn strengths(&mut self, shape: f64) {
        strengths(NOW, &self.last_used, &self.half_life, shape, &mut self.strength);
        black_box(&mut self.strength);
    }

    fn scores(&mut self) {
        scores(&self.relevance, &self.strength, &self.importance, SHARES.0, SHARES.1, &mut self.score);
        black_box(&mut self.score);
    }

    fn aged_scores(&mut self, shape: f64) {
        let columns = Aged {
            last_used: &self.last_used,
            half_life: &self.half_life,
            relevance: &self.relevance,
            importance: &self.importance,
        };
        aged_scores(NOW, columns, shape, SHARES, &mut self.strength, &mut self.score);
        black_box((&mut self.strength, &mut self.score));
    }
}

/// Bytes that each kernel reads and writes per row.
const STRENGTHS: usize = 8 + 4 + 4;
const SCORES: usize = 4 + 4 + 4 + 4;
const AGED_SCORES: usize = 8 + 4 + 4 + 4 + 4 + 4;

/// A copy that moves as many bytes as `bytes` per row: it reads half of them and writes the other half.
struct Stream {
    from: Vec<u64>,
    to: Vec<u64>,
}

impl Stream {
    fn new(bytes: usize) -> Self {
        Self { from: vec![1; ROWS * bytes / 16], to: vec![0; ROWS * bytes / 16] }
    }

    fn copy(&mut self) {
        self.to.copy_from_slice(black_box(&self.from));
        black_box(&mut self.to);
    }
}

/// The quickest of many runs of each, taken in turns so that other load hits both alike.
fn quickest(mut left: impl FnMut(), mut right: impl FnMut()) -> (Duration, Duration) {
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..200 {
        best.0 = best.0.min(time(&mut left));
        best.1 = best.1.min(time(&mut right));
    }
    best
}

fn print_share(name: &str, bytes: usize, kernel: impl FnMut()) {
    let mut stream = Stream::new(bytes);
    let (kernel, copy) = quickest(kernel, || stream.copy());
    let rate = |time: Duration| (ROWS * bytes) as f64 / time.as_secs_f64() / 1e9;
    println!(
        "{name:32} {:7.3} ms {:6.1} GB/s   copy {:7.3} ms {:6.1} GB/s   share {:4.0} %",
        kernel.as_secs_f64() * 1e3,
        rate(kernel),
        copy.as_secs_f64() * 1e3,
        rate(copy),
        100.0 * copy.as_secs_f64() / kernel.as_secs_f64(),
    );
}

fn print_shares() {
    let mut columns = Columns::new();
    println!("{ROWS} rows, the quickest of 200 runs, one thread");
    for (name, shape) in SHAPES {
        print_share(&format!("strengths, {name}"), STRENGTHS, || columns.strengths(shape));
    }
    print_share("scores", SCORES, || columns.scores());
    for (name, shape) in SHAPES {
        print_share(&format!("strengths and scores, {name}"), AGED_SCORES, || columns.aged_scores(shape));
    }
}

fn rank(criterion: &mut Criterion) {
    let mut columns = Columns::new();
    let mut group = criterion.benchmark_group("rank");
    group.throughput(Throughput::Bytes((ROWS * AGED_SCORES) as u64));
    let mut stream = Stream::new(AGED_SCORES);
    group.bench_function("copy of the bytes of strengths and scores", |bencher| bencher.iter(|| stream.copy()));
    for (name, shape) in SHAPES {
        group.bench_function(BenchmarkId::new("strengths and scores", name), |bencher| {
            bencher.iter(|| columns.aged_scores(shape));
        });
    }
    group.throughput(Throughput::Bytes((ROWS * 4) as u64));
    for k in [10, 1_000] {
        group.bench_function(BenchmarkId::new("top_k", k), |bencher| bencher.iter(|| top_k(&columns.score, k)));
    }
    for count in [200, 2_000] {
        let cosine = &columns.relevance[..count];
        let bm25: Vec<f32> = columns.importance[..count].iter().map(|value| (value - 0.5).max(0.0) * 40.0).collect();
        let (mut relevance, mut vector, mut keyword) = (vec![0.0; count], vec![0.0; count], vec![0.0; count]);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::new("fuse", count), |bencher| {
            bencher.iter(|| {
                let arms = Arms { cosine: Some(black_box(cosine)), keyword: Some((black_box(&bm25), 30.0)) };
                fuse(arms, Weights::default(), &mut relevance, &mut vector, &mut keyword);
            });
        });
    }
    let places = &columns.importance[..200];
    group.throughput(Throughput::Elements(200));
    group.bench_function("mmr, 10 of 200", |bencher| {
        let similarity = |left: usize, right: usize| 1.0 - (places[left] - places[right]).abs();
        bencher.iter(|| mmr(black_box(&columns.relevance[..200]), &similarity, 0.7, 10));
    });
    group.finish();
}

fn main() {
    print_shares();
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(20)
        .configure_from_args();
    rank(&mut criterion);
    criterion.final_summary();
}
