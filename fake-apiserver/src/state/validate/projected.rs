//! Volumes of the downward API, and projected volumes (`validateProjectionSources`).

use std::collections::BTreeSet;

use substrate::json::Value;

use super::sources::{items, mode, own_path};
use super::{downward, selector};
use crate::fields::FieldError;
use crate::state::value::{int, list, text};

/// Shortest and longest life of a token in seconds.
const LIFE: std::ops::RangeInclusive<i64> = 600..=1 << 32;
const DUPLICATE: &str = "conflicting duplicate paths";
const KEY_TYPES: &[&str] = &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];

/// Validates a volume of the downward API.
pub(super) fn downward(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    mode(source, "defaultMode", at, errors);
    for file in list(source, &["items"]) {
        self::file(file, at, errors);
    }
}

/// Validates a file of the downward API. Upstream does not tell its position.
fn file(file: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let path = text(file, &["path"]);
    if path.is_empty() {
        errors.push(FieldError::required(format!("{at}.path"), ""));
    }
    own_path(path, &format!("{at}.path"), errors);
    let (field, resource) = (&file["fieldRef"], &file["resourceFieldRef"]);
    if !field.is_null() {
        downward::field(field, downward::OF_VOLUMES, &format!("{at}.fieldRef"), errors);
        if !resource.is_null() {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.push(FieldError::invalid(at, &"resource".into(), why));
        }
    } else if resource.is_null() {
        errors.push(FieldError::required(at, "one of fieldRef and resourceFieldRef is required"));
    } else {
        downward::resource(resource, true, &format!("{at}.resourceFieldRef"), errors);
    }
    mode(file, "mode", at, errors);
}

/// Validates a projected volume.
pub(super) fn projected(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    mode(source, "defaultMode", at, errors);
    let mut paths = Paths { at, taken: BTreeSet::new() };
    for (i, part) in list(source, &["sources"]).iter().enumerate() {
        let place = format!("{at}.sources[{i}]");
        for kind in ["secret", "configMap"] {
            let (of, place) = (&part[kind], format!("{place}.{kind}"));
            if of.is_null() {
                continue;
            }
            let name = text(of, &["name"]);
            if name.is_empty() {
                errors.push(FieldError::required(format!("{place}.name"), ""));
            }
            items(of, &place, errors);
            for item in list(of, &["items"]) {
                paths.take(text(item, &["path"]), name, errors);
            }
        }
        for file in list(&part["downwardAPI"], &["items"]) {
            self::file(file, &format!("{place}.downwardAPI"), errors);
            let path = text(file, &["path"]);
            paths.take(path, path, errors);
        }
        token(&part["serviceAccountToken"], &format!("{place}.serviceAccountToken"), at, errors);
        bundle(&part["clusterTrustBundle"], &format!("{place}.clusterTrustBundle"), &mut paths, errors);
        certificate(&part["podCertificate"], &format!("{place}.podCertificate"), &mut paths, errors);
        if part.as_object().into_iter().flatten().filter(|(_, of)| !of.is_null()).count() > 1 {
            errors.push(FieldError::forbidden(place, "may not specify more than 1 volume type per source"));
        }
    }
}

/// Paths of the files of a projected volume.
struct Paths<'a> {
    /// Path of the volume, which errors about duplicates name.
    at: &'a str,
    taken: BTreeSet<&'a str>,
}

impl<'a> Paths<'a> {
    /// Adds a path; `shown` is the value in the error about a duplicate.
    fn take(&mut self, path: &'a str, shown: &str, errors: &mut Vec<FieldError>) {
        if !path.is_empty() && !self.taken.insert(path) {
            errors.push(FieldError::invalid(self.at, &shown.into(), DUPLICATE));
        }
    }
}

/// Validates a token. Upstream reports its path as one of the volume.
fn token(token: &Value, place: &str, at: &str, errors: &mut Vec<FieldError>) {
    if token.is_null() {
        return;
    }
    let seconds = int(token, &["expirationSeconds"]).unwrap_or(0);
    if !LIFE.contains(&seconds) {
        let short = "may not specify a duration less than 10 minutes";
        let why = if seconds < *LIFE.start() { short } else { "may not specify a duration larger than 2^32 seconds" };
        errors.push(FieldError::invalid(format!("{place}.expirationSeconds"), &seconds.into(), why));
    }
    let path = text(token, &["path"]);
    if path.is_empty() {
        errors.push(FieldError::required(format!("{at}.path"), ""));
    } else {
        own_path(path, &format!("{at}.path"), errors);
    }
}

fn bundle<'a>(bundle: &'a Value, place: &str, paths: &mut Paths<'a>, errors: &mut Vec<FieldError>) {
    if bundle.is_null() {
        return;
    }
    match (bundle["name"].as_str(), bundle["signerName"].as_str()) {
        (Some(_), Some(_)) => {
            errors.push(FieldError::invalid(place, bundle, "only one of name and signerName may be used"));
        }
        (Some(name), None) => {
            if name.is_empty() {
                errors.push(FieldError::required(format!("{place}.name"), "must be a valid object name"));
            }
            if !bundle["labelSelector"].is_null() {
                let why = "labelSelector must be unset if name is specified";
                errors.push(FieldError::invalid(format!("{place}.labelSelector"), &bundle["labelSelector"], why));
            }
        }
        (None, Some(signer)) => {
            if signer.is_empty() {
                errors.push(FieldError::required(format!("{place}.signerName"), "must be a valid signer name"));
            }
            selector::label_selector(&bundle["labelSelector"], &format!("{place}.labelSelector"), errors);
        }
        (None, None) => errors.push(FieldError::required(place, "either name or signerName must be specified")),
    }
    let path = text(bundle, &["path"]);
    if path.is_empty() {
        errors.push(FieldError::required(format!("{place}.path"), ""));
    }
    own_path(path, &format!("{place}.path"), errors);
    paths.take(path, path, errors);
}

fn certificate<'a>(of: &'a Value, place: &str, paths: &mut Paths<'a>, errors: &mut Vec<FieldError>) {
    if of.is_null() {
        return;
    }
    let key = &of["keyType"];
    if !key.as_str().is_some_and(|key| KEY_TYPES.contains(&key)) {
        let key = text(of, &["keyType"]);
        errors.push(FieldError::not_supported(format!("{place}.keyType"), &key.into(), KEY_TYPES));
    }
    if int(of, &["maxExpirationSeconds"]).is_some_and(|seconds| seconds < 3600) {
        let why = "if provided, maxExpirationSeconds must be >= 3600";
        errors.push(FieldError::invalid(format!("{place}.maxExpirationSeconds"), &of["maxExpirationSeconds"], why));
    }
    let fields = ["credentialBundlePath", "keyPath", "certificateChainPath"];
    for field in fields {
        let path = text(of, &[field]);
        if !path.is_empty() {
            own_path(path, &format!("{place}.{field}"), errors);
            paths.take(path, path, errors);
        }
    }
    if fields.iter().all(|field| text(of, &[field]).is_empty()) {
        let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.push(FieldError::required(place, why));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    fn texts(check: impl FnOnce(&mut Vec<FieldError>)) -> Vec<String> {
        let mut errors = Vec::new();
        check(&mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// Cases of upstream's `TestValidateVolumes`.
    #[rstest]
    #[case::conflict(json!([
        {"secret": {"name": "s", "items": [{"key": "a", "path": "p"}]}},
        {"configMap": {"name": "m", "items": [{"key": "a", "path": "p"}]}}]),
        &["v: Invalid value: \"m\": conflicting duplicate paths"])]
    #[case::two_types(json!([{"secret": {"name": "s"}, "configMap": {"name": "m"}}]),
        &["v.sources[0]: Forbidden: may not specify more than 1 volume type per source"])]
    #[case::token(json!([{"serviceAccountToken": {"expirationSeconds": 60, "path": "/a"}}]), &[
        "v.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 \
         minutes", "v.path: Invalid value: \"/a\": must be a relative path"])]
    #[case::bundle(json!([{"clusterTrustBundle": {"path": "p"}}]),
        &["v.sources[0].clusterTrustBundle: Required value: either name or signerName must be specified"])]
    #[case::file(json!([{"downwardAPI": {"items": [{"path": "p"}]}}]),
        &["v.sources[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"])]
    fn sources_are_checked(#[case] sources: Value, #[case] wanted: &[&str]) {
        assert_eq!(texts(|errors| projected(&json!({"sources": sources}), "v", errors)), wanted);
    }

    #[test]
    fn a_file_of_the_downward_api_has_a_mode() {
        let of = json!({"items": [{"path": "p", "mode": 512, "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]});
        let why = "v.mode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive";
        assert_eq!(texts(|errors| downward(&of, "v", errors)), [why]);
    }
}
