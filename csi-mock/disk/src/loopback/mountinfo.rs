//! Mounts in /proc/thread-self/mountinfo. They are found by device number. Only btrfs, which shows its own number, is
//! found by source; the device then proves its owner.

use std::path::PathBuf;

use crate::DiskError;

/// Line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub major: u32,
    pub minor: u32,
    /// Mounted directory of the filesystem; `/` for the whole.
    pub root: PathBuf,
    pub path: PathBuf,
    pub readonly: bool,
    pub fs_type: String,
    /// Mount source, as the mounter named it.
    pub source: String,
}

impl Entry {
    /// Returns the number of the loop device in the source's name.
    pub fn source_loop(&self) -> Option<u32> {
        self.source.strip_prefix("/dev/loop")?.parse().ok()
    }
}

/// Returns all mounts of this process's namespace, in mount order at each place.
pub(super) fn read() -> Result<Vec<Entry>, DiskError> {
    let path = "/proc/thread-self/mountinfo";
    let text = std::fs::read(path).map_err(|e| DiskError::io("read", path, e))?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(parse).collect())
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue` (proc_pid_mountinfo(5)).
fn parse(line: &str) -> Option<Entry> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let (root, path, options) = (fields.next()?, fields.next()?, fields.next()?);
    let mut filesystem = filesystem.split(' ');
    let fs_type = filesystem.next()?;
    let source = filesystem.next().unwrap_or_default();
    let super_options = filesystem.next().unwrap_or_default();
    let readonly = [options, super_options].iter().any(|o| o.split(',').any(|o| o == "ro"));
    Some(Entry {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        root: unescape(root).into(),
        path: unescape(path).into(),
        readonly,
        fs_type: fs_type.to_owned(),
        source: unescape(source),
    })
}

/// Decodes octal escapes of space, tab, newline and backslash.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_optional_fields_are_read() {
        let entry =
            parse("36 35 7:12 / /run/node\\040a/mnt rw,nosuid shared:1 master:2 - ext4 /proc/self/fd/6 ro,x").unwrap();
        assert_eq!((entry.major, entry.minor, &*entry.fs_type), (7, 12, "ext4"));
        assert_eq!(entry.path, PathBuf::from("/run/node a/mnt"));
        assert!(entry.readonly);
        assert!(!parse("36 35 7:12 / /x rw - ext4 /dev/loop12 rw,errors=remount-ro").unwrap().readonly);
        let btrfs = parse("36 35 0:44 / /x rw - btrfs /dev/loop12 rw,space_cache=v2").unwrap();
        assert_eq!((btrfs.major, btrfs.source_loop()), (0, Some(12)));
        assert_eq!(parse("garbage"), None);
    }
}
