//! Compression of objects that only the history holds, done while the server is idle.
//!
//! The events of the last minutes hold every object that was written or deleted in them. After the deletion of a large
//! collection that is several times the size of the objects themselves, and watches and lists seldom go back to it.

use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// Minimum length of a text that is compressed, in bytes.
const WORTH: usize = 512;

/// JSON of an object, plain or compressed.
#[derive(Clone)]
pub enum Text {
    /// Plain, shared with the line of a watch.
    Plain(Bytes),
    /// Compressed, with its original length.
    Packed(Arc<[u8]>, usize),
}

impl Text {
    /// Returns the text. A packed text is decompressed on each call.
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Plain(bytes) => bytes.clone(),
            Self::Packed(packed, length) => {
                let mut bytes = Vec::with_capacity(*length);
                // `packed` wrote these bytes, so they decompress.
                let _ = DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes);
                bytes.into()
            }
        }
    }

    /// Returns the length of the uncompressed text.
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Packed(_, length) => *length,
        }
    }

    /// Returns true if packing saves memory.
    pub fn is_packable(&self) -> bool {
        matches!(self, Self::Plain(bytes) if bytes.len() >= WORTH)
    }

    /// Returns the text compressed; `None` if it is packed already or too short.
    pub fn packed(&self) -> Option<Self> {
        let Self::Plain(bytes) = self else { return None };
        if !self.is_packable() {
            return None;
        }
        let mut encoder = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::fast());
        encoder.write_all(bytes).ok()?;
        Some(Self::Packed(encoder.finish().ok()?.into(), bytes.len()))
    }
}
