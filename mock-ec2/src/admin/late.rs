//! Faults of an instance's devices: they appear late or never, or with another volume's bytes
//! (aws-ebs-csi-driver#1224).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use substrate::fault::{Effect, FaultOutcome, Moment, Plane, Point};
use tokio::sync::mpsc;

use super::App;
use super::devices::{Change, PendingLine, appears};
use crate::faults::DEVICES;
use crate::state::ids::{InstanceId, VolumeId};

/// Lines of one reader, with delayed ones held back.
pub(super) struct Late {
    app: Arc<App>,
    instance: InstanceId,
    lines: mpsc::Receiver<PendingLine>,
    /// Devices that faults may hold, in order of arrival. Each future returns its line, or None.
    waiting: Vec<(VolumeId, BoxFuture<'static, Option<Bytes>>)>,
}

/// Next item for a reader.
enum Next {
    Line(Bytes),
    PendingLine(Option<PendingLine>),
}

impl Late {
    pub(super) fn new(app: Arc<App>, instance: InstanceId, lines: mpsc::Receiver<PendingLine>) -> Self {
        Self { app, instance, lines, waiting: Vec::new() }
    }

    /// Returns the next line; None at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            let line_sent = match self.step().await {
                Next::Line(line) => return Some(line),
                Next::PendingLine(line_sent) => line_sent?,
            };
            match line_sent.change {
                Change::Other => return Some(line_sent.bytes),
                Change::Goes(volume) => {
                    // A device that has not appeared yet will not appear.
                    self.waiting.retain(|(late, _)| *late != volume);
                    return Some(line_sent.bytes);
                }
                Change::Appears(..) if self.app.ctx.faults().is_empty() => return Some(line_sent.bytes),
                Change::Appears(volume, device, size_bytes) => {
                    let meets = meet(self.app.clone(), self.instance.clone(), volume.clone(), device, size_bytes);
                    let meets = async move { meets.await.unwrap_or(Some(line_sent.bytes)) };
                    self.waiting.push((volume, Box::pin(meets)));
                }
            }
        }
    }

    /// Returns the first line whose delay is over, or the next event.
    async fn step(&mut self) -> Next {
        poll_fn(|cx| {
            let mut at = 0;
            while at < self.waiting.len() {
                match self.waiting[at].1.as_mut().poll(cx) {
                    Poll::Pending => at += 1,
                    Poll::Ready(line) => {
                        drop(self.waiting.remove(at));
                        if let Some(line) = line {
                            return Poll::Ready(Next::Line(line));
                        }
                    }
                }
            }
            self.lines.poll_recv(cx).map(Next::PendingLine)
        })
        .await
    }
}

/// Applies the fault of `volume`'s device, and returns the resulting line: none, or a wrong one. Returns None if no
/// fault applies.
async fn meet(
    app: Arc<App>,
    instance: InstanceId,
    volume: VolumeId,
    device: String,
    size_bytes: u64,
) -> Option<Option<Bytes>> {
    let attributes = [("volume", volume.as_str()), ("instance", instance.as_str())];
    let point = Point { plane: Plane::Ec2, op: DEVICES, attributes: &attributes, moment: Moment::Before };
    match app.ctx.meet(&point).await {
        FaultOutcome::Proceed => None,
        FaultOutcome::LoseReply { .. } | FaultOutcome::Break { .. } => Some(None),
        FaultOutcome::Alter { effect: Effect::WrongDevice(_), .. } => {
            let file = other(&app, &volume)?;
            Some(Some(appears(&volume, &device, file.as_str(), size_bytes)))
        }
        outcome => point.unlisted(&outcome),
    }
}

/// Returns another volume: the newest.
fn other(app: &App, volume: &VolumeId) -> Option<VolumeId> {
    app.ec2.with_state(&app.ctx, |state, _| {
        let others = state.volumes().filter(|v| !v.root && v.id != *volume);
        others.max_by_key(|v| v.create_time).map(|v| v.id.clone())
    })
}
