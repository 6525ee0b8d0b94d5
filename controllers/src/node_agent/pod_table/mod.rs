//! The table of the pods that have a worker, and the orders to their workers. All rooms above know pods by this table.
//!
//! Uses no other room.

pub(super) mod orders;
pub(super) mod pods;
