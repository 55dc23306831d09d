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

/// What a consolidation would do, in the order in which it is to be done. No row is in it twice.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
}

/// Plans on the living rows at `now`. `twin` gives, for a row, the near-duplicate it is to be folded into, if there
/// is one; it is asked for the rows of `fresh` only, oldest first, and must answer with an older row.
pub fn plan<E>(
    columns: &Columns,
    laws: &Laws,
    now: Micros,
    fresh: &RowSet,
    mut twin: impl FnMut(Row) -> Result<Option<Row>, E>,
) -> Result<Plan, E> {
    let mut plan = Plan::default();
    let mut decided = RowSet::new();
    let expired: Vec<Row> = columns.expired(now).filter(|row| !columns.pinned().contains(*row)).collect();
    for row in expired {
        plan.push(&mut decided, Step::LetGo { row, reason: "its end has come" });
    }
    plan.working(columns, laws, now, &mut decided);
    plan.repeated(columns, laws, &mut decided);
    plan.proven(columns, laws, &mut decided);
    for row in fresh.iter() {
        if decided.contains(row) || !columns.alive().contains(row) || columns.tier(row) == Tier::Working {
            continue;
        }
        if let Some(into) = twin(row)?
            && !decided.contains(into)
        {
            plan.push(&mut decided, Step::Merge { row, into, reason: "says the same in nearly the same words" });
        }
    }
    Ok(plan)
}

/// The living rows of a tier, oldest first.
fn living(columns: &Columns, tier: Tier, decided: &RowSet) -> Vec<Row> {
    let mut rows = columns.tier_rows(tier).clone();
    rows.intersect(columns.alive());
    rows.subtract(decided);
    rows.iter().collect()
}

impl Plan {
    fn push(&mut self, decided: &mut RowSet, step: Step) {
        decided.insert(step.row());
        self.steps.push(step);
    }

    /// Working memories, session by session: what lies idle longer than the time to live leaves, and when more than
    /// the capacity is left, the oldest leave until half the capacity is free. Of those that leave, the best share by
    /// importance and strength becomes episodic.
    fn working(&mut self, columns: &Columns, laws: &Laws, now: Micros, decided: &mut RowSet) {
        let mut sessions: BTreeMap<u32, Vec<Row>> = BTreeMap::new();
        for row in living(columns, Tier::Working, decided) {
            if !columns.pinned().contains(row) {
                sessions.entry(columns.session_number(row)).or_default().push(row);
            }
        }
        for rows in sessions.into_values() {
            let (idle, mut busy): (Vec<Row>, Vec<Row>) = rows
                .into_iter()
                .partition(|row| now.seconds_since(columns.last_used_at(*row)) > laws.working_ttl_seconds);
            self.leave_working(columns, laws, &idle, "idle in the working tier", decided);
            if busy.len() > laws.working_capacity {
                let stay = laws.working_capacity.div_ceil(2);
                busy.sort_by_key(|row| (columns.last_used_at(*row), *row));
                busy.truncate(busy.len() - stay);
                self.leave_working(columns, laws, &busy, "the working tier overflowed", decided);
            }
        }
    }

    fn leave_working(
        &mut self,
        columns: &Columns,
        laws: &Laws,
        rows: &[Row],
        reason: &'static str,
        decided: &mut RowSet,
    ) {
        // Judged as of the latest of them: a month later all strengths of this tier are the same zero.
        let Some(then) = rows.iter().map(|row| columns.last_used_at(*row)).max() else { return };
        let worth = |row: Row| {
            let strength = laws.strength(Tier::Working, then, columns.last_used_at(row), columns.half_life(row));
            columns.importance(row) * strength
        };
        let mut ranked = rows.to_vec();
        ranked.sort_by(|left, right| worth(*right).total_cmp(&worth(*left)).then(right.cmp(left)));
        let keep = (rows.len() as f64 * f64::from(laws.working_keep_share)).ceil() as usize;
        for (place, row) in ranked.into_iter().enumerate() {
            self.push(
                decided,
                if place < keep {
                    Step::Promote { row, to: Tier::Episodic, reason }
                } else {
                    Step::LetGo { row, reason }
                },
            );
        }
    }

    /// The same text about the same subject in enough sessions: the oldest becomes semantic, the others are folded
    /// into it.
    fn repeated(&mut self, columns: &Columns, laws: &Laws, decided: &mut RowSet) {
        let mut told: BTreeMap<(u64, u32, u64), Vec<Row>> = BTreeMap::new();
        for row in living(columns, Tier::Episodic, decided) {
            let key = (columns.text_key(row), columns.about_number(row), columns.labels(row));
            told.entry(key).or_default().push(row);
        }
        for rows in told.into_values() {
            let mut sessions: Vec<u32> = rows.iter().map(|row| columns.session_number(*row)).collect();
            sessions.sort_unstable();
            sessions.dedup();
            if sessions.len() < laws.promote_sessions as usize {
                continue;
            }
            let first = rows[0];
            self.push(decided, Step::Promote { row: first, to: Tier::Semantic, reason: "said in several sessions" });
            for row in &rows[1..] {
                self.push(decided, Step::Merge { row: *row, into: first, reason: "said in several sessions" });
            }
        }
    }

    /// Episodic memories that matter and were used again and again.
    fn proven(&mut self, columns: &Columns, laws: &Laws, decided: &mut RowSet) {
        for row in living(columns, Tier::Episodic, decided) {
            if columns.spaced_uses(row) >= laws.promote_uses && columns.importance(row) >= laws.promote_importance {
                self.push(decided, Step::Promote { row, to: Tier::Semantic, reason: "used again and again" });
            }
        }
    }
}
