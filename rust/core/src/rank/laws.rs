//! The constants of all laws, and what they make of one memory.

use super::decay::{reinforce, row_strength};
use super::fuse::Weights;
use crate::base::{Error, Micros, Result, Tier, limits};

const MINUTE: f64 = 60.0;
const DAY: f64 = 86_400.0;

/// Every constant of the laws. The default is the one the documentation speaks of; [`Laws::check`] judges any other.
/// The arrays are in the order of [`Tier::ALL`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Laws {
    /// Shape of the forgetting curve per tier: small forgets like people, infinity is exponential.
    pub shape: [f64; 4],
    /// Half-life in seconds, per tier, of a new memory of importance ½. Procedural: infinity.
    pub base_half_life: [f64; 4],
    /// How much of the half-life a use at strength 0 adds.
    pub gain: f64,
    /// The half-life in seconds that no use can lift a memory over. Ten years: what is used that well
    /// outlives the agent, and yet can still be forgotten once nobody asks for it.
    pub max_half_life: f64,
    /// The share a of strength in the score.
    pub strength_share: f32,
    /// The share b of importance in the score.
    pub importance_share: f32,
    /// Weight of the vector arm in the fusion, beside `keyword_weight`.
    pub vector_weight: f32,
    /// Weight of the keyword arm in the fusion, beside `vector_weight`.
    pub keyword_weight: f32,
    /// Maximal marginal relevance: 1 is relevance alone, 0 is difference alone.
    pub diversity_lambda: f32,
    /// Memories of one session that the working tier holds before it overflows.
    pub working_capacity: usize,
    /// Seconds after its last use when a working memory expires.
    pub working_ttl_seconds: f64,
    /// Share of an overflowing working tier, best first by importance · strength, that becomes episodic.
    pub working_keep_share: f32,
    /// Spaced uses that an episodic memory needs to become semantic.
    pub promote_uses: u32,
    /// Seconds between two uses that count as spaced.
    pub promote_use_spacing_seconds: f64,
    /// Importance that a much used episodic memory needs to become semantic.
    pub promote_importance: f32,
    /// Sessions in which the same must be said to become semantic.
    pub promote_sessions: u32,
    /// Cosine from which two memories may be near-duplicates: the first gate.
    pub merge_cosine: f32,
    /// Jaccard similarity of their tokens from which they are: the second gate.
    pub merge_jaccard: f32,
    /// Days without use after which the clean-up plan may name a memory.
    pub forget_idle_days: f64,
    /// Importance below which it may.
    pub forget_importance: f32,
}

impl Default for Laws {
    fn default() -> Self {
        Self {
            shape: [f64::INFINITY, 1.0, 1.0, f64::INFINITY],
            base_half_life: [30.0 * MINUTE, 7.0 * DAY, 180.0 * DAY, f64::INFINITY],
            gain: 1.0,
            max_half_life: 3_652.5 * DAY,
            strength_share: 0.2,
            importance_share: 0.1,
            vector_weight: 0.5,
            keyword_weight: 0.5,
            diversity_lambda: 0.7,
            working_capacity: 20,
            working_ttl_seconds: 30.0 * MINUTE,
            working_keep_share: 0.5,
            promote_uses: 3,
            promote_use_spacing_seconds: 60.0 * MINUTE,
            promote_importance: 0.7,
            promote_sessions: 3,
            merge_cosine: 0.97,
            merge_jaccard: 0.85,
            forget_idle_days: 90.0,
            forget_importance: 0.3,
        }
    }
}

impl Laws {
    /// Refuses constants that break a law, naming the field and the value.
    pub fn check(&self) -> Result<()> {
        let span = "seconds above 0, at most a thousand years";
        let years = 0.0..=limits::HALF_LIFE_SECONDS;
        for tier in Tier::ALL {
            let (name, number) = (tier.name(), tier as usize);
            let shape = self.shape[number];
            demand(&format!("shape[{name}]"), shape, shape > 0.0, "a number above 0, or infinity")?;
            let half_life = self.base_half_life[number];
            let field = format!("base_half_life[{name}]");
            if tier == Tier::Procedural {
                demand(&field, half_life, half_life == f64::INFINITY, "infinity: procedural memories never decay")?;
            } else {
                let fits = half_life > 0.0 && half_life * 2.0 <= self.max_half_life || half_life == f64::INFINITY;
                demand(&field, half_life, fits, "seconds above 0, at most half of max_half_life, or infinity")?;
            }
        }
        demand("gain", self.gain, (0.0..=100.0).contains(&self.gain), "a number from 0 to 100")?;
        let longest = self.max_half_life;
        demand("max_half_life", longest, longest > 0.0 && years.contains(&longest), span)?;
        for (field, share) in [
            ("strength_share", self.strength_share),
            ("importance_share", self.importance_share),
            ("diversity_lambda", self.diversity_lambda),
            ("working_keep_share", self.working_keep_share),
            ("promote_importance", self.promote_importance),
            ("merge_cosine", self.merge_cosine),
            ("merge_jaccard", self.merge_jaccard),
            ("forget_importance", self.forget_importance),
            ("vector_weight", self.vector_weight),
            ("keyword_weight", self.keyword_weight),
        ] {
            demand(field, share, (0.0..=1.0).contains(&share), "a number from 0 to 1")?;
        }
        let shares = self.strength_share + self.importance_share;
        demand("strength_share + importance_share", shares, shares <= 1.0, "at most 1")?;
        let weights = self.vector_weight + self.keyword_weight;
        demand("vector_weight + keyword_weight", weights, weights > 0.0, "above 0")?;
        demand("working_capacity", self.working_capacity, self.working_capacity > 0, "at least 1")?;
        demand("promote_uses", self.promote_uses, self.promote_uses > 0, "at least 1")?;
        demand("promote_sessions", self.promote_sessions, self.promote_sessions > 0, "at least 1")?;
        let ttl = self.working_ttl_seconds;
        demand("working_ttl_seconds", ttl, ttl > 0.0 && years.contains(&ttl), span)?;
        let spacing = self.promote_use_spacing_seconds;
        demand("promote_use_spacing_seconds", spacing, years.contains(&spacing), "seconds from 0 to a thousand years")?;
        let idle = self.forget_idle_days;
        demand("forget_idle_days", idle, years.contains(&(idle * DAY)), "days from 0 to a thousand years")
    }

    /// How much each arm counts in [`super::fuse`].
    pub fn weights(&self) -> Weights {
        Weights { vector: self.vector_weight, keyword: self.keyword_weight }
    }

    /// The strength at `now` of a memory of `tier`, to the bit what [`super::strengths`] computes for its row.
    pub fn strength(&self, tier: Tier, now: Micros, last_used: Micros, half_life: f32) -> f32 {
        row_strength(now, last_used, half_life, self.shape[tier as usize])
    }

    /// The half-life of a memory of `tier` after a use at `now`. Longer or equal, unless it was over `max_half_life`.
    pub fn half_life_after_use(&self, tier: Tier, now: Micros, last_used: Micros, half_life: f32) -> f32 {
        let strength = self.strength(tier, now, last_used, half_life);
        reinforce(f64::from(half_life), f64::from(strength), self.gain, self.max_half_life) as f32
    }
}

/// The half-life of a new memory: `H_tier · 4^(importance − ½)`, from half to twice that of its tier. Pinned and
/// procedural memories never fade.
pub fn birth_half_life(laws: &Laws, tier: Tier, importance: f32, pinned: bool) -> f32 {
    if pinned || tier == Tier::Procedural {
        return f32::INFINITY;
    }
    (laws.base_half_life[tier as usize] * 4_f64.powf(f64::from(importance.clamp(0.0, 1.0)) - 0.5)) as f32
}

fn demand(field: &str, value: impl std::fmt::Display, holds: bool, wanted: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::invalid(field, format!("{value} is not {wanted}"))) }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "infinity is exact, and so are powers of 4")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tiers() -> impl Strategy<Value = Tier> {
        prop::sample::select(Tier::ALL.to_vec())
    }

    #[test]
    fn the_default_is_lawful() {
        assert_eq!(Laws::default().check(), Ok(()));
        assert_eq!(Laws::default().weights(), Weights::default());
    }

    type Break = (&'static str, fn(&mut Laws));

    #[test]
    fn each_constant_is_refused_by_name_and_value() {
        let breaks: &[Break] = &[
            ("shape[working]: 0 ", |laws| laws.shape[0] = 0.0),
            ("shape[episodic]: NaN ", |laws| laws.shape[1] = f64::NAN),
            ("shape[semantic]: -inf ", |laws| laws.shape[2] = f64::NEG_INFINITY),
            ("base_half_life[working]: -1 ", |laws| laws.base_half_life[0] = -1.0),
            ("base_half_life[semantic]: 1000000000 ", |laws| laws.base_half_life[2] = 1e9),
            ("base_half_life[procedural]: 5 ", |laws| laws.base_half_life[3] = 5.0),
            ("gain: inf ", |laws| laws.gain = f64::INFINITY),
            ("max_half_life: inf ", |laws| laws.max_half_life = f64::INFINITY),
            ("strength_share: -0.5 ", |laws| laws.strength_share = -0.5),
            ("importance_share: NaN ", |laws| laws.importance_share = f32::NAN),
            ("strength_share + importance_share: 1.1 ", |laws| laws.strength_share = 1.0),
            ("vector_weight: -1 ", |laws| laws.vector_weight = -1.0),
            ("vector_weight + keyword_weight: 0 ", |laws| (laws.vector_weight, laws.keyword_weight) = (0.0, 0.0)),
            ("diversity_lambda: 2 ", |laws| laws.diversity_lambda = 2.0),
            ("working_capacity: 0 ", |laws| laws.working_capacity = 0),
            ("working_ttl_seconds: 0 ", |laws| laws.working_ttl_seconds = 0.0),
            ("working_keep_share: 7 ", |laws| laws.working_keep_share = 7.0),
            ("promote_uses: 0 ", |laws| laws.promote_uses = 0),
            ("promote_use_spacing_seconds: NaN ", |laws| laws.promote_use_spacing_seconds = f64::NAN),
            ("promote_importance: 1.5 ", |laws| laws.promote_importance = 1.5),
            ("promote_sessions: 0 ", |laws| laws.promote_sessions = 0),
            ("merge_cosine: 1.01 ", |laws| laws.merge_cosine = 1.01),
            ("merge_jaccard: -0.1 ", |laws| laws.merge_jaccard = -0.1),
            ("forget_idle_days: inf ", |laws| laws.forget_idle_days = f64::INFINITY),
            ("forget_importance: NaN ", |laws| laws.forget_importance = f32::NAN),
        ];
        for (message, damage) in breaks {
            let mut laws = Laws::default();
            damage(&mut laws);
            let error = laws.check().expect_err(message).to_string();
            assert!(error.starts_with(message), "{error:?} does not start with {message:?}");
        }
    }

    proptest! {
        #![proptest_config(crate::rank::seeded())]

        #[test]
        fn birth_is_within_a_factor_of_two_and_rises(tier in tiers(), importance in 0.0..=1.0_f32, other in 0.0..=1.0_f32) {
            let laws = Laws::default();
            let born = birth_half_life(&laws, tier, importance, false);
            prop_assert_eq!(birth_half_life(&laws, tier, importance, true), f32::INFINITY);
            if tier == Tier::Procedural {
                prop_assert_eq!(born, f32::INFINITY);
            } else {
                let base = laws.base_half_life[tier as usize] as f32;
                prop_assert_eq!(birth_half_life(&laws, tier, 0.5, false), base);
                prop_assert!(born >= base / 2.0 && born <= base * 2.0);
                let (low, high) = (importance.min(other), importance.max(other));
                prop_assert!(birth_half_life(&laws, tier, low, false) <= birth_half_life(&laws, tier, high, false));
            }
        }

        #[test]
        fn use_never_shortens(tier in tiers(), used in 0..10_i64.pow(15), pause in -10..10_i64.pow(15), half_life in 1.0..3e8_f32) {
            let laws = Laws::default();
            let (last_used, now) = (Micros(used), Micros(used + pause));
            let after = laws.half_life_after_use(tier, now, last_used, half_life);
            prop_assert!(after >= half_life && after <= laws.max_half_life as f32);
            prop_assert_eq!(laws.half_life_after_use(tier, now, last_used, f32::INFINITY), f32::INFINITY);
            prop_assert_eq!(laws.half_life_after_use(tier, last_used, last_used, half_life), half_life);
        }
    }

    #[test]
    fn procedural_memories_never_fade() {
        let laws = Laws::default();
        let half_life = birth_half_life(&laws, Tier::Procedural, 0.0, false);
        assert_eq!(laws.strength(Tier::Procedural, Micros(i64::MAX), Micros(0), half_life), 1.0);
    }
}
