//! Looking for what must not be there: every byte of every file of a store, for many texts and vectors at once.
//!
//! A value to look for is cut into pieces, so that a part that survived on a page of its own is found too. Each piece
//! has an anchor, eight of its bytes: a file is read once, in chunks that overlap by the longest piece, the eight bytes
//! at every place are looked up, and where they are an anchor the whole piece is compared. Memory is bounded by the
//! pieces and one chunk, whatever the size of the files.
//!
//! The database and its log are read through SQLite's own descriptors: POSIX drops all locks of a process on a file when
//! any of its descriptors is closed, so a second one would unlock a store that is in use.

use std::ffi::c_int;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use rusqlite::{Connection, ffi};
use rustc_hash::FxHashMap;

use super::failure::{self, Failure};
use super::{Disk, FILE_NAME};
use crate::base::Result;

/// Bytes of an anchor, and the least of a piece.
const ANCHOR: usize = 8;
/// Bytes at which a long text is cut: what is left of it in one place is found from twice that on.
const TEXT_PIECE: usize = 32;
/// Bytes at which a vector is cut.
const VECTOR_PIECE: usize = 64;
/// A piece of a text with fewer different bytes says nothing; one of a vector needs more.
const TEXT_VARIETY: usize = 4;
const VECTOR_VARIETY: usize = 16;
/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// How often each piece was found, by its number.
pub type Counts = FxHashMap<u32, u64>;

#[derive(Debug, Clone, Copy)]
struct Piece {
    anchor: u64,
    /// Where its bytes begin in the heap of all bytes.
    start: usize,
    length: u32,
    anchor_at: u32,
}

/// Values to look for, being collected.
#[derive(Debug)]
pub struct Needles {
    pieces: Vec<Piece>,
    bytes: Vec<u8>,
    most: usize,
}

impl Needles {
    /// None yet; of each value at most `most` pieces are taken, spread over it.
    pub fn new(most: usize) -> Self {
        Self { pieces: Vec::new(), bytes: Vec::new(), most: most.max(1) }
    }

    /// Adds a text. `false` when it is too short or too plain to be told from chance.
    pub fn add_text(&mut self, text: &[u8]) -> bool {
        if text.len() < ANCHOR {
            return false;
        }
        if text.len() < 2 * TEXT_PIECE {
            return variety(text) >= TEXT_VARIETY && self.add(text);
        }
        let last = text.len() / TEXT_PIECE - 1;
        let end = |number: usize| if number == last { text.len() } else { (number + 1) * TEXT_PIECE };
        let cut = |number: usize| &text[number * TEXT_PIECE..end(number)];
        let telling: Vec<usize> = (0..=last).filter(|number| variety(cut(*number)) >= TEXT_VARIETY).collect();
        for number in self.spread(&telling) {
            self.add(cut(number));
        }
        !telling.is_empty()
    }

    /// Adds the bytes of a vector. `false` when no part of it is telling.
    pub fn add_vector(&mut self, vector: &[u8]) -> bool {
        let cuts: Vec<&[u8]> = vector.chunks_exact(VECTOR_PIECE).collect();
        let telling: Vec<usize> = (0..cuts.len()).filter(|number| variety(cuts[*number]) >= VECTOR_VARIETY).collect();
        if !telling.is_empty() {
            for number in self.spread(&telling) {
                self.add(cuts[number]);
            }
            return true;
        }
        // A short or sparse vector: its fullest part.
        let fullest = (0..vector.len().max(1))
            .step_by(VECTOR_PIECE / 2)
            .map(|start| &vector[start..vector.len().min(start + 2 * VECTOR_PIECE)])
            .max_by_key(|part| variety(part));
        fullest.is_some_and(|part| part.len() >= ANCHOR && variety(part) >= TEXT_VARIETY && self.add(part))
    }

    /// At most `most` of these, the first and the last among them.
    fn spread(&self, numbers: &[usize]) -> Vec<usize> {
        if numbers.len() <= self.most {
            return numbers.to_vec();
        }
        let last = numbers.len() - 1;
        (0..self.most).map(|place| numbers[place * last / self.most.saturating_sub(1).max(1)]).collect()
    }

    fn add(&mut self, piece: &[u8]) -> bool {
        // Many values begin alike, so the anchor is anywhere in the piece.
        let windows = piece.len() - ANCHOR + 1;
        let first = xxhash_rust::xxh3::xxh3_64(piece) as usize % windows;
        let telling = |place: &usize| variety(&piece[*place..*place + ANCHOR]) >= TEXT_VARIETY;
        let place = (first..windows).chain(0..first).find(telling).unwrap_or(first);
        self.pieces.push(Piece {
            anchor: window(piece, place),
            start: self.bytes.len(),
            length: piece.len() as u32,
            anchor_at: place as u32,
        });
        self.bytes.extend_from_slice(piece);
        true
    }

    /// Makes them ready to be looked for; each different piece counts once.
    pub fn seal(mut self) -> Matcher {
        let bytes = &self.bytes;
        let of = |piece: &Piece| &bytes[piece.start..piece.start + piece.length as usize];
        self.pieces.sort_unstable_by(|a, b| {
            (a.anchor, a.anchor_at).cmp(&(b.anchor, b.anchor_at)).then_with(|| of(a).cmp(of(b)))
        });
        self.pieces.dedup_by(|a, b| a.anchor == b.anchor && a.anchor_at == b.anchor_at && of(a) == of(b));
        let bits = (self.pieces.len() * 16).next_power_of_two().clamp(1 << 12, 1 << 27);
        let shift = 64 - bits.trailing_zeros();
        let mut filter = vec![0_u64; bits / 64];
        for piece in &self.pieces {
            let place = slot(piece.anchor, shift);
            filter[place / 64] |= 1 << (place % 64);
        }
        let longest = self.pieces.iter().map(|piece| piece.length as usize).max().unwrap_or(ANCHOR);
        Matcher { pieces: self.pieces, bytes: self.bytes, filter, shift, longest }
    }
}

/// Values to look for.
#[derive(Debug)]
pub struct Matcher {
    /// By anchor.
    pieces: Vec<Piece>,
    bytes: Vec<u8>,
    /// Has a bit for each anchor: most places are passed by without a search.
    filter: Vec<u64>,
    shift: u32,
    longest: usize,
}

impl Matcher {
    /// How many different pieces are looked for.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Counts the pieces in a value.
    pub fn count(&self, value: &[u8], counts: &mut Counts) {
        self.count_between(value, 0, value.len(), counts);
    }

    /// Counts the pieces whose anchor begins in `from..to`.
    fn count_between(&self, bytes: &[u8], from: usize, to: usize, counts: &mut Counts) {
        let to = to.min((bytes.len() + 1).saturating_sub(ANCHOR));
        for place in from..to {
            let anchor = window(bytes, place);
            let slot = slot(anchor, self.shift);
            if self.filter[slot / 64] >> (slot % 64) & 1 == 0 {
                continue;
            }
            let first = self.pieces.partition_point(|piece| piece.anchor < anchor);
            for (number, piece) in self.pieces.iter().enumerate().skip(first) {
                if piece.anchor != anchor {
                    break;
                }
                let Some(start) = place.checked_sub(piece.anchor_at as usize) else { continue };
                let length = piece.length as usize;
                if bytes.get(start..start + length) == Some(&self.bytes[piece.start..piece.start + length]) {
                    *counts.entry(number as u32).or_default() += 1;
                }
            }
        }
    }

    /// Counts the pieces in what `read` gives at each place; returns how many bytes that were.
    fn count_in(
        &self,
        read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>,
        counts: &mut Counts,
    ) -> io::Result<u64> {
        let mut buffer = vec![0_u8; CHUNK + 2 * self.longest];
        let (mut filled, mut offset, mut from) = (0, 0_u64, 0);
        loop {
            let mut end = false;
            while filled < buffer.len() && !end {
                let got = read(&mut buffer[filled..], offset)?;
                end = got == 0;
                filled += got;
                offset += got as u64;
            }
            // An anchor is looked at once all that may surround it is there.
            let to = if end { filled } else { filled - self.longest };
            self.count_between(&buffer[..filled], from, to, counts);
            if end {
                return Ok(offset);
            }
            let keep = to.saturating_sub(self.longest);
            buffer.copy_within(keep..filled, 0);
            from = to - keep;
            filled -= keep;
        }
    }
}

fn window(bytes: &[u8], place: usize) -> u64 {
    bytes[place..place + ANCHOR].iter().rev().fold(0, |anchor, byte| anchor << 8 | u64::from(*byte))
}

fn slot(anchor: u64, shift: u32) -> usize {
    (anchor.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

/// How many different bytes there are.
fn variety(bytes: &[u8]) -> usize {
    let mut seen = [0_u64; 4];
    for byte in bytes {
        seen[usize::from(*byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|bits| bits.count_ones() as usize).sum()
}

/// What a scan read, and what it found in which file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scanned {
    /// Files read.
    pub files: usize,
    /// Bytes in them.
    pub bytes: u64,
    /// The pieces found in each file, by its path below the store's directory.
    pub found: Vec<(PathBuf, Counts)>,
}

impl Disk {
    /// Reads every byte of every file below the store's directory and counts what is found. Files named `-shm` hold
    /// page numbers of the log and nothing else; they are locks as much as files, and are not touched. A store in RAM
    /// has no files. Symbolic links are not followed.
    pub fn scan(&self, matcher: &Matcher) -> Result<Scanned> {
        let Some(place) = &self.place else { return Ok(Scanned::default()) };
        let mut scanned = self.with_reader("read the store's bytes", |connection| {
            // The log is open to a connection that has read something.
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            let mut scanned = Scanned::default();
            for (pointer, name) in [
                (ffi::SQLITE_FCNTL_FILE_POINTER, FILE_NAME.to_owned()),
                (ffi::SQLITE_FCNTL_JOURNAL_POINTER, format!("{FILE_NAME}-wal")),
            ] {
                let Some(file) = RawFile::of(connection, pointer) else { continue };
                let told = |error| Failure::Told(failure::io(format!("read {name}"), &error));
                let mut counts = Counts::default();
                scanned.bytes += matcher.count_in(&mut |into, at| file.read(into, at), &mut counts).map_err(told)?;
                scanned.files += 1;
                if !counts.is_empty() {
                    scanned.found.push((name.into(), counts));
                }
            }
            Ok(scanned)
        })?;
        for file in self.other_files()? {
            let told = |error| failure::io(format!("read {}", file.display()), &error);
            let open = match File::open(place.directory.join(&file)) {
                Ok(open) => open,
                // It was replaced or removed by its owner since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(told(error)),
            };
            let mut counts = Counts::default();
            let mut read = |into: &mut [u8], _: u64| io::Read::read(&mut &open, into);
            scanned.bytes += matcher.count_in(&mut read, &mut counts).map_err(told)?;
            scanned.files += 1;
            if !counts.is_empty() {
                scanned.found.push((file, counts));
            }
        }
        Ok(scanned)
    }

    /// The files below the store's directory that are not SQLite's, by their paths in it, sorted.
    pub fn other_files(&self) -> Result<Vec<PathBuf>> {
        let Some(place) = &self.place else { return Ok(Vec::new()) };
        let own: Vec<PathBuf> =
            ["", "-wal", "-shm"].map(|end| place.directory.join(format!("{FILE_NAME}{end}"))).into();
        let own: Vec<_> = own.iter().filter_map(|path| Some((path, fs::metadata(path).ok()?))).collect();
        let mut files = Vec::new();
        let mut directories = vec![place.directory.clone()];
        while let Some(directory) = directories.pop() {
            let told = |error| failure::io(format!("list {}", directory.display()), &error);
            for entry in fs::read_dir(&directory).map_err(told)? {
                let entry = entry.map_err(told)?;
                let Ok(metadata) = entry.metadata() else { continue };
                let path = entry.path();
                if metadata.is_dir() {
                    directories.push(path);
                } else if metadata.is_file() && !own.iter().any(|(own, known)| **own == path || same(known, &metadata))
                {
                    files.push(path.strip_prefix(&place.directory).unwrap_or(&path).to_path_buf());
                }
            }
        }
        files.sort_unstable();
        Ok(files)
    }
}

/// Whether two names are of one file: what SQLite has open must not be opened under another name either.
#[cfg(unix)]
fn same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn same(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    false
}

/// Whether a path is one of the copies that this library made of the database and no longer needs.
pub(super) fn is_old_copy(path: &Path) -> bool {
    let name = path.to_string_lossy();
    ["version-", "partial", "mending"].iter().any(|end| name.starts_with(&format!("{FILE_NAME}.{end}")))
}

/// A file that SQLite has open, for as long as its connection lives.
struct RawFile<'connection> {
    file: NonNull<ffi::sqlite3_file>,
    _connection: &'connection Connection,
}

impl<'connection> RawFile<'connection> {
    #[expect(
        unsafe_code,
        reason = "SQLite's own descriptor is the only one that may be read without dropping its locks"
    )]
    fn of(connection: &'connection Connection, pointer: c_int) -> Option<Self> {
        let mut file: *mut ffi::sqlite3_file = std::ptr::null_mut();
        // SAFETY: the handle is that of a living connection, which this thread has to itself; both controls write one
        // pointer to where they are told, and that place is as large as a pointer.
        let code = unsafe {
            ffi::sqlite3_file_control(connection.handle(), c"main".as_ptr(), pointer, (&raw mut file).cast())
        };
        let file = NonNull::new(file).filter(|_| code == ffi::SQLITE_OK)?;
        // SAFETY: SQLite gave the pointer and keeps what it points at for as long as the connection is open.
        let open = unsafe { !file.as_ref().pMethods.is_null() };
        open.then_some(Self { file, _connection: connection })
    }

    #[expect(unsafe_code, reason = "as for `of`")]
    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut size: ffi::sqlite3_int64 = 0;
        // SAFETY: `of` checked that the file is open, and its connection lives; the methods of an open file are set for
        // good, and the two are part of every version of them. `into` has room for the bytes that are asked for.
        unsafe {
            let methods = &*self.file.as_ref().pMethods;
            let (Some(file_size), Some(read)) = (methods.xFileSize, methods.xRead) else { return Ok(0) };
            if file_size(self.file.as_ptr(), &raw mut size) != ffi::SQLITE_OK {
                return Err(io::Error::other("SQLite could not tell the size"));
            }
            let left = u64::try_from(size).unwrap_or(0).saturating_sub(offset);
            let amount = left.min(into.len() as u64) as usize;
            if amount == 0 {
                return Ok(0);
            }
            match read(self.file.as_ptr(), into.as_mut_ptr().cast(), amount as c_int, offset as ffi::sqlite3_int64) {
                // Cut short while it was read, the rest is zeroes.
                ffi::SQLITE_OK | ffi::SQLITE_IOERR_SHORT_READ => Ok(amount),
                code => Err(io::Error::other(format!("SQLite could not read (code {code})"))),
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that fails is what they are for")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    fn count(matcher: &Matcher, bytes: &[u8], step: usize) -> u64 {
        let mut counts = Counts::default();
        let mut read = |into: &mut [u8], at: u64| {
            let rest = &bytes[(at as usize).min(bytes.len())..];
            let amount = rest.len().min(into.len()).min(step);
            into[..amount].copy_from_slice(&rest[..amount]);
            Ok(amount)
        };
        assert_eq!(matcher.count_in(&mut read, &mut counts).unwrap(), bytes.len() as u64);
        counts.values().sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

        #[test]
        fn finds_as_often_as_a_plain_search(
            hay in prop::collection::vec(0_u8..6, 0..3_000),
            needles in prop::collection::vec((any::<prop::sample::Index>(), 8_usize..60), 1..20),
            step in 1_usize..500,
        ) {
            let mut collected = Needles::new(4);
            let mut plain: Vec<Vec<u8>> = Vec::new();
            for (start, length) in needles {
                let start = start.index(hay.len() + 1);
                let needle = hay[start..hay.len().min(start + length)].to_vec();
                if collected.add_text(&needle) && !plain.contains(&needle) {
                    plain.push(needle);
                }
            }
            let matcher = collected.seal();
            prop_assert_eq!(matcher.len(), plain.len());
            let expected: usize = plain
                .iter()
                .map(|needle| hay.windows(needle.len()).filter(|window| *window == &needle[..]).count())
                .sum();
            prop_assert_eq!(count(&matcher, &hay, step), expected as u64);
        }
    }

    #[test]
    fn pieces_over_the_edge_of_a_chunk_are_found() {
        let text: Vec<u8> = (0..50_u8).map(|byte| byte * 5).collect();
        let mut needles = Needles::new(8);
        assert!(needles.add_text(&text));
        let matcher = needles.seal();
        for start in [0, CHUNK - 1, CHUNK, CHUNK + 25, CHUNK + 49, 2 * CHUNK + 70] {
            let mut hay = vec![0; 3 * CHUNK + 7];
            hay[start..start + text.len()].copy_from_slice(&text);
            assert_eq!(count(&matcher, &hay, usize::MAX), 1, "at {start}");
        }
    }

    #[test]
    fn a_part_of_a_long_text_is_found() {
        let text = (0..200).map(|number| format!("word {number}, ")).collect::<Vec<_>>().concat();
        let mut needles = Needles::new(usize::MAX);
        assert!(needles.add_text(text.as_bytes()));
        let matcher = needles.seal();
        for start in [0, 100, 777, 1_000] {
            let part = &text.as_bytes()[start..start + 2 * TEXT_PIECE];
            assert!(count(&matcher, &[b"\0\0", part, b"\0"].concat(), 9) >= 1, "from {start}");
        }
    }

    #[test]
    fn what_says_nothing_is_refused() {
        let mut needles = Needles::new(8);
        assert!(!needles.add_text(b"seven b"));
        assert!(!needles.add_text(b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
        assert!(!needles.add_vector(&[0; 768]));
        assert!(!needles.add_vector(&[]));
        assert!(needles.add_text(b"eight by"));
        let mut sparse = [0; 768];
        sparse[300..308].copy_from_slice(&[1, 60, 2, 61, 3, 62, 4, 63]);
        assert!(needles.add_vector(&sparse));
        let matcher = needles.seal();
        assert_eq!(count(&matcher, &sparse, 100), 1);
        assert_eq!(count(&matcher, &[0; 768], 100), 0);
    }

    #[test]
    fn a_large_vector_keeps_its_ends_when_few_pieces_are_allowed() {
        let vector: Vec<u8> = (0..3_072_usize).map(|place| (place * 37 % 251) as u8).collect();
        let mut needles = Needles::new(2);
        assert!(needles.add_vector(&vector));
        let matcher = needles.seal();
        assert_eq!(matcher.len(), 2);
        assert_eq!(count(&matcher, &vector[..64], 64), 1);
        assert_eq!(count(&matcher, &vector[3_072 - 64..], 64), 1);
    }
}
