//! The base of every mock: clock, seed streams, ids, link, process, faults as data, trace.
//!
//! This crate knows nothing of volumes, pods or RPCs. A component gets one [`Ctx`] from the world that runs it, and
//! reaches time, randomness, tasks, faults and the trace only through it. That is why the same component runs in
//! virtual time and in the live world.

pub mod admin;
pub mod body;
pub mod channels;
pub mod clock;
pub mod dial;
mod document;
pub mod duplex;
pub mod encode;
pub mod events;
pub mod fabric;
pub mod fault;
pub mod guard;
pub mod host;
pub mod ids;
mod inbox;
pub mod latest;
pub mod link;
pub mod listen;
pub mod memory;
pub mod mutant;
pub mod process;
pub mod ready;
mod rest;
pub mod scale;
mod secret;
pub mod seed;
pub mod trace;
pub mod words;
pub mod world;
pub mod yaml;

pub use body::{Body, BoxError, HttpService};
pub use clock::{Clock, Now};
/// The tree of objects of the API.
pub use json_tree as json;
pub use process::{Ctx, Process};
pub use scale::TimeScale;
pub use seed::Seed;
pub use trace::{Event, EventKind, EventType, Level, Line, Observing, Trace};
pub use world::{World, WorldKind};
