//! The `fake-apiserver` program as the suites start it: the same main, built with this package.

fn main() -> std::process::ExitCode {
    fake_apiserver::main_with(std::env::args_os())
}
