//! Facts about a pod in the calls to a driver: its identity, fsGroup and service account tokens, and the secrets that a
//! volume names (upstream `csi_mounter.go`, `csi_util.go`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Secret, SecretReference};
use k8s_openapi::api::storage::v1::CSIDriverSpec;
use substrate::json::{Value, json};

use super::context::VolumeContext;
use crate::kube::{ApiError, Client};
use crate::node_agent::volume_manager::{StepError, VolumeSpec};

/// Key of the tokens in the volume_context or the secrets.
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// Returns the pod facts for a CSIDriver with `podInfoOnMount`.
pub fn pod_info(pod: &Pod, spec: &VolumeSpec) -> BTreeMap<String, String> {
    let part = |value: &Option<String>| value.clone().unwrap_or_default();
    let account = pod.spec.as_ref().and_then(|s| s.service_account_name.clone());
    [
        ("csi.storage.k8s.io/pod.name", part(&pod.metadata.name)),
        ("csi.storage.k8s.io/pod.namespace", part(&pod.metadata.namespace)),
        ("csi.storage.k8s.io/pod.uid", part(&pod.metadata.uid)),
        ("csi.storage.k8s.io/serviceAccount.name", part(&account)),
        ("csi.storage.k8s.io/ephemeral", spec.is_inline().to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Returns `securityContext.fsGroup` of a pod.
pub fn fs_group(pod: &Pod) -> Option<u32> {
    let group = pod.spec.as_ref()?.security_context.as_ref()?.fs_group?;
    u32::try_from(group).ok()
}

/// Returns false if a volume whose root directory belongs to the pod's group stays as it is (`skipPermissionChange`).
pub fn always_gives_group(pod: &Pod) -> bool {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    context.and_then(|context| context.fs_group_change_policy.as_deref()) != Some("OnRootMismatch")
}

/// Returns true if kubelet changes the volume's group when the driver does not (`supportsFSGroup`).
pub fn gives_group(policy: Option<&str>, spec: &VolumeSpec, readonly: bool) -> bool {
    match policy.unwrap_or("ReadWriteOnceWithFSType") {
        _ if readonly => false,
        "File" => true,
        "ReadWriteOnceWithFSType" => {
            let once = |mode: &String| matches!(&**mode, "ReadWriteOnce" | "ReadWriteOncePod");
            !spec.fs_type.is_empty() && spec.access_modes.iter().any(once)
        }
        _ => false,
    }
}

/// Reads the secret that a volume names.
pub(crate) async fn secrets(
    room: &VolumeContext,
    what: &str,
    reference: Option<&SecretReference>,
) -> Result<BTreeMap<String, String>, StepError> {
    let Some(reference) = reference else { return Ok(BTreeMap::new()) };
    let (namespace, name) =
        (reference.namespace.as_deref().unwrap_or_default(), reference.name.as_deref().unwrap_or_default());
    let secret = room.client.namespaced::<Secret>(namespace).get(name).await;
    let secret = secret.map_err(|e| StepError::Transient(format!("fetching {what} {namespace}/{name} failed: {e}")))?;
    let text = |bytes: &k8s_openapi::ByteString| String::from_utf8_lossy(&bytes.0).into_owned();
    Ok(secret.data.iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect())
}

/// Token of a service account.
pub(crate) struct Token {
    pub token: String,
    /// Time at which it expires.
    pub until: String,
}

/// Requests a token of the pod's service account that is bound to the pod. An empty audience is the API server's.
///
/// # Errors
/// The server's refusal, or an answer without a token.
pub(crate) async fn request_token(
    client: &Client,
    pod: &Pod,
    audience: &str,
    seconds: Option<i64>,
) -> Result<Token, ApiError> {
    let part = |value: &Option<String>| value.clone().unwrap_or_default();
    let namespace = part(&pod.metadata.namespace);
    let account = part(&pod.spec.as_ref().and_then(|s| s.service_account_name.clone()));
    let audiences: Vec<_> = Some(audience).filter(|a| !a.is_empty()).into_iter().collect();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": {
                "apiVersion": "v1", "kind": "Pod",
                "name": pod.metadata.name, "uid": pod.metadata.uid,
            },
        },
    });
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let answer = client.post(&path, request).await?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|e| ApiError::Decode(e.to_string()))?;
    let text = |field: &str| answer["status"][field].as_str().map(str::to_owned);
    let fields = text("token").zip(text("expirationTimestamp"));
    let (token, until) = fields.ok_or_else(|| ApiError::Decode("the answer has no token".to_owned()))?;
    Ok(Token { token, until })
}

/// Requests tokens of the pod's service account for the driver's audiences. Returns none if the driver wants none.
pub(crate) async fn tokens(
    room: &VolumeContext,
    driver: &CSIDriverSpec,
    pod: &Pod,
) -> Result<BTreeMap<String, String>, StepError> {
    let mut tokens = BTreeMap::new();
    for wanted in driver.token_requests.iter().flatten() {
        let Token { token, until } = request_token(&room.client, pod, &wanted.audience, wanted.expiration_seconds)
            .await
            .map_err(|e| StepError::Transient(format!("failed to get service account token attributes: {e}")))?;
        tokens.insert(wanted.audience.clone(), json!({ "token": token, "expirationTimestamp": until }));
    }
    if tokens.is_empty() {
        return Ok(BTreeMap::new());
    }
    Ok([(TOKENS.to_owned(), json!(tokens).to_string())].into())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn pod() -> Pod {
        let pod = json!({
            "metadata": { "name": "p", "namespace": "d", "uid": "u" },
            "spec": { "containers": [], "serviceAccountName": "s", "securityContext": { "fsGroup": 2000 } },
        });
        substrate::json::from_value(pod).expect("a pod")
    }

    #[test]
    fn a_driver_gets_the_pod_of_its_volume() {
        let reported = pod_info(&pod(), &VolumeSpec::reconstructed("d", "v", "pv", false));
        let reported: Vec<_> =
            reported.iter().map(|(key, value)| (&key["csi.storage.k8s.io/".len()..], &**value)).collect();
        let expected = [
            ("ephemeral", "false"),
            ("pod.name", "p"),
            ("pod.namespace", "d"),
            ("pod.uid", "u"),
            ("serviceAccount.name", "s"),
        ];
        assert_eq!(reported, expected);
        assert_eq!(fs_group(&pod()), Some(2000));
    }

    #[test]
    fn the_group_changes_always_unless_the_pod_looks_at_the_root() {
        for (policy, always) in [(None, true), (Some("Always"), true), (Some("OnRootMismatch"), false)] {
            let mut pod = pod();
            let context = pod.spec.as_mut().and_then(|spec| spec.security_context.as_mut()).expect("a context");
            context.fs_group_change_policy = policy.map(str::to_owned);
            assert_eq!(always_gives_group(&pod), always, "{policy:?}");
        }
    }

    #[rstest]
    #[case(None, "ext4", "ReadWriteOnce", false, true)]
    #[case(None, "ext4", "ReadWriteOncePod", false, true)]
    #[case(None, "", "ReadWriteOnce", false, false)]
    #[case(None, "ext4", "ReadWriteMany", false, false)]
    #[case(Some("File"), "", "ReadWriteMany", false, true)]
    #[case(Some("File"), "ext4", "ReadWriteOnce", true, false)]
    #[case(Some("None"), "ext4", "ReadWriteOnce", false, false)]
    fn the_policy_decides_who_gets_the_volume(
        #[case] policy: Option<&str>,
        #[case] fs_type: &str,
        #[case] mode: &str,
        #[case] readonly: bool,
        #[case] gives: bool,
    ) {
        let mut spec = VolumeSpec::reconstructed("d", "v", "pv", false);
        (spec.fs_type, spec.access_modes) = (fs_type.to_owned(), vec![mode.to_owned()]);
        assert_eq!(gives_group(policy, &spec, readonly), gives);
    }
}
