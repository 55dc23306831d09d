//! Opening: directories and their permissions, what the file is, and how its connections are set.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::failure::{self, Failure};
use super::record::{Counter, Encoder, VALUE_BYTES};
use super::{Disk, DiskOptions, Durability, FILE_NAME, Place, network, read, schema, write};
use crate::base::{Error, MemoryId, Result};

/// Below it, two connections that write and checkpoint could damage a WAL file.
const OLDEST_SQLITE: i32 = 3_051_003;

/// The longest pause between two looks at a lock that another process holds.
const PAUSE: Duration = Duration::from_millis(2);

/// The version of SQLite that is built in.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

impl Disk {
    /// Opens the store in `directory`, or makes one there; `None`, with [`Durability::Memory`], is a store in RAM.
    ///
    /// Directories that are missing are made for their owner alone (0700), the file likewise (0600). A file of a newer
    /// version is refused as [`Error::NewerFormat`], one that is damaged or not ours as [`Error::Corrupt`].
    pub fn open(directory: Option<&Path>, options: DiskOptions) -> Result<Self> {
        let found = rusqlite::version_number();
        if found < OLDEST_SQLITE {
            let message = format!("it is linked with SQLite {}, older than 3.51.3", rusqlite::version());
            return Err(Error::Io { operation: "open the store".to_owned(), message });
        }
        let (place, connection) = match (directory, options.durability) {
            (None, Durability::Memory) => (None, Some(in_memory(&options)?)),
            (Some(directory), Durability::Full | Durability::Normal) => {
                let (place, connection) = on_disk(directory, &options)?;
                (Some(place), connection)
            }
            (None, _) => return Err(Error::invalid("durability", "a store without a directory lives in memory only")),
            (Some(_), Durability::Memory) => {
                return Err(Error::invalid("durability", "a store with a directory is full or normal, not memory"));
            }
        };
        let files = place.as_ref().map_or_else(write::Files::default, |place| write::Files::of(&place.file));
        let writer = write::Writer::new(connection, files)
            .map_err(|error| Error::Io { operation: "open the store".to_owned(), message: error.to_string() })?;
        let disk = Self {
            place,
            arriving: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            writer: Mutex::new(writer),
            settled: Condvar::new(),
            readers: Mutex::new(Vec::new()),
            lent: AtomicUsize::new(0),
            watcher: Mutex::new(read::Watcher::default()),
            poison: OnceLock::new(),
            closed: AtomicBool::new(false),
            options,
        };
        Ok(disk)
    }
}

fn in_memory(options: &DiskOptions) -> Result<Connection> {
    if options.read_only {
        return Err(Error::invalid("read_only", "a store in memory starts empty, so there is nothing to read"));
    }
    let make = || -> Result<Connection, Failure> {
        let mut connection = Connection::open_in_memory()?;
        settle_in(&mut connection, options)?;
        create(&mut connection, options)?;
        Ok(connection)
    };
    failure::read(make(), "open a store in memory", ":memory:", options.busy_timeout_ms)
}

fn on_disk(directory: &Path, options: &DiskOptions) -> Result<(Place, Option<Connection>)> {
    if !options.allow_network {
        network::refuse(directory)?;
    }
    if !options.read_only {
        make_directory(directory)?;
    }
    let told = |error| failure::io(format!("open the directory {}", directory.display()), &error);
    let directory = fs::canonicalize(directory).map_err(told)?;
    let file = directory.join(FILE_NAME);
    if options.read_only {
        return Ok((readable(directory, file, options)?, None));
    }
    make_file(&directory, &file)?;
    let place = Place { directory, file, immutable: false };
    let path = place.file.display().to_string();
    let connection = failure::read(writer(&place, options), "open the store", &path, options.busy_timeout_ms)?;
    Ok((place, Some(connection)))
}

/// Makes the directory and its parents, each known to its own parent on disk before anything is written into it.
pub(super) fn make_directory(directory: &Path) -> Result<()> {
    let missing: Vec<&Path> =
        directory.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    for path in missing.into_iter().rev() {
        let told = |error| failure::io(format!("make the directory {}", path.display()), &error);
        match builder.create(path) {
            Ok(()) => {}
            // Another opener was faster.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(told(error)),
        }
        if let Some(parent) = path.parent() {
            sync_directory(if parent.as_os_str().is_empty() { Path::new(".") } else { parent }).map_err(told)?;
        }
    }
    Ok(())
}

/// Makes the file empty where there is none, so that SQLite's own files beside it take its permissions.
fn make_file(directory: &Path, file: &Path) -> Result<()> {
    let told = |error| failure::io(format!("make {}", file.display()), &error);
    match private_file().create_new(true).open(file) {
        Ok(_) => sync_directory(directory).map_err(told),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(told(error)),
    }
}

/// Makes the file empty, in the place of one that is there.
pub(super) fn make_private(file: &Path) -> std::io::Result<()> {
    private_file().create(true).truncate(true).open(file).map(|_| ())
}

pub(super) fn private_file() -> fs::OpenOptions {
    let mut options = File::options();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes the names in a directory durable. Windows has no such call and needs none.
pub(super) fn sync_directory(directory: &Path) -> std::io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

fn nothing_there(file: &Path) -> Error {
    Error::Io { operation: format!("open {}", file.display()), message: "there is no store to read".to_owned() }
}

/// How a file can be read by a handle that writes nothing. SQLite reads a WAL file only beside its shared index, which
/// it must be able to make; where the directory takes no file, and no WAL is left to read, the file itself is all.
fn readable(directory: PathBuf, file: PathBuf, options: &DiskOptions) -> Result<Place> {
    if !file.is_file() {
        return Err(nothing_there(&file));
    }
    let path = file.display().to_string();
    let wal = fs::metadata(directory.join(format!("{FILE_NAME}-wal"))).map_or(0, |metadata| metadata.len());
    let mut place = Place { directory, file, immutable: false };
    let look = |place: &Place| reader(place, options).and_then(|connection| kind(&connection, &place.file));
    let mut found = look(&place);
    if wal == 0
        && let Err(Failure::Sqlite(error)) = &found
        && matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
    {
        place.immutable = true;
        found = look(&place);
    }
    match failure::read(found, "open the store", &path, options.busy_timeout_ms)? {
        Kind::Current => Ok(place),
        Kind::Empty => Err(nothing_there(&place.file)),
        Kind::Older(version) => Err(Error::ReadOnly {
            message: format!("its format version {version} must first be brought up; open it for writing once"),
        }),
    }
}

/// A connection that reads.
pub(super) fn reader(place: &Place, options: &DiskOptions) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = if place.immutable {
        let name = place.file.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        Connection::open_with_flags(format!("file:{name}?immutable=1"), flags | OpenFlags::SQLITE_OPEN_URI)?
    } else {
        Connection::open_with_flags(&place.file, flags)?
    };
    settle_in(&mut connection, options)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// The connection that writes, on a file that is ours and of this version when it returns.
fn writer(place: &Place, options: &DiskOptions) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(&place.file, flags)?;
    settle_in(&mut connection, options)?;
    // Looked at before anything is set: a foreign file is left as it is.
    let kind = kind(&connection, &place.file)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        let message = format!("the file system does not carry SQLite's WAL (journal mode {mode})");
        return Err(Error::Io { operation: format!("open {}", place.file.display()), message }.into());
    }
    let full = options.durability == Durability::Full;
    connection.pragma_update(None, "synchronous", if full { "FULL" } else { "NORMAL" })?;
    // macOS alone knows the difference; without them its sync stops at the drive's cache.
    connection.pragma_update(None, "fullfsync", full)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "journal_size_limit", i64::from(write::CHECKPOINT_PAGES) * 4_096 * 4)?;
    match kind {
        Kind::Current => {}
        Kind::Empty => create(&mut connection, options)?,
        Kind::Older(version) => bring_up(&mut connection, place, version, schema::MIGRATIONS)?,
    }
    Ok(connection)
}

/// What every connection has in common.
pub(super) fn settle_in(connection: &mut Connection, options: &DiskOptions) -> Result<(), Failure> {
    let tries = (u128::from(options.busy_timeout_ms) / PAUSE.as_millis()).min(i32::MAX as u128) as i32;
    // SQLite's own handler pauses up to 100 ms, long enough to miss every gap that a busy writer leaves.
    connection.busy_handler(Some(move |tried: i32| {
        let again = tried < tries;
        if again {
            std::thread::sleep(PAUSE);
        }
        again
    }))?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES as i32)?;
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // Sorting and the like never leave texts in a file that erasure does not know.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -8_192)?;
    connection.set_prepared_statement_cache_capacity(48);
    Ok(())
}

/// What lies in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Empty,
    Current,
    Older(u32),
}

/// Tells what the file is, or refuses it.
pub(super) fn kind(connection: &Connection, file: &Path) -> Result<Kind, Failure> {
    // In one statement, which sees one moment: another process may be making the store just now.
    let asked = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) \
                 FROM pragma_application_id, pragma_user_version";
    let (application, version, tables) = connection
        .query_row(asked, [], |row| Ok((row.get::<_, i32>(0)?, row.get::<_, i32>(1)? as u32, row.get::<_, i64>(2)?)))?;
    let refused = |message: String| Error::Corrupt { what: file.display().to_string(), message };
    match (application, version) {
        (0, 0) if tables == 0 => Ok(Kind::Empty),
        (schema::APPLICATION_ID, 0) => Err(refused("it is a store without a version".to_owned()).into()),
        (schema::APPLICATION_ID, schema::SCHEMA_VERSION) => Ok(Kind::Current),
        (schema::APPLICATION_ID, version) if version < schema::SCHEMA_VERSION => Ok(Kind::Older(version)),
        (schema::APPLICATION_ID, found) => {
            Err(Error::NewerFormat { path: file.display().to_string(), found, supported: schema::SCHEMA_VERSION }
                .into())
        }
        _ => Err(refused(format!("it is a database of another program (application id {application:#x})")).into()),
    }
}

/// Lays the tables, unless another process was faster.
pub(super) fn create(connection: &mut Connection, options: &DiskOptions) -> Result<(), Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != 0 {
        return Ok(());
    }
    transaction.execute_batch(schema::TABLES)?;
    transaction.execute(
        "INSERT INTO counter (one, commit_number, next_row, rows, erased_at, model, checksum) \
         VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)",
        Counter::NEW.params(),
    )?;
    let mut encoder = Encoder::default();
    for (key, value) in
        [("store_id", MemoryId(options.store_id).to_string()), ("created_at", options.now.0.to_string())]
    {
        let checksum = encoder.meta(key, &value);
        transaction.execute("INSERT INTO meta (key, value, checksum) VALUES (?1, ?2, ?3)", (key, &value, checksum))?;
    }
    transaction.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", schema::SCHEMA_VERSION)?;
    transaction.commit()?;
    Ok(())
}

/// Takes an older file up to this version: first a copy beside it, then all steps in one transaction.
fn bring_up(connection: &mut Connection, place: &Place, from: u32, steps: &[schema::Migration]) -> Result<(), Failure> {
    let copy = place.directory.join(format!("{FILE_NAME}.version-{from}"));
    let target = super::backup::copy(connection, &copy, &mut |_, _| {})?;
    let whole: String = target.pragma_query_value(None, "integrity_check", |row| row.get(0))?;
    if whole != "ok" {
        let message = format!("it is not brought up to version {}: {whole}", steps.len() + 1);
        return Err(Error::Corrupt { what: place.file.display().to_string(), message }.into());
    }
    drop(target);
    let synced = File::open(&copy).and_then(|file| file.sync_all()).and_then(|()| sync_directory(&place.directory));
    synced.map_err(|error| failure::io(format!("sync {}", copy.display()), &error))?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    let version: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    schema::migrate(&transaction, version, steps)?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that fails is what they are for")]
mod tests {
    use super::*;
    use crate::base::Micros;

    #[test]
    fn an_older_file_is_copied_and_brought_up_in_one_step() {
        let directory = tempfile::tempdir().unwrap();
        let options = DiskOptions {
            durability: Durability::Full,
            read_only: false,
            busy_timeout_ms: 100,
            allow_network: false,
            now: Micros(1),
            store_id: 1,
        };
        drop(Disk::open(Some(directory.path()), options).unwrap());
        let file = directory.path().join(FILE_NAME);
        let place = Place { directory: directory.path().to_path_buf(), file: file.clone(), immutable: false };
        let version = |file: &Path| -> u32 {
            Connection::open(file).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
        };
        let add: schema::Migration = |connection| connection.execute_batch("ALTER TABLE content ADD COLUMN new TEXT");
        let fail: schema::Migration = |connection| connection.execute_batch("DROP TABLE memories_that_never_were");

        let mut connection = Connection::open(&file).unwrap();
        assert!(bring_up(&mut connection, &place, 1, &[add, fail]).is_err());
        assert_eq!(version(&file), 1, "half of the way is not gone");
        connection.execute_batch("SELECT new FROM content").unwrap_err();

        bring_up(&mut connection, &place, 1, &[add]).unwrap();
        assert_eq!(version(&file), 2);
        connection.execute_batch("SELECT new FROM content").unwrap();
        assert_eq!(version(&directory.path().join("memory.db.version-1")), 1);
        // Another process that had seen the old version finds the work done.
        schema::migrate(&connection, 2, &[add]).unwrap();
    }
}
