//! Runs a loop over columns with the widest vector registers of the machine.
//!
//! The loops are plain Rust that the compiler vectorises; this file only has it done three times on x86-64, whose baseline
//! has registers of 16 bytes and no 64-bit integer conversions. No variant may contract or reorder floating-point
//! operations, so all give the same bits.

/// A loop that [`widest`] can compile again. `run` must be `#[inline(always)]`: only what is inlined into a function with
/// target features is compiled with them.
pub(super) trait Loop {
    /// Does the work.
    fn run(self);
}

/// Runs `work` with the best instructions this processor has.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "a function with target features may only be called after asking the processor")]
pub(super) fn widest(work: impl Loop) {
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
        // SAFETY: both features of `with_avx512` were just detected.
        unsafe { with_avx512(work) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the one feature of `with_avx2` was just detected.
        unsafe { with_avx2(work) }
    } else {
        work.run();
    }
}

/// Runs `work`: elsewhere the baseline (NEON on AArch64) is already what the loops need.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn widest(work: impl Loop) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn with_avx512(work: impl Loop) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(work: impl Loop) {
    work.run();
}
