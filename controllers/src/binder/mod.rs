//! The PV binder (`persistentvolume-binder-controller`): binds claims to volumes and sets the phase of both.
//!
//! The rules are in [`claim`] and [`volume`], pure over a [`cache::BinderCache`]. Each returns one [`step::Step`] with at
//! most one write. `async_loop` feeds the caches and makes the calls, with one worker for claims and one for volumes, as
//! upstream.

pub mod annotations;
mod async_loop;
pub mod bind;
pub mod cache;
pub mod claim;
pub mod in_tree;
pub mod matching;
pub mod object;
pub mod quantity;
pub mod selectors;
pub mod step;
mod tally;
mod turns;
pub mod volume;

pub use async_loop::run;

#[cfg(test)]
mod tests;
