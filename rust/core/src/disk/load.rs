//! Loading: the whole store at open, and what changed since, each row verified before it is handed out.

use rusqlite::Connection;

use super::failure::Failure;
use super::read::counter;
use super::record::{self, Counter, Encoder, HEAD_COLUMNS, HEAD_WIDTH, Reading};
use super::{Damaged, Disk, FILE_NAME};
use crate::base::{Error, Head, MemoryId, Result, Row};

/// A sound memory on its way into RAM.
#[derive(Debug)]
pub struct StoredRow<'row> {
    /// Where it lies.
    pub row: Row,
    /// The commit that last wrote it.
    pub commit: u64,
    /// Its head.
    pub head: Head,
    /// Its text; empty when [`Parts::content`] was not asked for.
    pub text: &'row str,
    /// Its metadata, JSON.
    pub metadata: Option<&'row str>,
    /// Its private fields, JSON.
    pub private: Option<&'row str>,
    /// Its vector as the bits of f16 numbers; `None` when it has none of the current model.
    pub vector: Option<&'row [u16]>,
}

/// Which parts of the memories are read besides their heads. Only what is read is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Text and metadata.
    pub content: bool,
    /// Vectors.
    pub vectors: bool,
}

impl Parts {
    /// Everything.
    pub const ALL: Self = Self { content: true, vectors: true };
    /// The heads alone.
    pub const HEADS: Self = Self { content: false, vectors: false };
}

/// What a reading found besides the rows it handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The commit that the rows show.
    pub commit: u64,
    /// The row that the next memory gets.
    pub next_row: Row,
    /// The generation of the model in use.
    pub model: u32,
    /// Rows handed out.
    pub rows: usize,
    /// Rows whose vector is of an earlier model, and was kept back.
    pub outdated_vectors: usize,
    /// Rows that are not what was written; they were not handed out.
    pub damaged: Vec<Damaged>,
    /// Rows were erased since the commit asked for: forget everything and load anew. Nothing was handed out.
    pub reload: bool,
}

impl Disk {
    /// Hands out every sound memory, in any state, by ascending row. An error of `each` ends it and is handed on.
    pub fn load(&self, each: &mut dyn FnMut(StoredRow<'_>) -> Result<()>) -> Result<Loaded> {
        self.load_parts(Parts::ALL, each)
    }

    /// As [`Disk::load`], with only these parts.
    pub fn load_parts(&self, parts: Parts, each: &mut dyn FnMut(StoredRow<'_>) -> Result<()>) -> Result<Loaded> {
        self.with_view("load the store", |view| {
            let mut scan = Scan::new(view, parts)?;
            let mut statement = view.prepare_cached(&select(parts, "ORDER BY memory.row"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                scan.take(row, each)?;
            }
            let found = scan.loaded.rows + scan.loaded.damaged.len();
            scan.count_missing(view, found)?;
            Ok(scan.loaded)
        })
    }

    /// Hands out what was written or changed after a commit, by ascending row, in its state of now.
    pub fn load_since(&self, commit: u64, each: &mut dyn FnMut(StoredRow<'_>) -> Result<()>) -> Result<Loaded> {
        self.with_view("load what changed", |view| {
            let mut scan = Scan::new(view, Parts::ALL)?;
            if scan.erased_at > commit || scan.loaded.commit < commit {
                scan.loaded.reload = true;
                return Ok(scan.loaded);
            }
            let mut changed = view.prepare_cached("SELECT row FROM memory WHERE commit_number > ?1")?;
            let changed = changed.query_map([commit as i64], |row| row.get(0))?;
            let mut changed: Vec<u32> = changed.collect::<rusqlite::Result<_>>()?;
            changed.sort_unstable();
            let mut statement = view.prepare_cached(&select(Parts::ALL, "WHERE memory.row = ?1"))?;
            for row in changed {
                let mut rows = statement.query([row])?;
                match rows.next()? {
                    Some(row) => scan.take(row, each)?,
                    None => scan.damaged(Row(row), None, "an index names it, but it is not there".to_owned()),
                }
            }
            Ok(scan.loaded)
        })
    }
}

/// The columns of a head, then text, metadata, private, `content_checksum`, model, halves, `vector_checksum`.
pub(super) fn select(parts: Parts, rest: &str) -> String {
    let (content, join_content) = if parts.content {
        ("text, metadata, private", "LEFT JOIN content ON content.row = memory.row")
    } else {
        ("NULL, NULL, NULL", "")
    };
    let (vector, join_vector) = if parts.vectors {
        ("model, halves", "LEFT JOIN vector ON vector.row = memory.row")
    } else {
        ("NULL, NULL", "")
    };
    format!(
        "SELECT {HEAD_COLUMNS}, {content}, content_checksum, {vector}, vector_checksum \
         FROM memory {join_content} {join_vector} {rest}"
    )
}

/// A reading of many rows in one view of the store.
pub(super) struct Scan {
    parts: Parts,
    encoder: Encoder,
    halves: Vec<u16>,
    /// How many rows there must be, if the counters can be read.
    expected: Option<usize>,
    erased_at: u64,
    pub(super) loaded: Loaded,
}

impl Scan {
    pub(super) fn new(view: &Connection, parts: Parts) -> Result<Self, Failure> {
        let counter = counter(view)?;
        Ok(Self { expected: Some(counter.rows as usize), ..Self::of(counter, parts) })
    }

    /// A scan of a store whose counters are damaged: none of its rows is missed.
    pub(super) fn without_counter(parts: Parts, next_row: u32) -> Self {
        Self::of(Counter { next_row, ..Counter::NEW }, parts)
    }

    fn of(counter: Counter, parts: Parts) -> Self {
        let Counter { commit, next_row, erased_at, model, .. } = counter;
        let loaded = Loaded {
            commit,
            next_row: Row(next_row),
            model,
            rows: 0,
            outdated_vectors: 0,
            damaged: Vec::new(),
            reload: false,
        };
        Self { parts, encoder: Encoder::default(), halves: Vec::new(), expected: None, erased_at, loaded }
    }

    /// Hands a row on, or lists it as damaged.
    pub(super) fn take(
        &mut self,
        row: &rusqlite::Row<'_>,
        each: &mut dyn FnMut(StoredRow<'_>) -> Result<()>,
    ) -> Result<()> {
        match self.read(row) {
            Ok((stored, outdated)) => {
                each(stored)?;
                self.loaded.rows += 1;
                self.loaded.outdated_vectors += usize::from(outdated);
            }
            Err(message) => {
                let place = row.get::<_, u32>(0).unwrap_or(u32::MAX);
                self.damaged(Row(place), record::readable_id(row), message);
            }
        }
        Ok(())
    }

    /// The row, verified, and whether its vector is of an earlier model.
    fn read<'row>(&'row mut self, row: &'row rusqlite::Row<'_>) -> Reading<(StoredRow<'row>, bool)> {
        let (place, commit, head) = record::read_head(row, &mut self.encoder)?;
        if place >= self.loaded.next_row {
            return Err("it lies beyond the last row".to_owned());
        }
        let (mut text, mut metadata, mut private) = ("", None, None);
        if self.parts.content {
            let written = record::integer(row, HEAD_WIDTH + 3, "content_checksum")?;
            (text, metadata, private) = record::read_texts(row, HEAD_WIDTH, head.id, written)?;
        }
        let mut model = None;
        if self.parts.vectors {
            model = record::read_vector(row, HEAD_WIDTH + 4, head.id, &mut self.halves)?;
        }
        let current = model == Some(self.loaded.model);
        let vector = current.then_some(self.halves.as_slice());
        Ok((StoredRow { row: place, commit, head, text, metadata, private, vector }, model.is_some() && !current))
    }

    pub(super) fn damaged(&mut self, row: Row, id: Option<MemoryId>, message: String) {
        self.loaded.damaged.push(Damaged { row, id, message });
    }

    /// After all rows were taken, and `found` of them were there: names the ones that the table has lost without a word,
    /// by their ids in the index.
    pub(super) fn count_missing(&mut self, view: &Connection, found: usize) -> Result<(), Failure> {
        let Some(expected) = self.expected.filter(|expected| *expected != found) else { return Ok(()) };
        let mut statement = view.prepare(
            "SELECT indexed.row, indexed.id FROM memory AS indexed INDEXED BY memory_by_id \
             WHERE NOT EXISTS (SELECT 1 FROM memory AS present NOT INDEXED WHERE present.row = indexed.row)",
        )?;
        let missing = statement.query_map([], |row| Ok((row.get::<_, u32>(0)?, record::readable_id(row))))?;
        let mut named = 0;
        for missing in missing {
            let (row, id) = missing?;
            named += 1;
            self.damaged(Row(row), id, "it is not in its table any more".to_owned());
        }
        if found + named != expected {
            return Err(Failure::Told(Error::Corrupt {
                what: FILE_NAME.to_owned(),
                message: format!(
                    "it holds {found} memories of {expected}, and its index names {named} that are missing"
                ),
            }));
        }
        Ok(())
    }
}
