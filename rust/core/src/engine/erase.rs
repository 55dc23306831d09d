//! Erasure: gone from every table, every file and RAM, looked for byte by byte, with a receipt.
//!
//! The rows and the intent to clean up after them are one commit. Whatever then ends the process, the next open finds
//! the intent and completes what it names. An intent does not carry the erased texts, since that would be keeping them:
//! a completion cannot look for them, so it writes the whole file anew instead.

mod following;
mod forms;
mod receipt;

use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;

use super::Engine;
use crate::base::{Error, MemoryId, Micros, Result, Row, RowSet, State};
use crate::disk::{Counts, FILE_NAME, Matcher, Needles, Scanned, Trace};
use crate::store::Filter;
use following::Following;
use forms::forms;
pub use receipt::{Erasure, Residue, Review};

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
                    if moved {
                        continue;
                    }
                    return Err(error);
                }
            }
            {
                // Out of reach before anything else is done about them.
                let mut picture = self.picture.write();
                for row in &plan.rows {
                    picture.columns.erase(*row);
                }
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
        self.clear_derived()?;
        progress("derived");
        if search.is_none() {
            self.write_file_anew(&mut receipt)?;
        }
        let nothing = Search { matcher: Needles::new(1).seal(), unsearched: 0, thorough: false };
        let search = search.unwrap_or(&nothing);
        self.look(&mut receipt, search)?;
        // While somebody holds the log, writing anew only adds to it.
        let in_database = receipt.residues.iter().any(|residue| residue.file == FILE_NAME);
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
            let in_database = file.as_os_str() == FILE_NAME;
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
                for row in &damaged {
                    rows.insert(*row);
                }
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
