//! Loop devices: configuration, proof of ownership, removal.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::{ioctl, nodes};
use crate::DiskError;

/// Number of attempts to get a free device when others take it first (LOOP_CONFIGURE answers EBUSY).
const TRIES: usize = 64;
/// Longest wait for the kernel to tear a device down.
const TEAR_DOWN: Duration = Duration::from_secs(10);

/// Proof of a loop device's identity: kept in the ledger and compared with the kernel before every dangerous step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    /// `<run>/<volume id>`.
    pub tag: String,
    /// Inode of the backing file.
    pub inode: u64,
    /// Device of the backing file, as (major, minor).
    pub device: (u32, u32),
}

/// Loop device that this process configured, held open so that its number cannot be reused.
#[derive(Debug)]
pub(super) struct LoopDevice {
    pub number: u32,
    pub proof: Proof,
    held: OwnedFd,
}

fn path_of(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

fn split(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

fn open(number: u32) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path_of(number), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// Returns the kernel's identity of loop device `number`; None if it is not in use as one.
pub(super) fn proof_of(number: u32) -> Option<Proof> {
    let fd = rustix::fs::openat(CWD, path_of(number), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    kernel_proof(&fd).ok()
}

/// Returns the kernel's identity of an open loop device; ENXIO or ENOTTY if it is not in use.
pub(super) fn kernel_proof(fd: &impl AsFd) -> Result<Proof, Errno> {
    let info = ioctl::status(fd)?;
    Ok(Proof { tag: info.tag(), inode: info.inode, device: split(info.device) })
}

impl LoopDevice {
    /// Configures a free loop device on `file`.
    ///
    /// # Errors
    /// The operating system's error; [`DiskError::Environment`] if no loop devices are available.
    pub fn attach(file: &File, tag: &str) -> Result<Self, DiskError> {
        nodes::make_control()?;
        let control = rustix::fs::openat(CWD, "/dev/loop-control", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| DiskError::Environment(format!("/dev/loop-control: {e}; loop devices need root on Linux")))?;
        let stat = rustix::fs::fstat(file).map_err(|e| DiskError::errno("stat", tag, e))?;
        let proof = Proof { tag: tag.to_owned(), inode: stat.st_ino, device: split(stat.st_dev) };
        for _ in 0..TRIES {
            let number = ioctl::get_free(&control).map_err(|e| DiskError::errno("LOOP_CTL_GET_FREE", tag, e))?;
            let path = path_of(number).display().to_string();
            let held = match open(number) {
                Ok(held) => held,
                // In a container /dev holds only the nodes from its start.
                Err(Errno::NOENT) => {
                    nodes::make_loop(number)?;
                    open(number).map_err(|e| DiskError::errno("open", path.clone(), e))?
                }
                Err(error) => return Err(DiskError::errno("open", path, error)),
            };
            match ioctl::configure(&held, file.as_fd(), tag) {
                Ok(()) => {
                    let device = Self { number, proof, held };
                    // The kernel keeps this flag with the number, and its last owner may have left it set.
                    device.set_readonly(false)?;
                    return Ok(device);
                }
                // Another process took it between the two calls.
                Err(Errno::BUSY) => {}
                Err(error) => return Err(DiskError::errno("LOOP_CONFIGURE", path, error)),
            }
        }
        Err(DiskError::errno("LOOP_CONFIGURE", tag, Errno::BUSY))
    }

    /// Holds loop device `number` again, if the kernel confirms `tag` and `file`.
    pub fn adopt(number: u32, file: &File, tag: &str) -> Option<Self> {
        let stat = rustix::fs::fstat(file).ok()?;
        let proof = Proof { tag: tag.to_owned(), inode: stat.st_ino, device: split(stat.st_dev) };
        let device = Self { number, proof, held: open(number).ok()? };
        device.verify().is_ok().then_some(device)
    }

    /// Returns the path of the device node.
    pub fn path(&self) -> PathBuf {
        path_of(self.number)
    }

    /// Compares the ledger with the kernel.
    ///
    /// # Errors
    /// [`DiskError::NotOurs`] for any difference. The device must then not be touched.
    pub fn verify(&self) -> Result<(), DiskError> {
        let differs = |reason: String| DiskError::NotOurs {
            volume: self.proof.tag.clone(),
            device: self.path().display().to_string(),
            reason,
        };
        let seen = kernel_proof(&self.held).map_err(|e| differs(format!("LOOP_GET_STATUS64: {e}")))?;
        if seen == self.proof { Ok(()) } else { Err(differs(format!("it is {seen:?}"))) }
    }

    /// Returns the kernel's size of the device; 0 if it has no backing file any more.
    pub fn size_bytes(&self) -> u64 {
        ioctl::size(&self.held).unwrap_or(0)
    }

    /// Sets the device's size to its file's current size; returns it.
    ///
    /// # Errors
    /// [`DiskError::NotOurs`]; the operating system's error.
    pub fn refresh(&self) -> Result<u64, DiskError> {
        self.verify()?;
        let fail = |op, e| DiskError::errno(op, self.path().display().to_string(), e);
        ioctl::set_capacity(&self.held).map_err(|e| fail("LOOP_SET_CAPACITY", e))?;
        ioctl::size(&self.held).map_err(|e| fail("BLKGETSIZE64", e))
    }

    /// Makes the device read-only or writable.
    ///
    /// # Errors
    /// [`DiskError::NotOurs`]; the operating system's error.
    pub fn set_readonly(&self, readonly: bool) -> Result<(), DiskError> {
        self.verify()?;
        ioctl::set_readonly(&self.held, readonly)
            .map_err(|e| DiskError::errno("BLKROSET", self.path().display().to_string(), e))
    }

    /// Writes the kernel's cache of the device back, as the kernel does when the last opener closes it: `held` keeps it
    /// open. Like a close, it reports no error, for example that of a pulled device.
    pub fn write_back(&self) {
        let _ = rustix::fs::fsync(&self.held);
    }

    /// Sets the device's size to zero: every opener gets EIO from now on. The backing file is not changed, except that
    /// the kernel first writes back its cache of the device.
    ///
    /// # Errors
    /// [`DiskError::NotOurs`]; the operating system's error.
    pub fn cut_off(&self) -> Result<(), DiskError> {
        self.verify()?;
        let size = self.size_bytes();
        let fail = |e| DiskError::errno("LOOP_SET_STATUS64", self.path().display().to_string(), e);
        ioctl::set_offset(&self.held, size).map_err(fail)
    }

    /// Checks that the device has no other user: no mount and no exclusive opener.
    ///
    /// # Errors
    /// [`DiskError::Busy`].
    pub fn unused(&self) -> Result<(), DiskError> {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, self.path(), flags, Mode::empty()) {
            Ok(_) => Ok(()),
            Err(Errno::BUSY) => Err(DiskError::Busy {
                volume: self.proof.tag.clone(),
                by: format!("{} is mounted or claimed by another program", self.path().display()),
            }),
            Err(error) => Err(DiskError::errno("open", self.path().display().to_string(), error)),
        }
    }

    /// Detaches the device from its file and waits for the kernel.
    ///
    /// # Errors
    /// [`DiskError::NotOurs`], and the device is not touched; [`DiskError::Busy`] if it still exists after ten seconds.
    pub fn detach(self) -> Result<(), DiskError> {
        self.verify()?;
        let (number, proof) = (self.number, self.proof.clone());
        let name = self.path().display().to_string();
        // The next user of the number must not get a read-only device. If this fails, the device must still be
        // detached.
        let _ = ioctl::set_readonly(&self.held, false);
        match ioctl::clear(&self.held) {
            Ok(()) | Err(Errno::NXIO) => {}
            Err(error) => return Err(DiskError::errno("LOOP_CLR_FD", name, error)),
        }
        drop(self.held);
        let step = Duration::from_millis(5);
        for _ in 0..TEAR_DOWN.as_millis() / step.as_millis() {
            if proof_of(number).as_ref() != Some(&proof) {
                return Ok(());
            }
            std::thread::sleep(step);
        }
        Err(DiskError::Busy { volume: proof.tag, by: format!("something still holds {name} open") })
    }

    /// Closes the descriptor. The kernel tears the device down with its last mount.
    pub fn release(self) -> Result<(), DiskError> {
        self.verify()?;
        drop(self.held);
        Ok(())
    }
}

/// Returns true if a file holds no data, according to the filesystem's hole map. Without one, reads the file.
pub(super) fn all_zero(file: &File, path: &Path) -> Result<bool, DiskError> {
    use std::io::Read;
    let name = || path.display().to_string();
    let mut at = 0;
    loop {
        let start = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return Ok(true),
            start => start.map_err(|e| DiskError::errno("lseek", name(), e))?,
        };
        let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start))
            .map_err(|e| DiskError::errno("lseek", name(), e))?;
        rustix::fs::seek(file, rustix::fs::SeekFrom::Start(start)).map_err(|e| DiskError::errno("lseek", name(), e))?;
        let mut data = file.take(end - start);
        let mut buffer = vec![0; 1 << 16];
        loop {
            match data.read(&mut buffer).map_err(|e| DiskError::io("read", name(), e))? {
                0 => break,
                n if buffer[..n].iter().any(|b| *b != 0) => return Ok(false),
                _ => {}
            }
        }
        at = end;
    }
}
