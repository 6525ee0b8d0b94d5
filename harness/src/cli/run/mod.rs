//! `mooring run`: runs one or many scenarios and reports the results.
//!
//! `one` runs a file with one seed and prints its timeline. `batch` runs several files or seeds (`pool` runs
//! simulations on threads, `children` live runs one after another). `check` only reads the files, `needed` removes
//! parts of them. `play` holds the shared code.

mod args;
mod batch;
mod check;
mod children;
mod compose;
mod figures;
mod files;
mod keep;
mod lacking;
mod mistakes;
mod needed;
mod one;
mod page;
mod play;
mod pool;
mod programs;
mod report;
mod watchdog;

use std::process::ExitCode;

use crate::mutants;
use crate::output::{self, Envelope, Exit, Failure, Format, Style};

use play::is_stdout;

pub(super) use args::Args;

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    let usage = |message: String| {
        let failure = Failure::new("usage", message);
        output::finish(format, &Envelope::failed("run", Exit::Usage, failure), "", Style::stderr()).into()
    };
    if args.check {
        return check::main(args, format);
    }
    let seeds = args.all_seeds();
    let one = match (&args.paths[..], seeds.all()) {
        ([path], [seed]) if files::is_one_file(path) => Some(*seed),
        _ => None,
    };
    if args.keep && one.is_none() {
        return usage("--keep: one cluster can stay up, so name one file".to_owned());
    }
    if args.target.is_some() && one.is_none() {
        return usage("--target: one run at a time is in a cluster, so name one file".to_owned());
    }
    if args.report.is_some() && one.is_none() {
        return usage("--report: a report is about one run, so name one file".to_owned());
    }
    if args.logs.is_some() && one.is_none() {
        return usage("--logs: a folder holds the output of one run, so name one file".to_owned());
    }
    if let Err(message) = mutants::check(&args.mutant) {
        return usage(message);
    }
    if args.trace.as_deref().is_some_and(is_stdout) {
        if one.is_none() {
            return usage("--trace -: several runs have a trace each, so name a folder".to_owned());
        }
        if format == Format::Json {
            return usage("--trace -: the result goes to standard output, so name a file".to_owned());
        }
    }
    if args.needed {
        return needed::main(args, format);
    }
    match one {
        Some(seed) => one::main(args, seed, format),
        None => batch::main(args, format),
    }
}
