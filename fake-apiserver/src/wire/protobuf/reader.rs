//! Reader of the protobuf wire format, for untrusted bytes.

use super::DecodeError;
use super::writer::{FIXED32, FIXED64, LENGTH, VARINT};

/// A value on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    /// A varint.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes, which no type here uses.
    Fixed32,
    /// Bytes, a string or a message.
    Bytes(&'a [u8]),
}

/// The rest of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// Reads the next field; `None` at the end.
    ///
    /// # Errors
    /// If the bytes are not a field.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, DecodeError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|n| *n > 0).ok_or(DecodeError::Tag(tag))?;
        let wire = match tag & 7 {
            VARINT => Wire::Varint(self.varint()?),
            FIXED64 => {
                let bytes = self.take(8)?;
                Wire::Fixed64(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
            }
            LENGTH => {
                let length = self.varint()?;
                Wire::Bytes(self.take(usize::try_from(length).map_err(|_| DecodeError::End)?)?)
            }
            FIXED32 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return Err(DecodeError::Tag(tag)),
        };
        Ok(Some((number, wire)))
    }

    /// Reads a varint.
    ///
    /// # Errors
    /// If it is cut off, or longer than 64 bits.
    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(DecodeError::End)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Overflow)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(DecodeError::End)?;
        self.0 = rest;
        Ok(taken)
    }
}
