//! What callers hand in, checked before anything of it is kept.

use crate::base::{Error, MemoryId, Micros, Result, Source, Tier, limits};
use crate::store::metadata;

/// A memory to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMemory {
    /// Its lasting name, made by the caller.
    pub id: MemoryId,
    /// What it says.
    pub text: String,
    /// Where it shall live.
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
    /// Privacy classes.
    pub labels: Vec<Box<str>>,
    /// A JSON object.
    pub metadata: Option<String>,
    /// A JSON object of fields that stay masked.
    pub private: Option<String>,
    /// When it was said; the time of the call where it is missing.
    pub created_at: Option<Micros>,
    /// Seconds until half is forgotten; by the law of birth where it is missing.
    pub half_life: Option<f32>,
    /// When it ends.
    pub expires_at: Option<Micros>,
    /// Never decays, is never cleaned up.
    pub pinned: bool,
    /// What it was made from.
    pub derived_from: Vec<MemoryId>,
    /// Makes a retry of the same call safe.
    pub idempotency_key: Option<Box<str>>,
}

impl NewMemory {
    /// A memory with this text and every other field as it is by default.
    pub fn new(id: MemoryId, text: impl Into<String>, tier: Tier) -> Self {
        Self {
            id,
            text: text.into(),
            tier,
            importance: 0.5,
            session: None,
            about: None,
            source: Source::User,
            trust: 1.0,
            tags: Vec::new(),
            labels: Vec::new(),
            metadata: None,
            private: None,
            created_at: None,
            half_life: None,
            expires_at: None,
            pinned: false,
            derived_from: Vec::new(),
            idempotency_key: None,
        }
    }

    /// Refuses what no store takes.
    pub(super) fn check(&self) -> Result<()> {
        check_text("text", &self.text)?;
        check_share("importance", self.importance)?;
        check_share("trust", self.trust)?;
        for (argument, name) in
            [("session", &self.session), ("about", &self.about), ("idempotency_key", &self.idempotency_key)]
        {
            if let Some(name) = name {
                check_name(argument, name)?;
            }
        }
        check_names("tags", &self.tags)?;
        check_names("labels", &self.labels)?;
        for (argument, json) in [("metadata", &self.metadata), ("private", &self.private)] {
            if let Some(json) = json {
                metadata::parse(argument, json)?;
            }
        }
        if let Some(half_life) = self.half_life {
            check_half_life(half_life)?;
        }
        if self.derived_from.len() > limits::FILTER_TERMS {
            return Err(Error::limit("ids in derived_from", self.derived_from.len(), limits::FILTER_TERMS));
        }
        Ok(())
    }
}

/// What a change of a memory changes; the rest stays. `Some(None)` takes a value away.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patch {
    /// A new importance.
    pub importance: Option<f32>,
    /// Another tier.
    pub tier: Option<Tier>,
    /// Another session.
    pub session: Option<Option<Box<str>>>,
    /// Another subject.
    pub about: Option<Option<Box<str>>>,
    /// Another source.
    pub source: Option<Source>,
    /// Another trust.
    pub trust: Option<f32>,
    /// Other tags.
    pub tags: Option<Vec<Box<str>>>,
    /// Other labels.
    pub labels: Option<Vec<Box<str>>>,
    /// Another metadata object.
    pub metadata: Option<Option<String>>,
    /// Other private fields.
    pub private: Option<Option<String>>,
    /// Another half-life.
    pub half_life: Option<f32>,
    /// Another end.
    pub expires_at: Option<Option<Micros>>,
    /// Pin or release.
    pub pinned: Option<bool>,
}

impl Patch {
    /// The names of the fields that it changes.
    pub fn fields(&self) -> Vec<&'static str> {
        let given = [
            ("importance", self.importance.is_some()),
            ("tier", self.tier.is_some()),
            ("session", self.session.is_some()),
            ("about", self.about.is_some()),
            ("source", self.source.is_some()),
            ("trust", self.trust.is_some()),
            ("tags", self.tags.is_some()),
            ("labels", self.labels.is_some()),
            ("metadata", self.metadata.is_some()),
            ("private", self.private.is_some()),
            ("half_life", self.half_life.is_some()),
            ("expires_at", self.expires_at.is_some()),
            ("pinned", self.pinned.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    pub(super) fn check(&self) -> Result<()> {
        if let Some(importance) = self.importance {
            check_share("importance", importance)?;
        }
        if let Some(trust) = self.trust {
            check_share("trust", trust)?;
        }
        for (argument, name) in [("session", &self.session), ("about", &self.about)] {
            if let Some(Some(name)) = name {
                check_name(argument, name)?;
            }
        }
        check_names("tags", self.tags.as_deref().unwrap_or_default())?;
        check_names("labels", self.labels.as_deref().unwrap_or_default())?;
        for (argument, json) in [("metadata", &self.metadata), ("private", &self.private)] {
            if let Some(Some(json)) = json {
                metadata::parse(argument, json)?;
            }
        }
        self.half_life.map_or(Ok(()), check_half_life)
    }
}

/// A text that says something, without NUL bytes, within the limit.
pub(super) fn check_text(argument: &str, text: &str) -> Result<()> {
    if text.len() > limits::TEXT_BYTES {
        return Err(Error::limit(format!("bytes of {argument}"), text.len(), limits::TEXT_BYTES));
    }
    if text.trim().is_empty() {
        return Err(Error::invalid(argument, format!("{text:?} is empty")));
    }
    if let Some(place) = text.bytes().position(|byte| byte == 0) {
        return Err(Error::invalid(argument, format!("has a NUL byte at {place}")));
    }
    Ok(())
}

/// A name that is there, without NUL bytes, within the limit.
pub(super) fn check_name(argument: &str, name: &str) -> Result<()> {
    if name.len() > limits::NAME_BYTES {
        return Err(Error::limit(format!("bytes of {argument}"), name.len(), limits::NAME_BYTES));
    }
    if name.is_empty() {
        return Err(Error::invalid(argument, "\"\" is empty; leave it out instead"));
    }
    if name.contains('\0') {
        return Err(Error::invalid(argument, format!("{name:?} has a NUL byte")));
    }
    Ok(())
}

fn check_names(argument: &str, names: &[Box<str>]) -> Result<()> {
    if names.len() > limits::NAMES_PER_MEMORY {
        return Err(Error::limit(argument, names.len(), limits::NAMES_PER_MEMORY));
    }
    names.iter().try_for_each(|name| check_name(argument, name))
}

/// A number from 0 to 1.
pub(super) fn check_share(argument: &str, value: f32) -> Result<()> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(argument, format!("{value} is not between 0 and 1")))
    }
}

fn check_half_life(half_life: f32) -> Result<()> {
    let bounded = half_life > 0.0 && f64::from(half_life) <= limits::HALF_LIFE_SECONDS;
    if bounded || half_life == f32::INFINITY {
        Ok(())
    } else {
        Err(Error::invalid(
            "half_life",
            format!("{half_life} seconds is not between 0 and {:e}, nor infinity", limits::HALF_LIFE_SECONDS),
        ))
    }
}
