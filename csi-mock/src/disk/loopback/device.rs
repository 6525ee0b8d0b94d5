//! Loop devices: made, proved to be ours, taken away.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::{ioctl, nodes};
use crate::disk::DiskError;

/// How often a free device is asked for when others take it first (LOOP_CONFIGURE answers EBUSY).
const TRIES: usize = 64;
/// How long to wait for the kernel to tear a device down.
const TEAR_DOWN: Duration = Duration::from_secs(2);

/// Proof of what a loop device is: kept in the ledger and compared with the kernel before every dangerous step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    /// `<run>/<volume id>`.
    pub tag: String,
    /// The backing file's inode.
    pub inode: u64,
    /// The backing file's device, as (major, minor).
    pub device: (u32, u32),
}

/// A loop device that we made, held open: its number cannot be given to anybody else.
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

/// What the kernel says that loop device `number` is; nothing when it is no loop device in use.
pub(super) fn proof_of(number: u32) -> Option<Proof> {
    let fd = rustix::fs::openat(CWD, path_of(number), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    kernel_proof(&fd).ok()
}

/// What the kernel says that an open loop device is; ENXIO or ENOTTY when it is none in use.
pub(super) fn kernel_proof(fd: &impl AsFd) -> Result<Proof, Errno> {
    let info = ioctl::status(fd)?;
    Ok(Proof { tag: info.tag(), inode: info.inode, device: split(info.device) })
}

impl LoopDevice {
    /// Ties a free loop device to `file`.
    ///
    /// # Errors
    /// What the system says; [`DiskError::Environment`] when there are no loop devices to be had.
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
                // In a container /dev has only what it began with.
                Err(Errno::NOENT) => {
                    nodes::make_loop(number)?;
                    open(number).map_err(|e| DiskError::errno("open", path.clone(), e))?
                }
                Err(error) => return Err(DiskError::errno("open", path, error)),
            };
            match ioctl::configure(&held, file.as_fd(), tag) {
                Ok(()) => {
                    let device = Self { number, proof, held };
                    // The kernel keeps this flag with the number, and its last owner may have died with it set.
                    device.set_readonly(false)?;
                    return Ok(device);
                }
                // Somebody else took it between the two calls.
                Err(Errno::BUSY) => {}
                Err(error) => return Err(DiskError::errno("LOOP_CONFIGURE", path, error)),
            }
        }
        Err(DiskError::errno("LOOP_CONFIGURE", tag, Errno::BUSY))
    }

    /// Takes hold of loop device `number` again, if the kernel says that it is what `tag` and `file` mean.
    pub fn adopt(number: u32, file: &File, tag: &str) -> Option<Self> {
        let stat = rustix::fs::fstat(file).ok()?;
        let proof = Proof { tag: tag.to_owned(), inode: stat.st_ino, device: split(stat.st_dev) };
        let device = Self { number, proof, held: open(number).ok()? };
        device.verify().is_ok().then_some(device)
    }

    /// The device node.
    pub fn path(&self) -> PathBuf {
        path_of(self.number)
    }

    /// Compares the ledger with the kernel.
    ///
    /// # Errors
    /// [`DiskError::NotOurs`] when anything differs. Nothing may be done to the device then.
    pub fn verify(&self) -> Result<(), DiskError> {
        let differs = |reason: String| DiskError::NotOurs {
            volume: self.proof.tag.clone(),
            device: self.path().display().to_string(),
            reason,
        };
        let seen = kernel_proof(&self.held).map_err(|e| differs(format!("LOOP_GET_STATUS64: {e}")))?;
        if seen == self.proof { Ok(()) } else { Err(differs(format!("it is {seen:?}"))) }
    }

    /// How large the kernel says that it is; 0 when it is tied to nothing any more.
    pub fn size_bytes(&self) -> u64 {
        ioctl::size(&self.held).unwrap_or(0)
    }

    /// Makes it as large as its file is now; returns its size.
    ///
    /// # Errors
    /// [`DiskError::NotOurs`]; what the system says.
    pub fn refresh(&self) -> Result<u64, DiskError> {
        self.verify()?;
        let fail = |op, e| DiskError::errno(op, self.path().display().to_string(), e);
        ioctl::set_capacity(&self.held).map_err(|e| fail("LOOP_SET_CAPACITY", e))?;
        ioctl::size(&self.held).map_err(|e| fail("BLKGETSIZE64", e))
    }

    /// Has the device refuse writes, or take them again.
    ///
    /// # Errors
    /// [`DiskError::NotOurs`]; what the system says.
    pub fn set_readonly(&self, readonly: bool) -> Result<(), DiskError> {
        self.verify()?;
        ioctl::set_readonly(&self.held, readonly)
            .map_err(|e| DiskError::errno("BLKROSET", self.path().display().to_string(), e))
    }

    /// Lets the device end where it begins: whoever has it open gets EIO from now on. Its file is not touched, but
    /// what the kernel had cached of the device is written first.
    ///
    /// # Errors
    /// [`DiskError::NotOurs`]; what the system says.
    pub fn cut_off(&self) -> Result<(), DiskError> {
        self.verify()?;
        let size = self.size_bytes();
        let fail = |e| DiskError::errno("LOOP_SET_STATUS64", self.path().display().to_string(), e);
        ioctl::set_offset(&self.held, size).map_err(fail)
    }

    /// That nobody else uses the device: neither a mount nor an exclusive opener.
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

    /// Unties the device from its file and waits until the kernel has done so.
    ///
    /// # Errors
    /// [`DiskError::NotOurs`], and then the device is left alone; [`DiskError::Busy`] when it is still there after
    /// two seconds.
    pub fn detach(self) -> Result<(), DiskError> {
        self.verify()?;
        let (number, proof) = (self.number, self.proof.clone());
        let name = self.path().display().to_string();
        // Whoever gets the number next is not to inherit a read-only device; if it fails, we still want it gone.
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

    /// Lets go of the device, which is torn down with its last mount.
    pub fn release(self) -> Result<(), DiskError> {
        self.verify()?;
        drop(self.held);
        Ok(())
    }
}

/// Whether a file holds no data at all, as the filesystem tells its holes. A filesystem that cannot tell has the
/// file read.
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
