//! Overlapping files of one volume (`warningsForOverlappingVirtualPaths`).

use std::fmt;

use substrate::json::Value;

use crate::state::value::{list, text};

/// Path of a file, with its source in a projected volume.
#[derive(Clone, PartialEq, Eq)]
struct VolumePath {
    path: String,
    source: String,
}

impl fmt::Display for VolumePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.path)?;
        if self.source.is_empty() { Ok(()) } else { write!(f, " ({})", self.source) }
    }
}

impl VolumePath {
    fn new(path: &str, source: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    fn collides(&self, other: &Self) -> bool {
        let within = |a: &str, b: &str| format!("{a}/").starts_with(&format!("{b}/"));
        !self.path.is_empty()
            && !other.path.is_empty()
            && (within(&self.path, &other.path) || within(&other.path, &self.path))
    }
}

pub(super) fn overlaps(volumes: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for volume in volumes {
        let name = text(volume, &["name"]);
        for (source, named) in [("configMap", "name"), ("secret", "secretName"), ("downwardAPI", "")] {
            let Some(of) = volume.get(source) else { continue };
            let described = describe(source, text(of, &[named]));
            warn(name, &described, items(of, ""), &mut found);
        }
        let mut all = Vec::new();
        for source in list(volume, &["projected", "sources"]) {
            if source.as_object().is_none_or(|fields| fields.is_empty()) {
                found.push(format!("volume \"{name}\" (Projected) has no sources provided"));
            }
            all.extend(projected(source));
        }
        warn(name, "Projected", all, &mut found);
    }
    found
}

fn describe(source: &str, name: &str) -> String {
    match source {
        "configMap" => format!("ConfigMap \"{name}\""),
        "secret" => format!("Secret \"{name}\""),
        _ => "DownwardAPI".to_owned(),
    }
}

fn items(of: &Value, source: &str) -> Vec<VolumePath> {
    list(of, &["items"]).iter().map(|item| VolumePath::new(text(item, &["path"]), source)).collect()
}

fn projected(source: &Value) -> Vec<VolumePath> {
    for kind in ["configMap", "secret", "downwardAPI"] {
        let of = &source[kind];
        if !list(of, &["items"]).is_empty() {
            return items(of, &describe(kind, text(of, &["name"])));
        }
    }
    let one = |field: &str, path: &str, owner: &str| {
        let path = text(source, &[field, path]);
        (!path.is_empty()).then(|| VolumePath::new(path, owner))
    };
    let bundle = &source["clusterTrustBundle"];
    let bundle = [text(bundle, &["name"]), text(bundle, &["signerName"])].into_iter().find(|name| !name.is_empty());
    [
        one("serviceAccountToken", "path", "ServiceAccountToken"),
        one("clusterTrustBundle", "path", &format!("ClusterTrustBundle \"{}\"", bundle.unwrap_or_default())),
        one("podCertificate", "certificateChainPath", "PodCertificate chain"),
        one("podCertificate", "keyPath", "PodCertificate key"),
        one("podCertificate", "credentialBundlePath", "PodCertificate credential bundle"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn warn(volume: &str, described: &str, volume_paths: Vec<VolumePath>, found: &mut Vec<String>) {
    for (i, volume_path) in volume_paths.iter().enumerate() {
        for other in volume_paths[..i].iter().filter(|other| volume_path.collides(other)) {
            found.push(format!("volume \"{volume}\" ({described}): overlapping paths: {volume_path} with {other}"));
        }
    }
}
