//! The modelled workload of a pod: one writer per claim, which verifies what it finds and then writes records.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use csi_mock::disk::DiskError;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use serde_json::json;
use substrate::fault::Span;
use substrate::latest;

use super::agent::Agent;
use super::config::WorkloadDefaults;
use super::logs::LogFile;
use super::records::{Chain, Corruption};

/// The file in the root of each volume.
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

/// One writer.
pub(super) struct Writer {
    pub(super) agent: Arc<Agent>,
    /// The volume's name in the pod.
    pub(super) name: String,
    /// Where the container prints.
    pub(super) log: Option<Arc<LogFile>>,
    /// `<namespace>/<name>`.
    pub(super) pod: String,
    pub(super) reference: ObjectReference,
    /// The volume handle.
    pub(super) volume: String,
    /// Where the volume is published.
    pub(super) dir: PathBuf,
    pub(super) readonly: bool,
    pub(super) settings: WorkloadDefaults,
}

/// Why a writer cannot go on.
enum Trouble {
    Corrupt(Corruption),
    Disk(DiskError),
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

    /// Reads the file and checks it from its first record.
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
        let bytes = self.agent.config.disk.read(&self.dir.join(FILE)).await.map_err(Trouble::Disk)?;
        Chain::verify(&bytes.unwrap_or_default()).map_err(Trouble::Corrupt)
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
        let path = self.dir.join(FILE);
        let disk = &self.agent.config.disk;
        disk.append(&path, &bytes).await.map_err(Trouble::Disk)?;
        disk.sync(&path).await.map_err(Trouble::Disk)?;
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
                self.agent.recorder.event(&self.reference, "Warning", "VolumeCorrupt", message);
                false
            }
            Trouble::Disk(error) => {
                self.emit("workload.failed", json!({ "error": error.to_string() }));
                self.print(format_args!("error: {error}"));
                let message = format!("volume {}: {error}", self.volume);
                self.agent.recorder.event(&self.reference, "Warning", "WorkloadFailed", message);
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

    fn emit(&self, kind: &str, more: serde_json::Value) {
        let mut fields = json!({ "pod": self.pod, "node": self.agent.config.node_name, "volume": self.volume });
        if let (Some(fields), serde_json::Value::Object(more)) = (fields.as_object_mut(), more) {
            fields.extend(more);
        }
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

    fn pod(annotations: serde_json::Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "p", "annotations": annotations } })).expect("a pod")
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
