//! What a reader asks for, compiled once to a set of rows.

use std::cmp::Ordering;

pub use super::metadata::Value;

use super::Columns;
use crate::base::{Error, MemoryId, Micros, Result, Row, RowSet, Source, Tier, limits};

/// What a condition looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// The id.
    Id,
    /// The tier's name.
    Tier,
    /// The session; null when there is none.
    Session,
    /// Whom or what it concerns; null when it is general.
    About,
    /// The tags: a condition holds when it holds for one of them.
    Tags,
    /// The labels: likewise.
    Labels,
    /// The source's name.
    Source,
    /// The trust.
    Trust,
    /// The importance.
    Importance,
    /// When it was written, in seconds since 1970.
    CreatedAt,
    /// When it was last used, in seconds since 1970.
    LastUsedAt,
    /// When it ends, in seconds since 1970; null when it does not.
    ExpiresAt,
    /// How often it was used.
    UseCount,
    /// How often it was told again.
    RepeatCount,
    /// Whether it is pinned.
    Pinned,
    /// The scalar at this path of the metadata.
    Metadata(Box<str>),
}

impl Field {
    /// The field with this name; every other name is a path into the metadata, which `metadata.` may precede.
    pub fn from_name(name: &str) -> Self {
        match name {
            "id" => Self::Id,
            "tier" => Self::Tier,
            "session" => Self::Session,
            "about" => Self::About,
            "tags" | "tag" => Self::Tags,
            "labels" | "label" => Self::Labels,
            "source" => Self::Source,
            "trust" => Self::Trust,
            "importance" => Self::Importance,
            "created_at" => Self::CreatedAt,
            "last_used_at" => Self::LastUsedAt,
            "expires_at" => Self::ExpiresAt,
            "use_count" => Self::UseCount,
            "repeat_count" => Self::RepeatCount,
            "pinned" => Self::Pinned,
            path => Self::Metadata(path.strip_prefix("metadata.").unwrap_or(path).into()),
        }
    }
}

/// What a condition asks of its field.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Equals one of these.
    In(Vec<Value>),
    /// Equals none of these.
    NotIn(Vec<Value>),
    /// Is a number between these; `bool` says whether the end itself is meant.
    Range {
        /// The lower end.
        low: Option<(f64, bool)>,
        /// The upper end.
        high: Option<(f64, bool)>,
    },
    /// Is there at all, or is not.
    Exists(bool),
}

/// One condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// What it looks at.
    pub field: Field,
    /// What it asks.
    pub test: Test,
}

/// All that must hold of a row. The default holds of every row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    /// One of these tiers; none given means any.
    pub tiers: Vec<Tier>,
    /// This session only.
    pub session: Option<Box<str>>,
    /// About this subject, or about nobody in particular.
    pub about: Option<Box<str>>,
    /// At least this trust.
    pub min_trust: Option<f32>,
    /// And all of these.
    pub conditions: Vec<Condition>,
}

impl Filter {
    /// Checks what can be checked without the columns.
    pub fn check(&self) -> Result<()> {
        let values: usize = self
            .conditions
            .iter()
            .map(|condition| match &condition.test {
                // A condition without a value is work as well.
                Test::In(values) | Test::NotIn(values) => values.len().max(1),
                Test::Range { .. } | Test::Exists(_) => 1,
            })
            .sum();
        if values > limits::FILTER_TERMS {
            return Err(Error::limit("values in a filter", values, limits::FILTER_TERMS));
        }
        for condition in &self.conditions {
            condition.check()?;
        }
        Ok(())
    }

    /// Leaves in `rows` only what the filter holds of.
    pub fn apply(&self, columns: &Columns, rows: &mut RowSet) {
        if !self.tiers.is_empty() && Tier::ALL.iter().any(|tier| !self.tiers.contains(tier)) {
            rows.intersect(&united(self.tiers.iter().map(|tier| columns.tier_rows(*tier))));
        }
        if let Some(session) = &self.session {
            rows.intersect(&columns.session_rows(session));
        }
        if let Some(about) = &self.about {
            let mut either = columns.about_rows(about);
            either.unite(columns.general());
            rows.intersect(&either);
        }
        if let Some(min_trust) = self.min_trust {
            rows.retain(|row| columns.trust(row) >= min_trust);
        }
        for condition in &self.conditions {
            condition.apply(columns, rows);
        }
    }
}

fn united<'a>(mut sets: impl Iterator<Item = &'a RowSet>) -> RowSet {
    let mut all = sets.next().cloned().unwrap_or_default();
    for set in sets {
        all.unite(set);
    }
    all
}

/// One end of a range, compared with f32 columns as if each value were the decimal that its caller wrote, without
/// making that decimal for every row: rounding keeps the order, so only the f32 nearest to the end is in doubt.
#[derive(Clone, Copy)]
struct End {
    nearest: f32,
    /// How the decimal of the nearest f32 compares with the end.
    nearest_is: Ordering,
}

impl End {
    fn new(end: f64) -> Self {
        let nearest = end as f32;
        Self { nearest, nearest_is: decimal(nearest).partial_cmp(&end).unwrap_or(Ordering::Equal) }
    }

    /// How the decimal of a value compares with the end.
    fn compare(self, value: f32) -> Ordering {
        match value.partial_cmp(&self.nearest) {
            Some(Ordering::Equal) | None => self.nearest_is,
            Some(side) => side,
        }
    }
}

impl Condition {
    fn check(&self) -> Result<()> {
        let numeric = matches!(
            self.field,
            Field::Trust
                | Field::Importance
                | Field::CreatedAt
                | Field::LastUsedAt
                | Field::ExpiresAt
                | Field::UseCount
                | Field::RepeatCount
                | Field::Metadata(_)
        );
        match &self.test {
            Test::Range { low, high } => {
                if !numeric {
                    return Err(Error::invalid("where", format!("{:?} has no order, so no range", self.field)));
                }
                if low.iter().chain(high).any(|(end, _)| end.is_nan()) {
                    return Err(Error::invalid("where", "the end of a range is NaN"));
                }
            }
            Test::In(values) | Test::NotIn(values) => {
                for value in values {
                    self.check_value(value, numeric)?;
                }
            }
            Test::Exists(_) => {}
        }
        Ok(())
    }

    fn check_value(&self, value: &Value, numeric: bool) -> Result<()> {
        let fits = match (&self.field, value) {
            (Field::Metadata(_), Value::Number(number)) => !number.is_nan(),
            (Field::Tier, Value::Text(name)) => return Tier::from_name(name).map(|_| ()),
            (Field::Source, Value::Text(name)) => return Source::from_name(name).map(|_| ()),
            (Field::Session | Field::About | Field::ExpiresAt, Value::Null)
            | (Field::Session | Field::About | Field::Tags | Field::Labels | Field::Id, Value::Text(_))
            | (Field::Pinned, Value::Bool(_))
            | (Field::Metadata(_), _) => true,
            (_, Value::Number(number)) => numeric && !number.is_nan(),
            _ => false,
        };
        if fits { Ok(()) } else { Err(Error::invalid("where", format!("{:?} is never {value:?}", self.field))) }
    }

    fn apply(&self, columns: &Columns, rows: &mut RowSet) {
        match &self.test {
            Test::In(values) => rows.intersect(&self.equal_to_one(columns, values, rows)),
            Test::NotIn(values) => {
                let equal = self.equal_to_one(columns, values, rows);
                rows.subtract(&equal);
            }
            Test::Range { low, high } => {
                let inside = |number: f64| {
                    low.is_none_or(|(end, including)| number > end || (including && number >= end))
                        && high.is_none_or(|(end, including)| number < end || (including && number <= end))
                };
                if let Field::Metadata(path) = &self.field {
                    let numbers = columns.metadata.numbers(path).iter();
                    let found = numbers.filter(|(_, number)| inside(*number)).map(|(row, _)| Row(*row));
                    rows.intersect(&RowSet::from_rows(found));
                } else if let Some(decimal_of) = self.decimal_column() {
                    let end = |end: &Option<(f64, bool)>| end.map(|(end, including)| (End::new(end), including));
                    let (low, high) = (end(low), end(high));
                    let reaches = |order: Ordering, side: Ordering, including: bool| {
                        order == side || (including && order == Ordering::Equal)
                    };
                    rows.retain(|row| {
                        let value = decimal_of(columns, row);
                        low.is_none_or(|(end, including)| reaches(end.compare(value), Ordering::Greater, including))
                            && high
                                .is_none_or(|(end, including)| reaches(end.compare(value), Ordering::Less, including))
                    });
                } else {
                    rows.retain(|row| self.number(columns, row).is_some_and(inside));
                }
            }
            Test::Exists(wanted) => rows.retain(|row| self.exists(columns, row) == *wanted),
        }
    }

    /// The rows whose field equals one of the values; rows outside `among` may be missing.
    fn equal_to_one(&self, columns: &Columns, values: &[Value], among: &RowSet) -> RowSet {
        let mut found = RowSet::new();
        for value in values {
            match (&self.field, value) {
                (Field::Id, Value::Text(text)) => {
                    if let Some(row) = text.parse::<MemoryId>().ok().and_then(|id| columns.find(id)) {
                        found.insert(row);
                    }
                }
                (Field::Tier, Value::Text(name)) => {
                    if let Ok(tier) = Tier::from_name(name) {
                        found.unite(columns.tier_rows(tier));
                    }
                }
                (Field::Source, Value::Text(name)) => {
                    if let Ok(source) = Source::from_name(name) {
                        found.unite(columns.source_rows(source));
                    }
                }
                (Field::Session, Value::Text(name)) => found.unite(&columns.session_rows(name)),
                (Field::About, Value::Text(name)) => found.unite(&columns.about_rows(name)),
                (Field::About, Value::Null) => found.unite(columns.general()),
                (Field::Tags, Value::Text(name)) => found.unite(&columns.tag_rows(name)),
                (Field::Labels, Value::Text(name)) => {
                    let bits = columns.known_label_bits([&**name]);
                    found.unite(&RowSet::from_rows(
                        columns.labelled().iter().filter(|row| columns.labels(*row) & bits != 0),
                    ));
                }
                (Field::Pinned, Value::Bool(true)) => found.unite(columns.pinned()),
                (Field::Pinned, Value::Bool(false)) => {
                    let mut free = among.clone();
                    free.subtract(columns.pinned());
                    found.unite(&free);
                }
                (Field::Metadata(path), value) => {
                    for row in columns.metadata.equal(path, value) {
                        found.insert(Row(*row));
                    }
                }
                (_, Value::Null) => {
                    found.unite(&RowSet::from_rows(among.iter().filter(|row| !self.exists(columns, *row))));
                }
                (_, Value::Number(wanted)) => {
                    let mut equal = among.clone();
                    if let Some(decimal_of) = self.decimal_column() {
                        let end = End::new(*wanted);
                        equal.retain(|row| end.compare(decimal_of(columns, row)) == Ordering::Equal);
                    } else {
                        equal.retain(|row| self.number(columns, row) == Some(*wanted));
                    }
                    found.unite(&equal);
                }
                _ => {}
            }
        }
        found
    }

    /// The field's column, when it keeps as f32 what callers write as decimals.
    fn decimal_column(&self) -> Option<fn(&Columns, Row) -> f32> {
        match self.field {
            Field::Trust => Some(Columns::trust),
            Field::Importance => Some(Columns::importance),
            _ => None,
        }
    }

    /// The field's value as a number, for the other fields that are one.
    fn number(&self, columns: &Columns, row: Row) -> Option<f64> {
        match self.field {
            Field::CreatedAt => Some(columns.created_at(row).seconds()),
            Field::LastUsedAt => Some(columns.last_used_at(row).seconds()),
            Field::ExpiresAt => columns.expires_at(row).map(Micros::seconds),
            Field::UseCount => Some(f64::from(columns.use_count(row))),
            Field::RepeatCount => Some(f64::from(columns.repeat_count(row))),
            _ => None,
        }
    }

    fn exists(&self, columns: &Columns, row: Row) -> bool {
        match &self.field {
            Field::Session => columns.session(row).is_some(),
            Field::About => columns.about(row).is_some(),
            Field::Tags => columns.tags(row).next().is_some(),
            Field::Labels => columns.labels(row) != 0,
            Field::ExpiresAt => columns.expires_at(row).is_some(),
            Field::Metadata(path) => columns.metadata.has(path, row),
            Field::Pinned => columns.pinned().contains(row),
            _ => true,
        }
    }
}

/// The f64 nearest to the shortest decimal of an f32, which is what the caller wrote: 0.3 stored as f32 equals 0.3.
fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]

    use proptest::prelude::*;

    use super::*;
    use crate::base::{Head, State};

    fn columns() -> Columns {
        let mut columns = Columns::new();
        for number in 0..12_u32 {
            let head = Head {
                id: MemoryId(u128::from(number)),
                state: State::Alive,
                tier: Tier::ALL[number as usize % 4],
                importance: number as f32 / 10.0 % 1.0,
                session: (number % 2 == 0).then(|| format!("s{}", number % 3).into()),
                about: (number % 3 == 0).then(|| "Li".into()),
                source: Source::ALL[number as usize % 5],
                trust: 0.5,
                tags: if number == 7 { vec!["x".into(), "y".into()] } else { vec![] },
                labels: if number == 8 { vec!["health".into()] } else { vec![] },
                created_at: Micros(i64::from(number) * 1_000_000),
                last_used_at: Micros(0),
                use_count: number,
                spaced_uses: 0,
                repeat_count: 0,
                half_life: 1.0,
                expires_at: None,
                pinned: number == 9,
                version: 1,
                text_key: u64::from(number),
            };
            columns.put(Row(number), &head).unwrap();
            let metadata = serde_json::json!({"n": number, "even": number % 2 == 0, "list": [number % 3, "a"], "deep": {"x": "y"}});
            columns.metadata.insert(Row(number), &metadata);
        }
        columns
    }

    proptest! {
        #[test]
        fn an_end_is_compared_as_the_decimal_was_written(
            thousandth in 0_u32..=1_000, end in prop_oneof![(0_u32..=1_000).prop_map(|end| f64::from(end) / 1e3), -1e300..1e300_f64],
        ) {
            let written = f64::from(thousandth) / 1e3;
            prop_assert_eq!(Some(End::new(end).compare(written as f32)), written.partial_cmp(&end));
        }
    }

    fn found(filter: &Filter) -> Vec<u32> {
        let columns = columns();
        filter.check().unwrap();
        let mut rows = columns.alive().clone();
        filter.apply(&columns, &mut rows);
        rows.iter().map(|row| row.0).collect()
    }

    fn when(name: &str, test: Test) -> Filter {
        Filter { conditions: vec![Condition { field: Field::from_name(name), test }], ..Filter::default() }
    }

    fn text(value: &str) -> Value {
        Value::Text(value.into())
    }

    #[test]
    fn each_field_filters() {
        assert_eq!(found(&Filter::default()).len(), 12);
        assert_eq!(found(&Filter { tiers: vec![Tier::Semantic], ..Filter::default() }), [2, 6, 10]);
        assert_eq!(found(&Filter { session: Some("s0".into()), ..Filter::default() }), [0, 6]);
        assert_eq!(found(&Filter { session: Some("none".into()), ..Filter::default() }), Vec::<u32>::new());
        assert_eq!(found(&Filter { about: Some("Zhang".into()), ..Filter::default() }), [1, 2, 4, 5, 7, 8, 10, 11]);
        assert_eq!(found(&Filter { about: Some("Li".into()), ..Filter::default() }).len(), 12);
        assert_eq!(found(&when("about", Test::In(vec![text("Li")]))), [0, 3, 6, 9]);
        assert_eq!(found(&when("about", Test::In(vec![Value::Null]))).len(), 8);
        assert_eq!(found(&when("session", Test::Exists(false))), [1, 3, 5, 7, 9, 11]);
        assert_eq!(found(&when("tags", Test::In(vec![text("y")]))), [7]);
        assert_eq!(found(&when("labels", Test::NotIn(vec![text("health")]))).len(), 11);
        assert_eq!(found(&when("pinned", Test::In(vec![Value::Bool(false)]))).len(), 11);
        assert_eq!(found(&when("source", Test::In(vec![text("tool"), text("import")]))), [2, 4, 7, 9]);
        assert_eq!(found(&when("importance", Test::In(vec![Value::Number(0.3)]))), [3]);
        assert_eq!(found(&when("importance", Test::Range { low: Some((0.8, true)), high: None })), [8, 9]);
        assert_eq!(
            found(&when("created_at", Test::Range { low: Some((3.0, false)), high: Some((5.0, true)) })),
            [4, 5]
        );
        assert_eq!(found(&when("id", Test::In(vec![text(&MemoryId(3).to_string()), text("nonsense")]))), [3]);
    }

    #[test]
    fn metadata_filters() {
        assert_eq!(found(&when("n", Test::In(vec![Value::Number(4.0)]))), [4]);
        assert_eq!(found(&when("metadata.n", Test::Range { low: None, high: Some((2.0, false)) })), [0, 1]);
        assert_eq!(found(&when("even", Test::In(vec![Value::Bool(true)]))), [0, 2, 4, 6, 8, 10]);
        assert_eq!(found(&when("list", Test::In(vec![Value::Number(2.0)]))), [2, 5, 8, 11]);
        assert_eq!(found(&when("deep.x", Test::In(vec![text("y")]))).len(), 12);
        assert_eq!(found(&when("missing", Test::Exists(false))).len(), 12);
        assert_eq!(found(&when("missing", Test::NotIn(vec![text("y")]))).len(), 12);
        let mut columns = columns();
        let old = serde_json::json!({"n": 4, "even": true, "list": [1, "a"], "deep": {"x": "y"}});
        columns.metadata.remove(Row(4), &old);
        assert!(columns.metadata.equal("n", &Value::Number(4.0)).is_empty());
        assert!(!columns.metadata.has("deep.x", Row(4)));
    }

    #[test]
    fn nonsense_is_refused() {
        for filter in [
            when("tier", Test::In(vec![text("long-term")])),
            when("tier", Test::Range { low: Some((0.0, true)), high: None }),
            when("importance", Test::In(vec![text("high")])),
            when("n", Test::Range { low: Some((f64::NAN, true)), high: None }),
            when("pinned", Test::In(vec![Value::Number(1.0)])),
        ] {
            assert!(matches!(filter.check(), Err(Error::Invalid { .. })), "{filter:?}");
        }
        let many = when("n", Test::In(vec![Value::Null; limits::FILTER_TERMS + 1]));
        assert!(matches!(many.check(), Err(Error::Limit { .. })));
    }
}
