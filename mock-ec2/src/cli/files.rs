//! Files named by flags.

use std::path::Path;

use serde::Deserialize;
use substrate::host::Failure;

use crate::config::{InstanceSpec, LatencyProfile};
use crate::state::latency::LatencyFile;

/// Largest seed file.
const SEED_FILE_LIMIT: u64 = 1 << 20;

/// Returns the profile `text`, or the content of the file of that name.
pub(super) fn latency(text: &str) -> Result<LatencyFile, Failure> {
    let error = match text.parse::<LatencyProfile>() {
        Ok(base) => return Ok(LatencyFile { base, rules: Vec::new() }),
        Err(error) => error,
    };
    let path = Path::new(text);
    if !path.is_file() {
        return Err(Failure::usage(format!("--latency: {error}, or the path of a file")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| Failure::environment(format!("--latency: {e}")))?;
    LatencyFile::parse(&text).map_err(|reason| Failure::usage(format!("--latency {}: {reason}", path.display())))
}

/// Seed file: a list, or a map with a list called `instances`.
#[derive(Deserialize)]
#[serde(untagged)]
enum SeedFile {
    List(Vec<InstanceSpec>),
    Map(SeedMap),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedMap {
    instances: Vec<InstanceSpec>,
}

pub(super) fn instances(path: &Path) -> Result<Vec<InstanceSpec>, Failure> {
    let named = |reason: String| format!("--instances {}: {reason}", path.display());
    let missing = |error: std::io::Error| Failure::environment(named(error.to_string()));
    let length = std::fs::metadata(path).map_err(missing)?.len();
    if length > SEED_FILE_LIMIT {
        return Err(Failure::usage(named(format!("has {length} bytes, at most {SEED_FILE_LIMIT} are read"))));
    }
    let text = std::fs::read_to_string(path).map_err(missing)?;
    parse_instances(&text).map_err(|reason| Failure::usage(named(reason)))
}

fn parse_instances(text: &str) -> Result<Vec<InstanceSpec>, String> {
    // The error of the first shape, so that it is about the field instead of both shapes.
    let list = substrate::yaml::from_str::<Vec<InstanceSpec>>(text);
    match substrate::yaml::from_str::<SeedFile>(text) {
        Ok(SeedFile::List(list) | SeedFile::Map(SeedMap { instances: list })) => Ok(list),
        Err(_) => match (list, substrate::yaml::from_str::<SeedMap>(text)) {
            (Err(error), _) if text.trim_start().starts_with(['-', '[']) => Err(error.to_string()),
            (_, Err(error)) => Err(error.to_string()),
            (_, Ok(map)) => Ok(map.instances),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_of_a_seed_file_are_read_and_errors_name_the_field() {
        let list = parse_instances("- {name: a, zone: us-east-1a}").unwrap();
        let map = parse_instances(r#"{"instances": [{"name": "a", "zone": "us-east-1a"}]}"#).unwrap();
        assert_eq!(list, map);
        for text in ["- {name: a, zone: z, colour: red}", "instances: [{name: a, zone: z, colour: red}]"] {
            let error = parse_instances(text).unwrap_err();
            assert!(error.contains("colour"), "{error}");
        }
    }
}
