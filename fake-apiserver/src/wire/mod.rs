//! The wire: what requests ask for and how answers are written. Knows no state.

pub(crate) mod answer;
pub mod discovery;
pub(crate) mod list;
pub mod negotiate;
pub mod openapi;
pub mod protobuf;
pub mod table;

pub use answer::Answer;
