//! Dot products, as fast as the processor at hand can make them.
//!
//! Owns the choice of the instruction set, made once. Every set gives the same integers; the f16 products of one
//! set differ from another's only by the order of summation, and one process uses one set throughout.

#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::OnceLock;

use super::codes::Line;

pub(super) use scalar::widen;

/// Query values are padded with zeros to a multiple of this, so that no kernel needs a masked load of them.
pub(super) const VALUE_LANES: usize = 16;

/// The codes of a query, and their sum: some sets shift the rows to unsigned and take 128 · sum off again.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeQuery<'a> {
    lines: &'a [Line],
    sum: i32,
}

impl<'a> CodeQuery<'a> {
    pub(super) fn new(lines: &'a [Line]) -> Self {
        let sum = lines.iter().flat_map(|line| line.0).map(i32::from).sum();
        Self { lines, sum }
    }
}

type Run = unsafe fn(CodeQuery<'_>, &[Line], &mut [i32]);
type Gather = unsafe fn(CodeQuery<'_>, &[&[Line]], &mut [i32]);
type Half = unsafe fn(&[f32], &[u16]) -> f32;

/// One instruction set's kernels. A value exists only where the processor has the set.
#[derive(Debug)]
pub(super) struct Kernels {
    name: &'static str,
    run: Run,
    gather: Gather,
    half: Half,
}

impl Kernels {
    /// The best set of this processor.
    pub(super) fn best() -> &'static Self {
        static BEST: OnceLock<Kernels> = OnceLock::new();
        BEST.get_or_init(|| Self::available().swap_remove(0))
    }

    /// Every set of this processor, the best first and the portable one last.
    fn available() -> Vec<Self> {
        let mut sets = Vec::new();
        #[cfg(target_arch = "x86_64")]
        x86::offer(&mut sets);
        #[cfg(target_arch = "aarch64")]
        neon::offer(&mut sets);
        sets.push(Self { name: "scalar", run: scalar::run, gather: scalar::gather, half: scalar::half });
        sets
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The dot products of the query with rows that lie one behind the other.
    #[inline]
    pub(super) fn run(&self, query: CodeQuery<'_>, rows: &[Line], dots: &mut [i32]) {
        assert_eq!(rows.len(), query.lines.len() * dots.len(), "rows and query have one width");
        #[expect(unsafe_code, reason = "the kernels are compiled for features beyond the baseline")]
        // SAFETY: `available` offers a set only where its features were detected, and the widths were just compared.
        unsafe {
            (self.run)(query, rows, dots);
        }
    }

    /// The dot products of the query with rows that lie anywhere.
    #[inline]
    pub(super) fn gather(&self, query: CodeQuery<'_>, rows: &[&[Line]], dots: &mut [i32]) {
        assert_eq!(rows.len(), dots.len(), "one product a row");
        assert!(rows.iter().all(|row| row.len() == query.lines.len()), "rows and query have one width");
        #[expect(unsafe_code, reason = "the kernels are compiled for features beyond the baseline")]
        // SAFETY: as in `run`.
        unsafe {
            (self.gather)(query, rows, dots);
        }
    }

    /// The dot product of f32 values (padded to [`VALUE_LANES`]) with finite f16 values.
    #[inline]
    pub(super) fn half(&self, values: &[f32], halves: &[u16]) -> f32 {
        assert_eq!(values.len(), halves.len().next_multiple_of(VALUE_LANES), "values and halves have one width");
        #[expect(unsafe_code, reason = "the kernels are compiled for features beyond the baseline")]
        // SAFETY: as in `run`.
        unsafe {
            (self.half)(values, halves)
        }
    }
}

/// Asks for the memory of a slice that is read soon.
#[inline]
pub(super) fn prefetch<T>(slice: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = slice.as_ptr().cast::<i8>();
        for offset in (0..size_of_val(slice)).step_by(64) {
            #[expect(unsafe_code, reason = "prefetching is an intrinsic")]
            // SAFETY: SSE is part of x86-64, the address lies inside the slice, and a prefetch reads nothing.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(start.add(offset));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = slice;
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    /// SplitMix64: enough chance for a test, the same on every run.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    }

    fn dimensions() -> impl Iterator<Item = usize> {
        (1..=130).chain([384, 768, 1_536])
    }

    fn lines(dimension: usize, mut code: impl FnMut(usize) -> i8) -> Vec<Line> {
        let mut lines = vec![Line::ZERO; Line::per_row(dimension)];
        for place in 0..dimension {
            lines[place / Line::CODES].0[place % Line::CODES] = code(place);
        }
        lines
    }

    fn exact(left: &[Line], right: &[Line]) -> i32 {
        let codes = |lines: &[Line]| lines.iter().flat_map(|line| line.0).map(i32::from).collect::<Vec<_>>();
        codes(left).iter().zip(codes(right)).map(|(left, right)| left * right).sum()
    }

    #[test]
    fn every_set_gives_the_same_integers() {
        let mut state = 7;
        for dimension in dimensions() {
            let mut rows = vec![
                lines(dimension, |_| 127),
                lines(dimension, |_| -127),
                lines(dimension, |place| if place % 2 == 0 { 127 } else { -127 }),
                lines(dimension, |_| 0),
            ];
            for _ in 0..7 {
                rows.push(lines(dimension, |_| (next(&mut state) % 255) as i8));
            }
            for row in &mut rows {
                row.iter_mut().flat_map(|line| &mut line.0).for_each(|code| *code = (*code).max(-127));
            }
            let flat: Vec<Line> = rows.iter().flatten().copied().collect();
            let slices: Vec<&[Line]> = rows.iter().rev().map(Vec::as_slice).collect();
            for query in &rows {
                let wanted: Vec<i32> = rows.iter().map(|row| exact(query, row)).collect();
                for set in Kernels::available() {
                    for count in [0, 1, 2, 3, 4, 5, rows.len()] {
                        let mut dots = vec![i32::MIN; count];
                        set.run(CodeQuery::new(query), &flat[..count * query.len()], &mut dots);
                        assert_eq!(dots, wanted[..count], "{} run of {count} × {dimension}", set.name);
                        set.gather(CodeQuery::new(query), &slices[..count], &mut dots);
                        let reversed: Vec<i32> = wanted.iter().rev().take(count).copied().collect();
                        assert_eq!(dots, reversed, "{} gather of {count} × {dimension}", set.name);
                    }
                }
            }
        }
    }

    #[test]
    fn every_set_reads_halves_alike() {
        let mut state = 11;
        for dimension in dimensions() {
            let unit = |state: &mut u64| (next(state) >> 40) as f32 / 8_388_608.0 - 1.0;
            let mut values: Vec<f32> = (0..dimension).map(|_| unit(&mut state)).collect();
            // Every tenth is so small that f16 holds it as a subnormal.
            let halves: Vec<u16> = (0..dimension)
                .map(|place| f16::from_f32(unit(&mut state) * if place % 10 == 3 { 3e-5 } else { 1.0 }).to_bits())
                .collect();
            let product = |(value, bits): (&f32, &u16)| f64::from(*value) * f16::from_bits(*bits).to_f64();
            let wanted: f64 = values.iter().zip(&halves).map(product).sum();
            let size: f64 = values.iter().zip(&halves).map(product).map(f64::abs).sum();
            values.resize(dimension.next_multiple_of(VALUE_LANES), 0.0);
            for set in Kernels::available() {
                let found = f64::from(set.half(&values, &halves));
                assert!((found - wanted).abs() <= 1e-6 * size, "{} × {dimension}: {found} {wanted}", set.name);
            }
        }
    }

    #[test]
    fn every_half_is_read_exactly() {
        for bits in 0..=u16::MAX {
            let value = f16::from_bits(bits);
            if !value.is_finite() {
                continue;
            }
            let mut one = [0.0; VALUE_LANES];
            one[0] = 1.0;
            for set in Kernels::available() {
                let found = set.half(&one, &[bits]);
                assert!(found.total_cmp(&(value.to_f32() + 0.0)).is_eq(), "{} reads {bits:#06x} as {found}", set.name);
            }
        }
    }
}
