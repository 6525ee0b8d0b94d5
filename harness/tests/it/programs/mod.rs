//! Programs of the user next to a cluster, as processes: `run:` in a scenario, `mooring up --run`.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod bounds;
mod halves;
mod refused;
mod runs;
pub mod tools;
