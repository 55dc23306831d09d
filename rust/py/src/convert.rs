//! The only place where Python values are read, and where items become dicts. Everything is checked and copied while
//! the GIL is held; nothing borrowed from Python goes further.

use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use tiermem_core::base::{MemoryId, Micros, Source, Tier};
use tiermem_core::engine::{Item, NewMemory, Patch, Viewer};
use tiermem_core::store::{Condition, Field, Filter, Test, Value};

use crate::errors::{exception, invalid};

/// A str without lone surrogates.
pub(crate) fn text<'a>(argument: &str, value: &'a Bound<'_, PyAny>) -> PyResult<std::borrow::Cow<'a, str>> {
    let py = value.py();
    let string = value
        .cast::<PyString>()
        .map_err(|_| invalid(py, argument, format!("must be a str, not {}", type_name(value))))?;
    string.to_cow().map_err(|_| invalid(py, argument, "has a lone surrogate, which no UTF-8 can hold"))
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

fn name(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Box<str>>> {
    if value.is_none() { Ok(None) } else { Ok(Some(text(argument, value)?.into())) }
}

fn names(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<Box<str>>> {
    if value.is_none() {
        return Ok(Vec::new());
    }
    if value.is_instance_of::<PyString>() {
        return Err(invalid(value.py(), argument, "must be a list of str, not one str"));
    }
    let items = value
        .try_iter()
        .map_err(|_| invalid(value.py(), argument, format!("must be a list of str, not {}", type_name(value))))?;
    let mut names: Vec<Box<str>> = Vec::new();
    for item in items {
        let name: Box<str> = text(argument, &item?)?.into();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// A finite or infinite number that is no bool; `NaN` is left to the checks of the core.
pub(crate) fn number(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    if value.is_instance_of::<PyBool>() || value.is_instance_of::<PyString>() {
        return Err(invalid(value.py(), argument, format!("must be a number, not {}", type_name(value))));
    }
    value
        .extract::<f64>()
        .map_err(|_| invalid(value.py(), argument, format!("must be a number, not {}", type_name(value))))
}

/// A number from 0 to 1, judged before it is rounded to float32.
fn share(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<f32> {
    let number = number(argument, value)?;
    if (0.0..=1.0).contains(&number) {
        Ok(number as f32)
    } else {
        Err(invalid(value.py(), argument, format!("{number} is not between 0 and 1")))
    }
}

fn boolean(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value
        .extract::<bool>()
        .map_err(|_| invalid(value.py(), argument, format!("must be True or False, not {}", type_name(value))))
}

/// A time in seconds since 1970.
pub(crate) fn time(py: Python<'_>, argument: &str, seconds: f64) -> PyResult<Micros> {
    Micros::from_seconds(argument, seconds).map_err(|error| exception(py, &error))
}

fn optional_time(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Micros>> {
    if value.is_none() { Ok(None) } else { time(value.py(), argument, number(argument, value)?).map(Some) }
}

fn optional_text(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if value.is_none() { Ok(None) } else { Ok(Some(text(argument, value)?.into_owned())) }
}

fn tier(value: &Bound<'_, PyAny>) -> PyResult<Tier> {
    Tier::from_name(&text("tier", value)?).map_err(|error| exception(value.py(), &error))
}

fn source(value: &Bound<'_, PyAny>) -> PyResult<Source> {
    Source::from_name(&text("source", value)?).map_err(|error| exception(value.py(), &error))
}

/// An id; what is no id is the id of no memory.
pub(crate) fn id(value: &Bound<'_, PyAny>) -> PyResult<MemoryId> {
    text("id", value)?.parse().map_err(|error| exception(value.py(), &error))
}

/// Ids in their order.
pub(crate) fn ids(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<MemoryId>> {
    if value.is_instance_of::<PyString>() {
        return Err(invalid(value.py(), argument, "must be a list of ids, not one str"));
    }
    let items = value
        .try_iter()
        .map_err(|_| invalid(value.py(), argument, format!("must be a list of ids, not {}", type_name(value))))?;
    items.map(|item| id(&item?)).collect()
}

/// A C-contiguous float32 array of one or two dimensions, copied: its values, rows and columns.
pub(crate) fn vectors(argument: &str, value: &Bound<'_, PyAny>, rank: usize) -> PyResult<(Vec<f32>, usize, usize)> {
    let py = value.py();
    let array = value.cast::<PyArrayDyn<f32>>().map_err(|_| {
        let kind = value.getattr("dtype").map_or_else(|_| type_name(value), |dtype| format!("an array of {dtype}"));
        invalid(
            py,
            argument,
            format!("must be a float32 array, not {kind}; convert it with numpy.asarray(x, numpy.float32)"),
        )
    })?;
    let shape = array.shape();
    if shape.len() != rank {
        let wanted = if rank == 1 { "(dimensions,)" } else { "(memories, dimensions)" };
        return Err(invalid(py, argument, format!("must have the shape {wanted}, not {shape:?}")));
    }
    if !array.is_c_contiguous() {
        return Err(invalid(py, argument, "is not C-contiguous; make it so with numpy.ascontiguousarray"));
    }
    let (rows, columns) = if rank == 1 { (1, shape[0]) } else { (shape[0], shape[1]) };
    let values = array.to_vec().map_err(|_| invalid(py, argument, "is not C-contiguous"))?;
    Ok((values, rows, columns))
}

/// Writes one field of a new memory.
fn set_field(item: &mut NewMemory, field: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match field {
        "tier" => item.tier = tier(value)?,
        "importance" => item.importance = share("importance", value)?,
        "session" => item.session = name("session", value)?,
        "about" => item.about = name("about", value)?,
        "source" => item.source = source(value)?,
        "trust" => item.trust = share("trust", value)?,
        "tags" => item.tags = names("tags", value)?,
        "labels" => item.labels = names("labels", value)?,
        "metadata" => item.metadata = optional_text("metadata", value)?,
        "private" => item.private = optional_text("private", value)?,
        "created_at" => item.created_at = optional_time("created_at", value)?,
        "expires_at" => item.expires_at = optional_time("expires_at", value)?,
        "half_life" => {
            item.half_life = if value.is_none() { None } else { Some(number("half_life", value)? as f32) };
        }
        "pinned" => item.pinned = boolean("pinned", value)?,
        "derived_from" => {
            item.derived_from = if value.is_none() { Vec::new() } else { ids("derived_from", value)? };
        }
        "idempotency_key" => item.idempotency_key = name("idempotency_key", value)?,
        other => return Err(invalid(value.py(), other, "is not a field of a memory")),
    }
    Ok(())
}

/// New memories from texts, fields that all share, and fields given one by one.
pub(crate) fn new_memories(
    texts: &Bound<'_, PyList>,
    shared: &Bound<'_, PyDict>,
    columns: &Bound<'_, PyDict>,
    new_ids: Vec<MemoryId>,
) -> PyResult<Vec<NewMemory>> {
    let py = texts.py();
    let mut template = NewMemory::new(MemoryId(0), "", Tier::Semantic);
    for (field, value) in shared {
        set_field(&mut template, &text("field", &field)?, &value)?;
    }
    let mut own: Vec<(String, Bound<'_, PyList>)> = Vec::with_capacity(columns.len());
    for (field, values) in columns {
        let values = values.cast_into::<PyList>()?;
        if values.len() != texts.len() {
            return Err(invalid(
                py,
                text("field", &field)?,
                format!("{} values for {} memories", values.len(), texts.len()),
            ));
        }
        own.push((text("field", &field)?.into_owned(), values));
    }
    let mut items = Vec::with_capacity(texts.len());
    for (place, (value, new_id)) in texts.iter().zip(new_ids).enumerate() {
        let at = |error: PyErr| if texts.len() == 1 { error } else { at_item(py, error, place) };
        let words = text("text", &value).map_err(at)?.into_owned();
        let mut item = NewMemory { id: new_id, text: words, ..template.clone() };
        for (field, values) in &own {
            set_field(&mut item, field, &values.get_item(place)?).map_err(at)?;
        }
        items.push(item);
    }
    Ok(items)
}

/// Says which item of a batch an exception is about.
fn at_item(py: Python<'_>, error: PyErr, place: usize) -> PyErr {
    let value = error.value(py);
    let argument = value.getattr("argument").and_then(|argument| argument.extract::<String>());
    match argument {
        Ok(argument) => {
            let message = value.to_string();
            let rest = message.strip_prefix(&argument).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&message);
            invalid(py, format!("items[{place}].{argument}"), rest)
        }
        Err(_) => error,
    }
}

/// A change of a memory from the fields that change.
pub(crate) fn patch(fields: &Bound<'_, PyDict>) -> PyResult<Patch> {
    let mut patch = Patch::default();
    for (field, value) in fields {
        let field = text("field", &field)?.into_owned();
        match field.as_str() {
            "importance" => patch.importance = Some(share(&field, &value)?),
            "tier" => patch.tier = Some(tier(&value)?),
            "session" => patch.session = Some(name(&field, &value)?),
            "about" => patch.about = Some(name(&field, &value)?),
            "source" => patch.source = Some(source(&value)?),
            "trust" => patch.trust = Some(share(&field, &value)?),
            "tags" => patch.tags = Some(names(&field, &value)?),
            "labels" => patch.labels = Some(names(&field, &value)?),
            "metadata" => patch.metadata = Some(optional_text(&field, &value)?),
            "private" => patch.private = Some(optional_text(&field, &value)?),
            "half_life" => patch.half_life = Some(number(&field, &value)? as f32),
            "expires_at" => patch.expires_at = Some(optional_time(&field, &value)?),
            "pinned" => patch.pinned = Some(boolean(&field, &value)?),
            other => return Err(invalid(value.py(), other, "is not a field that can be changed")),
        }
    }
    Ok(patch)
}

/// A reader from `{"labels": [...], "fields": [...], "everything": bool}`; None sees nothing private.
pub(crate) fn viewer(value: Option<&Bound<'_, PyDict>>) -> PyResult<Viewer> {
    let mut viewer = Viewer::default();
    if let Some(grant) = value {
        if let Some(labels) = grant.get_item("labels")? {
            viewer.labels = names("grant.labels", &labels)?;
        }
        if let Some(fields) = grant.get_item("fields")? {
            viewer.fields = names("grant.fields", &fields)?;
        }
        if let Some(everything) = grant.get_item("everything")? {
            viewer.everything = boolean("grant.everything", &everything)?;
        }
    }
    Ok(viewer)
}

/// A filter and the required words from the keys `tiers, session, about, min_trust, where, must`.
pub(crate) fn filter(value: &Bound<'_, PyDict>) -> PyResult<(Filter, Vec<String>)> {
    let mut filter = Filter::default();
    let mut must = Vec::new();
    if let Some(tiers) = value.get_item("tiers")?.filter(|tiers| !tiers.is_none()) {
        for name in names("tiers", &tiers)? {
            filter.tiers.push(Tier::from_name(&name).map_err(|error| exception(value.py(), &error))?);
        }
        if filter.tiers.is_empty() {
            return Err(invalid(value.py(), "tiers", "[] names no tier; leave it out for all of them"));
        }
    }
    if let Some(session) = value.get_item("session")? {
        filter.session = name("session", &session)?;
    }
    if let Some(about) = value.get_item("about")? {
        filter.about = name("about", &about)?;
    }
    if let Some(least) = value.get_item("min_trust")?.filter(|least| !least.is_none()) {
        filter.min_trust = Some(share("min_trust", &least)?);
    }
    if let Some(words) = value.get_item("must")?.filter(|words| !words.is_none()) {
        must = names("must", &words)?.into_iter().map(String::from).collect();
    }
    if let Some(conditions) = value.get_item("where")?.filter(|conditions| !conditions.is_none()) {
        let conditions = conditions.cast_into::<PyDict>().map_err(|error| {
            invalid(value.py(), "where", format!("must be a dict, not {}", type_name(&error.into_inner())))
        })?;
        for (field, wanted) in &conditions {
            condition(&mut filter.conditions, &text("where", &field)?, &wanted)?;
        }
    }
    Ok((filter, must))
}

fn condition(into: &mut Vec<Condition>, key: &str, wanted: &Bound<'_, PyAny>) -> PyResult<()> {
    let field = || Field::from_name(key);
    let argument = format!("where[{key:?}]");
    match key {
        "since" => {
            let low = Some((number(&argument, wanted)?, true));
            into.push(Condition { field: Field::CreatedAt, test: Test::Range { low, high: None } });
            return Ok(());
        }
        "until" => {
            let high = Some((number(&argument, wanted)?, false));
            into.push(Condition { field: Field::CreatedAt, test: Test::Range { low: None, high } });
            return Ok(());
        }
        _ => {}
    }
    let Ok(operators) = wanted.cast::<PyDict>() else {
        into.push(Condition { field: field(), test: Test::In(values(&argument, wanted)?) });
        return Ok(());
    };
    if operators.is_empty() {
        return Err(invalid(wanted.py(), argument, "{} asks nothing; use {\"exists\": True} for any value"));
    }
    let (mut low, mut high) = (None, None);
    for (operator, operand) in operators {
        let operator = text(&argument, &operator)?.into_owned();
        let test = match operator.trim_start_matches('$') {
            "eq" => Test::In(vec![scalar(&argument, &operand)?]),
            "ne" => Test::NotIn(vec![scalar(&argument, &operand)?]),
            "in" => Test::In(values(&argument, &operand)?),
            "not_in" | "nin" => Test::NotIn(values(&argument, &operand)?),
            "exists" => Test::Exists(boolean(&argument, &operand)?),
            "gt" | "gte" => {
                low = Some((number(&argument, &operand)?, operator.ends_with('e')));
                continue;
            }
            "lt" | "lte" => {
                high = Some((number(&argument, &operand)?, operator.ends_with('e')));
                continue;
            }
            other => {
                let known = "eq, ne, in, not_in, exists, gt, gte, lt, lte";
                return Err(invalid(wanted.py(), argument, format!("{other:?} is not one of {known}")));
            }
        };
        into.push(Condition { field: field(), test });
    }
    if low.is_some() || high.is_some() {
        into.push(Condition { field: field(), test: Test::Range { low, high } });
    }
    Ok(())
}

fn values(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<Value>> {
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        value.try_iter()?.map(|item| scalar(argument, &item?)).collect()
    } else {
        Ok(vec![scalar(argument, value)?])
    }
}

fn scalar(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        Ok(Value::Null)
    } else if let Ok(flag) = value.cast::<PyBool>() {
        Ok(Value::Bool(flag.is_true()))
    } else if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        Ok(Value::Number(number(argument, value)?))
    } else if value.is_instance_of::<PyString>() {
        Ok(Value::Text(text(argument, value)?.into()))
    } else if let Ok(number) = value.extract::<f64>() {
        Ok(Value::Number(number))
    } else {
        Err(invalid(value.py(), argument, format!("cannot be compared with {}", type_name(value))))
    }
}

/// An item as a dict of plain values: times in seconds, JSON as text.
pub(crate) fn item<'py>(py: Python<'py>, item: &Item) -> PyResult<Bound<'py, PyDict>> {
    let head = &item.head;
    let row = PyDict::new(py);
    row.set_item("id", head.id.to_string())?;
    row.set_item("text", &item.text)?;
    row.set_item("tier", head.tier.name())?;
    row.set_item("importance", decimal(head.importance))?;
    row.set_item("session", head.session.as_deref())?;
    row.set_item("about", head.about.as_deref())?;
    row.set_item("source", head.source.name())?;
    row.set_item("trust", decimal(head.trust))?;
    row.set_item("tags", PyList::new(py, head.tags.iter().map(|tag| &**tag))?)?;
    row.set_item("labels", PyList::new(py, head.labels.iter().map(|label| &**label))?)?;
    row.set_item("private", item.private.as_deref())?;
    row.set_item("metadata", item.metadata.as_deref())?;
    row.set_item("created_at", head.created_at.seconds())?;
    row.set_item("last_used_at", head.last_used_at.seconds())?;
    row.set_item("use_count", head.use_count)?;
    row.set_item("repeat_count", head.repeat_count)?;
    row.set_item("half_life", f64::from(head.half_life))?;
    row.set_item("expires_at", head.expires_at.map(Micros::seconds))?;
    row.set_item("pinned", head.pinned)?;
    row.set_item("derived_from", PyList::new(py, item.derived_from.iter().map(ToString::to_string))?)?;
    row.set_item("supersedes", item.supersedes.map(|id| id.to_string()))?;
    row.set_item("superseded_by", item.superseded_by.map(|id| id.to_string()))?;
    row.set_item("version", head.version)?;
    Ok(row)
}

/// The number the caller wrote: the shortest decimal that reads back to the same float32.
fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}
