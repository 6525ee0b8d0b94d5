//! SBOM of a release: a CycloneDX 1.6 document of the crates that the `mooring` program links, from `cargo tree` and
//! `Cargo.lock`, with Rust's standard library and the C library of a static program.
//!
//! The document has no time and no serial number: the same lock file and toolchain give the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// A package at a version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
}

impl Package {
    fn new(name: &str, version: &str) -> Self {
        Self { name: name.to_owned(), version: version.to_owned() }
    }

    /// Returns the package URL, in which a plus sign is encoded.
    fn url(&self, kind: &str) -> String {
        format!("pkg:{kind}/{}@{}", self.name, self.version.replace('+', "%2B"))
    }
}

/// The crates of a program.
#[derive(Debug, Default)]
struct Tree {
    /// Licence of each crate, as it states it.
    licences: BTreeMap<Package, String>,
    /// Direct dependencies of each crate.
    needs: BTreeMap<Package, BTreeSet<Package>>,
}

/// Returns the document for the program built for `target`.
///
/// # Errors
/// If cargo, rustc or ldd fails or prints another form than expected.
pub fn render(repository: &Path, target: &str) -> Result<String, anyhow::Error> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--locked", "--package", "harness", "--target", target, "--prefix", "depth"]);
    tree.args(["--edges", "normal,no-proc-macro", "--format", "|{p}|{l}"]).current_dir(repository);
    let tree = read_tree(&output(&mut tree)?)?;
    let lock = repository.join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).with_context(|| lock.display().to_string())?;
    let mut libraries = vec![(standard_library()?, "MIT OR Apache-2.0")];
    if target.ends_with("-linux-gnu") {
        libraries.push((c_library()?, "LGPL-2.1-or-later"));
    }
    document(&tree, &checksums(&lock), &libraries)
}

/// Returns the output of a command.
fn output(command: &mut Command) -> Result<String, anyhow::Error> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Reads lines such as `1|anyhow v1.0.104|MIT OR Apache-2.0`: the depth, the crate, its licence. A crate that was listed
/// before with its dependencies ends with `(*)`.
fn read_tree(text: &str) -> Result<Tree, anyhow::Error> {
    let mut tree = Tree::default();
    let mut above: Vec<Package> = Vec::new();
    for line in text.lines() {
        let mut parts = line.trim_end_matches("(*)").split('|').map(str::trim);
        let (Some(depth), Some(package), Some(licence)) = (parts.next(), parts.next(), parts.next()) else {
            bail!("cargo tree printed `{line}`");
        };
        let depth: usize = depth.parse().with_context(|| format!("cargo tree printed `{line}`"))?;
        let mut words = package.split(' ');
        let name = words.next().unwrap_or_default();
        let version = words.next().and_then(|word| word.strip_prefix('v'));
        let package = Package::new(name, version.with_context(|| format!("cargo tree printed `{line}`"))?);
        above.truncate(depth);
        if let Some(parent) = above.last() {
            tree.needs.entry(parent.clone()).or_default().insert(package.clone());
        }
        tree.needs.entry(package.clone()).or_default();
        tree.licences.insert(package.clone(), licence.to_owned());
        above.push(package);
    }
    Ok(tree)
}

/// Returns the checksum of each crate of a registry, from the text of a lock file.
fn checksums(lock: &str) -> BTreeMap<Package, String> {
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            let value = |key: &str| {
                let rest = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
                rest.strip_suffix('"')
            };
            Some((Package::new(value("name")?, value("version")?), value("checksum")?.to_owned()))
        })
        .collect()
}

/// Returns the standard library of the toolchain.
fn standard_library() -> Result<Package, anyhow::Error> {
    let about = output(Command::new("rustc").arg("-vV"))?;
    let release = about.lines().find_map(|line| line.strip_prefix("release: "));
    Ok(Package::new("rust-std", release.context("rustc -vV has no release")?))
}

/// Returns the C library of this machine, with the version of its distribution: `ldd (Debian GLIBC 2.36-9+deb12u14) 2.36`.
fn c_library() -> Result<Package, anyhow::Error> {
    let about = output(Command::new("ldd").arg("--version"))?;
    let first = about.lines().next().unwrap_or_default();
    let version = first.split(['(', ')']).nth(1).and_then(|words| words.split(' ').next_back());
    Ok(Package::new("glibc", version.with_context(|| format!("ldd --version printed `{first}`"))?))
}

fn document(
    tree: &Tree,
    checksums: &BTreeMap<Package, String>,
    libraries: &[(Package, &str)],
) -> Result<String, anyhow::Error> {
    let program = tree.needs.keys().find(|package| package.name == "harness");
    let program = program.context("cargo tree does not list harness")?;
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for (package, needs) in &tree.needs {
        let url = package.url("cargo");
        let mut depends_on: Vec<String> = needs.iter().map(|needed| needed.url("cargo")).collect();
        if package == program {
            depends_on.extend(libraries.iter().map(|(library, _)| library.url("generic")));
        } else {
            let licence = tree.licences.get(package).map(String::as_str).unwrap_or_default();
            components.push(component(package, &url, licence, checksums.get(package)));
        }
        dependencies.push(json!({ "ref": url, "dependsOn": depends_on }));
    }
    for (library, licence) in libraries {
        components.push(component(library, &library.url("generic"), licence, None));
    }
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": {
            "type": "application", "bom-ref": program.url("cargo"), "name": "mooring", "version": program.version,
            "licenses": [{ "expression": "Apache-2.0" }], "purl": program.url("cargo"),
        } },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
}

fn component(package: &Package, url: &str, licence: &str, checksum: Option<&String>) -> Value {
    let mut component = json!({
        "type": "library", "bom-ref": url, "name": package.name, "version": package.version, "purl": url,
    });
    if !licence.is_empty() {
        // Before SPDX expressions, crates separated their licences by a slash.
        let licences: Vec<&str> = licence.split('/').map(str::trim).collect();
        component["licenses"] = json!([{ "expression": licences.join(" OR ") }]);
    }
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "\
0|harness v0.2.0 (/mooring/harness)|Apache-2.0
1|a v1.0.0|MIT / Apache-2.0
2|b v2.0.0+spec-1.1.0|MIT
1|b v2.0.0+spec-1.1.0|MIT
1|a v1.0.0|MIT / Apache-2.0 (*)
";
    const LOCK: &str = r#"version = 4

[[package]]
name = "a"
version = "1.0.0"
source = "registry+https://example.com"
checksum = "0a1b"
dependencies = [
 "b",
]

[[package]]
name = "harness"
version = "0.2.0"
"#;

    #[test]
    fn the_document_has_each_crate_once_with_its_licence_hash_and_dependencies() {
        let tree = read_tree(TREE).unwrap();
        let libraries = [(Package::new("glibc", "2.36-9+deb12u14"), "LGPL-2.1-or-later")];
        let text = document(&tree, &checksums(LOCK), &libraries).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["metadata"]["component"]["version"], "0.2.0");
        let names: Vec<&str> =
            document["components"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "b", "glibc"]);
        let a = &document["components"][0];
        assert_eq!(a["licenses"], json!([{ "expression": "MIT OR Apache-2.0" }]));
        assert_eq!(a["hashes"], json!([{ "alg": "SHA-256", "content": "0a1b" }]));
        assert_eq!(document["components"][1]["purl"], "pkg:cargo/b@2.0.0%2Bspec-1.1.0");
        assert_eq!(
            document["dependencies"],
            json!([
                { "ref": "pkg:cargo/a@1.0.0", "dependsOn": ["pkg:cargo/b@2.0.0%2Bspec-1.1.0"] },
                { "ref": "pkg:cargo/b@2.0.0%2Bspec-1.1.0", "dependsOn": [] },
                { "ref": "pkg:cargo/harness@0.2.0", "dependsOn": [
                    "pkg:cargo/a@1.0.0", "pkg:cargo/b@2.0.0%2Bspec-1.1.0", "pkg:generic/glibc@2.36-9%2Bdeb12u14",
                ] },
            ])
        );
    }

    #[test]
    fn a_line_of_another_form_is_an_error_that_shows_it() {
        assert!(read_tree("harness").unwrap_err().to_string().contains("`harness`"));
        assert!(read_tree("0|harness|MIT").unwrap_err().to_string().contains("`0|harness|MIT`"));
    }
}
