//! x86-64: AVX-512 VNNI, and AVX2 with FMA and F16C.
#![expect(unsafe_code, reason = "loads through pointers that the slices' widths bound")]

#[allow(clippy::wildcard_imports, reason = "fifty intrinsics, each with its own prefix")]
use std::arch::x86_64::*;

use super::{CodeQuery, Kernels, Line, VALUE_LANES};

/// Rows ahead of the ones at work whose memory is asked for.
const AHEAD: usize = 8;

pub(super) fn offer(sets: &mut Vec<Kernels>) {
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni")
    {
        sets.push(Kernels { name: "avx512vnni", run: run_512, gather: gather_512, half: half_512 });
    }
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
        sets.push(Kernels { name: "avx2", run: run_256, gather: gather_256, half: half_256 });
    }
}

/// Makes `run` and `gather` of one set from its product of a query with four rows.
macro_rules! over_rows {
    ($run:ident, $gather:ident, $four:ident, $features:literal) => {
        #[target_feature(enable = $features)]
        fn $run(query: CodeQuery<'_>, rows: &[Line], dots: &mut [i32]) {
            let width = query.lines.len();
            for (place, dots) in dots.chunks_mut(4).enumerate() {
                let rows = &rows[place * 4 * width..];
                let four: [*const Line; 4] =
                    std::array::from_fn(|row| rows[row.min(dots.len() - 1) * width..][..width].as_ptr());
                // SAFETY: each pointer starts a slice as wide as the query.
                let sums = unsafe { $four(query, four) };
                dots.copy_from_slice(&sums[..dots.len()]);
            }
        }

        #[target_feature(enable = $features)]
        fn $gather(query: CodeQuery<'_>, rows: &[&[Line]], dots: &mut [i32]) {
            for row in rows.iter().take(AHEAD) {
                super::prefetch(row);
            }
            for (place, dots) in dots.chunks_mut(4).enumerate() {
                for row in rows.iter().skip(place * 4 + AHEAD).take(4) {
                    super::prefetch(row);
                }
                let rows = &rows[place * 4..];
                let four: [*const Line; 4] = std::array::from_fn(|row| rows[row.min(dots.len() - 1)].as_ptr());
                // SAFETY: the caller saw to it that each row is as wide as the query.
                let sums = unsafe { $four(query, four) };
                dots.copy_from_slice(&sums[..dots.len()]);
            }
        }
    };
}

over_rows!(run_512, gather_512, four_512, "avx512f,avx512bw,avx512vnni");
over_rows!(run_256, gather_256, four_256, "avx2");

/// The query times four rows, each of which has as many lines as the query.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn four_512(query: CodeQuery<'_>, rows: [*const Line; 4]) -> [i32; 4] {
    // The instruction multiplies unsigned by signed: flipping the top bit adds 128 to each of the row's codes.
    let flip = _mm512_set1_epi8(i8::MIN);
    let mut sums = [_mm512_setzero_si512(); 4];
    for (place, line) in query.lines.iter().enumerate() {
        // SAFETY: a line is 64 aligned bytes, and `place` lies inside each row.
        unsafe {
            let codes = _mm512_load_si512(std::ptr::from_ref(line).cast());
            for (sum, row) in sums.iter_mut().zip(rows) {
                let row = _mm512_xor_si512(_mm512_load_si512(row.add(place).cast()), flip);
                *sum = _mm512_dpbusd_epi32(*sum, row, codes);
            }
        }
    }
    let [first, second, third, fourth] = sums;
    let low = _mm512_add_epi32(_mm512_unpacklo_epi32(first, second), _mm512_unpackhi_epi32(first, second));
    let high = _mm512_add_epi32(_mm512_unpacklo_epi32(third, fourth), _mm512_unpackhi_epi32(third, fourth));
    let lanes = _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
    let half = _mm256_add_epi32(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64::<1>(lanes));
    let four = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    store(_mm_sub_epi32(four, _mm_set1_epi32(128 * query.sum)))
}

/// The query times four rows, each of which has as many lines as the query.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn four_256(query: CodeQuery<'_>, rows: [*const Line; 4]) -> [i32; 4] {
    let ones = _mm256_set1_epi16(1);
    let mut sums = [_mm256_setzero_si256(); 4];
    for (place, line) in query.lines.iter().enumerate() {
        for side in 0..2 {
            // SAFETY: a line is two aligned halves of 32 bytes, and `place` lies inside each row.
            unsafe {
                let codes = _mm256_load_si256(std::ptr::from_ref(line).cast::<__m256i>().add(side));
                let sizes = _mm256_abs_epi8(codes);
                for (sum, row) in sums.iter_mut().zip(rows) {
                    let row = _mm256_load_si256(row.add(place).cast::<__m256i>().add(side));
                    // No code is −128, so two products reach at most 2 · 127² and do not saturate.
                    let pairs = _mm256_maddubs_epi16(sizes, _mm256_sign_epi8(row, codes));
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
                }
            }
        }
    }
    let [first, second, third, fourth] = sums;
    let lanes = _mm256_hadd_epi32(_mm256_hadd_epi32(first, second), _mm256_hadd_epi32(third, fourth));
    store(_mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes)))
}

#[inline]
#[target_feature(enable = "sse2")]
fn store(four: __m128i) -> [i32; 4] {
    let mut stored = [0; 4];
    // SAFETY: four numbers of 32 bits are 16 bytes; the store needs no alignment.
    unsafe { _mm_storeu_si128(stored.as_mut_ptr().cast(), four) };
    stored
}

/// Makes the product of f32 and f16 values from one step over [`VALUE_LANES`] of them.
macro_rules! over_halves {
    ($half:ident, $step:ident, $zero:expr, $total:ident, $features:literal) => {
        #[target_feature(enable = $features)]
        fn $half(values: &[f32], halves: &[u16]) -> f32 {
            let mut sums = [$zero; 4];
            let whole = halves.len() / (4 * VALUE_LANES) * (4 * VALUE_LANES);
            let mut rest = [0; 4 * VALUE_LANES];
            rest[..halves.len() - whole].copy_from_slice(&halves[whole..]);
            let values = values.as_chunks::<VALUE_LANES>().0;
            let halves = halves[..whole].as_chunks::<VALUE_LANES>().0;
            for (values, halves) in values.chunks_exact(4).zip(halves.chunks_exact(4)) {
                for (sum, (values, halves)) in sums.iter_mut().zip(values.iter().zip(halves)) {
                    *sum = $step(values, halves, *sum);
                }
            }
            let values = &values[halves.len()..];
            for (sum, (values, halves)) in sums.iter_mut().zip(values.iter().zip(rest.as_chunks().0)) {
                *sum = $step(values, halves, *sum);
            }
            $total(sums)
        }
    };
}

over_halves!(half_512, step_512, _mm512_setzero_ps(), total_512, "avx512f");
over_halves!(half_256, step_256, [_mm256_setzero_ps(); 2], total_256, "avx2,fma,f16c");

#[inline]
#[target_feature(enable = "avx512f")]
fn step_512(values: &[f32; VALUE_LANES], halves: &[u16; VALUE_LANES], sum: __m512) -> __m512 {
    // SAFETY: both arrays hold the 16 values that are read; the loads need no alignment.
    let (values, halves) = unsafe { (_mm512_loadu_ps(values.as_ptr()), _mm256_loadu_si256(halves.as_ptr().cast())) };
    _mm512_fmadd_ps(values, _mm512_cvtph_ps(halves), sum)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn total_512([first, second, third, fourth]: [__m512; 4]) -> f32 {
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(first, second), _mm512_add_ps(third, fourth)))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn step_256(values: &[f32; VALUE_LANES], halves: &[u16; VALUE_LANES], [low, high]: [__m256; 2]) -> [__m256; 2] {
    // SAFETY: both arrays hold the 16 values that are read, eight at a time; the loads need no alignment.
    let (values, halves) = unsafe {
        (
            [_mm256_loadu_ps(values.as_ptr()), _mm256_loadu_ps(values.as_ptr().add(8))],
            [_mm_loadu_si128(halves.as_ptr().cast()), _mm_loadu_si128(halves.as_ptr().add(8).cast())],
        )
    };
    [
        _mm256_fmadd_ps(values[0], _mm256_cvtph_ps(halves[0]), low),
        _mm256_fmadd_ps(values[1], _mm256_cvtph_ps(halves[1]), high),
    ]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn total_256(sums: [[__m256; 2]; 4]) -> f32 {
    let [first, second, third, fourth] = sums.map(|[low, high]| _mm256_add_ps(low, high));
    let eight = _mm256_add_ps(_mm256_add_ps(first, second), _mm256_add_ps(third, fourth));
    let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
}
