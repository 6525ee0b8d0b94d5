//! Size of a filesystem from the superblock in its backing file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Returns type and size in bytes of the filesystem in `file`; None for an unknown one.
pub(super) fn read(file: &File) -> io::Result<Option<(&'static str, u64)>> {
    let mut head = vec![0; 0x11000];
    let mut done = 0;
    while done < head.len() {
        match file.read_at(&mut head[done..], done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(size(&head))
}

fn le32(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, |b| u64::from(u32::from_le_bytes(b)))
}

/// Parses a superblock. Offsets are those of the kernel's ext4.h, xfs_format.h and btrfs_tree.h.
fn size(head: &[u8]) -> Option<(&'static str, u64)> {
    if head.get(0x438..0x43A)? == [0x53, 0xEF] {
        let block = 1024_u64.checked_shl(u32::try_from(le32(head, 0x418)).ok()?)?;
        // The upper half counts only with the feature 64bit.
        let high = if le32(head, 0x460) & 0x80 == 0 { 0 } else { le32(head, 0x550) };
        return Some(("ext4", ((high << 32) | le32(head, 0x404)).saturating_mul(block)));
    }
    if head.get(..4)? == b"XFSB" {
        let block = u32::from_be_bytes(head.get(4..8)?.try_into().ok()?);
        let blocks = u64::from_be_bytes(head.get(8..16)?.try_into().ok()?);
        return Some(("xfs", blocks.saturating_mul(u64::from(block))));
    }
    if head.get(0x10040..0x10048)? == b"_BHRfS_M" {
        return Some(("btrfs", u64::from_le_bytes(head.get(0x10070..0x10078)?.try_into().ok()?)));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_each_superblock() {
        let mut ext4 = vec![0; 0x11000];
        ext4[0x438..0x43A].copy_from_slice(&[0x53, 0xEF]);
        ext4[0x404..0x408].copy_from_slice(&1000_u32.to_le_bytes());
        ext4[0x418] = 2;
        assert_eq!(size(&ext4), Some(("ext4", 4_096_000)));
        let mut xfs = vec![0; 0x11000];
        xfs[..4].copy_from_slice(b"XFSB");
        xfs[4..8].copy_from_slice(&4096_u32.to_be_bytes());
        xfs[8..16].copy_from_slice(&100_u64.to_be_bytes());
        assert_eq!(size(&xfs), Some(("xfs", 409_600)));
        let mut btrfs = vec![0; 0x11000];
        btrfs[0x10040..0x10048].copy_from_slice(b"_BHRfS_M");
        btrfs[0x10070..0x10078].copy_from_slice(&7_u64.to_le_bytes());
        assert_eq!(size(&btrfs), Some(("btrfs", 7)));
        assert_eq!((size(&[0; 0x11000]), size(&[])), (None, None));
    }
}
