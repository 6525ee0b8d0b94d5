//! The descendants of a process, read from `/proc`.

use std::collections::{BTreeMap, BTreeSet};

/// A process: its parent, and true if it is a zombie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct About {
    parent: i32,
    is_over: bool,
}

/// Returns the living descendants of `ancestor`, without itself.
pub(super) fn descendants(ancestor: i32) -> BTreeSet<i32> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // A process that has just ended has no file any more.
        let Ok(text) = std::fs::read(entry.path().join("stat")) else { continue };
        all.extend(about(&String::from_utf8_lossy(&text)).map(|about| (pid, about)));
    }
    below(&all, ancestor)
}

/// Reads `/proc/PID/stat`. The name in it may have spaces and parentheses.
fn about(stat: &str) -> Option<About> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    Some(About { parent, is_over: matches!(state, "Z" | "X" | "x") })
}

fn below(all: &BTreeMap<i32, About>, ancestor: i32) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        for (pid, about) in all.iter().filter(|(_, about)| about.parent == parent) {
            parents.push(*pid);
            if !about.is_over {
                found.insert(*pid);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_and_the_parent_stand_behind_a_name_of_any_kind() {
        let found = about("17 (a) S 1 (b) S 12 17 17 0 -1").unwrap();
        assert_eq!(found, About { parent: 12, is_over: false });
        assert_eq!(about("17 (a b) Z 12 17"), Some(About { parent: 12, is_over: true }));
        assert_eq!(about("17 (a"), None);
    }

    #[test]
    fn children_of_children_are_found_and_others_are_not() {
        let of = |parent, is_over| About { parent, is_over };
        let all = BTreeMap::from([
            (2, of(1, false)),
            (3, of(2, true)),
            (4, of(3, false)),
            (5, of(1, false)),
            (6, of(5, false)),
        ]);
        assert_eq!(below(&all, 2), BTreeSet::from([4]));
        assert_eq!(below(&all, 5), BTreeSet::from([6]));
    }

    #[test]
    fn a_child_of_this_process_is_one() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (own, pid) = (std::process::id() as i32, child.id() as i32);
        assert!(descendants(own).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(own).contains(&pid));
    }
}
