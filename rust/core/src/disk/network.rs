//! Whether a directory lies on a file system that other machines share. SQLite's WAL keeps its index in shared memory
//! and its locks in `fcntl`; neither reaches another machine, so such a store would be damaged in silence.

use std::path::Path;

use crate::base::{Error, Result};

/// Refuses a directory, or the nearest parent that exists, on a network file system.
pub(super) fn refuse(directory: &Path) -> Result<()> {
    match kind(directory) {
        Some(name) => Err(Error::invalid(
            "path",
            format!(
                "{} lies on a network file system ({name}), where several machines would damage the store; \
                 choose a local disk, or allow_network if only this machine ever opens it",
                directory.display()
            ),
        )),
        None => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn kind(directory: &Path) -> Option<&'static str> {
    let present = directory.ancestors().find(|path| path.exists()).filter(|path| !path.as_os_str().is_empty());
    let magic = rustix::fs::statfs(present.unwrap_or(Path::new("."))).ok()?.f_type;
    name(magic as u32)
}

/// Elsewhere the system is not asked.
#[cfg(not(target_os = "linux"))]
fn kind(_directory: &Path) -> Option<&'static str> {
    None
}

/// The network file systems of `linux/magic.h` and of their own sources, by the number `statfs` gives.
#[cfg(target_os = "linux")]
fn name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "nfs",
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => "smb",
        0x0102_1997 => "9p",
        0x5346_414f | 0x6b41_4653 => "afs",
        0x00c3_6400 => "ceph",
        0x7375_7245 => "coda",
        0x0000_564c => "ncp",
        0x0bd0_0bd0 => "lustre",
        0x7461_636f => "ocfs2",
        0x0116_1970 => "gfs2",
        0x4750_4653 => "gpfs",
        0x6573_5546 => "fuse",
        _ => return None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_network_file_systems_are_known() {
        for (magic, expected) in [
            (0x6969, Some("nfs")),
            (0xfe53_4d42, Some("smb")),
            (0x6573_5546, Some("fuse")),
            (0xef53, None),
            (0x0102_1994, None),
            (0x9123_683e, None),
            (0x794c_7630, None),
        ] {
            assert_eq!(name(magic), expected, "{magic:#x}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_judged_by_its_parent() {
        let here = tempfile::tempdir().expect("a directory");
        assert_eq!(kind(&here.path().join("not/yet/there")), kind(here.path()));
        assert_eq!(kind(Path::new("")), kind(Path::new(".")));
    }

    #[test]
    fn proc_is_no_network() {
        assert_eq!(kind(Path::new("/proc")), None);
    }
}
