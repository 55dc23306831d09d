//! The tables, their version, and the way from an older version to this one.
//!
//! `memory` is narrow: a scan of it, without texts and vectors, fills the columns in RAM. Every table's rows carry a
//! checksum of their own or, for `content` and `vector`, one in their memory's row, so that a stale page is seen too.

use rusqlite::Connection;

/// The version this library writes and the newest it reads.
pub const SCHEMA_VERSION: u32 = 1;

/// "tmem": marks the file as one of ours.
pub(super) const APPLICATION_ID: i32 = 0x746d_656d;

/// Version 1, whole. Numbers of tier, state, source and edge kind are those of [`crate::base`].
///
/// `secure_delete` empties freed pages; the foreign keys make the erasure of a memory take all that hangs on it.
pub(super) const TABLES: &str = "
CREATE TABLE memory (
    row INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    commit_number INTEGER NOT NULL,
    state INTEGER NOT NULL,
    tier INTEGER NOT NULL,
    source INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    importance REAL NOT NULL,
    trust REAL NOT NULL,
    half_life REAL NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    expires_at INTEGER,
    use_count INTEGER NOT NULL,
    spaced_uses INTEGER NOT NULL,
    repeat_count INTEGER NOT NULL,
    version INTEGER NOT NULL,
    text_key INTEGER NOT NULL,
    session TEXT,
    about TEXT,
    tags TEXT,
    labels TEXT,
    head_checksum INTEGER NOT NULL,
    content_checksum INTEGER NOT NULL,
    vector_checksum INTEGER
) STRICT;
CREATE UNIQUE INDEX memory_by_id ON memory (id);
CREATE INDEX memory_by_commit ON memory (commit_number);

CREATE TABLE content (
    row INTEGER PRIMARY KEY REFERENCES memory ON DELETE CASCADE,
    text TEXT NOT NULL,
    metadata TEXT,
    private TEXT
) STRICT;

CREATE TABLE vector (
    row INTEGER PRIMARY KEY REFERENCES memory ON DELETE CASCADE,
    model INTEGER NOT NULL,
    halves BLOB NOT NULL
) STRICT;

CREATE TABLE edge (
    newer INTEGER NOT NULL REFERENCES memory ON DELETE CASCADE,
    older INTEGER NOT NULL REFERENCES memory ON DELETE CASCADE,
    kind INTEGER NOT NULL,
    commit_number INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (newer, older, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX edge_by_older ON edge (older);

CREATE TABLE event (
    row INTEGER NOT NULL REFERENCES memory ON DELETE CASCADE,
    number INTEGER NOT NULL,
    commit_number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    actor TEXT NOT NULL,
    detail TEXT,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (row, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE undo (
    token TEXT NOT NULL,
    row INTEGER NOT NULL REFERENCES memory ON DELETE CASCADE,
    before TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (token, row)
) STRICT, WITHOUT ROWID;
CREATE INDEX undo_by_row ON undo (row);

CREATE TABLE idempotency (
    key TEXT PRIMARY KEY,
    row INTEGER NOT NULL REFERENCES memory ON DELETE CASCADE,
    checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_row ON idempotency (row);

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE counter (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    commit_number INTEGER NOT NULL,
    next_row INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    erased_at INTEGER NOT NULL,
    model INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

CREATE VIEW memories AS SELECT
    lower(substr(hex(memory.id), 1, 8) || '-' || substr(hex(memory.id), 9, 4) || '-' || substr(hex(memory.id), 13, 4)
        || '-' || substr(hex(memory.id), 17, 4) || '-' || substr(hex(memory.id), 21)) AS id,
    CASE memory.state WHEN 0 THEN 'alive' WHEN 1 THEN 'forgotten' WHEN 2 THEN 'superseded' ELSE 'merged' END AS state,
    CASE memory.tier WHEN 0 THEN 'working' WHEN 1 THEN 'episodic' WHEN 2 THEN 'semantic' ELSE 'procedural' END AS tier,
    CASE memory.source WHEN 0 THEN 'user' WHEN 1 THEN 'assistant' WHEN 2 THEN 'tool' WHEN 3 THEN 'system'
        ELSE 'import' END AS source,
    content.text AS text, memory.importance AS importance, memory.trust AS trust, memory.session AS session,
    memory.about AS about, memory.tags AS tags, memory.labels AS labels,
    memory.created_at / 1e6 AS created_at, memory.last_used_at / 1e6 AS last_used_at,
    memory.expires_at / 1e6 AS expires_at, memory.use_count AS use_count, memory.repeat_count AS repeat_count,
    memory.half_life AS half_life, memory.pinned AS pinned, memory.version AS version, content.metadata AS metadata
    FROM memory JOIN content ON content.row = memory.row;
";

/// One step of the way up: what turns a file of its version into one of the next, inside a transaction.
pub(super) type Migration = fn(&Connection) -> rusqlite::Result<()>;

/// The steps from version 1 on; the first leads from 1 to 2.
pub(super) const MIGRATIONS: &[Migration] = &[];

const _: () = assert!(MIGRATIONS.len() + 1 == SCHEMA_VERSION as usize, "each version but the last has its way up");

/// Takes a file of version `from` (1 or more) up to the end of `steps`, inside the caller's transaction.
pub(super) fn migrate(connection: &Connection, from: u32, steps: &[Migration]) -> rusqlite::Result<()> {
    for (version, step) in (1..).zip(steps).skip(from as usize - 1) {
        step(connection)?;
        connection.pragma_update(None, "user_version", version + 1)?;
    }
    Ok(())
}
