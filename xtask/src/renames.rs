//! Comparison of two commits as streams of tokens: it proves that a change only renames identifiers and rewrites comments
//! and strings.
//!
//! A file of renames has one rename per line: `Old New` for an identifier, and `old/path.rs new/path.rs` for a file. A
//! line that begins with `#` is a comment. Files without a change of tokens need no line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::Args as ClapArgs;
use proc_macro2::{TokenStream, TokenTree};

/// Arguments of the comparison.
#[derive(ClapArgs)]
pub struct Args {
    /// The commit before the change
    before: String,
    /// The commit after it
    #[arg(default_value = "HEAD")]
    after: String,
    /// The renames, one per line: `Old New`
    #[arg(long, value_name = "PATH")]
    renames: Option<std::path::PathBuf>,
}

/// Renames of identifiers and of files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Renames {
    identifiers: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
}

impl FromStr for Renames {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut renames = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let [old, new] = words[..] else { bail!("line {}: `{line}` is not two words, `Old New`", number + 1) };
            let of = if old.contains('.') || old.contains('/') { &mut renames.files } else { &mut renames.identifiers };
            if of.insert(old.to_owned(), new.to_owned()).is_some() {
                bail!("line {}: `{old}` is renamed twice", number + 1);
            }
        }
        Ok(renames)
    }
}

/// Returns the tokens of a source without comments, documentation and the content of strings.
fn tokens(source: &str, renames: &BTreeMap<String, String>) -> anyhow::Result<Vec<String>> {
    let stream = TokenStream::from_str(source).map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut all = Vec::new();
    flatten(stream, renames, &mut all);
    Ok(all)
}

fn flatten(stream: TokenStream, renames: &BTreeMap<String, String>, all: &mut Vec<String>) {
    for tree in stream {
        match tree {
            TokenTree::Ident(identifier) => {
                let name = identifier.to_string();
                all.push(renames.get(&name).cloned().unwrap_or(name));
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let is_text = text.ends_with('"') || text.ends_with('#');
                all.push(if is_text { "\"\"".to_owned() } else { text });
            }
            TokenTree::Punct(punct) => all.push(punct.as_char().to_string()),
            TokenTree::Group(group) => {
                let mut inner = Vec::new();
                flatten(group.stream(), renames, &mut inner);
                // A doc comment is the attribute `#[doc = "…"]`, or `#![doc = "…"]`.
                if inner.len() == 3 && inner[0] == "doc" && inner[1] == "=" {
                    if all.last().is_some_and(|last| last == "!") {
                        all.pop();
                    }
                    all.pop();
                    continue;
                }
                all.push(format!("{:?}(", group.delimiter()));
                all.append(&mut inner);
                all.push(format!("{:?})", group.delimiter()));
            }
        }
    }
}

/// Returns the first difference of two token streams: the tokens around it on both sides.
fn difference(before: &[String], after: &[String]) -> Option<(String, String)> {
    let at = (0..before.len().max(after.len())).find(|at| before.get(*at) != after.get(*at))?;
    let around =
        |tokens: &[String]| tokens[at.saturating_sub(4).min(tokens.len())..(at + 4).min(tokens.len())].join(" ");
    Some((around(before), around(after)))
}

/// Compares all Rust files of two commits. Returns true if they differ only as allowed, and prints each difference.
///
/// # Errors
/// If git fails, a file is not Rust, or the renames are malformed.
pub fn run(repository: &Path, args: &Args) -> anyhow::Result<bool> {
    let renames = match &args.renames {
        Some(path) => std::fs::read_to_string(path).with_context(|| path.display().to_string())?.parse()?,
        None => Renames::default(),
    };
    let (before, after) = (files(repository, &args.before)?, files(repository, &args.after)?);
    let mut differs = 0_usize;
    let mut left: BTreeSet<&String> = after.iter().collect();
    for path in &before {
        let new = renames.files.get(path).unwrap_or(path);
        if !left.remove(new) {
            println!("{path}: is gone");
            differs += 1;
            continue;
        }
        let (old_text, new_text) = (show(repository, &args.before, path)?, show(repository, &args.after, new)?);
        if old_text == new_text {
            continue;
        }
        let old = tokens(&old_text, &renames.identifiers).with_context(|| path.clone())?;
        let new = tokens(&new_text, &BTreeMap::new()).with_context(|| new.clone())?;
        if let Some((old, new)) = difference(&old, &new) {
            println!("{path}: `{old}` became `{new}`");
            differs += 1;
        }
    }
    for path in left {
        println!("{path}: is new");
        differs += 1;
    }
    println!("{} files compared, {differs} differ", before.len());
    Ok(differs == 0)
}

fn files(repository: &Path, commit: &str) -> anyhow::Result<Vec<String>> {
    let list = git(repository, &["ls-tree", "-r", "--name-only", commit])?;
    Ok(list.lines().filter(|path| path.ends_with(".rs")).map(str::to_owned).collect())
}

fn show(repository: &Path, commit: &str, path: &str) -> anyhow::Result<String> {
    git(repository, &["show", &format!("{commit}:{path}")])
}

fn git(repository: &Path, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").arg("-C").arg(repository).args(args).output().context("git")?;
    if !output.status.success() {
        bail!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("git's output is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differs(before: &str, after: &str, renames: &str) -> Option<(String, String)> {
        let renames: Renames = renames.parse().expect("renames");
        let before = tokens(before, &renames.identifiers).expect("Rust");
        difference(&before, &tokens(after, &BTreeMap::new()).expect("Rust"))
    }

    #[test]
    fn comments_documentation_and_strings_do_not_count() {
        let before = "//! Old.\n/// Does it.\nfn f() { /* x */ g(\"old\", r#\"old\"#, 1) }";
        assert_eq!(differs(before, "//! New.\n//! Two lines.\nfn f() { g(\"new\", \"\", 1) }", ""), None);
    }

    #[test]
    fn a_rename_counts_only_if_it_is_not_listed() {
        assert_eq!(differs("fn f(w: Watchman) {}", "fn f(w: Waiter) {}", "# names\nWatchman Waiter\n"), None);
        let (old, new) = differs("fn f(w: Watchman) {}", "fn f(w: Waiter) {}", "").expect("a difference");
        assert!(old.contains("Watchman") && new.contains("Waiter"), "{old} {new}");
    }

    #[test]
    fn code_counts() {
        for (before, after) in [
            ("fn f() { g(1) }", "fn f() { g(2) }"),
            ("fn f() { g() }", "fn f() { g(); h() }"),
            ("#[derive(Clone)] struct S;", "struct S;"),
            ("fn f() -> bool { a && b }", "fn f() -> bool { a || b }"),
        ] {
            assert!(differs(before, after, "").is_some(), "{before}");
        }
    }

    #[test]
    fn malformed_renames_are_refused() {
        let refuse = |text: &str| text.parse::<Renames>().expect_err("refused").to_string();
        assert_eq!(refuse("one"), "line 1: `one` is not two words, `Old New`");
        assert_eq!(refuse("a b\na c"), "line 2: `a` is renamed twice");
        let renames: Renames = "old/a.rs new/a.rs\nA B".parse().expect("renames");
        assert_eq!((renames.files.len(), renames.identifiers.len()), (1, 1));
    }
}
