//! Programs of the user's beside a cluster, as real processes: `run:` in a scenario, `mooring up --run`.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod bounds;
mod halves;
mod refused;
mod stories;
mod tools;
