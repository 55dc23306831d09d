//! Columns as bytes and back.
//!
//! Saving is cut into steps, so that no lock is held for the whole of it, and the columns may change between them:
//! what comes out holds, of each row below the first step's end, its state at some moment of the saving. Whoever loads
//! it brings the rows that were changed since its beginning up to date.

use super::{Columns, NEVER, NONE};
use crate::base::{Error, MemoryId, Micros, Reader, Result, Row, Source, State, Tier, limits, put_count, put_text};
use crate::store::metadata::{MetadataIndex, MetadataSaver};
use crate::store::names::Names;

/// Rows of one step.
const CHUNK: usize = 8_192;
/// Bytes of one row.
const ROW_BYTES: usize = 16 + 4 + 9 * 4 + 5 * 8;
const PRESENT: u8 = 1;
const PINNED: u8 = 2;

/// The saving of columns.
#[derive(Debug, Default)]
pub struct ColumnsSaver {
    rows: usize,
    stage: Stage,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Head,
    Rows(usize),
    Names,
    Metadata(MetadataSaver),
}

impl ColumnsSaver {
    /// Appends the next part; `false` after the last.
    pub fn step(&mut self, columns: &Columns, into: &mut Vec<u8>) -> bool {
        match &mut self.stage {
            Stage::Head => {
                self.rows = columns.rows();
                put_count(self.rows, into);
                self.stage = Stage::Rows(0);
            }
            Stage::Rows(start) if *start < self.rows => {
                let end = (*start + CHUNK).min(self.rows);
                put_rows(columns, *start, end, into);
                *start = end;
            }
            // After the rows, so that every number in them has its name.
            Stage::Rows(_) => self.stage = Stage::Names,
            Stage::Names => {
                put_names(columns, into);
                self.stage = Stage::Metadata(MetadataSaver::new(&columns.metadata, self.rows));
            }
            Stage::Metadata(saver) => return saver.step(&columns.metadata, into),
        }
        true
    }
}

fn put_rows(columns: &Columns, start: usize, end: usize, into: &mut Vec<u8>) {
    macro_rules! put {
        ($column:ident, $value:ident => $bytes:expr) => {
            into.extend(columns.$column[start..end].iter().flat_map(|$value| $bytes))
        };
    }
    let flags = |row: usize| {
        let has = |set: &crate::base::RowSet| u8::from(set.contains(Row(row as u32)));
        [(has(&columns.present) * PRESENT) | (has(&columns.pinned) * PINNED)]
    };
    put!(ids, id => id.0.to_le_bytes());
    into.extend((start..end).flat_map(flags));
    put!(states, state => [*state as u8]);
    put!(tiers, tier => [*tier as u8]);
    put!(sources, source => [*source as u8]);
    put!(importance, value => value.to_le_bytes());
    put!(sessions, value => value.to_le_bytes());
    put!(abouts, value => value.to_le_bytes());
    put!(trust, value => value.to_le_bytes());
    put!(tag_sets, value => value.to_le_bytes());
    put!(use_count, value => value.to_le_bytes());
    put!(spaced_uses, value => value.to_le_bytes());
    put!(repeat_count, value => value.to_le_bytes());
    put!(half_life, value => value.to_le_bytes());
    put!(labels, value => value.to_le_bytes());
    put!(created_at, at => at.0.to_le_bytes());
    put!(last_used_at, at => at.0.to_le_bytes());
    put!(expires_at, at => at.0.to_le_bytes());
    put!(text_keys, value => value.to_le_bytes());
    put!(version, value => value.to_le_bytes());
}

fn put_names(columns: &Columns, into: &mut Vec<u8>) {
    for names in [&columns.session_names, &columns.about_names, &columns.tag_names, &columns.label_names] {
        put_count(names.len(), into);
        (0..names.len() as u32).for_each(|number| put_text(names.name(number), into));
    }
    put_count(columns.tag_lists.len(), into);
    for list in &columns.tag_lists {
        put_count(list.len(), into);
        into.extend(list.iter().flat_map(|number| number.to_le_bytes()));
    }
}

impl Columns {
    /// Columns as they were saved. Bytes that cannot have been are refused; no bytes do harm.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new("the saved columns", bytes);
        let rows = reader.count(ROW_BYTES)?;
        reader.check(rows <= limits::ROWS, "it has too many rows")?;
        let mut columns = Self::new();
        columns.reserve(rows);
        let mut flags = Vec::with_capacity(rows);
        while columns.ids.len() < rows {
            let count = CHUNK.min(rows - columns.ids.len());
            columns.take_rows(&mut reader, count, &mut flags)?;
        }
        columns.session_names = names(&mut reader)?;
        columns.about_names = names(&mut reader)?;
        columns.tag_names = names(&mut reader)?;
        columns.label_names = names(&mut reader)?;
        reader.check(columns.label_names.len() <= limits::LABELS, "it has too many labels")?;
        columns.take_tag_lists(&mut reader)?;
        columns.metadata = MetadataIndex::read(&mut reader, rows)?;
        columns.check_numbers().map_err(|message| reader.fault(message))?;
        reader.end()?;
        for (row, flags) in flags.iter().enumerate().filter(|(_, flags)| **flags & PRESENT != 0) {
            columns.put_in(Row(row as u32), flags & PINNED != 0);
        }
        Ok(columns)
    }

    fn reserve(&mut self, rows: usize) {
        macro_rules! reserve {
            ($($column:ident)+) => { $(self.$column.reserve_exact(rows);)+ };
        }
        reserve!(ids states tiers sources importance sessions abouts trust tag_sets use_count spaced_uses);
        reserve!(repeat_count half_life labels created_at last_used_at expires_at text_keys version);
        // Nothing is in them yet, so nothing is hashed.
        self.by_id.reserve(rows, |_| 0);
        self.by_content.reserve(rows, |_| 0);
    }

    fn take_rows(&mut self, reader: &mut Reader<'_>, count: usize, flags: &mut Vec<u8>) -> Result<()> {
        self.ids.extend(reader.u128s(count)?.map(MemoryId));
        flags.extend_from_slice(reader.take(count)?);
        take_coded(&mut self.states, reader, count, State::from_number)?;
        take_coded(&mut self.tiers, reader, count, Tier::from_number)?;
        take_coded(&mut self.sources, reader, count, Source::from_number)?;
        self.importance.extend(reader.f32s(count)?);
        self.sessions.extend(reader.u32s(count)?);
        self.abouts.extend(reader.u32s(count)?);
        self.trust.extend(reader.f32s(count)?);
        self.tag_sets.extend(reader.u32s(count)?);
        self.use_count.extend(reader.u32s(count)?);
        self.spaced_uses.extend(reader.u32s(count)?);
        self.repeat_count.extend(reader.u32s(count)?);
        self.half_life.extend(reader.f32s(count)?);
        self.labels.extend(reader.u64s(count)?);
        self.created_at.extend(reader.i64s(count)?.map(Micros));
        self.last_used_at.extend(reader.i64s(count)?.map(Micros));
        self.expires_at.extend(reader.i64s(count)?.map(Micros));
        self.text_keys.extend(reader.u64s(count)?);
        self.version.extend(reader.u32s(count)?);
        Ok(())
    }

    fn take_tag_lists(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let lists = reader.count(8)?;
        self.tag_lists = Vec::with_capacity(lists);
        self.tag_list_numbers.clear();
        for number in 0..lists {
            let length = reader.count(4)?;
            let list: Box<[u32]> = reader.u32s(length)?.collect();
            let known = list.iter().all(|tag| (*tag as usize) < self.tag_names.len());
            reader.check(known, "a tag has no name")?;
            self.tag_list_numbers.insert(list.clone(), number as u32);
            self.tag_lists.push(list);
        }
        reader.check(self.tag_lists.first().is_some_and(|list| list.is_empty()), "the empty list of tags is missing")
    }

    /// That every number in a row has what it stands for.
    fn check_numbers(&self) -> std::result::Result<(), &'static str> {
        let named = |column: &[u32], names: &Names| {
            column.iter().all(|number| *number == NONE || (*number as usize) < names.len())
        };
        let labels = self.labels.iter().fold(0, |all, bits| all | bits);
        let sound = named(&self.sessions, &self.session_names)
            && named(&self.abouts, &self.about_names)
            && self.tag_sets.iter().all(|number| (*number as usize) < self.tag_lists.len())
            && labels.checked_shr(self.label_names.len() as u32).unwrap_or(0) == 0
            && self.expires_at.iter().all(|end| *end <= NEVER);
        if sound { Ok(()) } else { Err("a number stands for nothing") }
    }
}

fn take_coded<T>(
    column: &mut Vec<T>,
    reader: &mut Reader<'_>,
    count: usize,
    decode: impl Fn(u8) -> Option<T>,
) -> Result<()> {
    for code in reader.take(count)? {
        column.push(decode(*code).ok_or_else(|| -> Error { reader.fault(format!("{code} codes nothing")) })?);
    }
    Ok(())
}

fn names(reader: &mut Reader<'_>) -> Result<Names> {
    let count = reader.count(4)?;
    let mut names = Names::default();
    for number in 0..count {
        let given = names.number(reader.text()?);
        reader.check(given as usize == number, "a name is there twice")?;
    }
    Ok(names)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that fails is what they are for")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::Head;

    fn head(number: u32, choice: u8) -> Head {
        let some = |bit: u8, text: &str| (choice >> bit & 1 == 1).then(|| format!("{text} {}", number % 3).into());
        Head {
            id: MemoryId(u128::from(number) << 64 | 7),
            state: State::from_number(choice & 3).unwrap(),
            tier: Tier::ALL[(choice >> 2 & 3) as usize],
            importance: number as f32 / 100.0,
            session: some(4, "session"),
            about: some(5, "about"),
            source: Source::ALL[number as usize % 5],
            trust: 0.5,
            tags: some(6, "tag").into_iter().chain(some(7, "other")).collect(),
            labels: some(3, "label").into_iter().collect(),
            created_at: Micros(i64::from(number)),
            last_used_at: Micros(i64::from(number) + 1),
            use_count: number,
            spaced_uses: number / 2,
            repeat_count: number / 3,
            half_life: if choice & 1 == 1 { f32::INFINITY } else { 5.0 },
            expires_at: (choice & 2 == 2).then_some(Micros(100 + i64::from(number))),
            pinned: choice & 4 == 4,
            version: 1 + number,
            text_key: u64::from(number % 4),
        }
    }

    fn saved(columns: &Columns) -> Vec<u8> {
        let (mut saver, mut bytes) = (ColumnsSaver::default(), Vec::new());
        while saver.step(columns, &mut bytes) {}
        bytes
    }

    fn columns(rows: &[(u32, u8)]) -> Columns {
        let mut columns = Columns::new();
        for (place, (number, choice)) in rows.iter().enumerate() {
            let row = Row(number % 50);
            columns.put(row, &head(place as u32 * 50 + number, *choice)).unwrap();
            columns.metadata.remove_rows(&crate::base::RowSet::from_rows([row]));
            if choice % 3 == 0 {
                let json = serde_json::json!({"n": number % 7, "list": [choice, "x", null, true], "deep": {"a": "b"}});
                columns.metadata.insert(row, &json);
            }
        }
        columns
    }

    fn rows_of(columns: &Columns) -> Vec<Row> {
        columns.present().iter().collect()
    }

    proptest! {
        #[test]
        fn they_come_back_as_they_were(rows in prop::collection::vec((0_u32..200, any::<u8>()), 0..80)) {
            let columns = columns(&rows);
            let bytes = saved(&columns);
            let loaded = Columns::from_bytes(&bytes).unwrap();
            prop_assert_eq!(loaded.rows(), columns.rows());
            prop_assert_eq!(rows_of(&loaded), rows_of(&columns));
            for row in columns.present().iter() {
                let head = columns.head(row).unwrap();
                prop_assert_eq!(loaded.head(row), Some(head.clone()));
                prop_assert_eq!(loaded.find(head.id), Some(row));
                let (session, about) = (head.session.as_deref(), head.about.as_deref());
                let found = |columns: &Columns| {
                    columns.find_content(head.tier, session, about, head.text_key, Micros(110)).is_some()
                };
                prop_assert_eq!(found(&loaded), found(&columns));
                prop_assert!(session.is_none_or(|name| loaded.session_rows(name) == columns.session_rows(name)));
                prop_assert!(about.is_none_or(|name| loaded.about_rows(name) == columns.about_rows(name)));
                for tag in &head.tags {
                    prop_assert_eq!(loaded.tag_rows(tag), columns.tag_rows(tag));
                }
            }
            let same = |of: &dyn Fn(&Columns) -> Vec<Row>| of(&loaded) == of(&columns);
            prop_assert!(same(&|columns| columns.alive().iter().collect()));
            prop_assert!(same(&|columns| columns.pinned().iter().collect()));
            prop_assert!(same(&|columns| columns.labelled().iter().collect()));
            prop_assert!(same(&|columns| columns.general().iter().collect()));
            prop_assert!(same(&|columns| columns.expired(Micros(160)).collect()));
            for tier in Tier::ALL {
                prop_assert!(same(&|columns| columns.tier_rows(tier).iter().collect()));
            }
            for source in Source::ALL {
                prop_assert!(same(&|columns| columns.source_rows(source).iter().collect()));
            }
            prop_assert_eq!(columns.metadata.contents(), loaded.metadata.contents());
        }

        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = Columns::from_bytes(&bytes);
        }

        #[test]
        fn no_damage_does_harm(rows in prop::collection::vec((0_u32..200, any::<u8>()), 1..20),
                               place in any::<prop::sample::Index>(), bit in 0_u8..8, cut in any::<prop::sample::Index>()) {
            let mut bytes = saved(&columns(&rows));
            prop_assert!(Columns::from_bytes(&bytes[..cut.index(bytes.len())]).is_err());
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
            if let Ok(mut columns) = Columns::from_bytes(&bytes) {
                for row in rows_of(&columns) {
                    let head = columns.head(row).unwrap();
                    columns.put(row, &head).unwrap();
                    columns.erase(row);
                }
            }
        }
    }

    #[test]
    fn rows_that_come_while_it_is_saved_are_left_out() {
        let mut columns = columns(&[(3, 0xf0), (9, 0x33)]);
        let before = columns.metadata.contents();
        let (mut saver, mut bytes) = (ColumnsSaver::default(), Vec::new());
        let mut number = 0;
        loop {
            let more = saver.step(&columns, &mut bytes);
            number += 1;
            let row = Row(100 + number);
            columns.put(row, &head(1_000 + number, 0xff)).unwrap();
            columns.metadata.insert(row, &serde_json::json!({"n": number}));
            if !more {
                break;
            }
        }
        let loaded = Columns::from_bytes(&bytes).unwrap();
        assert_eq!(rows_of(&loaded), [Row(3), Row(9)]);
        assert_eq!(loaded.metadata.contents(), before);
    }
}
