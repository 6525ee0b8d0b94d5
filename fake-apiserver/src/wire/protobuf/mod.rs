//! The protobuf encoding of API objects, driven by the table of [`crate::kinds::schema`] (apimachinery
//! `pkg/runtime/serializer/protobuf`).
//!
//! An object is an envelope, `k8s\0` and a `runtime.Unknown` with the type, around the message of that type. Messages
//! are converted to the trees of the JSON form of the same object, and back. The same table decides which zero values
//! Go's JSON encoder omits or writes.

mod decode;
mod encode;
mod layout;
mod reader;
mod writer;

pub use decode::{DecodeError, decode};
pub use encode::{encode, envelope, list, watch_event};
pub(crate) use writer::Writer;

/// Media type of objects.
pub const MEDIA: &str = "application/vnd.kubernetes.protobuf";
/// Media type of watch streams.
pub const WATCH_MEDIA: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// First bytes of an envelope.
const MAGIC: &[u8] = b"k8s\0";

#[cfg(test)]
mod tests;
