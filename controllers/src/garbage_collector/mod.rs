//! The garbage collector (`garbage-collector-controller`, `pkg/controller/garbagecollector`): deletes objects whose
//! owners are gone, and performs foreground and orphaning deletion.
//!
//! [`graph`] holds the ownership graph, from the metadata of all deletable kinds. [`decide`] decides about one object,
//! given its owners. Both are pure; [`async_loop`] watches, asks and writes.

mod absent;
mod async_loop;
mod decide;
mod discovery;
mod graph;
mod identity;
#[cfg(test)]
mod tests;

pub use async_loop::run;
