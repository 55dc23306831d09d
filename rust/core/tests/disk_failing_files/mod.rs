//! A file system of SQLite's that counts what changes the disk, and fails at the operation it is told to.

#![expect(unsafe_code, reason = "SQLite's file systems are tables of C functions")]
#![expect(clippy::unused_self, reason = "the handle is the right to use the process's one switch")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::ffi;

static REAL: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(std::ptr::null_mut());
static SEEN: AtomicI64 = AtomicI64::new(0);
static FAIL_AT: AtomicI64 = AtomicI64::new(i64::MAX);
static FOREVER: AtomicBool = AtomicBool::new(false);
static CODE: AtomicI32 = AtomicI32::new(ffi::SQLITE_IOERR);
/// The files as they were at their last sync: what a power cut must leave.
static SYNCED: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());
static LOG_SYNCS: AtomicI64 = AtomicI64::new(0);
static DATABASE_ONLY: AtomicBool = AtomicBool::new(false);

/// The switch of the failing file system. There is one for the process, so its holders take turns.
#[derive(Debug)]
pub(crate) struct Faults {
    _turn: MutexGuard<'static, ()>,
}

impl Faults {
    /// Makes it the default of the process.
    pub(crate) fn install() -> Self {
        static DONE: OnceLock<()> = OnceLock::new();
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        DONE.get_or_init(|| {
            // SAFETY: SQLite keeps the default file system for ever; the copy made of it is leaked, so it lives as
            // long, and only its name, size, opening and deletion differ.
            unsafe {
                let real = ffi::sqlite3_vfs_find(std::ptr::null());
                assert!(!real.is_null());
                REAL.store(real, Ordering::SeqCst);
                let mut shim = Box::new(*real);
                shim.zName = c"failing".as_ptr();
                shim.szOsFile = size_of::<File>() as c_int + (*real).szOsFile;
                shim.pNext = std::ptr::null_mut();
                shim.xOpen = Some(open);
                shim.xDelete = Some(delete);
                assert_eq!(ffi::sqlite3_vfs_register(Box::into_raw(shim), 1), ffi::SQLITE_OK);
            }
        });
        Self { _turn: turn }
    }

    /// The `at`-th operation from now on fails, and if `forever` all that follow.
    pub(crate) fn fail(&self, at: i64, forever: bool, code: c_int) {
        FOREVER.store(forever, Ordering::SeqCst);
        CODE.store(code, Ordering::SeqCst);
        SEEN.store(0, Ordering::SeqCst);
        FAIL_AT.store(at, Ordering::SeqCst);
    }

    /// Every write to the database itself fails; its log goes on.
    pub(crate) fn fail_database_writes(&self) {
        DATABASE_ONLY.store(true, Ordering::SeqCst);
        self.fail(1, true, ffi::SQLITE_IOERR);
    }

    /// How often a log was synced.
    pub(crate) fn log_syncs(&self) -> i64 {
        LOG_SYNCS.load(Ordering::SeqCst)
    }

    /// What a power cut now could leave of a directory: each sector of each file as it was last synced or as it was
    /// last written, and each length likewise, by seed. A name that was made or taken away stays so.
    pub(crate) fn cut_power(&self, directory: &Path, seed: u64) {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut keeps = |of_four: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 60) & 3 < of_four
        };
        let share = seed % 5;
        let synced = std::mem::take(&mut *SYNCED.lock().unwrap());
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.to_str().unwrap().ends_with("-shm") {
                std::fs::remove_file(path).unwrap();
                continue;
            }
            let mut written = std::fs::read(&path).unwrap();
            let before = synced.get(&path).map_or(&[][..], Vec::as_slice);
            let length = if keeps(share) { written.len() } else { before.len() };
            written.resize(length, 0);
            for (sector, place) in written.chunks_mut(512).enumerate() {
                if !keeps(share) {
                    // What was never synced is zeros.
                    place.fill(0);
                    let old = before.get(sector * 512..).unwrap_or_default();
                    let old = &old[..old.len().min(place.len())];
                    place[..old.len()].copy_from_slice(old);
                }
            }
            std::fs::write(&path, written).unwrap();
        }
    }

    /// Everything works again. Whether a fault was met.
    pub(crate) fn heal(&self) -> bool {
        DATABASE_ONLY.store(false, Ordering::SeqCst);
        let at = FAIL_AT.swap(i64::MAX, Ordering::SeqCst);
        SEEN.load(Ordering::SeqCst) >= at
    }
}

/// Counts an operation; the error code when it is to fail.
fn fault(database: bool) -> Option<c_int> {
    if DATABASE_ONLY.load(Ordering::SeqCst) && !database {
        return None;
    }
    let number = SEEN.fetch_add(1, Ordering::SeqCst) + 1;
    let at = FAIL_AT.load(Ordering::SeqCst);
    let hit = if FOREVER.load(Ordering::SeqCst) { number >= at } else { number == at };
    hit.then(|| CODE.load(Ordering::SeqCst))
}

/// Remembers what the file is now instead of waiting for the real disk: the power is only cut by `cut_power`.
unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    if let Some(code) = fault(is_database(file)) {
        return code;
    }
    // SAFETY: SQLite passes only files that `open` has filled, and keeps their names while they are open.
    let (kind, name) = unsafe { ((*file.cast::<File>()).kind, (*file.cast::<File>()).name) };
    LOG_SYNCS.fetch_add(i64::from(kind == Kind::Log), Ordering::SeqCst);
    if !name.is_null() {
        // SAFETY: a name ends with NUL.
        let path = PathBuf::from(unsafe { CStr::from_ptr(name) }.to_str().unwrap());
        let now = std::fs::read(&path).unwrap();
        SYNCED.lock().unwrap().insert(path, now);
    }
    ffi::SQLITE_OK
}

/// SQLite's handle of a file: ours in front, the real one right behind it.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    kind: Kind,
    /// The file's path, or null. SQLite keeps it as long as the file is open.
    name: *const c_char,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Database,
    Log,
    Other,
}

/// The real file behind ours.
fn inner(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: `szOsFile` asked for room for both, and `File` has the alignment of a pointer.
    unsafe { file.cast::<File>().add(1).cast() }
}

fn is_database(file: *mut ffi::sqlite3_file) -> bool {
    // SAFETY: SQLite passes only files that `open` has filled.
    unsafe { (*file.cast::<File>()).kind == Kind::Database }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: `file` has room for both handles; the real file system is called with its own table.
    unsafe {
        let real = REAL.load(Ordering::SeqCst);
        let ours = file.cast::<File>();
        (*ours).base.pMethods = std::ptr::null();
        (*ours).kind = match flags & (ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL) {
            ffi::SQLITE_OPEN_MAIN_DB => Kind::Database,
            ffi::SQLITE_OPEN_WAL => Kind::Log,
            _ => Kind::Other,
        };
        (*ours).name = name;
        let code = (*real).xOpen.expect("it opens")(real, name, inner(file), flags, out);
        if !(*inner(file)).pMethods.is_null() {
            (*ours).base.pMethods = &raw const METHODS;
        }
        code
    }
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    if let Some(code) = fault(false) {
        return code;
    }
    let real = REAL.load(Ordering::SeqCst);
    // SAFETY: as SQLite called us, with the table it belongs to.
    unsafe { (*real).xDelete.expect("it deletes")(real, name, sync) }
}

/// Hands a call on to the real file, after a look at the faults where it changes the disk.
macro_rules! forward {
    ($(fn $name:ident = $method:ident($($argument:ident: $kind:ty),*) -> $result:ty $(, fails $counted:literal)?;)*) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $argument: $kind)*) -> $result {
            $(if $counted && let Some(code) = fault(is_database(file)) {
                return code;
            })?
            // SAFETY: the real file was opened with ours and has the methods of its version.
            unsafe {
                let file = inner(file);
                (*(*file).pMethods).$method.expect("version 3 has them all")(file $(, $argument)*)
            }
        }
    )*};
}

forward! {
    fn close = xClose() -> c_int;
    fn read = xRead(to: *mut c_void, length: c_int, offset: i64) -> c_int;
    fn write = xWrite(from: *const c_void, length: c_int, offset: i64) -> c_int, fails true;
    fn truncate = xTruncate(size: i64) -> c_int, fails true;
    fn size = xFileSize(size: *mut i64) -> c_int;
    fn lock = xLock(level: c_int) -> c_int;
    fn unlock = xUnlock(level: c_int) -> c_int;
    fn check_lock = xCheckReservedLock(locked: *mut c_int) -> c_int;
    fn control = xFileControl(operation: c_int, argument: *mut c_void) -> c_int;
    fn sector = xSectorSize() -> c_int;
    fn characteristics = xDeviceCharacteristics() -> c_int;
    fn map_shared = xShmMap(page: c_int, size: c_int, extend: c_int, to: *mut *mut c_void) -> c_int;
    fn lock_shared = xShmLock(offset: c_int, count: c_int, flags: c_int) -> c_int;
    fn barrier = xShmBarrier() -> ();
    fn unmap_shared = xShmUnmap(delete: c_int) -> c_int;
    fn fetch = xFetch(offset: i64, length: c_int, to: *mut *mut c_void) -> c_int;
    fn unfetch = xUnfetch(offset: i64, page: *mut c_void) -> c_int;
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_lock),
    xFileControl: Some(control),
    xSectorSize: Some(sector),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(map_shared),
    xShmLock: Some(lock_shared),
    xShmBarrier: Some(barrier),
    xShmUnmap: Some(unmap_shared),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};
