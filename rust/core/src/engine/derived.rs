//! The picture saved and loaded: what makes opening a store fast.
//!
//! **What is saved.** Two groups of derived files: the *tables* (columns, keywords, and the vectors' codes and f16 values)
//! and the *graph*. The store names both in one setting, each with the commit it was begun at; see [`crate::disk`] for why
//! a file that is not named there does not count.
//!
//! **When.** On close, and in maintenance, when more rows were changed since than [`SLACK`] and a sixteenth of all: to
//! bring so few up to date costs less than to write everything anew. Never in any other call.
//!
//! **How.** In steps of about a millisecond, each under its own hold of the picture, so that readers and writers go on.
//! The files are therefore not a view of one moment: they hold every row as it was at some moment since the group's
//! commit. Two things make that exact. Whoever loads them reads every row that the disk says was changed after that commit
//! and puts it in the place of the saved one. And the setting that names them is a commit of its own, so whatever of other
//! writes got into the files was on disk, or was given up, before they count; a picture that was loaded anew meanwhile
//! ends the saving.
//!
//! **Promise.** Nothing here fails a call or poisons a handle. What cannot be saved or loaded is said in
//! [`super::Stats::warnings`], and loading falls back on the disk, part by part.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value as Json, json};

use super::picture::{Analyzed, Picture};
use super::write::Gate;
use super::{Engine, EngineConfig};
use crate::base::{Blob, Error, Micros, Result, Row, RowSet};
use crate::disk::{DerivedKind, DerivedLock, DerivedName, DerivedOrigin, Disk, Parts, StoredRow};
use crate::index::keywords::{self, KeywordIndex, KeywordsSaver, analyze};
use crate::index::vectors::{self, Prepared, VectorIndex, VectorsSaver};
use crate::store::{Columns, ColumnsSaver, metadata};

/// Rows that may be newer than the files, besides a share of all, before the files are written anew.
const SLACK: usize = 1_024;
/// One row in so many may be newer, too.
const SLACK_SHARE: usize = 16;
/// The layout of the payloads.
const FORMAT: u32 = 1;
/// The setting that names the files.
const SETTING: &str = "derived";
/// Rows brought up to date together.
const REPLAYED: usize = 8_192;
/// How long a saving waits for its turn to write before it looks whether it is to stop.
const TURN: Duration = Duration::from_millis(20);
/// Most maintenance calls that pass between two tries when saving fails.
const LONGEST_PAUSE: u32 = 1_024;

/// Everything whose change makes saved bytes mean something else: this library, the graph's, the analysis of texts.
static LIBRARY: LazyLock<String> = LazyLock::new(|| {
    format!("{} {} {:016x}", env!("CARGO_PKG_VERSION"), vectors::usearch_version(), keywords::fingerprint())
});

/// How saving goes, for one engine.
#[derive(Debug, Default)]
pub(super) struct Saving {
    /// Counts the calls to stop whatever is being saved.
    stops: AtomicU64,
    /// Tries that failed one after another.
    failures: AtomicU32,
    /// Maintenance calls that are still to pass before the next try.
    pause: AtomicU32,
    /// The last failure, until a try succeeds.
    failure: Mutex<Option<String>>,
}

impl Saving {
    /// What went wrong, if the last try did.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }
}

/// A group of files that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    /// Rows that were changed later are to be read from the disk.
    commit: u64,
    /// The generation of the model whose vectors are in it.
    model: u32,
    names: Vec<DerivedName>,
}

impl Group {
    fn to_json(&self) -> Json {
        let file = |name: &DerivedName| json!([name.kind.name(), format!("{:032x}", name.digest), name.bytes]);
        json!({"commit": self.commit, "model": self.model, "files": self.names.iter().map(file).collect::<Vec<_>>()})
    }

    fn from_json(value: &Json) -> Option<Self> {
        let name = |file: &Json| {
            let kind = DerivedKind::from_name(file[0].as_str()?)?;
            Some(DerivedName {
                kind,
                digest: u128::from_str_radix(file[1].as_str()?, 16).ok()?,
                bytes: file[2].as_u64()?,
            })
        };
        Some(Self {
            commit: value["commit"].as_u64()?,
            model: u32::try_from(value["model"].as_u64()?).ok()?,
            names: value["files"].as_array()?.iter().map(name).collect::<Option<_>>()?,
        })
    }

    fn name(&self, kind: DerivedKind) -> Option<&DerivedName> {
        self.names.iter().find(|name| name.kind == kind)
    }
}

/// The files that the store names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Named {
    tables: Option<Group>,
    graph: Option<Group>,
}

impl Named {
    /// What the store names and this library can use; nothing of what an erasure came after.
    fn of(disk: &Disk) -> Result<Self> {
        let Some(text) = disk.meta(SETTING)? else { return Ok(Self::default()) };
        let position = disk.position()?;
        let mut named = Self::from_json(&text);
        for group in [&mut named.tables, &mut named.graph] {
            group.take_if(|group| group.commit > position.commit || group.commit < position.erased_at);
        }
        named.graph.take_if(|graph| graph.model != position.model);
        if let Some(tables) = &mut named.tables
            && tables.model != position.model
        {
            tables.names.retain(|name| !matches!(name.kind, DerivedKind::Codes | DerivedKind::Halves));
        }
        Ok(named)
    }

    fn from_json(text: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Json>(text) else { return Self::default() };
        if value["library"] != **LIBRARY {
            return Self::default();
        }
        Self { tables: Group::from_json(&value["tables"]), graph: Group::from_json(&value["graph"]) }
    }

    fn to_json(&self) -> String {
        let group = |group: &Option<Group>| group.as_ref().map(Group::to_json);
        json!({"library": *LIBRARY, "tables": group(&self.tables), "graph": group(&self.graph)}).to_string()
    }

    fn names(&self) -> Vec<DerivedName> {
        [&self.tables, &self.graph].into_iter().flatten().flat_map(|group| group.names.iter().copied()).collect()
    }
}

fn origin(commit: u64) -> DerivedOrigin<'static> {
    DerivedOrigin { commit, format: FORMAT, library: &LIBRARY }
}

/// What could be read of the derived files.
#[derive(Debug, Default)]
pub(super) struct Saved {
    /// The commit of the tables; nothing when none of them could be read.
    commit: Option<u64>,
    /// The generation of the model whose vectors or graph were read, if any were.
    model: Option<u32>,
    columns: Option<Columns>,
    keywords: Option<KeywordIndex>,
    vectors: Option<VectorIndex>,
    graph: Option<Blob>,
    faults: Vec<String>,
}

impl Saved {
    /// Reads what the store names. Another process may put new files in the place of the named ones at any time.
    pub(super) fn read(disk: &Disk, config: &EngineConfig, dimension: Option<usize>) -> Self {
        let mut named = None;
        loop {
            let (saved, read) = Self::read_once(disk, config, dimension);
            if saved.faults.is_empty() || named.as_ref() == Some(&read) {
                return saved;
            }
            named = Some(read);
        }
    }

    /// Reads, on two threads, what the store names, and says what that was.
    fn read_once(disk: &Disk, config: &EngineConfig, dimension: Option<usize>) -> (Self, Named) {
        let mut saved = Self::default();
        let directory = disk.derived_directory();
        // Where there is none of them, a copy was made without them or somebody cleared them away: nothing is amiss.
        let any = directory
            .and_then(|directory| std::fs::read_dir(directory).ok())
            .is_some_and(|entries| entries.flatten().any(|entry| entry.file_name().to_string_lossy().contains('-')));
        if !any {
            return (saved, Named::default());
        }
        let named = match Named::of(disk) {
            Ok(named) => named,
            Err(error) => {
                saved.faults.push(error.to_string());
                return (saved, Named::default());
            }
        };
        let read = |group: &Option<Group>, kind| {
            let group = group.as_ref()?;
            group.name(kind).map(|name| disk.read_derived(name, &origin(group.commit)))
        };
        let decode_vectors = || {
            let dimension = dimension?;
            let (codes, halves) = (read(&named.tables, DerivedKind::Codes)?, read(&named.tables, DerivedKind::Halves)?);
            let decode =
                |codes: Blob| VectorIndex::from_saved(dimension, config.vectors.clone(), codes.bytes(), &halves?);
            Some(codes.and_then(decode))
        };
        let other = || (decode_vectors(), dimension.and_then(|_| read(&named.graph, DerivedKind::Graph)));
        let (columns, keywords, (vectors, graph)) = std::thread::scope(|scope| {
            let handle = std::thread::Builder::new().spawn_scoped(scope, other);
            let columns = read(&named.tables, DerivedKind::Columns).map(|blob| Columns::from_bytes(blob?.bytes()));
            let keywords = read(&named.tables, DerivedKind::Keywords)
                .map(|blob| KeywordIndex::from_bytes(blob?.bytes(), config.keywords));
            let others = match handle {
                Ok(handle) => handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => other(),
            };
            (columns, keywords, others)
        });
        saved.columns = saved.sound(columns);
        saved.keywords = saved.sound(keywords);
        saved.vectors = saved.sound(vectors);
        saved.graph = saved.sound(graph);
        if saved.columns.is_some() || saved.keywords.is_some() || saved.vectors.is_some() {
            saved.commit = named.tables.as_ref().map(|tables| tables.commit);
        }
        if saved.vectors.is_some() {
            saved.model = named.tables.as_ref().map(|tables| tables.model);
        } else if saved.graph.is_some() {
            saved.model = named.graph.as_ref().map(|graph| graph.model);
        }
        (saved, named)
    }

    fn sound<T>(&mut self, read: Option<Result<T>>) -> Option<T> {
        read?.map_err(|fault| self.faults.push(fault.to_string())).ok()
    }
}

impl Picture {
    /// Takes what was saved, reads from the disk what is missing in it, and what is newer. `false` when the disk has
    /// moved on in a way that only a full reading follows; the picture is then of no use.
    pub(super) fn load_from(&mut self, saved: Saved, disk: &Disk) -> Result<bool> {
        let Saved { commit, mut model, columns, keywords, vectors, graph, faults } = saved;
        if !faults.is_empty() {
            self.warnings.push(format!("derived files are not used and were built anew: {}", faults.join("; ")));
        }
        self.distrusts_saved |= !faults.is_empty();
        let missing = Missing {
            columns: columns.is_none(),
            keywords: keywords.is_none(),
            vectors: vectors.is_none() && self.vectors.is_some(),
        };
        if let Some(columns) = columns {
            self.columns = columns;
        }
        if let Some(keywords) = keywords {
            self.keywords = keywords;
        }
        if vectors.is_some() {
            self.vectors = vectors;
        }
        if missing.any() {
            let parts = Parts { content: missing.columns || missing.keywords, vectors: missing.vectors };
            let loaded = disk.load_parts(parts, &mut |stored| self.take_missing(missing, &stored))?;
            for damaged in &loaded.damaged {
                self.columns.erase(damaged.row);
            }
            self.damaged = loaded.damaged;
            self.rows_read += loaded.rows;
            self.model_generation = loaded.model;
            if *model.get_or_insert(loaded.model) != loaded.model {
                return Ok(false);
            }
            if commit.is_none() {
                self.set_commit(loaded.commit);
            }
        }
        if let Some(commit) = commit {
            let followed = self.bring_up_to_date(commit, disk)?;
            if !followed || model.is_some_and(|model| model != self.model_generation) {
                return Ok(false);
            }
        }
        if let (Some(graph), Some(vectors)) = (graph, &self.vectors)
            && let Err(error) = vectors.graph_from_bytes(graph.bytes())
        {
            self.warnings.push(format!("the saved graph is not used and is built anew: {error}"));
            self.distrusts_saved = true;
        }
        self.saved_nodes = self.vectors.as_ref().map_or(0, |vectors| vectors.saved_graph().nodes());
        Ok(true)
    }

    /// Takes of a row what is missing of all rows.
    fn take_missing(&mut self, missing: Missing, stored: &StoredRow<'_>) -> Result<()> {
        if missing.columns {
            self.columns.put(stored.row, &stored.head)?;
            if let Some(json) = stored.metadata {
                self.columns.metadata.insert(stored.row, &metadata::parse("metadata", json)?);
            }
        }
        if missing.keywords {
            self.keywords.insert(stored.row, &analyze(stored.text));
        }
        if missing.vectors
            && let Some(bits) = stored.vector
        {
            self.take_vector(stored.row, bits)?;
        }
        Ok(())
    }

    /// Reads what was written or changed after the commit.
    fn bring_up_to_date(&mut self, commit: u64, disk: &Disk) -> Result<bool> {
        let mut fresh = Vec::new();
        let mut full = false;
        let loaded = disk.load_since(commit, &mut |stored| {
            fresh.push(Analyzed::new(stored)?);
            if fresh.len() >= REPLAYED && !full {
                full = self.replay(&mut fresh).is_err();
            }
            Ok(())
        })?;
        if loaded.reload || full || self.replay(&mut fresh).is_err() {
            return Ok(false);
        }
        for damaged in loaded.damaged {
            self.columns.erase(damaged.row);
            if self.damaged.iter().all(|known| known.row != damaged.row) {
                self.damaged.push(damaged);
            }
        }
        self.rows_read += loaded.rows;
        self.model_generation = loaded.model;
        self.set_commit(loaded.commit);
        Ok(true)
    }

    /// Puts rows in the place of what is known of them. What the files say about the metadata of a row that was changed
    /// while they were written may be half of the one and half of the other, so it all goes first.
    fn replay(&mut self, rows: &mut Vec<Analyzed>) -> Result<()> {
        let known = rows.iter().map(|row| row.row).filter(|row| self.columns.present().contains(*row));
        let known = RowSet::from_rows(known);
        self.columns.metadata.remove_rows(&known);
        for row in rows.drain(..) {
            self.columns.put(row.row, &row.head)?;
            if let Some(metadata) = &row.metadata {
                self.columns.metadata.insert(row.row, metadata);
            }
            self.keywords.insert(row.row, &row.terms);
            if let Some(bits) = &row.vector {
                self.take_vector(row.row, bits)?;
            }
        }
        Ok(())
    }

    fn take_vector(&mut self, row: Row, bits: &[u16]) -> Result<()> {
        if let (Some(vectors), Some(model)) = (self.vectors.as_mut(), &self.model)
            && !vectors.contains(row)
        {
            vectors.insert(row, &Prepared::from_f16(bits, model.dimension)?, 0);
        }
        Ok(())
    }
}

/// What the derived files do not give.
#[derive(Debug, Clone, Copy)]
struct Missing {
    columns: bool,
    keywords: bool,
    vectors: bool,
}

impl Missing {
    fn any(self) -> bool {
        self.columns || self.keywords || self.vectors
    }
}

/// What is to be saved.
#[derive(Debug, Clone, Copy)]
struct Due {
    tables: bool,
    graph: bool,
}

impl Due {
    fn any(self) -> bool {
        self.tables || self.graph
    }
}

/// A saving under way: it holds as long as the picture is the one it began with and nobody calls it off.
#[derive(Debug, Clone, Copy)]
struct Course {
    generation: u64,
    stops: u64,
    commit: u64,
    model: u32,
}

impl Engine {
    /// Saves what is behind by more than the slack, if that is possible and nobody else is at it.
    pub(super) fn save_if_behind(&self, patient: bool, now: Micros) {
        if self.disk.derived_directory().is_none() || self.disk.check_writable().is_err() {
            return;
        }
        let pause = &self.saving.pause;
        if patient && pause.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            return;
        }
        let tried = self.try_to_save(now);
        let failures = &self.saving.failures;
        match tried {
            Ok(()) => {
                failures.store(0, Ordering::Relaxed);
                *self.saving.failure.lock() = None;
            }
            Err(error) => {
                let failed = failures.fetch_add(1, Ordering::Relaxed).min(LONGEST_PAUSE.ilog2());
                pause.store((1 << failed).min(LONGEST_PAUSE), Ordering::Relaxed);
                *self.saving.failure.lock() = Some(format!("derived files could not be written: {error}"));
            }
        }
    }

    fn try_to_save(&self, now: Micros) -> Result<()> {
        if !self.due()?.any() {
            return Ok(());
        }
        let Some(lock) = self.disk.lock_derived()? else { return Ok(()) };
        // Another process may just have done it.
        let due = self.due()?;
        if due.any() { self.save(&lock, due, now) } else { Ok(()) }
    }

    /// What is behind by more than the slack.
    fn due(&self) -> Result<Due> {
        let named = Named::of(&self.disk)?;
        let picture = self.picture.read();
        let (rows, whole, distrusted) = (picture.columns.rows(), picture.damaged.is_empty(), picture.distrusts_saved);
        let nodes = picture.vectors.as_ref().map_or(0, |vectors| vectors.saved_graph().nodes());
        let saved_nodes = picture.saved_nodes;
        drop(picture);
        // The report on what is damaged comes from reading everything, so everything is to be read next time, too.
        if !whole {
            return Ok(Due { tables: false, graph: false });
        }
        let slack = SLACK + rows / SLACK_SHARE;
        let tables = match &named.tables {
            Some(tables) if !distrusted && tables.names.iter().all(|name| self.disk.has_derived(name)) => {
                self.disk.changed_since(tables.commit, slack + 1)? > slack
            }
            _ => rows > SLACK,
        };
        let saved_nodes = named.graph.as_ref().map_or(0, |_| saved_nodes);
        Ok(Due { tables, graph: nodes.abs_diff(saved_nodes) > SLACK + nodes / SLACK_SHARE })
    }

    /// Removes every derived file and writes them anew from what is known now, as after an erasure. Waits for another
    /// process that writes some. Call it with no lock in hand.
    pub fn rewrite_derived(&self, now: Micros) -> Result<()> {
        self.check_open()?;
        self.clear_derived()?;
        let Some(lock) = self.disk.lock_derived()? else { return Ok(()) };
        let picture = self.picture.read();
        let due = Due { tables: picture.columns.rows() > SLACK && picture.damaged.is_empty(), graph: true };
        drop(picture);
        if due.tables { self.save(&lock, due, now) } else { Ok(()) }
    }

    /// Removes every derived file now, and ends what is being saved. May be called with the gate in hand.
    pub(super) fn clear_derived(&self) -> Result<()> {
        self.saving.stops.fetch_add(1, Ordering::SeqCst);
        self.disk.drop_derived()
    }

    fn save(&self, lock: &DerivedLock, due: Due, now: Micros) -> Result<()> {
        let mut named = Named::of(&self.disk)?;
        let before = named.names();
        let saved = self.save_groups(lock, due, &mut named, now);
        // What is named stays; what a try that failed has left is of no use.
        let kept = if saved.is_ok() { named.names() } else { before };
        let cleared = self.disk.keep_derived(lock, &kept);
        // Windows removes no file that is mapped; the next saving does.
        if cfg!(windows) { saved } else { saved.and(cleared) }
    }

    fn save_groups(&self, lock: &DerivedLock, due: Due, named: &mut Named, now: Micros) -> Result<()> {
        let position = self.disk.position()?;
        let course = {
            let picture = self.picture.read();
            // Nothing was written to the picture later than the commits up to this one.
            let commit = picture.commit().min(position.commit);
            let stops = self.saving.stops.load(Ordering::SeqCst);
            Course { generation: picture.generation, stops, commit, model: picture.model_generation }
        };
        let mut nodes = None;
        if due.graph {
            let graph = self.picture.read().vectors.as_ref().map(VectorIndex::saved_graph);
            let count = graph.as_ref().map_or(0, vectors::SavedGraph::nodes);
            named.graph = match graph.and_then(|graph| graph.to_bytes()) {
                Some(bytes) => {
                    let mut bytes = Some(bytes);
                    let name = self.save_file(lock, DerivedKind::Graph, course, &mut |_, into| {
                        into.append(&mut bytes.take().unwrap_or_default());
                        false
                    })?;
                    Some(Group { commit: course.commit, model: course.model, names: vec![name] })
                }
                None => None,
            };
            nodes = Some(count);
        }
        if due.tables {
            let mut tables = Vec::new();
            let mut columns = ColumnsSaver::default();
            tables.push(self.save_file(lock, DerivedKind::Columns, course, &mut |picture, into| {
                columns.step(&picture.columns, into)
            })?);
            let mut keywords = KeywordsSaver::default();
            tables.push(self.save_file(lock, DerivedKind::Keywords, course, &mut |picture, into| {
                keywords.step(&picture.keywords, into)
            })?);
            if self.picture.read().vectors.is_some() {
                let parts =
                    [(DerivedKind::Codes, VectorsSaver::codes()), (DerivedKind::Halves, VectorsSaver::halves())];
                for (kind, mut saver) in parts {
                    tables.push(self.save_file(lock, kind, course, &mut |picture, into| {
                        picture.vectors.as_ref().is_some_and(|vectors| saver.step(vectors, into))
                    })?);
                }
            }
            named.tables = Some(Group { commit: course.commit, model: course.model, names: tables });
        }
        self.name(named, course, now)?;
        let mut picture = self.picture.write();
        if picture.generation == course.generation {
            picture.distrusts_saved = false;
            if let Some(nodes) = nodes {
                picture.saved_nodes = nodes;
            }
        }
        drop(picture);
        if due.tables { self.serve_from_saved(named, course) } else { Ok(()) }
    }

    /// Writes one file, step by step.
    fn save_file(
        &self,
        lock: &DerivedLock,
        kind: DerivedKind,
        course: Course,
        step: &mut dyn FnMut(&Picture, &mut Vec<u8>) -> bool,
    ) -> Result<DerivedName> {
        let mut writer = self.disk.create_derived(lock, kind, &origin(course.commit))?;
        let mut buffer = Vec::new();
        loop {
            let more = {
                let picture = self.picture.read();
                self.check_course(&picture, course)?;
                step(&picture, &mut buffer)
            };
            writer.write(&buffer)?;
            buffer.clear();
            if !more {
                return writer.finish();
            }
            if self.disk.position()?.erased_at > course.commit {
                return Err(called_off());
            }
        }
    }

    fn check_course(&self, picture: &Picture, course: Course) -> Result<()> {
        let holds = picture.generation == course.generation && self.saving.stops.load(Ordering::SeqCst) == course.stops;
        if holds { Ok(()) } else { Err(called_off()) }
    }

    /// Names the files in the store. Whatever got into them from writes that were under way is on disk when this
    /// returns, since this write follows them.
    fn name(&self, named: &Named, course: Course, now: Micros) -> Result<()> {
        let held = loop {
            if let Some(held) = self.gate.try_lock_for(TURN) {
                break held;
            }
            self.check_course(&self.picture.read(), course)?;
        };
        let gate = Gate::new(held, self.disk.arrive());
        let text = named.to_json();
        self.commit(gate, now, |engine, transaction| {
            engine.check_course(&engine.picture.read(), course)?;
            if transaction.erased_at() > course.commit || transaction.model() != course.model {
                return Err(called_off());
            }
            transaction.set_meta(SETTING, &text)?;
            Ok(Vec::new())
        })
    }

    /// Lets the f16 values be served from the file just written: it is in the system's memory anyway.
    fn serve_from_saved(&self, named: &Named, course: Course) -> Result<()> {
        let Some(tables) = &named.tables else { return Ok(()) };
        let Some(name) = tables.name(DerivedKind::Halves) else { return Ok(()) };
        let halves = self.disk.read_derived(name, &origin(tables.commit))?;
        let mut picture = self.picture.write();
        if picture.generation == course.generation
            && let Some(vectors) = &mut picture.vectors
        {
            vectors.serve_halves_from(&halves)?;
        }
        Ok(())
    }
}

fn called_off() -> Error {
    Error::StalePlan { message: "the store was loaded anew or something was erased while it was saved".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_reads_back() {
        let name = |kind, digest| DerivedName { kind, digest, bytes: 9 };
        let tables = Group {
            commit: 7,
            model: 1,
            names: vec![name(DerivedKind::Columns, 1), name(DerivedKind::Codes, u128::MAX)],
        };
        let graph = Group { commit: 5, model: 1, names: vec![name(DerivedKind::Graph, 3)] };
        for named in [
            Named::default(),
            Named { tables: Some(tables.clone()), graph: None },
            Named { tables: Some(tables), graph: Some(graph) },
        ] {
            assert_eq!(Named::from_json(&named.to_json()), named);
        }
        for text in ["", "{}", "[1]", "{\"library\": 3}", "nonsense"] {
            assert_eq!(Named::from_json(text), Named::default());
        }
    }
}
