//! The allocator of the `mooring` command and of the bench: a simulation is a single thread that allocates and frees
//! millions of small strings, trees and futures.

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Name of the allocator.
pub fn name() -> &'static str {
    if cfg!(feature = "mimalloc") { "mimalloc" } else { "the system's" }
}
