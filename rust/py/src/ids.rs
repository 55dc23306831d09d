//! New ids: the core draws no random numbers, so they are made here.

use parking_lot::Mutex;
use tiermem_core::base::{Error, MemoryId, Micros, Result};

/// Makes version 7 UUIDs that ascend with every call, whatever the time given.
#[derive(Debug)]
pub(crate) struct IdMint {
    state: Mutex<MintState>,
    seeded: bool,
}

#[derive(Debug)]
struct MintState {
    last_millis: i64,
    counter: u16,
    random: u64,
}

impl IdMint {
    /// A mint whose random bits follow from the seed, or come from the operating system.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let state = MintState { last_millis: -1, counter: 0, random: seed.unwrap_or(0) };
        Self { state: Mutex::new(state), seeded: seed.is_some() }
    }

    /// `count` new ids for memories written at `now`.
    pub(crate) fn mint(&self, now: Micros, count: usize) -> Result<Vec<MemoryId>> {
        let mut state = self.state.lock();
        (0..count)
            .map(|_| {
                let millis = (now.0 / 1_000).max(state.last_millis);
                if millis > state.last_millis {
                    state.last_millis = millis;
                    state.counter = 0;
                } else {
                    state.counter += 1;
                    // A full millisecond borrows from the next one.
                    if state.counter > 0x0fff {
                        state.last_millis += 1;
                        state.counter = 0;
                    }
                }
                let random = if self.seeded { state.split_mix() } else { from_system()? };
                Ok(MemoryId::version_7(state.last_millis * 1_000, state.counter, random))
            })
            .collect()
    }
}

impl MintState {
    /// The next number of SplitMix64 (Steele, Lea and Flood 2014).
    fn split_mix(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// 64 random bits of the operating system.
pub(crate) fn from_system() -> Result<u64> {
    getrandom::u64()
        .map_err(|error| Error::Io { operation: "draw random bits for an id".to_owned(), message: error.to_string() })
}
