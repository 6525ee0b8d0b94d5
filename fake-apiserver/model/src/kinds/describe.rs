//! Descriptions of types and fields, for `kubectl explain`.
//!
//! They are Kubernetes' own, from the crate k8s-openapi (Apache-2.0, <https://github.com/Arnavion/k8s-openapi>),
//! written by `cargo run -p xtask -- kinds`. Types and fields without a description there have one here. Compressed
//! they take 140 kB of the program; the first OpenAPI document decompresses them.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;

/// Returns the description of a type.
pub fn of_type(of: &str) -> Option<&'static str> {
    field(of, OF_TYPE)
}

/// Returns the description of a field.
pub fn field(of: &str, name: &str) -> Option<&'static str> {
    TEXTS.get(&(of, name)).copied()
}

/// Placeholder for the field in the description of a type.
const OF_TYPE: &str = "-";

/// Kubernetes' descriptions: `type field text`, each ended by a zero byte.
const PACKED: &[u8] = include_bytes!("descriptions.gz");

/// Additional descriptions in the same form, one per line.
const OWN: &str = include_str!("descriptions.txt");

static UNPACKED: LazyLock<String> = LazyLock::new(|| {
    let mut text = String::new();
    // The data decompresses, as a test checks.
    let _ = GzDecoder::new(PACKED).read_to_string(&mut text);
    text
});

static TEXTS: LazyLock<BTreeMap<(&'static str, &'static str), &'static str>> = LazyLock::new(|| {
    let row = |row: &'static str| {
        let (of, rest) = row.split_once(' ')?;
        let (field, text) = rest.split_once(' ')?;
        Some(((of, field), text))
    };
    UNPACKED.split('\0').chain(OWN.lines()).filter_map(row).collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::schema;

    #[test]
    fn every_type_and_every_field_is_described_once() {
        let mut wanted: Vec<(&str, &str)> = Vec::new();
        for of in schema::types() {
            wanted.push((of.name, OF_TYPE));
            wanted.extend(of.fields.iter().map(|field| (of.name, &*field.name)));
        }
        wanted.extend(["intstr", "microtime", "quantity", "time"].map(|word| (word, OF_TYPE)));
        wanted.sort_unstable();
        let found: Vec<(&str, &str)> = TEXTS.keys().copied().collect();
        assert_eq!(found, wanted);
        assert_eq!(UNPACKED.split_terminator('\0').count() + OWN.lines().count(), wanted.len());
        let short: Vec<_> = TEXTS.iter().filter(|(_, text)| text.trim().len() < 3).collect();
        assert!(short.is_empty(), "{short:?}");
    }
}
