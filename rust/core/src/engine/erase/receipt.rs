//! What an erasure tells, and how the store keeps it: without anything of what was erased.

use serde_json::{Value as Json, json};

use crate::base::{MemoryId, Micros};
use crate::engine::KnownCopy;

/// A memory that was not erased, and why somebody should look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// Which.
    pub id: MemoryId,
    /// What ties it to an erased one.
    pub reason: String,
}

/// Something of an erased memory that is still in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residue {
    /// The file, by its path below the store's directory.
    pub file: String,
    /// How many pieces of erased values are in it.
    pub pieces: u64,
}

/// What an erasure did, without anything of what was erased.
#[expect(clippy::struct_excessive_bools, reason = "a receipt states facts, each on its own")]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Erasure {
    /// When it was asked for.
    pub at: Micros,
    /// The commit that took the rows out; 0 when there were none.
    pub commit: u64,
    /// What was named: ids, session, where or everything.
    pub scope: String,
    /// Whether everything tied to the erased memories went with them.
    pub cascade_all: bool,
    /// Memories that were asked for.
    pub asked: usize,
    /// Memories that are gone, those that followed included.
    pub erased: usize,
    /// Damaged memories whose fields cannot be read: a filter cannot tell whether it means them.
    pub unreadable: usize,
    /// Memories that were not erased but should be looked at.
    pub review: Vec<Review>,
    /// Different pieces of erased values that were looked for.
    pub searched: usize,
    /// Erased values too short or too plain to be told from chance; they were not looked for.
    pub unsearched: usize,
    /// Files read to the last byte, and their bytes.
    pub files: usize,
    /// See `files`.
    pub bytes: u64,
    /// What is still there; nothing, unless another process holds the log or somebody put copies into the directory.
    pub residues: Vec<Residue>,
    /// Whether the log was emptied; another process that reads can hold it, then the next open does it.
    pub log_emptied: bool,
    /// Whether the whole file was written anew.
    pub rewritten: bool,
    /// Whether an earlier erasure was cut short, and this completed it.
    pub completed_later: bool,
    /// Files of this library that were removed because they were older copies.
    pub removed: Vec<String>,
    /// Copies outside of the store that this store knows of and that may hold what was erased.
    pub copies: Vec<KnownCopy>,
}

impl Erasure {
    /// Whether nothing is left in the store's directory as far as could be seen.
    pub fn is_complete(&self) -> bool {
        self.residues.is_empty() && self.log_emptied
    }

    pub(super) fn to_json(&self) -> Json {
        json!({
            "at": self.at.0, "commit": self.commit, "scope": self.scope, "cascade_all": self.cascade_all,
            "asked": self.asked, "erased": self.erased, "unreadable": self.unreadable,
            "review": self.review.iter().map(|one| json!([one.id.to_string(), one.reason])).collect::<Vec<_>>(),
            "searched": self.searched, "unsearched": self.unsearched, "files": self.files, "bytes": self.bytes,
            "residues": self.residues.iter().map(|one| json!([one.file, one.pieces])).collect::<Vec<_>>(),
            "log_emptied": self.log_emptied, "rewritten": self.rewritten, "completed_later": self.completed_later,
            "removed": self.removed, "copies": self.copies.iter().map(KnownCopy::to_json).collect::<Vec<_>>(),
        })
    }

    pub(super) fn from_json(text: &str) -> Option<Self> {
        let value: Json = serde_json::from_str(text).ok()?;
        let number = |name: &str| value[name].as_u64().unwrap_or_default();
        let flag = |name: &str| value[name].as_bool().unwrap_or_default();
        let list = |name: &str| value[name].as_array().cloned().unwrap_or_default();
        let pair = |entry: &Json| Some((entry[0].as_str()?.to_owned(), entry[1].clone()));
        Some(Self {
            at: Micros(value["at"].as_i64()?),
            commit: value["commit"].as_u64()?,
            scope: value["scope"].as_str()?.to_owned(),
            cascade_all: flag("cascade_all"),
            asked: number("asked") as usize,
            erased: number("erased") as usize,
            unreadable: number("unreadable") as usize,
            review: list("review")
                .iter()
                .filter_map(|entry| {
                    let (id, reason) = pair(entry)?;
                    Some(Review { id: id.parse().ok()?, reason: reason.as_str()?.to_owned() })
                })
                .collect(),
            searched: number("searched") as usize,
            unsearched: number("unsearched") as usize,
            files: number("files") as usize,
            bytes: number("bytes"),
            residues: list("residues")
                .iter()
                .filter_map(|entry| {
                    pair(entry).map(|(file, pieces)| Residue { file, pieces: pieces.as_u64().unwrap_or(1) })
                })
                .collect(),
            log_emptied: flag("log_emptied"),
            rewritten: flag("rewritten"),
            completed_later: flag("completed_later"),
            removed: list("removed").iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            copies: list("copies").iter().filter_map(KnownCopy::from_json).collect(),
        })
    }
}
