//! A cluster of containers, as compose.yaml describes it: what runs in them beside the components, and how it is
//! reached from outside.

pub mod addons;
pub mod health;
pub mod node;
pub mod project;
