//! The plugin watcher of the live world: registers each socket in kubelet's `plugins_registry` (upstream
//! `pkg/kubelet/pluginmanager/pluginwatcher`).
//!
//! It reads the directory each second, like upstream's plugin reconciler. A re-created socket counts as a new one.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use substrate::link::Link;
use substrate::{HttpService, dial, latest};

use super::context::PluginContext;
use super::registration::{deregister, keep_trying};
use crate::node_agent::events::DeregistrationFailed;

/// Identity of a socket among those at the same path: device, inode, change time.
type Identity = (u64, u64, i64, i64);

struct Known {
    identity: Identity,
    /// The driver's name once it is registered.
    driver: latest::Receiver<Option<String>>,
    /// Dropped to cancel registration.
    _keep: latest::Sender<()>,
}

/// Watches `directory` forever.
pub(crate) async fn run(room: Arc<PluginContext>, directory: PathBuf) {
    let mut known: BTreeMap<PathBuf, Known> = BTreeMap::new();
    // A scaled-down second must not become a busy loop on a real directory.
    let period = room.ctx.scaled(room.config.timers.registration_reconcile).max(Duration::from_millis(50));
    loop {
        let found = sockets(&directory);
        let lost: Vec<PathBuf> =
            known.iter().filter(|(path, k)| found.get(*path) != Some(&k.identity)).map(|(p, _)| p.clone()).collect();
        for path in lost {
            let driver = known.remove(&path).and_then(|k| k.driver.borrow().clone());
            if let Some(driver) = driver
                && let Err(error) = deregister(&room, &driver).await
            {
                room.ctx.emit(DeregistrationFailed { error: error.to_string(), node: room.config.name() });
            }
        }
        for (path, identity) in found {
            if known.contains_key(&path) {
                continue;
            }
            let keep = latest::Sender::new(());
            let mut kept = keep.subscribe();
            let registered = latest::Sender::new(None);
            let driver = registered.subscribe();
            let (agent_, socket) = (room.clone(), path.clone());
            room.ctx.spawn(async move {
                let registration = peer(&agent_, &socket);
                let dial = |endpoint: &str| peer(&agent_, Path::new(endpoint.trim_start_matches("unix://")));
                tokio::select! { biased;
                    // The sender is dropped when the socket is gone.
                    _ = kept.wait_for(|()| false) => {}
                    name = keep_trying(&agent_, registration, dial) => drop(registered.send_replace(Some(name))),
                }
            });
            known.insert(path, Known { identity, driver, _keep: keep });
        }
        room.ctx.sleep_until(room.ctx.now().mono + period).await;
    }
}

fn peer(room: &PluginContext, socket: &Path) -> HttpService {
    Link::over(&room.ctx, &format!("csi-{}", room.config.node_name), dial::unix(socket))
}

/// Returns the sockets in a directory, except dotfiles. A missing directory has none.
fn sockets(directory: &Path) -> BTreeMap<PathBuf, Identity> {
    let Ok(entries) = std::fs::read_dir(directory) else { return BTreeMap::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            let identity = (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
            metadata.file_type().is_socket().then(|| (entry.path(), identity))
        })
        .collect()
}
