//! The `mock-ec2` program for the suites: the same main function, built with this package.

fn main() -> std::process::ExitCode {
    mock_ec2::main_with(std::env::args_os())
}
