//! Fields of objects that are kept as JSON values: reading and writing them, and what is wrong with one. Knows nothing of
//! the rest of the crate.

mod error;
pub(crate) mod quantity;
pub mod value;

pub use error::{FieldError, FieldFault};
