//! The device plug: adds and removes block devices on a node as the cloud attaches and detaches volumes.
//!
//! It follows the cloud's device stream of one instance. Each (re)connection starts with all current attachments and a
//! `synced` line, so that the plug catches up after an interruption: devices outside the list are pulled. A failed disk
//! operation is retried by the same means, on a new connection.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::{Request, header};
use http_body_util::BodyExt;
use serde::Deserialize;
use substrate::body::{Body, BoxError, HttpService, call, empty};
use substrate::json::Text;
use substrate::link::Streaming;
use substrate::process::Ctx;

use crate::events::{self, DiskPlugged, DiskResized, DiskUnplugged, PlugDisconnected};
use crate::{Disk, DiskError, Plug};

/// First wait before a new connection; doubles up to [`LAST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Longest wait before a new connection.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// Longest accepted line, in bytes.
const MAX_LINE: usize = 64 << 10;

/// Configuration of a node's plug.
#[derive(Clone, Debug)]
pub struct PlugConfig {
    /// The cloud.
    pub ec2: HttpService,
    /// The node's instance (`i-…`).
    pub instance_id: String,
    /// Name of the node; the `node` field of events.
    pub node_name: String,
    /// The node's disk.
    pub disk: Arc<dyn Disk>,
    /// Bearer token of the cloud's admin endpoints, if required.
    pub token: Option<String>,
}

impl PlugConfig {
    /// Returns the configuration of a plug without a token.
    pub fn new(ec2: HttpService, instance_id: &str, node_name: &str, disk: Arc<dyn Disk>) -> Self {
        let (instance_id, node_name) = (instance_id.to_owned(), node_name.to_owned());
        Self { ec2, instance_id, node_name, disk, token: None }
    }

    /// Returns the node's name, for the trace.
    fn node(&self) -> Text {
        self.node_name.as_str().into()
    }
}

/// Line of the device stream.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line {
    /// The volume is attached to the instance.
    Attached {
        volume: String,
        device: String,
        #[serde(default)]
        file: String,
        size_bytes: u64,
    },
    /// All current attachments were sent.
    Synced,
    /// A detach has started; while the filesystem is mounted the device stays.
    Detaching { volume: String },
    /// The volume is detached, mounted or not.
    Detached { volume: String },
    /// The volume has grown.
    Resized { volume: String, size_bytes: u64 },
    /// Unknown line of a newer cloud.
    #[serde(other)]
    Other,
}

/// Follows the device stream until the process ends.
pub async fn run(ctx: Ctx, config: PlugConfig) {
    let mut wait = FIRST_WAIT;
    loop {
        let mut caught_up = false;
        let ended = follow(&ctx, &config, &mut caught_up).await;
        if let Err(error) = &ended {
            ctx.trace().emit_lazily(ctx.name(), || PlugDisconnected { node: config.node(), error: error.to_string() });
        }
        if ended.is_ok() || caught_up {
            wait = FIRST_WAIT;
        }
        ctx.sleep(wait).await;
        wait = (wait * 2).min(LAST_WAIT);
    }
}

/// the disk failed to apply a line of the device stream
#[derive(Debug, displaydoc::Display, thiserror::Error)]
struct NotDone;

/// Runs one connection to its end. Sets `caught_up` once the disk matches the initial attachments of the connection.
///
/// A failed disk operation does not delay other lines, but ends the connection: the next connection sends it again.
async fn follow(ctx: &Ctx, config: &PlugConfig, caught_up: &mut bool) -> Result<(), BoxError> {
    let uri = format!("/admin/v1/devices?instance={}", config.instance_id);
    let mut request =
        Request::get(uri).header(header::HOST, "localhost").header(header::ACCEPT, "application/x-ndjson");
    if let Some(token) = &config.token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let mut request = request.body(empty())?;
    request.extensions_mut().insert(Streaming);
    let response = call(config.ec2.clone(), request).await?;
    if !response.status().is_success() {
        return Err(format!("the cloud answered {}", response.status()).into());
    }
    let mut seen = Some(BTreeSet::new());
    let mut done = true;
    let mut lines = Lines { body: response.into_body(), partial: BytesMut::new() };
    while let Some(line) = lines.next().await? {
        let line: Line = serde_json::from_slice(&line)?;
        if let (Line::Attached { volume, .. }, Some(seen)) = (&line, &mut seen) {
            seen.insert(volume.clone());
        }
        if line == Line::Synced {
            if let Some(seen) = seen.take() {
                done &= pull_strangers(ctx, config, &seen).await;
                *caught_up = done;
            }
        } else {
            done &= apply(ctx, config, line).await;
        }
        // First apply all initial lines: others may wait for theirs.
        if !done && seen.is_none() {
            return Err(NotDone.into());
        }
    }
    Ok(())
}

/// Applies a line. Returns false if the disk fails at it.
async fn apply(ctx: &Ctx, config: &PlugConfig, line: Line) -> bool {
    let (volume, done) = match line {
        Line::Attached { volume, device, file, size_bytes } => {
            let plug = Plug { volume, device, file, size_bytes };
            let done = plug_in(ctx, config, &plug).await;
            (plug.volume, done)
        }
        Line::Detaching { volume } => match pull(ctx, config, &volume, false).await {
            // Mounted: the cloud reports `busy` until it is not; `detached` follows a forced detach.
            Err(DiskError::Busy { .. }) => return true,
            done => (volume, done),
        },
        Line::Detached { volume } => {
            let done = pull(ctx, config, &volume, true).await;
            (volume, done)
        }
        Line::Resized { volume, size_bytes } => {
            let done = grow(ctx, config, &volume, size_bytes).await;
            (volume, done)
        }
        Line::Synced | Line::Other => return true,
    };
    if let Err(error) = &done {
        let (volume, node) = (volume.into(), config.node());
        ctx.emit(events::DiskError { volume, node, error: error.to_string() });
    }
    done.is_ok()
}

async fn plug_in(ctx: &Ctx, config: &PlugConfig, plug: &Plug) -> Result<(), DiskError> {
    if let Some(there) = config.disk.find(&plug.volume).await? {
        if there.name == plug.device {
            // The volume may have grown meanwhile.
            return grow(ctx, config, &plug.volume, plug.size_bytes).await;
        }
        // Attached again under another name meanwhile.
        pull(ctx, config, &plug.volume, true).await?;
    }
    let device = config.disk.plug(plug).await?;
    let (volume, device) = (plug.volume.as_str().into(), device.name.into());
    ctx.emit(DiskPlugged { volume, node: config.node(), device });
    config.disk.done("plug", &plug.volume, Path::new(&plug.device)).await
}

async fn grow(ctx: &Ctx, config: &PlugConfig, volume: &str, size_bytes: u64) -> Result<(), DiskError> {
    if config.disk.resize(volume, size_bytes).await? {
        ctx.emit(DiskResized { volume: volume.into(), node: config.node(), size_bytes });
    }
    config.disk.done("resize", volume, Path::new("")).await
}

async fn pull(ctx: &Ctx, config: &PlugConfig, volume: &str, force: bool) -> Result<(), DiskError> {
    if config.disk.unplug(volume, force).await? {
        ctx.emit(DiskUnplugged { volume: volume.into(), node: config.node() });
    }
    config.disk.done("unplug", volume, Path::new("")).await
}

/// Pulls the devices of volumes that the cloud no longer lists. Returns false if the disk fails at it.
async fn pull_strangers(ctx: &Ctx, config: &PlugConfig, listed: &BTreeSet<String>) -> bool {
    let Ok(devices) = config.disk.devices().await else { return false };
    let mut done = true;
    for device in devices.iter().filter(|d| !listed.contains(&d.volume)) {
        done &= apply(ctx, config, Line::Detached { volume: device.volume.clone() }).await;
    }
    done
}

/// Body split into lines.
struct Lines {
    body: Body,
    partial: BytesMut,
}

impl Lines {
    async fn next(&mut self) -> Result<Option<BytesMut>, BoxError> {
        loop {
            if let Some(end) = self.partial.iter().position(|b| *b == b'\n') {
                let line = self.partial.split_to(end + 1);
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(line));
            }
            if self.partial.len() > MAX_LINE {
                return Err(format!("a line of the device stream is longer than {MAX_LINE} bytes").into());
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.partial.extend_from_slice(&data);
                    }
                }
                None => return Ok(None),
            }
        }
    }
}
