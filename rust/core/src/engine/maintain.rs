//! Work that makes later calls cheap or the tiers tidy: flushing, the graph, consolidation.

use super::visibility::{Viewer, visible};
use super::write::{Change, later_end};
use super::{Engine, picture::Picture};
use crate::base::{EdgeKind, Error, Head, MemoryId, Micros, Result, Row, RowSet, State, Tier};
use crate::disk::Transaction;
use crate::life::{self, Plan, Step, Verdict};
use crate::rank;

/// Rows that the graph takes before searches get a turn: about a millisecond.
const GRAPH_SLICE: usize = 4;
/// The row up to which near-duplicates were looked for.
const CONSOLIDATED_KEY: &str = "consolidated";
/// Neighbours that are compared word by word.
const TWINS: usize = 16;

/// What maintenance did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Maintained {
    /// Uses written to disk.
    pub uses_flushed: usize,
    /// Vectors that the graph took in.
    pub absorbed: usize,
    /// Vectors that still wait for the graph; they are found by scanning.
    pub waiting: usize,
}

/// One memory in the report of a consolidation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Which.
    pub id: MemoryId,
    /// What it says.
    pub text: String,
    /// Where it was.
    pub from: Tier,
    /// Why.
    pub reason: &'static str,
    /// Where it went, for a promotion.
    pub to: Option<Tier>,
    /// Into which it was folded, for a merge.
    pub into: Option<MemoryId>,
}

/// What a consolidation did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Consolidation {
    /// Moved to a higher tier.
    pub promoted: Vec<Moved>,
    /// Folded into another memory.
    pub merged: Vec<Moved>,
    /// Let go; `restore` brings them back until compaction.
    pub let_go: Vec<Moved>,
}

impl Engine {
    /// Writes pending uses, lets the graph take in at most `rows` waiting vectors, and saves the derived files when
    /// they are far behind.
    pub fn maintain(&self, rows: usize, now: Micros) -> Result<Maintained> {
        self.catch_up()?;
        let mut done = Maintained { uses_flushed: self.pending_uses(), ..Maintained::default() };
        if done.uses_flushed > 0 && self.disk.check_writable().is_ok() {
            self.flush_uses(now)?;
        }
        for _ in 0..rows.div_ceil(GRAPH_SLICE) {
            // Each slice under its own guard, so that a writer that waits for the picture gets it in between.
            let picture = self.picture.read();
            let Some(vectors) = &picture.vectors else { break };
            let before = vectors.pending();
            done.waiting = vectors.absorb(GRAPH_SLICE, picture.columns.alive());
            done.absorbed += before.saturating_sub(done.waiting);
            if done.waiting == 0 {
                break;
            }
        }
        self.save_if_behind(true, now);
        Ok(done)
    }

    /// Moves memories between the tiers by the laws, folds near-duplicates together and lets go of what has come to
    /// its end; all in one transaction. With `dry_run` it only says what it would do.
    pub fn consolidate(&self, dry_run: bool, now: Micros) -> Result<Consolidation> {
        self.check_open()?;
        if !dry_run {
            self.check_writable()?;
        }
        let gate = self.enter_gate();
        let plan = || {
            let plan = self.plan_consolidation(now)?;
            let report = self.report(&plan)?;
            Ok((plan, report, self.picture.read().columns.rows()))
        };
        if dry_run {
            self.catch_up_behind_gate()?;
            return Ok(plan()?.1);
        }
        let write = |transaction: &mut Transaction<'_>, (plan, _, through): &(Plan, Consolidation, usize)| {
            let known = transaction.meta(CONSOLIDATED_KEY)?.and_then(|text| text.parse().ok()).unwrap_or(0_usize);
            if known < *through {
                transaction.set_meta(CONSOLIDATED_KEY, &through.to_string())?;
            }
            Ok(((), self.carry_out(plan, transaction)?))
        };
        let ((), (_, report, _)) = self.commit_with(gate, now, plan, write, &[], None)?;
        Ok(report)
    }

    fn consolidated_through(&self) -> Result<usize> {
        Ok(self.disk.meta(CONSOLIDATED_KEY)?.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    fn plan_consolidation(&self, now: Micros) -> Result<Plan> {
        let through = self.consolidated_through()?;
        let picture = self.picture.read();
        let columns = &picture.columns;
        let fresh = RowSet::from_rows(visible(columns, &Viewer::owner(), now).range(through, columns.rows()));
        life::plan(columns, &self.config.laws, now, &fresh, |row, among| self.twin(&picture, row, among))
    }

    /// The oldest of a set of memories that says the same as `row`, about the same, under the same labels.
    fn twin(&self, picture: &Picture, row: Row, among: &RowSet) -> Result<Option<Row>> {
        let Some(vectors) = &picture.vectors else { return Ok(None) };
        let columns = &picture.columns;
        let laws = &self.config.laws;
        let near = vectors.neighbours_above(row, among, laws.merge_cosine, TWINS);
        let mut near: Vec<Row> = near
            .into_iter()
            .map(|(other, _)| other)
            .filter(|other| {
                columns.about_number(*other) == columns.about_number(row)
                    && columns.labels(*other) == columns.labels(row)
            })
            .collect();
        if near.is_empty() {
            return Ok(None);
        }
        near.sort_unstable();
        let texts = self.contents(&std::iter::once(row).chain(near.iter().copied()).collect::<Vec<_>>())?;
        let Some((own, others)) = texts.split_first() else { return Ok(None) };
        let same = |text: &str| matches!(life::compare(&own.text, text, laws.merge_jaccard), Verdict::Same(_));
        Ok(near.into_iter().zip(others).find(|(_, other)| same(&other.text)).map(|(other, _)| other))
    }

    fn report(&self, plan: &Plan) -> Result<Consolidation> {
        let rows: Vec<Row> = plan.steps.iter().map(Step::row).collect();
        let contents = self.contents(&rows)?;
        let picture = self.picture.read();
        let columns = &picture.columns;
        let mut report = Consolidation::default();
        for (step, content) in plan.steps.iter().zip(contents) {
            let row = step.row();
            let moved = |reason, to, into: Option<Row>| Moved {
                id: columns.id(row),
                text: content.text.clone(),
                from: columns.tier(row),
                reason,
                to,
                into: into.map(|into| columns.id(into)),
            };
            match step {
                Step::Promote { to, reason, .. } => report.promoted.push(moved(reason, Some(*to), None)),
                Step::Merge { into, reason, .. } => report.merged.push(moved(reason, None, Some(*into))),
                Step::LetGo { reason, .. } => report.let_go.push(moved(reason, None, None)),
            }
        }
        Ok(report)
    }

    fn carry_out(&self, plan: &Plan, transaction: &mut Transaction<'_>) -> Result<Vec<Change>> {
        let mut heads: Vec<(Row, Head)> = Vec::new();
        let mut places = rustc_hash::FxHashMap::default();
        let mut head_of =
            |transaction: &mut Transaction<'_>, heads: &mut Vec<(Row, Head)>, row: Row| -> Result<usize> {
                if let Some(place) = places.get(&row) {
                    return Ok(*place);
                }
                let head = transaction.head(row)?.ok_or_else(|| Error::Corrupt {
                    what: format!("row {}", row.0),
                    message: "is in memory but not on disk".to_owned(),
                })?;
                places.insert(row, heads.len());
                heads.push((row, head));
                Ok(heads.len() - 1)
            };
        for step in &plan.steps {
            let place = head_of(transaction, &mut heads, step.row())?;
            let detail;
            let event = match step {
                Step::Promote { to, reason, .. } => {
                    let head = &mut heads[place].1;
                    detail = serde_json::json!({"from": head.tier.name(), "to": to.name(), "reason": reason});
                    head.tier = *to;
                    let born = rank::birth_half_life(&self.config.laws, *to, head.importance, head.pinned);
                    head.half_life = head.half_life.max(born);
                    "promote"
                }
                Step::Merge { into, reason, .. } => {
                    let gone = heads[place].1.clone();
                    let survivor_place = head_of(transaction, &mut heads, *into)?;
                    let survivor = &mut heads[survivor_place].1;
                    survivor.use_count = survivor.use_count.saturating_add(gone.use_count);
                    survivor.spaced_uses = survivor.spaced_uses.saturating_add(gone.spaced_uses);
                    survivor.repeat_count = survivor.repeat_count.saturating_add(gone.repeat_count).saturating_add(1);
                    survivor.half_life = survivor.half_life.max(gone.half_life);
                    survivor.importance = survivor.importance.max(gone.importance);
                    survivor.last_used_at = survivor.last_used_at.max(gone.last_used_at);
                    survivor.trust = survivor.trust.min(gone.trust);
                    survivor.pinned |= gone.pinned;
                    survivor.expires_at = later_end(survivor.expires_at, gone.expires_at);
                    survivor.version += 1;
                    detail = serde_json::json!({"into": survivor.id.to_string(), "reason": reason});
                    transaction.edge(*into, step.row(), EdgeKind::DerivedFrom)?;
                    heads[place].1.state = State::Merged;
                    "merge"
                }
                Step::LetGo { reason, .. } => {
                    detail = serde_json::json!({"reason": reason});
                    heads[place].1.state = State::Forgotten;
                    "let_go"
                }
            };
            heads[place].1.version += 1;
            transaction.event(step.row(), event, "consolidate", Some(&detail.to_string()))?;
        }
        heads
            .into_iter()
            .map(|(row, head)| {
                transaction.update(row, &head)?;
                Ok(Change::Update { row, head, metadata: None })
            })
            .collect()
    }
}
