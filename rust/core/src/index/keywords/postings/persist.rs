//! One list as bytes and back: its full blocks as they lie, and the rest as a tail.

use super::{BLOCK, Block, Bound, Decoded, Entry, List, Lists, NO_BLOCKS, PADDING, Sealed, posting};
use crate::base::{Reader, Result, put_count};

/// Bytes of a block's description.
const BLOCK_BYTES: usize = 16;

impl Lists {
    /// How many lists there are. The lists before are never renumbered.
    pub(in crate::index::keywords) fn len(&self) -> usize {
        self.many.len()
    }

    /// Appends the postings of a list that are of rows below `rows`, which may have more by now.
    pub(in crate::index::keywords) fn put(&self, number: usize, rows: u32, lengths: &[u16], into: &mut Vec<u8>) {
        let postings = self.read(Entry::Many(number as u32), lengths);
        let full = postings.blocks.partition_point(|block| block.last < rows);
        let data = match postings.blocks.get(full) {
            Some(next) => &postings.data[..next.offset as usize],
            None => postings.data.strip_suffix(&[0; PADDING]).unwrap_or(postings.data),
        };
        into.extend_from_slice(&(full as u32).to_le_bytes());
        for block in &postings.blocks[..full] {
            into.extend_from_slice(&block.first.to_le_bytes());
            into.extend_from_slice(&block.last.to_le_bytes());
            into.extend_from_slice(&block.offset.to_le_bytes());
            into.extend_from_slice(&[block.gap_bits, block.bound.frequency]);
            into.extend_from_slice(&block.bound.length.to_le_bytes());
        }
        put_count(data.len(), into);
        into.extend_from_slice(data);
        // What was a tail when the saving began may have become a block since, or a part of one.
        let mut decoded = Decoded::default();
        let mut before = postings.blocks[..full].last().map_or(u32::MAX, |block| block.last);
        let start = into.len();
        into.extend_from_slice(&[0; 3]);
        let mut count = 0;
        if full < postings.blocks() {
            postings.decode(full, &mut decoded);
            let held = decoded.rows[..decoded.count].iter().zip(decoded.frequencies);
            for (row, frequency) in held.take_while(|(row, _)| **row < rows) {
                let (bytes, length) = posting(before, *row, frequency);
                into.extend_from_slice(&bytes[..length]);
                before = *row;
                count += 1;
            }
        }
        let length = (into.len() - start - 3) as u16;
        into[start] = count;
        into[start + 1..start + 3].copy_from_slice(&length.to_le_bytes());
    }

    /// Takes the next list as it was saved.
    pub(in crate::index::keywords) fn take(&mut self, reader: &mut Reader<'_>, lengths: &[u16]) -> Result<()> {
        let rows = lengths.len();
        let blocks = reader.u32()? as usize;
        reader.check(blocks <= reader.left() / BLOCK_BYTES, "it counts more blocks than it can hold")?;
        let mut sealed = Sealed { blocks: Vec::with_capacity(blocks), data: Vec::new() };
        for _ in 0..blocks {
            let (first, last, offset) = (reader.u32()?, reader.u32()?, reader.u32()?);
            let (gap_bits, frequency) = (reader.u8()?, reader.u8()?);
            let bound = Bound { frequency, length: reader.u16()? };
            sealed.blocks.push(Block { first, last, offset, gap_bits, bound });
        }
        let length = reader.count(1)?;
        let data = reader.take(length)?;
        let mut before = u32::MAX;
        if blocks > 0 {
            sealed.data.reserve_exact(length + PADDING);
            sealed.data.extend_from_slice(data);
            sealed.data.extend([0; PADDING]);
        }
        for block in &sealed.blocks {
            let follows = block.first > before || before == u32::MAX;
            let sound = follows && is_sound(block, &sealed.data) && (block.last as usize) < rows;
            reader.check(sound, "a block contradicts itself")?;
            before = block.last;
        }
        let (count, length) = (reader.u8()? as usize, reader.u16()? as usize);
        let bytes = reader.take(length)?;
        reader.check(blocks > 0 || count > 0, "a list is empty")?;
        let (last, tail_bound) = check_tail(bytes, count, before, lengths)
            .ok_or_else(|| reader.fault("the end of a list contradicts itself"))?;
        let mut tail = self.pool.allocate();
        self.pool.append(&mut tail, bytes);
        let mut taken = List { tail, tail_count: count as u8, tail_bound, last, sealed: NO_BLOCKS };
        if blocks > 0 {
            taken.sealed = self.sealed.len() as u32;
            self.sealed.push(sealed);
        }
        self.many.push(taken);
        Ok(())
    }
}

/// Whether a block can be decoded: everything it asks for is there, and it ends where it says.
fn is_sound(block: &Block, data: &[u8]) -> bool {
    let bits = block.gap_bits as usize;
    if bits > u32::BITS as usize {
        return false;
    }
    let Some(data) = data.get(block.offset as usize..) else { return false };
    let gaps = (BLOCK - 1) * bits;
    if gaps / 8 + PADDING > data.len() {
        return false;
    }
    let keep = (1_u64 << bits) - 1;
    let mut row = u64::from(block.first);
    for place in (0..gaps).step_by(bits.max(1)).take(if bits == 0 { 0 } else { BLOCK - 1 }) {
        let Some(word) = data[place >> 3..].first_chunk() else { return false };
        row += (u64::from_le_bytes(*word) >> (place & 7) & keep) + 1;
    }
    if bits == 0 {
        row += BLOCK as u64 - 1;
    }
    let flags = gaps.div_ceil(8);
    let frequencies = block.bound.frequency <= 1
        || data.get(flags..flags + BLOCK / 8).is_some_and(|flagged| {
            let above: u32 = flagged.iter().map(|flags| flags.count_ones()).sum();
            flags + BLOCK / 8 + above as usize <= data.len()
        });
    row == u64::from(block.last) && frequencies
}

/// The last row of a tail and what bounds its postings; nothing when it is no tail of so many postings.
fn check_tail(bytes: &[u8], count: usize, before: u32, lengths: &[u16]) -> Option<(u32, Bound)> {
    if count >= BLOCK {
        return None;
    }
    let mut bound = Bound::NOTHING;
    // One more than the row before.
    let mut next = u64::from(before.wrapping_add(1));
    let mut last = before;
    let mut bytes = bytes.iter();
    for _ in 0..count {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = bytes.next()?;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 35 {
                return None;
            }
        }
        let row = next.checked_add((value >> 1).checked_sub(1)?)?;
        let length = *lengths.get(usize::try_from(row).ok()?)?;
        let frequency = if value & 1 == 1 { *bytes.next()? } else { 1 };
        bound.widen(frequency, length);
        last = row as u32;
        next = row + 1;
    }
    bytes.next().is_none().then_some((last, bound))
}
