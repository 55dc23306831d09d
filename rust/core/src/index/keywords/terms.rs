//! One analysed text: which terms it has and how often.

use super::tokenizer::tokenize;

/// The terms of one text, by the hash of their spelling. Two texts with the same terms are equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// Ascending by hash, each once.
    counts: Vec<(u64, u32)>,
    length: u32,
}

/// Cuts a text into its terms. Pure, and linear in the length of the text: it can run before any lock is taken.
pub fn analyze(text: &str) -> Terms {
    let mut hashes = Vec::with_capacity(text.len() / 2 + 1);
    let mut length = 0;
    tokenize(text, |token| {
        hashes.push(token.hash);
        length += u32::from(token.counted);
    });
    hashes.sort_unstable();
    let mut counts: Vec<(u64, u32)> = Vec::with_capacity(hashes.len());
    for hash in hashes {
        match counts.last_mut() {
            Some((last, count)) if *last == hash => *count += 1,
            _ => counts.push((hash, 1)),
        }
    }
    Terms { counts, length }
}

impl Terms {
    /// The length of the text: its words, and the characters of what is written without spaces.
    pub fn len_tokens(&self) -> u32 {
        self.length
    }

    /// Whether the text has no term at all.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The hash of each term, ascending.
    pub fn distinct(&self) -> impl Iterator<Item = u64> + '_ {
        self.counts.iter().map(|(hash, _)| *hash)
    }

    /// The hash of each term with its number of occurrences, ascending by hash.
    pub(super) fn counts(&self) -> &[(u64, u32)] {
        &self.counts
    }

    /// Jaccard similarity of the two sets of terms: what they share over what either has. 1 for two texts without terms.
    pub fn jaccard(&self, other: &Self) -> f32 {
        let (mut left, mut right) = (self.counts.as_slice(), other.counts.as_slice());
        let mut shared = 0_usize;
        while let ([(one, _), rest @ ..], [(two, _), other_rest @ ..]) = (left, right) {
            shared += usize::from(one == two);
            if one <= two {
                left = rest;
            }
            if two <= one {
                right = other_rest;
            }
        }
        let either = self.counts.len() + other.counts.len() - shared;
        if either == 0 { 1.0 } else { shared as f32 / either as f32 }
    }
}
