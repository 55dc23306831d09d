//! Chunks of codes and of f16 values as bytes and back.

use zerocopy::{FromBytes, IntoBytes};

use super::{CHUNK_ROWS, Chunk, Codes, HalfChunk, Halves, Line, split};
use crate::base::{Blob, Reader, Result, Row, limits};

/// How many rows each chunk has, as it was saved.
fn take_chunk_rows(reader: &mut Reader<'_>) -> Result<Vec<usize>> {
    let count = reader.count(4)?;
    reader.check(count <= limits::ROWS / CHUNK_ROWS, "it has too many chunks")?;
    let rows: Vec<usize> = reader.u32s(count)?.map(|rows| rows as usize).collect();
    reader.check(rows.iter().all(|rows| *rows <= CHUNK_ROWS), "a chunk is too long")?;
    Ok(rows)
}

impl Codes {
    /// Rows of each chunk.
    pub(in crate::index::vectors) fn chunk_rows(&self) -> Vec<usize> {
        self.chunks.iter().map(|chunk| chunk.factors.len()).collect()
    }

    /// Whether the row's place is there.
    pub(in crate::index::vectors) fn has_room(&self, row: Row) -> bool {
        let (chunk, place) = split(row);
        self.chunks.get(chunk).is_some_and(|chunk| place < chunk.factors.len())
    }

    /// Appends the first rows of a chunk.
    pub(in crate::index::vectors) fn put_chunk(&self, chunk: usize, rows: usize, into: &mut Vec<u8>) {
        let chunk = &self.chunks[chunk];
        into.reserve(rows * (self.row_bytes() + 8));
        for line in &chunk.lines[..rows * self.lines_per_row] {
            into.extend_from_slice(line.0.as_bytes());
        }
        for column in [&chunk.factors, &chunk.inverse_norms] {
            into.extend(column[..rows].iter().flat_map(|value| value.to_le_bytes()));
        }
    }

    /// The codes as they were saved.
    pub(in crate::index::vectors) fn take(reader: &mut Reader<'_>, dimension: usize) -> Result<Self> {
        let mut codes = Self::new(dimension);
        for rows in take_chunk_rows(reader)? {
            let lines = reader.take(rows * codes.row_bytes())?;
            let (lines, _) = <[[i8; Line::CODES]]>::ref_from_prefix(lines).map_err(|_| reader.fault("no lines"))?;
            let chunk = Chunk {
                lines: lines.iter().map(|line| Line(*line)).collect(),
                factors: reader.f32s(rows)?.collect(),
                inverse_norms: reader.f32s(rows)?.collect(),
            };
            codes.largest_factor = chunk.factors.iter().fold(codes.largest_factor, |most, factor| most.max(*factor));
            codes.chunks.push(chunk);
        }
        Ok(codes)
    }
}

impl Halves {
    /// Where the values begin among the bytes, a multiple of this.
    pub(in crate::index::vectors) const ALIGNMENT: usize = 64;

    /// Rows of each chunk.
    pub(in crate::index::vectors) fn chunk_rows(&self) -> Vec<usize> {
        self.chunks.iter().map(|chunk| chunk.values().len() / self.dimension).collect()
    }

    /// Whether the row's place is there.
    pub(in crate::index::vectors) fn has_room(&self, row: Row) -> bool {
        let (chunk, place) = split(row);
        self.chunks.get(chunk).is_some_and(|chunk| place < chunk.values().len() / self.dimension)
    }

    /// Appends the first rows of a chunk.
    pub(in crate::index::vectors) fn put_chunk(&self, chunk: usize, rows: usize, into: &mut Vec<u8>) {
        let values = &self.chunks[chunk].values()[..rows * self.dimension];
        if cfg!(target_endian = "little") {
            into.extend_from_slice(values.as_bytes());
        } else {
            into.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
    }

    /// The values as they were saved, left where they lie if this machine can read them there.
    pub(in crate::index::vectors) fn from_blob(blob: &Blob, dimension: usize) -> Result<Self> {
        let bytes = blob.bytes();
        let mut reader = Reader::new("the saved vectors", bytes);
        let found = reader.u64()?;
        reader.check(found == dimension as u64, "they have another dimension")?;
        let rows = take_chunk_rows(&mut reader)?;
        let mut start = (bytes.len() - reader.left()).next_multiple_of(Self::ALIGNMENT);
        let mut halves = Self::new(dimension);
        for rows in rows {
            let end = start + rows * dimension * size_of::<u16>();
            let part = blob.part(start, end).ok_or_else(|| reader.fault("the values of a chunk are missing"))?;
            halves.chunks.push(match part.numbers() {
                Some(_) => HalfChunk::Saved(part),
                None => {
                    HalfChunk::Own(Reader::new("the saved vectors", part.bytes()).u16s(rows * dimension)?.collect())
                }
            });
            start = end;
        }
        reader.check(start == bytes.len() || halves.chunks.is_empty(), "they go on where they should end")?;
        Ok(halves)
    }

    /// Gives whole chunks in RAM up for the same ones elsewhere.
    pub(in crate::index::vectors) fn serve_from(&mut self, saved: Self) {
        let whole = CHUNK_ROWS * self.dimension;
        for (chunk, saved) in self.chunks.iter_mut().zip(saved.chunks) {
            if chunk.values().len() == whole && saved.values().len() == whole {
                *chunk = saved;
            }
        }
    }
}
