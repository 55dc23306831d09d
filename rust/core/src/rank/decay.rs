//! How memories fade and how use strengthens them.
//!
//! Retention falls as a power of time in people (Wixted & Ebbesen 1991, *On the form of forgetting*, Psychological Science
//! 2:409–415); Ebbinghaus' savings (1885, *Über das Gedächtnis*) are the start of it, and the exponential curve is its
//! limit. The half-life form, a curve anchored where it crosses one fixed retrievability and a shape that is independent
//! of it, is that of the spaced-repetition scheduler FSRS (there the anchor is 0.9, here ½).

use super::widest::{Loop, widest};
use crate::base::Micros;

/// The chance that a memory is still remembered `elapsed_seconds` after its last use, in 0..=1.
///
/// `S = (1 + (2^(1/d) − 1)·Δ/h)^(−d)` with Δ the seconds, h the half-life and d the shape; `d = ∞` means
/// `S = 2^(−Δ/h)`. For every shape S(0) = 1 and S(h) = ½.
///
/// Defined for all numbers: a time in the future (or NaN) counts as now, an infinite half-life never fades, and a
/// half-life that is not above 0 (or NaN) has faded at once. The shape is above 0, as [`super::Laws::check`] demands.
pub fn strength(elapsed_seconds: f64, half_life: f64, shape: f64) -> f64 {
    let ratio = half_lives(elapsed_seconds.min(f64::MAX), half_life);
    match Curve::of(shape) {
        Curve::Hyperbolic => hyperbolic(ratio),
        Curve::Exponential => exponential(ratio),
        Curve::Power => power(ratio, shape),
    }
}

/// [`strength`] of a column of memories at `now`, rounded to `f32` once at the end.
///
/// Shapes 1 and ∞ are vectorised; any other costs an `ln` and an `exp` per row.
///
/// # Panics
/// When the slices have different lengths.
pub fn strengths(now: Micros, last_used: &[Micros], half_life: &[f32], shape: f64, out: &mut [f32]) {
    assert_eq!(last_used.len(), out.len(), "one last use per strength");
    assert_eq!(half_life.len(), out.len(), "one half-life per strength");
    match Curve::of(shape) {
        Curve::Hyperbolic => widest(Column { now, last_used, half_life, law: hyperbolic, out }),
        Curve::Exponential => widest(Column { now, last_used, half_life, law: exponential, out }),
        Curve::Power => widest(Column { now, last_used, half_life, law: |ratio| power(ratio, shape), out }),
    }
}

/// The half-life after a use at strength `strength`: `min(h_max, h·(1 + g·(1 − S)))`.
///
/// A use right after the last one finds S ≈ 1 and adds nothing, a late one up to doubles the half-life at gain 1: the
/// spacing effect (Ebbinghaus 1885; Cepeda et al. 2006, Psychological Bulletin 132:354–380). A memory that
/// never fades stays so.
pub fn reinforce(half_life: f64, strength: f64, gain: f64, max_half_life: f64) -> f64 {
    if half_life == f64::INFINITY {
        return half_life;
    }
    (half_life * (1.0 + gain * (1.0 - strength.clamp(0.0, 1.0)))).min(max_half_life)
}

/// The strength of one row: what [`strengths`] computes for it, to the bit.
pub(super) fn row_strength(now: Micros, last_used: Micros, half_life: f32, shape: f64) -> f32 {
    strength(elapsed_seconds(now, last_used), f64::from(half_life), shape) as f32
}

/// The forms that the law takes; the two default ones need no logarithm.
enum Curve {
    Hyperbolic,
    Exponential,
    Power,
}

impl Curve {
    #[expect(clippy::float_cmp, reason = "exactly 1 has a form of its own, its neighbours are within rounding of it")]
    fn of(shape: f64) -> Self {
        if shape == 1.0 {
            Self::Hyperbolic
        } else if shape == f64::INFINITY {
            Self::Exponential
        } else {
            Self::Power
        }
    }
}

struct Column<'a, Law: Fn(f64) -> f64> {
    now: Micros,
    last_used: &'a [Micros],
    half_life: &'a [f32],
    law: Law,
    out: &'a mut [f32],
}

impl<Law: Fn(f64) -> f64> Loop for Column<'_, Law> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "so that it is compiled with the caller's target features")]
    fn run(self) {
        for ((out, last_used), half_life) in self.out.iter_mut().zip(self.last_used).zip(self.half_life) {
            let ratio = half_lives(elapsed_seconds(self.now, *last_used), f64::from(*half_life));
            *out = (self.law)(ratio) as f32;
        }
    }
}

/// Seconds between two times, negative when `last_used` lies in the future.
///
/// Unlike `Micros::seconds_since` it does not saturate, which would keep the loop from being vectorised; the difference of
/// two `f64` cannot overflow, and is exact to the microsecond until the year 2255.
#[inline(always)]
#[expect(clippy::inline_always, reason = "so that it is compiled with the caller's target features")]
fn elapsed_seconds(now: Micros, last_used: Micros) -> f64 {
    (now.0 as f64 - last_used.0 as f64) * 1e-6
}

/// Δ/h in 0..=∞, never NaN. Each step is monotone under rounding, and so are the laws below: that the newer of two equal
/// memories is never the weaker holds to the last bit.
#[inline(always)]
#[expect(clippy::inline_always, reason = "so that it is compiled with the caller's target features")]
fn half_lives(elapsed_seconds: f64, half_life: f64) -> f64 {
    elapsed_seconds.max(0.0) / half_life.max(f64::MIN_POSITIVE)
}

/// Shape 1: `1/(1 + Δ/h)`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "so that it is compiled with the caller's target features")]
fn hyperbolic(ratio: f64) -> f64 {
    1.0 / (1.0 + ratio)
}

/// Shape ∞: `2^(−Δ/h)`, to 1e-15 relative, and exact at whole half-lives. Below 2^-1022 it stays there.
///
/// Written out because the standard library's `exp2` is a call per row and may differ in the last bit between platforms.
#[inline(always)] // with the caller's target features
fn exponential(ratio: f64) -> f64 {
    /// Added and taken away again it rounds to a whole number, whose bits then stand lowest in the sum.
    const ROUNDER: f64 = 6_755_399_441_055_744.0; // 1.5 · 2^52
    /// `(2^f − 1)/f` on −½..=½ through its ten Chebyshev nodes.
    const SLOPE: [f64; 10] = [
        0.693_147_180_559_946_2,
        0.240_226_506_959_100_75,
        0.055_504_108_664_651_67,
        0.009_618_129_107_618_665,
        0.001_333_355_820_079_459_2,
        0.000_154_035_304_247_765_29,
        1.525_267_292_485_073_7e-5,
        1.321_545_163_322_143_4e-6,
        1.020_590_541_376_559_5e-7,
        7.070_977_866_508_138e-9,
    ];
    let exponent = -ratio.min(1022.0);
    let rounded = exponent + ROUNDER;
    let fraction = exponent - (rounded - ROUNDER);
    let slope = SLOPE.iter().rev().fold(0.0, |sum, coefficient| sum * fraction + coefficient);
    let power_of_two = f64::from_bits((rounded.to_bits() << 52).wrapping_add(1023 << 52));
    (1.0 + slope * fraction) * power_of_two
}

/// Any other shape, by logarithms, so that neither a huge nor a tiny shape overflows on the way.
fn power(ratio: f64, shape: f64) -> f64 {
    if ratio == 0.0 {
        return 1.0;
    }
    let doublings = std::f64::consts::LN_2 / shape;
    let exponent = if doublings < 500.0 {
        shape * (doublings.exp_m1() * ratio).ln_1p()
    } else {
        // 2^(1/d) may overflow, and the −1 beside it is nothing: ln(1 + e^l) with l = ln 2/d + ln(Δ/h).
        let log = doublings + ratio.ln();
        (std::f64::consts::LN_2 + shape * ratio.ln()).max(0.0) + shape * (-log.abs()).exp().ln_1p()
    };
    (-exponent).exp()
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the ends of the law are exact, and so is the same computation twice")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: f64 = 86_400.0;

    fn shapes() -> impl Strategy<Value = f64> {
        prop_oneof![Just(1.0), Just(f64::INFINITY), 0.05..20.0_f64]
    }

    /// Seconds from a microsecond to a thousand years, evenly over the magnitudes.
    fn spans() -> impl Strategy<Value = f64> {
        (-6.0..10.5_f64).prop_map(|magnitude| 10_f64.powf(magnitude))
    }

    fn times() -> impl Strategy<Value = Micros> {
        prop_oneof![4 => 0..4_000_000_000_000_000_i64, 1 => Just(0), 1 => any::<i64>()].prop_map(Micros)
    }

    fn close(left: f64, right: f64, tolerance: f64) -> bool {
        (left - right).abs() <= tolerance * right.abs()
    }

    proptest! {
        #![proptest_config(crate::rank::seeded())]

        #[test]
        fn it_starts_at_one_and_is_half_after_a_half_life(half_life in spans(), shape in shapes()) {
            prop_assert_eq!(strength(0.0, half_life, shape), 1.0);
            prop_assert!(close(strength(half_life, half_life, shape), 0.5, 1e-14));
        }

        #[test]
        fn it_falls_with_time(one in spans(), other in spans(), half_life in spans(), shape in shapes()) {
            let (sooner, later) = (strength(one.min(other), half_life, shape), strength(one.max(other), half_life, shape));
            prop_assert!((0.0..=1.0).contains(&sooner) && (0.0..=1.0).contains(&later));
            prop_assert!(sooner >= later, "{sooner} {later}");
            if later > 1e-300 && later < 1.0 - 1e-6 && one.max(other) > one.min(other) * 1.001 {
                prop_assert!(sooner > later, "{sooner} {later}");
            }
        }

        #[test]
        fn it_rises_with_the_half_life(elapsed in spans(), one in spans(), other in spans(), shape in shapes()) {
            prop_assert!(strength(elapsed, one.min(other), shape) <= strength(elapsed, one.max(other), shape));
        }

        #[test]
        fn neighbours_keep_their_order_to_the_last_bit(elapsed in spans(), half_life in spans(),
                shape in prop_oneof![Just(1.0), Just(f64::INFINITY)]) {
            let here = strength(elapsed, half_life, shape);
            prop_assert!(here as f32 >= strength(elapsed.next_up(), half_life, shape) as f32);
            prop_assert!(here as f32 <= strength(elapsed, half_life.next_up(), shape) as f32);
        }

        #[test]
        fn it_is_the_formula(elapsed in spans(), half_life in spans(), shape in 0.05..20.0_f64) {
            let formula = (1.0 + (2_f64.powf(1.0 / shape) - 1.0) * elapsed / half_life).powf(-shape);
            prop_assert!(close(strength(elapsed, half_life, shape), formula, 1e-11));
            prop_assert!(close(strength(elapsed, half_life, 1.0), half_life / (half_life + elapsed), 1e-15));
            let exponential = (-(elapsed / half_life).min(1022.0)).exp2();
            prop_assert!(close(strength(elapsed, half_life, f64::INFINITY), exponential, 2e-15));
        }

        #[test]
        fn the_shape_runs_into_its_limits(ratio in (-3.0..2.0_f64).prop_map(|magnitude| 10_f64.powf(magnitude))) {
            let limit = strength(ratio, 1.0, f64::INFINITY);
            let mut gap = f64::INFINITY;
            for shape in [1e2, 1e4, 1e6, 1e8] {
                let next = (strength(ratio, 1.0, shape) - limit).abs();
                prop_assert!(next <= gap, "the gap grows at shape {shape}");
                gap = next;
            }
            for shape in [1e12, 1e100, 1e308, f64::MAX] {
                prop_assert!((strength(ratio, 1.0, shape) - limit).abs() < 1e-9, "shape {shape}");
            }
            for shape in [1e-6, 1e-100, f64::MIN_POSITIVE, 5e-324] {
                prop_assert!((strength(ratio, 1.0, shape) - 0.5).abs() < 1e-4, "shape {shape}");
            }
            for shape in [0.001, 0.0013, 0.00139] {
                let (near, far) = (strength(ratio, 1.0, shape), strength(ratio, 1.0, shape * 1.05));
                prop_assert!((near - far).abs() < 1e-3, "{near} {far} about shape {shape}");
            }
        }

        #[test]
        fn extremes_stay_within_zero_and_one(
                elapsed in prop::sample::select(vec![-1e300, -1.0, 0.0, 5e-324, 1e-300, 1.0, 1e300, f64::MAX, f64::INFINITY, f64::NAN]),
                half_life in prop::sample::select(vec![-1.0, 0.0, 5e-324, 1e-300, 1.0, 1e300, f64::MAX, f64::INFINITY, f64::NAN]),
                shape in prop::sample::select(vec![5e-324, 1e-3, 0.5, 1.0, 2.0, 1e3, 1e300, f64::MAX, f64::INFINITY])) {
            let strength = strength(elapsed, half_life, shape);
            prop_assert!((0.0..=1.0).contains(&strength), "{strength}");
            if half_life == f64::INFINITY || elapsed <= 0.0 {
                prop_assert_eq!(strength, 1.0);
            }
        }

        #[test]
        fn columns_say_what_rows_say(now in times(), shape in prop_oneof![Just(1.0), Just(f64::INFINITY), Just(0.5)],
                rows in prop::collection::vec((times(), prop_oneof![8 => spans().prop_map(|span| span as f32),
                    1 => Just(f32::INFINITY), 1 => Just(1e-45_f32), 1 => Just(f32::MAX)]), 0..70)) {
            let (last_used, half_life): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
            let mut column = vec![f32::NAN; last_used.len()];
            strengths(now, &last_used, &half_life, shape, &mut column);
            let mut baseline = vec![f32::NAN; last_used.len()];
            let law = |ratio| match Curve::of(shape) {
                Curve::Hyperbolic => hyperbolic(ratio),
                Curve::Exponential => exponential(ratio),
                Curve::Power => power(ratio, shape),
            };
            Column { now, last_used: &last_used, half_life: &half_life, law, out: &mut baseline }.run();
            for row in 0..column.len() {
                let alone = row_strength(now, last_used[row], half_life[row], shape);
                prop_assert_eq!(column[row].to_bits(), alone.to_bits());
                prop_assert_eq!(baseline[row].to_bits(), alone.to_bits());
                if let Some(elapsed) = now.0.checked_sub(last_used[row].0) && elapsed.abs() < 1 << 52 {
                    let exact = strength(now.seconds_since(last_used[row]), f64::from(half_life[row]), shape) as f32;
                    prop_assert!((alone - exact).abs() <= 2.0 * f32::EPSILON * exact, "{alone} {exact}");
                }
            }
        }

        #[test]
        fn the_newer_of_two_is_never_weaker(now in times(), one in times(), other in times(),
                half_life in spans().prop_map(|span| span as f32), shape in shapes()) {
            let mut column = [0.0; 2];
            strengths(now, &[one.min(other), one.max(other)], &[half_life; 2], shape, &mut column);
            prop_assert!(column[0] <= column[1]);
        }

        #[test]
        fn use_lengthens_within_bounds(half_life in spans(), strength in 0.0..=1.0_f64, other in 0.0..=1.0_f64,
                gain in 0.0..3.0_f64) {
            let after = reinforce(half_life, strength, gain, 1e12);
            prop_assert!(after >= half_life && after <= half_life * (1.0 + gain) * (1.0 + 1e-15));
            prop_assert!(reinforce(half_life, strength.min(other), gain, 1e12) >= reinforce(half_life, strength.max(other), gain, 1e12));
            prop_assert!(reinforce(half_life.next_up(), strength, gain, 1e12) >= after);
            prop_assert_eq!(reinforce(half_life, 1.0, gain, 1e12), half_life);
            prop_assert!(reinforce(half_life, strength, gain, DAY) <= DAY);
            prop_assert_eq!(reinforce(f64::INFINITY, strength, gain, DAY), f64::INFINITY);
        }
    }

    /// The half-life after these pauses, in seconds, each ended by a use.
    fn after_uses(pauses: impl IntoIterator<Item = f64>) -> f64 {
        pauses.into_iter().fold(7.0 * DAY, |half_life, pause| {
            reinforce(half_life, strength(pause, half_life, 1.0), 1.0, 3_650.0 * DAY)
        })
    }

    #[test]
    fn spacing_counts_and_bursts_do_not() {
        let burst = after_uses([0.6; 100]);
        assert!(burst < 7.001 * DAY, "{burst}");
        let spaced = after_uses([7.0 * DAY; 10]);
        assert!(spaced > 28.0 * DAY, "{spaced}");
    }

    #[test]
    fn whole_half_lives_halve_exactly() {
        for halvings in 0..=1022 {
            assert_eq!(exponential(f64::from(halvings)), 0.5_f64.powi(halvings), "{halvings}");
        }
    }
}
