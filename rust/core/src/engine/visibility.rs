//! The one place that decides what a reader may see. Every read path goes through [`visible`] or [`hidden`].

use crate::base::{Micros, Row, RowSet, State};
use crate::store::Columns;

/// What a reader was granted. The default sees nothing that carries a label and no private field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Viewer {
    /// Labels that the reader may see.
    pub labels: Vec<Box<str>>,
    /// Private fields that the reader may see.
    pub fields: Vec<Box<str>>,
    /// Everything, for the owner's own maintenance.
    pub everything: bool,
}

impl Viewer {
    /// The reader that sees everything.
    pub fn owner() -> Self {
        Self { everything: true, ..Self::default() }
    }

    pub(super) fn granted(&self, columns: &Columns) -> u64 {
        if self.everything { u64::MAX } else { columns.known_label_bits(self.labels.iter().map(|label| &**label)) }
    }

    /// A JSON object of private fields with everything masked that was not granted.
    pub(super) fn mask(&self, private: &str) -> String {
        if self.everything {
            return private.to_owned();
        }
        match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(private) {
            Ok(mut fields) => {
                for (name, value) in &mut fields {
                    if !self.fields.iter().any(|granted| **granted == **name) {
                        *value = serde_json::Value::String(MASK.to_owned());
                    }
                }
                serde_json::Value::Object(fields).to_string()
            }
            // Not an object, so nothing of it can be granted by name.
            Err(_) => "{}".to_owned(),
        }
    }
}

/// What stands in the place of a private value.
pub const MASK: &str = "***";

/// Why a reader does not see a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// No such row, or it was erased.
    Absent,
    /// It is forgotten, superseded or merged.
    Gone(State),
    /// Its end has come.
    Expired,
    /// It carries labels, of which these bits are not granted.
    Private(u64),
}

/// The rows that the reader may see at `now`.
pub fn visible(columns: &Columns, viewer: &Viewer, now: Micros) -> RowSet {
    let mut rows = columns.alive().clone();
    for row in columns.expired(now) {
        rows.remove(row);
    }
    let granted = viewer.granted(columns);
    if granted != u64::MAX {
        for row in columns.labelled().iter() {
            if columns.labels(row) & !granted != 0 {
                rows.remove(row);
            }
        }
    }
    rows
}

/// Why the reader does not see the row at `now`; `None` when it does. Agrees with [`visible`] on every row.
pub fn hidden(columns: &Columns, row: Row, viewer: &Viewer, now: Micros) -> Option<Hidden> {
    if !columns.present().contains(row) {
        return Some(Hidden::Absent);
    }
    if columns.state(row) != State::Alive {
        return Some(Hidden::Gone(columns.state(row)));
    }
    if columns.expires_at(row).is_some_and(|end| end <= now) {
        return Some(Hidden::Expired);
    }
    let missing = columns.labels(row) & !viewer.granted(columns);
    (missing != 0).then_some(Hidden::Private(missing))
}
