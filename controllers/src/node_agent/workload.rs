//! The modelled workload of a pod: one writer per claim, which verifies what it finds and then writes records, to a file
//! or to the raw device.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use csi_mock::disk::{DiskError, RawDevice};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use substrate::fault::Span;
use substrate::json::{Map, Value, json};
use substrate::latest;

use super::agent::Agent;
use super::config::WorkloadDefaults;
use super::logs::LogFile;
use super::records::{Chain, Corruption};
use super::slots;
use super::volume_manager::VolumeSpec;

/// The file in the root of each filesystem.
pub const FILE: &str = "mooring-records";
/// Annotation: time between two records, as in `500ms`.
pub const WRITE_EVERY: &str = "mooring.dev/write-every";
/// Annotation: how many records are written before the writer becomes idle.
pub const RECORDS: &str = "mooring.dev/records";

/// The end of each volume's history on this node; pods that share a volume write one history.
#[derive(Debug, Default)]
pub struct Chains(Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<Option<Chain>>>>>);

impl Chains {
    fn of(&self, volume: &str) -> Arc<tokio::sync::Mutex<Option<Chain>>> {
        let mut chains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        chains.entry(volume.to_owned()).or_default().clone()
    }
}

/// What a pod's annotations ask of its writers.
///
/// # Errors
/// Which annotation cannot be read, and why.
pub fn settings(pod: &Pod, defaults: &WorkloadDefaults) -> Result<WorkloadDefaults, String> {
    let mut settings = defaults.clone();
    let annotation = |key: &str| pod.metadata.annotations.as_ref().and_then(|a| a.get(key));
    if let Some(text) = annotation(WRITE_EVERY) {
        let span: Span = text.parse().map_err(|e| format!("annotation {WRITE_EVERY}: {e}"))?;
        // A writer that never waits would never let time pass.
        settings.write_every = span.0.max(Duration::from_millis(1));
    }
    if let Some(text) = annotation(RECORDS) {
        settings.records =
            text.parse().map_err(|_| format!("annotation {RECORDS}: `{text}` is not a whole number of records"))?;
    }
    Ok(settings)
}

/// Where a writer's records are.
pub(super) enum Place {
    /// In a file of a filesystem.
    File(PathBuf),
    /// On a raw device; nothing when the pod has none.
    Device(Option<Arc<dyn RawDevice>>),
}

impl Place {
    /// Where a pod that has the volume keeps its records.
    pub(super) fn of(agent: &Agent, uid: &str, spec: &VolumeSpec) -> Self {
        if spec.block {
            Self::Device(agent.devices.get(uid, &spec.name))
        } else {
            Self::File(agent.target_path(uid, spec).join(FILE))
        }
    }
}

/// How much of a raw device is read at once, in bytes.
const PIECE: usize = 128 * slots::SLOT;

/// One writer.
pub(super) struct Writer {
    pub(super) agent: Arc<Agent>,
    /// The volume's name in the pod.
    pub(super) name: String,
    /// Where the container prints.
    pub(super) log: Option<Arc<LogFile>>,
    /// `<namespace>/<name>`.
    pub(super) pod: String,
    pub(super) reference: Arc<ObjectReference>,
    /// The volume handle.
    pub(super) volume: String,
    /// Where the records are.
    pub(super) place: Place,
    pub(super) readonly: bool,
    pub(super) settings: WorkloadDefaults,
}

/// Why a writer cannot go on.
enum Trouble {
    Corrupt(Corruption),
    Disk(DiskError),
}

impl From<Corruption> for Trouble {
    fn from(what: Corruption) -> Self {
        Self::Corrupt(what)
    }
}

impl From<DiskError> for Trouble {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl Writer {
    /// Verifies, then writes until `stop` is true.
    pub(super) async fn run(self, mut stop: latest::Receiver<bool>) {
        self.work(&mut stop).await;
        self.emit("workload.stopped", json!({}));
    }

    async fn work(&self, stop: &mut latest::Receiver<bool>) {
        match self.verify().await {
            Ok(found) => {
                self.emit("workload.started", json!({ "records_found": found, "verified": true }));
                match found {
                    0 => self.print("found no records"),
                    1 => self.print("found 1 record, verified"),
                    _ => self.print(format_args!("found {found} records, verified")),
                }
            }
            Err(trouble) => {
                self.emit("workload.started", json!({ "records_found": 0, "verified": false }));
                if !self.report(&trouble) {
                    return stopped(stop).await;
                }
            }
        }
        if self.readonly {
            self.print("read-only: nothing is written");
            return stopped(stop).await;
        }
        let mut written = 0;
        loop {
            let failed = match self.write().await {
                Ok(record) => {
                    written += 1;
                    self.emit("workload.synced", json!({ "record": record }));
                    self.print(format_args!("wrote record {record}"));
                    false
                }
                Err(trouble) => {
                    if !self.report(&trouble) {
                        return stopped(stop).await;
                    }
                    true
                }
            };
            let idle = failed || written >= self.settings.records;
            let wait = if idle { self.settings.idle_every } else { self.settings.write_every };
            let due = self.agent.ctx.now().mono + self.agent.ctx.scaled(wait);
            tokio::select! { biased;
                () = stopped(stop) => return,
                () = self.agent.ctx.sleep_until(due) => {}
            }
        }
    }

    /// Reads all records and checks them from the first on.
    async fn verify(&self) -> Result<u64, Trouble> {
        let chain = self.agent.chains.of(&self.volume);
        let mut chain = chain.lock().await;
        *chain = None;
        let read = self.read().await?;
        let last = read.last;
        *chain = Some(read);
        Ok(last)
    }

    async fn read(&self) -> Result<Chain, Trouble> {
        match &self.place {
            Place::File(path) => {
                let bytes = self.agent.config.disk.read(path).await?;
                Ok(Chain::verify(&bytes.unwrap_or_default())?)
            }
            Place::Device(device) => {
                let device = self.opened(device.as_ref())?;
                let (mut reader, mut at) = (slots::Reader::default(), 0);
                loop {
                    let piece = device.read_at(at, PIECE).await?;
                    at += piece.len() as u64;
                    if piece.is_empty() || !reader.feed(&piece)? {
                        return Ok(reader.chain());
                    }
                }
            }
        }
    }

    fn opened<'a>(&self, device: Option<&'a Arc<dyn RawDevice>>) -> Result<&'a dyn RawDevice, DiskError> {
        device.map(|device| &**device).ok_or_else(|| DiskError::NotPlugged(self.volume.clone()))
    }

    /// Adds one record, durably.
    async fn put(&self, last: &Chain, line: &[u8]) -> Result<(), DiskError> {
        match &self.place {
            Place::File(path) => {
                self.agent.config.disk.append(path, line).await?;
                self.agent.config.disk.sync(path).await
            }
            Place::Device(device) => {
                let device = self.opened(device.as_ref())?;
                let too_long = || std::io::Error::other("a record is longer than a sector");
                let slot = slots::slot(line).ok_or_else(|| DiskError::io("write", &self.pod, too_long()))?;
                device.write_at(slots::next_offset(last), &slot).await?;
                device.sync().await
            }
        }
    }

    /// Writes one record and makes it durable.
    async fn write(&self) -> Result<u64, Trouble> {
        let chain = self.agent.chains.of(&self.volume);
        let mut chain = chain.lock().await;
        // After a failed write nobody knows what is in the file.
        let last = match chain.take() {
            Some(chain) => chain,
            None => self.read().await?,
        };
        let (bytes, next) = last.next(&self.pod);
        self.put(&last, &bytes).await?;
        let record = next.last;
        *chain = Some(next);
        Ok(record)
    }

    /// Tells of trouble; false when the writer must not touch the volume again.
    fn report(&self, trouble: &Trouble) -> bool {
        match trouble {
            Trouble::Corrupt(what) => {
                self.emit("workload.corrupt", json!({ "error": what.to_string() }));
                self.print(format_args!("corrupt, not touched again: {what}"));
                let message = format!("volume {}: {what}", self.volume);
                self.agent.recorder.event(self.reference.clone(), "Warning", "VolumeCorrupt", message);
                false
            }
            Trouble::Disk(error) => {
                self.emit("workload.failed", json!({ "error": error.to_string() }));
                self.print(format_args!("error: {error}"));
                let message = format!("volume {}: {error}", self.volume);
                self.agent.recorder.event(self.reference.clone(), "Warning", "WorkloadFailed", message);
                true
            }
        }
    }

    /// A line in the container's log.
    fn print(&self, text: impl std::fmt::Display) {
        if let Some(log) = &self.log {
            log.print(&self.agent.ctx, &format!("{}: {text}", self.name));
        }
    }

    fn emit(&self, kind: &str, more: Value) {
        let more = if let Value::Object(more) = more { more } else { Map::new() };
        let mut fields = Map::with_capacity(3 + more.len());
        for (name, value) in [("node", &self.agent.config.node_name), ("pod", &self.pod), ("volume", &self.volume)] {
            fields.insert(name, value.into());
        }
        fields.extend(more);
        self.agent.ctx.emit(kind, fields);
    }
}

async fn stopped(stop: &mut latest::Receiver<bool>) {
    // An error means that the pod's worker is gone, which stops the workload too.
    let _ = stop.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: substrate::json::Value) -> Pod {
        substrate::json::from_value(json!({ "metadata": { "name": "p", "annotations": annotations } })).expect("a pod")
    }

    #[test]
    fn annotations_override_the_defaults() {
        let defaults = WorkloadDefaults::default();
        assert_eq!(settings(&pod(json!({})), &defaults), Ok(defaults.clone()));
        let fast = settings(&pod(json!({ WRITE_EVERY: "100ms", RECORDS: "3" })), &defaults).expect("good annotations");
        assert_eq!((fast.write_every, fast.records), (Duration::from_millis(100), 3));
    }

    #[test]
    fn a_bad_annotation_is_named() {
        let error = settings(&pod(json!({ RECORDS: "many" })), &WorkloadDefaults::default()).expect_err("bad");
        assert!(error.contains(RECORDS) && error.contains("many"), "{error}");
    }
}
