//! How long a store takes from being opened to its first answer, and what RAM it holds then, with derived files and
//! without, each in a process of its own:
//! `MEMORIES=100000 cargo test -p tiermem-core --profile perf --test derived_measure -- --ignored --exact measure --nocapture`
//! `GRAPH=1` builds the graph too, and `KEEP=directory` keeps the store and uses one that is there.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "it measures and prints")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tiermem_core::base::{MemoryId, Micros, Tier};
use tiermem_core::disk::{DERIVED_DIRECTORY, DiskOptions, Durability, FILE_NAME};
use tiermem_core::engine::{Engine, EngineConfig, Model, NewMemory, Query, Viewer};
use tiermem_core::store::Filter;

const NOW: Micros = Micros(1_700_000_000_000_000);
const DIMENSION: usize = 384;

struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn vector(&mut self) -> Vec<f32> {
        (0..DIMENSION).map(|_| (self.next() + self.next() + self.next() - 1.5) as f32).collect()
    }

    /// Twenty words, the frequent ones more often.
    fn text(&mut self, number: usize) -> String {
        let mut text = format!("note {number}:");
        for _ in 0..20 {
            let word = (50_000_f64.powf(self.next())) as u64;
            let _ = write!(text, " w{}", word.wrapping_mul(2_654_435_761) % 1_000_003);
        }
        text
    }
}

fn model() -> Model {
    Model { id: "measure".to_owned(), dimension: DIMENSION }
}

fn open(directory: &Path) -> Engine {
    let options = DiskOptions {
        durability: Durability::Normal,
        read_only: false,
        busy_timeout_ms: 5_000,
        allow_network: false,
        now: NOW,
        store_id: 1,
    };
    Engine::open(Some(directory), options, EngineConfig::default()).unwrap()
}

fn build(directory: &Path, memories: usize) {
    let engine = open(directory);
    let mut numbers = Numbers(7);
    let start = Instant::now();
    for first in (0..memories).step_by(5_000) {
        let count = 5_000.min(memories - first);
        let items: Vec<NewMemory> = (first..first + count)
            .map(|number| NewMemory {
                session: Some(format!("session {}", number / 50).into()),
                metadata: number.is_multiple_of(4).then(|| format!("{{\"project\":\"p{}\"}}", number % 100)),
                ..NewMemory::new(
                    MemoryId::version_7(number as i64, 0, number as u64),
                    numbers.text(number),
                    Tier::Semantic,
                )
            })
            .collect();
        let vectors: Vec<f32> = (0..count).flat_map(|_| numbers.vector()).collect();
        engine.add(&items, Some((&vectors, &model())), NOW).unwrap();
    }
    println!("built {memories} in {:.1?}", start.elapsed());
    if std::env::var_os("GRAPH").is_some() {
        let start = Instant::now();
        while engine.maintain(1_000, NOW).unwrap().waiting > 0 {}
        println!("graph in {:.1?}", start.elapsed());
    }
    let start = Instant::now();
    engine.close(NOW).unwrap();
    println!("closed with derived files in {:.1?}", start.elapsed());
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse::<usize>().ok()).unwrap_or(0) * 1024
    };
    line("RssAnon:")
}

/// What this process has used of the processors, in hundredths: the wall clock alone says little beside other work.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// One opening, in the process that [`measure`] started for it.
#[test]
#[ignore = "measures"]
fn open_once() {
    let Some(directory) = std::env::var_os("STORE").map(PathBuf::from) else { return };
    let before = resident();
    let mut numbers = Numbers(99);
    let (text, vector) = (numbers.text(3), numbers.vector());
    let spent = processor_seconds();
    let start = Instant::now();
    let engine = open(&directory);
    let opened = start.elapsed();
    let spent = processor_seconds() - spent;
    let model = model();
    let query = Query {
        text: &text,
        vector: Some((&vector, &model)),
        k: 10,
        filter: Filter::default(),
        must: Vec::new(),
        viewer: Viewer::owner(),
        min_score: None,
        now: NOW,
    };
    let hits = engine.search(&query).unwrap();
    engine.texts(&hits.rows).unwrap();
    let answered = start.elapsed();
    let stats = engine.stats(NOW).unwrap();
    let memories = stats.tiers.iter().map(|tier| tier.alive).sum::<usize>();
    assert_eq!(stats.warnings, Vec::<String>::new());
    let vectors = stats.vectors.unwrap();
    println!(
        "open {opened:.1?} ({spent:.2} s of processor time), first answer {answered:.1?}; {} B own RAM per memory (columns {}, keywords {}, vectors and graph {}); \
         {} rows read, {} nodes",
        (resident() - before) / memories,
        stats.column_bytes / memories,
        stats.keyword_bytes / memories,
        vectors.heap_bytes / memories,
        stats.rows_read,
        vectors.graph_nodes,
    );
}

fn in_a_process(directory: &Path) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "open_once", "--nocapture"])
        .env("STORE", directory)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find(|line| line.contains("open ")).map_or(text.clone(), |line| line.trim().to_owned())
}

/// Takes the files out of the system's cache.
fn cool(directory: &Path) {
    let derived =
        std::fs::read_dir(directory.join(DERIVED_DIRECTORY)).map(|entries| entries.flatten().map(|e| e.path()));
    for path in derived.into_iter().flatten().chain([directory.join(FILE_NAME)]) {
        let _ = Command::new("dd")
            .arg(format!("of={}", path.display()))
            .args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0"])
            .output();
    }
}

#[test]
#[ignore = "measures"]
fn measure() {
    let memories: usize = std::env::var("MEMORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let kept = std::env::var_os("KEEP").map(PathBuf::from);
    let temporary = tempfile::tempdir().unwrap();
    let directory = kept.as_deref().unwrap_or(temporary.path());
    if !directory.join(FILE_NAME).exists() {
        build(directory, memories);
    }
    let sizes = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    for entry in std::fs::read_dir(directory.join(DERIVED_DIRECTORY)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        println!("  {:>14} B/memory {}", sizes(&path) as f64 / memories as f64, &name[..name.len().min(8)]);
    }
    println!("  {:>14} B/memory {FILE_NAME}", sizes(&directory.join(FILE_NAME)) as f64 / memories as f64);
    for _ in 0..3 {
        println!("derived, warm: {}", in_a_process(directory));
    }
    cool(directory);
    println!("derived, cold: {}", in_a_process(directory));
    let derived = directory.join(DERIVED_DIRECTORY);
    let aside = directory.join("aside");
    std::fs::rename(&derived, &aside).unwrap();
    println!("none, warm: {}", in_a_process(directory));
    cool(directory);
    println!("none, cold: {}", in_a_process(directory));
    let _ = std::fs::remove_dir_all(&derived);
    std::fs::rename(&aside, &derived).unwrap();
}
