//! The program and the workload of a command line, or the reason why one is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::args::Args;
use crate::cli::search::Wrong;
use crate::cli::up::named;
use crate::cluster::{ClusterSpec, names, real};
use crate::perturb::{repeat, workload};
use crate::scenario::{self, Scenario};
use crate::search::document::Document;
use crate::search::tolerance::tolerant;
use crate::spec::ProgramSpec;
use crate::spec::object::check_name;

/// A workload with its programs.
pub(super) struct Given {
    /// The workload with its programs, and with longer time limits.
    pub document: Document,
    /// The scenario of `document`.
    pub scenario: Scenario,
    /// The programs.
    pub programs: Vec<ProgramSpec>,
    /// The file, or the name of the included workload.
    pub source: String,
    /// Changes of the workload, one sentence each.
    pub notes: Vec<String>,
}

/// A mistake, and how to correct it.
pub(super) struct Refused {
    pub wrong: Wrong,
    pub next: Option<String>,
}

fn refused(message: impl Into<String>, next: &str) -> Refused {
    Refused { wrong: Wrong::Line(message.into()), next: Some(next.to_owned()) }
}

impl<T: Into<Wrong>> From<T> for Refused {
    fn from(wrong: T) -> Self {
        Self { wrong: wrong.into(), next: None }
    }
}

/// Reads the files of the command line.
///
/// # Errors
/// A program or a workload is missing or given twice, or a file is wrong.
pub(super) fn read(args: &Args) -> Result<Given, Refused> {
    if let Some(directory) = &args.real_apiserver {
        real::check(directory).map_err(|why| {
            refused(format!("--real-apiserver: {why}"), "setup-envtest downloads both: `setup-envtest use -p path`")
        })?;
    }
    let replaces = controllers::left_out(args.replaces.iter().map(String::as_str));
    let replaces: BTreeSet<String> = replaces.map_err(|why| format!("--replaces {why}"))?.into_iter().collect();
    let (source, text) = match &args.scenario {
        Some(file) => (file.display().to_string(), scenario::text_of(file).map_err(|e| Wrong::File(vec![*e]))?),
        None if args.command.is_empty() => {
            return Err(refused(
                "there is no program: write its command behind --, or a scenario file with `run:` behind --scenario",
                "mooring perturb --replaces csi-attacher -- ./my-attacher --csi-address=$(CSI_ADDRESS)",
            ));
        }
        None => {
            let workload = workload::of(&replaces).ok_or_else(|| {
                let what = "there is no workload for a program that replaces nothing";
                refused(what, "write what its user does into a scenario file, and name it with --scenario FILE")
            })?;
            (format!("scenarios/perturb/{}", workload.name), workload.text.to_owned())
        }
    };
    // Parses the file as it is, for messages with the right positions.
    let written = match &args.scenario {
        Some(file) => scenario::load_all(file),
        None => scenario::parse_all(&source, &text),
    };
    let written = written.map_err(Wrong::File)?;
    let programs = programs(args, &written, replaces)?;
    let tree = Document::of_text(&source, &text)?;
    if written.steps.iter().any(|step| *step.source != *written.source) {
        return Err(
            format!("{source}: `include` cannot be perturbed yet: write the included items into the file").into()
        );
    }
    if !written.faults.is_empty() {
        return Err(format!("{source}: the scenario has faults of its own: perturbations come one at a time").into());
    }
    let (tolerant_tree, left_out) = tolerant(&tree);
    let mut notes = Vec::new();
    if left_out > 0 {
        notes.push(format!("{left_out} demands of the scenario are not made: they count, or look at a moment"));
    }
    let document = repeat::with_programs(&tolerant_tree, &programs);
    let mut scenario = document.scenario(&source).map_err(|e| Wrong::File(vec![*e]))?;
    scenario.programs.clone_from(&programs);
    Ok(Given { document, scenario, programs, source, notes })
}

fn programs(args: &Args, written: &Scenario, replaces: BTreeSet<String>) -> Result<Vec<ProgramSpec>, Refused> {
    let of_file: Vec<String> = written.programs.iter().map(|program| program.name.clone()).collect();
    let source = &written.source;
    match (args.command.first(), of_file.is_empty()) {
        (Some(_), false) => Err(refused(
            format!("{source} runs programs itself ({}), and there is one behind -- too", of_file.join(", ")),
            "leave one of them out",
        )),
        (None, true) => Err(refused(
            format!("there is no program: {source} has no `run:`, and there is no command behind --"),
            "write the program's command behind --",
        )),
        (None, false) if !args.allow_exec => {
            let all: Vec<String> = written.programs.iter().map(|p| format!("{} (`{p}`)", p.name)).collect();
            Err(refused(
                format!("{source} runs programs on this machine: {}", all.join(", ")),
                "read its `run:`, and add --allow-exec if you trust the file",
            ))
        }
        (None, false) if !replaces.is_empty() || args.name.is_some() => {
            Err("--replaces and --name are of a program behind --; a file says these in its `run:`".into())
        }
        (None, false) => Ok(written.programs.clone()),
        (Some(file), true) => one(args, file, written, replaces).map(|program| vec![program]),
    }
}

/// Returns the script that an interpreter runs; the program gets its name.
fn script(command: &[String]) -> Option<&str> {
    let interpreter = Path::new(command.first()?).file_name()?.to_str()?;
    let is_one = ["sh", "bash", "python", "python3", "node", "ruby", "perl", "deno"].contains(&interpreter);
    command.iter().skip(1).find(|word| is_one && !word.starts_with('-')).map(String::as_str)
}

fn one(args: &Args, file: &str, written: &Scenario, replaces: BTreeSet<String>) -> Result<ProgramSpec, Refused> {
    if file.trim().is_empty() {
        return Err("the first word behind -- is the program, and it is empty".into());
    }
    if file.contains('/') && !Path::new(file).exists() {
        return Err(refused(format!("there is no program {file}"), "look for a slip of the pen, or build it first"));
    }
    let file = script(&args.command).unwrap_or(file);
    let known = names::of(&ClusterSpec { without: replaces.clone(), ..ClusterSpec::of_scenario(written) });
    let name = match &args.name {
        Some(name) => name.clone(),
        // Invariants and declared deviations identify a component by its name.
        None if replaces.len() == 1 && !replaces.contains("csi-mock") => replaces.first().cloned().unwrap_or_default(),
        // A sidecar with the same name as Mooring's gets a prefix.
        None if names::is_taken(&known, &named(file)) => format!("my-{}", named(file)),
        None => named(file),
    };
    check_name(&name).map_err(|why| refused(format!("the program's name: {why}"), "name it with --name NAME"))?;
    if names::is_taken(&known, &name) {
        let message = format!("`{name}` is the name of a process of the cluster");
        return Err(refused(message, "name the program with --name NAME"));
    }
    let directory = std::env::current_dir().map_err(|e| format!("the current directory is not known: {e}"))?;
    let command = args.command.clone();
    Ok(ProgramSpec { name, command, env: BTreeMap::new(), replaces, directory, line: 0, column: 0 })
}
