//! The `fake-apiserver` binary.

fn main() -> std::process::ExitCode {
    fake_apiserver::main_with(std::env::args_os())
}
