//! The `mooring` command for the suites: the same main function, built with this package.

fn main() -> std::process::ExitCode {
    harness::cli::main_with(std::env::args_os())
}
