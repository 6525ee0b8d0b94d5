//! Claims and attachments that may wait for a missing driver. They are examined after the driver has had time to
//! register.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use controllers::kube::{Client, EventRecorder, ObjectReference};
use substrate::json::Value;

use super::drivers::{self, GRACE};
use super::{Inner, MOST, lock};

/// Annotation with the node that the scheduler chose for a claim.
const SELECTED: &str = "volume.kubernetes.io/selected-node";
/// Annotation with the driver that must provision the claim.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// An object that may wait for a driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Suspect {
    /// A claim that is not bound, by `namespace/name`.
    Claim(Arc<str>),
    /// An attachment.
    Attachment(Arc<str>),
}

/// Suspects that wait to be examined, and messages that were sent.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    waiting: VecDeque<(Duration, Suspect)>,
    /// Uids of claims, each with the message that was sent.
    reported: BTreeSet<(String, String)>,
}

impl Suspects {
    /// Adds suspects that were found at `now`.
    pub fn take(
        &mut self,
        now: Duration,
        found: impl IntoIterator<Item = Suspect>,
        grace: impl Fn(Duration) -> Duration,
    ) {
        for suspect in found {
            if self.waiting.len() < MOST && !self.waiting.iter().any(|(_, known)| *known == suspect) {
                self.waiting.push_back((now + grace(GRACE), suspect));
            }
        }
    }

    /// Time at which the next one must be examined.
    pub fn next(&self) -> Option<Duration> {
        self.waiting.front().map(|(at, _)| *at)
    }

    /// Examines the suspects that are due, and writes an Event about each claim that waits for a driver.
    pub async fn look(&mut self, now: Duration, client: &Client, recorder: &EventRecorder, inner: &Inner) {
        while self.next().is_some_and(|at| at <= now) {
            let Some((_, suspect)) = self.waiting.pop_front() else { return };
            let Some((claim, driver, node)) = of(client, &suspect).await else { continue };
            let lack = lock(&inner.news).drivers.lack(&driver, node.as_deref(), |node| inner.registry(node));
            let Some(message) = lack else { continue };
            let of = |field: &str| claim["metadata"][field].as_str().map(str::to_owned);
            let uid = of("uid").unwrap_or_default();
            if self.reported.len() >= MOST {
                self.reported.clear();
            }
            if !self.reported.insert((uid.clone(), message.clone())) {
                continue;
            }
            let reference = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("PersistentVolumeClaim".to_owned()),
                namespace: of("namespace"),
                name: of("name"),
                uid: Some(uid),
                resource_version: of("resourceVersion"),
                field_path: None,
            };
            recorder.event(reference, "Warning", drivers::REASON, message);
        }
    }
}

/// Returns the claim of a suspect, its driver, and the node on which it waits. None if it does not wait for a driver.
async fn of(client: &Client, suspect: &Suspect) -> Option<(Value, String, Option<String>)> {
    let get = async |path: String| -> Option<Value> {
        // A deleted object waits for nothing.
        serde_json::from_slice(&client.get(&path).await.ok()?).ok()
    };
    let claim_at =
        |namespace: &str, name: &str| format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    match suspect {
        Suspect::Claim(key) => {
            let (namespace, name) = key.split_once('/')?;
            let claim = get(claim_at(namespace, name)).await?;
            if claim["status"]["phase"] == "Bound" {
                return None;
            }
            let annotations = &claim["metadata"]["annotations"];
            let (driver, node) = (text(&annotations[PROVISIONER])?, text(&annotations[SELECTED]));
            Some((claim, driver, node))
        }
        Suspect::Attachment(name) => {
            let attachment = get(format!("/apis/storage.k8s.io/v1/volumeattachments/{name}")).await?;
            let spec = &attachment["spec"];
            let (driver, node) = (text(&spec["attacher"])?, text(&spec["nodeName"])?);
            let volume = text(&spec["source"]["persistentVolumeName"])?;
            let volume = get(format!("/api/v1/persistentvolumes/{volume}")).await?;
            let claim = &volume["spec"]["claimRef"];
            let claim = get(claim_at(claim["namespace"].as_str()?, claim["name"].as_str()?)).await?;
            Some((claim, driver, Some(node)))
        }
    }
}
