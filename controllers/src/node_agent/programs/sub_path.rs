//! Paths inside a volume that a container mounts instead of the whole volume (upstream `kubelet_pods.go` makeMounts,
//! `subpath_linux.go`). A link in the volume must not lead out of it.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;

use super::context::ProgramContext;

/// Parts of upstream's text: the path has to be made, or it exists.
const CREATE: &str = "create subPath directory";
const PREPARE: &str = "prepare subPath";

/// Returns the containers with a wrong path, each with upstream's text.
pub(crate) fn wrong(room: &ProgramContext, uid: &str, pod: &Pod) -> BTreeMap<String, String> {
    let all = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let names = all.map(|container| &container.name);
    names.filter_map(|name| Some((name.clone(), check(room, uid, pod, name).err()?))).collect()
}

/// Checks the paths of a container, if this node runs programs. A path with variables is checked when the root of the
/// container is made.
///
/// # Errors
/// Upstream's text.
pub(crate) fn check(room: &ProgramContext, uid: &str, pod: &Pod, name: &str) -> Result<(), String> {
    if !room.config.programs {
        return Ok(());
    }
    let mut all = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let Some(container) = all.find(|container| container.name == name) else { return Ok(()) };
    let mounted = room.volumes.lock().mounted(uid);
    for mount in container.volume_mounts.iter().flatten() {
        let Some(path) = mount.sub_path.as_deref().filter(|path| !path.is_empty()) else { continue };
        let volume = mounted.iter().find(|(volume, spec)| *volume == mount.name && !spec.block);
        let Some((_, spec)) = volume else { continue };
        check_path(&room.paths.target_of(uid, spec), path)
            .map_err(|verb| format!("failed to {verb} for volumeMount {:?} of container {name:?}", mount.name))?;
    }
    Ok(())
}

/// Checks a path inside the mounted `volume`. The missing part is made later, below the part that exists.
fn check_path(volume: &Path, path: &str) -> Result<(), &'static str> {
    // The mount of the volume itself fails then.
    let Ok(volume) = std::fs::canonicalize(volume) else { return Ok(()) };
    let path = volume.join(path);
    let is_inside = |path: &Path| std::fs::canonicalize(path).is_ok_and(|real| real.starts_with(&volume));
    if path.exists() {
        return if is_inside(&path) { Ok(()) } else { Err(PREPARE) };
    }
    // A link without a target exists, and is not inside.
    let last = path.ancestors().find(|part| part.symlink_metadata().is_ok());
    if last.is_some_and(is_inside) { Ok(()) } else { Err(CREATE) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_that_leads_out_of_the_volume_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let volume = root.path().join("volume");
        std::fs::create_dir_all(volume.join("own/below")).unwrap();
        std::fs::write(volume.join("file"), "x").unwrap();
        for (link, target) in
            [("inner", "own"), ("out", "/bin"), ("program", "/bin/sh"), ("back", ".."), ("none", "/no")]
        {
            symlink(target, volume.join(link)).unwrap();
        }
        for path in ["own", "own/below", "file", "inner/below", "new", "own/new/deep", "inner/new"] {
            assert_eq!(check_path(&volume, path), Ok(()), "{path}");
        }
        for path in ["out", "program", "back"] {
            assert_eq!(check_path(&volume, path), Err(PREPARE), "{path}");
        }
        for path in ["none", "out/none-of-mooring", "none/deep"] {
            assert_eq!(check_path(&volume, path), Err(CREATE), "{path}");
        }
        assert_eq!(check_path(&root.path().join("absent"), "x"), Ok(()));
    }
}
