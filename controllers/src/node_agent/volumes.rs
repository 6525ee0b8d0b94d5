//! The async loop of the volume manager: runs the reconciler at multiples of 100 ms, if there is a reason, and performs
//! the steps of its operations.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::agent::Agent;
use super::block;
use super::csi::{Carried, Driver, PublishContext};
use super::events::{Mounted, OperationFailed, Remounted, ScanFailed, Unmounted};
use super::expand::expand;
use super::names::{attachment_name, vol_data_path};
use super::pod_dirs::{remove_late_dirs, remove_orphan, remove_pod_dirs};
use super::pod_facts::{fs_group, gives_group, pod_info, secrets, tokens};
use super::populate::populate;
use super::reconstruct::{VolumeData, data_of, scan};
use super::volume_manager::operation::NodeFacts;
use super::volume_manager::{Next, Operation, SeededBugs, Step, StepError, Task, VolumeSpec};
use crate::kube::{Delta, reference};
use crate::metrics::Metrics;
use crate::tick_schedule::TickSchedule;
use csi_mock::disk::{DiskError, Mount, MountKind};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::{CSIDriverSpec, VolumeAttachment};

/// Wait after a failed live read that the reconciler needs.
const RETRY: Duration = Duration::from_secs(1);

/// Reconstructs, then reconciles forever.
pub(super) async fn run(agent: Arc<Agent>) {
    loop {
        match scan(&agent).await {
            Ok((found, failed)) => {
                let skipped = substrate::mutant!(agent.ctx, "reconstruction-skipped");
                let (mut found, failed) = if skipped { Default::default() } else { (found, failed) };
                if substrate::mutant!(agent.ctx, "one-volume-reconstructed") {
                    found.truncate(1);
                }
                if substrate::mutant!(agent.ctx, "devices-not-reconstructed") {
                    found.retain(|mount| !mount.block);
                }
                agent.volumes().reconstruct(&found, failed);
                break;
            }
            Err(error) => {
                agent.ctx.emit(ScanFailed { error: error.to_string(), node: agent.name() });
                agent.ctx.sleep(RETRY).await;
            }
        }
    }
    agent.volumes().seeded_bugs = SeededBugs {
        ignores_attached: substrate::mutant!(agent.ctx, "attachment-not-awaited"),
        ignores_in_use: substrate::mutant!(agent.ctx, "in-use-not-awaited"),
        unstages_published: substrate::mutant!(agent.ctx, "unstage-while-published"),
        reports_wanted_only: substrate::mutant!(agent.ctx, "in-use-only-while-wanted"),
        remembers_reports: substrate::mutant!(agent.ctx, "former-report-counts"),
        hides_reconstructed: substrate::mutant!(agent.ctx, "reconstructed-volume-not-in-use"),
        hides_failed_unmounts: substrate::mutant!(agent.ctx, "failed-unmount-ends-use"),
        mounts_without_growth: substrate::mutant!(agent.ctx, "growth-missed-by-mount"),
        forgets_reconstructed: substrate::mutant!(agent.ctx, "reconstructed-device-forgotten"),
    };
    let ticks = TickSchedule::new(agent.ctx.now().mono, agent.ctx.scaled(agent.config.timers.reconciler_loop));
    agent.changed();
    loop {
        agent.publish_state();
        let retry = agent.volumes().retry_at();
        tokio::select! { biased;
            () = agent.reconcile_due() => {}
            () = agent.ctx.sleep_until(retry.unwrap_or_default()), if retry.is_some() => {}
        }
        let now = agent.ctx.now().mono;
        agent.ctx.sleep_until(ticks.at_or_after(now, Some(now))).await;
        tick(&agent).await;
    }
}

async fn tick(agent: &Arc<Agent>) {
    let (wanted, unprocessed) = agent.pods().wanted();
    agent.volumes().retain_pods(&wanted);
    let orphans = match substrate::mutant!(agent.ctx, "orphaned-pod-unmounted") {
        true => BTreeSet::new(),
        false => orphans(agent),
    };
    agent.volumes().set_orphans(orphans);
    for pod in unprocessed {
        agent.ctx.spawn(populate(agent.clone(), pod));
    }
    let needs_node_status = agent.volumes().needs_node_status();
    if needs_node_status {
        match agent.client.all::<Node>().get(&agent.config.node_name).await {
            Ok(node) => agent.volumes().reconstructed_from_node_status(&Agent::attached(&node)),
            Err(_) => {
                let agent = agent.clone();
                agent.ctx.clone().spawn(async move {
                    agent.ctx.sleep(RETRY).await;
                    agent.changed();
                });
            }
        }
    }
    let now = agent.ctx.now().mono;
    let done = agent.volumes().reconcile(now);
    agent.publish_state();
    for operation in done.started {
        if substrate::mutant!(agent.ctx, "unmount-skipped") && matches!(operation, Operation::Unmount { .. }) {
            continue;
        }
        agent.ctx.spawn(perform(agent.clone(), operation));
    }
}

/// Returns the pods that are gone while their containers run. Their volumes stay until the containers stop.
fn orphans(agent: &Agent) -> BTreeSet<String> {
    let mut alive = agent.runtime.all_alive();
    let pods = agent.pods();
    alive.retain(|uid| !pods.knows(uid));
    alive
}

/// Follows `status.volumesAttached` of the cached Node.
pub(super) async fn follow_node(agent: Arc<Agent>) {
    let mut changes = agent.node.subscribe();
    while let Some(change) = changes.recv().await {
        let attached = match &change {
            Delta::Applied { new, .. } => Agent::attached(new),
            Delta::Deleted(_) => BTreeSet::new(),
        };
        if agent.volumes().set_attached_in_status(attached) {
            agent.changed();
        }
    }
}

/// Performs one operation to its end.
async fn perform(agent: Arc<Agent>, operation: Operation) {
    let node = agent.node.get("", &agent.config.node_name);
    let labels = node.as_ref().and_then(|node| node.metadata.labels.as_ref());
    let facts = NodeFacts { name: &agent.config.node_name, labels };
    let Some(task) = agent.volumes().task(&operation).cloned() else { return };
    let again = operation.uid().is_some_and(|uid| agent.volumes().is_mounted(uid, &task.spec.name));
    let measured = Metrics::of(&agent.ctx).operation(&agent.ctx, &task.spec.driver, operation.name(task.spec.block));
    let mut next = agent.volumes().begin(agent.ctx.now().mono, &operation, facts);
    while let Next::Do(step) = next {
        let mut result = take(&agent, &operation, &task, step).await;
        if let Err(StepError::Uncertain(why)) = &result
            && substrate::mutant!(agent.ctx, "uncertain-call-is-final")
        {
            result = Err(StepError::Final(why.clone()));
        }
        if matches!(operation, Operation::Mount { .. })
            && matches!(result, Err(StepError::Final(_)))
            && substrate::mutant!(agent.ctx, "failed-mount-not-retried")
        {
            // The operation stays pending.
            return;
        }
        let failed = result.is_err();
        next = agent.volumes().advance(agent.ctx.now().mono, &operation, step, result);
        if failed && step == Step::Unstage && substrate::mutant!(agent.ctx, "stage-not-repeated") {
            agent.volumes().take_for_staged(&task.spec.name);
        }
    }
    measured.ended(!matches!(next, Next::Failed(_)));
    if let Next::Failed(failure) = next {
        agent.ctx.emit(OperationFailed {
            error: failure.message.clone(),
            node: agent.name(),
            operation: operation.name(task.spec.block).into(),
            volume: task.spec.handle.as_str().into(),
        });
        if let Operation::CleanUp { uid, .. } = &operation {
            remove_orphan(&agent, uid, &task.spec).await;
        }
        if let Operation::Mount { uid, .. } = &operation
            && !agent.pods().wants(uid)
        {
            agent.ctx.spawn(remove_late_dirs(agent.clone(), uid.clone()));
        }
        if let Some(pod) = failure.pod {
            agent.recorder.event(reference::<Pod>(&pod), "Warning", failure.reason, failure.message);
        }
    } else {
        let pod = if task.pod_name.is_empty() { operation.uid().unwrap_or_default() } else { &task.pod_name };
        let (node, pod, volume) = (agent.name(), pod.into(), task.spec.handle.as_str().into());
        match operation {
            Operation::Mount { .. } if again => agent.ctx.emit(Remounted { node, pod, volume }),
            Operation::Mount { .. } => agent.ctx.emit(Mounted { node, pod, volume }),
            Operation::Unmount { .. } => agent.ctx.emit(Unmounted { node, pod, volume }),
            _ => {}
        }
        if let (Operation::Unmount { .. } | Operation::CleanUp { .. }, Some(uid)) = (&operation, operation.uid())
            && !agent.pods().knows(uid)
        {
            // The pod was gone before kubelet started: no worker clears its directory.
            remove_pod_dirs(&agent, uid).await;
        }
    }
    agent.changed();
}

async fn take(agent: &Agent, operation: &Operation, task: &Task, step: Step) -> Result<(), StepError> {
    let spec = &task.spec;
    match step {
        Step::VerifyControllerAttached => verify_attached(agent, spec).await,
        Step::WaitForAttach => {
            if substrate::mutant!(agent.ctx, "staging-directory-made-early") {
                let _ = agent.config.disk.make_dir(&agent.staging_path(spec)).await;
            }
            attachment(agent, spec).await.map(drop)
        }
        Step::Stage => stage(agent, task).await,
        Step::Expand => expand(agent, task).await,
        Step::Publish => publish(agent, operation.uid().unwrap_or_default(), task).await,
        Step::Map => block::map(agent, operation.uid().unwrap_or_default(), task).await,
        Step::Unmap => block::unmap(agent, operation.uid().unwrap_or_default(), spec).await,
        Step::Unpublish => unpublish(agent, operation.uid().unwrap_or_default(), spec).await,
        Step::CleanUp => clean_up(agent, operation.uid().unwrap_or_default(), spec).await,
        Step::Unstage => unstage(agent, spec).await,
    }
}

async fn verify_attached(agent: &Agent, spec: &VolumeSpec) -> Result<(), StepError> {
    let node = agent
        .client
        .all::<Node>()
        .get(&agent.config.node_name)
        .await
        .map_err(|e| StepError::Transient(format!("failed fetching node: {e}")))?;
    if Agent::attached(&node).contains(spec.name.as_str()) || substrate::mutant!(agent.ctx, "attachment-not-awaited") {
        Ok(())
    } else {
        Err(StepError::Transient("Volume not attached according to node status".to_owned()))
    }
}

/// Reads the VolumeAttachment once. It must be attached. Returns the publish_context.
async fn attachment(agent: &Agent, spec: &VolumeSpec) -> Result<PublishContext, StepError> {
    let name = attachment_name(&spec.handle, &spec.driver, &agent.config.node_name);
    let attachment = agent.client.all::<VolumeAttachment>().get(&name).await.map_err(|e| {
        StepError::Transient(format!("volume {} has GET error for volume attachment {name}: {e}", spec.handle))
    })?;
    match attached(&attachment, spec) {
        Err(_) if substrate::mutant!(agent.ctx, "attachment-not-awaited") => Ok(PublishContext::new()),
        context => context.map_err(StepError::Transient),
    }
}

/// Evaluates a VolumeAttachment (`verifyAttachmentStatus`).
fn attached(attachment: &VolumeAttachment, spec: &VolumeSpec) -> Result<PublishContext, String> {
    if attachment.metadata.deletion_timestamp.is_some() {
        return Err("volume attachment is being deleted".to_owned());
    }
    match &attachment.status {
        Some(status) if status.attached => Ok(status.attachment_metadata.clone().unwrap_or_default()),
        status => Err(match status.as_ref().and_then(|s| s.attach_error.as_ref()) {
            Some(error) => error.message.clone().unwrap_or_default(),
            None => format!(
                "volume {} is not attached for volume attachment {}",
                spec.handle,
                attachment.metadata.name.as_deref().unwrap_or_default()
            ),
        }),
    }
}

async fn publish_context(agent: &Agent, task: &Task) -> Result<PublishContext, StepError> {
    if substrate::mutant!(agent.ctx, "publish-context-not-passed") {
        return Ok(PublishContext::new());
    }
    if task.attachable { attachment(agent, &task.spec).await } else { Ok(PublishContext::new()) }
}

pub(super) fn driver(agent: &Agent, spec: &VolumeSpec, who: &str) -> Result<Driver, StepError> {
    agent.drivers().get(&spec.driver).cloned().ok_or_else(|| {
        StepError::Transient(format!(
            "kubernetes.io/csi: {who}: driver name {} not found in the list of registered CSI drivers",
            spec.driver
        ))
    })
}

pub(super) fn disk_error(error: &DiskError) -> StepError {
    StepError::Transient(format!("kubernetes.io/csi: {error}"))
}

fn encoded(data: &VolumeData) -> Result<Vec<u8>, StepError> {
    serde_json::to_vec(data).map_err(|e| StepError::Transient(format!("kubernetes.io/csi: {e}")))
}

/// Returns the metadata of a volume that is published on this node.
pub(super) fn volume_data(agent: &Agent, spec: &VolumeSpec, life_cycle: &str) -> Result<Vec<u8>, StepError> {
    encoded(&VolumeData {
        spec_vol_id: spec.pv.clone(),
        volume_handle: spec.handle.clone(),
        driver_name: spec.driver.clone(),
        node_name: agent.config.node_name.clone(),
        attachment_id: attachment_name(&spec.handle, &spec.driver, &agent.config.node_name),
        volume_lifecycle_mode: life_cycle.to_owned(),
    })
}

/// Writes the metadata of a volume. If that fails and the volume is not mounted, removes its directory again
/// (`MountDevice`, `NewMounter`).
async fn write_data(agent: &Agent, beside: &Path, data: &[u8], is_mounted: bool) -> Result<(), StepError> {
    let written = agent.config.disk.write(&vol_data_path(beside), data).await;
    if written.is_err() && !is_mounted {
        // Upstream only logs a failed removal: the write is retried.
        let _ = clear(agent, beside).await;
    }
    written.map_err(|e| disk_error(&e))
}

async fn stage(agent: &Agent, task: &Task) -> Result<(), StepError> {
    let spec = &task.spec;
    let driver = driver(agent, spec, "attacher.MountDevice failed to create newCsiDriverClient")?;
    if !driver.stage_unstage {
        return Ok(());
    }
    let staging_secret = spec.csi().and_then(|c| c.node_stage_secret_ref.as_ref());
    let carried = Carried {
        publish_context: publish_context(agent, task).await?,
        secrets: secrets(agent, "NodeStageSecretRef", staging_secret).await?,
        group: task.pod.as_ref().and_then(|pod| group_of(agent, pod)),
        ..Carried::default()
    };
    let staging = agent.staging_path(spec);
    agent.config.disk.make_dir(&staging).await.map_err(|e| disk_error(&e))?;
    if spec.block {
        block::remember(agent, spec).await?;
        let result = driver.stage(spec, &staging, carried).await;
        if matches!(result, Err(StepError::Final(_))) {
            block::clear(agent, spec).await;
        }
        return result;
    }
    let data = VolumeData {
        spec_vol_id: String::new(),
        volume_handle: spec.handle.clone(),
        driver_name: spec.driver.clone(),
        node_name: String::new(),
        attachment_id: String::new(),
        volume_lifecycle_mode: String::new(),
    };
    write_data(agent, &staging, &encoded(&data)?, false).await?;
    let plain;
    let spec = if substrate::mutant!(agent.ctx, "mount-options-dropped") {
        plain = Arc::new(VolumeSpec { mount_options: Vec::new(), ..VolumeSpec::clone(spec) });
        &plain
    } else if substrate::mutant!(agent.ctx, "fs-type-not-passed") {
        plain = Arc::new(VolumeSpec { fs_type: String::new(), ..VolumeSpec::clone(spec) });
        &plain
    } else {
        spec
    };
    let result = driver.stage(spec, &staging, carried).await;
    if matches!(result, Err(StepError::Final(_))) {
        // Upstream only logs a failed removal: the failed call is retried.
        let _ = clear(agent, &staging).await;
    }
    result
}

async fn publish(agent: &Agent, uid: &str, task: &Task) -> Result<(), StepError> {
    let spec = &task.spec;
    let driver = driver(agent, spec, "mounter.SetUpAt failed to get CSI client")?;
    agent.drivers_of_cluster.synced().await;
    let object = agent.drivers_of_cluster.get("", &spec.driver);
    supports(object.as_ref().map(|d| &d.spec), spec)?;
    let carried = carried_to_pod(agent, task, object.as_ref().map(|d| &d.spec)).await?;
    let mut other = None;
    if substrate::mutant!(agent.ctx, "published-for-another-pod") {
        other = agent.pods().wanted().0.into_iter().find(|other| other != uid);
    }
    let uid = other.as_deref().unwrap_or(uid);
    let (staging, target) = (agent.staging_path(spec), agent.target_path(uid, spec));
    let of_volume = spec.readonly && !substrate::mutant!(agent.ctx, "read-only-volume-ignored");
    let readonly = (task.readonly || of_volume) && !substrate::mutant!(agent.ctx, "read-only-not-passed");
    if spec.block {
        block::remember(agent, spec).await?;
        let parent = agent.paths.device_publish_dir(&spec.pv);
        agent.config.disk.make_dir(&parent).await.map_err(|e| disk_error(&e))?;
        return driver.publish(spec, (&staging, &target), readonly, carried).await;
    }
    agent.config.disk.make_dir(&agent.paths.volume_dir(uid, &spec.pv)).await.map_err(|e| disk_error(&e))?;
    // A pod that has the volume keeps it even if a repeated publish fails.
    let is_mounted = agent.volumes().is_mounted(uid, &spec.name);
    let data = volume_data(agent, spec, spec.life_cycle.word())?;
    let writes_late = substrate::mutant!(agent.ctx, "volume-data-after-mount");
    if !writes_late {
        write_data(agent, &target, &data, is_mounted).await?;
    }
    let group = carried.group.filter(|_| !driver.mount_group);
    let result = driver.publish(spec, (&staging, &target), readonly, carried).await;
    if matches!(result, Err(StepError::Final(_))) && !is_mounted {
        // Upstream only logs a failed removal: the failed call is retried.
        let _ = clear(agent, &target).await;
    }
    result?;
    if writes_late {
        write_data(agent, &target, &data, true).await?;
    }
    let policy = object.as_ref().and_then(|d| d.spec.fs_group_policy.as_deref());
    match group.filter(|_| gives_group(policy, spec, readonly)) {
        Some(group) => give(agent, task, &target, group).await,
        None => Ok(()),
    }
}

/// Checks that the driver supports the volume's lifecycle mode (`supportsVolumeLifecycleMode`).
fn supports(driver: Option<&CSIDriverSpec>, spec: &VolumeSpec) -> Result<(), StepError> {
    let (mode, name) = (spec.life_cycle.word(), &spec.driver);
    let why = match driver {
        None if !spec.is_inline() => return Ok(()),
        None => "no CSIDriver object".to_owned(),
        Some(driver) => {
            let modes = driver.volume_lifecycle_modes.clone().unwrap_or_default();
            // The API server sets the default when the object is created.
            if modes.iter().any(|m| m == mode) || modes.is_empty() && !spec.is_inline() {
                return Ok(());
            }
            let modes: Vec<String> = modes.iter().map(|m| format!("{m:?}")).collect();
            format!("only supports [{}]", modes.join(" "))
        }
    };
    Err(StepError::Transient(format!(
        "kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: volume mode {mode:?} not supported by \
         driver {name} ({why})"
    )))
}

/// Returns the group that a pod's volumes get.
fn group_of(agent: &Agent, pod: &Pod) -> Option<u32> {
    fs_group(pod).filter(|_| !substrate::mutant!(agent.ctx, "group-not-given"))
}

/// Returns the fields of NodePublishVolume for a pod.
async fn carried_to_pod(agent: &Agent, task: &Task, driver: Option<&CSIDriverSpec>) -> Result<Carried, StepError> {
    let spec = &task.spec;
    let secret = spec.publish_secret();
    let mut carried = Carried {
        publish_context: publish_context(agent, task).await?,
        secrets: secrets(agent, "NodePublishSecretRef", secret).await?,
        ..Carried::default()
    };
    // Upstream's block mapper sends no pod facts.
    let (Some(pod), false) = (&task.pod, spec.block) else { return Ok(carried) };
    carried.group = group_of(agent, pod);
    let Some(driver) = driver else { return Ok(carried) };
    if driver.pod_info_on_mount == Some(true) {
        carried.volume_context.extend(pod_info(pod, spec));
    }
    let tokens = tokens(agent, driver, pod).await?;
    let secretly = driver.service_account_token_in_secrets == Some(true);
    if secretly { &mut carried.secrets } else { &mut carried.volume_context }.extend(tokens);
    Ok(carried)
}

/// Gives a published volume to the pod's group (`SetVolumeOwnership`). On a disk that cannot change the group, the pod
/// gets an event and runs anyway: the modelled workload does not depend on it.
async fn give(agent: &Agent, task: &Task, target: &Path, group: u32) -> Result<(), StepError> {
    let error = match agent.config.disk.give(target, group).await {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    if let (DiskError::Unsupported { .. }, Some(pod)) = (&error, &task.pod) {
        let message = format!("fsGroup {group} is not applied to volume {:?}: {error}", task.spec.pv);
        agent.recorder.event(reference::<Pod>(pod), "Warning", "FSGroupNotApplied", message);
        return Ok(());
    }
    // The mount exists already, so it must be unmounted with the pod.
    Err(StepError::Uncertain(format!("applyFSGroup failed for vol {}: {error}", task.spec.handle)))
}

async fn unpublish(agent: &Agent, uid: &str, spec: &VolumeSpec) -> Result<(), StepError> {
    let driver = driver(agent, spec, "Unmounter.TearDownAt failed to get CSI client")?;
    let target = agent.target_path(uid, spec);
    driver.unpublish(&spec.handle, &target).await?;
    if spec.block { Ok(()) } else { clear(agent, &target).await }
}

/// Unpublishes the volume of a directory. Its metadata was unreadable when kubelet started. If it still is, the driver
/// is unknown, and only an administrator can help (`NewUnmounter`).
async fn clean_up(agent: &Agent, uid: &str, spec: &VolumeSpec) -> Result<(), StepError> {
    let disk = &agent.config.disk;
    let (dir, target) = (agent.paths.volume_dir(uid, &spec.pv), agent.target_path(uid, spec));
    let Some(data) = data_of(disk, &dir).await.map_err(|e| disk_error(&e))? else {
        let file = vol_data_path(&target);
        return Err(StepError::Transient(format!(
            "kubernetes.io/csi: unmounter failed to load volume data file [{}]: kubernetes.io/csi: failed to open volume \
             data file [{}]",
            target.display(),
            file.display()
        )));
    };
    let known = VolumeSpec::reconstructed(&data.driver_name, &data.volume_handle, &spec.pv, false);
    unpublish(agent, uid, &known).await
}

async fn unstage(agent: &Agent, spec: &VolumeSpec) -> Result<(), StepError> {
    let driver = driver(agent, spec, "attacher.UnmountDevice failed to create newCsiDriverClient")?;
    let staging = agent.staging_path(spec);
    if spec.block {
        block::unreferenced(agent, spec).await?;
        if driver.stage_unstage {
            driver.unstage(&spec.handle, &staging).await?;
        }
        block::clear(agent, spec).await;
        return Ok(());
    }
    let mounts = agent.config.disk.mounts().await.map_err(|e| disk_error(&e))?;
    let references = device_mount_refs(&mounts, &spec.handle, &staging);
    if !references.is_empty() && !substrate::mutant!(agent.ctx, "mount-references-ignored") {
        return Err(StepError::Transient(format!(
            "GetDeviceMountRefs check failed: the device mount path {:?} is still mounted by other references [{}]",
            staging.display().to_string(),
            references.join(" ")
        )));
    }
    if driver.stage_unstage {
        driver.unstage(&spec.handle, &staging).await?;
    }
    clear(agent, &staging).await
}

/// Returns the mounts of a volume outside its staging path (`GetDeviceMountRefs`). The disk knows staging mounts of
/// Mooring's driver only; those of other drivers count as targets.
fn device_mount_refs(mounts: &[Mount], volume: &str, staging: &Path) -> Vec<String> {
    let elsewhere = |m: &&Mount| m.volume == volume && m.kind == MountKind::Target && m.path != staging;
    mounts.iter().filter(elsewhere).map(|m| m.path.display().to_string()).collect()
}

/// Removes a staging or target path, the metadata beside it and their directory (`removeMountDir`). A failed removal
/// fails the operation, which is retried.
async fn clear(agent: &Agent, path: &Path) -> Result<(), StepError> {
    let disk = &agent.config.disk;
    if substrate::mutant!(agent.ctx, "removal-failures-ignored") {
        let _ = disk.remove_dir(path).await;
        let _ = disk.remove_file(&vol_data_path(path)).await;
        return Ok(());
    }
    disk.remove_dir(path).await.map_err(|e| disk_error(&e))?;
    disk.remove_file(&vol_data_path(path)).await.map_err(|e| disk_error(&e))?;
    match path.parent() {
        Some(parent) => disk.remove_dir(parent).await.map_err(|e| disk_error(&e)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, json};

    use super::*;

    fn verdict(metadata: Value, status: Value) -> Result<PublishContext, String> {
        let attachment: VolumeAttachment = substrate::json::from_value(json!({
            "metadata": metadata, "status": status,
            "spec": { "attacher": "d", "nodeName": "n", "source": {} },
        }))
        .expect("an attachment");
        attached(&attachment, &VolumeSpec::reconstructed("d", "vol-1", "pv", false))
    }

    #[test]
    fn a_staging_mount_of_a_driver_that_the_disk_does_not_know_is_no_reference() {
        let mount = |volume: &str, path: &str, kind| Mount {
            volume: volume.to_owned(),
            path: path.into(),
            kind,
            readonly: false,
            group: None,
        };
        let staged = mount("vol-1", "/k/globalmount", MountKind::Target);
        let other = mount("vol-2", "/k/pods/b/mount", MountKind::Target);
        let staging = Path::new("/k/globalmount");
        assert_eq!(device_mount_refs(&[staged.clone(), other.clone()], "vol-1", staging), Vec::<String>::new());
        let target = mount("vol-1", "/k/pods/a/mount", MountKind::Target);
        assert_eq!(device_mount_refs(&[staged, target, other], "vol-1", staging), ["/k/pods/a/mount"]);
    }

    #[test]
    fn only_an_attached_attachment_that_stays_will_do() {
        let name = json!({ "name": "csi-x" });
        let context =
            verdict(name.clone(), json!({ "attached": true, "attachmentMetadata": { "devicePath": "/dev/xvdaa" } }));
        assert_eq!(context.map(|c| c["devicePath"].clone()), Ok("/dev/xvdaa".to_owned()));
        assert_eq!(
            verdict(name.clone(), json!({ "attached": false })),
            Err("volume vol-1 is not attached for volume attachment csi-x".to_owned())
        );
        assert_eq!(
            verdict(name, json!({ "attached": false, "attachError": { "message": "no" } })),
            Err("no".to_owned())
        );
        let going = json!({ "name": "csi-x", "deletionTimestamp": "2026-01-01T00:00:00Z" });
        assert_eq!(verdict(going, json!({ "attached": true })), Err("volume attachment is being deleted".to_owned()));
    }
}
