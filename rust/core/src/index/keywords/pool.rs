//! Memory for very many short byte strings that grow at their end: slices of pages, in sizes of a power of two, reused
//! when a string has outgrown them. A `Vec` for each would cost more than most of them hold.

const PAGE_BYTES: usize = 64 * 1024;
/// Slices begin at multiples of this.
const UNIT: usize = 8;
const UNITS_PER_PAGE: usize = PAGE_BYTES / UNIT;
/// Slices are of `UNIT << size` bytes.
const SIZES: usize = 8;
/// The longest string.
pub(super) const LONGEST: usize = UNIT << (SIZES - 1);

/// One string of the pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    /// In units from the start of the first page.
    at: u32,
    used: u16,
    size: u8,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    pages: Vec<Box<[u8]>>,
    /// Bytes of the last page that are given out.
    filled: usize,
    free: [Vec<u32>; SIZES],
}

impl Pool {
    pub(super) fn allocate(&mut self) -> Slice {
        Slice { at: self.take(0), used: 0, size: 0 }
    }

    fn take(&mut self, size: usize) -> u32 {
        if let Some(at) = self.free[size].pop() {
            return at;
        }
        let bytes = UNIT << size;
        if self.pages.is_empty() || self.filled + bytes > PAGE_BYTES {
            self.pages.push(vec![0; PAGE_BYTES].into_boxed_slice());
            self.filled = 0;
        }
        let at = (self.pages.len() - 1) * UNITS_PER_PAGE + self.filled / UNIT;
        self.filled += bytes;
        at as u32
    }

    pub(super) fn bytes(&self, slice: Slice) -> &[u8] {
        let (page, start) = place(slice.at);
        &self.pages[page][start..start + slice.used as usize]
    }

    /// Puts bytes at the end of the string. It never passes [`LONGEST`]: the owner empties it before.
    pub(super) fn append(&mut self, slice: &mut Slice, bytes: &[u8]) {
        while slice.used as usize + bytes.len() > UNIT << slice.size {
            let larger = self.take(slice.size as usize + 1);
            let (old_page, old_start) = place(slice.at);
            let (page, start) = place(larger);
            for offset in 0..slice.used as usize {
                self.pages[page][start + offset] = self.pages[old_page][old_start + offset];
            }
            self.free[slice.size as usize].push(slice.at);
            *slice = Slice { at: larger, used: slice.used, size: slice.size + 1 };
        }
        let (page, start) = place(slice.at);
        let start = start + slice.used as usize;
        self.pages[page][start..start + bytes.len()].copy_from_slice(bytes);
        slice.used += bytes.len() as u16;
    }

    /// Empties the string; its slice stays.
    pub(super) fn clear(slice: &mut Slice) {
        slice.used = 0;
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.pages.len() * (PAGE_BYTES + size_of::<Box<[u8]>>())
            + self.free.iter().map(|free| free.capacity() * size_of::<u32>()).sum::<usize>()
    }
}

fn place(at: u32) -> (usize, usize) {
    (at as usize / UNITS_PER_PAGE, at as usize % UNITS_PER_PAGE * UNIT)
}
