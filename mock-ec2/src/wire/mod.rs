//! The EC2 Query protocol: forms in, XML out. No state in here.

pub mod auth;
pub mod decode;
pub mod encode;
pub mod form;
pub mod signature;
pub mod xml;
