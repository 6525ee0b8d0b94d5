//! The container runtime of a node as a program.

fn main() -> std::process::ExitCode {
    controllers::machine_main_with(std::env::args_os())
}
