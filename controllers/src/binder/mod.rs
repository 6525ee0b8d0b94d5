//! The PV binder (`persistentvolume-binder-controller`): binds claims to volumes and sets the phase of both.
//!
//! The rules are in [`claim`] and [`volume`], pure over a [`world::World`]. Each returns one [`step::Step`] with at
//! most one write. `shell` feeds the caches and makes the calls, with one worker for claims and one for volumes, as
//! upstream.

pub mod annotations;
pub mod bind;
pub mod claim;
pub mod matching;
pub mod object;
pub mod quantity;
pub mod selectors;
mod shell;
pub mod step;
mod turns;
pub mod volume;
pub mod world;

pub use shell::run;

#[cfg(test)]
mod tests;
