//! Taking a store apart into chunks.

use super::columns::Writer;
use super::{Chunk, Origin, Part};
use crate::base::{EdgeKind, Error, Micros, Result, Row};
use crate::disk::{CommitView, Parts, StoredRow};
use crate::engine::Engine;
use crate::engine::write::Model;

/// No time at all, in the column of ends.
pub(super) const NEVER: i64 = i64::MIN;

/// A store at one commit, given out chunk by chunk. While it lives, the disk's log is not emptied.
#[derive(Debug)]
pub struct Export {
    view: CommitView,
    origin: Origin,
    place: Place,
    given: usize,
}

/// What was given last.
#[derive(Debug)]
enum Place {
    Memories(Option<Row>),
    Events(Option<(Row, u32)>),
    Edges(Option<(Row, Row, EdgeKind)>),
    Keys(Option<String>),
    End,
}

impl Engine {
    /// Begins to export the store as it is now, pending uses included.
    pub fn export(&self, with_vectors: bool, now: Micros) -> Result<Export> {
        self.check_open()?;
        if self.disk.check_writable().is_ok() {
            self.flush_uses(now)?;
        }
        let view = self.disk.commit_view()?;
        let corrupt = |what: &str, message: String| Error::Corrupt { what: what.to_owned(), message };
        let created_at = view.meta("created_at")?.unwrap_or_default();
        let created_at = created_at.parse().map_err(|_| corrupt("the setting \"created_at\"", created_at.clone()))?;
        let model = match view.meta("model")?.filter(|_| with_vectors) {
            Some(text) => Some(Model::from_json(&text).ok_or_else(|| corrupt("the store's model", text))?),
            None => None,
        };
        let origin = Origin { commit: view.commit(), memories: view.memories(), created_at: Micros(created_at), model };
        Ok(Export { view, origin, place: Place::Memories(None), given: 0 })
    }
}

impl Export {
    /// What the store is, before its first row.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The next chunk, of `rows` rows at most and fewer when they are large; `None` after the last one.
    pub fn next_chunk(&mut self, rows: usize) -> Result<Option<(Part, Chunk)>> {
        loop {
            let (part, chunk) = match &self.place {
                Place::Memories(after) => (Part::Memories, self.memories(*after, rows)?),
                Place::Events(after) => (Part::Events, self.events(*after, rows)?),
                Place::Edges(after) => (Part::Edges, self.edges(*after, rows)?),
                Place::Keys(after) => (Part::Keys, self.keys(after.as_deref(), rows)?),
                Place::End => return Ok(None),
            };
            if let Some((chunk, place)) = chunk {
                self.place = place;
                self.given += if part == Part::Memories { chunk.rows } else { 0 };
                return Ok(Some((part, chunk)));
            }
            self.place = match part {
                Part::Memories if self.given != self.origin.memories => {
                    let message = format!("it holds {} memories of {}", self.given, self.origin.memories);
                    return Err(Error::Corrupt { what: "the store".to_owned(), message });
                }
                Part::Memories => Place::Events(None),
                Part::Events => Place::Edges(None),
                Part::Edges => Place::Keys(None),
                Part::Keys => Place::End,
            };
        }
    }

    fn memories(&self, after: Option<Row>, rows: usize) -> Result<Option<(Chunk, Place)>> {
        let parts = Parts { content: true, vectors: self.origin.model.is_some() };
        let dimension = self.origin.model.as_ref().map_or(0, |model| model.dimension);
        let (mut writer, mut last) = (Writer::default(), after);
        self.view.memories_after(after, parts, &mut |stored| {
            if let Some(vector) = stored.vector
                && vector.len() != dimension
            {
                let message = format!("its vector has {} values, not {dimension}", vector.len());
                return Err(Error::Corrupt { what: format!("memory {}", stored.head.id), message });
            }
            write_memory(&mut writer, &stored);
            last = Some(stored.row);
            Ok(!writer.is_full(rows))
        })?;
        Ok(writer.finish().map(|chunk| (chunk, Place::Memories(last))))
    }

    fn events(&self, after: Option<(Row, u32)>, rows: usize) -> Result<Option<(Chunk, Place)>> {
        let (mut writer, mut last) = (Writer::default(), after);
        self.view.events_after(after, &mut |row, number, id, event| {
            writer.id("id", id).bytes("at", &event.at.0.to_le_bytes());
            writer.text("kind", Some(&event.kind)).text("actor", Some(&event.actor));
            writer.text("detail", event.detail.as_deref()).end_row();
            last = Some((row, number));
            Ok(!writer.is_full(rows))
        })?;
        Ok(writer.finish().map(|chunk| (chunk, Place::Events(last))))
    }

    fn edges(&self, after: Option<(Row, Row, EdgeKind)>, rows: usize) -> Result<Option<(Chunk, Place)>> {
        let (mut writer, mut last) = (Writer::default(), after);
        self.view.edges_after(after, &mut |place, [newer, older]| {
            writer.id("newer", newer).id("older", older).bytes("kind", &[place.2 as u8]).end_row();
            last = Some(place);
            Ok(!writer.is_full(rows))
        })?;
        Ok(writer.finish().map(|chunk| (chunk, Place::Edges(last))))
    }

    fn keys(&self, after: Option<&str>, rows: usize) -> Result<Option<(Chunk, Place)>> {
        let (mut writer, mut last) = (Writer::default(), None);
        self.view.keys_after(after, &mut |key, id| {
            writer.text("key", Some(key)).id("id", id).end_row();
            last = Some(key.to_owned());
            Ok(!writer.is_full(rows))
        })?;
        Ok(writer.finish().map(|chunk| (chunk, Place::Keys(last))))
    }
}

fn write_memory(writer: &mut Writer, stored: &StoredRow<'_>) {
    let head = &stored.head;
    writer.id("id", head.id).bytes("state", &[head.state as u8]).bytes("tier", &[head.tier as u8]);
    writer.bytes("source", &[head.source as u8]).bytes("pinned", &[u8::from(head.pinned)]);
    for (name, value) in [("importance", head.importance), ("trust", head.trust), ("half_life", head.half_life)] {
        writer.bytes(name, &value.to_le_bytes());
    }
    let expires_at = head.expires_at.map_or(NEVER, |at| at.0);
    for (name, value) in
        [("created_at", head.created_at.0), ("last_used_at", head.last_used_at.0), ("expires_at", expires_at)]
    {
        writer.bytes(name, &value.to_le_bytes());
    }
    for (name, value) in [
        ("use_count", head.use_count),
        ("spaced_uses", head.spaced_uses),
        ("repeat_count", head.repeat_count),
        ("version", head.version),
    ] {
        writer.bytes(name, &value.to_le_bytes());
    }
    writer.text("session", head.session.as_deref()).text("about", head.about.as_deref());
    writer.texts("tags", &head.tags).texts("labels", &head.labels);
    writer.text("text", Some(stored.text)).text("metadata", stored.metadata).text("private", stored.private);
    writer.bytes("has_vector", &[u8::from(stored.vector.is_some())]);
    writer.halves("halves", stored.vector.unwrap_or_default()).end_row();
}
