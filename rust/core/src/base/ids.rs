//! The two names of a memory: its id, which lasts, and its row, which is where it lies.

use std::fmt;
use std::str::FromStr;

use super::Error;

/// A memory's lasting name: the 128 bits of a UUID (version 7 where this library makes it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryId(pub u128);

impl MemoryId {
    /// The id of a memory made at `micros`, the `counter`-th of its millisecond, with `random` bits:
    /// a UUID version 7 (RFC 9562, section 5.7) whose 12 `rand_a` bits hold the counter.
    pub fn version_7(unix_micros: i64, counter: u16, random: u64) -> Self {
        let millis = (unix_micros.max(0) as u128 / 1_000) & 0xffff_ffff_ffff;
        let counter = u128::from(counter & 0x0fff);
        let random = u128::from(random & 0x3fff_ffff_ffff_ffff);
        Self(millis << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | random)
    }

    /// The 16 bytes, big-endian, as SQLite keeps them.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id with these 16 bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for MemoryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'-'; 36];
        let places = (0..36).filter(|place| !matches!(place, 8 | 13 | 18 | 23));
        for (digit, place) in places.enumerate() {
            text[place] = DIGITS[(self.0 >> (124 - 4 * digit)) as usize & 0xf];
        }
        // The digits are ASCII.
        formatter.pad(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl FromStr for MemoryId {
    type Err = Error;

    /// Reads the hyphenated form and no other, in either case.
    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = || Error::NotFound { id: text.chars().take(64).collect() };
        let bytes = text.as_bytes();
        if bytes.len() != 36 {
            return Err(unknown());
        }
        let mut value = 0_u128;
        for (position, byte) in bytes.iter().enumerate() {
            if matches!(position, 8 | 13 | 18 | 23) {
                if *byte != b'-' {
                    return Err(unknown());
                }
                continue;
            }
            let digit = (*byte as char).to_digit(16).ok_or_else(unknown)?;
            value = value << 4 | u128::from(digit);
        }
        Ok(Self(value))
    }
}

/// Where a memory lies: its place in every column and its rowid in SQLite. Rows are given in the
/// order of writing and never reused, so a larger row was written later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub u32);

impl Row {
    /// The place in a column.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_id_reads_back() {
        let id = MemoryId::version_7(1_700_000_000_123_456, 7, u64::MAX);
        let text = id.to_string();
        assert_eq!(text.parse::<MemoryId>(), Ok(id));
        assert_eq!(text.to_uppercase().parse::<MemoryId>(), Ok(id));
        assert_eq!(&text[14..15], "7");
        assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"));
        assert_eq!(MemoryId::from_bytes(id.to_bytes()), id);
    }

    #[test]
    fn later_ids_sort_later() {
        let one = MemoryId::version_7(1_000_000, 0, 5);
        assert!(one < MemoryId::version_7(1_000_000, 1, 0));
        assert!(one < MemoryId::version_7(1_001_000, 0, 0));
    }

    #[test]
    fn what_is_no_id_is_not_found() {
        for text in ["", "x", "018bcfe5-6872-7007-bfff-fffffffffffg", "018bcfe568727007bfffffffffffffff0000", "é"] {
            assert!(matches!(text.parse::<MemoryId>(), Err(Error::NotFound { .. })), "{text}");
        }
    }
}
