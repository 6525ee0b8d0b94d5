//! Mounts of a container's program: the published volumes, emptyDir, hostPath, ConfigMaps, Secrets, the downward API and
//! projected volumes (upstream `kubelet_pods.go` makeMounts).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, DownwardAPIVolumeFile, KeyToPath, Volume};

use super::references::Data;
use super::resource_field::amount;
use super::seen::{Published, Seen, field};
use super::unprepared::Unprepared;
use crate::machine::api::{MountSource, MountSpec};
use crate::node_agent::expansion::expanded;
use crate::node_agent::volumes::host_path;

type Files = BTreeMap<String, String>;

/// Returns the mounts of a container, and why others are left out.
///
/// # Errors
/// The first volume that cannot be prepared.
pub(super) fn mounts(
    seen: &Seen<'_>,
    container: &Container,
    env: &BTreeMap<String, String>,
) -> Result<(Vec<MountSpec>, Vec<String>), Unprepared> {
    let (mut mounts, mut without) = (Vec::new(), Vec::new());
    let volumes = seen.pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    for mount in container.volume_mounts.iter().flatten() {
        let Some(volume) = volumes.iter().find(|volume| volume.name == mount.name) else { continue };
        let Some((source, readonly)) = source(seen, volume)? else {
            let is_host_path = volume.host_path.is_some();
            let why = if is_host_path { "hostPath needs `--containers-as-root`" } else { "its type is not served" };
            without.push(format!("volume {} at {} is not mounted: {why}", mount.name, mount.mount_path));
            continue;
        };
        let expression = mount.sub_path_expr.as_deref().filter(|path| !path.is_empty());
        let sub_path = expression.map(|path| expanded(path, env));
        mounts.push(MountSpec {
            source,
            at: mount.mount_path.clone(),
            sub_path: sub_path.or(mount.sub_path.clone()).filter(|path| !path.is_empty()),
            readonly: readonly || mount.read_only == Some(true),
        });
    }
    for device in container.volume_devices.iter().flatten() {
        if let Some(Published { path, readonly, .. }) = seen.published.get(&device.name) {
            let source = MountSource::Device(path.clone());
            mounts.push(MountSpec { source, at: device.device_path.clone(), sub_path: None, readonly: *readonly });
        }
    }
    Ok((mounts, without))
}

/// Returns a volume, and true if it is read-only. None for one that is not served.
fn source(seen: &Seen<'_>, volume: &Volume) -> Result<Option<(MountSource, bool)>, Unprepared> {
    if let Some(Published { path, readonly, host }) = seen.published.get(&volume.name) {
        let mounted = if *host { MountSource::HostPath } else { MountSource::Published };
        return Ok(Some((mounted(path.clone()), *readonly)));
    }
    if volume.empty_dir.is_some() {
        return Ok(Some((MountSource::EmptyDir(volume.name.clone()), false)));
    }
    let failed = |why: String| Unprepared::volume(&volume.name, why);
    if let Some(host) = volume.host_path.as_ref().filter(|_| seen.host_paths) {
        host_path::set_up(host).map_err(failed)?;
        return Ok(Some((MountSource::HostPath(host.path.clone().into()), false)));
    }
    let files = if let Some(map) = &volume.config_map {
        chosen(seen.references.config_map(&map.name, map.optional).map_err(failed)?, map.items.as_deref())
            .map_err(failed)?
    } else if let Some(secret) = &volume.secret {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        chosen(seen.references.secret(name, secret.optional).map_err(failed)?, secret.items.as_deref())
            .map_err(failed)?
    } else if let Some(downward) = &volume.downward_api {
        fields(seen, downward.items.as_deref()).map_err(failed)?
    } else if let Some(projected) = &volume.projected {
        let mut files = Files::new();
        for source in projected.sources.iter().flatten() {
            if let Some(map) = &source.config_map {
                let data = seen.references.config_map(&map.name, map.optional).map_err(failed)?;
                files.extend(chosen(data, map.items.as_deref()).map_err(failed)?);
            }
            if let Some(secret) = &source.secret {
                let data = seen.references.secret(&secret.name, secret.optional).map_err(failed)?;
                files.extend(chosen(data, secret.items.as_deref()).map_err(failed)?);
            }
            if let Some(downward) = &source.downward_api {
                files.extend(fields(seen, downward.items.as_deref()).map_err(failed)?);
            }
            if let Some(token) = &source.service_account_token {
                let text = seen.references.token(token.audience.as_deref().unwrap_or_default());
                files.insert(token.path.clone(), text.unwrap_or_default().to_owned());
            }
        }
        files
    } else {
        return Ok(None);
    };
    Ok(Some((MountSource::Files { name: volume.name.clone(), files }, true)))
}

/// Returns the selected keys under their paths, or all.
fn chosen(data: Option<&Data>, items: Option<&[KeyToPath]>) -> Result<Files, String> {
    let Some(data) = data else { return Ok(Files::new()) };
    let Some(items) = items.filter(|items| !items.is_empty()) else { return Ok(data.clone()) };
    let one = |item: &KeyToPath| match data.get(&item.key) {
        Some(content) => Ok((item.path.clone(), content.clone())),
        None => Err(format!("references non-existent config key: {}", item.key)),
    };
    items.iter().map(one).collect()
}

fn fields(seen: &Seen<'_>, items: Option<&[DownwardAPIVolumeFile]>) -> Result<Files, String> {
    let one = |item: &DownwardAPIVolumeFile| {
        let content = match (&item.field_ref, &item.resource_field_ref) {
            (Some(wanted), _) => field(seen, wanted),
            (None, Some(of)) => Some(amount(seen, None, of)?),
            (None, None) => None,
        };
        let content = content.ok_or_else(|| format!("{}: only known fields of the pod are served", item.path))?;
        Ok((item.path.clone(), content))
    };
    items.unwrap_or_default().iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use substrate::json::{from_value, json};

    use super::super::references::References;
    use super::*;

    #[test]
    fn volumes_become_mounts() {
        let pod: Pod = from_value(json!({
            "metadata": { "name": "p", "namespace": "d", "uid": "u" },
            "spec": {
                "containers": [{ "name": "app", "volumeMounts": [
                    { "name": "data", "mountPath": "/data", "subPathExpr": "$(POD)" },
                    { "name": "tmp", "mountPath": "/cache" },
                    { "name": "conf", "mountPath": "/etc/app", "readOnly": true },
                    { "name": "host", "mountPath": "/host" },
                ] }],
                "volumes": [
                    { "name": "data", "persistentVolumeClaim": { "claimName": "c" } },
                    { "name": "tmp", "emptyDir": {} },
                    { "name": "conf", "configMap": { "name": "m", "items": [{ "key": "k", "path": "a/b" }] } },
                    { "name": "host", "hostPath": { "path": "/" } },
                ],
            },
        }))
        .unwrap();
        let mut references = References::default();
        let data = BTreeMap::from([("k", "v"), ("other", "w")].map(|(key, value)| (key.to_owned(), value.to_owned())));
        references.config_maps.insert("m".to_owned(), Some(data));
        let data = Published { path: "/pods/u/data".into(), readonly: false, host: false };
        let seen = Seen {
            pod: &pod,
            host_ip: String::new(),
            references: &references,
            host_paths: false,
            published: BTreeMap::from([("data".to_owned(), data)]),
            allocatable: crate::scheduler::resources::Resources::default(),
        };
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let env = BTreeMap::from([("POD".to_owned(), "p".to_owned())]);
        let (all, without) = mounts(&seen, container, &env).unwrap();
        assert_eq!(without, ["volume host at /host is not mounted: hostPath needs `--containers-as-root`"]);
        let files = BTreeMap::from([("a/b".to_owned(), "v".to_owned())]);
        let expected = [
            (MountSource::Published("/pods/u/data".into()), Some("p"), false),
            (MountSource::EmptyDir("tmp".to_owned()), None, false),
            (MountSource::Files { name: "conf".to_owned(), files }, None, true),
        ];
        let reported: Vec<_> =
            all.iter().map(|mount| (mount.source.clone(), mount.sub_path.as_deref(), mount.readonly)).collect();
        assert_eq!(reported, expected);
        let (all, without) = mounts(&Seen { host_paths: true, ..seen }, container, &env).unwrap();
        assert_eq!((&all[3].source, without), (&MountSource::HostPath("/".into()), vec![]));
    }
}
