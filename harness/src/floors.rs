//! Order of the crate's modules. A module imports from its own floor and from those below.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Floors of the top-level modules, lowest first.
const FLOORS: &[(&str, &[&str])] = &[
    ("basics", &["allocator", "block_on", "events", "mutants", "output", "secrets", "seeds", "suggestions", "wiring"]),
    ("descriptions", &["spec"]),
    ("model", &["model"]),
    ("writes", &["writes"]),
    ("scenario", &["scenario"]),
    ("programs", &["program"]),
    ("containers", &["containers"]),
    ("invariants", &["invariants"]),
    ("cluster", &["cluster"]),
    ("run", &["runner"]),
    ("results", &["report", "report_html", "schema", "timeline"]),
    ("search", &["search"]),
    ("users", &["import", "perturb", "testing"]),
    ("program", &["cli"]),
];

/// Modules whose files import nothing that their `mod.rs` defines itself, so that imports go one way.
const FRONT_PAGES: &[&str] =
    &["cli/day", "cli/run", "import", "perturb", "runner", "scenario", "scenario/lower", "testing", "timeline"];

/// Returns the index of the floor of a top-level module.
fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|(_, modules)| modules.contains(&module))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(dir).expect("the sources of the crate").map(|entry| entry.expect("an entry").path());
    let (dirs, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let sources = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    sources.chain(dirs.iter().flat_map(|dir| self::files(dir))).collect()
}

/// Returns the top-level modules that `text` names with `crate::`, also in braces.
fn imports(text: &str) -> BTreeSet<&str> {
    imports_of(text, "crate::")
}

/// Returns the names that follow `root` in `text`, also in braces.
fn imports_of<'t>(text: &'t str, root: &str) -> BTreeSet<&'t str> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(root) {
        if text[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | ':')) {
            continue;
        }
        let rest = &text[at + root.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.insert(first_word(rest));
            continue;
        };
        let mut depth = 0;
        let mut start = true;
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => start = true,
                c if c.is_whitespace() => {}
                _ if start && depth == 0 => {
                    found.insert(first_word(&list[at..]));
                    start = false;
                }
                _ => {}
            }
        }
    }
    found
}

/// Returns the name of the item that a line at the top level of a file defines.
fn item(line: &str) -> Option<&str> {
    if line.starts_with(' ') {
        return None;
    }
    let line = line.strip_prefix("pub").unwrap_or(line);
    let line = line.trim_start_matches("(super)").trim_start_matches("(crate)").trim_start();
    let line = line.strip_prefix("async ").unwrap_or(line);
    let kinds = ["const ", "enum ", "fn ", "static ", "struct ", "trait ", "type "];
    kinds.into_iter().find_map(|kind| line.strip_prefix(kind)).map(first_word)
}

fn first_word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

#[test]
fn no_module_imports_from_a_higher_floor() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut wrong, mut imported, mut seen) = (Vec::new(), 0, BTreeSet::new());
    for file in files(&root) {
        let relative = file.strip_prefix(&root).expect("below the root");
        let first = relative.iter().next().and_then(|part| part.to_str()).expect("a name").trim_end_matches(".rs");
        if matches!(first, "lib" | "main" | "floors") {
            continue;
        }
        let own = floor(first).unwrap_or_else(|| panic!("put the module `{first}` on a floor of {}", file!()));
        seen.insert(first.to_owned());
        let text = std::fs::read_to_string(&file).expect("a source file");
        // Tests may use everything.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(&text);
        if relative.iter().any(|part| part == "tests" || part == "tests.rs") {
            continue;
        }
        for module in imports(code) {
            let Some(of) = floor(module) else { continue };
            imported += 1;
            if of > own {
                let (lower, higher) = (FLOORS[own].0, FLOORS[of].0);
                wrong.push(format!("{} ({lower}) imports {module} ({higher})", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(imported > 100, "{imported} imports are too few: are they found?");
    let known: BTreeSet<String> =
        FLOORS.iter().flat_map(|(_, modules)| modules.iter()).map(|module| (*module).to_owned()).collect();
    assert_eq!(seen, known, "each module of a floor exists");
}

#[test]
fn no_file_imports_what_its_front_page_defines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for page in FRONT_PAGES {
        let dir = root.join(page);
        let front = std::fs::read_to_string(dir.join("mod.rs")).expect("a front page");
        let own: BTreeSet<&str> = front.lines().filter_map(item).collect();
        for file in files(&dir) {
            // Files of deeper modules name their own front page, and tests may use everything.
            if file.parent() != Some(dir.as_path()) || file.ends_with("mod.rs") || file.ends_with("tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&file).expect("a source file");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(&text);
            let names = imports_of(code, "super::");
            wrong.extend(names.intersection(&own).map(|name| format!("{} imports {name}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn items_are_found_by_their_names() {
    let lines = [
        "pub(super) fn read(text: &str) {",
        "const MOST: usize = 5;",
        "pub struct Run<'a> {",
        "    fn inner() {}",
        "use super::x;",
    ];
    assert_eq!(lines.into_iter().filter_map(item).collect::<Vec<_>>(), ["read", "MOST", "Run"]);
}

#[test]
fn imports_are_found_in_braces_too() {
    let text = "use crate::cli; use crate::{a::{b, c}, output::Exit,\n  search};\npub(crate) fn f(x: mycrate::no) { crate::seeds::of(x) }";
    assert_eq!(imports(text).into_iter().collect::<Vec<_>>(), ["a", "cli", "output", "search", "seeds"]);
}
