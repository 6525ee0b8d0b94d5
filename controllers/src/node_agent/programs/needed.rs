//! ConfigMaps and Secrets without which the containers of a pod do not start (upstream `kubelet_pods.go`
//! makeEnvironmentVariables, `pkg/volume/configmap`, `secret` and `projected`). A modelled pod reads none of them, but it
//! waits for them like a real one.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Container, KeyToPath, Pod, Secret, Volume};

use super::context::ProgramContext;
use super::references::existing;
use super::unprepared::Unprepared;

/// Kind of a needed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ConfigMap,
    Secret,
}

/// Need of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Need {
    kind: Kind,
    name: String,
    /// Keys that it must have.
    keys: Vec<String>,
    of: Of,
}

/// Part of a pod that needs an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    Volume(String),
    /// A variable of a container.
    Container(String),
}

/// Keys of the objects that exist.
type Found = BTreeMap<(Kind, String), BTreeSet<String>>;

/// Checks that a pod finds what it needs. Returns the containers that lack something, each with the reason.
///
/// # Errors
/// The first object or key that a volume lacks, or an object that cannot be read.
pub(super) async fn check(room: &ProgramContext, pod: &Pod) -> Result<BTreeMap<String, String>, Unprepared> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let (needs, mut found) = (needs(pod, !substrate::mutant!(room.ctx, "init-env-not-awaited")), Found::new());
    for Need { kind, name, .. } in &needs {
        let id = (*kind, name.clone());
        if found.contains_key(&id) {
            continue;
        }
        let keys: Option<BTreeSet<String>> = match kind {
            Kind::ConfigMap => existing(room.client.namespaced::<ConfigMap>(namespace).get(name).await)?.map(|map| {
                let text = map.data.iter().flatten().map(|(key, _)| key.clone());
                text.chain(map.binary_data.iter().flatten().map(|(key, _)| key.clone())).collect()
            }),
            Kind::Secret => existing(room.client.namespaced::<Secret>(namespace).get(name).await)?
                .map(|secret| secret.data.iter().flatten().map(|(key, _)| key.clone()).collect()),
        };
        found.extend(keys.map(|keys| (id, keys)));
    }
    checked(&needs, &found)
}

fn checked(needs: &[Need], found: &Found) -> Result<BTreeMap<String, String>, Unprepared> {
    let mut lacking = BTreeMap::new();
    for (need, why) in needs.iter().filter_map(|need| Some((need, need.lacks(found)?))) {
        match &need.of {
            Of::Volume(volume) => return Err(Unprepared::volume(volume, why)),
            Of::Container(container) => {
                lacking.entry(container.clone()).or_insert(why);
            }
        }
    }
    Ok(lacking)
}

impl Need {
    /// Returns the reason why the need is not met.
    fn lacks(&self, found: &Found) -> Option<String> {
        let Self { kind, name, keys, of } = self;
        let (object, word) = match kind {
            Kind::ConfigMap => ("configmap", "ConfigMap"),
            Kind::Secret => ("secret", "Secret"),
        };
        let Some(has) = found.get(&(*kind, name.clone())) else { return Some(format!("{object} {name:?} not found")) };
        let key = keys.iter().find(|key| !has.contains(*key))?;
        Some(match of {
            Of::Volume(_) => {
                let of = if *kind == Kind::Secret { "secret" } else { "config" };
                format!("references non-existent {of} key: {key}")
            }
            Of::Container(_) => format!("couldn't find key {key} in {word} {name}"),
        })
    }
}

/// Returns the needs of a pod: volumes first, then the variables of its containers. If `init` is false, those of its
/// init containers are missing: a seeded bug.
fn needs(pod: &Pod, init: bool) -> Vec<Need> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let containers = spec.init_containers.iter().flatten().filter(|_| init).chain(&spec.containers);
    spec.volumes.iter().flatten().flat_map(of_volume).chain(containers.flat_map(of_container)).collect()
}

/// Returns the needs of a volume. The one with the token of the service account is there with its namespace.
fn of_volume(volume: &Volume) -> Vec<Need> {
    let need = |kind: Kind, name: &str, items: &Option<Vec<KeyToPath>>, optional: Option<bool>| {
        let keys = items.iter().flatten().map(|item| item.key.clone()).collect();
        let need = Need { kind, name: name.to_owned(), keys, of: Of::Volume(volume.name.clone()) };
        (optional != Some(true)).then_some(need)
    };
    let map = volume.config_map.iter().filter_map(|map| need(Kind::ConfigMap, &map.name, &map.items, map.optional));
    let secret = volume.secret.iter().filter_map(|secret| {
        need(Kind::Secret, secret.secret_name.as_deref().unwrap_or_default(), &secret.items, secret.optional)
    });
    let sources = || volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    let has_token = sources().any(|source| source.service_account_token.is_some());
    let projected = sources().filter(|_| !has_token).flat_map(|source| {
        let map = source.config_map.as_ref().and_then(|map| need(Kind::ConfigMap, &map.name, &map.items, map.optional));
        let secret = source.secret.as_ref().and_then(|one| need(Kind::Secret, &one.name, &one.items, one.optional));
        map.into_iter().chain(secret)
    });
    map.chain(secret).chain(projected).collect()
}

/// Returns true if variables of a container refer to objects.
pub(crate) fn refers(container: &Container) -> bool {
    container.env_from.as_ref().is_some_and(|sources| !sources.is_empty())
        || container.env.iter().flatten().any(|variable| variable.value_from.is_some())
}

/// Returns the needs of the variables of a container.
fn of_container(container: &Container) -> Vec<Need> {
    let need = |kind: Kind, name: &str, key: Option<&String>, optional: Option<bool>| {
        let (name, keys) = (name.to_owned(), key.into_iter().cloned().collect());
        let need = Need { kind, name, keys, of: Of::Container(container.name.clone()) };
        (optional != Some(true)).then_some(need)
    };
    let whole = container.env_from.iter().flatten().flat_map(|source| {
        let map = source.config_map_ref.as_ref().and_then(|map| need(Kind::ConfigMap, &map.name, None, map.optional));
        let secret = source.secret_ref.as_ref().and_then(|one| need(Kind::Secret, &one.name, None, one.optional));
        map.into_iter().chain(secret)
    });
    let variables = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
    let keys = variables.flat_map(|source| {
        let map = source.config_map_key_ref.as_ref();
        let secret = source.secret_key_ref.as_ref();
        let map = map.and_then(|one| need(Kind::ConfigMap, &one.name, Some(&one.key), one.optional));
        let secret = secret.and_then(|one| need(Kind::Secret, &one.name, Some(&one.key), one.optional));
        map.into_iter().chain(secret)
    });
    whole.chain(keys).collect()
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn a_pod_waits_for_what_is_not_optional() {
        let env = json!([
            { "name": "A", "valueFrom": { "configMapKeyRef": { "name": "m", "key": "k" } } },
            { "name": "B", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k", "optional": true } } },
        ]);
        let token =
            json!([{ "serviceAccountToken": { "path": "token" } }, { "configMap": { "name": "kube-root-ca.crt" } }]);
        let pod: Pod = from_value(json!({ "spec": {
            "containers": [{ "name": "app", "env": env, "envFrom": [{ "secretRef": { "name": "all" } }] }],
            "volumes": [
                { "name": "conf", "configMap": { "name": "m", "items": [{ "key": "file", "path": "f" }] } },
                { "name": "maybe", "secret": { "secretName": "s", "optional": true } },
                { "name": "both", "projected": { "sources": [{ "secret": { "name": "p" } }] } },
                { "name": "access", "projected": { "sources": token } },
            ],
        } }))
        .unwrap();
        let needs = needs(&pod, true);
        let names: Vec<_> = needs.iter().map(|need| (need.kind, need.name.as_str(), need.keys.join(" "))).collect();
        let key = |key: &str| key.to_owned();
        let expected = [
            (Kind::ConfigMap, "m", key("file")),
            (Kind::Secret, "p", key("")),
            (Kind::Secret, "all", key("")),
            (Kind::ConfigMap, "m", key("k")),
        ];
        assert_eq!(names, expected);
        let mut found = Found::new();
        let mut refused = |id: Option<(Kind, &str, &[&str])>| {
            found.extend(id.map(|(kind, name, keys)| {
                ((kind, name.to_owned()), keys.iter().map(|key| (*key).to_owned()).collect())
            }));
            match checked(&needs, &found) {
                Ok(lacking) => lacking.into_iter().next(),
                Err(why) => Some((why.reason.to_owned(), why.message)),
            }
        };
        let volume = |why: &str| Some(("FailedMount".to_owned(), format!("MountVolume.SetUp failed for volume {why}")));
        let failed = |why: &str| Some(("app".to_owned(), why.to_owned()));
        assert_eq!(refused(None), volume("\"conf\" : configmap \"m\" not found"));
        let without = refused(Some((Kind::ConfigMap, "m", &["k"])));
        assert_eq!(without, volume("\"conf\" : references non-existent config key: file"));
        let next = refused(Some((Kind::ConfigMap, "m", &["file"])));
        assert_eq!(next, volume("\"both\" : secret \"p\" not found"));
        assert_eq!(refused(Some((Kind::Secret, "p", &[]))), failed("secret \"all\" not found"));
        assert_eq!(refused(Some((Kind::Secret, "all", &[]))), failed("couldn't find key k in ConfigMap m"));
        assert_eq!(refused(Some((Kind::ConfigMap, "m", &["file", "k"]))), None);
    }
}
