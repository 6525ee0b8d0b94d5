//! The garbage collector (`garbage-collector-controller`, `pkg/controller/garbagecollector`): deletes objects whose
//! owners are gone, and carries out foreground and orphaning deletion.
//!
//! [`graph`] knows who owns whom, from the metadata of all deletable kinds. [`decide`] says what becomes of one object,
//! given its owners. Both are pure; [`shell`] watches, asks and writes.

mod absent;
mod decide;
mod discovery;
mod graph;
mod identity;
mod shell;
#[cfg(test)]
mod tests;

pub use shell::run;
