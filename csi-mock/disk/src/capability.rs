//! Backends that work on this machine, and reasons why the better one does not.

use serde::Serialize;

use super::Backend;

/// One checked requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Name (`root`, `loop-control`, `mkfs.ext4`).
    pub name: String,
    /// True if it is met.
    pub ok: bool,
    /// True if the loop backend needs it; others only add a filesystem.
    pub required: bool,
    /// Result, or how to meet the requirement.
    pub detail: String,
}

/// Capabilities of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Best backend that works here: `loop`, or else `directory`.
    pub backend: Backend,
    /// Ok if the loop backend works here, else the reason.
    pub loop_backend: Result<(), String>,
    /// Checked requirements, in the order in which they are needed.
    pub checks: Vec<Check>,
}

impl Capability {
    fn of(checks: Vec<Check>) -> Self {
        let missing: Vec<_> =
            checks.iter().filter(|c| c.required && !c.ok).map(|c| format!("{}: {}", c.name, c.detail)).collect();
        let loop_backend = if missing.is_empty() { Ok(()) } else { Err(missing.join("; ")) };
        Self { backend: if loop_backend.is_ok() { Backend::Loop } else { Backend::Directory }, loop_backend, checks }
    }

    /// Returns the filesystems that can be created here.
    pub fn filesystems(&self) -> Vec<&'static str> {
        let has = |name: &str| self.checks.iter().any(|c| c.name == name && c.ok);
        ["ext4", "xfs", "btrfs"].into_iter().filter(|fs| has(&format!("mkfs.{fs}"))).collect()
    }
}

/// Checks this machine without changing it.
#[cfg(target_os = "linux")]
pub fn capability() -> Capability {
    use super::loopback::tools::find;
    let mut checks = Vec::new();
    let mut add = |name: &str, required: bool, found: Result<String, String>| {
        let (ok, detail) = match found {
            Ok(detail) => (true, detail),
            Err(detail) => (false, detail),
        };
        checks.push(Check { name: name.to_owned(), ok, required, detail });
    };
    let root = rustix::process::geteuid().is_root();
    add("root", true, if root { Ok("uid 0".into()) } else { Err("run as root (sudo) to use loop devices".into()) });
    add("mount", true, effective(SYS_ADMIN, "CAP_SYS_ADMIN", "mounts need it (docker: --cap-add SYS_ADMIN)"));
    let control = std::fs::OpenOptions::new().read(true).write(true).open("/dev/loop-control");
    add(
        "loop-control",
        true,
        control
            .map(|_| "/dev/loop-control opens".to_owned())
            .map_err(|e| format!("/dev/loop-control: {e} (modprobe loop)")),
    );
    add("openat2", true, openat2());
    let tool = |name: &str, package: &str| {
        find(name).map(|p| p.display().to_string()).ok_or_else(|| format!("not installed (Debian package {package})"))
    };
    add("blkid", true, tool("blkid", "util-linux"));
    add("mkfs.ext4", true, tool("mkfs.ext4", "e2fsprogs"));
    add("fsck.ext4", true, tool("fsck.ext4", "e2fsprogs"));
    let why = "an ext4 that is mounted grows only with it (docker: --cap-add SYS_RESOURCE)";
    add("ext4 grows online", false, effective(SYS_RESOURCE, "CAP_SYS_RESOURCE", why));
    add("mkfs.xfs", false, tool("mkfs.xfs", "xfsprogs"));
    add("mkfs.btrfs", false, tool("mkfs.btrfs", "btrfs-progs"));
    Capability::of(checks)
}

/// Checks this machine: loop devices exist on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn capability() -> Capability {
    let detail = "loop devices and mounts exist on Linux only".to_owned();
    let check = Check { name: "linux".to_owned(), ok: false, required: true, detail };
    Capability::of(vec![check])
}

/// Bits of the effective capabilities (capabilities(7)).
#[cfg(target_os = "linux")]
const SYS_ADMIN: u32 = 21;
#[cfg(target_os = "linux")]
const SYS_RESOURCE: u32 = 24;

#[cfg(target_os = "linux")]
fn effective(bit: u32, name: &str, why: &str) -> Result<String, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|e| format!("/proc/self/status: {e}"))?;
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:")).map(str::trim).unwrap_or_default();
    match u64::from_str_radix(effective, 16) {
        Ok(bits) if bits & (1 << bit) != 0 => Ok(name.to_owned()),
        _ => Err(format!("no {name}: {why}")),
    }
}

#[cfg(target_os = "linux")]
fn openat2() -> Result<String, String> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    match openat2(CWD, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH) {
        Ok(_) => Ok("works".to_owned()),
        Err(error) => Err(format!("{error}: the kernel is older than 5.6 or a seccomp profile forbids it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backend_follows_from_the_checks() {
        let found = capability();
        assert_eq!(found.backend == Backend::Loop, found.loop_backend.is_ok());
        assert!(!found.checks.is_empty());
    }
}
