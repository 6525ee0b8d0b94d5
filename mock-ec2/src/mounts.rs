//! Mounted volumes on this machine, according to the kernel.
//!
//! A loop device names its backing file in sysfs, and every mount namespace lists its mounts with their device numbers.
//! A published raw device is the bind of a device node; its line has the node's name. Only files in this server's own
//! directory matter.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::state::ids::VolumeId;

/// Returns those of `volumes`, with files in `dir`, whose loop device is mounted.
pub(crate) fn mounted(dir: &Path, volumes: &BTreeSet<VolumeId>) -> BTreeSet<VolumeId> {
    let devices = loops(Path::new("/sys/block"), dir, volumes);
    if devices.is_empty() {
        return BTreeSet::new();
    }
    let mut found = BTreeSet::new();
    let mut namespaces = BTreeSet::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let process = entry.path();
        if !entry.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit())) {
            continue;
        }
        // Processes start and end, and some are not readable for this process.
        let Ok(namespace) = fs::read_link(process.join("ns/mnt")) else { continue };
        if namespaces.insert(namespace)
            && let Ok(text) = fs::read_to_string(process.join("mountinfo"))
        {
            found.extend(devices_in(&text).filter_map(|device| devices.get(device)).cloned());
        }
    }
    found
}

/// Returns the `major:minor` of every mount in `text`, which has the format of `/proc/<pid>/mountinfo`; for the bind of
/// a device node its root, which is the node's name (`/loop3`).
fn devices_in(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let (numbers, root) = (fields.next()?, fields.next()?);
        // /dev is a devtmpfs, and in a container a tmpfs.
        let of_devices =
            line.split(" - ").nth(1).is_some_and(|fs| fs.starts_with("devtmpfs ") || fs.starts_with("tmpfs "));
        Some(if of_devices && root != "/" { root } else { numbers })
    })
}

/// Returns the loop devices on files of `volumes` in `dir`, by `major:minor` and by `/` and their name.
fn loops(block: &Path, dir: &Path, volumes: &BTreeSet<VolumeId>) -> BTreeMap<String, VolumeId> {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(block).into_iter().flatten().flatten() {
        let device = entry.path();
        // Without a backing file it is another device, or a free loop device.
        let Ok(file) = fs::read_to_string(device.join("loop/backing_file")) else { continue };
        let file = Path::new(file.trim_end_matches('\n'));
        let volume = file.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse::<VolumeId>().ok());
        if let (Some(volume), Ok(numbers)) = (volume, fs::read_to_string(device.join("dev")))
            && file.parent() == Some(&dir)
            && volumes.contains(&volume)
        {
            found.insert(numbers.trim().to_owned(), volume.clone());
            found.insert(format!("/{}", entry.file_name().display()), volume);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_on_our_files_are_found_by_their_numbers() {
        let (sys, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dir = dir.path().canonicalize().unwrap();
        let put = |name: &str, file: &Path, numbers: &str| {
            fs::create_dir_all(sys.path().join(name).join("loop")).unwrap();
            fs::write(sys.path().join(name).join("loop/backing_file"), format!("{}\n", file.display())).unwrap();
            fs::write(sys.path().join(name).join("dev"), format!("{numbers}\n")).unwrap();
        };
        put("loop0", &dir.join("vol-00000001"), "7:0");
        put("loop1", Path::new("/elsewhere/vol-00000001"), "7:1");
        put("loop2", &dir.join("vol-00000002"), "7:2");
        fs::create_dir_all(sys.path().join("sda")).unwrap();
        let wanted: BTreeSet<VolumeId> = ["vol-00000001".parse().unwrap()].into();
        let found = loops(sys.path(), &dir, &wanted);
        let volume: VolumeId = "vol-00000001".parse().unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["/loop0", "7:0"].map(|k| (k.to_owned(), volume.clone())));
    }

    #[test]
    fn mountinfo_names_the_device_of_each_mount() {
        let text = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n\
                    40 35 7:3 / /var/lib/pods rw - ext4 /dev/loop3 rw\n\
                    41 35 0:6 /loop4 /var/lib/pods/device rw - devtmpfs udev rw\n";
        assert_eq!(devices_in(text).collect::<Vec<_>>(), ["98:0", "7:3", "/loop4"]);
    }
}
