//! The options of an engine, by the names that `tiermem_fast.config.Config.flat` gives them.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiermem_core::disk::Durability;
use tiermem_core::engine::EngineConfig;

use crate::convert::{number, text};
use crate::errors::invalid;

/// What an engine is opened with.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) engine: EngineConfig,
    pub(crate) durability: Durability,
    pub(crate) id_seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { engine: EngineConfig::default(), durability: Durability::Full, id_seed: None }
    }
}

/// One numeric option: its name, and where its value lives.
type Place = (&'static str, fn(&mut EngineConfig) -> Slot<'_>);

enum Slot<'a> {
    F64(&'a mut f64),
    F32(&'a mut f32),
    Size(&'a mut usize),
    Count(&'a mut u32),
}

impl Slot<'_> {
    fn shown(&self) -> String {
        match self {
            Slot::F64(slot) => slot.to_string(),
            Slot::F32(slot) => slot.to_string(),
            Slot::Size(slot) => slot.to_string(),
            Slot::Count(slot) => slot.to_string(),
        }
    }
}

const PLACES: &[Place] = &[
    ("laws.working_half_life", |engine| Slot::F64(&mut engine.laws.base_half_life[0])),
    ("laws.episodic_half_life", |engine| Slot::F64(&mut engine.laws.base_half_life[1])),
    ("laws.semantic_half_life", |engine| Slot::F64(&mut engine.laws.base_half_life[2])),
    ("laws.working_shape", |engine| Slot::F64(&mut engine.laws.shape[0])),
    ("laws.episodic_shape", |engine| Slot::F64(&mut engine.laws.shape[1])),
    ("laws.semantic_shape", |engine| Slot::F64(&mut engine.laws.shape[2])),
    ("laws.gain", |engine| Slot::F64(&mut engine.laws.gain)),
    ("laws.max_half_life", |engine| Slot::F64(&mut engine.laws.max_half_life)),
    ("laws.strength_share", |engine| Slot::F32(&mut engine.laws.strength_share)),
    ("laws.importance_share", |engine| Slot::F32(&mut engine.laws.importance_share)),
    ("working.capacity", |engine| Slot::Size(&mut engine.laws.working_capacity)),
    ("working.ttl", |engine| Slot::F64(&mut engine.laws.working_ttl_seconds)),
    ("working.keep_share", |engine| Slot::F32(&mut engine.laws.working_keep_share)),
    ("consolidation.promote_uses", |engine| Slot::Count(&mut engine.laws.promote_uses)),
    ("consolidation.use_spacing", |engine| Slot::F64(&mut engine.laws.promote_use_spacing_seconds)),
    ("consolidation.promote_importance", |engine| Slot::F32(&mut engine.laws.promote_importance)),
    ("consolidation.promote_sessions", |engine| Slot::Count(&mut engine.laws.promote_sessions)),
    ("consolidation.merge_cosine", |engine| Slot::F32(&mut engine.laws.merge_cosine)),
    ("consolidation.merge_jaccard", |engine| Slot::F32(&mut engine.laws.merge_jaccard)),
    ("cleanup.idle_days", |engine| Slot::F64(&mut engine.laws.forget_idle_days)),
    ("cleanup.max_importance", |engine| Slot::F32(&mut engine.laws.forget_importance)),
    ("search.vector_weight", |engine| Slot::F32(&mut engine.laws.vector_weight)),
    ("search.keyword_weight", |engine| Slot::F32(&mut engine.laws.keyword_weight)),
    ("search.candidates", |engine| Slot::Size(&mut engine.candidates)),
    ("keywords.k1", |engine| Slot::F32(&mut engine.keywords.k1)),
    ("keywords.b", |engine| Slot::F32(&mut engine.keywords.b)),
    ("vectors.graph_bytes", |engine| Slot::Size(&mut engine.vectors.graph_bytes)),
    ("vectors.connectivity", |engine| Slot::Size(&mut engine.vectors.connectivity)),
    ("vectors.build_ef", |engine| Slot::Size(&mut engine.vectors.expansion_add)),
    ("vectors.search_ef", |engine| Slot::Size(&mut engine.vectors.expansion_search)),
    ("vectors.rebuild_share", |engine| Slot::F32(&mut engine.vectors.max_dead_share)),
];

/// Options from a dict. Names that begin with `briefing.` are for the Python side and passed over.
pub(crate) fn read(values: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::default();
    for (name, value) in values {
        let name = text("option", &name)?.into_owned();
        if let Some((_, place)) = PLACES.iter().find(|(known, _)| *known == name) {
            let given = number(&name, &value)?;
            match place(&mut options.engine) {
                Slot::F64(slot) => *slot = given,
                Slot::F32(slot) => *slot = given as f32,
                Slot::Size(slot) => *slot = whole(&name, &value, given)? as usize,
                Slot::Count(slot) => *slot = whole(&name, &value, given)? as u32,
            }
            continue;
        }
        match name.as_str() {
            "durability" => {
                options.durability = match &*text(&name, &value)? {
                    "full" => Durability::Full,
                    "normal" => Durability::Normal,
                    "memory" => Durability::Memory,
                    other => {
                        return Err(invalid(value.py(), name, format!("{other:?} is not one of full, normal, memory")));
                    }
                };
            }
            "id_seed" if value.is_none() => options.id_seed = None,
            "id_seed" => options.id_seed = Some(value.extract()?),
            other if other.starts_with("briefing.") => {}
            other => return Err(invalid(value.py(), other, "is not an option of the engine")),
        }
    }
    Ok(options)
}

/// The first option in which two engines differ: its name, and the two values.
pub(crate) fn difference(one: &Options, other: &Options) -> Option<(&'static str, String, String)> {
    let (mut first, mut second) = (one.engine.clone(), other.engine.clone());
    for (name, place) in PLACES {
        let (one, other) = (place(&mut first).shown(), place(&mut second).shown());
        if one != other {
            return Some((name, one, other));
        }
    }
    let shown =
        |options: &Options| (format!("{:?}", options.durability).to_lowercase(), format!("{:?}", options.id_seed));
    let ((durability, seed), (other_durability, other_seed)) = (shown(one), shown(other));
    if durability != other_durability {
        return Some(("durability", durability, other_durability));
    }
    (seed != other_seed).then_some(("id_seed", seed, other_seed))
}

fn whole(name: &str, value: &Bound<'_, PyAny>, given: f64) -> PyResult<u64> {
    if given.fract() == 0.0 && (0.0..=9e15).contains(&given) {
        Ok(given as u64)
    } else {
        Err(invalid(value.py(), name, format!("{given} is not a whole number from 0 on")))
    }
}

/// The options of an engine that was told nothing.
pub(crate) fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let mut engine = EngineConfig::default();
    let values = PyDict::new(py);
    for (name, place) in PLACES {
        match place(&mut engine) {
            Slot::F64(slot) => values.set_item(name, *slot)?,
            Slot::F32(slot) => values.set_item(name, slot.to_string().parse::<f64>().unwrap_or(f64::from(*slot)))?,
            Slot::Size(slot) => values.set_item(name, *slot)?,
            Slot::Count(slot) => values.set_item(name, *slot)?,
        }
    }
    values.set_item("durability", "full")?;
    values.set_item("id_seed", py.None())?;
    Ok(values)
}
