//! The `mock-ec2` program.

fn main() -> std::process::ExitCode {
    mock_ec2::main_with(std::env::args_os())
}
