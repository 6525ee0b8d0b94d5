//! Short descriptions for `kubectl explain`: of every kind, and of the fields that storage turns on.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::Kind;

/// What a kind is, in one sentence that begins with its name; empty for kinds that nothing is said of.
pub fn kind(kind: &Kind) -> &'static str {
    KINDS.lines().find(|line| line.split(' ').next() == Some(kind.kind)).unwrap_or_default()
}

/// A sentence a line.
const KINDS: &str = include_str!("descriptions-of-kinds.txt");

/// What a field is for, when there is something to say.
pub fn field(of: &str, name: &str) -> Option<&'static str> {
    COMMON.iter().find(|(n, _)| *n == name).map(|(_, text)| *text).or_else(|| FIELDS.get(&(of, name)).copied())
}

/// Fields that mean the same wherever they are.
const COMMON: &[(&str, &str)] = &[
    ("apiVersion", "Group and version of the object's type."),
    ("metadata", "Name, namespace, labels and what the server keeps about the object."),
];

/// `Type field text`, a line each.
const TEXT: &str = include_str!("descriptions.txt");

static FIELDS: LazyLock<BTreeMap<(&'static str, &'static str), &'static str>> = LazyLock::new(|| {
    TEXT.lines()
        .filter_map(|line| {
            let (of, rest) = line.split_once(' ')?;
            let (field, text) = rest.split_once(' ')?;
            Some(((of, field), text))
        })
        .collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{self, schema};

    #[test]
    fn every_kind_is_described_and_every_description_has_its_field() {
        for kind in kinds::discoverable() {
            assert!(!super::kind(kind).is_empty(), "{kind:?}");
        }
        assert_eq!(FIELDS.len(), TEXT.lines().count());
        for (of, name) in FIELDS.keys() {
            assert!(schema::find(of).is_some_and(|t| t.field(name).is_some()), "{of} {name}");
        }
    }
}
