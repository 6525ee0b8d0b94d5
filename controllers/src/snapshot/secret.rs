//! Parameters of a class: those of the driver, and the secrets of its calls (`utils.RemovePrefixedParameters`,
//! `GetSecretReference`, `GetCredentials`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, Secret, SecretReference};

use super::group::objects::VolumeGroupSnapshot;
use super::objects::VolumeSnapshot;
use crate::kube::{Client, Kind};
use crate::provisioner::parameters::{ParameterError, check, resolve};

const PREFIX: &str = "csi.storage.k8s.io/";

/// Purpose of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// For CreateSnapshot and DeleteSnapshot.
    Snapshotter,
    /// For ListSnapshots.
    List,
    /// For CreateVolumeGroupSnapshot and DeleteVolumeGroupSnapshot.
    GroupSnapshotter,
    /// For GetVolumeGroupSnapshot.
    GroupSnapshotterGet,
}

impl Purpose {
    /// Returns its name in errors, and the prefix of its keys.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Snapshotter => ("Snapshotter", "snapshotter"),
            Self::List => ("SnapshotterList", "snapshotter-list"),
            Self::GroupSnapshotter => ("GroupSnapshotter", "group-snapshotter"),
            Self::GroupSnapshotterGet => ("GroupSnapshotterGet", "group-snapshotter-get"),
        }
    }
}

/// Secrets that a class may name; including those of groups.
const SECRETS: [&str; 4] = ["snapshotter", "snapshotter-list", "group-snapshotter", "group-snapshotter-get"];

/// Returns the parameters for the driver.
///
/// # Errors
/// If a key with the reserved prefix is unknown.
pub(super) fn for_driver(parameters: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ParameterError> {
    let is_known = |key: &str| {
        let secret = key.strip_suffix("-secret-name").or_else(|| key.strip_suffix("-secret-namespace"));
        secret.is_some_and(|secret| SECRETS.contains(&secret))
    };
    let mut ours = BTreeMap::new();
    for (key, value) in parameters {
        match key.strip_prefix(PREFIX) {
            None => drop(ours.insert(key.clone(), value.clone())),
            Some(rest) if is_known(rest) => {}
            Some(_) => return Err(ParameterError::UnknownKey(key.clone())),
        }
    }
    Ok(ours)
}

/// Adds the names of an object and of its content to the parameters for the driver (`--extra-create-metadata`; the EBS
/// chart sets it). `kind` is `volumesnapshot` or `volumegroupsnapshot`.
pub(super) fn add_names(parameters: &mut BTreeMap<String, String>, kind: &str, of: &ObjectReference, content: &str) {
    let mut add = |key: &str, value: &str| drop(parameters.insert(format!("{PREFIX}{kind}{key}"), value.to_owned()));
    add("/name", of.name.as_deref().unwrap_or_default());
    add("/namespace", of.namespace.as_deref().unwrap_or_default());
    add("content/name", content);
}

/// Returns the secret that a class names for a purpose, with its templates resolved; None if it names none.
///
/// The name may use `${volumesnapshotcontent.name}`, and, if the snapshot is known, `${volumesnapshot.name}` and
/// `${volumesnapshot.namespace}`. The namespace may not use the snapshot's name, which its user chooses.
///
/// # Errors
/// If the templates or their results are invalid.
pub(super) fn reference(
    purpose: Purpose,
    parameters: &BTreeMap<String, String>,
    content: &str,
    snapshot: Option<&VolumeSnapshot>,
) -> Result<Option<SecretReference>, ParameterError> {
    let of = snapshot.map(|snapshot| (snapshot.namespace(), snapshot.name()));
    resolved(purpose, parameters, "volumesnapshot", content, of)
}

/// Returns the secret that a class names for a group (`GetGroupSnapshotSecretReference`), as [`reference`] does:
/// `${volumegroupsnapshotcontent.name}`, `${volumegroupsnapshot.name}` and `${volumegroupsnapshot.namespace}`.
///
/// # Errors
/// If the templates or their results are invalid.
pub(super) fn group_reference(
    purpose: Purpose,
    parameters: &BTreeMap<String, String>,
    content: &str,
    group: Option<&VolumeGroupSnapshot>,
) -> Result<Option<SecretReference>, ParameterError> {
    let of = group.map(|group| (group.namespace(), group.name()));
    resolved(purpose, parameters, "volumegroupsnapshot", content, of)
}

/// Resolves the templates. `kind` begins the names of the tokens; `of` is the namespace and the name of the object.
fn resolved(
    purpose: Purpose,
    parameters: &BTreeMap<String, String>,
    kind: &str,
    content: &str,
    of: Option<(&str, &str)>,
) -> Result<Option<SecretReference>, ParameterError> {
    let (label, prefix) = purpose.names();
    let value = |part: &str| parameters.get(&format!("{PREFIX}{prefix}-{part}")).map(String::as_str);
    let (name, namespace) = match (value("secret-name"), value("secret-namespace")) {
        (None, None) => return Ok(None),
        (Some(""), Some(_)) | (Some(_), Some("")) => return Err(ParameterError::EmptySecret(label)),
        (Some(name), Some(namespace)) => (name, namespace),
        _ => return Err(ParameterError::HalfSecret(label)),
    };
    let mut tokens = BTreeMap::from([(format!("{kind}content.name"), content.to_owned())]);
    if let Some((namespace, _)) = of {
        tokens.insert(format!("{kind}.namespace"), namespace.to_owned());
    }
    let resolved_namespace = resolve(namespace, &tokens)?;
    check(namespace, &resolved_namespace, "namespace name", |part| !part.contains('.'))?;
    if let Some((_, name)) = of {
        tokens.insert(format!("{kind}.name"), name.to_owned());
    }
    let resolved_name = resolve(name, &tokens)?;
    check(name, &resolved_name, "secret name", |_| true)?;
    Ok(Some(SecretReference { name: Some(resolved_name), namespace: Some(resolved_namespace) }))
}

/// Reads a secret.
pub(super) async fn credentials(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<BTreeMap<String, String>, String> {
    let secret = client.namespaced::<Secret>(namespace).get(name).await;
    let secret = secret.map_err(|e| format!("error getting secret {name} in namespace {namespace}: {e}"))?;
    let text = |bytes: &k8s_openapi::ByteString| String::from_utf8_lossy(&bytes.0).into_owned();
    Ok(secret.data.iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect())
}

/// Reads the secret that the annotations of a content name; empty if they name none
/// (`GetCredentialsFromAnnotation`). `of` names the content in errors.
pub(super) async fn annotated(
    client: &Client,
    secret: Option<&str>,
    namespace: Option<&str>,
    of: &str,
) -> Result<BTreeMap<String, String>, String> {
    let (Some(secret), Some(namespace)) = (secret, namespace) else { return Ok(BTreeMap::new()) };
    if secret.is_empty() || namespace.is_empty() {
        return Err(format!("cannot retrieve secrets for {of}, err: secret name or namespace not specified"));
    }
    credentials(client, namespace, secret).await.map_err(|_| format!("cannot get credentials for {of}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{from_value, json};

    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn snapshot() -> VolumeSnapshot {
        from_value(json!({ "metadata": { "name": "s", "namespace": "shop" } })).unwrap()
    }

    #[test]
    fn prefixed_keys_stay_with_the_sidecar() {
        let given = map(&[("tier", "cold"), ("csi.storage.k8s.io/group-snapshotter-get-secret-name", "n")]);
        assert_eq!(for_driver(&given).unwrap(), map(&[("tier", "cold")]));
        let error = for_driver(&map(&[("csi.storage.k8s.io/fstype", "xfs")])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "found unknown parameter key \"csi.storage.k8s.io/fstype\" with reserved namespace csi.storage.k8s.io/"
        );
    }

    #[rstest]
    #[case("${volumesnapshot.name}-${volumesnapshotcontent.name}", "${volumesnapshot.namespace}", Ok(("s-c", "shop")))]
    #[case(
        "key",
        "",
        Err(
            "failed to get name and namespace template from params: Snapshotter secrets specified in parameters but value \
         of either namespace or name is empty"
        )
    )]
    #[case(
        "key",
        "${volumesnapshot.name}",
        Err("error resolving value \"${volumesnapshot.name}\": invalid tokens: [\"volumesnapshot.name\"]")
    )]
    #[case("key", "a.b", Err("\"a.b\" is not a valid namespace name"))]
    #[case("K", "shop", Err("\"K\" is not a valid secret name"))]
    fn templates(#[case] name: &str, #[case] namespace: &str, #[case] expected: Result<(&str, &str), &str>) {
        let given = map(&[
            ("csi.storage.k8s.io/snapshotter-secret-name", name),
            ("csi.storage.k8s.io/snapshotter-secret-namespace", namespace),
        ]);
        let found = reference(Purpose::Snapshotter, &given, "c", Some(&snapshot()));
        let found = found.map(|one| one.and_then(|one| one.name.zip(one.namespace)).unwrap());
        let expected = expected.map(|(name, namespace)| (name.to_owned(), namespace.to_owned()));
        assert_eq!(found.map_err(|e| e.to_string()), expected.map_err(str::to_owned));
        assert_eq!(reference(Purpose::List, &given, "c", None), Ok(None));
    }

    #[test]
    fn a_secret_has_a_name_and_a_namespace() {
        let given = map(&[("csi.storage.k8s.io/snapshotter-list-secret-name", "key")]);
        let error = reference(Purpose::List, &given, "c", None).unwrap_err();
        let start = "failed to get name and namespace template from params: ";
        let why = "either name and namespace for SnapshotterList secrets specified, Both must be specified";
        assert_eq!(error.to_string(), format!("{start}{why}"));
    }

    #[test]
    fn the_secret_of_a_group_has_its_own_keys_and_tokens() {
        let given = map(&[
            ("csi.storage.k8s.io/group-snapshotter-secret-name", "${volumegroupsnapshotcontent.name}-key"),
            ("csi.storage.k8s.io/group-snapshotter-secret-namespace", "${volumegroupsnapshot.namespace}"),
        ]);
        let group: VolumeGroupSnapshot =
            from_value(json!({ "metadata": { "name": "g", "namespace": "shop" } })).unwrap();
        let found = group_reference(Purpose::GroupSnapshotter, &given, "c", Some(&group)).unwrap().unwrap();
        assert_eq!((found.name.as_deref(), found.namespace.as_deref()), (Some("c-key"), Some("shop")));
        assert!(
            group_reference(Purpose::GroupSnapshotter, &given, "c", None).is_err(),
            "the namespace of the group is unknown"
        );
    }
}
