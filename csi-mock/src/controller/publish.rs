//! ControllerPublishVolume and ControllerUnpublishVolume.

use std::time::Duration;

use csi_proto::csi::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse,
};
use substrate::{Ctx, mutant};
use tonic::Status;

use super::attach::{ATTACHMENT, Look, STUCK_ATTACHING, look};
use super::devices::{self, Refused};
use super::ec2::Ec2Error;
use super::parameters::ATTACH_WHEN_INITIALIZED;
use super::service::{ControllerService, internal, is_id, no_node, no_volume};
use super::xml::Instance;
use crate::calls::{Call, Held};
use crate::capabilities::Feature;
use crate::check::{self, Capability};
use crate::events::Rule;
use crate::settings::LockKey;

/// Key of the device name in the publish context (EBS driver).
const DEVICE_PATH: &str = "devicePath";
/// Key in the publish context for a read-only mount on the node: EBS cannot attach read-only.
const READONLY: &str = "readonly";
/// Wait between two reads of a volume's status: blocks take minutes to hours (EBS driver, pkg/cloud/cloud.go).
const INITIALIZATION_LOOK: Duration = Duration::from_secs(60);
/// Bytes that a seeded bug leaks per failure.
const PILE: usize = 64 << 20;

impl ControllerService {
    fn lock_key(&self) -> LockKey {
        self.calls.settings().lock().unwrap_or(self.config.lock)
    }

    /// Takes the lock of a publish or unpublish (EBS driver, internal/driver/controller.go: `volumeID+nodeID`).
    fn lock(&self, volume: &str, node: &str) -> Result<Held, Status> {
        match self.lock_key() {
            LockKey::Volume => self.calls.lock(volume),
            LockKey::VolumeAndNode => self.calls.lock_at(volume, node),
        }
    }

    pub(super) async fn publish(
        &self,
        call: &Call,
        request: ControllerPublishVolumeRequest,
    ) -> Result<ControllerPublishVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let node = check::node_id(&request.node_id)?;
        let capability = check::capability("volume_capability", request.volume_capability.as_ref())?;
        let settings = self.calls.settings();
        check::supported("volume_capability", &capability, settings.has(Feature::ControllerSingleNodeMultiWriter))?;
        check::map("volume_context", &request.volume_context)?;
        if request.readonly && !settings.has(Feature::PublishReadonly) {
            return Err(check::invalid("readonly", "this driver has no PUBLISH_READONLY capability"));
        }
        let held = self.lock(volume, node)?;
        if !is_id(volume, "vol") {
            return Err(no_volume(volume));
        }
        if !is_id(node, "i") {
            return Err(no_node(node));
        }
        let terms = (capability, request.readonly);
        let attached = self.attach(call, volume, node, &terms).await;
        if attached.is_err() && mutant!(self.calls.ctx(), "lock-kept-after-failed-publish") {
            std::mem::forget(held);
        }
        let mut device = attached?;
        if request.volume_context.get(ATTACH_WHEN_INITIALIZED).is_some_and(|value| value == "true") {
            self.wait_initialized(volume).await?;
        }
        call.after_effect().await?;
        self.memory().published.insert((volume.to_owned(), node.to_owned()), terms);
        if call.wrong_device() || mutant!(self.calls.ctx(), "names-another-device") {
            device = devices::names().find(|n| *n != device).unwrap_or_default();
        }
        let readonly = request.readonly.then(|| (READONLY.to_owned(), "true".to_owned()));
        let publish_context = [(DEVICE_PATH.to_owned(), device)].into_iter().chain(readonly).collect();
        Ok(ControllerPublishVolumeResponse { publish_context: call.falsify_context(publish_context) })
    }

    /// Waits until all blocks of a volume have been read from its snapshot. The caller's deadline ends the wait.
    async fn wait_initialized(&self, volume: &str) -> Result<(), Status> {
        let what =
            format!("Cannot validate that volume {volume:?} is initialized while polling EC2 DescribeVolumeStatus");
        while !self.ec2.is_initialized(volume).await.map_err(|error| internal(&what, &error))? {
            self.calls.ctx().sleep(INITIALIZATION_LOOK).await;
        }
        Ok(())
    }

    async fn attach(
        &self,
        call: &Call,
        volume: &str,
        node: &str,
        terms: &(Capability, bool),
    ) -> Result<String, Status> {
        let mut look = self.memory().names.look();
        if mutant!(self.calls.ctx(), "name-of-finished-attach-reused") {
            look = u64::MAX;
        }
        let instance = self.ec2.describe_instance(node).await.map_err(|error| match error.code() {
            "InvalidInstanceID.NotFound" | "InvalidInstanceID.Malformed" => no_node(node),
            _ => internal(&format!("cannot look at node `{node}`"), &error),
        })?;
        let mapped = instance.block_device_mapping.item.iter().any(|m| m.ebs.volume_id == volume);
        if mapped {
            let key = (volume.to_owned(), node.to_owned());
            if self.memory().published.get(&key).is_some_and(|earlier| earlier != terms) {
                return Err(Status::already_exists(format!(
                    "volume `{volume}` is published to node `{node}` with another volume_capability or readonly"
                )));
            }
        } else {
            self.request_attach(call, volume, node, (look, &instance)).await?;
        }
        if mapped && mutant!(self.calls.ctx(), "listed-volume-taken-for-attached") {
            let listed = instance.block_device_mapping.item.iter().find(|m| m.ebs.volume_id == volume);
            return Ok(listed.map(|m| m.device_name.clone()).unwrap_or_default());
        }
        if mutant!(self.calls.ctx(), "attach-is-not-waited-for") {
            return Ok(String::new());
        }
        let attached = self.wait_attached(call, volume, node, mapped.then_some((look, &instance))).await;
        // After a failed wait the name stays in flight, so that other volumes do not get it (EBS driver,
        // `devicemanager`).
        if attached.is_ok() {
            self.memory().names.attached(node, volume);
        }
        attached
    }

    /// Sends AttachVolume with a free device name.
    async fn request_attach(
        &self,
        call: &Call,
        volume: &str,
        node: &str,
        (look, instance): (u64, &Instance),
    ) -> Result<(), Status> {
        let used: Vec<String> = instance.block_device_mapping.item.iter().map(|m| m.device_name.clone()).collect();
        let now = self.calls.ctx().now().mono;
        let limit = self.attach_limit().filter(|_| !mutant!(self.calls.ctx(), "attach-limit-ignored"));
        let attached = used.iter().filter(|name| **name != instance.root_device_name).count();
        let room = limit.map(|limit| limit.saturating_sub(attached));
        // One lock for the count and the name: another call must not come between them.
        let reserved = self.memory().names.reserve(now, node, volume, (look, &used), room);
        let name = reserved.map_err(|refused| {
            Status::resource_exhausted(match refused {
                Refused::Full => {
                    let limit = limit.unwrap_or_default();
                    format!("cannot attach volume `{volume}`: node `{node}` takes {limit} volumes and has them")
                }
                Refused::NoName => format!("node `{node}` has no free device name left for volume `{volume}`"),
            })
        })?;
        let Err(error) = self.ec2.attach_volume(volume, node, &name).await else { return Ok(()) };
        let what = format!("cannot attach volume `{volume}` to node `{node}`");
        if matches!(error, Ec2Error::Api { .. }) {
            self.memory().names.release(node, volume);
        }
        match error.code() {
            "VolumeInUse" => self.in_use(call, volume, node, (&what, &error)).await,
            "InvalidParameterValue" if error.message().contains("already in use") => {
                if !mutant!(self.calls.ctx(), "refused-name-forgotten") {
                    self.memory().names.refuse(now, node, &name);
                }
                Err(internal(&what, &error))
            }
            "AttachmentLimitExceeded" if mutant!(self.calls.ctx(), "full-instance-told-internal") => {
                Err(internal(&what, &error))
            }
            "AttachmentLimitExceeded" => Err(Status::resource_exhausted(format!("{what}: {error}"))),
            "InvalidVolume.NotFound" => Err(no_volume(volume)),
            "InvalidInstanceID.NotFound" => Err(no_node(node)),
            _ => Err(internal(&what, &error)),
        }
    }

    /// Returns the volume limit of a node that this driver also serves; None if only the cloud knows it.
    fn attach_limit(&self) -> Option<usize> {
        let limit = self.calls.settings().attach_limit().or(self.config.attach_limit)?;
        usize::try_from(limit).ok().filter(|limit| *limit != 0)
    }

    /// Handles VolumeInUse. Either an attempt whose answer was lost attached it here, or it is published on another
    /// node: then CSI requires FAILED_PRECONDITION with the node's id.
    async fn in_use(
        &self,
        call: &Call,
        volume: &str,
        node: &str,
        (what, error): (&str, &Ec2Error),
    ) -> Result<(), Status> {
        let there = self.ec2.describe_volume(volume).await.map_err(|e| internal(what, &e))?;
        match look(&there, node, self.calls.ctx().now().wall, self.calls.ctx().scaled(STUCK_ATTACHING)) {
            Look::Elsewhere(other) => {
                call.violates(Rule::PublishToSecondNode);
                Err(Status::failed_precondition(format!("{what}: it is published on node `{other}` ({error})")))
            }
            Look::Absent | Look::Multiple => Err(internal(what, error)),
            Look::Attached(_) | Look::Waiting(_) | Look::Stuck => Ok(()),
        }
    }

    /// Waits for the attachment; `mapped` is the instance if it listed the volume before any attach.
    async fn wait_attached(
        &self,
        call: &Call,
        volume: &str,
        node: &str,
        mapped: Option<(u64, &Instance)>,
    ) -> Result<String, Status> {
        let ctx = self.calls.ctx();
        let what = format!("cannot attach volume `{volume}` to node `{node}`");
        let timeout = ctx.scaled(STUCK_ATTACHING);
        let mut again = mapped;
        let mut last = String::new();
        let mut waits = ATTACHMENT.waits();
        loop {
            let there = self.ec2.describe_volume(volume).await.map_err(|error| match error.code() {
                "InvalidVolume.NotFound" => no_volume(volume),
                _ => internal(&what, &error),
            })?;
            match look(&there, node, ctx.now().wall, timeout) {
                Look::Attached(device) => return Ok(device),
                Look::Elsewhere(other) => {
                    return Err(Status::failed_precondition(format!("{what}: it is published on node `{other}`")));
                }
                Look::Multiple => return Err(Status::internal(format!("{what}: it has multiple attachments"))),
                Look::Stuck if mutant!(ctx, "stuck-attach-left") => {
                    return Err(Status::internal(format!("{what}: it is stuck in `attaching`")));
                }
                Look::Stuck => {
                    // aws-ebs-csi-driver#2833. The caller's next attempt starts over.
                    if let Err(error) = self.ec2.detach_volume(volume, node).await {
                        return Err(internal(
                            &format!("{what}: it is stuck in `attaching` and cannot be detached"),
                            &error,
                        ));
                    }
                    return Err(Status::internal(format!("{what}: it was stuck in `attaching` and was detached")));
                }
                Look::Absent => match again.take() {
                    // The instance lists the volume, but the volume is detached: one more attach
                    // (aws-ebs-csi-driver#2005).
                    Some((look, instance)) => self.request_attach(call, volume, node, (look, instance)).await?,
                    None => "absent".clone_into(&mut last),
                },
                Look::Waiting(state) => last = state,
            }
            match waits.next() {
                Some(wait) => ctx.sleep(wait).await,
                None => return Err(Status::deadline_exceeded(format!("{what}: the attachment is still `{last}`"))),
            }
        }
    }

    pub(super) async fn unpublish(
        &self,
        call: &Call,
        request: ControllerUnpublishVolumeRequest,
    ) -> Result<ControllerUnpublishVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let _held = self.lock(volume, &request.node_id)?;
        if !is_id(volume, "vol") {
            return Ok(ControllerUnpublishVolumeResponse {});
        }
        let nodes = if request.node_id.is_empty() {
            self.attached_nodes(volume).await?
        } else {
            vec![check::node_id(&request.node_id)?.to_owned()]
        };
        // An unpublish from all nodes waits for operations on each of them.
        let every = request.node_id.is_empty() && self.lock_key() == LockKey::VolumeAndNode;
        let locked = nodes.iter().filter(|_| every).map(|node| self.lock(volume, node));
        let _all = locked.collect::<Result<Vec<_>, _>>()?;
        if nodes.iter().any(|n| self.calls.is_staged(volume, n)) {
            call.violates(Rule::UnpublishWhileStaged);
        }
        for node in nodes.iter().filter(|n| is_id(n, "i")) {
            self.detach(volume, node).await?;
            self.memory().names.release(node, volume);
        }
        call.after_effect().await?;
        self.memory().published.retain(|(v, n), _| v != volume || !nodes.contains(n));
        Ok(ControllerUnpublishVolumeResponse {})
    }

    /// CSI: an empty node_id means every node.
    async fn attached_nodes(&self, volume: &str) -> Result<Vec<String>, Status> {
        match self.ec2.describe_volume(volume).await {
            Ok(there) => Ok(there.attachment_set.item.into_iter().map(|a| a.instance_id).collect()),
            Err(error) if error.code() == "InvalidVolume.NotFound" => Ok(Vec::new()),
            Err(error) => Err(internal(&format!("cannot look at volume `{volume}`"), &error)),
        }
    }

    async fn detach(&self, volume: &str, node: &str) -> Result<(), Status> {
        if mutant!(self.calls.ctx(), "unpublish-answers-early") {
            return Ok(());
        }
        let what = format!("cannot detach volume `{volume}` from node `{node}`");
        if let Err(error) = self.ec2.detach_volume(volume, node).await {
            match error.code() {
                code if code.ends_with(".NotFound") && mutant!(self.calls.ctx(), "unknown-unpublish-fails") => {
                    return Err(internal(&what, &error));
                }
                "InvalidVolume.NotFound" => return Ok(()),
                "IncorrectState" if mutant!(self.calls.ctx(), "refused-detach-told-done") => return Ok(()),
                // Treated as detached, as in the EBS driver. The EBS driver trusts the error alone; the wait below
                // verifies it, so that IncorrectState during `detaching` does not become a false success.
                "IncorrectState" | "InvalidAttachment.NotFound" | "InvalidInstanceID.NotFound" => {}
                _ => {
                    breaks(self.calls.ctx(), &error).await;
                    return Err(internal(&what, &error));
                }
            }
        }
        let ctx = self.calls.ctx();
        if mutant!(ctx, "detach-is-not-waited-for") {
            return Ok(());
        }
        let mut waits = ATTACHMENT.waits();
        loop {
            let state = match self.ec2.describe_volume(volume).await {
                Ok(there) => {
                    let ours = there.attachment_set.item.into_iter().find(|a| a.instance_id == node);
                    match ours.map(|a| a.status) {
                        None => return Ok(()),
                        Some(status) if status == "detached" => return Ok(()),
                        Some(status) if status == "busy" && mutant!(ctx, "busy-told-detached") => return Ok(()),
                        Some(status) => status,
                    }
                }
                Err(error) if error.code() == "InvalidVolume.NotFound" => return Ok(()),
                Err(error) => return Err(internal(&what, &error)),
            };
            match waits.next() {
                Some(wait) => ctx.sleep(wait).await,
                None if mutant!(ctx, "slow-detach-told-done") => return Ok(()),
                None => return Err(Status::deadline_exceeded(format!("{what}: the attachment is still `{state}`"))),
            }
        }
    }
}

/// Effects of seeded bugs after a failed detach: the program panics, hangs, or uses up memory.
async fn breaks(ctx: &Ctx, error: &Ec2Error) {
    assert!(!mutant!(ctx, "panics-on-failed-detach"), "{error:?}");
    let mut kept: Vec<Vec<u8>> = Vec::new();
    while mutant!(ctx, "failed-calls-pile-up") {
        kept.push(Vec::with_capacity(PILE));
        std::hint::black_box(&kept);
    }
    while mutant!(ctx, "retries-without-wait") {
        tokio::task::yield_now().await;
    }
}
