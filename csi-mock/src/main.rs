//! The `csi-mock` program.

fn main() -> std::process::ExitCode {
    csi_mock::main_with(std::env::args_os())
}
