//! Erasure: gone from every table, every file and RAM, looked for byte by byte, with a receipt.
//!
//! The rows and the intent to clean up after them are one commit. Whatever then ends the process, the next open finds
//! the intent and completes what it names. An intent does not carry the erased texts, since that would be keeping them:
//! a completion cannot look for them, so it writes the whole file anew instead.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value as Json, json};

use super::Engine;
use super::upkeep::KnownCopy;
use crate::base::{EdgeKind, Error, MemoryId, Micros, Result, Row, RowSet, State};
use crate::disk::{Counts, Disk, Edge, Matcher, Needles, Scanned, Trace};
use crate::index::vectors::Prepared;
use crate::store::Filter;

/// Which memories are to be erased.
#[derive(Debug, Clone, PartialEq)]
pub enum Scope {
    /// These, in any state; each must be there.
    Ids(Vec<MemoryId>),
    /// All that a filter holds of, in any state and for any reader.
    Matching(Filter),
    /// All.
    Everything,
}

/// What is to be erased.
#[derive(Debug, Clone, PartialEq)]
pub struct Erase {
    /// Which memories.
    pub scope: Scope,
    /// What the scope is called in the receipt.
    pub name: &'static str,
    /// Also what is made from erased memories among others, and the versions before and after an erased one.
    pub cascade_all: bool,
}

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

    fn to_json(&self) -> Json {
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

    fn from_json(text: &str) -> Option<Self> {
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

/// The setting that says an erasure was begun: the receipt as far as it goes.
pub(super) const INTENT_KEY: &str = "erasing";
/// Settings that hold the receipts, by commit.
const RECEIPT_PREFIX: &str = "erasure.";
/// Erased memories up to which every form of a value is looked for; above, only those that this library writes.
const THOROUGH: usize = 100_000;
/// Pieces looked for at once, about: they take some hundred bytes each.
const PIECES: usize = 4_000_000;

/// Which rows go, and what is said about others.
#[derive(Debug, Default)]
struct ErasurePlan {
    rows: Vec<Row>,
    asked: usize,
    unreadable: usize,
    review: Vec<Review>,
}

/// What is looked for.
struct Search {
    matcher: Matcher,
    unsearched: usize,
    thorough: bool,
}

impl Engine {
    /// Erases memories and what follows from them, and looks for what might be left. Other writers wait, reads go on.
    /// `progress` hears the name of each step that is done.
    ///
    /// The picture in RAM is made anew, which takes as long as opening the store.
    pub fn erase(&self, request: &Erase, progress: &mut dyn FnMut(&'static str), now: Micros) -> Result<Erasure> {
        self.check_writable()?;
        let _gate = self.gate.lock();
        loop {
            self.settle_others()?;
            self.catch_up_behind_gate()?;
            let known = self.picture.read().commit();
            let plan = self.plan_erasure(request)?;
            let mut receipt = Erasure {
                at: now,
                scope: request.name.to_owned(),
                cascade_all: request.cascade_all,
                asked: plan.asked,
                unreadable: plan.unreadable,
                review: plan.review.clone(),
                log_emptied: true,
                ..Erasure::default()
            };
            if plan.rows.is_empty() {
                return Ok(receipt);
            }
            let search = self.search_for(&plan.rows)?;
            (receipt.searched, receipt.unsearched) = (search.matcher.len(), search.unsearched);
            let uses = self.take_uses();
            let mut moved = false;
            let everything = request.scope == Scope::Everything;
            let written = self.disk.write(now, |transaction| {
                if transaction.commit_number() != known + 1 {
                    moved = true;
                    return Err(Error::StalePlan { message: "another process wrote".to_owned() });
                }
                Self::write_uses(&self.config.laws, &uses, transaction)?;
                receipt.erased = 0;
                if everything {
                    receipt.erased = transaction.erase_all()?;
                } else {
                    for row in &plan.rows {
                        receipt.erased += usize::from(transaction.erase(*row)?);
                    }
                }
                receipt.commit = transaction.commit_number();
                transaction.set_meta(INTENT_KEY, &receipt.to_json().to_string())
            });
            match written {
                Ok(_) => {}
                Err(error) => {
                    self.give_back_uses(uses);
                    match moved {
                        true => continue,
                        false => return Err(error),
                    }
                }
            }
            {
                // Out of reach before anything else is done about them.
                let mut picture = self.picture.write();
                plan.rows.iter().for_each(|row| picture.columns.erase(*row));
                picture.set_commit(receipt.commit);
            }
            progress("rows");
            return self.finish_erasure(receipt, Some(&search), progress, now);
        }
    }

    /// Completes an erasure that was cut short. `None` when there is none.
    pub fn complete_erasure(&self, now: Micros) -> Result<Option<Erasure>> {
        if !self.is_erasing()? {
            return Ok(None);
        }
        self.check_writable()?;
        let _gate = self.gate.lock();
        self.settle_others()?;
        let Some(text) = self.disk.meta(INTENT_KEY)? else { return Ok(None) };
        let corrupt =
            || Error::Corrupt { what: "the intent to erase".to_owned(), message: "it says nothing".to_owned() };
        let mut receipt = Erasure::from_json(&text).ok_or_else(corrupt)?;
        receipt.completed_later = true;
        self.finish_erasure(receipt, None, &mut |_| {}, now).map(Some)
    }

    /// Whether an erasure was begun and not completed.
    pub fn is_erasing(&self) -> Result<bool> {
        self.check_open()?;
        Ok(self.disk.meta(INTENT_KEY)?.is_some())
    }

    /// The receipts of all erasures, oldest first.
    pub fn erasures(&self) -> Result<Vec<Erasure>> {
        self.check_open()?;
        let kept = self.disk.metas(RECEIPT_PREFIX)?;
        Ok(kept.iter().filter_map(|(_, text)| Erasure::from_json(text)).collect())
    }

    /// Waits until the writes that are on their way are on disk. Behind the gate no new ones start.
    pub(super) fn settle_others(&self) -> Result<()> {
        loop {
            self.disk.settle_group()?;
            if self.in_flight.load(Ordering::SeqCst) == 0 {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    /// Everything after the rows are gone: the log, the files, the picture, the search, the receipt.
    fn finish_erasure(
        &self,
        mut receipt: Erasure,
        search: Option<&Search>,
        progress: &mut dyn FnMut(&'static str),
        now: Micros,
    ) -> Result<Erasure> {
        receipt.log_emptied = self.disk.empty_log()?;
        progress("log");
        receipt.removed = self.disk.remove_old_copies()?;
        self.reload()?;
        progress("picture");
        self.drop_derived()?;
        progress("derived");
        if search.is_none() {
            self.write_file_anew(&mut receipt)?;
        }
        let nothing = Search { matcher: Needles::new(1).seal(), unsearched: 0, thorough: false };
        let search = search.unwrap_or(&nothing);
        self.look(&mut receipt, search)?;
        // While somebody holds the log, writing anew only adds to it.
        let in_database = receipt.residues.iter().any(|residue| residue.file == crate::disk::FILE_NAME);
        if in_database && receipt.log_emptied && !receipt.rewritten {
            self.write_file_anew(&mut receipt)?;
            self.look(&mut receipt, search)?;
        }
        progress("scan");
        receipt.copies = self.known_copies()?;
        let written = self.disk.write(now, |transaction| {
            // With the log held by another process the intent stays, and the next open goes on from here.
            if receipt.log_emptied {
                transaction.drop_meta(INTENT_KEY)?;
            }
            transaction.set_meta(&format!("{RECEIPT_PREFIX}{:020}", receipt.commit), &receipt.to_json().to_string())
        })?;
        self.picture.write().set_commit(written.commit);
        progress("receipt");
        Ok(receipt)
    }

    fn write_file_anew(&self, receipt: &mut Erasure) -> Result<()> {
        self.disk.vacuum()?;
        receipt.rewritten = true;
        receipt.log_emptied = self.disk.empty_log()?;
        Ok(())
    }

    /// Reads every byte and says what is left.
    fn look(&self, receipt: &mut Erasure, search: &Search) -> Result<()> {
        let Scanned { files, bytes, found } = self.disk.scan(&search.matcher)?;
        (receipt.files, receipt.bytes) = (files, bytes);
        receipt.residues.clear();
        if found.is_empty() {
            return Ok(());
        }
        // What the living hold as well is no leftover: as often as they hold it in the database, anywhere else at all.
        let (mut stored, mut shared) = (Counts::default(), Counts::default());
        self.disk.living_values(&mut |kind, bytes| {
            search.matcher.count(bytes, &mut stored);
            forms(kind, bytes, search.thorough, &mut |_, form| {
                search.matcher.count(form, &mut shared);
                true
            });
        })?;
        for (file, counts) in found {
            let in_database = file.as_os_str() == crate::disk::FILE_NAME;
            let left = |(piece, count): (&u32, &u64)| match in_database {
                true => count.saturating_sub(stored.get(piece).copied().unwrap_or(0)),
                false if shared.contains_key(piece) || stored.contains_key(piece) => 0,
                false => *count,
            };
            let pieces: u64 = counts.iter().map(left).sum();
            if pieces > 0 {
                receipt.residues.push(Residue { file: file.display().to_string(), pieces });
            }
        }
        Ok(())
    }

    /// What these memories left on disk, as values to look for.
    fn search_for(&self, rows: &[Row]) -> Result<Search> {
        let thorough = rows.len() <= THOROUGH;
        let mut needles = Needles::new((PIECES / rows.len().max(1) / 8).clamp(1, 4_096));
        let mut unsearched = 0;
        self.disk.traces(rows, &mut |kind, bytes| {
            let any = forms(kind, bytes, thorough, &mut |kind, form| match kind {
                Trace::Vector => needles.add_vector(form),
                Trace::Text | Trace::Id => needles.add_text(form),
            });
            unsearched += usize::from(!any);
        })?;
        Ok(Search { matcher: needles.seal(), unsearched, thorough })
    }

    fn plan_erasure(&self, request: &Erase) -> Result<ErasurePlan> {
        let picture = self.picture.read();
        let columns = &picture.columns;
        let damaged: Vec<Row> = picture.damaged.iter().map(|damaged| damaged.row).collect();
        let mut plan = ErasurePlan::default();
        let asked: Vec<Row> = match &request.scope {
            Scope::Ids(ids) => {
                let mut rows = RowSet::new();
                for id in ids {
                    let broken = picture.damaged.iter().find(|damaged| damaged.id == Some(*id)).map(|found| found.row);
                    rows.insert(columns.find(*id).or(broken).ok_or_else(|| Error::not_found(*id))?);
                }
                rows.iter().collect()
            }
            Scope::Matching(filter) => {
                filter.check()?;
                let mut rows = columns.present().clone();
                filter.apply(columns, &mut rows);
                plan.unreadable = damaged.len();
                rows.iter().collect()
            }
            Scope::Everything => {
                let mut rows = columns.present().clone();
                damaged.iter().for_each(|row| {
                    rows.insert(*row);
                });
                rows.iter().collect()
            }
        };
        let states: FxHashMap<Row, (MemoryId, State)> =
            columns.present().iter().map(|row| (row, (columns.id(row), columns.state(row)))).collect();
        drop(picture);
        plan.asked = asked.len();
        if request.scope == Scope::Everything {
            plan.rows = asked;
            return Ok(plan);
        }
        let following = Following { disk: &self.disk, states, all: request.cascade_all };
        let (rows, review) = following.of(asked)?;
        plan.rows = rows;
        plan.review = review;
        Ok(plan)
    }
}

/// Which memories follow erased ones.
struct Following<'a> {
    disk: &'a Disk,
    states: FxHashMap<Row, (MemoryId, State)>,
    all: bool,
}

impl Following<'_> {
    /// All rows that go, by ascending row, and what is to be looked at.
    fn of(&self, asked: Vec<Row>) -> Result<(Vec<Row>, Vec<Review>)> {
        let mut gone: FxHashSet<Row> = asked.iter().copied().collect();
        let mut review: BTreeMap<Row, &'static str> = BTreeMap::new();
        let mut fresh = asked;
        while !fresh.is_empty() {
            let mut next = Vec::new();
            for edge in self.disk.edges(&fresh)? {
                let (row, follows, reason) = match (edge.kind, gone.contains(&edge.older), gone.contains(&edge.newer)) {
                    (EdgeKind::DerivedFrom, true, false) => self.derived(&edge, &gone)?,
                    // What was folded into an erased memory says the same.
                    (EdgeKind::DerivedFrom, false, true) if self.was_folded(&edge)? => (edge.older, true, ""),
                    (EdgeKind::Supersedes, true, false) => (edge.newer, false, "it took the place of an erased memory"),
                    (EdgeKind::Supersedes, false, true) => (edge.older, false, "an erased memory took its place"),
                    _ => continue,
                };
                if follows || self.all {
                    if gone.insert(row) {
                        next.push(row);
                    }
                } else {
                    review.insert(row, reason);
                }
            }
            fresh = next;
        }
        let mut rows: Vec<Row> = gone.iter().copied().collect();
        rows.sort_unstable();
        let review = review.into_iter().filter(|(row, _)| !gone.contains(row));
        let review = review.filter_map(|(row, reason)| {
            self.states.get(&row).map(|(id, _)| Review { id: *id, reason: reason.to_owned() })
        });
        Ok((rows, review.collect()))
    }

    /// Whether a memory that was made from an erased one goes too: when nothing else that it was made from stays.
    fn derived(&self, edge: &Edge, gone: &FxHashSet<Row>) -> Result<(Row, bool, &'static str)> {
        if self.was_folded(edge)? {
            return Ok((edge.newer, false, "an erased memory was folded into it"));
        }
        let sources = self.disk.edges(&[edge.newer])?;
        let mut sources = sources.iter().filter(|one| one.newer == edge.newer && one.kind == EdgeKind::DerivedFrom);
        let follows = sources.all(|source| gone.contains(&source.older));
        Ok((edge.newer, follows, "it was made from an erased memory and others"))
    }

    /// Whether the older memory of an edge was folded into the newer one as its near-duplicate.
    fn was_folded(&self, edge: &Edge) -> Result<bool> {
        let Some((id, State::Merged)) = self.states.get(&edge.older) else { return Ok(false) };
        let Some((into, _)) = self.states.get(&edge.newer) else { return Ok(false) };
        let events = self.disk.events(*id)?;
        let merge = events.iter().rev().find(|event| event.kind == "merge").and_then(|event| event.detail.as_deref());
        let detail: Option<Json> = merge.and_then(|detail| serde_json::from_str(detail).ok());
        Ok(detail.is_some_and(|detail| detail["into"].as_str() == Some(&into.to_string())))
    }
}

/// Gives the forms in which a value may lie in a file. Whether any of them was taken.
fn forms(kind: Trace, bytes: &[u8], thorough: bool, take: &mut dyn FnMut(Trace, &[u8]) -> bool) -> bool {
    let mut any = take(kind, bytes);
    if kind == Trace::Vector && thorough {
        let halves: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let mut values = vec![0.0_f32; halves.len()];
        halves.reinterpret_cast::<f16>().convert_to_f32_slice(&mut values);
        let floats: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        any |= take(kind, &floats);
        if !halves.is_empty()
            && let Ok(prepared) = Prepared::from_f16(&halves, halves.len())
        {
            any |= take(kind, &prepared.code_bytes(0));
        }
    }
    if kind == Trace::Text
        && thorough
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        let quoted = Json::from(text).to_string();
        let quoted = quoted.trim_matches('"');
        if quoted != text {
            any |= take(kind, quoted.as_bytes());
        }
        let wide: Vec<u16> = text.encode_utf16().collect();
        if !text.is_ascii() {
            let escaped: String = quoted
                .chars()
                .flat_map(|character| match character.is_ascii() {
                    true => vec![character],
                    false => {
                        let units = character.encode_utf16(&mut [0; 2]).to_vec();
                        units.iter().flat_map(|unit| format!("\\u{unit:04x}").chars().collect::<Vec<_>>()).collect()
                    }
                })
                .collect();
            any |= take(kind, escaped.as_bytes());
        }
        let wide: Vec<u8> = wide.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        any |= take(kind, &wide);
    }
    any
}
