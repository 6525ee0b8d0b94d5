//! The device stream: the devices of an instance and their changes, as JSON lines.
//!
//! The process that plays the instance's hardware follows it and plugs or unplugs a block device for each line. File
//! names are only sent, never received.

use parking_lot::{Mutex, MutexGuard};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::cloud::{Listener, PublishedEvent};
use crate::events::{AttachmentChanged, AttachmentPhase, ModificationChanged, ModificationState};
use crate::state::State as Machine;
use crate::state::error::Ec2Error;
use crate::state::event::Event;
use crate::state::ids::{InstanceId, VolumeId};
use crate::state::volume::AttachmentState;

/// Number of lines that wait for a slow reader before its stream is cut. A new stream starts with all current devices.
const BACKLOG: usize = 1_024;

/// Line of the stream.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line<'a> {
    /// The device exists.
    Attached {
        volume: &'a VolumeId,
        device: &'a str,
        /// Name of the backing file, relative to the volume directory.
        file: &'a str,
        size_bytes: u64,
    },
    /// The lines before this one are all devices that existed at the start of the stream.
    Synced,
    /// The device is being removed.
    Detaching { volume: &'a VolumeId, forced: bool },
    /// The device was removed.
    Detached { volume: &'a VolumeId, forced: bool },
    /// The device has a new size.
    Resized { volume: &'a VolumeId, size_bytes: u64 },
}

impl Line<'_> {
    fn bytes(&self) -> Bytes {
        substrate::encode::line(self).into()
    }
}

/// Line on its way to one reader, with its effect on a device.
#[derive(Clone, Debug)]
pub(super) struct PendingLine {
    pub(super) bytes: Bytes,
    pub(super) change: Change,
}

/// Effect of a line on a device.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// The device of the volume appears under a name; with its size in bytes.
    Appears(VolumeId, String, u64),
    /// The device of the volume goes or is gone.
    Goes(VolumeId),
    /// No effect that another line would undo.
    Other,
}

impl PendingLine {
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

/// Encodes the line of a device that appears with the bytes of the file `file`.
pub(super) fn appears(volume: &VolumeId, device: &str, file: &str, size_bytes: u64) -> Bytes {
    Line::Attached { volume, device, file, size_bytes }.bytes()
}

/// Readers of all device streams.
#[derive(Debug, Default)]
pub(super) struct DeviceStreams(Mutex<Vec<(InstanceId, mpsc::Sender<PendingLine>)>>);

impl DeviceStreams {
    fn lock(&self) -> MutexGuard<'_, Vec<(InstanceId, mpsc::Sender<PendingLine>)>> {
        self.0.lock()
    }

    /// Opens a stream of `instance` that starts with the current devices.
    pub(super) fn follow(
        &self,
        state: &Machine,
        instance: &InstanceId,
    ) -> Result<mpsc::Receiver<PendingLine>, Ec2Error> {
        let slots = &state.instance(instance)?.slots;
        let (lines, stream) = mpsc::channel(BACKLOG);
        for volume in slots.values().filter_map(|id| state.volume(id).ok()).filter(|v| !v.root) {
            let Some(attachment) = volume.attachments.get(instance) else { continue };
            if attachment.state != AttachmentState::Attaching {
                let line = attached(&volume.id, &attachment.device, volume.size_gib);
                // The channel has more room than an instance has slots.
                let _ = lines.try_send(PendingLine::of(&line));
            }
            if matches!(attachment.state, AttachmentState::Detaching | AttachmentState::Busy) {
                let line = Line::Detaching { volume: &volume.id, forced: attachment.forced };
                let _ = lines.try_send(PendingLine::of(&line));
            }
        }
        let _ = lines.try_send(PendingLine::of(&Line::Synced));
        let mut all = self.lock();
        // Closed streams are only noticed here if there was no event since.
        all.retain(|(_, lines)| !lines.is_closed());
        all.push((instance.clone(), lines));
        Ok(stream)
    }

    /// Sends `event` to the readers of the instance. A closed stream, or one that is too slow, ends.
    fn forward(&self, event: &Event) {
        let Event::Attachment(AttachmentChanged { volume, instance, device, state, forced }, size_gib) = event else {
            return;
        };
        let forced = *forced;
        let line = match state {
            AttachmentPhase::Attached => attached(volume, device, *size_gib),
            AttachmentPhase::Detaching => Line::Detaching { volume, forced },
            // The device stays, or does not exist yet.
            AttachmentPhase::Busy | AttachmentPhase::Attaching => return,
            AttachmentPhase::Detached => Line::Detached { volume, forced },
        };
        self.send(instance, &line);
    }

    /// Tells the readers of `instances` that the device of `volume` has a new size.
    fn resized<'a>(&self, volume: &VolumeId, size_gib: u64, instances: impl Iterator<Item = &'a InstanceId>) {
        for instance in instances {
            self.send(instance, &Line::Resized { volume, size_bytes: size_gib << 30 });
        }
    }

    fn send(&self, instance: &InstanceId, line: &Line<'_>) {
        let line_sent = PendingLine::of(line);
        self.lock().retain(|(followed, lines)| followed != instance || lines.try_send(line_sent.clone()).is_ok());
    }
}

impl Listener for DeviceStreams {
    fn on_event(&self, published: &PublishedEvent<'_>) {
        self.forward(published.event);
        if let Event::Modification(ModificationChanged {
            volume, state: ModificationState::Optimizing, size_gib, ..
        }) = published.event
            && let Ok(found) = published.state.volume(volume)
        {
            self.resized(volume, *size_gib, found.attachments.keys());
        }
    }
}

fn attached<'a>(volume: &'a VolumeId, device: &'a str, size_gib: u64) -> Line<'a> {
    Line::Attached { volume, device, file: volume.as_str(), size_bytes: size_gib << 30 }
}
