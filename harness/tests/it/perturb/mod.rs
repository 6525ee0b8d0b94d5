//! `mooring perturb` as a user runs it: refusals, seeded bugs, Mooring's own loops as programs, bounds.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod bounds;
mod defects;
mod examples;
mod left;
mod loops;
mod real;
mod refused;
mod tools;
