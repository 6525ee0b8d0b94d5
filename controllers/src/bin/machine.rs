//! The container runtime of a node as a process of its own.

fn main() -> std::process::ExitCode {
    controllers::machine_main_with(std::env::args_os())
}
