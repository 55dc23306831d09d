//! In which rows a term stands, and how often: 128 postings to a packed block with its bounds, the newest as gaps of
//! variable length in the [`Pool`]. Rows only ever ascend, so a list only grows at its end.

mod persist;

use super::pool::{LONGEST, Pool, Slice};

/// Postings in a block.
pub(super) const BLOCK: usize = 128;
/// The longest posting in a tail: five bytes of gap and one of frequency.
const POSTING_BYTES: usize = 6;
const _: () = assert!(BLOCK * POSTING_BYTES <= LONGEST);
/// What may be read past the last packed gap.
const PADDING: usize = 8;

/// What bounds the score of some postings: no frequency is above, no text shorter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) frequency: u8,
    pub(super) length: u16,
}

impl Bound {
    const NOTHING: Self = Self { frequency: 0, length: u16::MAX };

    fn widen(&mut self, frequency: u8, length: u16) {
        self.frequency = self.frequency.max(frequency);
        self.length = self.length.min(length);
    }
}

#[derive(Debug, Clone, Copy)]
struct Block {
    first: u32,
    last: u32,
    /// Where its bytes begin: the gaps, then, if any frequency is above 1, a bit for each posting and a byte for each set bit.
    offset: u32,
    gap_bits: u8,
    bound: Bound,
}

/// The full blocks of one term.
#[derive(Debug, Clone, Default)]
struct Sealed {
    blocks: Vec<Block>,
    data: Vec<u8>,
}

const NO_BLOCKS: u32 = u32::MAX;

/// A term of two postings or more.
#[derive(Debug, Clone, Copy)]
struct List {
    tail: Slice,
    tail_count: u8,
    tail_bound: Bound,
    last: u32,
    sealed: u32,
}

/// A term's place in the dictionary. Most terms stand in one text, and those cost nothing more.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    One { row: u32, frequency: u8 },
    Many(u32),
}

/// All lists of one index.
#[derive(Debug, Clone, Default)]
pub(super) struct Lists {
    many: Vec<List>,
    sealed: Vec<Sealed>,
    pool: Pool,
}

impl Lists {
    /// Adds a posting to the list of `entry`. `row` is above every row in it.
    pub(super) fn push(&mut self, entry: &mut Entry, row: u32, frequency: u8, lengths: &[u16]) {
        let number = match *entry {
            Entry::Many(number) => number,
            Entry::One { row: first, frequency: once } => {
                let number = self.many.len() as u32;
                let tail = self.pool.allocate();
                self.many.push(List {
                    tail,
                    tail_count: 0,
                    tail_bound: Bound::NOTHING,
                    last: u32::MAX,
                    sealed: NO_BLOCKS,
                });
                self.add(number, first, once, lengths);
                *entry = Entry::Many(number);
                number
            }
        };
        self.add(number, row, frequency, lengths);
    }

    fn add(&mut self, number: u32, row: u32, frequency: u8, lengths: &[u16]) {
        let list = &mut self.many[number as usize];
        let (bytes, count) = posting(list.last, row, frequency);
        self.pool.append(&mut list.tail, &bytes[..count]);
        list.tail_count += 1;
        list.tail_bound.widen(frequency, lengths[row as usize]);
        list.last = row;
        if list.tail_count as usize == BLOCK {
            self.seal(number);
        }
    }

    fn seal(&mut self, number: u32) {
        let mut decoded = Decoded::default();
        let list = &mut self.many[number as usize];
        if list.sealed == NO_BLOCKS {
            list.sealed = self.sealed.len() as u32;
            self.sealed.push(Sealed::default());
        }
        let sealed = &mut self.sealed[list.sealed as usize];
        let before = sealed.blocks.last().map_or(u32::MAX, |block| block.last);
        decoded.read_tail(self.pool.bytes(list.tail), before);
        sealed.append(&decoded, list.tail_bound);
        Pool::clear(&mut list.tail);
        list.tail_count = 0;
        list.tail_bound = Bound::NOTHING;
    }

    /// The postings of a term, to be read.
    pub(super) fn read(&self, entry: Entry, lengths: &[u16]) -> Postings<'_> {
        match entry {
            Entry::One { row, frequency } => Postings {
                blocks: &[],
                data: &[],
                tail: Tail::One { row, frequency },
                tail_count: 1,
                tail_bound: Bound { frequency, length: lengths[row as usize] },
                last: row,
            },
            Entry::Many(number) => {
                let list = &self.many[number as usize];
                let (blocks, data) = match self.sealed.get(list.sealed as usize) {
                    Some(sealed) => (sealed.blocks.as_slice(), sealed.data.as_slice()),
                    None => (&[][..], &[][..]),
                };
                let before = blocks.last().map_or(u32::MAX, |block| block.last);
                Postings {
                    blocks,
                    data,
                    tail: Tail::Gaps { bytes: self.pool.bytes(list.tail), before },
                    tail_count: list.tail_count,
                    tail_bound: list.tail_bound,
                    last: list.last,
                }
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let sealed = |sealed: &Sealed| sealed.blocks.capacity() * size_of::<Block>() + sealed.data.capacity();
        self.many.capacity() * size_of::<List>()
            + self.sealed.capacity() * size_of::<Sealed>()
            + self.sealed.iter().map(sealed).sum::<usize>()
            + self.pool.heap_bytes()
    }
}

/// One posting of a tail, and how many of its bytes count. The first row is a gap from just below row 0.
fn posting(before: u32, row: u32, frequency: u8) -> ([u8; POSTING_BYTES], usize) {
    let gap = u64::from(row.wrapping_sub(before));
    let mut bytes = [0; POSTING_BYTES];
    let mut count = 0;
    let mut rest = gap << 1 | u64::from(frequency > 1);
    while rest >= 0x80 {
        bytes[count] = rest as u8 | 0x80;
        rest >>= 7;
        count += 1;
    }
    bytes[count] = rest as u8;
    count += 1;
    if frequency > 1 {
        bytes[count] = frequency;
        count += 1;
    }
    (bytes, count)
}

impl Sealed {
    fn append(&mut self, postings: &Decoded, bound: Bound) {
        let rows = &postings.rows;
        let largest = rows.windows(2).map(|pair| pair[1] - pair[0] - 1).max().unwrap_or(0);
        let gap_bits = u32::BITS - largest.leading_zeros();
        let bytes =
            ((BLOCK - 1) * gap_bits as usize).div_ceil(8) + if bound.frequency > 1 { BLOCK / 8 + BLOCK } else { 0 };
        // Growing by a quarter wastes less than doubling would, on lists that mostly stay as they are.
        let need = self.data.len() + bytes + PADDING;
        if need > self.data.capacity() {
            self.data.reserve_exact(need + self.data.len() / 4 - self.data.len());
        }
        self.data.truncate(self.data.len().saturating_sub(PADDING));
        let offset = self.data.len() as u32;
        let mut pending = 0_u64;
        let mut pending_bits = 0;
        for pair in rows.windows(2) {
            pending |= u64::from(pair[1] - pair[0] - 1) << pending_bits;
            pending_bits += gap_bits;
            while pending_bits >= 8 {
                self.data.push(pending as u8);
                pending >>= 8;
                pending_bits -= 8;
            }
        }
        if pending_bits > 0 {
            self.data.push(pending as u8);
        }
        if bound.frequency > 1 {
            for group in postings.frequencies.chunks(8) {
                let bits = group
                    .iter()
                    .enumerate()
                    .fold(0_u8, |bits, (bit, frequency)| bits | u8::from(*frequency > 1) << bit);
                self.data.push(bits);
            }
            self.data.extend(postings.frequencies.iter().filter(|frequency| **frequency > 1));
        }
        self.data.extend([0; PADDING]);
        self.blocks.push(Block { first: rows[0], last: rows[BLOCK - 1], offset, gap_bits: gap_bits as u8, bound });
    }
}

/// One block or tail in the clear.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoded {
    pub(super) rows: [u32; BLOCK],
    pub(super) frequencies: [u8; BLOCK],
    pub(super) count: usize,
}

impl Default for Decoded {
    fn default() -> Self {
        Self { rows: [0; BLOCK], frequencies: [1; BLOCK], count: 0 }
    }
}

impl Decoded {
    fn read_tail(&mut self, bytes: &[u8], before: u32) {
        let mut row = before;
        let mut count = 0;
        let mut bytes = bytes.iter();
        while let Some(byte) = bytes.next() {
            let mut value = u64::from(byte & 0x7f);
            let mut shift = 7;
            let mut more = byte & 0x80 != 0;
            while more && let Some(byte) = bytes.next() {
                value |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                more = byte & 0x80 != 0;
            }
            row = row.wrapping_add((value >> 1) as u32);
            self.rows[count] = row;
            self.frequencies[count] = if value & 1 == 1 { bytes.next().map_or(1, |byte| *byte) } else { 1 };
            count += 1;
        }
        self.count = count;
    }

    fn read_block(&mut self, block: &Block, data: &[u8]) {
        let data = &data[block.offset as usize..];
        let bits = block.gap_bits as usize;
        let keep = (1_u64 << bits) - 1;
        let mut row = block.first;
        self.rows[0] = row;
        let mut place = 0;
        for slot in &mut self.rows[1..] {
            let mut word = [0; 8];
            word.copy_from_slice(&data[place >> 3..(place >> 3) + 8]);
            row += (u64::from_le_bytes(word) >> (place & 7) & keep) as u32 + 1;
            *slot = row;
            place += bits;
        }
        self.frequencies.fill(1);
        if block.bound.frequency > 1 {
            let flags = &data[place.div_ceil(8)..];
            let mut above = &flags[BLOCK / 8..];
            for (group, flags) in flags[..BLOCK / 8].iter().enumerate() {
                let mut rest = *flags;
                while rest != 0 {
                    self.frequencies[group * 8 + rest.trailing_zeros() as usize] = above[0];
                    above = &above[1..];
                    rest &= rest - 1;
                }
            }
        }
        self.count = BLOCK;
    }
}

#[derive(Debug, Clone, Copy)]
enum Tail<'a> {
    One { row: u32, frequency: u8 },
    Gaps { bytes: &'a [u8], before: u32 },
}

/// The postings of one term, block by block; the tail is the last block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Postings<'a> {
    blocks: &'a [Block],
    data: &'a [u8],
    tail: Tail<'a>,
    tail_count: u8,
    tail_bound: Bound,
    last: u32,
}

impl Postings<'_> {
    /// In how many rows the term stands.
    pub(super) fn len(&self) -> usize {
        self.blocks.len() * BLOCK + self.tail_count as usize
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks.len() + usize::from(self.tail_count > 0)
    }

    /// A row that is not above any row of the block.
    pub(super) fn first(&self, block: usize) -> u32 {
        match (self.blocks.get(block), self.tail) {
            (Some(block), _) => block.first,
            (None, Tail::One { row, .. }) => row,
            (None, Tail::Gaps { before, .. }) => before.wrapping_add(1),
        }
    }

    /// The last row of the block.
    pub(super) fn last(&self, block: usize) -> u32 {
        self.blocks.get(block).map_or(self.last, |block| block.last)
    }

    pub(super) fn bound(&self, block: usize) -> Bound {
        self.blocks.get(block).map_or(self.tail_bound, |block| block.bound)
    }

    pub(super) fn decode(&self, block: usize, into: &mut Decoded) {
        match (self.blocks.get(block), self.tail) {
            (Some(block), _) => into.read_block(block, self.data),
            (None, Tail::One { row, frequency }) => {
                into.rows[0] = row;
                into.frequencies[0] = frequency;
                into.count = 1;
            }
            (None, Tail::Gaps { bytes, before }) => into.read_tail(bytes, before),
        }
    }
}
