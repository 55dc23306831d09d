//! Bytes of a derived file, read into RAM or mapped, and the reader that takes them apart.
//!
//! The reader believes nothing: it answers an error where bytes are missing and never allocates for a count that the
//! bytes cannot hold.

use std::ops::Range;
use std::sync::Arc;

use zerocopy::FromBytes;

use super::{Error, Result};

/// Bytes that never change. Clones share them.
#[derive(Debug, Clone)]
pub struct Blob {
    bytes: Arc<Bytes>,
    range: Range<usize>,
}

#[derive(Debug)]
enum Bytes {
    Read(Vec<u8>),
    Mapped(memmap2::Mmap),
}

impl Bytes {
    fn all(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

impl Blob {
    /// Bytes in RAM.
    pub fn read(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self { bytes: Arc::new(Bytes::Read(bytes)), range }
    }

    /// Bytes of a file that is mapped.
    pub fn mapped(map: memmap2::Mmap) -> Self {
        let range = 0..map.len();
        Self { bytes: Arc::new(Bytes::Mapped(map)), range }
    }

    /// A part of it; nothing when it is shorter.
    pub fn part(&self, start: usize, end: usize) -> Option<Self> {
        let (start, end) = (self.range.start.checked_add(start)?, self.range.start.checked_add(end)?);
        (start <= end && end <= self.range.end).then(|| Self { bytes: Arc::clone(&self.bytes), range: start..end })
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes.all()[self.range.clone()]
    }

    /// The bytes as little-endian numbers, where this machine can read them as they lie.
    pub fn numbers(&self) -> Option<&[u16]> {
        if cfg!(target_endian = "little") { <[u16]>::ref_from_bytes(self.bytes()).ok() } else { None }
    }

    /// Whether they lie in RAM of this process alone.
    pub fn is_in_ram(&self) -> bool {
        matches!(&*self.bytes, Bytes::Read(_))
    }
}

/// Takes bytes apart from front to end.
#[derive(Debug)]
pub struct Reader<'bytes> {
    what: &'static str,
    all: usize,
    rest: &'bytes [u8],
}

macro_rules! number {
    ($(#[$doc:meta] $name:ident $many:ident $type:ty),+ $(,)?) => {$(
        #[$doc]
        pub fn $name(&mut self) -> Result<$type> {
            Ok(<$type>::from_le_bytes(*self.array()?))
        }

        /// So many of them.
        pub fn $many(&mut self, count: usize) -> Result<impl ExactSizeIterator<Item = $type> + use<'bytes>> {
            const WIDTH: usize = size_of::<$type>();
            let bytes = self.take(count.checked_mul(WIDTH).ok_or_else(|| self.fault("it counts too much"))?)?;
            let (numbers, _) = bytes.as_chunks::<WIDTH>();
            Ok(numbers.iter().map(|number| <$type>::from_le_bytes(*number)))
        }
    )+};
}

impl<'bytes> Reader<'bytes> {
    /// A reader of these bytes; `what` names them in errors.
    pub fn new(what: &'static str, bytes: &'bytes [u8]) -> Self {
        Self { what, all: bytes.len(), rest: bytes }
    }

    /// The error of somebody who found nonsense here.
    pub fn fault(&self, message: impl Into<String>) -> Error {
        let place = self.all - self.rest.len();
        Error::Corrupt { what: self.what.to_owned(), message: format!("{} (before byte {place})", message.into()) }
    }

    /// Fails with the message unless the condition holds.
    pub fn check(&self, sound: bool, message: &str) -> Result<()> {
        if sound { Ok(()) } else { Err(self.fault(message)) }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next bytes.
    pub fn take(&mut self, count: usize) -> Result<&'bytes [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.fault(format!("it ends where {count} more bytes should be")));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const WIDTH: usize>(&mut self) -> Result<&'bytes [u8; WIDTH]> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return Err(self.fault(format!("it ends where {WIDTH} more bytes should be")));
        };
        self.rest = rest;
        Ok(taken)
    }

    number! {
        /// A byte.
        u8 u8s u8,
        /// A number of two bytes.
        u16 u16s u16,
        /// A number of four bytes.
        u32 u32s u32,
        /// A number of eight bytes.
        u64 u64s u64,
        /// A signed number of eight bytes.
        i64 i64s i64,
        /// A number of sixteen bytes.
        u128 u128s u128,
        /// A float of four bytes.
        f32 f32s f32,
        /// A float of eight bytes.
        f64 f64s f64,
    }

    /// A count of things, each of which takes at least `least` bytes of what follows.
    pub fn count(&mut self, least: usize) -> Result<usize> {
        let count = self.u64()?;
        match usize::try_from(count) {
            Ok(count) if count.checked_mul(least).is_some_and(|bytes| bytes <= self.rest.len()) => Ok(count),
            _ => Err(self.fault(format!("it counts {count} things, more than it can hold"))),
        }
    }

    /// A text.
    pub fn text(&mut self) -> Result<&'bytes str> {
        let length = self.u32()? as usize;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|error| self.fault(format!("a text is no UTF-8: {error}")))
    }

    /// That nothing is left.
    pub fn end(self) -> Result<()> {
        self.check(self.rest.is_empty(), "it goes on where it should end")
    }
}

/// Writes a text as [`Reader::text`] reads it.
pub fn put_text(text: &str, into: &mut Vec<u8>) {
    into.extend_from_slice(&(text.len() as u32).to_le_bytes());
    into.extend_from_slice(text.as_bytes());
}

/// Writes a count as [`Reader::count`] reads it.
pub fn put_count(count: usize, into: &mut Vec<u8>) {
    into.extend_from_slice(&(count as u64).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_read() {
        let mut bytes = Vec::new();
        put_count(2, &mut bytes);
        bytes.extend([1, 0, 2, 0]);
        put_text("记忆", &mut bytes);
        let mut reader = Reader::new("it", &bytes);
        let count = reader.count(2).expect("there are two");
        assert_eq!(reader.u16s(count).expect("there are two").collect::<Vec<_>>(), [1, 2]);
        assert_eq!(reader.text().expect("a text"), "记忆");
        assert!(reader.u8().is_err());
        reader.end().expect("all was read");
        for cut in 0..bytes.len() {
            let mut reader = Reader::new("it", &bytes[..cut]);
            let read = reader.count(2).and_then(|count| reader.u16s(count).map(drop)).and_then(|()| reader.text());
            assert!(read.is_err(), "{cut}");
        }
        assert!(Reader::new("it", &u64::MAX.to_le_bytes()).count(1).is_err());
        assert!(Reader::new("it", &[0; 16]).u128s(usize::MAX).is_err());
        assert!(Reader::new("it", &bytes).end().is_err());
    }

    #[test]
    fn a_part_is_inside() {
        let blob = Blob::read(vec![1, 2, 3, 4]);
        let part = blob.part(1, 4).expect("inside");
        assert_eq!(part.bytes(), [2, 3, 4]);
        assert_eq!(part.part(1, 2).expect("inside").bytes(), [3]);
        assert!(part.part(1, 4).is_none() && part.part(2, 1).is_none() && part.part(1, usize::MAX).is_none());
    }
}
