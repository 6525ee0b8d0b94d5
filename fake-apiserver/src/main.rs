//! The `fake-apiserver` binary.

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    fake_apiserver::main_with(std::env::args_os())
}
