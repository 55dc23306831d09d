//! How a memory lies in its row, and the checksums over it.
//!
//! A head's checksum covers its row number, its commit number and every field; a content's and a vector's cover the
//! memory's id, so that a row that ended up at another memory, or an old copy of a page, is seen as well as a flipped
//! bit. All are xxh3-64 over an encoding in which each part has its length before it.

use rusqlite::types::ValueRef;
use xxhash_rust::xxh3::xxh3_64;

use crate::base::{Content, Error, Head, MemoryId, Micros, Result, Row, Source, State, Tier, limits};

/// What a damaged row tells about itself.
pub(super) type Reading<T> = Result<T, String>;

/// The columns of a head in the order of [`read_head`], [`bind_head`] and the table itself.
pub(super) const HEAD_COLUMNS: &str = "memory.row, id, commit_number, state, tier, source, pinned, importance, trust, \
     half_life, created_at, last_used_at, expires_at, use_count, spaced_uses, repeat_count, version, text_key, session, \
     about, tags, labels, head_checksum";

/// How many columns that are.
pub(super) const HEAD_WIDTH: usize = 23;

/// Bytes of one SQLite value at most: a row of this library is far below, and a hostile file gets no more memory.
pub(super) const VALUE_BYTES: usize = 16 << 20;

const _: () = assert!(limits::TEXT_BYTES + 2 * limits::METADATA_BYTES + 2 * limits::DIMENSIONS < VALUE_BYTES);

/// Collects the parts that a checksum covers.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    fn start(&mut self, table: &str) -> &mut Self {
        self.bytes.clear();
        self.text(table)
    }

    fn number(&mut self, value: u64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }

    fn optional(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.number(1).text(text),
            None => self.number(0),
        }
    }

    fn finish(&self) -> i64 {
        xxh3_64(&self.bytes) as i64
    }

    pub(super) fn head(&mut self, row: Row, commit: u64, head: &Head) -> i64 {
        self.start("memory").number(u64::from(row.0)).number(commit);
        self.bytes.extend_from_slice(&head.id.to_bytes());
        self.bytes.extend_from_slice(&[head.state as u8, head.tier as u8, head.source as u8, u8::from(head.pinned)]);
        for value in [head.importance, head.trust, head.half_life] {
            self.bytes.extend_from_slice(&stored(value).to_bits().to_le_bytes());
        }
        self.number(head.created_at.0 as u64).number(head.last_used_at.0 as u64);
        match head.expires_at {
            Some(Micros(at)) => self.number(1).number(at as u64),
            None => self.number(0),
        };
        for value in [head.use_count, head.spaced_uses, head.repeat_count, head.version] {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
        self.number(head.text_key).optional(head.session.as_deref()).optional(head.about.as_deref());
        for names in [&head.tags, &head.labels] {
            self.number(names.len() as u64);
            for name in names {
                self.text(name);
            }
        }
        self.finish()
    }

    pub(super) fn edge(&mut self, newer: Row, older: Row, kind: u8, commit: u64) -> i64 {
        let edge = self.start("edge").number(u64::from(newer.0)).number(u64::from(older.0));
        edge.number(u64::from(kind)).number(commit).finish()
    }

    pub(super) fn event(&mut self, row: Row, number: u32, commit: u64, at: Micros, words: [Option<&str>; 3]) -> i64 {
        self.start("event").number(u64::from(row.0)).number(u64::from(number)).number(commit).number(at.0 as u64);
        for word in words {
            self.optional(word);
        }
        self.finish()
    }

    pub(super) fn undo(&mut self, token: &str, row: Row, before: &str) -> i64 {
        self.start("undo").text(token).number(u64::from(row.0)).text(before).finish()
    }

    pub(super) fn idempotency(&mut self, key: &str, row: Row) -> i64 {
        self.start("idempotency").text(key).number(u64::from(row.0)).finish()
    }

    pub(super) fn meta(&mut self, key: &str, value: &str) -> i64 {
        self.start("meta").text(key).text(value).finish()
    }

    pub(super) fn counter(&mut self, counter: &Counter) -> i64 {
        let Counter { commit, next_row, rows, erased_at, model } = *counter;
        let numbers = self.start("counter").number(commit).number(u64::from(next_row)).number(u64::from(rows));
        numbers.number(erased_at).number(u64::from(model)).finish()
    }
}

/// The checksum of a memory's texts. The long parts are hashed where they lie.
pub(super) fn content_checksum(id: MemoryId, text: &str, metadata: Option<&str>, private: Option<&str>) -> i64 {
    let mut bytes = [0_u8; 16 + 3 * 17];
    bytes[..16].copy_from_slice(&id.to_bytes());
    for (part, value) in bytes[16..].chunks_exact_mut(17).zip([Some(text), metadata, private]) {
        if let Some(value) = value {
            part[0] = 1;
            part[1..9].copy_from_slice(&(value.len() as u64).to_le_bytes());
            part[9..].copy_from_slice(&xxh3_64(value.as_bytes()).to_le_bytes());
        }
    }
    xxh3_64(&bytes) as i64
}

/// The checksum of a memory's vector.
pub(super) fn vector_checksum(id: MemoryId, model: u32, halves: &[u8]) -> i64 {
    let mut bytes = [0_u8; 16 + 4 + 8 + 8];
    bytes[..16].copy_from_slice(&id.to_bytes());
    bytes[16..20].copy_from_slice(&model.to_le_bytes());
    bytes[20..28].copy_from_slice(&(halves.len() as u64).to_le_bytes());
    bytes[28..].copy_from_slice(&xxh3_64(halves).to_le_bytes());
    xxh3_64(&bytes) as i64
}

/// The store's counters: one row, written by every commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counter {
    /// The last commit.
    pub(super) commit: u64,
    /// The row that the next memory gets.
    pub(super) next_row: u32,
    /// How many memories there are, in any state.
    pub(super) rows: u32,
    /// The last commit that erased rows.
    pub(super) erased_at: u64,
    /// The generation of the model whose vectors are written now.
    pub(super) model: u32,
}

impl Counter {
    pub(super) const NEW: Self = Self { commit: 0, next_row: 0, rows: 0, erased_at: 0, model: 0 };
    pub(super) const SELECT: &str =
        "SELECT commit_number, next_row, rows, erased_at, model, checksum FROM counter WHERE one = 1";
    pub(super) const UPDATE: &str = "UPDATE counter SET commit_number = ?1, next_row = ?2, rows = ?3, erased_at = ?4, \
         model = ?5, checksum = ?6 WHERE one = 1";

    pub(super) fn read(row: &rusqlite::Row<'_>) -> Reading<Self> {
        let counter = Self {
            commit: unsigned(row, 0, "commit_number")?,
            next_row: unsigned(row, 1, "next_row")?,
            rows: unsigned(row, 2, "rows")?,
            erased_at: unsigned(row, 3, "erased_at")?,
            model: unsigned(row, 4, "model")?,
        };
        matches(Encoder::default().counter(&counter), integer(row, 5, "checksum")?, "the counters")?;
        Ok(counter)
    }

    pub(super) fn params(&self) -> impl rusqlite::Params {
        let checksum = Encoder::default().counter(self);
        let Self { commit, next_row, rows, erased_at, model } = *self;
        (commit as i64, next_row, rows, erased_at as i64, model, checksum)
    }
}

/// Fails when the checksum of what lies there is not the one that was written.
pub(super) fn matches(computed: i64, written: i64, what: &str) -> Reading<()> {
    if computed == written { Ok(()) } else { Err(format!("the checksum of {what} does not match")) }
}

/// A float as it is stored: SQLite keeps no sign on zero.
fn stored(value: f32) -> f32 {
    value + 0.0
}

/// Refuses what SQLite would not give back.
pub(super) fn check_head(head: &Head) -> Result<()> {
    for (name, value) in [("importance", head.importance), ("trust", head.trust), ("half_life", head.half_life)] {
        if value.is_nan() {
            return Err(Error::invalid(name, "NaN is not a number to keep"));
        }
    }
    Ok(())
}

/// Binds a head's columns after the row, from parameter 2 on, in the order of [`HEAD_COLUMNS`].
pub(super) fn bind_head(
    statement: &mut rusqlite::Statement<'_>,
    row: Row,
    commit: u64,
    head: &Head,
    checksum: i64,
) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(1, row.0)?;
    statement.raw_bind_parameter(2, head.id.to_bytes())?;
    statement.raw_bind_parameter(3, commit as i64)?;
    statement.raw_bind_parameter(4, head.state as u8)?;
    statement.raw_bind_parameter(5, head.tier as u8)?;
    statement.raw_bind_parameter(6, head.source as u8)?;
    statement.raw_bind_parameter(7, head.pinned)?;
    statement.raw_bind_parameter(8, stored(head.importance))?;
    statement.raw_bind_parameter(9, stored(head.trust))?;
    statement.raw_bind_parameter(10, stored(head.half_life))?;
    statement.raw_bind_parameter(11, head.created_at.0)?;
    statement.raw_bind_parameter(12, head.last_used_at.0)?;
    statement.raw_bind_parameter(13, head.expires_at.map(|at| at.0))?;
    statement.raw_bind_parameter(14, head.use_count)?;
    statement.raw_bind_parameter(15, head.spaced_uses)?;
    statement.raw_bind_parameter(16, head.repeat_count)?;
    statement.raw_bind_parameter(17, head.version)?;
    statement.raw_bind_parameter(18, head.text_key as i64)?;
    statement.raw_bind_parameter(19, head.session.as_deref())?;
    statement.raw_bind_parameter(20, head.about.as_deref())?;
    statement.raw_bind_parameter(21, names_to_json(&head.tags))?;
    statement.raw_bind_parameter(22, names_to_json(&head.labels))?;
    statement.raw_bind_parameter(23, checksum)
}

/// The head at the start of a row of [`HEAD_COLUMNS`], verified, with its row and its commit.
pub(super) fn read_head(row: &rusqlite::Row<'_>, encoder: &mut Encoder) -> Reading<(Row, u64, Head)> {
    let place = Row(unsigned(row, 0, "row")?);
    let commit = unsigned(row, 2, "commit_number")?;
    let head = Head {
        id: id(row, 1)?,
        state: coded(row, 3, "state", State::from_number)?,
        tier: coded(row, 4, "tier", Tier::from_number)?,
        source: coded(row, 5, "source", Source::from_number)?,
        pinned: coded(row, 6, "pinned", |number| [false, true].get(number as usize).copied())?,
        importance: float(row, 7, "importance")?,
        trust: float(row, 8, "trust")?,
        half_life: float(row, 9, "half_life")?,
        created_at: Micros(integer(row, 10, "created_at")?),
        last_used_at: Micros(integer(row, 11, "last_used_at")?),
        expires_at: match value(row, 12)? {
            ValueRef::Null => None,
            _ => Some(Micros(integer(row, 12, "expires_at")?)),
        },
        use_count: unsigned(row, 13, "use_count")?,
        spaced_uses: unsigned(row, 14, "spaced_uses")?,
        repeat_count: unsigned(row, 15, "repeat_count")?,
        version: unsigned(row, 16, "version")?,
        text_key: integer(row, 17, "text_key")? as u64,
        session: optional_text(row, 18, "session")?.map(Into::into),
        about: optional_text(row, 19, "about")?.map(Into::into),
        tags: names_from_json(optional_text(row, 20, "tags")?, "tags")?,
        labels: names_from_json(optional_text(row, 21, "labels")?, "labels")?,
    };
    matches(encoder.head(place, commit, &head), integer(row, 22, "head_checksum")?, "its head")?;
    Ok((place, commit, head))
}

/// The id of a row whose head is damaged, as far as it can be read.
pub(super) fn readable_id(row: &rusqlite::Row<'_>) -> Option<MemoryId> {
    id(row, 1).ok()
}

/// The texts in the columns text, metadata and private from `first` on, verified.
pub(super) fn read_texts<'row>(
    row: &'row rusqlite::Row<'_>,
    first: usize,
    id: MemoryId,
    written: i64,
) -> Reading<(&'row str, Option<&'row str>, Option<&'row str>)> {
    let text = optional_text(row, first, "text")?.ok_or("its text is missing")?;
    let metadata = optional_text(row, first + 1, "metadata")?;
    let private = optional_text(row, first + 2, "private")?;
    matches(content_checksum(id, text, metadata, private), written, "its content")?;
    Ok((text, metadata, private))
}

/// The content in those columns, owned.
pub(super) fn read_content(row: &rusqlite::Row<'_>, first: usize, id: MemoryId, written: i64) -> Reading<Content> {
    let (text, metadata, private) = read_texts(row, first, id, written)?;
    let owned = |text: &str| text.to_owned();
    Ok(Content { text: text.to_owned(), metadata: metadata.map(owned), private: private.map(owned) })
}

/// The vector in the columns model, halves and `vector_checksum` from `first` on, put into `halves`; its model.
/// `None` when the memory has none.
pub(super) fn read_vector(
    row: &rusqlite::Row<'_>,
    first: usize,
    id: MemoryId,
    halves: &mut Vec<u16>,
) -> Reading<Option<u32>> {
    let bytes = match (value(row, first + 1)?, value(row, first + 2)?) {
        (ValueRef::Null, ValueRef::Null) => return Ok(None),
        (ValueRef::Blob(bytes), ValueRef::Integer(written)) => {
            let model = unsigned(row, first, "model")?;
            matches(vector_checksum(id, model, bytes), written, "its vector")?;
            (bytes, model)
        }
        (ValueRef::Null, _) => return Err("its vector is missing".to_owned()),
        _ => return Err("it has a vector that nobody wrote".to_owned()),
    };
    halves.clear();
    halves.extend(bytes.0.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])));
    Ok(Some(bytes.1))
}

fn value<'row>(row: &'row rusqlite::Row<'_>, column: usize) -> Reading<ValueRef<'row>> {
    row.get_ref(column).map_err(|error| error.to_string())
}

pub(super) fn integer(row: &rusqlite::Row<'_>, column: usize, name: &str) -> Reading<i64> {
    match value(row, column)? {
        ValueRef::Integer(value) => Ok(value),
        other => Err(format!("{name} holds {}", other.data_type())),
    }
}

pub(super) fn unsigned<T: TryFrom<i64>>(row: &rusqlite::Row<'_>, column: usize, name: &str) -> Reading<T> {
    let value = integer(row, column, name)?;
    T::try_from(value).map_err(|_| format!("{name} holds {value}"))
}

fn coded<T>(row: &rusqlite::Row<'_>, column: usize, name: &str, decode: fn(u8) -> Option<T>) -> Reading<T> {
    let number: u8 = unsigned(row, column, name)?;
    decode(number).ok_or_else(|| format!("{name} holds {number}"))
}

fn float(row: &rusqlite::Row<'_>, column: usize, name: &str) -> Reading<f32> {
    match value(row, column)? {
        ValueRef::Real(value) => Ok(value as f32),
        other => Err(format!("{name} holds {}", other.data_type())),
    }
}

pub(super) fn id(row: &rusqlite::Row<'_>, column: usize) -> Reading<MemoryId> {
    match value(row, column)? {
        ValueRef::Blob(bytes) => {
            bytes.try_into().map(MemoryId::from_bytes).map_err(|_| format!("its id has {} bytes", bytes.len()))
        }
        other => Err(format!("id holds {}", other.data_type())),
    }
}

pub(super) fn optional_text<'row>(
    row: &'row rusqlite::Row<'_>,
    column: usize,
    name: &str,
) -> Reading<Option<&'row str>> {
    match value(row, column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(format!("{name} is not UTF-8")),
        },
        other => Err(format!("{name} holds {}", other.data_type())),
    }
}

pub(super) fn text<'row>(row: &'row rusqlite::Row<'_>, column: usize, name: &str) -> Reading<&'row str> {
    optional_text(row, column, name)?.ok_or_else(|| format!("{name} is missing"))
}

/// No names are NULL, which costs nothing; others are a JSON array that SQL can look into.
fn names_to_json(names: &[Box<str>]) -> Option<String> {
    (!names.is_empty()).then(|| names.iter().map(|name| &**name).collect::<serde_json::Value>().to_string())
}

fn names_from_json(json: Option<&str>, name: &str) -> Reading<Vec<Box<str>>> {
    let Some(json) = json else { return Ok(Vec::new()) };
    let strange = || format!("{name} is not an array of strings");
    let serde_json::Value::Array(values) = serde_json::from_str(json).map_err(|_| strange())? else {
        return Err(strange());
    };
    let owned = |value| match value {
        serde_json::Value::String(text) => Ok(text.into_boxed_str()),
        _ => Err(strange()),
    };
    values.into_iter().map(owned).collect()
}
