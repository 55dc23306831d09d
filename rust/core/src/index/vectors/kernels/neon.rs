//! AArch64: NEON, which every such processor has.
#![expect(unsafe_code, reason = "loads through pointers that the slices' widths bound")]

use std::arch::aarch64::{
    float32x4_t, int8x16_t, uint16x4_t, vaddq_f32, vaddvq_f32, vaddvq_s32, vandq_u32, vdupq_n_f32, vdupq_n_s32,
    vdupq_n_u32, vfmaq_f32, vget_high_u16, vget_low_s8, vget_low_u16, vld1q_f32, vld1q_s8, vld1q_u16, vmovl_u16,
    vmull_high_s8, vmull_s8, vmulq_f32, vorrq_u32, vpadalq_s16, vreinterpretq_f32_u32, vreinterpretq_u32_f32,
    vshlq_n_u32,
};

use super::scalar::RAISE;
use super::{CodeQuery, Kernels, Line, VALUE_LANES};

pub(super) fn offer(sets: &mut Vec<Kernels>) {
    sets.push(Kernels { name: "neon", run, gather, half });
}

#[target_feature(enable = "neon")]
fn run(query: CodeQuery<'_>, rows: &[Line], dots: &mut [i32]) {
    for (dot, row) in dots.iter_mut().zip(rows.chunks_exact(query.lines.len())) {
        *dot = codes(query.lines, row);
    }
}

#[target_feature(enable = "neon")]
fn gather(query: CodeQuery<'_>, rows: &[&[Line]], dots: &mut [i32]) {
    for (dot, row) in dots.iter_mut().zip(rows) {
        *dot = codes(query.lines, row);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn codes(query: &[Line], row: &[Line]) -> i32 {
    let mut sums = [vdupq_n_s32(0); 4];
    for (query, row) in query.iter().zip(row) {
        let (query, row) = (query.0.as_chunks::<16>().0, row.0.as_chunks::<16>().0);
        for ((sum, query), row) in sums.iter_mut().zip(query).zip(row) {
            let (query, row) = (sixteen(query), sixteen(row));
            // No code is −128: a product fits in 16 bits, and pairs are widened before they are added.
            *sum = vpadalq_s16(*sum, vmull_s8(vget_low_s8(query), vget_low_s8(row)));
            *sum = vpadalq_s16(*sum, vmull_high_s8(query, row));
        }
    }
    sums.into_iter().map(|sum| vaddvq_s32(sum)).sum()
}

#[inline]
#[target_feature(enable = "neon")]
fn sixteen(codes: &[i8; 16]) -> int8x16_t {
    // SAFETY: the array holds the 16 codes that are read.
    unsafe { vld1q_s8(codes.as_ptr()) }
}

#[target_feature(enable = "neon")]
fn half(values: &[f32], halves: &[u16]) -> f32 {
    let mut sums = [vdupq_n_f32(0.0); 4];
    let (blocks, last) = halves.as_chunks::<VALUE_LANES>();
    let mut rest = [0; VALUE_LANES];
    rest[..last.len()].copy_from_slice(last);
    for (values, halves) in values.as_chunks::<VALUE_LANES>().0.iter().zip(blocks.iter().chain([&rest])) {
        sums = step(values, halves, sums);
    }
    let [first, second, third, fourth] = sums;
    vaddvq_f32(vaddq_f32(vaddq_f32(first, second), vaddq_f32(third, fourth)))
}

#[inline]
#[target_feature(enable = "neon")]
fn step(values: &[f32; VALUE_LANES], halves: &[u16; VALUE_LANES], sums: [float32x4_t; 4]) -> [float32x4_t; 4] {
    // SAFETY: both arrays hold the 16 values that are read.
    let (values, low, high) = unsafe {
        let values: [float32x4_t; 4] = [
            vld1q_f32(values.as_ptr()),
            vld1q_f32(values.as_ptr().add(4)),
            vld1q_f32(values.as_ptr().add(8)),
            vld1q_f32(values.as_ptr().add(12)),
        ];
        (values, vld1q_u16(halves.as_ptr()), vld1q_u16(halves.as_ptr().add(8)))
    };
    [
        vfmaq_f32(sums[0], values[0], widen(vget_low_u16(low))),
        vfmaq_f32(sums[1], values[1], widen(vget_high_u16(low))),
        vfmaq_f32(sums[2], values[2], widen(vget_low_u16(high))),
        vfmaq_f32(sums[3], values[3], widen(vget_high_u16(high))),
    ]
}

/// Four finite f16 as f32, in the way of the portable kernel: the f16 conversions are not stable yet.
#[inline]
#[target_feature(enable = "neon")]
fn widen(bits: uint16x4_t) -> float32x4_t {
    let wide = vmovl_u16(bits);
    let size = vshlq_n_u32::<13>(vandq_u32(wide, vdupq_n_u32(0x7fff)));
    let raised = vmulq_f32(vreinterpretq_f32_u32(size), vdupq_n_f32(RAISE));
    let sign = vshlq_n_u32::<16>(vandq_u32(wide, vdupq_n_u32(0x8000)));
    vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(raised), sign))
}
