//! The `fake-apiserver` program for the suites: the same main function, built with this package.

fn main() -> std::process::ExitCode {
    fake_apiserver::main_with(std::env::args_os())
}
