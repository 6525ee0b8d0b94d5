//! CSINode and plugin registration (upstream `pkg/volume/csi/nodeinfomanager`, `pkg/kubelet/pluginmanager`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::Channel;
use csi_proto::csi::NodeGetInfoResponse;
use csi_proto::registration::registration_client::RegistrationClient;
use csi_proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use substrate::HttpService;
use substrate::json::json;

use super::context::PluginContext;
use super::csi::{Driver, bounded};
use crate::kube::{Api, ApiError};
use crate::node_agent::events::{Registered, RegistrationFailed};
use crate::node_agent::node::lease::owner;
use crate::node_agent::volume_manager::StepError;

/// Annotation that maps driver names to node ids.
pub const NODE_ID_ANNOTATION: &str = "csi.volume.kubernetes.io/nodeid";
/// Attempts at one update of Node or CSINode; first wait between them and its growth factor (`updateBackoff`).
const UPDATE_TRIES: u32 = 4;
const UPDATE_BACKOFF: (Duration, u32) = (Duration::from_millis(10), 5);
/// First wait and growth factor for the first creation of CSINode (`initBackoff`).
const INIT_BACKOFF: (Duration, u32) = (Duration::from_millis(15), 6);

/// Error of a plugin registration.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum RegistrationError {
    /// {0}
    Call(String),
    /// plugin {name} has type `{kind}`, only CSIPlugin is handled
    Type {
        /// The plugin.
        name: String,
        /// Its type.
        kind: String,
    },
    /// driver `{name}`: none of the versions specified [{versions}] are supported
    Versions {
        /// The plugin.
        name: String,
        /// Versions that it offers.
        versions: String,
    },
    /// the plugin's name must not be empty
    NoName,
    /// driver `{0}` returned an empty node ID
    NoNodeId(String),
    /// detected topology value collision: driver reported "{key}":"{new}" but existing label is "{key}":"{old}"
    Topology {
        /// The label.
        key: String,
        /// The driver's value.
        new: String,
        /// The label's value.
        old: String,
    },
    /// error updating {object}: {error}
    Api {
        /// The object.
        object: &'static str,
        /// The API server's error.
        error: String,
    },
}

impl From<StepError> for RegistrationError {
    fn from(error: StepError) -> Self {
        Self::Call(error.message().to_owned())
    }
}

/// Ensures that the CSINode exists, so that the node may become Ready. Retries until it does.
pub(crate) async fn initialize_csi_node(room: &PluginContext, node: &Node) {
    let api = room.client.all::<CSINode>();
    let mut wait = INIT_BACKOFF.0;
    loop {
        match ensure(&api, node).await {
            Ok(_) => break,
            Err(_) => room.ctx.sleep(wait).await,
        }
        wait = (wait * INIT_BACKOFF.1).min(Duration::from_secs(10));
    }
    room.readiness.csi_node_is_there();
}

/// Reads the CSINode of `node`. Creates it if it is missing, and replaces it if it belongs to an older Node.
async fn ensure(api: &Api<CSINode>, node: &Node) -> Result<Arc<CSINode>, ApiError> {
    let name = node.metadata.name.clone().unwrap_or_default();
    match api.get(&name).await {
        Ok(found) => {
            let owners = found.metadata.owner_references.as_deref().unwrap_or_default();
            if owners.iter().any(|o| Some(&o.uid) == node.metadata.uid.as_ref()) {
                return Ok(found);
            }
            api.delete(&name, &crate::kube::DeleteParams::default()).await?;
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    api.create(&CSINode {
        metadata: ObjectMeta { name: Some(name), owner_references: Some(vec![owner(node)]), ..ObjectMeta::default() },
        spec: CSINodeSpec { drivers: Vec::new() },
    })
    .await
}

/// Registers the plugin behind the socket `registration`. `dial` connects to the endpoint that it names. Returns the
/// driver's name.
///
/// # Errors
/// The first step that failed. The plugin was notified of it.
pub(crate) async fn register(
    room: &PluginContext,
    registration: HttpService,
    dial: impl Fn(&str) -> HttpService,
) -> Result<String, RegistrationError> {
    let timers = &room.config.timers;
    let mut client = RegistrationClient::new(Channel(registration));
    let plugin = bounded(&room.ctx, timers.registration_get_info_timeout, client.get_info(InfoRequest {})).await?;
    let result = install(room, &plugin, dial).await;
    let status = RegistrationStatus {
        plugin_registered: result.is_ok(),
        error: result.as_ref().err().map(ToString::to_string).unwrap_or_default(),
    };
    let notify = client.notify_registration_status(status);
    let reported = bounded(&room.ctx, timers.registration_notify_timeout, notify).await;
    result?;
    reported?;
    Ok(plugin.name)
}

async fn install(
    room: &PluginContext,
    plugin: &PluginInfo,
    dial: impl Fn(&str) -> HttpService,
) -> Result<(), RegistrationError> {
    validate(plugin)?;
    let driver =
        Driver::connect(&room.ctx, dial(&plugin.endpoint), room.config.timers.kubelet_csi_timeout, &plugin.name)
            .await?;
    // Mounts may begin before Node and CSINode are updated: upstream fills its driver store first, too.
    let info = driver.info().await?;
    room.drivers.lock().insert(plugin.name.clone(), driver);
    room.driver_registered.notify_one();
    room.changes.signal();
    if info.node_id.is_empty() {
        return Err(RegistrationError::NoNodeId(plugin.name.clone()));
    }
    let node = update_node(room, &plugin.name, &info).await?;
    update_csi_node(room, &node, |csi_node| {
        let mut changed = install_driver(csi_node, &plugin.name, &info)?;
        if substrate::mutant!(room.ctx, "other-drivers-unlisted") {
            changed.spec.drivers.retain(|d| d.name == plugin.name);
        }
        Some(changed)
    })
    .await
}

/// Validates a plugin before its registration.
fn validate(plugin: &PluginInfo) -> Result<(), RegistrationError> {
    if plugin.name.is_empty() {
        return Err(RegistrationError::NoName);
    }
    if plugin.r#type != "CSIPlugin" {
        return Err(RegistrationError::Type { name: plugin.name.clone(), kind: plugin.r#type.clone() });
    }
    let is_v1 = |v: &String| v.trim_start_matches('v').split('.').next() == Some("1");
    if !plugin.supported_versions.iter().any(is_v1) {
        let versions = plugin.supported_versions.join(" ");
        return Err(RegistrationError::Versions { name: plugin.name.clone(), versions });
    }
    Ok(())
}

fn segments(info: &NodeGetInfoResponse) -> BTreeMap<String, String> {
    info.accessible_topology.as_ref().map(|t| t.segments.clone()).unwrap_or_default()
}

/// Returns the Node with the driver's node id and topology, or None if it has them.
///
/// # Errors
/// If a topology label exists with another value.
pub(crate) fn with_driver(
    node: &Node,
    driver: &str,
    info: &NodeGetInfoResponse,
) -> Result<Option<Node>, RegistrationError> {
    let mut changed = node.clone();
    let labels = changed.metadata.labels.get_or_insert_default();
    for (key, new) in segments(info) {
        match labels.get(&key) {
            Some(old) if *old != new => {
                return Err(RegistrationError::Topology { key, new, old: old.clone() });
            }
            Some(_) => {}
            None => drop(labels.insert(key, new)),
        }
    }
    let mut ids = node_ids(node);
    if ids.insert(driver.to_owned(), info.node_id.clone()).as_ref() != Some(&info.node_id) {
        set_node_ids(&mut changed, &ids);
    }
    let same = |node: &Node| {
        let metadata = &node.metadata;
        (metadata.labels.clone().unwrap_or_default(), metadata.annotations.clone().unwrap_or_default())
    };
    Ok((same(&changed) != same(node)).then_some(changed))
}

/// Writes the map of driver names to node ids.
fn set_node_ids(node: &mut Node, ids: &BTreeMap<String, String>) {
    let annotations = node.metadata.annotations.get_or_insert_default();
    if ids.is_empty() {
        annotations.remove(NODE_ID_ANNOTATION);
    } else {
        annotations.insert(NODE_ID_ANNOTATION.to_owned(), json!(ids).to_string());
    }
}

fn node_ids(node: &Node) -> BTreeMap<String, String> {
    let annotation = node.metadata.annotations.as_ref().and_then(|a| a.get(NODE_ID_ANNOTATION));
    // An unreadable annotation is replaced.
    annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

async fn update_node(
    room: &PluginContext,
    driver: &str,
    info: &NodeGetInfoResponse,
) -> Result<Arc<Node>, RegistrationError> {
    let _alone = room.node_drivers.lock().await;
    let api = room.client.all::<Node>();
    let name = &room.config.node_name;
    let mut wait = UPDATE_BACKOFF.0;
    let mut last = None;
    for _ in 0..UPDATE_TRIES {
        match api.get(name).await {
            Ok(node) => match with_driver(&node, driver, info)? {
                None => return Ok(node),
                Some(mut changed) => {
                    if substrate::mutant!(room.ctx, "node-id-not-annotated") {
                        changed.metadata.annotations.get_or_insert_default().remove(NODE_ID_ANNOTATION);
                    }
                    match api.patch_node_status(&node, &changed).await {
                        Ok(node) => return Ok(node),
                        Err(error) => last = Some(error),
                    }
                }
            },
            Err(error) => last = Some(error),
        }
        room.ctx.sleep(wait).await;
        wait *= UPDATE_BACKOFF.1;
    }
    Err(api_error("Node", last))
}

fn api_error(object: &'static str, error: Option<ApiError>) -> RegistrationError {
    RegistrationError::Api { object, error: error.map(|e| e.to_string()).unwrap_or_default() }
}

/// Returns the CSINode with the driver's entry from `info`, or None if it has that entry.
pub(crate) fn install_driver(csi_node: &CSINode, driver: &str, info: &NodeGetInfoResponse) -> Option<CSINode> {
    let keys: Vec<String> = segments(info).into_keys().collect();
    let entry = CSINodeDriver {
        name: driver.to_owned(),
        node_id: info.node_id.clone(),
        topology_keys: (!keys.is_empty()).then_some(keys),
        // 0 means no limit. A negative count is invalid and ignored.
        allocatable: (info.max_volumes_per_node > 0)
            .then(|| VolumeNodeResources { count: Some(i32::try_from(info.max_volumes_per_node).unwrap_or(i32::MAX)) }),
    };
    if csi_node.spec.drivers.contains(&entry) {
        return None;
    }
    let mut changed = csi_node.clone();
    changed.spec.drivers.retain(|d| d.name != driver);
    changed.spec.drivers.push(entry);
    Some(changed)
}

async fn update_csi_node(
    room: &PluginContext,
    node: &Node,
    change: impl Fn(&CSINode) -> Option<CSINode>,
) -> Result<(), RegistrationError> {
    let api = room.client.all::<CSINode>();
    let mut wait = UPDATE_BACKOFF.0;
    let mut last = None;
    for _ in 0..UPDATE_TRIES {
        match ensure(&api, node).await {
            Ok(csi_node) => match change(&csi_node) {
                None => return Ok(()),
                Some(changed) => match api.replace(&changed).await {
                    Ok(_) => return Ok(()),
                    Err(error) => last = Some(error),
                },
            },
            Err(error) => last = Some(error),
        }
        room.ctx.sleep(wait).await;
        wait *= UPDATE_BACKOFF.1;
    }
    Err(api_error("CSINode", last))
}

/// Asks a registered driver for its volume limit, and writes a changed limit to CSINode.
///
/// # Errors
/// If the driver or the API server refuses.
pub(crate) async fn update_allocatable(room: &PluginContext, driver: &str) -> Result<(), RegistrationError> {
    let Some(known) = room.drivers.lock().get(driver).cloned() else { return Ok(()) };
    let info = known.info().await?;
    let name = &room.config.node_name;
    let node = room.client.all::<Node>().get(name).await.map_err(|e| api_error("Node", Some(e)))?;
    update_csi_node(room, &node, |csi_node| install_driver(csi_node, driver, &info)).await
}

/// Removes a driver whose socket is gone from Node and CSINode.
///
/// # Errors
/// If the API server refuses.
pub(crate) async fn deregister(room: &PluginContext, driver: &str) -> Result<(), RegistrationError> {
    room.drivers.lock().remove(driver);
    let alone = room.node_drivers.lock().await;
    let api = room.client.all::<Node>();
    let name = &room.config.node_name;
    let node = api.get(name).await.map_err(|e| api_error("Node", Some(e)))?;
    let mut ids = node_ids(&node);
    if ids.remove(driver).is_some() && !substrate::mutant!(room.ctx, "id-of-former-driver-kept") {
        let mut changed = Node::clone(&node);
        set_node_ids(&mut changed, &ids);
        api.patch_node_status(&node, &changed).await.map_err(|e| api_error("Node", Some(e)))?;
    }
    drop(alone);
    update_csi_node(room, &node, |csi_node| {
        let mut changed = csi_node.clone();
        changed.spec.drivers.retain(|d| d.name != driver);
        (changed.spec.drivers.len() != csi_node.spec.drivers.len()).then_some(changed)
    })
    .await
}

/// Registers one plugin; retries until it succeeds. Backoff: 500 ms ×2 up to 2 m 2 s, aligned to the plugin
/// reconciler's period of 1 s. Returns the driver's name.
pub(crate) async fn keep_trying(
    room: &Arc<PluginContext>,
    registration: HttpService,
    dial: impl Fn(&str) -> HttpService,
) -> String {
    loop {
        if let Some(driver) = try_until(room, &registration, &dial, std::future::pending()).await {
            return driver;
        }
    }
}

/// Like `keep_trying`, until `gone`. An attempt under way is not cancelled.
pub(crate) async fn try_until(
    room: &Arc<PluginContext>,
    registration: &HttpService,
    dial: impl Fn(&str) -> HttpService,
    gone: impl Future<Output = ()>,
) -> Option<String> {
    let timers = &room.config.timers;
    let mut backoff = timers.pending_initial;
    tokio::pin!(gone);
    loop {
        match register(room, registration.clone(), &dial).await {
            Ok(driver) => {
                room.ctx.emit(Registered { driver: driver.as_str().into(), node: room.config.name() });
                return Some(driver);
            }
            Err(error) => room.ctx.emit(RegistrationFailed { error: error.to_string(), node: room.config.name() }),
        }
        tokio::select! { biased;
            () = &mut gone => return None,
            () = room.ctx.sleep(backoff.max(timers.registration_reconcile)) => {}
        }
        backoff = (backoff * 2).min(timers.pending_max);
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::csi::Topology;

    use super::*;
    use crate::kube::Patch;

    fn info(max: i64) -> NodeGetInfoResponse {
        NodeGetInfoResponse {
            node_id: "i-1".to_owned(),
            max_volumes_per_node: max,
            accessible_topology: Some(Topology {
                segments: [("topology.kubernetes.io/zone".to_owned(), "a".to_owned())].into(),
            }),
        }
    }

    fn node(zone: Option<&str>) -> Node {
        let labels = zone.map(|z| json!({ "topology.kubernetes.io/zone": z }));
        substrate::json::from_value(json!({ "metadata": { "name": "n", "labels": labels } })).expect("a node")
    }

    #[test]
    fn a_node_gets_the_annotation_and_the_labels_that_it_lacks() {
        let patch = |node: Node| {
            let changed = with_driver(&node, "d", &info(1)).expect("no collision").expect("a change");
            Patch::node_status(&node, &changed).expect("a patch").value().clone()
        };
        let bare = patch(node(None));
        assert_eq!(bare["metadata"]["annotations"][NODE_ID_ANNOTATION], r#"{"d":"i-1"}"#);
        assert_eq!(bare["metadata"]["labels"]["topology.kubernetes.io/zone"], "a");
        assert_eq!(patch(node(Some("a")))["metadata"]["labels"], substrate::json::Value::Null);
    }

    #[test]
    fn another_zone_is_a_collision() {
        let error = with_driver(&node(Some("b")), "d", &info(1)).expect_err("a collision");
        assert_eq!(
            error.to_string(),
            "detected topology value collision: driver reported \"topology.kubernetes.io/zone\":\"a\" but existing \
             label is \"topology.kubernetes.io/zone\":\"b\""
        );
    }

    #[test]
    fn the_driver_entry_is_replaced_only_when_it_differs() {
        let empty = CSINode::default();
        let one = install_driver(&empty, "d", &info(26)).expect("a change");
        assert_eq!(one.spec.drivers[0].allocatable.as_ref().and_then(|a| a.count), Some(26));
        assert_eq!(install_driver(&one, "d", &info(26)), None);
        let open = install_driver(&one, "d", &info(0)).expect("a change");
        assert_eq!((open.spec.drivers.len(), open.spec.drivers[0].allocatable.is_none()), (1, true));
    }

    #[test]
    fn only_csi_plugins_of_version_1_are_taken() {
        let plugin = |kind: &str, versions: &[&str]| PluginInfo {
            r#type: kind.to_owned(),
            name: "d".to_owned(),
            endpoint: String::new(),
            supported_versions: versions.iter().map(|v| (*v).to_owned()).collect(),
        };
        assert_eq!(validate(&plugin("CSIPlugin", &["1.0.0"])), Ok(()));
        assert!(validate(&plugin("DevicePlugin", &["1.0.0"])).is_err());
        assert!(validate(&plugin("CSIPlugin", &["0.3.0"])).is_err());
    }
}
