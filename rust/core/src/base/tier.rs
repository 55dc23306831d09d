//! The four tiers and the five sources.

use super::Error;

/// Where a memory lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tier {
    /// One request or a very short session: constraints, temporary variables, the latest input.
    Working = 0,
    /// One session: turns, intermediate conclusions.
    Episodic = 1,
    /// Across sessions: profile, facts, lasting preferences.
    Semantic = 2,
    /// Stable: strategies, rules, handling of errors. Never decays.
    Procedural = 3,
}

impl Tier {
    /// All tiers, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Working, Self::Episodic, Self::Semantic, Self::Procedural];

    /// The name as it is written everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Episodic => "episodic",
            Self::Semantic => "semantic",
            Self::Procedural => "procedural",
        }
    }

    /// The tier with this number, as SQLite keeps it.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// The tier with this name.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|tier| tier.name() == name).ok_or_else(|| {
            Error::invalid("tier", format!("{name:?} is not one of working, episodic, semantic, procedural"))
        })
    }
}

/// Who said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Source {
    /// The person.
    User = 0,
    /// The model.
    Assistant = 1,
    /// A tool's result.
    Tool = 2,
    /// The system prompt or the operator.
    System = 3,
    /// An import.
    Import = 4,
}

impl Source {
    /// All sources, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::User, Self::Assistant, Self::Tool, Self::System, Self::Import];

    /// The name as it is written everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::System => "system",
            Self::Import => "import",
        }
    }

    /// The source with this number, as SQLite keeps it.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// The source with this name.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|source| source.name() == name).ok_or_else(|| {
            Error::invalid("source", format!("{name:?} is not one of user, assistant, tool, system, import"))
        })
    }
}
