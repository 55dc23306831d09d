//! A file system of SQLite's that counts what changes the disk, and fails at the operation it is told to.

#![expect(unsafe_code, reason = "SQLite's file systems are tables of C functions")]

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicPtr, Ordering};

use rusqlite::ffi;

static REAL: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(std::ptr::null_mut());
static SEEN: AtomicI64 = AtomicI64::new(0);
static FAIL_AT: AtomicI64 = AtomicI64::new(i64::MAX);
static FOREVER: AtomicBool = AtomicBool::new(false);
static CODE: AtomicI32 = AtomicI32::new(ffi::SQLITE_IOERR);
static DATABASE_ONLY: AtomicBool = AtomicBool::new(false);

/// The switch of the failing file system.
#[derive(Debug)]
pub(crate) struct Faults;

impl Faults {
    /// Makes it the default of the process.
    pub(crate) fn install() -> Self {
        static DONE: OnceLock<()> = OnceLock::new();
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
        Self
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

/// Nobody cuts the power here, so a sync that does not fail need not be waited for.
unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    fault(is_database(file)).unwrap_or(ffi::SQLITE_OK)
}

/// SQLite's handle of a file: ours in front, the real one right behind it.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    database: bool,
}

/// The real file behind ours.
fn inner(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: `szOsFile` asked for room for both, and `File` has the alignment of a pointer.
    unsafe { file.cast::<File>().add(1).cast() }
}

fn is_database(file: *mut ffi::sqlite3_file) -> bool {
    // SAFETY: SQLite passes only files that `open` has filled.
    unsafe { (*file.cast::<File>()).database }
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
        (*ours).database = flags & ffi::SQLITE_OPEN_MAIN_DB != 0;
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
