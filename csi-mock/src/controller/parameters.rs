//! Volume properties from parameters: those of a StorageClass and the mutable ones of a VolumeAttributesClass. Names,
//! checks and messages are those of the EBS driver (docs/parameters.md, docs/tagging.md, docs/modify-volume.md;
//! pkg/driver/controller.go, controller_modify_volume.go). Pure.

use std::collections::{BTreeMap, BTreeSet};

use tonic::Status;

use super::tag_template::{Names, evaluate};
use crate::check;
use crate::format;

/// Prefix of parameters that set a tag: `tagSpecification_1: key=value`.
pub(super) const ADD_TAG: &str = "tagSpecification";
/// Prefix of mutable parameters that remove a tag: `tagDeletion_1: key`.
const DELETE_TAG: &str = "tagDeletion";
/// Tag with the IOPS for each GiB.
pub(crate) const IOPS_PER_GIB_TAG: &str = "ebs.csi.aws.com/IOPSPerGb";
/// Tag that lets an expansion raise the IOPS.
pub(crate) const IOPS_FOLLOW_TAG: &str = "ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify";
/// Entry of the volume context that makes attaches wait for the blocks of a snapshot.
pub(crate) const ATTACH_WHEN_INITIALIZED: &str = "blockattachuntilinitialized";
/// Keys of tags that the driver sets itself.
const RESERVED_TAGS: [&str; 3] = ["CSIVolumeName", "CSIVolumeSnapshotName", "ebs.csi.aws.com/cluster-name"];
/// Prefixes of such keys.
const RESERVED_PREFIXES: [&str; 2] = ["kubernetes.io", "ebs.csi.aws.com/"];

/// Properties of a new volume, as far as parameters set them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub volume_type: Option<String>,
    pub iops: Option<u64>,
    pub iops_per_gib: Option<u64>,
    /// If set, IOPS below the minimum of the type are raised.
    pub raises_iops: bool,
    pub throughput: Option<u64>,
    /// None if the parameter is absent.
    pub encrypted: Option<bool>,
    pub kms_key: Option<String>,
    /// MiB/s.
    pub initialization_rate: Option<u64>,
    pub tags: BTreeMap<String, String>,
    /// Formatting parameters, as the volume context has them.
    pub format: BTreeMap<&'static str, String>,
    pub attach_when_initialized: bool,
}

/// Changes of an existing volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub volume_type: Option<String>,
    pub iops: Option<u64>,
    pub iops_per_gib: Option<u64>,
    /// If set, `iops_per_gib` applies.
    pub raises_iops: bool,
    pub throughput: Option<u64>,
    pub tags: BTreeMap<String, String>,
    pub untagged: BTreeSet<String>,
}

/// Parses a number as Go's `strconv.ParseInt(value, 10, 32)` does. Zero and negative values mean no number.
fn number(value: &str) -> Result<Option<u64>, String> {
    let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
    let why = if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        "invalid syntax"
    } else if let Ok(number) = value.parse::<i32>() {
        return Ok(u64::try_from(number).ok().filter(|number| *number > 0));
    } else {
        "value out of range"
    };
    Err(format!("strconv.ParseInt: parsing {value:?}: {why}"))
}

fn fixed_number(name: &str, value: &str) -> Result<Option<u64>, Status> {
    number(value).map_err(|error| Status::invalid_argument(format!("Could not parse invalid {name}: {error}")))
}

fn mutable_number(name: &str, value: &str) -> Result<Option<u64>, Status> {
    number(value).map_err(|_| Status::invalid_argument(format!("Could not parse {name}: {value:?}")))
}

fn is_true(value: &str) -> bool {
    value == "true"
}

/// Evaluates `key=value` texts to tags.
///
/// # Errors
/// INVALID_ARGUMENT for a text without `=`, a template that cannot be evaluated, or a reserved key.
pub(super) fn tags(texts: &[String], names: &Names) -> Result<BTreeMap<String, String>, Status> {
    let mut tags = BTreeMap::new();
    for text in texts {
        let evaluated = match text.split_once('=') {
            Some((key, value)) => evaluate(value, names).map(|value| (key.to_owned(), value)),
            None => Err(format!("the key-value pair doesn't contain a value (string: {text})")),
        };
        let failed = |error| Status::invalid_argument(format!("Error interpolating tag value: {error}"));
        let (key, value) = evaluated.map_err(failed)?;
        tags.insert(key, value);
    }
    match tags.keys().find_map(|key| reserved(key)) {
        Some(why) => Err(Status::invalid_argument(format!("Invalid tag value: {why}"))),
        None => Ok(tags),
    }
}

/// Returns the reason why users cannot set a tag.
fn reserved(key: &str) -> Option<String> {
    if RESERVED_TAGS.contains(&key) {
        return Some(format!("tag key '{key}' is reserved"));
    }
    let prefix = RESERVED_PREFIXES.iter().find(|prefix| key.starts_with(**prefix))?;
    Some(format!("tag key prefix '{prefix}' is reserved"))
}

impl Shape {
    /// Reads `parameters`, in any case, and over them `mutable`, whose names are exact.
    ///
    /// # Errors
    /// INVALID_ARGUMENT in the EBS driver's words.
    pub fn read(parameters: &BTreeMap<String, String>, mutable: &BTreeMap<String, String>) -> Result<Self, Status> {
        check::map("parameters", parameters)?;
        check::map("mutable_parameters", mutable)?;
        let (mut shape, mut names, mut texts) = (Self::default(), Names::of_volume(), Vec::new());
        for (key, value) in parameters {
            shape.fixed(key, value, &mut names, &mut texts)?;
        }
        for (key, value) in mutable {
            match key.as_str() {
                "iops" => shape.iops = mutable_number("IOPS", value)?,
                "throughput" => shape.throughput = mutable_number("throughput", value)?,
                "volumeType" if mutable.contains_key("type") => {}
                "type" | "volumeType" => shape.volume_type = Some(value.clone()),
                other if other.starts_with(ADD_TAG) => texts.push(value.clone()),
                _ => return Err(Status::invalid_argument(format!("Invalid mutable parameter key: {key}"))),
            }
        }
        shape.tags.extend(tags(&texts, &names)?);
        Ok(shape)
    }

    fn fixed(&mut self, key: &str, value: &str, names: &mut Names, texts: &mut Vec<String>) -> Result<(), Status> {
        let lower = key.to_ascii_lowercase();
        if let Some((entry, value)) = format::read(key, &lower, value)? {
            self.format.insert(entry, value);
            return Ok(());
        }
        match lower.as_str() {
            "type" => self.volume_type = Some(value.to_owned()).filter(|kind| !kind.is_empty()),
            "iops" => self.iops = fixed_number("iops", value)?,
            "iopspergb" => {
                self.iops_per_gib = fixed_number("iopsPerGB", value)?;
                self.tag(IOPS_PER_GIB_TAG, &self.iops_per_gib.unwrap_or_default().to_string());
            }
            "allowautoiopspergbincrease" => self.raises_iops = is_true(value),
            "allowautoiopsincreaseonmodify" => self.tag(IOPS_FOLLOW_TAG, &is_true(value).to_string()),
            "throughput" => self.throughput = fixed_number("throughput", value)?,
            "volumeinitializationrate" => {
                self.initialization_rate = fixed_number("volumeInitializationRate", value)?;
            }
            "encrypted" => self.encrypted = Some(is_true(value)),
            "kmskeyid" => self.kms_key = Some(value.to_owned()).filter(|key| !key.is_empty()),
            ATTACH_WHEN_INITIALIZED => self.attach_when_initialized = is_true(value),
            // `fstype` is deprecated: the provisioner puts the filesystem into the capability. Every io2 volume is a
            // Block Express volume today.
            "fstype" | "blockexpress" => {}
            sidecar if names.take(sidecar, value) => {
                let object = sidecar.trim_start_matches("csi.storage.k8s.io/");
                self.tag(&format!("kubernetes.io/created-for/{object}"), value);
            }
            _ if key.starts_with(ADD_TAG) => texts.push(value.to_owned()),
            _ => {
                let message = format!("Invalid parameter key {key} for CreateVolume");
                return Err(Status::invalid_argument(message));
            }
        }
        Ok(())
    }

    fn tag(&mut self, key: &str, value: &str) {
        self.tags.insert(key.to_owned(), value.to_owned());
    }

    /// Returns the volume context of the new volume.
    pub fn context(&self) -> BTreeMap<String, String> {
        let format = self.format.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        let waits = self.attach_when_initialized.then(|| (ATTACH_WHEN_INITIALIZED.to_owned(), "true".to_owned()));
        format.chain(waits).collect()
    }
}

impl Change {
    /// Reads the mutable parameters of an existing volume; names are exact.
    ///
    /// # Errors
    /// INVALID_ARGUMENT in the EBS driver's words.
    pub fn read(parameters: &BTreeMap<String, String>) -> Result<Self, Status> {
        check::map("mutable_parameters", parameters)?;
        let (mut change, mut names, mut texts) = (Self::default(), Names::of_volume(), Vec::new());
        for (key, value) in parameters {
            match key.as_str() {
                "iops" => change.iops = mutable_number("IOPS", value)?,
                "throughput" => change.throughput = mutable_number("throughput", value)?,
                "volumeType" if parameters.contains_key("type") => {}
                "type" | "volumeType" => change.volume_type = Some(value.clone()),
                "iopspergb" => {
                    change.iops_per_gib = mutable_number("IopsPerGb", value)?;
                    change.tags.insert(IOPS_PER_GIB_TAG.to_owned(), value.clone());
                }
                "allowautoiopsincreaseonmodify" => {
                    change.raises_iops = is_true(value);
                    change.tags.insert(IOPS_FOLLOW_TAG.to_owned(), value.clone());
                }
                sidecar if names.take(sidecar, value) => {}
                other if other.starts_with(ADD_TAG) => texts.push(value.clone()),
                other if other.starts_with(DELETE_TAG) => {
                    if let Some(why) = reserved(value) {
                        return Err(Status::invalid_argument(format!("Cannot delete reserved tag: {why}")));
                    }
                    change.untagged.insert(value.clone());
                }
                _ => return Err(Status::invalid_argument(format!("Invalid mutable parameter key: {key}"))),
            }
        }
        change.tags.extend(tags(&texts, &names)?);
        Ok(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn mutable_parameters_go_over_the_others() {
        let fixed = map(&[("Type", "gp2"), ("encrypted", "true"), ("csi.storage.k8s.io/pvc/name", "data")]);
        let mutable = map(&[("type", "gp3"), ("iops", "4000"), ("tagSpecification_1", "team=a=b")]);
        let shape = Shape::read(&fixed, &mutable).unwrap();
        assert_eq!((shape.volume_type.as_deref(), shape.iops, shape.encrypted), (Some("gp3"), Some(4000), Some(true)));
        assert_eq!(shape.tags["team"], "a=b");
        assert_eq!(shape.tags["kubernetes.io/created-for/pvc/name"], "data");
    }

    #[test]
    fn every_documented_parameter_is_read_in_any_case() {
        let fixed = map(&[
            ("IOPSPERGB", "50"),
            ("allowAutoIOPSPerGBIncrease", "true"),
            ("allowAutoIOPSIncreaseOnModify", "true"),
            ("Throughput", "250"),
            ("kmsKeyId", "arn:aws:kms:us-east-1:123456789012:key/k"),
            ("blockExpress", "true"),
            ("fstype", "ext4"),
            ("blockSize", "4096"),
            ("ext4BigAlloc", "true"),
            ("volumeInitializationRate", "200"),
            ("blockAttachUntilInitialized", "true"),
            ("csi.storage.k8s.io/pvc/namespace", "shop"),
            ("tagSpecification_1", "billing={{ .PVCNamespace | toUpper }}"),
            ("tagSpecification_2", "empty="),
        ]);
        let shape = Shape::read(&fixed, &BTreeMap::new()).unwrap();
        assert_eq!((shape.iops_per_gib, shape.raises_iops, shape.throughput), (Some(50), true, Some(250)));
        assert_eq!((shape.kms_key.is_some(), shape.initialization_rate), (true, Some(200)));
        let context = [("blocksize", "4096"), ("ext4bigalloc", "true"), ("blockattachuntilinitialized", "true")];
        assert_eq!(shape.context(), map(&context));
        let tags = [
            (IOPS_PER_GIB_TAG, "50"),
            (IOPS_FOLLOW_TAG, "true"),
            ("kubernetes.io/created-for/pvc/namespace", "shop"),
            ("billing", "SHOP"),
            ("empty", ""),
        ];
        assert_eq!(shape.tags, map(&tags));
    }

    #[test]
    fn errors_have_the_driver_s_words() {
        for (fixed, mutable, message) in [
            (&[("colour", "red")][..], &[][..], "Invalid parameter key colour for CreateVolume"),
            (&[("tagspecification_1", "a=b")], &[], "Invalid parameter key tagspecification_1 for CreateVolume"),
            (&[("iops", "x")], &[], "Could not parse invalid iops: strconv.ParseInt: parsing \"x\": invalid syntax"),
            (
                &[("iopsPerGB", "9999999999")],
                &[],
                "Could not parse invalid iopsPerGB: strconv.ParseInt: parsing \"9999999999\": value out of range",
            ),
            (&[], &[("encrypted", "true")], "Invalid mutable parameter key: encrypted"),
            (&[], &[("Type", "gp3")], "Invalid mutable parameter key: Type"),
            (&[], &[("throughput", "x")], "Could not parse throughput: \"x\""),
            (
                &[],
                &[("tagSpecification_1", "novalue")],
                "Error interpolating tag value: the key-value pair doesn't contain a value (string: novalue)",
            ),
            (&[("tagSpecification", "CSIVolumeName=x")], &[], "Invalid tag value: tag key 'CSIVolumeName' is reserved"),
            (
                &[("tagSpecification", "kubernetes.io/x=y")],
                &[],
                "Invalid tag value: tag key prefix 'kubernetes.io' is reserved",
            ),
            (&[("blockSize", "4 k")], &[], "Could not parse blockSize (4 k): it is not alphanumeric"),
        ] {
            let status = Shape::read(&map(fixed), &map(mutable)).unwrap_err();
            assert_eq!((status.code(), status.message()), (tonic::Code::InvalidArgument, message));
        }
        // Zero asks for nothing.
        assert_eq!(Shape::read(&map(&[("iops", "0")]), &map(&[])).unwrap().iops, None);
    }

    #[test]
    fn a_change_adds_and_removes_tags_and_sets_iops_for_each_gib() {
        let change = Change::read(&map(&[
            ("volumeType", "io2"),
            ("iopspergb", "10"),
            ("allowautoiopsincreaseonmodify", "true"),
            ("tagSpecification_1", "a={{ .PVName }}"),
            ("tagDeletion_1", "b"),
            ("csi.storage.k8s.io/pv/name", "pvc-1"),
        ]));
        let change = change.unwrap();
        assert_eq!((change.volume_type.as_deref(), change.iops_per_gib), (Some("io2"), Some(10)));
        assert_eq!(change.tags, map(&[("a", "pvc-1"), (IOPS_PER_GIB_TAG, "10"), (IOPS_FOLLOW_TAG, "true")]));
        assert_eq!(change.untagged, ["b".to_owned()].into());
        let refused = Change::read(&map(&[("tagDeletion_1", "ebs.csi.aws.com/cluster")])).unwrap_err();
        assert_eq!(refused.message(), "Cannot delete reserved tag: tag key prefix 'ebs.csi.aws.com/' is reserved");
    }
}
