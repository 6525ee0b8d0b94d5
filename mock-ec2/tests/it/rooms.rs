//! Dependencies between modules: a lower layer does not import a higher one.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::path::Path;

/// Rules for files by the prefix of their path: names that they must not contain.
const NEVER: &[(&str, &[&str])] = &[
    (
        "cloud",
        &["crate::admin", "crate::ebs", "crate::imds", "crate::service", "crate::serve", "crate::wire", "crate::cli"],
    ),
    ("storage", &["crate::admin", "crate::ebs", "crate::imds", "crate::service", "crate::serve", "crate::wire"]),
    ("state", &["crate::config", "crate::cloud", "crate::wire", "crate::admin", "crate::service", "crate::storage"]),
    ("wire", &["crate::config", "crate::cloud", "crate::admin", "crate::service", "crate::storage"]),
    // Threads that outlive a crash, and queries of the world's kind.
    ("", &["std::thread", "spawn_blocking", "WorldKind"]),
];

/// Collects the text of each source file up to its tests, by its path below `src`.
fn sources(dir: &Path, under: &str, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{under}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            sources(&entry.path(), &format!("{name}/"), found);
        } else {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            found.insert(name, text.split("#[cfg(test)]").next().unwrap().to_owned());
        }
    }
}

#[test]
fn no_room_knows_who_sits_above_it() {
    let mut found = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut found);
    for (room, never) in NEVER {
        let files: Vec<_> = found.iter().filter(|(name, _)| name.starts_with(room)).collect();
        assert!(!files.is_empty(), "{room}: no such file");
        for (name, text) in files {
            for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with("//")) {
                for word in *never {
                    assert!(!line.contains(word), "src/{name}:{number} names {word}: {line}");
                }
            }
        }
    }
}
