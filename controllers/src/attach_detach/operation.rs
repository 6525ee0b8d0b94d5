//! Attach and detach of CSI volumes: VolumeAttachment objects and the wait for the external-attacher
//! (`csi_attacher.go` and the operation generator upstream).

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use substrate::mutant;
use substrate::process::Ctx;

use super::cluster::volumes_in_use;
use super::volume::{VolumeSpec, attachment_name, parse_unique_name};
use crate::kube::{Backoff, Client, DeleteParams, Informer, Kind};
use crate::timers::Timers;

/// Clients and caches of operations.
#[derive(Clone)]
pub struct Operations {
    pub ctx: Ctx,
    pub client: Client,
    pub attachments: Informer<VolumeAttachment>,
    pub timers: Timers,
}

impl Operations {
    /// Attaches a volume: creates the VolumeAttachment unless it exists, and waits until it is attached.
    pub async fn attach(self, spec: &VolumeSpec, node: &str) -> Result<(), String> {
        let name = attachment_name(&spec.handle, &spec.driver, node);
        if self.attachments.get("", &name).is_none() {
            let created = {
                let attachment = VolumeAttachment {
                    metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
                    spec: VolumeAttachmentSpec {
                        attacher: spec.driver.clone(),
                        node_name: node.to_owned(),
                        source: VolumeAttachmentSource {
                            persistent_volume_name: Some(spec.pv.clone()),
                            inline_volume_spec: None,
                        },
                    },
                    status: None,
                };
                self.client.all().create_unread(&attachment)
            };
            match created.await {
                Ok(_) => {}
                Err(e) if e.is_already_exists() => {}
                Err(e) => return Err(e.to_string()),
            }
        }
        let accepts = mutant!(self.ctx, "deleting-attachment-accepted");
        let done = |attachment: Option<&VolumeAttachment>| match attachment.and_then(|a| a.status.as_ref()) {
            Some(status) if accepts && status.attached => Ok(true),
            _ => attach_done(attachment),
        };
        self.wait(&name, &spec.driver, "attach", &spec.handle, done).await
    }

    /// Detaches a volume. With `verify`, reads the node's status live first.
    pub async fn detach(self, volume: &str, node: &str, verify: bool) -> Result<(), String> {
        if verify && !mutant!(self.ctx, "detach-not-verified") {
            match self.client.all::<Node>().get(node).await {
                Ok(live) if volumes_in_use(&live).iter().any(|v| v == volume) => {
                    return Err("volume is still in use by node, according to Node status".to_owned());
                }
                Ok(_) => {}
                // If the node does not exist, the volume has no user there.
                Err(e) if e.is_not_found() => {}
                Err(e) => return Err(format!("failed fetching node from API server: {e}")),
            }
        }
        let Some((driver, handle)) = parse_unique_name(volume) else {
            return Err(format!("volume name {volume} is not a CSI volume's"));
        };
        if mutant!(self.ctx, "attachment-left-behind") {
            return Ok(());
        }
        let name = attachment_name(handle, driver, node);
        match self.client.all::<VolumeAttachment>().delete(&name, &DeleteParams::default()).await {
            Ok(()) => {}
            Err(e) if e.is_not_found() => return Ok(()),
            Err(e) => return Err(e.to_string()),
        }
        // Upstream passes no spec on this path, so its message has no driver name.
        self.wait(&name, "unknown", "detach", handle, detach_done).await
    }

    /// Polls the cache: 500 ms, ×1.05 up to 7 s, jitter 0.1, at most 2 min in total. The first check happens after the
    /// first step.
    async fn wait(
        &self,
        name: &str,
        driver: &str,
        operation: &str,
        handle: &str,
        done: impl Fn(Option<&VolumeAttachment>) -> Result<bool, String>,
    ) -> Result<(), String> {
        let timers = &self.timers;
        let reset = Duration::from_secs(60);
        let mut backoff =
            Backoff::new(timers.attachment_poll_initial, timers.attachment_poll_max, 1.05, 0.1, self.ctx.scaled(reset));
        let mut rng = self.ctx.rng(&format!("{operation} {name}"));
        let begun = self.ctx.now().mono;
        let deadline = begun + self.ctx.scaled(timers.attachment_wait);
        loop {
            let now = self.ctx.now().mono;
            let next = now + self.ctx.scaled(backoff.next(now, &mut rng));
            self.ctx.sleep_until(next.min(deadline)).await;
            if next >= deadline {
                return Err(format!(
                    "timed out waiting for external-attacher of {driver} CSI driver to {operation} volume {handle}"
                ));
            }
            if done(self.attachments.get("", name).as_deref())? {
                return Ok(());
            }
        }
    }
}

/// Treats an attachment that is missing from the cache as just created.
fn attach_done(attachment: Option<&VolumeAttachment>) -> Result<bool, String> {
    let Some(attachment) = attachment else { return Ok(false) };
    if attachment.is_deleting() {
        return Err("volume attachment is being deleted".to_owned());
    }
    let Some(status) = &attachment.status else { return Ok(false) };
    if status.attached {
        return Ok(true);
    }
    match &status.attach_error {
        Some(e) => Err(e.message.clone().unwrap_or_default()),
        None => Ok(false),
    }
}

fn detach_done(attachment: Option<&VolumeAttachment>) -> Result<bool, String> {
    let Some(attachment) = attachment else { return Ok(true) };
    match attachment.status.as_ref().and_then(|s| s.detach_error.as_ref()) {
        Some(e) => Err(e.message.clone().unwrap_or_default()),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, json};

    use super::*;

    fn attachment(deleting: bool, status: Value) -> VolumeAttachment {
        let mut metadata = json!({ "name": "csi-1" });
        if deleting {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let spec = json!({ "attacher": "d", "nodeName": "n", "source": { "persistentVolumeName": "pv" } });
        substrate::json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status }))
            .expect("an attachment")
    }

    #[rstest]
    #[case::just_created(None, Ok(false))]
    #[case::not_yet(Some(attachment(false, json!({ "attached": false }))), Ok(false))]
    #[case::attached(Some(attachment(false, json!({ "attached": true }))), Ok(true))]
    #[case::refused(Some(attachment(false, json!({ "attached": false, "attachError": { "message": "no" } }))), Err("no"))]
    #[case::going(Some(attachment(true, json!({ "attached": true }))), Err("volume attachment is being deleted"))]
    fn attach_waits_for_attached(#[case] seen: Option<VolumeAttachment>, #[case] expected: Result<bool, &str>) {
        assert_eq!(attach_done(seen.as_ref()), expected.map_err(str::to_owned));
    }

    #[rstest]
    #[case::gone(None, Ok(true))]
    #[case::still_there(Some(attachment(true, json!({ "attached": true }))), Ok(false))]
    #[case::refused(Some(attachment(true, json!({ "attached": true, "detachError": { "message": "no" } }))), Err("no"))]
    fn detach_waits_until_the_object_is_gone(
        #[case] seen: Option<VolumeAttachment>,
        #[case] expected: Result<bool, &str>,
    ) {
        assert_eq!(detach_done(seen.as_ref()), expected.map_err(str::to_owned));
    }
}
