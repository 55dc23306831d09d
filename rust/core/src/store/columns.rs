//! One value per memory and field, by row.

mod persist;

use hashbrown::HashTable;

pub use persist::ColumnsSaver;

use super::metadata::MetadataIndex;
use super::names::Names;
use crate::base::{Error, Head, MemoryId, Micros, Result, Row, RowSet, Source, State, Tier, limits};

/// No name: the number that `session` and `about` carry when the memory has none.
const NONE: u32 = u32::MAX;
/// No end: what `expires_at` carries when the memory does not expire.
const NEVER: Micros = Micros(i64::MAX);

/// The narrow part of every memory, as structure of arrays. All columns are equally long; rows that were never
/// written hold padding and are in no set.
#[derive(Debug)]
pub struct Columns {
    ids: Vec<MemoryId>,
    states: Vec<State>,
    tiers: Vec<Tier>,
    importance: Vec<f32>,
    sessions: Vec<u32>,
    abouts: Vec<u32>,
    sources: Vec<Source>,
    trust: Vec<f32>,
    tag_sets: Vec<u32>,
    labels: Vec<u64>,
    created_at: Vec<Micros>,
    last_used_at: Vec<Micros>,
    use_count: Vec<u32>,
    spaced_uses: Vec<u32>,
    repeat_count: Vec<u32>,
    half_life: Vec<f32>,
    expires_at: Vec<Micros>,
    version: Vec<u32>,
    text_keys: Vec<u64>,

    by_id: HashTable<u32>,
    by_content: HashTable<u32>,
    session_names: Names,
    about_names: Names,
    tag_names: Names,
    label_names: Names,
    /// Each different combination of tags once; number 0 is the empty one.
    tag_lists: Vec<Box<[u32]>>,
    tag_list_numbers: rustc_hash::FxHashMap<Box<[u32]>, u32>,

    present: RowSet,
    alive: RowSet,
    pinned: RowSet,
    labelled: RowSet,
    by_tier: [RowSet; 4],
    by_source: [RowSet; 5],
    general: RowSet,
    /// Living memories that end, by their end.
    ends: std::collections::BTreeSet<(Micros, u32)>,
    /// The index over metadata, filled beside the columns.
    pub metadata: MetadataIndex,
}

impl Default for Columns {
    fn default() -> Self {
        Self::new()
    }
}

fn hash_id(id: MemoryId) -> u64 {
    // The low half of a version 7 id is random, the high half is time: fold both and mix once.
    ((id.0 >> 64) as u64 ^ id.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Columns {
    /// No memories.
    pub fn new() -> Self {
        Self {
            ids: Vec::new(),
            states: Vec::new(),
            tiers: Vec::new(),
            importance: Vec::new(),
            sessions: Vec::new(),
            abouts: Vec::new(),
            sources: Vec::new(),
            trust: Vec::new(),
            tag_sets: Vec::new(),
            labels: Vec::new(),
            created_at: Vec::new(),
            last_used_at: Vec::new(),
            use_count: Vec::new(),
            spaced_uses: Vec::new(),
            repeat_count: Vec::new(),
            half_life: Vec::new(),
            expires_at: Vec::new(),
            version: Vec::new(),
            text_keys: Vec::new(),
            by_id: HashTable::new(),
            by_content: HashTable::new(),
            session_names: Names::default(),
            about_names: Names::default(),
            tag_names: Names::default(),
            label_names: Names::default(),
            tag_lists: vec![Box::default()],
            tag_list_numbers: std::iter::once((Box::default(), 0)).collect(),
            present: RowSet::new(),
            alive: RowSet::new(),
            pinned: RowSet::new(),
            labelled: RowSet::new(),
            by_tier: Default::default(),
            by_source: Default::default(),
            general: RowSet::new(),
            ends: std::collections::BTreeSet::new(),
            metadata: MetadataIndex::default(),
        }
    }

    /// One more than the highest row that was ever written here.
    pub fn rows(&self) -> usize {
        self.ids.len()
    }

    /// The row of an id, whatever has become of it.
    pub fn find(&self, id: MemoryId) -> Option<Row> {
        self.by_id.find(hash_id(id), |row| self.ids[*row as usize] == id).map(|row| Row(*row))
    }

    /// The memory told before in the same place with the same text key that lives at `now`; of several the oldest.
    pub fn find_content(
        &self,
        tier: Tier,
        session: Option<&str>,
        about: Option<&str>,
        text_key: u64,
        now: Micros,
    ) -> Option<Row> {
        let session = self.known(&self.session_names, session)?;
        let about = self.known(&self.about_names, about)?;
        self.by_content
            .iter_hash(hash_content(tier, session, about, text_key))
            .filter(|row| {
                let place = **row as usize;
                self.text_keys[place] == text_key
                    && self.tiers[place] == tier
                    && self.sessions[place] == session
                    && self.abouts[place] == about
                    && self.states[place] == State::Alive
                    && self.expires_at[place] > now
            })
            .min()
            .map(|row| Row(*row))
    }

    /// `None` when the name was never seen, so that no memory can carry it.
    #[expect(clippy::unused_self, reason = "reads as a question to the columns")]
    fn known(&self, names: &Names, name: Option<&str>) -> Option<u32> {
        match name {
            None => Some(NONE),
            Some(name) => names.find(name),
        }
    }

    /// The bits of these labels, made where they are new. More than [`limits::LABELS`] different ones are refused.
    pub fn label_bits<'a>(&mut self, labels: impl IntoIterator<Item = &'a str>) -> Result<u64> {
        let mut bits = 0;
        for label in labels {
            if self.label_names.find(label).is_none() && self.label_names.len() >= limits::LABELS {
                return Err(Error::limit("different labels in one store", limits::LABELS + 1, limits::LABELS));
            }
            bits |= 1 << self.label_names.number(label);
        }
        Ok(bits)
    }

    /// The bits of those of the labels that any memory carries.
    pub fn known_label_bits<'a>(&self, labels: impl IntoIterator<Item = &'a str>) -> u64 {
        labels.into_iter().filter_map(|label| self.label_names.find(label)).fold(0, |bits, number| bits | 1 << number)
    }

    /// How many of these labels would be new to the store.
    pub fn new_labels<'a>(&self, labels: impl IntoIterator<Item = &'a str>) -> usize {
        let mut fresh: Vec<&str> = labels.into_iter().filter(|label| self.label_names.find(label).is_none()).collect();
        fresh.sort_unstable();
        fresh.dedup();
        fresh.len()
    }

    /// How many different labels the store knows.
    pub fn label_count(&self) -> usize {
        self.label_names.len()
    }

    /// The names of label bits.
    pub fn label_names(&self, bits: u64) -> Vec<Box<str>> {
        (0..self.label_names.len() as u32)
            .filter(|number| bits >> number & 1 == 1)
            .map(|number| self.label_names.name(number).into())
            .collect()
    }

    /// Writes the head of a row, new or changed. Rows may come in any order; those between stay absent.
    pub fn put(&mut self, row: Row, head: &Head) -> Result<()> {
        let labels = self.label_bits(head.labels.iter().map(|label| &**label))?;
        if self.present.contains(row) {
            self.take_out(row);
        }
        self.grow(row.index() + 1);
        let session = head.session.as_deref().map_or(NONE, |name| self.session_names.number(name));
        let about = head.about.as_deref().map_or(NONE, |name| self.about_names.number(name));
        let tag_set = self.tag_set(&head.tags);
        let place = row.index();
        self.ids[place] = head.id;
        self.states[place] = head.state;
        self.tiers[place] = head.tier;
        self.importance[place] = head.importance;
        self.sessions[place] = session;
        self.abouts[place] = about;
        self.sources[place] = head.source;
        self.trust[place] = head.trust;
        self.tag_sets[place] = tag_set;
        self.labels[place] = labels;
        self.created_at[place] = head.created_at;
        self.last_used_at[place] = head.last_used_at;
        self.use_count[place] = head.use_count;
        self.spaced_uses[place] = head.spaced_uses;
        self.repeat_count[place] = head.repeat_count;
        self.half_life[place] = head.half_life;
        self.expires_at[place] = head.expires_at.unwrap_or(NEVER);
        self.version[place] = head.version;
        self.text_keys[place] = head.text_key;
        self.put_in(row, head.pinned);
        Ok(())
    }

    /// Makes the row as if it had never been written.
    pub fn erase(&mut self, row: Row) {
        if self.present.contains(row) {
            self.take_out(row);
        }
    }

    /// Notes a use: the fields that reinforcement changes.
    pub fn touch(&mut self, row: Row, head: &Head) {
        let place = row.index();
        self.last_used_at[place] = head.last_used_at;
        self.use_count[place] = head.use_count;
        self.spaced_uses[place] = head.spaced_uses;
        self.half_life[place] = head.half_life;
    }

    fn grow(&mut self, rows: usize) {
        if rows <= self.ids.len() {
            return;
        }
        self.ids.resize(rows, MemoryId(0));
        self.states.resize(rows, State::Forgotten);
        self.tiers.resize(rows, Tier::Working);
        self.importance.resize(rows, 0.0);
        self.sessions.resize(rows, NONE);
        self.abouts.resize(rows, NONE);
        self.sources.resize(rows, Source::User);
        self.trust.resize(rows, 0.0);
        self.tag_sets.resize(rows, 0);
        self.labels.resize(rows, 0);
        self.created_at.resize(rows, Micros(0));
        self.last_used_at.resize(rows, Micros(0));
        self.use_count.resize(rows, 0);
        self.spaced_uses.resize(rows, 0);
        self.repeat_count.resize(rows, 0);
        self.half_life.resize(rows, f32::INFINITY);
        self.expires_at.resize(rows, NEVER);
        self.version.resize(rows, 0);
        self.text_keys.resize(rows, 0);
    }

    fn tag_set(&mut self, tags: &[Box<str>]) -> u32 {
        if tags.is_empty() {
            return 0;
        }
        let list: Box<[u32]> = tags.iter().map(|tag| self.tag_names.number(tag)).collect();
        if let Some(number) = self.tag_list_numbers.get(&list) {
            return *number;
        }
        let number = self.tag_lists.len() as u32;
        self.tag_lists.push(list.clone());
        self.tag_list_numbers.insert(list, number);
        number
    }

    fn content_hash(&self, row: u32) -> u64 {
        let place = row as usize;
        hash_content(self.tiers[place], self.sessions[place], self.abouts[place], self.text_keys[place])
    }

    /// Enters a row, whose columns are written, into every set.
    fn put_in(&mut self, row: Row, pinned: bool) {
        let place = row.index();
        let (session, about) = (self.sessions[place], self.abouts[place]);
        self.present.insert(row);
        let ids = &self.ids;
        self.by_id.insert_unique(hash_id(ids[place]), row.0, |known| hash_id(ids[*known as usize]));
        if self.states[place] == State::Alive {
            self.alive.insert(row);
            let (tiers, sessions, abouts, keys) = (&self.tiers, &self.sessions, &self.abouts, &self.text_keys);
            let of = |known: usize| hash_content(tiers[known], sessions[known], abouts[known], keys[known]);
            self.by_content.insert_unique(of(place), row.0, |known| of(*known as usize));
            if self.expires_at[place] != NEVER {
                self.ends.insert((self.expires_at[place], row.0));
            }
        }
        if pinned {
            self.pinned.insert(row);
        }
        if self.labels[place] != 0 {
            self.labelled.insert(row);
        }
        self.by_tier[self.tiers[place] as usize].insert(row);
        self.by_source[self.sources[place] as usize].insert(row);
        if session != NONE {
            self.session_names.attach(session, row);
        }
        if about == NONE {
            self.general.insert(row);
        } else {
            self.about_names.attach(about, row);
        }
        for tag in &self.tag_lists[self.tag_sets[place] as usize] {
            self.tag_names.attach(*tag, row);
        }
    }

    /// Takes a row out of every set; its columns stay as they are.
    fn take_out(&mut self, row: Row) {
        let place = row.index();
        let number = row.0;
        if let Ok(entry) = self.by_id.find_entry(hash_id(self.ids[place]), |known| *known == number) {
            entry.remove();
        }
        if let Ok(entry) = self.by_content.find_entry(self.content_hash(number), |known| *known == number) {
            entry.remove();
        }
        self.ends.remove(&(self.expires_at[place], number));
        for set in [&mut self.present, &mut self.alive, &mut self.pinned, &mut self.labelled, &mut self.general] {
            set.remove(row);
        }
        self.by_tier[self.tiers[place] as usize].remove(row);
        self.by_source[self.sources[place] as usize].remove(row);
        if self.sessions[place] != NONE {
            self.session_names.detach(self.sessions[place], row);
        }
        if self.abouts[place] != NONE {
            self.about_names.detach(self.abouts[place], row);
        }
        for tag in &self.tag_lists[self.tag_sets[place] as usize] {
            self.tag_names.detach(*tag, row);
        }
    }

    /// The head of a row that was written.
    pub fn head(&self, row: Row) -> Option<Head> {
        if !self.present.contains(row) {
            return None;
        }
        let place = row.index();
        Some(Head {
            id: self.ids[place],
            state: self.states[place],
            tier: self.tiers[place],
            importance: self.importance[place],
            session: self.session(row).map(Into::into),
            about: self.about(row).map(Into::into),
            source: self.sources[place],
            trust: self.trust[place],
            tags: self.tags(row).map(Into::into).collect(),
            labels: self.label_names(self.labels[place]),
            created_at: self.created_at[place],
            last_used_at: self.last_used_at[place],
            use_count: self.use_count[place],
            spaced_uses: self.spaced_uses[place],
            repeat_count: self.repeat_count[place],
            half_life: self.half_life[place],
            expires_at: Some(self.expires_at[place]).filter(|end| *end != NEVER),
            pinned: self.pinned.contains(row),
            version: self.version[place],
            text_key: self.text_keys[place],
        })
    }

    /// The id of a row.
    pub fn id(&self, row: Row) -> MemoryId {
        self.ids[row.index()]
    }

    /// What has become of a row.
    pub fn state(&self, row: Row) -> State {
        self.states[row.index()]
    }

    /// The tier of a row.
    pub fn tier(&self, row: Row) -> Tier {
        self.tiers[row.index()]
    }

    /// The importance of a row.
    pub fn importance(&self, row: Row) -> f32 {
        self.importance[row.index()]
    }

    /// The source of a row.
    pub fn source(&self, row: Row) -> Source {
        self.sources[row.index()]
    }

    /// The trust of a row.
    pub fn trust(&self, row: Row) -> f32 {
        self.trust[row.index()]
    }

    /// When the row was written.
    pub fn created_at(&self, row: Row) -> Micros {
        self.created_at[row.index()]
    }

    /// When the row was last used.
    pub fn last_used_at(&self, row: Row) -> Micros {
        self.last_used_at[row.index()]
    }

    /// How often the row was used.
    pub fn use_count(&self, row: Row) -> u32 {
        self.use_count[row.index()]
    }

    /// How many of its uses came long enough after the one before.
    pub fn spaced_uses(&self, row: Row) -> u32 {
        self.spaced_uses[row.index()]
    }

    /// How often the row was told again.
    pub fn repeat_count(&self, row: Row) -> u32 {
        self.repeat_count[row.index()]
    }

    /// The half-life of a row in seconds.
    pub fn half_life(&self, row: Row) -> f32 {
        self.half_life[row.index()]
    }

    /// When the row ends, if it does.
    pub fn expires_at(&self, row: Row) -> Option<Micros> {
        Some(self.expires_at[row.index()]).filter(|end| *end != NEVER)
    }

    /// The label bits of a row.
    pub fn labels(&self, row: Row) -> u64 {
        self.labels[row.index()]
    }

    /// The key of the row's text: equal texts have equal keys, wherever they were told.
    pub fn text_key(&self, row: Row) -> u64 {
        self.text_keys[row.index()]
    }

    /// The session of a row.
    pub fn session(&self, row: Row) -> Option<&str> {
        Some(self.sessions[row.index()]).filter(|number| *number != NONE).map(|number| self.session_names.name(number))
    }

    /// A number that is the same for rows of the same session, and only for them.
    pub fn session_number(&self, row: Row) -> u32 {
        self.sessions[row.index()]
    }

    /// Whom or what the row concerns.
    pub fn about(&self, row: Row) -> Option<&str> {
        Some(self.abouts[row.index()]).filter(|number| *number != NONE).map(|number| self.about_names.name(number))
    }

    /// A number that is the same for rows about the same, and only for them.
    pub fn about_number(&self, row: Row) -> u32 {
        self.abouts[row.index()]
    }

    /// The tags of a row, in the order they were given.
    pub fn tags(&self, row: Row) -> impl Iterator<Item = &str> {
        self.tag_lists[self.tag_sets[row.index()] as usize].iter().map(|tag| self.tag_names.name(*tag))
    }

    /// Every row that was written and is not erased.
    pub fn present(&self) -> &RowSet {
        &self.present
    }

    /// The rows whose state is alive; they may have expired.
    pub fn alive(&self) -> &RowSet {
        &self.alive
    }

    /// The rows that are pinned.
    pub fn pinned(&self) -> &RowSet {
        &self.pinned
    }

    /// The rows that carry a label.
    pub fn labelled(&self) -> &RowSet {
        &self.labelled
    }

    /// The rows of a tier.
    pub fn tier_rows(&self, tier: Tier) -> &RowSet {
        &self.by_tier[tier as usize]
    }

    /// The rows of a source.
    pub fn source_rows(&self, source: Source) -> &RowSet {
        &self.by_source[source as usize]
    }

    /// The rows about nobody in particular.
    pub fn general(&self) -> &RowSet {
        &self.general
    }

    /// The rows about this subject, and no others.
    pub fn about_rows(&self, about: &str) -> RowSet {
        self.about_names.set(about)
    }

    /// The rows of this session.
    pub fn session_rows(&self, session: &str) -> RowSet {
        self.session_names.set(session)
    }

    /// The rows with this tag.
    pub fn tag_rows(&self, tag: &str) -> RowSet {
        self.tag_names.set(tag)
    }

    /// The names of the sessions that have rows.
    pub fn sessions(&self) -> impl Iterator<Item = &str> {
        (0..self.session_names.len() as u32)
            .filter(|number| !self.session_names.rows(*number).is_empty())
            .map(|number| self.session_names.name(number))
    }

    /// Living rows whose end has come.
    pub fn expired(&self, now: Micros) -> impl Iterator<Item = Row> + '_ {
        self.ends.range(..=(now, u32::MAX)).map(|(_, row)| Row(*row))
    }

    /// Bytes on the heap, near enough.
    pub fn heap_bytes(&self) -> usize {
        let per_row = size_of::<MemoryId>() + 3 + 2 * 4 + 3 * 4 + 8 + 3 * 8 + 5 * 4 + 8;
        self.ids.capacity() * per_row
            + (self.by_id.capacity() + self.by_content.capacity()) * 5
            + [&self.session_names, &self.about_names, &self.tag_names]
                .iter()
                .map(|names| names.heap_bytes())
                .sum::<usize>()
            + self.metadata.heap_bytes()
            + self.rows() / 8 * 14
    }
}

fn hash_content(tier: Tier, session: u32, about: u32, text_key: u64) -> u64 {
    let place = (u64::from(session) << 32 | u64::from(about)).wrapping_add(tier as u64 + 1);
    (text_key ^ place.wrapping_mul(0xff51_afd7_ed55_8ccd)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(id: u128, session: Option<&str>) -> Head {
        Head {
            id: MemoryId(id),
            state: State::Alive,
            tier: Tier::Semantic,
            importance: 0.5,
            session: session.map(Into::into),
            about: None,
            source: Source::User,
            trust: 1.0,
            tags: vec!["red".into(), "blue".into()],
            labels: vec!["health".into()],
            created_at: Micros(1),
            last_used_at: Micros(2),
            use_count: 3,
            spaced_uses: 2,
            repeat_count: 4,
            half_life: 5.0,
            expires_at: Some(Micros(6)),
            pinned: true,
            version: 7,
            text_key: 8,
        }
    }

    #[test]
    fn a_head_comes_back_as_it_went_in_and_leaves_nothing_behind() {
        let mut columns = Columns::new();
        let first = head(1, Some("s"));
        columns.put(Row(5), &first).expect("room for a label");
        assert_eq!(columns.head(Row(5)), Some(first.clone()));
        assert_eq!(columns.head(Row(4)), None);
        assert_eq!(columns.find(MemoryId(1)), Some(Row(5)));
        assert_eq!(columns.find_content(Tier::Semantic, Some("s"), None, 8, Micros(5)), Some(Row(5)));
        assert_eq!(columns.find_content(Tier::Semantic, Some("s"), None, 8, Micros(6)), None, "its end has come");
        assert_eq!(columns.find_content(Tier::Semantic, None, None, 8, Micros(5)), None);
        assert_eq!(columns.expired(Micros(6)).collect::<Vec<_>>(), [Row(5)]);
        assert_eq!(columns.expired(Micros(5)).count(), 0);

        let changed = Head { session: Some("t".into()), tags: vec!["red".into()], state: State::Forgotten, ..first };
        columns.put(Row(5), &changed).expect("room for a label");
        assert_eq!(columns.head(Row(5)), Some(changed));
        assert!(columns.session_rows("s").is_empty());
        assert!(columns.tag_rows("blue").is_empty());
        assert!(columns.tag_rows("red").contains(Row(5)));
        let told = columns.find_content(Tier::Semantic, Some("t"), None, 8, Micros(5));
        assert_eq!(told, None, "only the living are told again");
        assert_eq!(columns.expired(Micros(9)).count(), 0);

        columns.erase(Row(5));
        assert_eq!(columns.head(Row(5)), None);
        assert_eq!(columns.find(MemoryId(1)), None);
        assert!(columns.present().is_empty() && columns.labelled().is_empty() && columns.pinned().is_empty());
    }

    #[test]
    fn labels_end_where_the_word_ends() {
        let mut columns = Columns::new();
        let names: Vec<String> = (0..=limits::LABELS).map(|number| format!("label {number}")).collect();
        let full = columns.label_bits(names[..limits::LABELS].iter().map(String::as_str)).expect("exactly full");
        assert_eq!(full, u64::MAX);
        assert!(matches!(columns.label_bits([names[limits::LABELS].as_str()]), Err(Error::Limit { .. })));
    }
}
