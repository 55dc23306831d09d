//! A question as the index reads it: its terms, and how much each of them says.

use rustc_hash::FxHashMap;

use super::tokenizer::{Kind, tokenize};

/// Terms that count in one query: of a longer one, those that weigh most.
pub(super) const TERMS: usize = 1_024;

/// Rarity counts more than BM25's logarithm says: a name that nobody else has is what a question to a memory turns on.
const RARITY: f32 = 1.75;

/// A question, ready for [`KeywordIndex::search`](super::KeywordIndex::search) and [`KeywordIndex::scores`](super::KeywordIndex::scores)
/// of the index that made it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// Each term once, with its weight: idf·(k1 + 1) and what it is of its text.
    pub(super) terms: Vec<(u64, f32)>,
    ideal: f32,
}

#[derive(Debug, Clone, Copy)]
struct Use {
    count: u32,
    share: f32,
    /// The term whose rarity it has.
    rarity: u64,
}

impl Query {
    /// `idf` gives the inverse document frequency of a term, `gain` is k1 + 1.
    pub(super) fn new(text: &str, idf: impl Fn(u64) -> f32, gain: f32) -> Self {
        let mut uses: FxHashMap<u64, Use> = FxHashMap::default();
        let mut hashes = Vec::new();
        let mut before = 0;
        tokenize(text, |token| {
            let one = uses.entry(token.hash).or_insert_with(|| {
                hashes.push(token.hash);
                // An exact word is rarer than its stem, often unknown, and says no more than the stem for that.
                Use { count: 0, share: 0.0, rarity: if token.kind == Kind::Exact { before } else { token.hash } }
            });
            one.count += 1;
            one.share = one.share.max(share(token.kind));
            before = token.hash;
        });
        let mut terms: Vec<(u64, f32)> = hashes
            .into_iter()
            .map(|hash| {
                let Use { count, share, rarity } = uses[&hash];
                // Said twice is meant more, but not twice as much.
                (hash, share * (count as f32).sqrt() * idf(rarity).powf(RARITY) * gain)
            })
            .collect();
        terms.sort_unstable_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        terms.truncate(TERMS);
        let ideal = terms.iter().map(|(_, weight)| *weight).sum();
        Self { terms, ideal }
    }

    /// The best score that any text could get; 0 for a query without terms. A score over this is a share from 0 to 1.
    /// Words that stand nowhere count, so a question of which half is unknown is at most half answered.
    pub fn ideal(&self) -> f32 {
        self.ideal
    }

    /// Whether the text had no term.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

/// What a term of this kind says beside a plain word. A text of n characters without spaces has n singles and n − 1 pairs where
/// English has one word for two or three of them, so singles say less; an exact word repeats its stem; an id is one
/// thing and outweighs the phrase around it.
fn share(kind: Kind) -> f32 {
    match kind {
        Kind::Word | Kind::Pair => 1.0,
        Kind::Whole => 1.5,
        Kind::Part | Kind::HalfPair => 0.5,
        Kind::Exact | Kind::Single => 0.4,
        Kind::FunctionPair => 0.2,
        Kind::Function => 0.15,
        Kind::FunctionSingle => 0.05,
    }
}
