//! Time as the core knows it: a number that the caller brings.

use super::{Error, limits};

/// Microseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(pub i64);

impl Micros {
    /// The time as a number of seconds, checked: 1970 to 9999 and finite.
    pub fn from_seconds(argument: &str, seconds: f64) -> Result<Self, Error> {
        let micros = seconds * 1e6;
        if !(micros >= 0.0 && micros <= limits::LATEST_MICROS as f64) {
            return Err(Error::invalid(
                argument,
                format!("{seconds} seconds since 1970 is not a time between 1970 and 9999"),
            ));
        }
        Ok(Self(micros.round() as i64))
    }

    /// Seconds since 1970.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds from `earlier` to here, 0 when it lies in the future.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        self.0.saturating_sub(earlier.0).max(0) as f64 / 1e6
    }
}
