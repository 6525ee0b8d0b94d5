//! Order of the rooms of the node agent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Rooms, lowest first, each with the rooms that its files may import. All of these are lower.
const ROOMS: &[(&str, &[&str])] = &[
    ("volume_manager", &[]),
    ("node", &["volume_manager"]),
    ("plugins", &["volume_manager", "node"]),
    ("pod_table", &[]),
    ("admission", &["volume_manager", "node", "plugins", "pod_table"]),
    ("volumes", &["volume_manager", "plugins", "pod_table"]),
    ("rules", &["pod_table"]),
    ("programs", &["volume_manager", "node", "volumes", "rules"]),
    ("containers", &["pod_table", "rules", "programs"]),
    ("status", &["node", "pod_table", "rules"]),
    ("pods", &["pod_table", "admission", "volumes", "rules", "programs", "containers", "status"]),
    ("server", &["volume_manager", "plugins", "pod_table", "volumes", "status"]),
];

/// Files beside the rooms that join them. Only they may import all rooms.
const FRONT: &[&str] = &["mod.rs", "contexts.rs"];

/// Returns the names that follow `prefix` in `code`.
fn names<'t>(code: &'t str, prefix: &str) -> BTreeSet<&'t str> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let is_whole = !code[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | ':'));
        let rest = &code[at + prefix.len()..];
        if is_whole && !rest.starts_with("super::") {
            found.insert(&rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())]);
        }
    }
    found
}

/// Returns a file without its comments and its tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a source file");
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(&text);
    code.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut sources: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect();
    sources.retain(|path| !path.ends_with("tests.rs") && !path.ends_with("rooms.rs"));
    sources
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/node_agent")
}

/// Returns the names of the files beside the rooms, which every room may import.
fn shared() -> BTreeSet<String> {
    let names = sources(&root()).into_iter().filter_map(|path| path.file_stem()?.to_str().map(str::to_owned));
    names.collect()
}

#[test]
fn no_room_imports_from_a_higher_room() {
    let (shared, mut wrong, mut used) = (shared(), Vec::new(), BTreeSet::new());
    for (room, may_use) in ROOMS {
        for file in sources(&root().join(room)) {
            let text = code(&file);
            let mut imported = names(&text, "crate::node_agent::");
            imported.extend(names(&text, if file.ends_with("mod.rs") { "super::" } else { "super::super::" }));
            for name in imported.into_iter().filter(|name| name != room && !shared.contains(*name)) {
                if !may_use.contains(&name) {
                    wrong.push(format!("{} imports {name:?}", file.display()));
                }
                used.insert((*room, name.to_owned()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let may = ROOMS.iter().flat_map(|(room, all)| all.iter().map(|used| (*room, (*used).to_owned())));
    assert_eq!(used, may.collect(), "each room uses those that it may use");
}

#[test]
fn a_room_may_use_lower_rooms_only() {
    for (at, (room, may_use)) in ROOMS.iter().enumerate() {
        let lower: Vec<&str> = ROOMS[..at].iter().map(|(room, _)| *room).collect();
        assert!(may_use.iter().all(|used| lower.contains(used)), "{room}: {may_use:?}");
    }
    let dirs = std::fs::read_dir(root()).expect("a directory").map(|entry| entry.expect("an entry"));
    let dirs = dirs.filter(|entry| entry.path().is_dir()).filter_map(|entry| entry.file_name().into_string().ok());
    let dirs: BTreeSet<String> = dirs.filter(|name| name != "tests").collect();
    assert_eq!(dirs, ROOMS.iter().map(|(room, _)| (*room).to_owned()).collect(), "each directory is a room");
}

#[test]
fn the_files_beside_the_rooms_import_no_room() {
    let mut wrong = Vec::new();
    for file in sources(&root()).into_iter().filter(|file| !FRONT.iter().any(|front| file.ends_with(front))) {
        let text = code(&file);
        let imported = names(&text, "super::").into_iter().chain(names(&text, "crate::node_agent::"));
        let rooms = imported.filter(|name| ROOMS.iter().any(|(room, _)| room == name));
        wrong.extend(rooms.map(|room| format!("{} imports {room}", file.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_room_hands_the_context_of_another_room_on_and_reads_no_field_of_it() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in ROOMS.iter().flat_map(|(room, _)| sources(&root().join(room))) {
        for part in code(&file).split("_room").skip(1) {
            let field = part.trim_start().strip_prefix('.').map(str::trim_start);
            seen += 1;
            if field.is_some_and(|field| !field.starts_with("clone()")) {
                wrong.push(format!("{}: {}", file.display(), part.lines().next().unwrap_or_default()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 20, "{seen} contexts of other rooms are too few: are they found?");
}

#[test]
fn imports_are_found_by_their_first_name() {
    let text = "use crate::node_agent::a::b;\nlet x = super::super::c::d(my_crate::node_agent::no);";
    assert_eq!(names(text, "crate::node_agent::"), BTreeSet::from(["a"]));
    assert_eq!(names(text, "super::super::"), BTreeSet::from(["c"]));
}
