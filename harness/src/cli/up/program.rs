//! The program of `mooring up --run`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Args;
use crate::cli::refusal::{Refusal, lacking, next, usage};
use crate::cluster::{ClusterSpec, names};
use crate::spec::ProgramSpec;
use crate::spec::object::check_name;

/// Program that the command line asks for.
///
/// # Errors
/// If its name is invalid, or it replaces an unknown component.
pub(super) fn of(args: &Args) -> Result<Option<ProgramSpec>, Refusal> {
    let Some(file) = args.command.first().filter(|_| args.run) else { return Ok(None) };
    if file.trim().is_empty() {
        return Err(usage("--run: the first word behind -- is the program, and it is empty"));
    }
    let name = args.run_as.clone().unwrap_or_else(|| named(file));
    check_name(&name).map_err(|why| next(usage(format!("--run: {why}")), "name it with --run-as NAME"))?;
    let replaces = controllers::left_out(args.replaces.iter().map(String::as_str));
    let directory = std::env::current_dir().map_err(|e| lacking(format!("the current directory is not known: {e}")))?;
    Ok(Some(ProgramSpec {
        name,
        command: args.command.clone(),
        env: BTreeMap::new(),
        replaces: replaces.map_err(|why| usage(format!("--replaces {why}")))?.into_iter().collect::<BTreeSet<_>>(),
        directory,
        line: 0,
        column: 0,
    }))
}

/// Adds this program to a cluster.
///
/// # Errors
/// If a process of the cluster has its name.
pub(super) fn added(mut spec: ClusterSpec, program: Option<ProgramSpec>) -> Result<ClusterSpec, Refusal> {
    let Some(program) = program else { return Ok(spec) };
    let known = names::of(&spec);
    if names::is_taken(&known, &program.name) {
        let message = format!("--run: `{}` is the name of a process of the cluster", program.name);
        let can = controllers::can_be_left_out().contains(&program.name.as_str());
        let what = if can { format!("add --replaces {}, or ", program.name) } else { String::new() };
        return Err(next(usage(message), format!("{what}name it with --run-as NAME")));
    }
    spec.programs = vec![program];
    Ok(spec)
}

/// Derives a name from a file: `./bin/My_Attacher.sh` becomes `my-attacher`.
pub(in crate::cli) fn named(file: &str) -> String {
    let stem = Path::new(file).file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    let good = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    stem.chars().map(good).collect::<String>().trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_called_after_its_file() {
        assert_eq!(
            ["./bin/My_Attacher.sh", "csi-attacher", "/x/.y", "--"].map(named),
            ["my-attacher", "csi-attacher", "y", ""]
        );
    }
}
