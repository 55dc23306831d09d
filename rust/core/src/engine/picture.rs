//! What the engine knows in RAM: columns, keyword index, vector index, and the commit they stand at.

use crate::base::{Error, Head, MemoryId, Result, Row};
use crate::disk::{Damaged, Disk, StoredRow};
use crate::index::keywords::{KeywordIndex, Terms, analyze};
use crate::index::vectors::{Prepared, VectorIndex};
use crate::store::{Columns, metadata};

use super::EngineConfig;
use super::derived::Saved;
use super::write::Model;

/// The key under which the disk remembers the model of the vectors.
const MODEL_KEY: &str = "model";

/// The columns and indexes of a store at one commit.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) columns: Columns,
    pub(super) keywords: KeywordIndex,
    pub(super) vectors: Option<VectorIndex>,
    pub(super) model: Option<Model>,
    /// Rows that the disk has but whose checksum fails; they are in no column.
    pub(super) damaged: Vec<Damaged>,
    /// The generation of the model that the vectors are from.
    pub(super) model_generation: u32,
    /// What was wrong with the derived files.
    pub(super) warnings: Vec<String>,
    /// Some of the derived files were not what they should be, so they are to be written anew.
    pub(super) distrusts_saved: bool,
    /// Nodes that the graph had when it was saved.
    pub(super) saved_nodes: usize,
    /// Rows that were read from the disk when it was loaded, the others being in the derived files.
    pub(super) rows_read: usize,
    /// Counts the pictures of one engine.
    pub(super) generation: u64,
    config: EngineConfig,
    commit: u64,
}

/// A row with everything computed that needs no lock.
#[derive(Debug)]
pub(super) struct Analyzed {
    pub(super) row: Row,
    pub(super) head: Head,
    pub(super) terms: Terms,
    pub(super) metadata: Option<serde_json::Value>,
    pub(super) vector: Option<Vec<u16>>,
}

impl Analyzed {
    pub(super) fn new(stored: StoredRow<'_>) -> Result<Self> {
        Ok(Self {
            row: stored.row,
            head: stored.head,
            terms: analyze(stored.text),
            metadata: stored.metadata.map(|json| metadata::parse("metadata", json)).transpose()?,
            vector: stored.vector.map(<[u16]>::to_vec),
        })
    }
}

impl Picture {
    pub(super) fn new(config: &EngineConfig) -> Self {
        Self {
            columns: Columns::new(),
            keywords: KeywordIndex::new(config.keywords),
            vectors: None,
            model: None,
            damaged: Vec::new(),
            model_generation: 0,
            warnings: Vec::new(),
            distrusts_saved: false,
            saved_nodes: 0,
            rows_read: 0,
            generation: 0,
            config: config.clone(),
            commit: 0,
        }
    }

    pub(super) fn commit(&self) -> u64 {
        self.commit
    }

    pub(super) fn set_commit(&mut self, commit: u64) {
        self.commit = self.commit.max(commit);
    }

    /// Why a memory is in no column: it is damaged, or there is none.
    pub(super) fn missing(&self, id: MemoryId) -> Error {
        match self.damaged.iter().find(|damaged| damaged.id == Some(id)) {
            Some(damaged) => Error::Corrupt { what: format!("memory {id}"), message: damaged.message.clone() },
            None => Error::not_found(id),
        }
    }

    /// Takes the place of another picture of the same engine.
    pub(super) fn follow(&mut self, old: &mut Self) {
        self.generation = old.generation + 1;
        let mut warnings = std::mem::take(&mut old.warnings);
        warnings.append(&mut self.warnings);
        warnings.dedup();
        self.warnings = warnings;
    }

    /// Reads the whole store, from the derived files as far as they hold it.
    pub(super) fn load(&mut self, disk: &Disk) -> Result<()> {
        self.settle_model(disk)?;
        let mut saved = Saved::read(disk, &self.config, self.model.as_ref().map(|model| model.dimension));
        loop {
            let loaded = self.load_from(saved, disk)?;
            // Vectors that another process wrote first of all between the two readings had no index to go to.
            if loaded && (self.model.is_some() || Self::disk_model(disk)?.is_none()) {
                return Ok(());
            }
            let warnings = std::mem::take(&mut self.warnings);
            *self = Self { warnings, distrusts_saved: self.distrusts_saved, ..Self::new(&self.config) };
            self.settle_model(disk)?;
            saved = Saved::default();
        }
    }

    fn settle_model(&mut self, disk: &Disk) -> Result<()> {
        if let Some(model) = Self::disk_model(disk)? {
            self.set_model(model);
        }
        Ok(())
    }

    /// Reads which model the vectors are from.
    pub(super) fn disk_model(disk: &Disk) -> Result<Option<Model>> {
        let Some(text) = disk.meta(MODEL_KEY)? else { return Ok(None) };
        let model = Model::from_json(&text);
        model.map(Some).ok_or_else(|| Error::Corrupt { what: "the store's model".to_owned(), message: text })
    }

    /// Settles the model of the vectors; a store has one.
    pub(super) fn set_model(&mut self, model: Model) {
        if self.model.is_none() {
            self.vectors = Some(VectorIndex::new(model.dimension, self.config.vectors.clone()));
            self.model = Some(model);
        }
    }

    /// The entry to be kept on disk for a model.
    pub(super) fn model_entry(model: &Model) -> (&'static str, String) {
        (MODEL_KEY, model.to_json())
    }

    /// Takes a row, new or changed, as the disk has it.
    pub(super) fn take(&mut self, row: Analyzed) -> Result<()> {
        let known = self.columns.present().contains(row.row);
        self.columns.put(row.row, &row.head)?;
        self.columns.metadata.set(row.row, row.metadata.as_ref());
        if known {
            return Ok(());
        }
        self.keywords.insert(row.row, &row.terms);
        if let (Some(bits), Some(vectors), Some(model)) = (row.vector, self.vectors.as_mut(), &self.model) {
            vectors.insert(row.row, &Prepared::from_f16(&bits, model.dimension)?, 0);
        }
        Ok(())
    }
}
