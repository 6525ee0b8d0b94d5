//! The binary as a process, over real sockets.

#![cfg(test)]

mod binary;
mod kubectl;
mod support;
