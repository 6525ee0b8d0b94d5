//! Registration socket of a driver whose services are known from the start: a file that the driver creates, that a
//! fault or a user may remove, and that kubelet watches (upstream `pkg/kubelet/pluginmanager`). It outlives the
//! processes on both sides, as a file does.

use std::sync::Arc;

use super::context::PluginContext;
use super::registration::{deregister, try_until};
use crate::node_agent::config::KnownPlugin;
use crate::node_agent::events::DeregistrationFailed;

/// Registers the driver when its socket appears, and deregisters it when the socket is gone; never ends by itself.
pub(crate) async fn follow(room: Arc<PluginContext>, plugin: KnownPlugin) {
    let KnownPlugin { registration, csi, socket } = plugin;
    let mut watch = socket.0.subscribe();
    loop {
        // The loop holds the sender, so the channel never closes.
        if watch.wait_for(|file| file.there).await.is_err() {
            return;
        }
        let this = *socket.0.borrow();
        let mut other = socket.0.subscribe();
        let gone = async move {
            // The channel never closes, so the wait cannot fail.
            let _ = other.wait_for(|file| *file != this).await;
        };
        let Some(driver) = try_until(&room, &registration, |_| csi.clone(), gone).await else { continue };
        if watch.wait_for(|file| *file != this).await.is_err() {
            return;
        }
        if let Err(error) = deregister(&room, &driver).await {
            room.ctx.emit(DeregistrationFailed { error: error.to_string(), node: room.config.name() });
        }
    }
}
