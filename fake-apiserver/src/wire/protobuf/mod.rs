//! The protobuf encoding of API objects, driven by the table of [`crate::kinds::schema`] (API reference §4).
//!
//! An object is an envelope, `k8s\0` and a `runtime.Unknown` that names the type, around the message of that type.
//! Messages are turned into the trees that the JSON form of the same object has, and back; what Go's JSON encoder
//! leaves out or writes for zero values is decided by the same facts.

mod decode;
mod encode;
mod layout;
mod reader;
mod writer;

pub use decode::{DecodeError, decode};
pub use encode::{encode, envelope, list, watch_event};
pub(crate) use writer::Writer;

/// The media type of objects.
pub const MEDIA: &str = "application/vnd.kubernetes.protobuf";
/// The media type of watch streams.
pub const WATCH_MEDIA: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// What an envelope begins with.
const MAGIC: &[u8] = b"k8s\0";

#[cfg(test)]
mod tests;
