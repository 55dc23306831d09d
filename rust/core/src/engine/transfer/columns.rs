//! How a chunk's columns are laid, and how they are read when anybody may have made them.
//!
//! A number is little-endian and as wide as its type; an id is 16 bytes, big-endian. A text column `x` is two: `x_ends`,
//! the end of each row's text as u32, and `x`, the texts themselves. An empty text is an absent one: no text, name or
//! object of a memory is empty. A column of lists has a third, `x_counts`: the elements of each row as u32.

use std::ops::Range;

use super::Chunk;
use crate::base::{Error, MemoryId, Result};

/// Bytes after which a chunk takes no more rows.
const CHUNK_BYTES: usize = 8 << 20;

/// Rows of one chunk at most, when it is read.
pub(super) const CHUNK_ROWS: usize = 1 << 16;

/// What a column of ends, and one of counts, is called after the column it belongs to.
const ENDS: &str = "_ends";
const COUNTS: &str = "_counts";

/// Writes a chunk row by row: every row writes the same columns in the same order.
#[derive(Debug, Default)]
pub(super) struct Writer {
    chunk: Chunk,
    next: usize,
    bytes: usize,
}

impl Writer {
    pub(super) fn bytes(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.append(name, "", value)
    }

    pub(super) fn id(&mut self, name: &str, id: MemoryId) -> &mut Self {
        self.append(name, "", &id.to_bytes())
    }

    pub(super) fn halves(&mut self, name: &str, halves: &[u16]) -> &mut Self {
        self.bytes += 2 * halves.len();
        self.column(name, "").extend(halves.iter().flat_map(|half| half.to_le_bytes()));
        self
    }

    pub(super) fn text(&mut self, name: &str, text: Option<&str>) -> &mut Self {
        self.append(name, "", text.unwrap_or_default().as_bytes());
        let end = self.chunk.columns[self.next - 1].1.len() as u32;
        self.append(name, ENDS, &end.to_le_bytes())
    }

    pub(super) fn texts(&mut self, name: &str, texts: &[Box<str>]) -> &mut Self {
        self.append(name, COUNTS, &(texts.len() as u32).to_le_bytes());
        let column = self.next;
        self.append(name, "", &[]).append(name, ENDS, &[]);
        for text in texts {
            self.next = column;
            self.text(name, Some(text));
        }
        self
    }

    /// Ends a row.
    pub(super) fn end_row(&mut self) {
        self.next = 0;
        self.chunk.rows += 1;
    }

    /// Whether the chunk has no room for another row.
    pub(super) fn is_full(&self, rows: usize) -> bool {
        self.chunk.rows >= rows || self.bytes >= CHUNK_BYTES
    }

    pub(super) fn finish(self) -> Option<Chunk> {
        (self.chunk.rows > 0).then_some(self.chunk)
    }

    fn append(&mut self, name: &str, suffix: &str, value: &[u8]) -> &mut Self {
        self.bytes += value.len();
        self.column(name, suffix).extend_from_slice(value);
        self
    }

    fn column(&mut self, name: &str, suffix: &str) -> &mut Vec<u8> {
        let place = self.next;
        self.next += 1;
        let columns = &mut self.chunk.columns;
        if place == columns.len() {
            columns.push((format!("{name}{suffix}"), Vec::new()));
        }
        debug_assert_eq!(columns[place].0, format!("{name}{suffix}"), "every row writes the same columns");
        &mut columns[place].1
    }
}

/// Takes the columns of a chunk apart. Every column must be there, once, as long as its rows ask, and taken.
#[derive(Debug)]
pub(super) struct Reader<'chunk> {
    chunk: &'chunk Chunk,
    taken: usize,
}

impl<'chunk> Reader<'chunk> {
    pub(super) fn new(chunk: &'chunk Chunk) -> Result<Self> {
        if !(1..=CHUNK_ROWS).contains(&chunk.rows) {
            return Err(damaged(format!("a chunk has {} rows", chunk.rows)));
        }
        Ok(Self { chunk, taken: 0 })
    }

    /// A column as it lies.
    pub(super) fn raw(&mut self, name: &str) -> Result<&'chunk [u8]> {
        self.taken += 1;
        let mut found = self.chunk.columns.iter().filter(|column| column.0 == name);
        match (found.next(), found.next()) {
            (Some(column), None) => Ok(&column.1),
            (None, _) => Err(damaged(format!("the column {name} is missing"))),
            (Some(_), Some(_)) => Err(damaged(format!("the column {name} is there twice"))),
        }
    }

    /// A column of one value of N bytes a row.
    pub(super) fn fixed<const N: usize>(&mut self, name: &str) -> Result<&'chunk [[u8; N]]> {
        let (values, rest) = self.raw(name)?.as_chunks();
        if rest.is_empty() && values.len() == self.chunk.rows {
            Ok(values)
        } else {
            Err(damaged(format!("the column {name} is not {} values of {N} bytes", self.chunk.rows)))
        }
    }

    /// A column of one text a row.
    pub(super) fn text(&mut self, name: &str) -> Result<Texts<'chunk>> {
        self.some_texts(name, self.chunk.rows)
    }

    /// A column of some texts a row.
    pub(super) fn texts(&mut self, name: &str) -> Result<TextLists<'chunk>> {
        let mut ends = Vec::with_capacity(self.chunk.rows);
        let mut total = 0;
        for count in self.fixed(&format!("{name}{COUNTS}"))? {
            total += u32::from_le_bytes(*count) as usize;
            ends.push(total);
        }
        Ok(TextLists { texts: self.some_texts(name, total)?, ends })
    }

    fn some_texts(&mut self, name: &str, count: usize) -> Result<Texts<'chunk>> {
        let ends_name = format!("{name}{ENDS}");
        let (ends, rest) = self.raw(&ends_name)?.as_chunks::<4>();
        let bytes = self.raw(name)?;
        let strange = |what: &str| damaged(format!("the column {name} {what}"));
        if !rest.is_empty() || ends.len() != count {
            return Err(damaged(format!("the column {ends_name} is not {count} values of 4 bytes")));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| strange("is not UTF-8"))?;
        let mut last = 0;
        for end in ends {
            let end = u32::from_le_bytes(*end) as usize;
            if end < last || !text.is_char_boundary(end) {
                return Err(strange("ends in the middle of a character, or before it begins"));
            }
            last = end;
        }
        if last != text.len() {
            return Err(strange("is longer than its texts"));
        }
        Ok(Texts { text, ends })
    }

    /// Refuses columns that nobody asked for.
    pub(super) fn finish(self) -> Result<()> {
        if self.taken == self.chunk.columns.len() {
            Ok(())
        } else {
            Err(damaged(format!("it has {} columns, not {}", self.chunk.columns.len(), self.taken)))
        }
    }
}

/// Texts one behind the other.
#[derive(Debug)]
pub(super) struct Texts<'chunk> {
    text: &'chunk str,
    ends: &'chunk [[u8; 4]],
}

impl<'chunk> Texts<'chunk> {
    pub(super) fn get(&self, place: usize) -> Option<&'chunk str> {
        let end = |place: usize| self.ends.get(place).map_or(0, |end| u32::from_le_bytes(*end) as usize);
        let start = if place == 0 { 0 } else { end(place - 1) };
        self.text.get(start..end(place)).filter(|text| !text.is_empty())
    }
}

/// A list of texts for each row.
#[derive(Debug)]
pub(super) struct TextLists<'chunk> {
    texts: Texts<'chunk>,
    ends: Vec<usize>,
}

impl TextLists<'_> {
    pub(super) fn count(&self, row: usize) -> usize {
        self.places(row).len()
    }

    /// An empty element stays one, to be refused.
    pub(super) fn get(&self, row: usize) -> Vec<Box<str>> {
        self.places(row).map(|place| self.texts.get(place).unwrap_or_default().into()).collect()
    }

    fn places(&self, row: usize) -> Range<usize> {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        start..self.ends[row]
    }
}

/// What an import says of what it reads.
pub(super) fn damaged(message: impl Into<String>) -> Error {
    Error::Corrupt { what: "the snapshot".to_owned(), message: message.into() }
}
