//! The control loops as a program.

fn main() -> std::process::ExitCode {
    controllers::main_with(std::env::args_os())
}
