//! The wire formats of requests and answers. This module has no state.

pub(crate) mod answer;
pub mod discovery;
pub(crate) mod list;
pub mod negotiate;
pub mod openapi;
pub mod protobuf;
pub mod table;

pub use answer::Answer;
