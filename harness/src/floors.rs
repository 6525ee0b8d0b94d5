//! Order of the crate's modules. A module imports from its own floor and from those below.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Floors of the top-level modules, lowest first.
const FLOORS: &[(&str, &[&str])] = &[
    ("basics", &["allocator", "block_on", "events", "mutants", "output", "secrets", "seeds", "suggestions", "wiring"]),
    ("descriptions", &["spec"]),
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
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        if text[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$')) {
            continue;
        }
        let rest = &text[at + "crate::".len()..];
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
fn imports_are_found_in_braces_too() {
    let text = "use crate::cli; use crate::{a::{b, c}, output::Exit,\n  search};\npub(crate) fn f(x: mycrate::no) { crate::seeds::of(x) }";
    assert_eq!(imports(text).into_iter().collect::<Vec<_>>(), ["a", "cli", "output", "search", "seeds"]);
}
