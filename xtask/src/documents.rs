//! Checks of the documentation: links and their sections, the table of contents of the book, and the files and tests that
//! pages and comments name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Paths in the repository, from its root and with slashes.
struct Tree {
    root: PathBuf,
    files: BTreeSet<String>,
    folders: BTreeSet<String>,
}

impl Tree {
    /// Reads the names of the working tree, without build output.
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
        let mut tree = Self { root, files: BTreeSet::new(), folders: BTreeSet::new() };
        let mut rest = vec![String::new()];
        while let Some(folder) = rest.pop() {
            for entry in fs::read_dir(tree.root.join(&folder)).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                if !entry.file_type().unwrap().is_dir() {
                    tree.files.insert(path);
                } else if !matches!(&*name, ".git" | "target") {
                    tree.folders.insert(path.clone());
                    rest.push(path);
                }
            }
        }
        tree
    }

    fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty() || self.files.contains(path) || self.folders.contains(path)
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.root.join(path)).unwrap()).into_owned()
    }

    /// Returns the files with an extension.
    fn ending<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = &'a str> {
        self.files.iter().map(String::as_str).filter(move |path| path.ends_with(extension))
    }

    /// Returns a quoted path if it is one of this repository: it begins with a folder of the root, and has no `NAME`, which
    /// stands for any name.
    fn own_path<'a>(&self, quoted: &'a str) -> Option<&'a str> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
        let (first, _) = quoted.split_once('/')?;
        (quoted.chars().all(plain) && self.folders.contains(first) && !quoted.contains("NAME")).then_some(quoted)
    }
}

/// Returns the lines of a page outside its fenced blocks, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((at + 1, line));
        }
    }
    lines
}

/// Returns the quoted parts of a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the targets of a line's links.
fn links(line: &str) -> Vec<String> {
    let plain: String = line.split('`').step_by(2).collect();
    plain.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()).map(str::to_owned).collect()
}

/// Returns the path from the root that a link of a page has.
fn resolve(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the anchors of a page's headings, as forges and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).into_iter().filter(|(_, line)| line.starts_with('#'));
    let anchor = |c: char| match c {
        ' ' => Some('-'),
        c => (c.is_alphanumeric() || matches!(c, '-' | '_')).then_some(c),
    };
    headings
        .map(|(_, line)| line.trim_start_matches('#').trim().to_lowercase().chars().filter_map(anchor).collect())
        .collect()
}

#[test]
fn each_link_of_a_page_has_its_file_and_its_section() {
    let tree = Tree::read();
    let texts: BTreeMap<&str, String> = tree.ending(".md").map(|page| (page, tree.text(page))).collect();
    let sections: BTreeMap<&str, BTreeSet<String>> = texts.iter().map(|(page, text)| (*page, anchors(text))).collect();
    let mut wrong = Vec::new();
    for (page, text) in &texts {
        for (number, line) in prose(text) {
            for link in links(line).into_iter().filter(|link| !link.contains("://")) {
                let (path, section) = link.split_once('#').unwrap_or((link.as_str(), ""));
                let to = if path.is_empty() { (*page).to_owned() } else { resolve(page, path) };
                let found = tree.has(&to)
                    && (section.is_empty() || sections.get(&*to).is_some_and(|there| there.contains(section)));
                if !found {
                    wrong.push(format!("{page}:{number}: {link}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "links to files or sections that do not exist: {wrong:#?}");
}

#[test]
fn each_page_of_docs_is_once_in_the_table_of_contents_and_in_its_readme() {
    const CONTENTS: &str = "docs/SUMMARY.md";
    let tree = Tree::read();
    let listed = |page: &str| -> Vec<String> {
        let text = tree.text(page);
        prose(&text).into_iter().flat_map(|(_, line)| links(line)).map(|link| resolve(page, &link)).collect()
    };
    let contents = listed(CONTENTS);
    let unique: BTreeSet<&String> = contents.iter().collect();
    assert_eq!(unique.len(), contents.len(), "a page is listed twice: {contents:?}");
    let readme = listed("docs/README.md");
    for page in tree.ending(".md").filter(|page| page.starts_with("docs/") && *page != CONTENTS) {
        assert!(contents.iter().any(|listed| listed == page), "{CONTENTS} does not list {page}");
        let known = page == "docs/README.md" || readme.iter().any(|listed| listed == page);
        assert!(known, "docs/README.md does not list {page}");
    }
}

#[test]
fn files_of_the_repository_that_pages_and_comments_name_exist() {
    let tree = Tree::read();
    let mut wrong = Vec::new();
    let mut look = |file: &str, number: usize, line: &str| {
        let own = quoted(line).filter_map(|quoted| tree.own_path(quoted));
        wrong.extend(own.filter(|path| !tree.has(path)).map(|path| format!("{file}:{number}: {path}")));
    };
    // The changelog names files of its time.
    for page in tree.ending(".md").filter(|page| *page != "CHANGELOG.md") {
        let text = tree.text(page);
        prose(&text).into_iter().for_each(|(number, line)| look(page, number, line));
    }
    for (extension, mark) in [(".rs", "//"), (".yaml", "#"), (".toml", "#")] {
        for file in tree.ending(extension) {
            let text = tree.text(file);
            let comments = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with(mark));
            comments.for_each(|(at, line)| look(file, at + 1, line));
        }
    }
    assert!(wrong.is_empty(), "files that do not exist: {wrong:#?}");
}

#[test]
fn doc_comments_link_to_items_or_addresses_only() {
    let tree = Tree::read();
    let mut wrong = Vec::new();
    for file in tree.ending(".rs") {
        let text = tree.text(file);
        let comments = text.lines().enumerate().filter_map(|(at, line)| {
            let line = line.trim_start();
            Some((at, line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))?))
        });
        for (at, line) in comments {
            // rustdoc has no page for a file.
            let files = links(line).into_iter().filter(|link| !link.contains("://") && link.contains(['/', '.']));
            wrong.extend(files.map(|link| format!("{file}:{}: {link}", at + 1)));
        }
    }
    assert!(wrong.is_empty(), "name the file in backticks instead: {wrong:#?}");
}

#[test]
fn tests_that_docs_fidelity_names_exist() {
    let tree = Tree::read();
    let mut wrong = Vec::new();
    let page = tree.text("docs/fidelity.md");
    for (number, line) in prose(&page).into_iter().filter(|(_, line)| line.starts_with('|')) {
        let last = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let mut file = String::new();
        for name in quoted(last) {
            let found = if name.ends_with(".rs") || name.ends_with(".yaml") {
                // As the page says of files without a folder.
                file = if name.contains('/') { name.to_owned() } else { format!("mock-ec2/tests/it/{name}") };
                tree.has(&file)
            } else {
                tree.files.contains(&file) && tree.text(&file).contains(&format!("fn {name}("))
            };
            if !found {
                wrong.push(format!("docs/fidelity.md:{number}: {name}"));
            }
        }
        let says = last.contains('`') || matches!(last.trim(), "no test" | "Test" | "---");
        assert!(says, "docs/fidelity.md:{number}: the last column is a test, or `no test`");
    }
    assert!(wrong.is_empty(), "tests that do not exist: {wrong:#?}");
}

#[test]
fn the_cookbook_lists_each_incident() {
    let tree = Tree::read();
    let page = tree.text("docs/breaking.md");
    let name = |path: &str| path.strip_prefix("scenarios/incidents/")?.strip_suffix(".yaml").map(str::to_owned);
    let incidents: Vec<String> = tree.ending(".yaml").filter_map(name).collect();
    assert!(incidents.len() > 20, "{incidents:?}");
    let missing: Vec<&String> = incidents.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/breaking.md does not list {missing:?}");
}

#[test]
fn long_names_in_pages_are_names_of_the_sources() {
    let tree = Tree::read();
    let mut rest = BTreeMap::new();
    for page in tree.ending(".md").filter(|page| *page != "CHANGELOG.md") {
        for (number, line) in prose(&tree.text(page)) {
            // Names of tests and metrics are as long; those of a few words are upstream's, too.
            let is_long = |name: &&str| {
                name.matches('_').count() > 2 && name.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'))
            };
            rest.extend(quoted(line).filter(is_long).map(|name| (name.to_owned(), format!("{page}:{number}"))));
        }
    }
    for file in [".rs", ".py", ".go"].into_iter().flat_map(|extension| tree.ending(extension)) {
        let text = tree.text(file);
        let words: BTreeSet<&str> = text.split(|c: char| c != '_' && !c.is_alphanumeric()).collect();
        rest.retain(|name, _| !words.contains(name.as_str()));
    }
    assert!(rest.is_empty(), "names that no source has: {rest:#?}");
}

#[test]
fn commands_of_pages_name_programs_of_tests_that_exist() {
    let tree = Tree::read();
    let mut seen = 0;
    for page in tree.ending(".md").filter(|page| *page != "CHANGELOG.md") {
        for line in tree.text(page).lines() {
            let words: Vec<&str> = line.split([' ', '`']).collect();
            let mut package = "";
            for pair in words.windows(2) {
                match pair {
                    ["-p", name] => package = *name,
                    ["--test", test] if tree.folders.contains(package) => {
                        let path = format!("{package}/tests/{test}");
                        assert!(tree.has(&path) || tree.has(&format!("{path}.rs")), "{page}: {line}");
                        seen += 1;
                    }
                    _ => {}
                }
            }
        }
    }
    assert!(seen > 5, "only {seen} commands");
}

#[test]
fn the_list_of_bugs_has_each_declared_one() {
    let tree = Tree::read();
    let page = tree.text("BUGS.md");
    let declared = tree.text("scenarios/upstream-bugs.yaml");
    let ids = declared.lines().filter_map(|line| line.strip_prefix("  - id: "));
    let missing: Vec<&str> = ids.filter(|id| !page.contains(&format!("`{id}`"))).collect();
    assert!(missing.is_empty(), "BUGS.md does not describe {missing:?}");
    let found = tree.ending(".yaml").filter_map(|file| file.strip_prefix("scenarios/found/"));
    let missing: Vec<&str> = found.filter(|file| !page.contains(file)).collect();
    assert!(missing.is_empty(), "BUGS.md does not name {missing:?}");
}
