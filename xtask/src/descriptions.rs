//! The descriptions of API types and their fields that `kubectl explain` shows: the doc comments of the crate
//! k8s-openapi (Apache-2.0), which come from Kubernetes' OpenAPI document.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

/// The crate, and its module for the API version that Mooring serves.
const CRATE: &str = "k8s-openapi";
const MODULE: &str = "src/v1_36";

/// Descriptions, keyed by a type's public name and a field name; the field name is empty for the type itself.
type Texts = BTreeMap<(String, String), String>;

/// Types that are not structs here: their name in `schema.txt`, and their public name.
const PLAIN: &[(&str, &str)] = &[
    ("intstr", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
    ("microtime", "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"),
    ("quantity", "io.k8s.apimachinery.pkg.api.resource.Quantity"),
    ("time", "io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
];

/// Returns the descriptions of all types of `schema` (the text of `schema.txt`): `type field text`, each ended by a
/// zero byte. `own` (the text of `descriptions.txt`) fills in what the crate does not describe.
///
/// # Errors
/// If neither describes a type or field.
pub fn render(schema: &str, own: &str) -> Result<String, anyhow::Error> {
    let mut texts = Texts::new();
    read_all(&sources()?.join(MODULE), &mut texts)?;
    let own: Vec<(&str, &str)> =
        own.lines().filter_map(|line| line.split_once(' ')).map(|(of, rest)| (of, word(rest))).collect();
    let (mut out, mut of, mut missing) = (String::new(), "", Vec::new());
    for row in schema.lines() {
        let field = match row.strip_prefix('\t') {
            Some(row) => word(row),
            None => {
                of = word(row);
                ""
            }
        };
        let shown = if field.is_empty() { "-" } else { field };
        match texts.get(&(public_name(of), field.to_owned())) {
            Some(text) => out.push_str(&format!("{of} {shown} {text}\0")),
            None if own.contains(&(of, shown)) => {}
            None => missing.push(format!("{of} {shown}")),
        }
    }
    for (word, name) in PLAIN {
        match texts.get(&((*name).to_owned(), String::new())) {
            Some(text) => out.push_str(&format!("{word} - {text}\0")),
            None => missing.push(format!("{word} -")),
        }
    }
    if !missing.is_empty() {
        bail!("{CRATE} says nothing of these; write a line for each into descriptions.txt:\n{}", missing.join("\n"));
    }
    Ok(out)
}

/// Compresses a text with gzip.
pub fn pack(text: &str) -> Result<Vec<u8>, anyhow::Error> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    Ok(encoder.finish()?)
}

/// Decompresses what [`pack`] returned.
pub fn unpack(bytes: &[u8]) -> Result<String, anyhow::Error> {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text)?;
    Ok(text)
}

fn word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// Returns the directory of the crate's sources in cargo's registry.
fn sources() -> Result<PathBuf, anyhow::Error> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--filter-platform", "host-tuple"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let found = metadata["packages"].as_array().into_iter().flatten().find(|package| package["name"] == CRATE);
    let manifest =
        found.and_then(|package| package["manifest_path"].as_str()).with_context(|| format!("no {CRATE}"))?;
    Ok(Path::new(manifest).parent().context("a directory")?.to_owned())
}

fn read_all(dir: &Path, texts: &mut Texts) -> Result<(), anyhow::Error> {
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path, texts)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            read(&std::fs::read_to_string(&path)?, texts).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Reads the schema of one generated file. The indentation of a line shows whether it is about a type or a field.
fn read(source: &str, texts: &mut Texts) -> Result<(), anyhow::Error> {
    let (mut of, mut field) = (None, String::new());
    for line in source.lines() {
        let text = line.trim_start();
        let quoted = |before: &str, after: &str| text.strip_prefix(before)?.strip_suffix(after);
        match line.len() - text.len() {
            8 => {
                if let Some(name) = quoted("\"", "\".into()").filter(|name| name.starts_with("io.k8s.")) {
                    of = Some(name.to_owned());
                }
            }
            12 => {
                if let (Some(of), Some(text)) = (&of, quoted("\"description\": \"", "\",")) {
                    texts.insert((of.clone(), String::new()), unescape(text)?);
                }
            }
            16 => {
                if let Some((name, _)) = text.strip_prefix('"').and_then(|rest| rest.split_once("\": ")) {
                    name.clone_into(&mut field);
                }
            }
            20 => {
                let text = quoted("\"description\": \"", "\",")
                    .or_else(|| quoted("schema_obj.ensure_object().insert(\"description\".into(), \"", "\".into());"));
                if let (Some(of), Some(text)) = (&of, text) {
                    texts.insert((of.clone(), field.clone()), unescape(text)?);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Unescapes a Rust string literal.
fn unescape(literal: &str) -> Result<String, anyhow::Error> {
    let mut text = String::new();
    let mut rest = literal.chars();
    while let Some(c) = rest.next() {
        text.push(match c {
            '\\' => match rest.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(c @ ('"' | '\\' | '\'')) => c,
                other => bail!("unknown escape {other:?}"),
            },
            c => c,
        });
    }
    Ok(text)
}

/// Returns the crate's name of `core/v1.Pod`: `io.k8s.api.core.v1.Pod`.
fn public_name(of: &str) -> String {
    let (package, name) = of.split_once('/').unwrap_or(("", of));
    match package {
        "meta" => format!("io.k8s.apimachinery.pkg.apis.meta.{name}"),
        "apiextensions" => format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{name}"),
        "apiregistration" => format!("io.k8s.kube-aggregator.pkg.apis.apiregistration.{name}"),
        package => format!("io.k8s.api.{package}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_file_gives_its_texts() {
        let source = r#"
        "io.k8s.api.core.v1.Pod".into()
            "description": "A pod.\n\nOf \"containers\".",
            "properties": {
                "metadata": ({
                    schema_obj.ensure_object().insert("description".into(), "Its name.".into());
                "name": {
                    "description": "A name.",
                        "description": "of an element",
"#;
        let mut texts = Texts::new();
        read(source, &mut texts).unwrap();
        let found: Vec<(&str, &str)> = texts.iter().map(|((_, field), text)| (field.as_str(), text.as_str())).collect();
        assert_eq!(found, [("", "A pod.\n\nOf \"containers\"."), ("metadata", "Its name."), ("name", "A name.")]);
    }

    #[test]
    fn packed_text_is_unpacked() {
        assert_eq!(unpack(&pack("a\0b").unwrap()).unwrap(), "a\0b");
    }
}
