//! The wire formats of requests and answers. This module has no state but a cache of documents.

pub(crate) mod answer;
pub mod discovery;
pub mod kept;
pub(crate) mod list;
pub mod negotiate;
pub mod openapi;
pub mod protobuf;
pub mod table;

pub use answer::Answer;
