//! Answers of `aws ec2 describe-volumes` and `describe-instances`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::input::{Document, ImportError};
use super::note::Note;

/// Volumes and instances of the cloud.
#[derive(Debug, Default)]
pub(super) struct Cloud {
    /// Instances by id.
    pub instances: BTreeMap<String, Instance>,
    /// Volumes by id in the form of a scenario, with their attachments.
    pub volumes: BTreeMap<String, Value>,
    /// Ids of root volumes: each instance of a scenario gets a new one.
    pub roots: BTreeSet<String>,
}

/// An instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Instance {
    pub instance_type: String,
    pub zone: String,
    /// Names by which a node may be known: private DNS names.
    pub names: Vec<String>,
}

/// Returns true if a document is an answer of EC2.
pub(super) fn is_of_cloud(value: &Value) -> bool {
    value["Volumes"].is_array() || value["Reservations"].is_array()
}

impl Cloud {
    /// Adds the volumes and instances of an answer.
    pub fn take(&mut self, document: &Document, notes: &mut Vec<Note>) -> Result<(), ImportError> {
        let Document { file, value } = document;
        let reservations = value["Reservations"].as_array().into_iter().flatten();
        for instance in reservations.flat_map(|r| r["Instances"].as_array().into_iter().flatten()) {
            let id = text(file, "instance", instance, "InstanceId")?;
            let state = instance["State"]["Name"].as_str().unwrap_or("running");
            if matches!(state, "terminated" | "shutting-down") {
                notes.push(Note { object: id, message: format!("left out: it is {state}") });
                continue;
            }
            if state != "running" {
                notes.push(Note { object: id.clone(), message: format!("it is {state}, and begins running") });
            }
            let root = instance["RootDeviceName"].as_str();
            for mapping in instance["BlockDeviceMappings"].as_array().into_iter().flatten() {
                if root.is_some() && mapping["DeviceName"].as_str() == root {
                    self.roots.extend(mapping["Ebs"]["VolumeId"].as_str().map(str::to_owned));
                }
            }
            let taken = Instance {
                instance_type: text(file, &id, instance, "InstanceType")?,
                zone: instance["Placement"]["AvailabilityZone"].as_str().unwrap_or_default().to_owned(),
                names: ["PrivateDnsName"].iter().filter_map(|f| instance[*f].as_str().map(str::to_owned)).collect(),
            };
            self.instances.insert(id, taken);
        }
        for volume in value["Volumes"].as_array().into_iter().flatten() {
            let id = text(file, "volume", volume, "VolumeId")?;
            if let Some(taken) = take(file, &id, volume, notes)? {
                self.volumes.insert(id, taken);
            }
        }
        Ok(())
    }
}

fn text(file: &str, object: &str, value: &Value, field: &str) -> Result<String, ImportError> {
    let found = value[field].as_str().filter(|text| !text.is_empty());
    found.map(str::to_owned).ok_or_else(|| ImportError::of(file, object, format!("{field} is missing or no text")))
}

/// Converts a volume to the form of a scenario; `None` if it is being deleted.
fn take(file: &str, id: &str, volume: &Value, notes: &mut Vec<Note>) -> Result<Option<Value>, ImportError> {
    let mut note = |message: String| notes.push(Note { object: id.to_owned(), message });
    let state = volume["State"].as_str().unwrap_or("available");
    match state {
        "deleting" | "deleted" => {
            note(format!("left out: it is {state}"));
            return Ok(None);
        }
        "available" | "in-use" => {}
        _ => note(format!("it is {state}, and begins as available or in-use; see the pokes of docs/faults.md")),
    }
    let size = volume["Size"].as_u64();
    let size = size.ok_or_else(|| ImportError::of(file, id, "Size is missing or no whole number of GiB"))?;
    let mut taken = Map::new();
    taken.insert("id".into(), id.into());
    taken.insert("size".into(), size.into());
    taken.insert("zone".into(), text(file, id, volume, "AvailabilityZone")?.into());
    taken.insert("type".into(), volume["VolumeType"].as_str().unwrap_or("gp3").into());
    let numbers = [("Iops", "iops"), ("Throughput", "throughput")];
    taken.extend(numbers.iter().filter_map(|(from, to)| Some(((*to).into(), volume[*from].as_u64()?.into()))));
    for (from, to) in [("Encrypted", "encrypted"), ("MultiAttachEnabled", "multiAttach")] {
        if volume[from] == true {
            taken.insert(to.into(), true.into());
        }
    }
    if let Some(key) = volume["KmsKeyId"].as_str() {
        taken.insert("kmsKeyId".into(), key.into());
    }
    if let Some(created) = time(&volume["CreateTime"]) {
        taken.insert("created".into(), created);
    }
    let tags: Map<String, Value> = volume["Tags"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tag| Some((tag["Key"].as_str()?.to_owned(), tag["Value"].as_str()?.into())))
        // Only AWS itself creates these.
        .filter(|(key, _)| !key.starts_with("aws:"))
        .collect();
    if !tags.is_empty() {
        taken.insert("tags".into(), tags.into());
    }
    let mut attachments = Vec::new();
    for attachment in volume["Attachments"].as_array().into_iter().flatten() {
        let instance = text(file, id, attachment, "InstanceId")?;
        match attachment["State"].as_str().unwrap_or("attached") {
            "detached" => continue,
            "attached" => {}
            state => note(format!(
                "its attachment to {instance} is {state}, and begins as attached: hold a detach with a fault, \
                 as docs/faults.md shows"
            )),
        }
        let mut made = json!({ "instance": instance, "device": text(file, id, attachment, "Device")? });
        if let Some(attached) = time(&attachment["AttachTime"]) {
            made["attached"] = attached;
        }
        if attachment["DeleteOnTermination"] == true {
            made["deleteOnTermination"] = true.into();
        }
        attachments.push(made);
    }
    if !attachments.is_empty() {
        taken.insert("attachments".into(), attachments.into());
    }
    let value = Value::Object(taken);
    let spec: mock_ec2::VolumeSpec =
        serde_json::from_value(value.clone()).map_err(|e| ImportError::of(file, id, e.to_string()))?;
    spec.check().map_err(|(field, reason)| ImportError::of(file, id, format!("{field}: {reason}")))?;
    Ok(Some(value))
}

/// Converts a time to the form of a scenario.
fn time(value: &Value) -> Option<Value> {
    let time: jiff::Timestamp = value.as_str()?.parse().ok()?;
    Some(time.to_string().into())
}
