//! A Kubernetes API server for storage: discovery, CRUD, list, watch and patches over one in-memory store.

pub mod kinds;
pub mod patch;
pub mod wire;
