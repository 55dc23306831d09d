//! Memories to store, and a naive model of the store to judge it by.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use tiermem_core::base::{Content, Head, MemoryId, Micros, Result, Row, Source, State, Tier};
use tiermem_core::disk::{Disk, DiskOptions, Durability, Loaded, Transaction};

pub const NOW: Micros = Micros(1_700_000_000_000_000);

pub fn options(durability: Durability) -> DiskOptions {
    DiskOptions {
        durability,
        read_only: false,
        busy_timeout_ms: 5_000,
        allow_network: false,
        now: NOW,
        store_id: 0x5707_e1d0,
    }
}

pub fn open(directory: &Path) -> Disk {
    Disk::open(Some(directory), options(Durability::Normal)).expect("the store opens")
}

/// The `number`-th plain memory.
pub fn plain(number: u64) -> (Head, Content) {
    let text = format!("memory {number} says 记忆 {}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let head = Head {
        id: MemoryId::version_7(NOW.0 + number as i64 * 1_000, 0, number),
        state: State::Alive,
        tier: Tier::ALL[number as usize % 4],
        importance: 0.5,
        session: Some(format!("session {}", number % 7).into()),
        about: number.is_multiple_of(3).then(|| "Director Li".into()),
        source: Source::User,
        trust: 0.75,
        tags: if number.is_multiple_of(5) { vec!["a".into(), "\"b\"".into()] } else { Vec::new() },
        labels: Vec::new(),
        created_at: NOW,
        last_used_at: NOW,
        use_count: 0,
        spaced_uses: 0,
        repeat_count: 0,
        half_life: 604_800.0,
        expires_at: None,
        pinned: false,
        version: 1,
        text_key: number,
    };
    (head, Content { text, metadata: Some(format!("{{\"n\":{number}}}")), private: None })
}

pub fn vector(number: u64, dimension: usize) -> Vec<u16> {
    let mut state = number ^ 0x2545_f491_4f6c_dd1d;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 48) as u16 & 0xbbff
    };
    (0..dimension).map(next).collect()
}

/// A memory as it went in or came out.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    pub head: Head,
    pub content: Content,
    pub vector: Option<Vec<u16>>,
}

impl Memory {
    pub fn plain(number: u64) -> Self {
        let (head, content) = plain(number);
        Self { head, content, vector: number.is_multiple_of(2).then(|| vector(number, 24)) }
    }

    pub fn insert(&self, transaction: &mut Transaction<'_>) -> Result<Row> {
        transaction.insert(&self.head, &self.content, self.vector.as_deref())
    }
}

/// Everything that lies in a store, through every way of reading it.
pub fn everything(disk: &Disk) -> (Loaded, Vec<(Row, Memory)>) {
    let mut found = Vec::new();
    let loaded = disk
        .load(&mut |stored| {
            let content =
                Content { text: stored.text.to_owned(), metadata: stored.metadata.map(str::to_owned), private: None };
            found.push((stored.row, Memory { head: stored.head, content, vector: stored.vector.map(<[u16]>::to_vec) }));
            Ok(())
        })
        .expect("the store loads");
    let rows: Vec<Row> = found.iter().map(|(row, _)| *row).collect();
    let contents = disk.contents(&rows).expect("the contents are sound");
    let vectors = disk.vectors(&rows).expect("the vectors are sound");
    for (((_, memory), content), vector) in found.iter_mut().zip(contents).zip(vectors) {
        assert_eq!((&memory.content.text, &memory.content.metadata), (&content.text, &content.metadata));
        assert_eq!(memory.vector, vector);
        memory.content = content;
    }
    (loaded, found)
}

/// The bits of every float, since `==` cannot tell all of them apart.
pub fn float_bits(head: &Head) -> [u32; 3] {
    [head.importance, head.trust, head.half_life].map(|value| (value + 0.0).to_bits())
}

fn float() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<f32>().prop_filter("NaN is refused", |value| !value.is_nan()),
        Just(f32::INFINITY),
        Just(f32::NEG_INFINITY),
        Just(-0.0),
        Just(f32::from_bits(1)),
        Just(-f32::from_bits(0x007f_ffff)),
        Just(f32::MAX),
        Just(f32::MIN_POSITIVE),
        0.0_f32..=1.0,
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::collection::vec(any::<char>(), 0..40).prop_map(|characters| characters.into_iter().collect()),
        1 => Just("a\0b\0".to_owned()),
        1 => Just(String::new()),
        1 => Just("记忆与遗忘 🧠 e\u{301} \u{feff}\u{202e}".to_owned()),
        1 => (1_usize..20_000).prop_map(|length| "长".repeat(length)),
    ]
}

fn names() -> impl Strategy<Value = Vec<Box<str>>> {
    prop::collection::vec(text().prop_map(Into::into), 0..4)
}

fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), Just(0), Just(-1)]
}

fn count() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), Just(0), Just(u32::MAX)]
}

pub fn heads() -> impl Strategy<Value = Head> {
    let kinds = (0_u8..4, 0_u8..4, 0_u8..5, any::<bool>());
    let floats = (float(), float(), float());
    let words = (prop::option::of(text()), prop::option::of(text()), names(), names());
    let times = (integer(), integer(), prop::option::of(integer()));
    let counts = (count(), count(), count(), count(), any::<u64>());
    (any::<u128>(), kinds, floats, words, times, counts).prop_map(
        |(id, (state, tier, source, pinned), floats, (session, about, tags, labels), times, counts)| Head {
            id: MemoryId(id),
            state: State::from_number(state).expect("below four"),
            tier: Tier::from_number(tier).expect("below four"),
            importance: floats.0,
            session: session.map(Into::into),
            about: about.map(Into::into),
            source: Source::from_number(source).expect("below five"),
            trust: floats.1,
            tags,
            labels,
            created_at: Micros(times.0),
            last_used_at: Micros(times.1),
            use_count: counts.0,
            spaced_uses: counts.1,
            repeat_count: counts.2,
            half_life: floats.2,
            expires_at: times.2.map(Micros),
            pinned,
            version: counts.3,
            text_key: counts.4,
        },
    )
}

pub fn memories() -> impl Strategy<Value = Memory> {
    let content = (text(), prop::option::of(text()), prop::option::of(text()))
        .prop_map(|(text, metadata, private)| Content { text, metadata, private });
    (heads(), content, prop::option::of(prop::collection::vec(any::<u16>(), 0..400)))
        .prop_map(|(head, content, vector)| Memory { head, content, vector })
}

/// What commit `number` does, the same in the writing process and in the model that judges it.
fn operation(number: u64) -> (u64, u64) {
    (number % 5, number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)
}

/// Does commit `number`.
pub fn operate(transaction: &mut Transaction<'_>, number: u64) -> Result<()> {
    let rows = u64::from(transaction.next_row().0);
    match operation(number) {
        (3, pick) if rows > 0 => {
            let row = Row((pick % rows) as u32);
            if let Some(mut head) = transaction.head(row)? {
                head.use_count += 1;
                transaction.update(row, &head)?;
                transaction.event(row, "used", "writer", None)?;
            }
        }
        (4, pick) if rows > 0 => {
            let row = Row((pick % rows) as u32);
            if pick % 4 == 0 {
                transaction.erase(row)?;
            } else if transaction.head(row)?.is_some() {
                transaction.set_content(row, &Memory::plain(number).content)?;
            }
        }
        _ => {
            for part in 0..3 {
                Memory::plain(number * 10 + part).insert(transaction)?;
            }
        }
    }
    // Even an operation that met an erased row is a commit.
    transaction.set_meta("last", &number.to_string())
}

/// What the commits up to one make of an empty store.
#[derive(Debug, Default)]
pub struct Model {
    pub commit: u64,
    pub next_row: u32,
    pub memories: BTreeMap<Row, Memory>,
}

impl Model {
    /// Does the next commit.
    pub fn apply(&mut self, number: u64) {
        let rows = u64::from(self.next_row);
        match operation(number) {
            (3, pick) if rows > 0 => {
                if let Some(memory) = self.memories.get_mut(&Row((pick % rows) as u32)) {
                    memory.head.use_count += 1;
                }
            }
            (4, pick) if rows > 0 => {
                let row = Row((pick % rows) as u32);
                if pick % 4 == 0 {
                    self.memories.remove(&row);
                } else if let Some(memory) = self.memories.get_mut(&row) {
                    memory.content = Memory::plain(number).content;
                }
            }
            _ => {
                for part in 0..3 {
                    self.memories.insert(Row(self.next_row), Memory::plain(number * 10 + part));
                    self.next_row += 1;
                }
            }
        }
        self.commit = number;
    }
}
