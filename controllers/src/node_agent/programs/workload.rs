//! Settings of a pod's modelled workload from its annotations, and the volumes of its containers.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use substrate::fault::Span;

use super::context::ProgramContext;
use super::needed;
use super::plain_command;
use super::program::{self, Prepared};
use super::references::References;
use super::seen::{Published, Seen};
use super::sub_path;
use super::unprepared::Unprepared;
use crate::machine::api::{
    ContainerSpec, ContainerState, ExitPlan, Pace, PodRecord, PodSpec, ProgramSpec, VolumeLocation, VolumeUse,
};
use crate::node_agent::config::{PlannedExit, WorkloadDefaults};
use crate::node_agent::node::node_object::internal_ip;
use crate::node_agent::rules::image_pulls;
use crate::node_agent::rules::restarts::{is_sidecar, restarts};
use crate::node_agent::volume_manager::VolumeSpec;
use crate::node_agent::volumes::populate::claims;
use crate::scheduler::resources::Resources;

/// Annotation: time between two records, as in `500ms`.
pub const WRITE_EVERY: &str = "mooring.dev/write-every";
/// Annotation: number of records before the writer becomes idle. 0: it writes nothing.
pub const RECORDS: &str = "mooring.dev/records";
/// Annotation: time from the start of the containers to their exit, as in `30s`. Default: they run until they are
/// stopped.
pub const RUN_FOR: &str = "mooring.dev/run-for";
/// Annotation: exit code of containers with `run-for`, 0 to 255. Default: 0.
pub const EXIT_CODE: &str = "mooring.dev/exit-code";

/// Prefix of all annotations of Mooring.
const PREFIX: &str = "mooring.dev/";

/// Reads the workload settings from a pod's annotations. Returns a message for each annotation that has no effect.
pub fn settings(pod: &Pod, defaults: &WorkloadDefaults) -> (WorkloadDefaults, Vec<String>) {
    let (mut settings, mut wrong) = (defaults.clone(), Vec::new());
    let (mut run_for, mut code) = (None, None);
    for (key, text) in pod.metadata.annotations.iter().flatten().filter(|(key, _)| key.starts_with(PREFIX)) {
        let span = || text.parse::<Span>().map(|span| span.0).map_err(|error| format!("{error}; the default is used"));
        let result = match key.as_str() {
            // A writer without a wait would stop virtual time.
            WRITE_EVERY => span().map(|span| settings.write_every = span.max(Duration::from_millis(1))),
            RECORDS => text
                .parse()
                .map(|records| settings.records = records)
                .map_err(|_| format!("`{text}` is not a whole number of records; the default is used")),
            RUN_FOR => span().map(|span| run_for = Some(span)),
            EXIT_CODE => text
                .parse()
                .map(|number| code = Some(number))
                .map_err(|_| format!("`{text}` is not a number from 0 to 255; the default is used")),
            _ => Err(format!("unknown; use {WRITE_EVERY}, {RECORDS}, {RUN_FOR} or {EXIT_CODE}")),
        };
        wrong.extend(result.err().map(|why| format!("annotation {key}: {why}")));
    }
    match (run_for, &mut settings.exit) {
        (Some(after), exit) => *exit = Some(PlannedExit { after, code: code.unwrap_or_default() }),
        (None, Some(exit)) => exit.code = code.unwrap_or(exit.code),
        (None, None) if code.is_some() => {
            wrong.push(format!("annotation {EXIT_CODE}: add {RUN_FOR}, the time to the exit"));
        }
        (None, None) => {}
    }
    (settings, wrong)
}

/// Returns the number of earlier starts of a container: from the machine's last record, or else from the pod's status.
fn earlier_starts(pod: &Pod, record: Option<&PodRecord>, container: &Container) -> u32 {
    if let Some(one) = record.and_then(|record| record.container(&container.name)) {
        return one.attempt + u32::from(one.state != ContainerState::Created);
    }
    let status = pod.status.as_ref();
    let lists = status.map(|status| [&status.init_container_statuses, &status.container_statuses]);
    let mut statuses = lists.into_iter().flatten().flatten().flatten();
    let found = statuses.find(|status| status.name == container.name);
    found.and_then(restarts).map_or(0, |restarts| restarts + 1)
}

/// Prepares a pod's containers, with their programs if this node runs programs.
///
/// # Errors
/// The volume that cannot be prepared, or the object that cannot be read.
pub(crate) async fn prepared(room: &ProgramContext, uid: &str, pod: &Pod) -> Result<Prepared, Unprepared> {
    if !room.config.programs {
        let unprepared = needed::check(room, pod).await?;
        return Ok(Prepared { unprepared, ..Prepared::default() });
    }
    let references = References::read(room, pod).await?;
    let published = room.volumes.lock().mounted(uid).into_iter().map(|(name, spec)| {
        let path = match place(room, uid, &spec) {
            VolumeLocation::Filesystem { path } => path,
            VolumeLocation::Device { published, .. } => published,
        };
        let readonly = spec.readonly || readonly(pod, &name);
        (name, Published { path, readonly, host: spec.is_host_path() })
    });
    let published = published.collect();
    let (host_ip, host_paths) = (internal_ip(&room.config), room.config.host_paths);
    let node = room.node.get("", &room.config.node_name);
    let allocatable = node.map(|node| Resources::allocatable(&node)).unwrap_or_default();
    let seen = Seen { pod, host_ip, references: &references, host_paths, published, allocatable };
    let mut prepared = program::programs(&seen)?;
    prepared.unprepared.extend(sub_path::wrong(room, uid, pod));
    Ok(prepared)
}

/// Returns true if a pod's claim is used read-only under this volume name.
fn readonly(pod: &Pod, volume: &str) -> bool {
    claims(pod).iter().any(|claim| claim.volume == volume && claim.readonly)
}

/// Builds the containers of a pod with their mounted volumes. `last` is the machine's last record of the pod.
pub(crate) fn pod_spec(
    room: &ProgramContext,
    uid: &str,
    pod: &Pod,
    last: (u32, Option<&PodRecord>),
    settings: &WorkloadDefaults,
    mut prepared: Prepared,
) -> PodSpec {
    let (attempt, last) = last;
    let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let regular = pod.spec.iter().flat_map(|spec| &spec.containers);
    let containers = inits.chain(regular).map(|container| {
        let earlier = earlier_starts(pod, last, container);
        container_spec(pod, container, earlier, settings, &mut prepared)
    });
    let containers = containers.collect();
    // The workload writes nothing to paths of the machine.
    let mounted = room.volumes.lock().mounted(uid).into_iter().filter(|(_, spec)| spec.path_of_machine().is_none());
    let volumes = mounted.map(|(name, spec)| {
        let (container, at) = mounted_by(pod, &name).unzip();
        VolumeUse {
            volume: spec.handle.clone(),
            container,
            at,
            place: place(room, uid, &spec),
            readonly: spec.readonly || readonly(pod, &name),
            name,
        }
    });
    PodSpec {
        pod: pod_name(pod),
        uid: uid.to_owned(),
        attempt,
        containers,
        volumes: volumes.collect(),
        pace: Pace {
            write_every_ms: ms(settings.write_every),
            records: settings.records,
            idle_every_ms: ms(settings.idle_every),
        },
    }
}

/// Builds one container of a pod.
fn container_spec(
    pod: &Pod,
    container: &Container,
    attempt: u32,
    settings: &WorkloadDefaults,
    prepared: &mut Prepared,
) -> ContainerSpec {
    let program = prepared.programs.remove(&container.name);
    let held = !image_pulls::is_there(container) || prepared.unprepared.contains_key(&container.name);
    let is_probed = program.is_some() && container.startup_probe.is_some();
    let is_regular = pod.spec.iter().flat_map(|spec| &spec.containers).any(|one| one.name == container.name);
    let init = !is_regular && !is_sidecar(container);
    // An init container that succeeds at once is done when the pod starts.
    let matters = |exit: &ExitPlan| !init || exit.code != 0 || exit.after_ms > 0;
    let planned = settings.exit.filter(|_| is_regular).map(exit_plan);
    ContainerSpec {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        attempt,
        init,
        gates: !is_regular && is_sidecar(container) && (is_probed || held),
        exit: planned.or_else(|| exit_by_command(container, program.as_ref()).filter(matters)),
        held,
        program,
    }
}

/// Prepares one container of a running pod.
///
/// # Errors
/// The part of the container that cannot be prepared.
pub(crate) async fn prepared_alone(
    room: &ProgramContext,
    uid: &str,
    pod: &Pod,
    container: &Container,
) -> Result<Prepared, Unprepared> {
    // Only what this container refers to is read. A modelled container reads no volume again.
    let mut alone = pod.clone();
    if let Some(spec) = &mut alone.spec {
        spec.init_containers = None;
        spec.containers = vec![container.clone()];
        spec.volumes = spec.volumes.take().filter(|_| room.config.programs);
    }
    let prepared = prepared(room, uid, &alone).await?;
    match prepared.unprepared.get(&container.name) {
        Some(why) => Err(Unprepared::config(why)),
        None => Ok(prepared),
    }
}

/// Builds one container of a running pod that starts, with the image and the variables of now.
///
/// # Errors
/// The part of the container that cannot be prepared.
pub(crate) async fn renewed_spec(
    room: &ProgramContext,
    uid: &str,
    pod: &Pod,
    container: &Container,
    attempt: u32,
) -> Result<ContainerSpec, Unprepared> {
    let mut prepared = prepared_alone(room, uid, pod, container).await?;
    let (settings, _) = settings(pod, &room.config.workload);
    Ok(container_spec(pod, container, attempt, &settings, &mut prepared))
}

/// Returns the planned exit of a modelled container whose command makes it plain.
pub(crate) fn exit_by_command(container: &Container, program: Option<&ProgramSpec>) -> Option<ExitPlan> {
    if program.is_some() { None } else { plain_command::planned_exit(container).map(exit_plan) }
}

fn exit_plan(exit: PlannedExit) -> ExitPlan {
    ExitPlan { after_ms: ms(exit.after), code: i32::from(exit.code) }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Returns `<namespace>/<name>`.
pub(crate) fn pod_name(pod: &Pod) -> String {
    let part = |name: &Option<String>| name.clone().unwrap_or_default();
    format!("{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name))
}

/// Returns the place of a volume inside a pod.
fn place(room: &ProgramContext, uid: &str, spec: &Arc<VolumeSpec>) -> VolumeLocation {
    if let Some(path) = spec.path_of_machine() {
        VolumeLocation::Filesystem { path: path.into() }
    } else if spec.block {
        let mapping = room.paths.mapping_of(uid, spec);
        VolumeLocation::Device { published: mapping.device, global: mapping.global, link: mapping.link }
    } else {
        VolumeLocation::Filesystem { path: room.paths.target_of(uid, spec) }
    }
}

/// Returns the container that writes to a volume, the first that mounts it, and its mount path. A volume that only an
/// init container mounts has no writer.
fn mounted_by(pod: &Pod, volume: &str) -> Option<(String, String)> {
    pod.spec.iter().flat_map(|s| &s.containers).find_map(|container| {
        let mounts = container.volume_mounts.iter().flatten().map(|m| (&m.name, &m.mount_path));
        let devices = container.volume_devices.iter().flatten().map(|d| (&d.name, &d.device_path));
        let (_, at) = mounts.chain(devices).find(|(name, _)| *name == volume)?;
        Some((container.name.clone(), at.clone()))
    })
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    fn pod(annotations: substrate::json::Value) -> Pod {
        substrate::json::from_value(json!({ "metadata": { "name": "p", "annotations": annotations } })).expect("a pod")
    }

    #[test]
    fn annotations_override_the_defaults() {
        let defaults = WorkloadDefaults::default();
        let read = |annotations| settings(&pod(annotations), &defaults);
        assert_eq!(read(json!({ "other.dev/x": "1" })), (defaults.clone(), vec![]));
        let (fast, wrong) = read(json!({ WRITE_EVERY: "100ms", RECORDS: "3" }));
        assert_eq!((fast.write_every, fast.records, wrong), (Duration::from_millis(100), 3, vec![]));
        let (ends, wrong) = read(json!({ RUN_FOR: "5s", EXIT_CODE: "3" }));
        assert_eq!((ends.exit, wrong), (Some(PlannedExit { after: Duration::from_secs(5), code: 3 }), vec![]));
    }

    #[test]
    fn an_annotation_without_effect_is_named_and_the_others_have_theirs() {
        for (annotations, parts) in [
            (json!({ RECORDS: "many" }), [RECORDS, "many"]),
            (json!({ RUN_FOR: "soon" }), [RUN_FOR, "soon"]),
            (json!({ RUN_FOR: "1s", EXIT_CODE: "256" }), [EXIT_CODE, "256"]),
            (json!({ EXIT_CODE: "1" }), [EXIT_CODE, RUN_FOR]),
            (json!({ "mooring.dev/record": "1" }), ["mooring.dev/record:", RECORDS]),
        ] {
            let mut annotations = annotations;
            annotations[WRITE_EVERY] = json!("100ms");
            let (settings, wrong) = settings(&pod(annotations), &WorkloadDefaults::default());
            assert_eq!((settings.write_every, wrong.len()), (Duration::from_millis(100), 1), "{wrong:?}");
            assert!(parts.iter().all(|part| wrong[0].contains(part)), "{wrong:?}");
        }
    }
}
