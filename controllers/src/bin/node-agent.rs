//! The node agent as a program.

fn main() -> std::process::ExitCode {
    controllers::node_agent_main_with(std::env::args_os())
}
