//! The loop device driver's ioctls (include/uapi/linux/loop.h) and the shutdown of ext4 and xfs.

#![expect(unsafe_code, reason = "ioctls carry raw kernel structures; each block says why it is sound")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::ioctl::{Getter, Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl};

const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_SET_STATUS64: Opcode = 0x4C04;
const LOOP_GET_STATUS64: Opcode = 0x4C05;
const LOOP_SET_CAPACITY: Opcode = 0x4C07;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;
/// `_IO(0x12, 93)` of include/uapi/linux/fs.h.
const BLKROSET: Opcode = 0x125D;
/// `_IOR(0x12, 114, size_t)`, with the size of a 64-bit kernel.
const BLKGETSIZE64: Opcode = 0x8008_1272;
/// `_IOR('X', 125, __u32)`: EXT4_IOC_SHUTDOWN, and XFS_IOC_GOINGDOWN with the same number and flags.
const SHUTDOWN: Opcode = 0x8004_587D;
/// Flushes neither the journal nor the data.
const NOLOGFLUSH: u32 = 2;
/// LO_FLAGS_AUTOCLEAR: the device is torn down at its last close.
pub(super) const AUTOCLEAR: u32 = 4;
/// Length of a loop device's tag, with its terminating zero.
pub(super) const TAG: usize = 64;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Info {
    /// The device number of the filesystem that holds the backing file, as `st_dev`.
    pub device: u64,
    /// The inode of the backing file.
    pub inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    pub flags: u32,
    pub file_name: [u8; TAG],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Info>() == 232 && size_of::<Config>() == 304);

impl Info {
    /// Returns the tag: the value of `lo_file_name`.
    pub fn tag(&self) -> String {
        let end = self.file_name.iter().position(|b| *b == 0).unwrap_or(TAG);
        String::from_utf8_lossy(&self.file_name[..end]).into_owned()
    }
}

/// LOOP_CTL_GET_FREE, which answers with its return value.
struct GetFree;

// SAFETY: the opcode takes no argument and returns a number; no memory is handed to the kernel.
unsafe impl Ioctl for GetFree {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut std::ffi::c_void) -> Result<u32, Errno> {
        u32::try_from(output).map_err(|_| Errno::RANGE)
    }
}

/// Returns the number of a free loop device, which the kernel creates if there is none.
pub(super) fn get_free(control: impl AsFd) -> Result<u32, Errno> {
    // SAFETY: see the implementation of Ioctl; a descriptor of another kind answers ENOTTY.
    unsafe { ioctl(control, GetFree) }
}

/// Binds a loop device to a backing file in one step, with autoclear and a tag of at most 63 bytes.
pub(super) fn configure(device: impl AsFd, file: BorrowedFd<'_>, tag: &str) -> Result<(), Errno> {
    if tag.len() >= TAG {
        return Err(Errno::NAMETOOLONG);
    }
    let mut file_name = [0; TAG];
    file_name[..tag.len()].copy_from_slice(tag.as_bytes());
    let info = Info {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: AUTOCLEAR,
        file_name,
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    let fd = u32::try_from(file.as_raw_fd()).map_err(|_| Errno::BADF)?;
    let config = Config { fd, block_size: 0, info, reserved: [0; 8] };
    // SAFETY: the kernel reads one loop_config, whose layout and size are those of Config (asserted above).
    unsafe { ioctl(device, Setter::<LOOP_CONFIGURE, Config>::new(config)) }
}

/// Returns the status of a loop device; ENXIO if it has no backing file.
pub(super) fn status(device: impl AsFd) -> Result<Info, Errno> {
    // SAFETY: the kernel writes one loop_info64, whose layout and size are those of Info (asserted above); every
    // bit pattern is a valid Info.
    unsafe { ioctl(device, Getter::<LOOP_GET_STATUS64, Info>::new()) }
}

/// Updates the device's size from its backing file.
pub(super) fn set_capacity(device: impl AsFd) -> Result<(), Errno> {
    // SAFETY: the opcode takes no argument.
    unsafe { ioctl(device, NoArg::<LOOP_SET_CAPACITY>::new()) }
}

/// Returns the size of a block device in bytes.
pub(super) fn size(device: impl AsFd) -> Result<u64, Errno> {
    // SAFETY: the kernel writes one 64-bit number.
    unsafe { ioctl(device, Getter::<BLKGETSIZE64, u64>::new()) }
}

/// Makes a block device read-only or writable.
pub(super) fn set_readonly(device: impl AsFd, readonly: bool) -> Result<(), Errno> {
    // SAFETY: the kernel reads one int.
    unsafe { ioctl(device, Setter::<BLKROSET, i32>::new(i32::from(readonly))) }
}

/// Sets the device's offset in its file.
pub(super) fn set_offset(device: impl AsFd, offset: u64) -> Result<(), Errno> {
    let info = status(&device)?;
    set_status(device, Info { offset, ..info })
}

fn set_status(device: impl AsFd, info: Info) -> Result<(), Errno> {
    // SAFETY: the kernel reads one loop_info64, whose layout and size are those of Info (asserted above).
    unsafe { ioctl(device, Setter::<LOOP_SET_STATUS64, Info>::new(info)) }
}

/// Changes the device's tag, so that it looks like a foreign device.
#[cfg(test)]
pub(super) fn set_tag(device: impl AsFd, tag: &[u8]) -> Result<(), Errno> {
    let mut info = status(&device)?;
    info.file_name = [0; TAG];
    info.file_name[..tag.len()].copy_from_slice(tag);
    set_status(device, info)
}

/// Detaches a loop device, at once or at its last close.
pub(super) fn clear(device: impl AsFd) -> Result<(), Errno> {
    // SAFETY: the opcode takes no argument.
    unsafe { ioctl(device, NoArg::<LOOP_CLR_FD>::new()) }
}

/// Simulates power loss: every later access to the mounted filesystem fails with EIO, without a flush.
pub(super) fn shutdown(directory: impl AsFd) -> Result<(), Errno> {
    // SAFETY: the kernel reads one u32.
    unsafe { ioctl(directory, Setter::<SHUTDOWN, u32>::new(NOLOGFLUSH)) }
}
