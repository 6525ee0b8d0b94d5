//! Which files a run is about: those that paths, folders and patterns name, and that hold a scenario.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use glob::MatchOptions;
use serde::de::IgnoredAny;
use substrate::WorldKind;

use crate::scenario::MAX_BYTES;

/// Folders within folders that are looked into.
const DEPTH: usize = 32;

/// A file that was named and does not run, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Skipped {
    /// The file.
    pub file: String,
    /// Why not, as the end of a sentence: `it has no steps`.
    pub why: String,
}

/// What the paths of a command line come to.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Those that may hold a scenario, in order, each once.
    pub found: Vec<PathBuf>,
    /// Paths that exist no longer, with what to do.
    pub missing: Vec<String>,
}

/// Whether `path` is a pattern: no file has this name, and it has a character of patterns.
pub(super) fn is_pattern(path: &Path) -> bool {
    !path.exists() && path.to_string_lossy().contains(['*', '?', '['])
}

/// Whether `path` names one file, which is taken as it is.
pub(super) fn is_one_file(path: &Path) -> bool {
    !path.is_dir() && !is_pattern(path)
}

/// Looks for the files that `paths` name: files as they are, folders with all YAML files in them, and patterns.
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
        // The same file by two names runs once.
        all.found.extend(found.into_iter().filter(|f| seen.insert(f.canonicalize().unwrap_or_else(|_| f.clone()))));
    }
    all
}

/// Says that there is no such file, and which one may be meant.
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

/// What is in a folder, by name, but for what is hidden.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let hidden = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = all.filter(|e| !hidden(e)).map(|e| e.file_name().into()).collect();
    all.sort();
    all.into_iter().map(|name| if folder == Path::new(".") { name } else { folder.join(name) }).collect()
}

/// All YAML files in `folder` and below, in the order of their paths; links to folders are not followed.
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

/// The keys at the top of a file that say whether it is a scenario for this world.
#[derive(Debug, Default, serde::Deserialize)]
struct Head {
    steps: Option<IgnoredAny>,
    worlds: Option<Vec<String>>,
}

/// Why the file `text` is not run among several in `world`, if there is one; nothing when it is, or when it has a
/// mistake, which whoever reads it as a scenario tells best.
fn why_not(text: &str, world: Option<WorldKind>) -> Option<String> {
    let head = match serde_saphyr::from_str::<Head>(text) {
        Ok(head) => head,
        // No YAML, or several documents: a line tells whether somebody meant a scenario.
        Err(_) if text.lines().any(|line| line.starts_with("steps:")) => return None,
        Err(_) => Head::default(),
    };
    if head.steps.is_none() {
        return Some("it has no `steps:`, so it is no scenario".to_owned());
    }
    let this = match world? {
        WorldKind::Simulated => "simulated",
        WorldKind::Live => "live",
    };
    let worlds = head.worlds.filter(|w| !w.is_empty() && w.iter().all(|w| w == "simulated" || w == "live"))?;
    (!worlds.iter().any(|w| w == this))
        .then(|| format!("its `worlds:` is [{}], and this run is {this}", worlds.join(", ")))
}

/// As [`why_not`], of a file; one that cannot be read is told by whoever reads it as a scenario.
pub(super) fn skip(file: &Path, world: Option<WorldKind>) -> Option<Skipped> {
    let long = std::fs::metadata(file).ok()?.len() > MAX_BYTES as u64;
    let text = if long { return None } else { std::fs::read_to_string(file).ok()? };
    why_not(&text, world).map(|why| Skipped { file: file.display().to_string(), why })
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
    fn a_path_that_names_nothing_is_told_with_the_nearest() {
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
    fn a_file_without_steps_or_for_the_other_world_does_not_run() {
        let why = |text: &str| why_not(text, Some(WorldKind::Simulated)).unwrap_or_default();
        assert_eq!(why("name: x\nsteps: []\n"), "");
        assert_eq!(why("name: x\n\"steps\":\n  - sleep: 1s\n"), "");
        assert!(why("- id: b1\n  steps: no\n").contains("no `steps:`"));
        assert!(why("kind: A\n---\nkind: B\n").contains("no `steps:`"));
        assert_eq!(why("name: [\nsteps:\n"), "", "its mistake is told");
        assert!(why("worlds: [live]\nsteps: []\n").contains("`worlds:` is [live], and this run is simulated"));
        assert_eq!(why("worlds: [live, simulated]\nsteps: []\n"), "");
        assert_eq!(why("worlds: [lively]\nsteps: []\n"), "", "its mistake is told");
        assert_eq!(why_not("worlds: [live]\nsteps: []\n", Some(WorldKind::Live)), None);
        assert_eq!(why_not("worlds: [live]\nsteps: []\n", None), None, "to read it needs no world");
    }
}
