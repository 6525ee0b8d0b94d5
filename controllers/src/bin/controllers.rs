//! The control loops as a process of their own.

fn main() -> std::process::ExitCode {
    controllers::main_with(std::env::args_os())
}
