//! Objects of the Kubernetes API: their kinds, schemas and texts, and the expressions and selectors over them.
//!
//! It has no store and no server: a value goes in, a value or an error in upstream's words comes out.
//!
//! ```
//! use api_model::kinds;
//!
//! let claims = kinds::find("", "v1", "persistentvolumeclaims").expect("a kind of Kubernetes");
//! assert_eq!(claims.kind, "PersistentVolumeClaim");
//! ```
//!
//! # Modules
//!
//! - [`kinds`] is one table of all kinds; [`custom`] has the kinds of CustomResourceDefinitions.
//! - [`fields`] reads and checks fields, [`field_path`] names them in messages, [`names`] checks names, and
//!   [`label_checks`] labels and selectors.
//! - [`cel`] evaluates expressions, [`selector`] selects by labels and fields.
//! - [`object`] is one stored object with its bytes; [`text`], [`go_json`] and [`go_time`] write as Go does.
//! - [`status`] has the failures, [`user`] the identity of a request.

pub mod cel;
mod cold;
pub mod custom;
pub mod event_type;
pub mod field_path;
pub mod fields;
pub mod go_json;
pub mod go_time;
pub mod key_range;
pub mod kinds;
pub mod label_checks;
pub mod names;
pub mod object;
pub mod qos;
pub mod selector;
pub mod status;
pub mod text;
pub mod user;
