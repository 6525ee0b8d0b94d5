//! Parameters of a class: split between sidecar and driver, and the secrets that they name (external-provisioner
//! `removePrefixedParameters`, `getSecretReference`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, SecretReference};

/// Prefix of the parameters for sidecars.
const PREFIX: &str = "csi.storage.k8s.io/";
const FS_TYPE: &str = "fstype";
const NAME: &str = "secret-name";
const NAMESPACE: &str = "secret-namespace";

/// Purpose of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Secret {
    /// For CreateVolume and DeleteVolume.
    Provisioner,
    /// For ControllerPublishVolume.
    ControllerPublish,
    /// For NodeStageVolume.
    NodeStage,
    /// For NodePublishVolume.
    NodePublish,
    /// For ControllerExpandVolume.
    ControllerExpand,
    /// For NodeExpandVolume.
    NodeExpand,
    /// For ControllerModifyVolume.
    ControllerModify,
    /// For all purposes without their own secret.
    Default,
}

impl Secret {
    const ALL: [Self; 8] = [
        Self::Provisioner,
        Self::ControllerPublish,
        Self::NodeStage,
        Self::NodePublish,
        Self::ControllerExpand,
        Self::NodeExpand,
        Self::ControllerModify,
        Self::Default,
    ];

    /// Returns the name in errors, the prefix of keys, and the deprecated prefix, if any.
    fn names(self) -> (&'static str, &'static str, Option<&'static str>) {
        match self {
            Self::Provisioner => ("Provisioner", "provisioner-", Some("csiProvisioner")),
            Self::ControllerPublish => ("ControllerPublish", "controller-publish-", Some("csiControllerPublish")),
            Self::NodeStage => ("NodeStage", "node-stage-", Some("csiNodeStage")),
            Self::NodePublish => ("NodePublish", "node-publish-", Some("csiNodePublish")),
            Self::ControllerExpand => ("ControllerExpand", "controller-expand-", None),
            Self::NodeExpand => ("NodeExpand", "node-expand-", None),
            Self::ControllerModify => ("ControllerModify", "controller-modify-", None),
            Self::Default => ("Default", "", None),
        }
    }

    /// Returns the rest of `key` after the prefix of this secret.
    fn part(self, key: &str) -> Option<&str> {
        let (_, prefix, _) = self.names();
        key.strip_prefix(PREFIX)?.strip_prefix(prefix)
    }
}

/// Error in a class's parameters.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum ParameterError {
    /// found unknown parameter key "{0}" with reserved namespace csi.storage.k8s.io/
    UnknownKey(String),
    /// fstype specified in parameters with both "fstype" and "csi.storage.k8s.io/fstype" keys
    TwoFsTypes,
    /// failed to get name and namespace template from params: {0} secrets specified in parameters with both "csi" and "csi.storage.k8s.io/" keys
    TwoSecrets(&'static str),
    /// failed to get name and namespace template from params: either name and namespace for {0} secrets specified, Both must be specified
    HalfSecret(&'static str),
    /// failed to get name and namespace template from params: {0} secrets specified in parameters but value of either namespace or name is empty
    EmptySecret(&'static str),
    /// error resolving value {0:?}: invalid tokens: {1:?}
    InvalidTokens(String, Vec<String>),
    /// {0:?} is not a valid {1}
    Invalid(String, &'static str),
    /// {0:?} resolved to {1:?} which is not a valid {2}
    InvalidResolved(String, String, &'static str),
}

/// Returns the parameters for the driver.
///
/// # Errors
/// If a key with the reserved prefix is unknown.
pub fn for_driver(parameters: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ParameterError> {
    let known = |key: &str| {
        key.strip_prefix(PREFIX) == Some(FS_TYPE)
            || Secret::ALL.iter().any(|secret| secret.part(key).is_some_and(|part| part == NAME || part == NAMESPACE))
    };
    let mut ours = BTreeMap::new();
    for (key, value) in parameters {
        if !key.starts_with(PREFIX) {
            ours.insert(key.clone(), value.clone());
        } else if !known(key) {
            return Err(ParameterError::UnknownKey(key.clone()));
        }
    }
    Ok(ours)
}

/// Returns the filesystem type of the class, or an empty string.
///
/// # Errors
/// If it is given twice.
pub fn fs_type(parameters: &BTreeMap<String, String>) -> Result<&str, ParameterError> {
    let is = |key: &str| key.eq_ignore_ascii_case(FS_TYPE) || key.strip_prefix(PREFIX) == Some(FS_TYPE);
    let mut found = parameters.iter().filter(|(key, _)| is(key));
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(ParameterError::TwoFsTypes),
        (Some((_, value)), None) => Ok(value),
        (None, None) => Ok(""),
    }
}

/// Returns the secret that a class names for a purpose, with its templates resolved; None if it names none.
///
/// The name may use `${pv.name}`, `${pvc.name}`, `${pvc.namespace}` and `${pvc.annotations['k']}`. The namespace may
/// use only values that a claim's owner does not control: `${pv.name}` and `${pvc.namespace}`.
///
/// # Errors
/// If the templates or their results are invalid.
pub fn secret(
    purpose: Secret,
    parameters: &BTreeMap<String, String>,
    volume: &str,
    claim: &PersistentVolumeClaim,
) -> Result<Option<SecretReference>, ParameterError> {
    let Some((name, namespace)) =
        templates(purpose, parameters)?.map_or_else(|| templates(Secret::Default, parameters), |own| Ok(Some(own)))?
    else {
        return Ok(None);
    };
    let claim_namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let mut tokens = BTreeMap::from([
        ("pv.name".to_owned(), volume.to_owned()),
        ("pvc.namespace".to_owned(), claim_namespace.to_owned()),
    ]);
    let resolved_namespace = resolve(namespace, &tokens)?;
    check(namespace, &resolved_namespace, "namespace name", |part| !part.contains('.'))?;
    tokens.insert("pvc.name".to_owned(), claim.metadata.name.clone().unwrap_or_default());
    for (key, value) in claim.metadata.annotations.iter().flatten() {
        tokens.insert(format!("pvc.annotations['{key}']"), value.clone());
    }
    let resolved_name = resolve(name, &tokens)?;
    check(name, &resolved_name, "secret name", |_| true)?;
    Ok(Some(SecretReference { name: Some(resolved_name), namespace: Some(resolved_namespace) }))
}

fn templates(purpose: Secret, parameters: &BTreeMap<String, String>) -> Result<Option<(&str, &str)>, ParameterError> {
    let (label, _, deprecated) = purpose.names();
    let value = |is: &dyn Fn(&str) -> bool| parameters.iter().find(|(key, _)| is(key)).map(|(_, value)| value.as_str());
    let find = |part: &str, suffix: &str| {
        let new = value(&|key| purpose.part(key) == Some(part));
        let old = deprecated.and_then(|prefix| value(&|key| key.strip_prefix(prefix) == Some(suffix)));
        match (new, old) {
            (Some(_), Some(_)) => Err(ParameterError::TwoSecrets(label)),
            (new, old) => Ok(new.or(old)),
        }
    };
    match (find(NAME, "SecretName")?, find(NAMESPACE, "SecretNamespace")?) {
        (None, None) => Ok(None),
        (Some(""), Some(_)) | (Some(_), Some("")) => Err(ParameterError::EmptySecret(label)),
        (Some(name), Some(namespace)) => Ok(Some((name, namespace))),
        _ => Err(ParameterError::HalfSecret(label)),
    }
}

/// Resolves the `${token}`s of a template.
///
/// # Errors
/// If a token is unknown.
pub(crate) fn resolve(template: &str, tokens: &BTreeMap<String, String>) -> Result<String, ParameterError> {
    let mut resolved = String::new();
    let mut unknown = Vec::new();
    let mut rest = template;
    while let Some(start) = rest.find("${") {
        resolved.push_str(&rest[..start]);
        let after = &rest[start + 2..];
        let Some(end) = after.find('}') else {
            unknown.push(after.to_owned());
            rest = "";
            break;
        };
        match tokens.get(&after[..end]) {
            Some(value) => resolved.push_str(value),
            None => unknown.push(after[..end].to_owned()),
        }
        rest = &after[end + 1..];
    }
    resolved.push_str(rest);
    unknown.sort();
    if unknown.is_empty() { Ok(resolved) } else { Err(ParameterError::InvalidTokens(template.to_owned(), unknown)) }
}

/// Checks a DNS-1123 name: labels of lower-case letters, digits and inner dashes.
///
/// # Errors
/// If `resolved` is none. `what` is `secret name` or `namespace name`; `shape` checks the whole name.
pub(crate) fn check(
    template: &str,
    resolved: &str,
    what: &'static str,
    shape: impl Fn(&str) -> bool,
) -> Result<(), ParameterError> {
    let label = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let limit = if what == "secret name" { 253 } else { 63 };
    if resolved.len() <= limit && shape(resolved) && resolved.split('.').all(label) {
        return Ok(());
    }
    Err(if template == resolved {
        ParameterError::Invalid(template.to_owned(), what)
    } else {
        ParameterError::InvalidResolved(template.to_owned(), resolved.to_owned(), what)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn claim() -> PersistentVolumeClaim {
        substrate::json::from_value(json!({
            "metadata": { "name": "data", "namespace": "shop", "annotations": { "team": "blue" } },
        }))
        .unwrap()
    }

    #[test]
    fn prefixed_keys_stay_with_the_sidecar() {
        let given = map(&[("type", "gp3"), ("csi.storage.k8s.io/fstype", "xfs")]);
        assert_eq!(for_driver(&given).unwrap(), map(&[("type", "gp3")]));
        let error = for_driver(&map(&[("csi.storage.k8s.io/colour", "red")])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "found unknown parameter key \"csi.storage.k8s.io/colour\" with reserved namespace csi.storage.k8s.io/"
        );
    }

    #[rstest]
    #[case(&[], Ok(""))]
    #[case(&[("fsType", "xfs")], Ok("xfs"))]
    #[case(&[("csi.storage.k8s.io/fstype", "ext4")], Ok("ext4"))]
    #[case(&[("fstype", "xfs"), ("csi.storage.k8s.io/fstype", "ext4")], Err(ParameterError::TwoFsTypes))]
    fn filesystems(#[case] given: &[(&str, &str)], #[case] expected: Result<&str, ParameterError>) {
        assert_eq!(fs_type(&map(given)), expected);
    }

    const NAME: &str = "csi.storage.k8s.io/provisioner-secret-name";
    const NAMESPACE: &str = "csi.storage.k8s.io/provisioner-secret-namespace";

    #[rstest]
    #[case(&[], Ok(None))]
    #[case(&[(NAME, "s-${pvc.annotations['team']}"), (NAMESPACE, "${pvc.namespace}")], Ok(Some(("s-blue", "shop"))))]
    #[case(&[("csi.storage.k8s.io/secret-name", "${pv.name}"), ("csi.storage.k8s.io/secret-namespace", "kube-system")],
        Ok(Some(("pvc-1", "kube-system"))))]
    #[case(&[(NAME, "s")], Err(ParameterError::HalfSecret("Provisioner")))]
    #[case(&[(NAME, ""), (NAMESPACE, "x")], Err(ParameterError::EmptySecret("Provisioner")))]
    #[case(&[(NAME, "s"), (NAMESPACE, "x"), ("csiProvisionerSecretName", "t")],
        Err(ParameterError::TwoSecrets("Provisioner")))]
    #[case(&[(NAME, "s"), (NAMESPACE, "${pvc.name}")],
        Err(ParameterError::InvalidTokens("${pvc.name}".to_owned(), vec!["pvc.name".to_owned()])))]
    #[case(&[(NAME, "S"), (NAMESPACE, "x")], Err(ParameterError::Invalid("S".to_owned(), "secret name")))]
    fn secrets(#[case] given: &[(&str, &str)], #[case] expected: Result<Option<(&str, &str)>, ParameterError>) {
        let got = secret(Secret::Provisioner, &map(given), "pvc-1", &claim());
        let expected = expected.map(|found| {
            found.map(|(name, namespace)| SecretReference {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
            })
        });
        assert_eq!(got, expected);
    }
}
