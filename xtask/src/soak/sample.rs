//! The resources that a process holds at a moment.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

/// The resources of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Resident memory, in kB.
    pub rss: u64,
    /// The part of it that is private, in kB: the rest are pages of the program's file, which are loaded on first use.
    pub own: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
    /// Loop devices whose file lies in its directory.
    pub loops: usize,
    /// Mounts in its namespace that lie in its directory.
    pub mounts: usize,
}

impl Sample {
    /// Takes a sample of process `pid`, whose files are in `directory`.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn of(pid: u32, directory: &Path) -> Result<Self, anyhow::Error> {
        let proc = Path::new("/proc").join(pid.to_string());
        let status = fs::read_to_string(proc.join("status")).with_context(|| format!("process {pid} is gone"))?;
        let Some(rss) = number(&status, "VmRSS:") else { bail!("process {pid} has ended") };
        Ok(Self {
            rss,
            own: number(&status, "RssAnon:").unwrap_or(rss),
            descriptors: fs::read_dir(proc.join("fd"))?.count(),
            threads: fs::read_dir(proc.join("task"))?.count(),
            loops: loops(directory)?.len(),
            mounts: mounts(&fs::read_to_string(proc.join("mountinfo"))?, directory),
        })
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rss, own, descriptors, threads, loops, mounts } = *self;
        write!(
            f,
            "{:.1} MB ({:.1} of its own), {descriptors} descriptors, {threads} threads, {loops} loop devices, {mounts} mounts",
            megabytes(rss),
            megabytes(own)
        )
    }
}

/// Converts from kB.
pub fn megabytes(kilobytes: u64) -> f64 {
    kilobytes as f64 / 1000.0
}

/// Returns the number after a key of a `status` file.
fn number(status: &str, word: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(word))?.split_whitespace().next()?.parse().ok()
}

/// Returns the machine's loop devices with a backing file in `directory`, deleted files included.
///
/// # Errors
/// If the machine's devices cannot be listed.
pub fn loops(directory: &Path) -> Result<Vec<String>, anyhow::Error> {
    let Ok(devices) = fs::read_dir("/sys/block") else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for device in devices {
        let device = device?;
        let name = device.file_name().to_string_lossy().into_owned();
        // Unbound devices have no backing file.
        let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if name.starts_with("loop") && Path::new(file.trim_end()).starts_with(directory) {
            found.push(name);
        }
    }
    Ok(found)
}

/// Returns the number of mounts in a `mountinfo` file that are in `directory`.
pub fn mounts(table: &str, directory: &Path) -> usize {
    let target = |line: &str| line.split_whitespace().nth(4).map(|at| Path::new(at).starts_with(directory));
    table.lines().filter(|line| target(line) == Some(true)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_descriptors_and_no_mount_in_a_new_directory() {
        let home = tempfile::tempdir().unwrap();
        let sample = Sample::of(std::process::id(), home.path()).unwrap();
        assert!(
            sample.rss > 500
                && sample.own > 100
                && sample.own <= sample.rss
                && sample.descriptors > 2
                && sample.threads > 0,
            "{sample:?}"
        );
        assert_eq!((sample.loops, sample.mounts), (0, 0));
        // More than the tests beside this one may close meanwhile.
        let more: Vec<_> = (0..100).map(|_| fs::File::open("/proc/self/status").unwrap()).collect();
        let later = Sample::of(std::process::id(), home.path()).unwrap();
        assert!(later.descriptors > sample.descriptors + 50, "{later:?}");
        drop(more);
    }

    #[test]
    fn mounts_are_counted_by_where_they_lie() {
        let table = "1 2 8:1 / / rw - ext4 /dev/a rw\n3 1 7:0 / /tmp/m-1/node-a/x rw - ext4 /dev/loop0 rw\n\
                     4 1 7:1 / /tmp/m-10/x rw - ext4 /dev/loop1 rw\n";
        assert_eq!(mounts(table, Path::new("/tmp/m-1")), 1);
        assert_eq!(number("Name:\tx\nVmRSS:\t  1234 kB\n", "VmRSS:"), Some(1234));
    }
}
