//! The plan of a consolidation: working memories that overflow or lie idle, episodic ones that have proved
//! themselves, near-duplicates, and what has come to its end.

use std::collections::BTreeMap;

use crate::base::{Micros, Row, RowSet, Tier};
use crate::rank::Laws;
use crate::store::Columns;

/// One thing to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The row moves up.
    Promote {
        /// Which.
        row: Row,
        /// Where to.
        to: Tier,
        /// Why.
        reason: &'static str,
    },
    /// The row is folded into another one.
    Merge {
        /// Which.
        row: Row,
        /// Into which.
        into: Row,
        /// Why.
        reason: &'static str,
    },
    /// The row is let go.
    LetGo {
        /// Which.
        row: Row,
        /// Why.
        reason: &'static str,
    },
}

impl Step {
    /// The row it is about.
    pub fn row(&self) -> Row {
        match self {
            Self::Promote { row, .. } | Self::Merge { row, .. } | Self::LetGo { row, .. } => *row,
        }
    }
}

/// What a consolidation would do, in the order in which it is to be done: folded together first, so that a promotion
/// sees what the survivor became. No row is in it twice, but a row can be folded into one that is folded on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
}

/// Plans on the living rows at `now`.
///
/// `twin` gives, for a row, the oldest of a set of rows that is its near-duplicate, if there is one. It is asked for the
/// rows of `fresh`, which no earlier plan has asked for, and for those that come into another tier; the set holds the rows
/// that are in the same tier by then. In the episodic tier it holds those of the same session alone: that the same was
/// said in another one is what may make it semantic.
pub fn plan<E>(
    columns: &Columns,
    laws: &Laws,
    now: Micros,
    fresh: &RowSet,
    mut twin: impl FnMut(Row, &RowSet) -> Result<Option<Row>, E>,
) -> Result<Plan, E> {
    let mut sketch = Sketch::new(columns, laws, now);
    let mut asked = sketch.working(now);
    asked.unite(fresh);
    asked.subtract(&sketch.tiers[Tier::Working as usize]);
    loop {
        asked.unite(&sketch.repeated());
        asked.unite(&sketch.proven());
        if asked.is_empty() {
            return Ok(sketch.into_plan());
        }
        for row in std::mem::take(&mut asked).iter() {
            while let Some(tier) = sketch.tier(row) {
                let company = sketch.company(row, tier);
                let Some(other) = twin(row, &company)?.filter(|other| company.contains(*other)) else { break };
                // The older one stays, whichever was asked for.
                sketch.merge(row.max(other), row.min(other), "says the same in nearly the same words");
            }
        }
    }
}

/// The store as the plan so far would leave it.
struct Sketch<'a> {
    columns: &'a Columns,
    laws: &'a Laws,
    /// The living rows of each tier.
    tiers: [RowSet; 4],
    /// What merges have made of their survivors: spaced uses and importance.
    survivors: BTreeMap<Row, (u32, f32)>,
    merges: Vec<Step>,
    promotions: BTreeMap<Row, (Tier, &'static str)>,
    let_go: Vec<Step>,
}

impl<'a> Sketch<'a> {
    /// Everything that lives, without what has come to its end: that is let go, unless it is pinned.
    fn new(columns: &'a Columns, laws: &'a Laws, now: Micros) -> Self {
        let ended = RowSet::from_rows(columns.expired(now));
        let tiers = Tier::ALL.map(|tier| {
            let mut rows = columns.tier_rows(tier).clone();
            rows.intersect(columns.alive());
            rows.subtract(&ended);
            rows
        });
        let mut leaving = ended;
        leaving.subtract(columns.pinned());
        let let_go = leaving.iter().map(|row| Step::LetGo { row, reason: "its end has come" }).collect();
        let (survivors, promotions) = Default::default();
        Self { columns, laws, tiers, survivors, merges: Vec::new(), promotions, let_go }
    }

    fn into_plan(self) -> Plan {
        let mut steps = self.merges;
        steps.extend(self.promotions.into_iter().map(|(row, (to, reason))| Step::Promote { row, to, reason }));
        steps.extend(self.let_go);
        Plan { steps }
    }

    /// Where a row lives; nowhere once it is let go or folded into another.
    fn tier(&self, row: Row) -> Option<Tier> {
        Tier::ALL.into_iter().find(|tier| self.tiers[*tier as usize].contains(row))
    }

    /// The rows that this one could be folded together with.
    fn company(&self, row: Row, tier: Tier) -> RowSet {
        let mut company = self.tiers[tier as usize].clone();
        company.remove(row);
        if tier == Tier::Episodic {
            let columns = self.columns;
            match columns.session(row) {
                Some(session) => company.intersect(&columns.session_rows(session)),
                None => company = RowSet::from_rows(company.iter().filter(|other| columns.session(*other).is_none())),
            }
        }
        company
    }

    fn leave(&mut self, row: Row) {
        self.tiers.iter_mut().for_each(|rows| rows.remove(row));
    }

    fn promote(&mut self, row: Row, to: Tier, reason: &'static str) {
        self.leave(row);
        self.tiers[to as usize].insert(row);
        self.promotions.insert(row, (to, reason));
    }

    fn let_go(&mut self, row: Row, reason: &'static str) {
        self.leave(row);
        self.let_go.push(Step::LetGo { row, reason });
    }

    fn merge(&mut self, row: Row, into: Row, reason: &'static str) {
        let (uses, importance) = self.standing(row);
        let (own_uses, own_importance) = self.standing(into);
        self.survivors.insert(into, (own_uses.saturating_add(uses), own_importance.max(importance)));
        self.leave(row);
        self.promotions.remove(&row);
        self.merges.push(Step::Merge { row, into, reason });
    }

    /// Spaced uses and importance of a row.
    fn standing(&self, row: Row) -> (u32, f32) {
        let own = || (self.columns.spaced_uses(row), self.columns.importance(row));
        self.survivors.get(&row).copied().unwrap_or_else(own)
    }

    /// Working memories, session by session: what lies idle longer than the time to live leaves, and when more than
    /// the capacity is left, the oldest leave until half the capacity is free. Of those that leave, the best share by
    /// importance and strength becomes episodic. Gives the rows that were promoted, as the other rules do.
    fn working(&mut self, now: Micros) -> RowSet {
        let (columns, laws) = (self.columns, self.laws);
        let mut sessions: BTreeMap<u32, Vec<Row>> = BTreeMap::new();
        for row in self.tiers[Tier::Working as usize].iter() {
            if !columns.pinned().contains(row) {
                sessions.entry(columns.session_number(row)).or_default().push(row);
            }
        }
        let mut promoted = RowSet::new();
        for rows in sessions.into_values() {
            let (idle, mut busy): (Vec<Row>, Vec<Row>) = rows
                .into_iter()
                .partition(|row| now.seconds_since(columns.last_used_at(*row)) > laws.working_ttl_seconds);
            promoted.unite(&self.leave_working(&idle, "idle in the working tier"));
            if busy.len() > laws.working_capacity {
                let stay = laws.working_capacity.div_ceil(2);
                busy.sort_by_key(|row| (columns.last_used_at(*row), *row));
                busy.truncate(busy.len() - stay);
                promoted.unite(&self.leave_working(&busy, "the working tier overflowed"));
            }
        }
        promoted
    }

    fn leave_working(&mut self, rows: &[Row], reason: &'static str) -> RowSet {
        let (columns, laws) = (self.columns, self.laws);
        // Judged as of the latest of them: a month later all strengths of this tier are the same zero.
        let Some(then) = rows.iter().map(|row| columns.last_used_at(*row)).max() else { return RowSet::new() };
        let worth = |row: Row| {
            let strength = laws.strength(Tier::Working, then, columns.last_used_at(row), columns.half_life(row));
            columns.importance(row) * strength
        };
        let mut ranked = rows.to_vec();
        ranked.sort_by(|left, right| worth(*right).total_cmp(&worth(*left)).then(right.cmp(left)));
        let (best, rest) = ranked.split_at(kept(rows.len(), laws.working_keep_share));
        for row in best {
            self.promote(*row, Tier::Episodic, reason);
        }
        for row in rest {
            self.let_go(*row, reason);
        }
        RowSet::from_rows(best.iter().copied())
    }

    /// The same text about the same subject in enough sessions: the oldest becomes semantic, the others are folded
    /// into it.
    fn repeated(&mut self) -> RowSet {
        let columns = self.columns;
        let mut told: BTreeMap<(u64, u32, u64), Vec<Row>> = BTreeMap::new();
        for row in self.tiers[Tier::Episodic as usize].iter() {
            let key = (columns.text_key(row), columns.about_number(row), columns.labels(row));
            told.entry(key).or_default().push(row);
        }
        let mut promoted = RowSet::new();
        for rows in told.into_values() {
            let mut sessions: Vec<&str> = rows.iter().filter_map(|row| columns.session(*row)).collect();
            sessions.sort_unstable();
            sessions.dedup();
            if sessions.len() < self.laws.promote_sessions as usize {
                continue;
            }
            for row in &rows[1..] {
                self.merge(*row, rows[0], "said in several sessions");
            }
            self.promote(rows[0], Tier::Semantic, "said in several sessions");
            promoted.insert(rows[0]);
        }
        promoted
    }

    /// Episodic memories that matter and were used again and again.
    fn proven(&mut self) -> RowSet {
        let laws = self.laws;
        let proven = RowSet::from_rows(self.tiers[Tier::Episodic as usize].iter().filter(|row| {
            let (spaced_uses, importance) = self.standing(*row);
            spaced_uses >= laws.promote_uses && importance >= laws.promote_importance
        }));
        proven.iter().for_each(|row| self.promote(row, Tier::Semantic, "used again and again"));
        proven
    }
}

/// The share of so many rows, rounded up. What an f32 like 0.1 is above its decimal makes no row.
fn kept(rows: usize, share: f32) -> usize {
    let exact: f64 = share.to_string().parse().unwrap_or(f64::from(share));
    ((rows as f64 * exact - 1e-9).ceil() as usize).min(rows)
}
