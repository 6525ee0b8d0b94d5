//! Reads the declarations of Go API types: structs with the tags and markers of their fields, and named types.
//!
//! Not a full Go parser: gofmt puts each field on its own line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;

/// A Go type expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A named type: the import path of its package (empty for the same package) and its name.
    Named(String, String),
    Pointer(Box<Type>),
    List(Box<Type>),
    /// A map: the types of its keys and values.
    Map(Box<Type>, Box<Type>),
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// True for an embedded struct.
    pub embedded: bool,
    pub of: Type,
    /// Struct tags: `json`, `protobuf`, `patchStrategy`, `patchMergeKey`.
    pub tags: BTreeMap<String, String>,
    /// `+name` and `+name=value` markers of the comment above.
    pub markers: Vec<(String, String)>,
}

/// The declarations of a package.
#[derive(Debug, Default)]
pub struct Package {
    pub structs: BTreeMap<String, Vec<Field>>,
    /// Structs that are one value (`+structType=atomic` in the comment above).
    pub atomic: BTreeSet<String>,
    pub named: BTreeMap<String, Type>,
    /// String types with a fixed set of values (`+enum` in the comment above).
    pub enums: BTreeSet<String>,
    /// The constants of each named type.
    pub constants: BTreeMap<String, BTreeSet<String>>,
}

impl Package {
    /// Reads the hand-written sources of a package.
    pub fn read(dir: &Path) -> Result<Self, anyhow::Error> {
        let mut package = Self::default();
        let mut files: Vec<_> =
            std::fs::read_dir(dir).with_context(|| dir.display().to_string())?.collect::<Result<_, _>>()?;
        files.sort_by_key(std::fs::DirEntry::file_name);
        for file in files {
            let name = file.file_name().to_string_lossy().into_owned();
            let generated = name.starts_with("zz_") || name.starts_with("generated") || name.contains("_generated");
            if name.ends_with(".go") && !name.ends_with("_test.go") && !generated {
                let text = std::fs::read_to_string(file.path())?;
                package.source(&text).with_context(|| file.path().display().to_string())?;
            }
        }
        Ok(package)
    }

    fn source(&mut self, text: &str) -> Result<(), anyhow::Error> {
        let imports = imports(text);
        let mut current: Option<(String, Vec<Field>)> = None;
        let mut markers = Vec::new();
        let mut commented = false;
        for line in text.lines() {
            let trimmed = line.trim();
            if commented || trimmed.starts_with("/*") {
                commented = !trimmed.ends_with("*/");
                continue;
            }
            if let Some((name, fields)) = &mut current {
                if line == "}" {
                    self.structs.insert(std::mem::take(name), std::mem::take(fields));
                    current = None;
                    markers.clear();
                } else if let Some(comment) = trimmed.strip_prefix("//") {
                    markers.extend(marker(comment));
                } else if !trimmed.is_empty() {
                    fields.extend(field(trimmed, &imports, std::mem::take(&mut markers))?);
                }
                continue;
            }
            if let Some(comment) = trimmed.strip_prefix("//") {
                markers.extend(marker(comment));
                continue;
            }
            let above = std::mem::take(&mut markers);
            let Some(rest) = line.strip_prefix("type ") else {
                if let Some((of, value)) = constant(trimmed) {
                    self.constants.entry(of).or_default().insert(value);
                }
                continue;
            };
            let Some((name, of)) = rest.split_once(' ') else { continue };
            if above.iter().any(|(name, _)| name == "enum") {
                self.enums.insert(name.to_owned());
            }
            if above.iter().any(|(name, value)| name == "structType" && value == "atomic") {
                self.atomic.insert(name.to_owned());
            }
            if of == "struct {" {
                current = Some((name.to_owned(), Vec::new()));
            } else if of.starts_with("struct{") {
                self.structs.insert(name.to_owned(), Vec::new());
            } else if let Ok(of) = parse(of.trim_start_matches("= ").split(" //").next().unwrap_or(of).trim(), &imports)
            {
                self.named.insert(name.to_owned(), of);
            }
        }
        Ok(())
    }
}

/// Returns the type and value of a constant of a named type: `PullAlways PullPolicy = "Always"`, or with a conversion.
fn constant(line: &str) -> Option<(String, String)> {
    let (declared, value) = line.strip_prefix("const ").unwrap_or(line).split_once(" = ")?;
    let words: Vec<&str> = declared.split_whitespace().collect();
    let (of, quoted) = match words[..] {
        [_, of] => (of, value),
        [_] => value.strip_suffix(')')?.split_once('(')?,
        _ => return None,
    };
    let text = quoted.strip_prefix('"')?.split('"').next()?;
    Some((of.to_owned(), text.to_owned()))
}

/// Returns a file's imports, by the package name that it uses.
fn imports(text: &str) -> BTreeMap<String, String> {
    let block = text.split_once("import (").and_then(|(_, rest)| rest.split_once("\n)")).map_or("", |(block, _)| block);
    let single = text.lines().filter_map(|line| line.strip_prefix("import ")).filter(|line| *line != "(");
    let mut imports = BTreeMap::new();
    for line in block.lines().map(str::trim).chain(single) {
        let mut parts = line.split('"');
        let (alias, Some(path)) = (parts.next().unwrap_or_default().trim(), parts.next()) else { continue };
        let name = if alias.is_empty() { path.rsplit('/').next().unwrap_or(path) } else { alias };
        imports.insert(name.to_owned(), path.to_owned());
    }
    imports
}

fn marker(comment: &str) -> Option<(String, String)> {
    let text = comment.trim().strip_prefix('+')?;
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    Some((name.to_owned(), value.to_owned()))
}

fn field(
    line: &str,
    imports: &BTreeMap<String, String>,
    markers: Vec<(String, String)>,
) -> Result<Option<Field>, anyhow::Error> {
    let (declared, tags) = match line.split_once('`') {
        Some((declared, rest)) => (declared.trim(), tag_map(rest.split('`').next().unwrap_or_default())),
        None => (line.split("//").next().unwrap_or_default().trim(), BTreeMap::new()),
    };
    let words: Vec<&str> = declared.split_whitespace().collect();
    let (embedded, of) = match words[..] {
        [] => return Ok(None),
        [of] => (true, of.to_owned()),
        [_, ref of @ ..] => (false, of.join(" ")),
    };
    Ok(Some(Field { embedded, of: parse(&of, imports)?, tags, markers }))
}

fn tag_map(text: &str) -> BTreeMap<String, String> {
    let mut tags = BTreeMap::new();
    let mut rest = text.trim();
    while let Some((key, after)) = rest.split_once(":\"") {
        let Some((value, after)) = after.split_once('"') else { break };
        tags.insert(key.trim().to_owned(), value.to_owned());
        rest = after;
    }
    tags
}

fn parse(text: &str, imports: &BTreeMap<String, String>) -> Result<Type, anyhow::Error> {
    if let Some(of) = text.strip_prefix('*') {
        return Ok(Type::Pointer(Box::new(parse(of, imports)?)));
    }
    if let Some(of) = text.strip_prefix("[]") {
        return Ok(Type::List(Box::new(parse(of, imports)?)));
    }
    if let Some(rest) = text.strip_prefix("map[") {
        let (keys, values) = rest.split_once(']').with_context(|| format!("not a map: {text}"))?;
        return Ok(Type::Map(Box::new(parse(keys, imports)?), Box::new(parse(values, imports)?)));
    }
    match text.split_once('.') {
        Some((package, name)) => {
            let path = imports.get(package).map_or(package, String::as_str);
            Ok(Type::Named(path.to_owned(), name.to_owned()))
        }
        // Interfaces and functions are not API types: looking one up finds no struct of that name.
        None => Ok(Type::Named(String::new(), text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_a_type_are_its_values() {
        let source = "// A policy.\n// +enum\ntype Policy string\n\nconst (\n\t// Never.\n\tNever Policy = \"Never\" // no\n\
                      \tUnset Policy = \"\"\n\tOther = Policy(\"Other\")\n\tPlain = \"x\"\n)\n";
        let mut package = Package::default();
        package.source(source).unwrap();
        assert!(package.enums.contains("Policy"));
        assert_eq!(package.constants["Policy"].iter().collect::<Vec<_>>(), ["", "Never", "Other"]);
        assert_eq!(package.constants.len(), 1);
    }

    #[test]
    fn a_struct_is_one_value_where_the_comment_above_says_so() {
        let source = "// A reference.\n// +structType=atomic\ntype Reference struct {\n\tName string `json:\"name\"`\n}\n\n\
                      // +structType=atomic\n\ntype Other struct {\n\t// +optional\n\tName string `json:\"name\"`\n}\n";
        let mut package = Package::default();
        package.source(source).unwrap();
        assert_eq!(
            (package.atomic.into_iter().collect::<Vec<_>>(), package.structs.len()),
            (vec!["Reference".to_owned()], 2)
        );
    }
}
