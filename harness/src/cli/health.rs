//! `mooring health`: whether components answer.

use std::process::ExitCode;

use crate::cluster::compose::health;
use crate::output::Exit;

/// Arguments of `mooring health`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Who is asked: http://HOST:PORT/PATH, unix:///PATH of a driver, or /PATH of a ready file.
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
}

pub(super) fn main(args: &Args) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("error: the runtime does not start: {e}");
            return Exit::Environment.into();
        }
    };
    let mut exit = Exit::Passed;
    for target in &args.targets {
        if let Err(why) = crate::block_on(&runtime, Box::pin(health::check(target))) {
            eprintln!("error: {why}");
            exit = Exit::Failed;
        }
    }
    exit.into()
}
