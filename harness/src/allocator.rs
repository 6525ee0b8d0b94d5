//! The allocator of the `mooring` command.
//!
//! A simulation is a single thread that makes and frees millions of small strings, trees and futures. On Linux mimalloc
//! takes the place of `malloc` itself when the program is linked, which is where Rust's own allocator asks for memory:
//! as a global allocator it would be asked to align every block, and most blocks are aligned as they are.

#[cfg(all(feature = "mimalloc", not(target_os = "linux")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Its name. The linker takes mimalloc into a program that asks, as `mooring` and the bench do.
pub fn name() -> &'static str {
    #[cfg(feature = "mimalloc")]
    if mimalloc::MiMalloc.version() > 0 {
        return "mimalloc";
    }
    "the system's"
}
