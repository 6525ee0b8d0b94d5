//! The node agent as a process of its own.

fn main() -> std::process::ExitCode {
    controllers::node_agent_main_with(std::env::args_os())
}
