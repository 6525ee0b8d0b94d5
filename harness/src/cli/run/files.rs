//! Finds the scenario files that paths, folders and patterns name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use glob::MatchOptions;
use serde::de::IgnoredAny;
use substrate::WorldKind;

use super::args::Args;
use super::mistakes::Mistakes;
use crate::scenario::model::Scenario;
use crate::scenario::{self, MAX_BYTES, ScenarioError};

/// Maximum depth of nested folders.
const DEPTH: usize = 32;

/// A named file that does not run, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Skipped {
    /// Path of the file.
    pub file: String,
    /// Reason, as the end of a sentence: `it has no steps`.
    pub why: String,
}

/// Files that the paths of a command line name.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Possible scenario files, in order, each once.
    pub found: Vec<PathBuf>,
    /// Messages about paths that do not exist, with a suggestion.
    pub missing: Vec<String>,
}

/// Returns true if `path` is a pattern: there is no such file, and it contains a wildcard character.
pub(super) fn is_pattern(path: &Path) -> bool {
    !path.exists() && path.to_string_lossy().contains(['*', '?', '['])
}

/// Returns true if `path` names one file.
pub(super) fn is_one_file(path: &Path) -> bool {
    !path.is_dir() && !is_pattern(path)
}

/// Finds the files that `paths` name: files themselves, all YAML files in folders, and matches of patterns.
pub(super) fn find(paths: &[PathBuf]) -> Files {
    let mut all = Files::default();
    let mut seen = BTreeSet::new();
    for path in paths {
        let mut found = Vec::new();
        let named = path.display();
        if path.is_dir() {
            walk(path, DEPTH, &mut found);
            if found.is_empty() {
                all.missing.push(format!("{named}: there is no .yaml or .yml file in this folder"));
            }
        } else if is_pattern(path) {
            let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::default() };
            match glob::glob_with(&path.to_string_lossy(), options) {
                Ok(matches) => {
                    for one in matches.flatten() {
                        if one.is_dir() {
                            walk(&one, DEPTH, &mut found);
                        } else if is_yaml(&one) {
                            found.push(one);
                        }
                    }
                    if found.is_empty() {
                        all.missing.push(format!("{named}: no .yaml or .yml file matches this pattern"));
                    }
                }
                Err(error) => all.missing.push(format!("{named}: {} at character {}", error.msg, error.pos + 1)),
            }
        } else if path.exists() {
            found.push(path.clone());
        } else {
            all.missing.push(missing(path));
        }
        // A file with two names runs once.
        all.found.extend(found.into_iter().filter(|f| seen.insert(f.canonicalize().unwrap_or_else(|_| f.clone()))));
    }
    all
}

/// Message for a missing file, with a similar name.
fn missing(path: &Path) -> String {
    let (folder, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let name = name.to_string_lossy();
    let near = entries(here)
        .into_iter()
        .filter(|entry| entry.is_dir() || is_yaml(entry))
        .filter_map(|entry| Some(entry.file_name()?.to_string_lossy().into_owned()))
        .map(|entry| (strsim::jaro_winkler(&name, &entry), entry))
        .filter(|(score, _)| *score >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match near {
        Some((_, near)) => format!("{}: no such file; did you mean {}?", path.display(), folder.join(near).display()),
        None => format!("{}: no such file; give scenario files, folders of them, or a pattern", path.display()),
    }
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "yaml" || e == "yml")
}

/// Entries of a folder sorted by name, without hidden ones.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let hidden = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = all.filter(|e| !hidden(e)).map(|e| e.file_name().into()).collect();
    all.sort();
    all.into_iter().map(|name| if folder == Path::new(".") { name } else { folder.join(name) }).collect()
}

/// Collects all YAML files in `folder` and below, in the order of their paths. Links to folders are not followed.
fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in entries(folder) {
        let folder = entry.symlink_metadata().is_ok_and(|m| m.is_dir());
        if folder && depth > 0 {
            walk(&entry, depth - 1, found);
        } else if !folder && is_yaml(&entry) && entry.is_file() {
            found.push(entry);
        }
    }
}

/// Result of opening a file.
pub(super) enum Opened {
    /// A scenario to run.
    Scenario(Box<Scenario>),
    /// A file that does not run.
    Skipped(Skipped),
    /// A file with these errors.
    Wrong(Vec<ScenarioError>),
}

/// Reads a file for a run in `world`, or in any world. A file that is `meant` (named alone) is read as a scenario in
/// any case.
pub(super) fn open(file: &Path, meant: bool, world: Option<WorldKind>) -> Opened {
    let skipped = |why: String| Opened::Skipped(Skipped { file: file.display().to_string(), why });
    if !meant && is_something_else(file) {
        return skipped("it has no `steps:`, so it is not a scenario".to_owned());
    }
    match scenario::load_all(file) {
        Ok(scenario) => match why_not(&scenario, world) {
            Some(why) => skipped(why),
            None => Opened::Scenario(Box::new(scenario)),
        },
        Err(errors) => Opened::Wrong(errors),
    }
}

/// Scenarios to run, and files that do not run.
pub(super) type Read = (Vec<Scenario>, Vec<Skipped>);

/// Reads all files that the command line names.
pub(super) fn read(args: &Args) -> Result<Read, Mistakes> {
    let found = find(&args.paths);
    let (mut scenarios, mut skipped) = (Vec::new(), Vec::new());
    let mut mistakes = Mistakes { missing: found.missing, in_files: Vec::new() };
    for file in found.found {
        match open(&file, false, Some(args.world())) {
            Opened::Scenario(mut scenario) => {
                if let Some(profile) = args.latency {
                    scenario.latency = profile;
                }
                scenarios.push(*scenario);
            }
            Opened::Skipped(why) => skipped.push(why),
            Opened::Wrong(errors) => mistakes.in_files.extend(errors),
        }
    }
    if mistakes.is_empty() { Ok((scenarios, skipped)) } else { Err(mistakes) }
}

/// Reason why a scenario does not run among several in `world`, if it does not.
fn why_not(scenario: &Scenario, world: Option<WorldKind>) -> Option<String> {
    let world = world.filter(|world| !scenario.runs_in(*world))?;
    if let Some(program) = scenario.programs.first() {
        return Some(format!("it runs the program {}: add --live --allow-exec", program.name));
    }
    let name = |kind: &WorldKind| match kind {
        WorldKind::Simulated => "simulated",
        WorldKind::Live => "live",
    };
    let worlds: Vec<&str> = scenario.worlds.iter().map(name).collect();
    Some(format!("its `worlds:` is [{}], and this run is {}", worlds.join(", "), name(&world)))
}

/// Returns true if a file is not a scenario. Files with errors are left to the scenario parser, which reports them.
fn is_something_else(file: &Path) -> bool {
    let long = std::fs::metadata(file).is_ok_and(|about| about.len() > MAX_BYTES as u64);
    !long && std::fs::read_to_string(file).is_ok_and(|text| has_no_steps(&text))
}

fn has_no_steps(text: &str) -> bool {
    #[derive(Default, serde::Deserialize)]
    struct Head {
        steps: Option<IgnoredAny>,
    }
    match substrate::yaml::from_str::<Head>(text) {
        Ok(head) => head.steps.is_none(),
        // Not YAML, or several documents: a `steps:` line shows that a scenario was meant.
        Err(_) => !text.lines().any(|line| line.starts_with("steps:")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: &[PathBuf], below: &Path) -> Vec<String> {
        found.iter().map(|f| f.strip_prefix(below).unwrap_or(f).display().to_string()).collect()
    }

    #[test]
    fn folders_are_walked_in_order_and_a_file_comes_once() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a/z.yml", "a/y.yaml", "a/notes.md", "c.json", ".git/x.yaml", ".hidden.yaml"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(|p| dir.path().join(p)).collect();
            let files = find(&paths);
            assert_eq!(files.missing, Vec::<String>::new());
            names(&files.found, dir.path())
        };
        assert_eq!(found(&[""]), ["a/y.yaml", "a/z.yml", "b.yaml"]);
        assert_eq!(found(&["b.yaml", ""]), ["b.yaml", "a/y.yaml", "a/z.yml"]);
        assert_eq!(found(&["*.y*ml"]), ["b.yaml"]);
        assert_eq!(found(&["**/*.yml", "[a]"]), ["a/z.yml", "a/y.yaml"]);
        assert_eq!(found(&["c.json"]), ["c.json"], "a file that is named is taken as it is");
    }

    #[test]
    fn a_missing_path_is_reported_with_the_nearest() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("migration.yaml"), "").unwrap();
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        let missing = |name: &str| find(&[dir.path().join(name)]).missing.pop().unwrap();
        assert!(missing("migrtion.yaml").ends_with("/migration.yaml?"), "{}", missing("migrtion.yaml"));
        assert!(missing("empty").contains("no .yaml or .yml file in this folder"));
        assert!(missing("*.yml").contains("matches this pattern"));
        assert!(missing("a[").contains("at character"), "{}", missing("a["));
        assert!(missing("zzz").contains("give scenario files, folders"));
    }

    #[test]
    fn a_file_without_steps_is_no_scenario() {
        assert!(!has_no_steps("name: x\nsteps: []\n"));
        assert!(!has_no_steps("name: x\n\"steps\":\n  - sleep: 1s\n"));
        assert!(has_no_steps("- id: b1\n  steps: no\n"));
        assert!(has_no_steps("kind: A\n---\nkind: B\n"));
        assert!(!has_no_steps("name: [\nsteps:\n"), "its mistake is reported");
    }

    #[test]
    fn a_scenario_for_the_other_world_does_not_run() {
        let why = |worlds: &str, world| {
            let text = format!("name: x\n{worlds}nodes: {{count: 1}}\nsteps:\n  - sleep: 1s\n");
            why_not(&scenario::parse("x.yaml", &text).unwrap(), world).unwrap_or_default()
        };
        let here = Some(WorldKind::Simulated);
        assert_eq!(why("", here), "");
        assert_eq!(why("worlds: [live]\n", here), "its `worlds:` is [live], and this run is simulated");
        assert_eq!(why("worlds: [live, simulated]\n", here), "");
        assert_eq!(why("worlds: [live]\n", Some(WorldKind::Live)), "");
        assert_eq!(why("worlds: [live]\n", None), "", "to read it needs no world");
    }
}
