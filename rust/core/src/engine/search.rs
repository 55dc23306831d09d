//! The plan of a search: one mask, two arms, one ranking. Nothing on the way is visited twice.

use super::Engine;
use super::visibility::Viewer;
use super::write::Model;
use crate::base::{Error, MemoryId, Micros, Result, Row, Tier, TopK, limits};
use crate::index::vectors::{self, Plan, QueryVector, VectorIndex};
use crate::rank::{self, Arms};
use crate::store::Filter;

/// Candidates that each arm gives for each result asked for.
const CANDIDATES_PER_RESULT: usize = 4;

/// A question.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// Its words; empty leaves the keyword arm out.
    pub text: &'a str,
    /// Its meaning; `None` leaves the vector arm out.
    pub vector: Option<(&'a [f32], &'a Model)>,
    /// At most so many results.
    pub k: usize,
    /// Which memories.
    pub filter: Filter,
    /// Words that must occur in each result.
    pub must: Vec<String>,
    /// For whom.
    pub viewer: Viewer,
    /// Results with a lower score are left out.
    pub min_score: Option<f32>,
    /// When.
    pub now: Micros,
}

/// The answer as columns, best first.
#[derive(Debug, Clone, Default)]
pub struct Hits {
    /// Where each lies.
    pub rows: Vec<Row>,
    /// Its id.
    pub ids: Vec<MemoryId>,
    /// Its tier.
    pub tiers: Vec<Tier>,
    /// Relevance, strength and importance in one.
    pub scores: Vec<f32>,
    /// How well it answers, 0..1.
    pub relevance: Vec<f32>,
    /// How strongly it is remembered, 0..1.
    pub strength: Vec<f32>,
    /// How much it matters, 0..1.
    pub importance: Vec<f32>,
    /// Cosine to the question's vector; NaN without one.
    pub vector_scores: Vec<f32>,
    /// Share of the best BM25 that any text could get, 0..1; NaN when the question has no words.
    pub keyword_scores: Vec<f32>,
    /// How many memories the filter and the reader left to search.
    pub searched: usize,
    /// How the vector arm went about it.
    pub plan: Option<Plan>,
}

impl Hits {
    fn with_capacity(rows: usize) -> Self {
        Self {
            rows: Vec::with_capacity(rows),
            ids: Vec::with_capacity(rows),
            tiers: Vec::with_capacity(rows),
            scores: Vec::with_capacity(rows),
            relevance: Vec::with_capacity(rows),
            strength: Vec::with_capacity(rows),
            importance: Vec::with_capacity(rows),
            vector_scores: Vec::with_capacity(rows),
            keyword_scores: Vec::with_capacity(rows),
            searched: 0,
            plan: None,
        }
    }
}

/// The candidates of both arms by ascending row and, when there is a vector arm, their cosines: what it found brings its
/// own, the others' are looked up.
fn united(
    mut found: Vec<(Row, f32)>,
    listed: &[(Row, f32)],
    meaning: Option<(&QueryVector, &VectorIndex)>,
) -> (Vec<Row>, Option<Vec<f32>>) {
    let by_row = |(row, _): &(Row, f32)| *row;
    let Some((vector, index)) = meaning else {
        let mut rows: Vec<Row> = listed.iter().map(by_row).collect();
        rows.sort_unstable();
        return (rows, None);
    };
    found.sort_unstable_by_key(by_row);
    if !listed.is_empty() {
        let others = listed.iter().map(by_row).filter(|row| found.binary_search_by_key(row, by_row).is_err());
        let others: Vec<Row> = others.collect();
        found.extend(others.iter().copied().zip(index.cosines(vector, &others)));
        found.sort_unstable_by_key(by_row);
    }
    let (rows, cosines) = found.into_iter().unzip();
    (rows, Some(cosines))
}

impl Engine {
    /// The k best memories that match at all.
    pub fn search(&self, query: &Query<'_>) -> Result<Hits> {
        self.catch_up()?;
        if query.k == 0 || query.k > limits::RESULTS {
            return Err(Error::invalid("k", format!("{} is not between 1 and {}", query.k, limits::RESULTS)));
        }
        if query.text.len() > limits::QUERY_BYTES {
            return Err(Error::limit("bytes of query", query.text.len(), limits::QUERY_BYTES));
        }
        if query.vector.is_none() && query.text.trim().is_empty() {
            return Err(Error::invalid("query", "is empty and there is no vector; list() gives memories unasked"));
        }
        let vector = match query.vector {
            Some((values, model)) => Some((vectors::query_vector("vector", values, model.dimension)?, model)),
            None => None,
        };
        let picture = self.picture.read();
        let columns = &picture.columns;
        if let (Some((_, given)), Some(model)) = (&vector, &picture.model) {
            model.check_same(given)?;
        }
        let mask = Self::matching(&picture, &query.filter, &query.must, &query.viewer, query.now)?;
        let wanted = self.config.candidates.max(query.k * CANDIDATES_PER_RESULT);

        let words = picture.keywords.query(query.text);
        let words = (!words.is_empty()).then_some(words);
        let meaning = match (&vector, &picture.vectors) {
            (Some((vector, _)), Some(index)) => Some((vector, index)),
            _ => None,
        };
        let found = meaning.map(|(vector, index)| index.search(vector, &mask, wanted));
        let plan = found.as_ref().map(|found| found.plan);
        let listed = words.as_ref().map(|words| picture.keywords.search(words, &mask, wanted)).unwrap_or_default();
        let (candidates, cosine) = united(found.map(|found| found.rows).unwrap_or_default(), &listed, meaning);
        let keyword = words.as_ref().map(|words| (picture.keywords.scores(words, &candidates), words.ideal()));
        let arms = Arms {
            cosine: cosine.as_deref(),
            keyword: keyword.as_ref().map(|(scores, ideal)| (scores.as_slice(), *ideal)),
        };
        let mut relevance = vec![0.0; candidates.len()];
        let (mut by_vector, mut by_keyword) = (relevance.clone(), relevance.clone());
        rank::fuse(arms, self.config.laws.weights(), &mut relevance, &mut by_vector, &mut by_keyword);

        let laws = &self.config.laws;
        let strength =
            |row: Row| laws.strength(columns.tier(row), query.now, columns.last_used_at(row), columns.half_life(row));
        let mut best = TopK::new(query.k);
        for (place, row) in candidates.iter().enumerate() {
            let score = rank::score(
                relevance[place],
                strength(*row),
                columns.importance(*row),
                laws.strength_share,
                laws.importance_share,
            );
            if score > 0.0 && query.min_score.is_none_or(|least| score >= least) {
                best.offer(score, Row(place as u32));
            }
        }
        let best = best.into_sorted();
        let mut hits = Hits { searched: mask.count(), plan, ..Hits::with_capacity(best.len()) };
        for (place, score) in best {
            let place = place.index();
            let row = candidates[place];
            hits.rows.push(row);
            hits.ids.push(columns.id(row));
            hits.tiers.push(columns.tier(row));
            hits.scores.push(score);
            hits.relevance.push(relevance[place]);
            hits.strength.push(strength(row));
            hits.importance.push(columns.importance(row));
            hits.vector_scores.push(cosine.as_ref().map_or(f32::NAN, |cosine| cosine[place]));
            hits.keyword_scores.push(if keyword.is_some() { by_keyword[place] } else { f32::NAN });
        }
        Ok(hits)
    }
}
