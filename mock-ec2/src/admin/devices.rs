//! The device stream: which devices an instance has, and each that comes or goes, as JSON lines.
//!
//! Whoever plays the instance's hardware follows it and plugs or pulls a block device for each line. File names are
//! given out here and never taken in.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::mpsc;

use super::late::Late;
use super::{App, error};
use crate::cloud::{Heard, Listener};
use crate::events::{AttachmentChanged, AttachmentPhase, ModificationChanged, ModificationState};
use crate::state::State as Machine;
use crate::state::error::Ec2Error;
use crate::state::event::Event;
use crate::state::ids::{InstanceId, VolumeId};
use crate::state::volume::AttachmentState;

/// Lines that wait for a slow reader before its stream is cut; it then follows anew and gets the whole picture.
const BACKLOG: usize = 1_024;

/// One line of the stream.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line<'a> {
    /// The device is there.
    Attached {
        volume: &'a VolumeId,
        device: &'a str,
        /// The name of the backing file, relative to the volume directory.
        file: &'a str,
        size_bytes: u64,
    },
    /// The lines before this one are all devices that were there when the stream began.
    Synced,
    /// The device is about to go.
    Detaching { volume: &'a VolumeId, forced: bool },
    /// The device is gone.
    Detached { volume: &'a VolumeId, forced: bool },
    /// The device has a new size.
    Resized { volume: &'a VolumeId, size_bytes: u64 },
}

impl Line<'_> {
    fn bytes(&self) -> Bytes {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line.into()
    }
}

/// A line on its way to one reader, and what it does to a device.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) bytes: Bytes,
    pub(super) change: Change,
}

/// What a line does to a device.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// The device of the volume appears under a name; with its size in bytes.
    Appears(VolumeId, String, u64),
    /// The device of the volume goes or is gone.
    Goes(VolumeId),
    /// Nothing that another line would undo.
    Other,
}

impl Told {
    fn of(line: &Line<'_>) -> Self {
        let change = match line {
            Line::Attached { volume, device, size_bytes, .. } => {
                Change::Appears((*volume).clone(), (*device).to_owned(), *size_bytes)
            }
            Line::Detaching { volume, .. } | Line::Detached { volume, .. } => Change::Goes((*volume).clone()),
            Line::Synced | Line::Resized { .. } => Change::Other,
        };
        Self { bytes: line.bytes(), change }
    }
}

/// The line of a device that appears with the bytes of the file `file`.
pub(super) fn appears(volume: &VolumeId, device: &str, file: &str, size_bytes: u64) -> Bytes {
    Line::Attached { volume, device, file, size_bytes }.bytes()
}

/// Everyone who follows an instance.
#[derive(Debug, Default)]
pub(super) struct DeviceStreams(Mutex<Vec<(InstanceId, mpsc::Sender<Told>)>>);

impl DeviceStreams {
    fn lock(&self) -> MutexGuard<'_, Vec<(InstanceId, mpsc::Sender<Told>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new stream of `instance`, with what is there now already in it.
    fn follow(&self, state: &Machine, instance: &InstanceId) -> Result<mpsc::Receiver<Told>, Ec2Error> {
        let slots = &state.instance(instance)?.slots;
        let (lines, stream) = mpsc::channel(BACKLOG);
        for volume in slots.values().filter_map(|id| state.volume(id).ok()).filter(|v| !v.root) {
            let Some(attachment) = volume.attachments.get(instance) else { continue };
            if attachment.state != AttachmentState::Attaching {
                let line = attached(&volume.id, &attachment.device, volume.size_gib);
                // The channel holds more lines than an instance has slots.
                let _ = lines.try_send(Told::of(&line));
            }
            if matches!(attachment.state, AttachmentState::Detaching | AttachmentState::Busy) {
                let line = Line::Detaching { volume: &volume.id, forced: attachment.forced };
                let _ = lines.try_send(Told::of(&line));
            }
        }
        let _ = lines.try_send(Told::of(&Line::Synced));
        let mut all = self.lock();
        // Nobody may have been told of anything since others left.
        all.retain(|(_, lines)| !lines.is_closed());
        all.push((instance.clone(), lines));
        Ok(stream)
    }

    /// Tells those who follow the instance of `event`. A stream that nobody reads, or too slowly, ends.
    fn tell(&self, event: &Event) {
        let Event::Attachment(AttachmentChanged { volume, instance, device, state, forced }, size_gib) = event else {
            return;
        };
        let forced = *forced;
        let line = match state {
            AttachmentPhase::Attached => attached(volume, device, *size_gib),
            AttachmentPhase::Detaching => Line::Detaching { volume, forced },
            // The device stays where it is, or is not there yet.
            AttachmentPhase::Busy | AttachmentPhase::Attaching => return,
            AttachmentPhase::Detached => Line::Detached { volume, forced },
        };
        self.send(instance, &line);
    }

    /// Tells those who follow one of `instances` that the device of `volume` has a new size.
    fn resized<'a>(&self, volume: &VolumeId, size_gib: u64, instances: impl Iterator<Item = &'a InstanceId>) {
        for instance in instances {
            self.send(instance, &Line::Resized { volume, size_bytes: size_gib << 30 });
        }
    }

    fn send(&self, instance: &InstanceId, line: &Line<'_>) {
        let told = Told::of(line);
        self.lock().retain(|(followed, lines)| followed != instance || lines.try_send(told.clone()).is_ok());
    }
}

impl Listener for DeviceStreams {
    fn hear(&self, heard: &Heard<'_>) {
        self.tell(heard.event);
        if let Event::Modification(ModificationChanged { volume, state: ModificationState::Optimizing, size_gib }) =
            heard.event
            && let Ok(found) = heard.state.volume(volume)
        {
            self.resized(volume, *size_gib, found.attachments.keys());
        }
    }
}

fn attached<'a>(volume: &'a VolumeId, device: &'a str, size_gib: u64) -> Line<'a> {
    Line::Attached { volume, device, file: volume.as_str(), size_bytes: size_gib << 30 }
}

/// `GET /admin/v1/devices?instance=i-…`.
pub(super) async fn stream(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let query = uri.query().unwrap_or_default();
    let Some(text) = query.split('&').find_map(|pair| pair.strip_prefix("instance=")) else {
        return error(StatusCode::BAD_REQUEST, "instance: name one, as in /admin/v1/devices?instance=i-…");
    };
    let instance: InstanceId = match text.parse() {
        Ok(instance) => instance,
        Err(e) => return error(StatusCode::BAD_REQUEST, format!("instance: `{text}` {e}")),
    };
    let lines = match app.ec2.look(&app.ctx, |state| app.devices.follow(state, &instance)) {
        Ok(lines) => lines,
        Err(e) => return error(StatusCode::NOT_FOUND, e),
    };
    let lines = futures_util::stream::unfold(Late::new(app, instance, lines), async |mut lines| {
        lines.next().await.map(|line| (Ok::<_, Infallible>(line), lines))
    });
    let mut response = Response::new(axum::body::Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response
}
