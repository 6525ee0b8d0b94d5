//! The `mooring` command; everything is in the library.

fn main() -> std::process::ExitCode {
    harness::cli::main_with(std::env::args_os())
}
