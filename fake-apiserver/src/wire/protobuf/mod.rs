//! The protobuf encoding of API objects.

mod writer;

pub(crate) use writer::Writer;
