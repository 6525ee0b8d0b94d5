//! Admission of pods by their service account (`plugin/pkg/admission/serviceaccount`): the account that a pod runs as
//! must exist, its token is mounted into every container, and its pull secrets are the pod's.

use substrate::ids;
use substrate::json::{Value, json};

use super::Store;
use super::service_accounts::ServiceAccounts;
use super::status::Status;
use super::value::{self, list, name, text};
use crate::kinds::{self, Kind};

/// Account of a pod that names none.
const DEFAULT: &str = "default";
/// Prefix of the name of the token volume. A pod that already has such a volume gets no second one.
const VOLUME: &str = "kube-api-access-";
/// Mount path of the token in every container.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Lifetime of the token in seconds. kube-apiserver issues it for a year anyway, and warns after this time.
const TOKEN_SECONDS: i64 = 3607;
/// Annotation of mirror pods.
const MIRROR: &str = "kubernetes.io/config.mirror";

impl Store {
    /// Sets the admission of new pods by their service accounts.
    pub fn admit_service_accounts(&mut self, how: ServiceAccounts) {
        self.service_accounts = how;
    }

    /// Admits a new pod by its service account.
    ///
    /// # Errors
    /// 403 for an account that does not exist, and for a mirror pod that names one.
    pub(super) fn admit_service_account(&mut self, kind: &Kind, pod: &mut Value) -> Result<(), Status> {
        if kind != kinds::PODS || self.service_accounts == ServiceAccounts::Ignored {
            return Ok(());
        }
        // The kubelet compares a mirror pod with its static pod.
        if value::at(pod, &["metadata", "annotations", MIRROR]).is_some() {
            return match refused_to_mirrors(pod) {
                Some(why) => Err(Status::forbidden(kind, name(pod), why)),
                None => Ok(()),
            };
        }
        let namespace = value::namespace(pod).to_owned();
        let Some(spec) = value::map_mut(pod, "spec") else { return Ok(()) };
        value::default(spec, "serviceAccountName", DEFAULT);
        if spec.get("serviceAccountName").and_then(Value::as_str) == Some("") {
            spec.insert("serviceAccountName", DEFAULT.into());
        }
        let account = spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default().to_owned();
        // The field's deprecated name is kept equal.
        spec.insert("serviceAccount", account.as_str().into());
        let Some(found) = self.get(kinds::SERVICE_ACCOUNTS, &format!("{namespace}/{account}")).cloned() else {
            let why = format!(
                "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
            );
            return Err(Status::forbidden(kind, name(pod), &why));
        };
        if self.service_accounts == ServiceAccounts::Mounted && is_mounted(&found.value, pod) {
            self.mount_token(pod);
        }
        let secrets = list(&found.value, &["imagePullSecrets"]);
        if !secrets.is_empty()
            && list(pod, &["spec", "imagePullSecrets"]).is_empty()
            && let Some(spec) = value::map_mut(pod, "spec")
        {
            spec.insert("imagePullSecrets", secrets.to_vec().into());
        }
        Ok(())
    }

    /// Mounts the token into every container whose mount path is free, and adds the volume if it is needed.
    fn mount_token(&mut self, pod: &mut Value) {
        let present = list(pod, &["spec", "volumes"]).iter().map(name_of).find(|name| name.starts_with(VOLUME));
        let present = present.map(str::to_owned);
        let volume = present.clone().unwrap_or_else(|| format!("{VOLUME}{}", ids::name_suffix(&mut self.volumes)));
        let mut is_needed = false;
        for field in ["initContainers", "containers"] {
            let containers = pod["spec"].get_mut(field).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten().filter(|container| container.is_object()) {
                if list(container, &["volumeMounts"]).iter().any(|mount| text(mount, &["mountPath"]) == MOUNT_PATH) {
                    continue;
                }
                is_needed = true;
                push(container, "volumeMounts", json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH}));
            }
        }
        if present.is_none() && is_needed {
            push(&mut pod["spec"], "volumes", token_volume(&volume));
        }
    }
}

/// Returns the reason why a mirror pod is refused, if it is.
fn refused_to_mirrors(pod: &Value) -> Option<&'static str> {
    let volumes = list(pod, &["spec", "volumes"]);
    let projects = |volume: &Value| {
        list(volume, &["projected", "sources"]).iter().any(|source| source.get("serviceAccountToken").is_some())
    };
    if !text(pod, &["spec", "serviceAccountName"]).is_empty() {
        return Some("a mirror pod may not reference service accounts");
    }
    if volumes.iter().any(|volume| volume.get("secret").is_some()) {
        return Some("a mirror pod may not reference secrets");
    }
    volumes.iter().any(projects).then_some("a mirror pod may not use ServiceAccountToken volume projections")
}

/// Returns true if the token of an account is mounted into a pod: the pod's setting takes precedence over the
/// account's.
fn is_mounted(account: &Value, pod: &Value) -> bool {
    let of_pod = pod["spec"].get("automountServiceAccountToken").and_then(Value::as_bool);
    let of_account = || account.get("automountServiceAccountToken").and_then(Value::as_bool);
    of_pod.or_else(of_account).unwrap_or(true)
}

fn name_of(volume: &Value) -> &str {
    text(volume, &["name"])
}

fn push(object: &mut Value, field: &str, element: Value) {
    if let Some(fields) = object.as_object_mut()
        && let Some(elements) = fields.entry(field).or_insert_with(|| json!([])).as_array_mut()
    {
        elements.push(element);
    }
}

/// Returns the volume with the token, the certificate of the API server and the pod's namespace.
fn token_volume(name: &str) -> Value {
    let namespace = json!({"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}});
    json!({"name": name, "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]}})
}
