//! The k best of a stream of scored rows.

use std::cmp::Ordering;

use super::Row;

/// Keeps the k best rows offered to it. Equal scores go to the smaller row, so the answer does not depend on the
/// order of the offers. NaN ranks below everything.
#[derive(Debug, Clone)]
pub struct TopK {
    /// A binary heap with the worst kept row on top.
    heap: Vec<(f32, Row)>,
    k: usize,
}

/// `Greater` when `left` is the better of the two.
#[inline]
fn compare(left: (f32, Row), right: (f32, Row)) -> Ordering {
    let key = |score: f32| if score.is_nan() { f32::NEG_INFINITY } else { score };
    key(left.0).total_cmp(&key(right.0)).then(right.1.cmp(&left.1))
}

impl TopK {
    /// Room for the `k` best; memory is taken as rows come, not ahead.
    pub fn new(k: usize) -> Self {
        Self { heap: Vec::with_capacity(k.min(1_024)), k }
    }

    /// The score that a row must reach to enter; minus infinity while there is room.
    #[inline]
    pub fn threshold(&self) -> f32 {
        if self.heap.len() < self.k {
            f32::NEG_INFINITY
        } else {
            self.heap.first().map_or(f32::INFINITY, |worst| worst.0)
        }
    }

    /// Offers a row.
    #[inline]
    pub fn offer(&mut self, score: f32, row: Row) {
        if self.heap.len() < self.k {
            self.heap.push((score, row));
            self.rise(self.heap.len() - 1);
        } else if let Some(worst) = self.heap.first()
            && compare((score, row), *worst) == Ordering::Greater
        {
            self.heap[0] = (score, row);
            self.sink();
        }
    }

    /// The kept rows, best first.
    pub fn into_sorted(mut self) -> Vec<(Row, f32)> {
        self.heap.sort_unstable_by(|left, right| compare(*right, *left));
        self.heap.into_iter().map(|(score, row)| (row, score)).collect()
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if compare(self.heap[place], self.heap[parent]) == Ordering::Less {
                self.heap.swap(place, parent);
                place = parent;
            } else {
                return;
            }
        }
    }

    fn sink(&mut self) {
        let mut place = 0;
        loop {
            let left = 2 * place + 1;
            let Some(first) = self.heap.get(left) else { return };
            let child = match self.heap.get(left + 1) {
                Some(second) if compare(*second, *first) == Ordering::Less => left + 1,
                _ => left,
            };
            if compare(self.heap[child], self.heap[place]) == Ordering::Less {
                self.heap.swap(place, child);
                place = child;
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_keeps_what_sorting_would(scores in prop::collection::vec(prop_oneof![
                9 => (0_u8..20).prop_map(|score| f32::from(score) / 4.0 - 2.0), 1 => Just(f32::NAN)], 0..200),
            k in 0_usize..30) {
            let mut top = TopK::new(k);
            for (row, score) in scores.iter().enumerate() {
                top.offer(*score, Row(row as u32));
            }
            let mut sorted: Vec<_> = scores.iter().enumerate().map(|(row, score)| (*score, Row(row as u32))).collect();
            sorted.sort_by(|left, right| compare(*right, *left));
            sorted.truncate(k);
            let kept: Vec<Row> = top.into_sorted().into_iter().map(|(row, _)| row).collect();
            prop_assert_eq!(kept, sorted.into_iter().map(|(_, row)| row).collect::<Vec<_>>());
        }
    }
}
