//! The `mock-ec2` program as the suites start it: the same main, built with this package.

fn main() -> std::process::ExitCode {
    mock_ec2::main_with(std::env::args_os())
}
