//! Uses: reinforcement by the law, in RAM at once and on disk in groups.

use super::{Engine, Viewer, picture::Picture, visibility};
use crate::base::{Error, Head, MemoryId, Micros, Result, Row};
use crate::disk::Transaction;
use crate::rank::Laws;

/// How many uses may wait in RAM before the next one writes them all.
const GROUP: usize = 512;

/// Uses that are in the picture but not on disk yet, in the order they came.
#[derive(Debug, Default)]
pub(super) struct PendingUses {
    uses: Vec<(Row, Micros)>,
}

impl PendingUses {
    pub(super) fn len(&self) -> usize {
        self.uses.len()
    }
}

/// What one use makes of a memory: the law of use, with the strength it had just before.
pub(super) fn reinforce(head: &mut Head, at: Micros, laws: &Laws) {
    head.half_life = laws.half_life_after_use(head.tier, at, head.last_used_at, head.half_life);
    head.last_used_at = head.last_used_at.max(at);
}

/// Counts a use and reinforces.
fn count_use(head: &mut Head, at: Micros, laws: &Laws) {
    if at.seconds_since(head.last_used_at) >= laws.promote_use_spacing_seconds {
        head.spaced_uses = head.spaced_uses.saturating_add(1);
    }
    head.use_count = head.use_count.saturating_add(1);
    reinforce(head, at, laws);
}

impl Engine {
    /// Notes that these memories were used: cited, accepted or explicitly reinforced. Being returned is not use.
    pub fn used(&self, ids: &[MemoryId], now: Micros) -> Result<()> {
        self.catch_up()?;
        self.check_writable()?;
        let waiting = {
            let mut picture = self.picture.write();
            let mut rows = Vec::with_capacity(ids.len());
            for id in ids {
                let row = picture.columns.find(*id).ok_or_else(|| Error::not_found(*id))?;
                if visibility::hidden(&picture.columns, row, &Viewer::owner(), now).is_some() {
                    return Err(Error::not_found(*id));
                }
                rows.push(row);
            }
            let mut uses = self.uses.lock();
            // Who closes says so before he takes the pending uses for the last time.
            self.check_open()?;
            for row in rows {
                if let Some(mut head) = picture.columns.head(row) {
                    count_use(&mut head, now, &self.config.laws);
                    picture.columns.touch(row, &head);
                    uses.uses.push((row, now));
                }
            }
            uses.len()
        };
        if waiting < GROUP {
            return Ok(());
        }
        self.flush_uses(now)
    }

    /// Writes the pending uses. Those that another writer has taken along are on disk too when it returns.
    pub(super) fn flush_uses(&self, now: Micros) -> Result<()> {
        // Behind the gate nobody holds uses that may come back.
        let gate = self.enter_gate();
        if self.uses.lock().uses.is_empty() {
            drop(gate);
            return self.disk.settle_group();
        }
        self.commit(gate, now, |_, _| Ok(Vec::new()))
    }

    /// Writes pending uses into a transaction. Each is applied to what the disk holds by then, so uses counted by
    /// another process are kept. Gives the heads that came out.
    pub(super) fn write_uses(
        laws: &Laws,
        uses: &[(Row, Micros)],
        transaction: &mut Transaction<'_>,
    ) -> Result<Vec<(Row, Head)>> {
        let mut heads: Vec<(Row, Head)> = Vec::new();
        let mut places = rustc_hash::FxHashMap::default();
        for (row, at) in uses {
            let place = if let Some(place) = places.get(row) {
                *place
            } else {
                let Some(head) = transaction.head(*row)? else { continue };
                places.insert(*row, heads.len());
                heads.push((*row, head));
                heads.len() - 1
            };
            count_use(&mut heads[place].1, *at, laws);
        }
        for (row, head) in &heads {
            transaction.update(*row, head)?;
        }
        Ok(heads)
    }

    /// Takes the pending uses out, to be written.
    pub(super) fn take_uses(&self) -> Vec<(Row, Micros)> {
        std::mem::take(&mut self.uses.lock().uses)
    }

    /// Puts uses back that could not be written.
    pub(super) fn give_back_uses(&self, mut uses: Vec<(Row, Micros)>) {
        let mut pending = self.uses.lock();
        uses.append(&mut pending.uses);
        pending.uses = uses;
    }

    /// Counts the pending uses of these rows, whose heads were just taken from the disk.
    pub(super) fn count_pending(&self, picture: &mut Picture, rows: impl Fn(Row) -> bool) {
        for (row, at) in &self.uses.lock().uses {
            if rows(*row)
                && let Some(mut head) = picture.columns.head(*row)
            {
                count_use(&mut head, *at, &self.config.laws);
                picture.columns.touch(*row, &head);
            }
        }
    }

    /// Uses that are not on disk yet.
    pub fn pending_uses(&self) -> usize {
        self.uses.lock().len()
    }
}
