//! The `mooring` command; everything is in the library.

/// A simulation is a single thread that makes and frees millions of small strings, trees and futures.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    harness::cli::main_with(std::env::args_os())
}
