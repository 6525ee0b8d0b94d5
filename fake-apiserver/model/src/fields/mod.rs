//! Fields of objects that are kept as JSON values: access to them, and errors about them. Independent of the rest of
//! the crate.

mod error;
pub mod quantity;
pub mod value;

pub use error::{FieldError, FieldFault};
