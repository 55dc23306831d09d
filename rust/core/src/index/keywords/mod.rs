//! F1: which rows have which words, and how well they answer a question (BM25).
//!
//! Owns the analysis of texts ([`analyze`], pure) and an inverted index over rows in RAM ([`KeywordIndex`]). Calls nothing but `base`.
//!
//! Promises: any text is taken, in any language, in time linear in its length; rows are added in ascending order and never
//! taken out (the mask of a search hides the dead, so statistics do not depend on when a store was reopened);
//! [`KeywordIndex::search`] gives exactly the best rows of the mask, and [`KeywordIndex::scores`] gives the same numbers.
//!
//! The score of a text is Σ w·tf·(k1 + 1) / (tf + k1·(1 − b + b·length/average)) over the terms of the query, where
//! w = s·√(uses in the query)·idf^1.75 and idf = ln(1 + (n − df + ½)/(df + ½)); s says what the term is (a word 1, a single Chinese
//! character or a function word less, an id more). Frequencies above 255 and lengths above 65,535 count as these.

mod function_words;
mod normalize;
mod persist;
mod pool;
mod postings;
mod query;
mod search;
mod stem;
mod terms;
mod tokenizer;

#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;

pub use self::persist::KeywordsSaver;
use self::postings::{Entry, Lists};
pub use self::query::Query;
use self::search::{Cursor, Norm, Scale};
pub use self::terms::{Terms, analyze};
use self::tokenizer::{Kind, tokenize};
use crate::base::{Error, Result, Row, RowSet, limits};

/// Texts, with other words, that every store is taken to hold besides its own. With a handful of memories the word they
/// share is still a rare word of the language, and its match has to count for something.
const UNSEEN_TEXTS: f32 = 30.0;

/// A number that is another one when texts are cut into other terms: an index that was saved before is then of no use.
pub fn fingerprint() -> u64 {
    const TEXT: &str = "The runners' Naïve café-owners were re-reading 3.50 mails (user@example.org, ISSUE-1024, v2.0.1) at \
        10:30; getUserName() studies companies' children, ＦＵＬＬ１２３ ﬁne. 主任李明的邮件要正式，会议改到8月3日。東京タワー 한국어 ÅNGSTRÖM ß";
    let terms = analyze(TEXT);
    let bytes = terms.counts().iter().flat_map(|(hash, count)| [*hash, u64::from(*count)]).flat_map(u64::to_le_bytes);
    let bytes: Vec<u8> = bytes.chain(u64::from(terms.len_tokens()).to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

/// The two constants of BM25.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeywordConfig {
    /// How much a second occurrence adds; at 0 none. From 0 to 1,000; other values are taken as the nearest, NaN as 0.
    pub k1: f32,
    /// How much a long text is held against it, from 0 to 1; other values are taken as the nearest, NaN as 0.
    pub b: f32,
}

impl Default for KeywordConfig {
    fn default() -> Self {
        Self { k1: 0.9, b: 0.4 }
    }
}

/// The inverted index over the texts of one store.
#[derive(Debug, Clone)]
pub struct KeywordIndex {
    k1: f32,
    b: f32,
    terms: FxHashMap<u64, Entry>,
    lists: Lists,
    /// The length of each row's text, 0 for rows that were never added.
    lengths: Vec<u16>,
    rows: usize,
    total_length: u64,
}

impl KeywordIndex {
    /// An empty index.
    pub fn new(config: KeywordConfig) -> Self {
        Self {
            k1: if config.k1.is_nan() { 0.0 } else { config.k1.clamp(0.0, 1_000.0) },
            b: if config.b.is_nan() { 0.0 } else { config.b.clamp(0.0, 1.0) },
            terms: FxHashMap::default(),
            lists: Lists::default(),
            lengths: Vec::new(),
            rows: 0,
            total_length: 0,
        }
    }

    /// Adds the text of a row. Rows come in ascending order, with gaps if need be; one that does not, or that is over
    /// [`limits::ROWS`], is ignored. Takes 2 bytes for each row of a gap.
    pub fn insert(&mut self, row: Row, terms: &Terms) {
        if row.index() < self.lengths.len() || row.index() >= limits::ROWS {
            return;
        }
        let length = u16::try_from(terms.len_tokens()).unwrap_or(u16::MAX);
        self.lengths.resize(row.index(), 0);
        self.lengths.push(length);
        self.rows += 1;
        self.total_length += u64::from(length);
        for (hash, count) in terms.counts() {
            let frequency = u8::try_from(*count).unwrap_or(u8::MAX);
            match self.terms.entry(*hash) {
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(Entry::One { row: row.0, frequency });
                }
                std::collections::hash_map::Entry::Occupied(mut place) => {
                    self.lists.push(place.get_mut(), row.0, frequency, &self.lengths);
                }
            }
        }
    }

    /// How many texts were added.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many different terms they have.
    pub fn distinct_terms(&self) -> usize {
        self.terms.len()
    }

    /// The bytes it holds on the heap, room to grow included.
    pub fn heap_bytes(&self) -> usize {
        // A hash map fills at most 7/8 of a power of two of places, each with one byte of its own.
        let places = if self.terms.capacity() == 0 { 0 } else { (self.terms.capacity() * 8 / 7).next_power_of_two() };
        places * (size_of::<(u64, Entry)>() + 1) + self.lengths.capacity() * size_of::<u16>() + self.lists.heap_bytes()
    }

    /// The question that a text asks of the index as it stands now.
    pub fn query(&self, text: &str) -> Query {
        let rows = self.rows as f32 + UNSEEN_TEXTS;
        let idf = |hash| {
            let frequency =
                self.terms.get(&hash).map_or(0, |entry| self.lists.read(*entry, &self.lengths).len()) as f32;
            (1.0 + (rows - frequency + 0.5) / (frequency + 0.5)).ln()
        };
        Query::new(text, idf, self.k1 + 1.0)
    }

    /// The `k` best rows of the mask with their BM25, best first; equal scores by ascending row. Rows in which no term of the query
    /// stands are not among them.
    pub fn search(&self, query: &Query, mask: &RowSet, k: usize) -> Vec<(Row, f32)> {
        if k == 0 || query.is_empty() {
            return Vec::new();
        }
        let scale = Scale::new(query.ideal());
        let mut cursors = self.cursors(query, scale);
        search::search(&mut cursors, mask, k, self.norm(), scale, &self.lengths)
    }

    /// The BM25 of these rows, in their order: what [`search`](Self::search) would give them, 0 where no term stands.
    pub fn scores(&self, query: &Query, rows: &[Row]) -> Vec<f32> {
        if query.is_empty() {
            return vec![0.0; rows.len()];
        }
        let scale = Scale::new(query.ideal());
        let mut cursors = self.cursors(query, scale);
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        order.sort_by_key(|place| rows[*place as usize]);
        let ascending: Vec<u32> = order.iter().map(|place| rows[*place as usize].0).collect();
        let sums = search::sums(&mut cursors, &ascending, self.norm(), &self.lengths);
        let mut scores = vec![0.0; rows.len()];
        for (place, sum) in order.into_iter().zip(sums) {
            scores[place as usize] = scale.score(sum);
        }
        scores
    }

    /// The rows whose text contains the keyword: every word of it in any inflection, ids and numbers as they are, characters written
    /// without spaces pair by pair. The order of the words is not looked at. A keyword without a letter or digit is
    /// refused: it would either ask for nothing or find nothing, and neither is what the caller meant.
    pub fn rows_with(&self, keyword: &str) -> Result<RowSet> {
        let mut hashes = Vec::new();
        tokenize(keyword, |token| {
            // The stem stands beside it.
            if token.kind != Kind::Exact {
                hashes.push(token.hash);
            }
        });
        if hashes.is_empty() {
            let shown: String = keyword.chars().take(64).collect();
            return Err(Error::invalid("must", format!("{shown:?} has no letter or digit to look for")));
        }
        hashes.sort_unstable();
        hashes.dedup();
        let entries: Option<Vec<_>> = hashes
            .iter()
            .map(|hash| self.terms.get(hash).map(|entry| self.lists.read(*entry, &self.lengths)))
            .collect();
        Ok(entries.map_or_else(RowSet::new, search::intersect))
    }

    fn norm(&self) -> Norm {
        Norm::new(self.k1, self.b, self.total_length as f32 / self.rows.max(1) as f32)
    }

    fn cursors(&self, query: &Query, scale: Scale) -> Vec<Cursor<'_>> {
        query
            .terms
            .iter()
            .filter_map(|(hash, weight)| {
                let entry = self.terms.get(hash)?;
                Some(Cursor::new(self.lists.read(*entry, &self.lengths), *weight, scale))
            })
            .collect()
    }
}
