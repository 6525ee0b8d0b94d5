//! The EC2 Query protocol: forms in, XML out. Stateless.

mod attributes;
pub mod auth;
pub mod decode;
pub mod encode;
mod fields;
pub mod foreign;
pub mod form;
mod images;
mod launch;
mod listed;
mod own;
pub mod parameters;
pub mod services;
pub mod signature;
mod tags;
pub(crate) mod user_agent;
pub mod xml;

/// API version that requests name.
pub const VERSION: &str = "2016-11-15";
