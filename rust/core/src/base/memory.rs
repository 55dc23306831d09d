//! A memory as it passes between the floors: the narrow head that the columns hold, and the content
//! that stays on disk until somebody asks for it.

use super::{MemoryId, Micros, Source, Tier};

/// What has become of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// It is remembered.
    Alive = 0,
    /// Hidden at once, comes back by `restore` until compaction.
    Forgotten = 1,
    /// A newer memory says it better; still readable in history.
    Superseded = 2,
    /// Folded into a near-duplicate, or promoted into another row.
    Merged = 3,
}

impl State {
    /// The state with this number, as SQLite keeps it.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Alive, Self::Forgotten, Self::Superseded, Self::Merged].get(number as usize).copied()
    }

    /// The name as it is written everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Forgotten => "forgotten",
            Self::Superseded => "superseded",
            Self::Merged => "merged",
        }
    }
}

/// Why one memory points at another. The edge runs from the newer memory to the older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EdgeKind {
    /// The newer one was made from the older one.
    DerivedFrom = 0,
    /// The newer one takes the older one's place.
    Supersedes = 1,
}

/// Everything of a memory that filters, laws and tiers look at.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Its lasting name.
    pub id: MemoryId,
    /// What has become of it.
    pub state: State,
    /// Where it lives.
    pub tier: Tier,
    /// 0 (trivia) to 1 (vital).
    pub importance: f32,
    /// The session it was said in.
    pub session: Option<Box<str>>,
    /// Whom or what it concerns; `None` is general.
    pub about: Option<Box<str>>,
    /// Who said it.
    pub source: Source,
    /// 0 (hearsay) to 1 (certain).
    pub trust: f32,
    /// Free words of the caller.
    pub tags: Vec<Box<str>>,
    /// Privacy classes; a reader needs a grant for each.
    pub labels: Vec<Box<str>>,
    /// When it was written.
    pub created_at: Micros,
    /// When it was last used or reinforced.
    pub last_used_at: Micros,
    /// How often it was used.
    pub use_count: u32,
    /// How many of these uses came long enough after the one before: a burst counts once.
    pub spaced_uses: u32,
    /// How often the same was said again.
    pub repeat_count: u32,
    /// Seconds until half of it is forgotten; infinity never decays.
    pub half_life: f32,
    /// When it ends, if it does.
    pub expires_at: Option<Micros>,
    /// Never decays, is never cleaned up.
    pub pinned: bool,
    /// Counts its changes, from 1.
    pub version: u32,
    /// xxh3 of the text: with tier, session and about it tells whether the same was told again.
    pub text_key: u64,
}

/// What a memory says, and what the caller hung on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// The text.
    pub text: String,
    /// A JSON object, or nothing.
    pub metadata: Option<String>,
    /// A JSON object of fields that stay masked unless granted, or nothing.
    pub private: Option<String>,
}

impl Head {
    /// The key of a text.
    pub fn text_key(text: &str) -> u64 {
        xxhash_rust::xxh3::xxh3_64(text.as_bytes())
    }
}
