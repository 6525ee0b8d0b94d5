//! The `mooring` command as the suites start it: the same main, built with this package.

fn main() -> std::process::ExitCode {
    harness::cli::main_with(std::env::args_os())
}
