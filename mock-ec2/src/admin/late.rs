//! What faults do to the devices of an instance: they appear late or never (A13), or with another volume's bytes (A14).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use substrate::fault::{Effect, Moment, Plane, Point};
use tokio::sync::mpsc;

use super::App;
use super::devices::{Change, OPERATION, Told, appears};
use crate::state::ids::{InstanceId, VolumeId};

/// The lines of one reader, the late ones held back.
pub(super) struct Late {
    app: Arc<App>,
    instance: InstanceId,
    lines: mpsc::Receiver<Told>,
    /// Lines with the monotonic time at which they are due, in the order in which they came.
    waiting: Vec<(Duration, VolumeId, Bytes)>,
}

impl Late {
    pub(super) fn new(app: Arc<App>, instance: InstanceId, lines: mpsc::Receiver<Told>) -> Self {
        Self { app, instance, lines, waiting: Vec::new() }
    }

    /// The next line; nothing when the stream has ended.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            let first = self.waiting.iter().enumerate().min_by_key(|(_, w)| w.0).map(|(n, w)| (n, w.0));
            let ctx = self.app.ctx.clone();
            let due = async {
                match first {
                    Some((number, at)) => {
                        ctx.sleep_until(at).await;
                        number
                    }
                    None => std::future::pending().await,
                }
            };
            let told = tokio::select! { biased;
                number = due => return Some(self.waiting.remove(number).2),
                told = self.lines.recv() => told?,
            };
            match told.change {
                Change::Other => return Some(told.bytes),
                Change::Goes(volume) => {
                    // What did not appear yet does not appear any more.
                    self.waiting.retain(|(_, late, _)| *late != volume);
                    return Some(told.bytes);
                }
                Change::Appears(volume, device, size_bytes) => match self.struck(&volume) {
                    Some(Effect::Delay(span)) => {
                        let due = self.app.ctx.now().mono + self.app.ctx.scaled(span.0);
                        self.waiting.push((due, volume, told.bytes));
                    }
                    Some(Effect::DropReply(true)) => {}
                    Some(Effect::WrongDevice(true)) => {
                        let other = self.other(&volume);
                        return Some(match other {
                            Some(file) => appears(&volume, &device, file.as_str(), size_bytes),
                            None => told.bytes,
                        });
                    }
                    _ => return Some(told.bytes),
                },
            }
        }
    }

    /// What befalls the device of `volume`. Only faults that name this operation do: others are about requests.
    fn struck(&self, volume: &VolumeId) -> Option<Effect> {
        let ctx = &self.app.ctx;
        if ctx.faults().is_empty()
            || !ctx.faults().list().iter().any(|r| r.fault.matches.op.as_deref() == Some(OPERATION))
        {
            return None;
        }
        let attributes = [("volume", volume.as_str()), ("instance", self.instance.as_str())];
        let point = Point { plane: Plane::Ec2, op: OPERATION, attributes: &attributes, moment: Moment::Before };
        ctx.fault(&point).map(|firing| firing.effect)
    }

    /// Another volume: the one that was made last.
    fn other(&self, volume: &VolumeId) -> Option<VolumeId> {
        self.app.ec2.poke(&self.app.ctx, |state, _| {
            let others = state.volumes().filter(|v| !v.root && v.id != *volume);
            others.max_by_key(|v| v.create_time).map(|v| v.id.clone())
        })
    }
}
