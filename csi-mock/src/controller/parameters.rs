//! Volume properties from parameters: those of a StorageClass and the mutable ones of a VolumeAttributesClass. Pure.

use std::collections::BTreeMap;

use tonic::Status;

use crate::check::{self, invalid};

/// Prefix of the sidecars' parameters.
const SIDECAR_PREFIX: &str = "csi.storage.k8s.io/";
/// Prefix of mutable parameters that set tags: `tagSpecification_1: key=value` (EBS driver).
const TAG_PREFIX: &str = "tagspecification_";

/// Properties of a volume, as far as parameters set them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub volume_type: Option<String>,
    pub iops: Option<u64>,
    pub throughput: Option<u64>,
    pub encrypted: bool,
    pub tags: BTreeMap<String, String>,
}

fn number(field: &str, value: &str) -> Result<u64, Status> {
    let read = value.parse::<u64>().ok().filter(|n| *n > 0);
    read.ok_or_else(|| invalid(field, format_args!("`{value}` is not a whole number above 0")))
}

impl Shape {
    /// Reads `parameters` and, over them, `mutable_parameters`. Names are case-insensitive (EBS driver).
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the parameter named.
    pub fn read(parameters: &BTreeMap<String, String>, mutable: &BTreeMap<String, String>) -> Result<Self, Status> {
        check::map("parameters", parameters)?;
        let mut shape = Self::default();
        for (key, value) in parameters {
            shape.fixed(key, value)?;
        }
        let over = Self::mutable(mutable)?;
        shape.volume_type = over.volume_type.or(shape.volume_type);
        shape.iops = over.iops.or(shape.iops);
        shape.throughput = over.throughput.or(shape.throughput);
        shape.tags.extend(over.tags);
        Ok(shape)
    }

    /// Reads only mutable parameters.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the parameter named.
    pub fn mutable(parameters: &BTreeMap<String, String>) -> Result<Self, Status> {
        check::map("mutable_parameters", parameters)?;
        let mut shape = Self::default();
        for (key, value) in parameters {
            let field = format!("mutable_parameters.{key}");
            match &*key.to_ascii_lowercase() {
                "type" => shape.volume_type = Some(value.clone()),
                "iops" => shape.iops = Some(number(&field, value)?),
                "throughput" => shape.throughput = Some(number(&field, value)?),
                other if other.starts_with(TAG_PREFIX) => match value.split_once('=') {
                    Some((key, value)) if !key.is_empty() => shape.tag(key, value),
                    _ => return Err(invalid(&field, format_args!("`{value}` is not key=value"))),
                },
                other if other.starts_with(SIDECAR_PREFIX) => {}
                _ => return Err(invalid("mutable_parameters", format_args!("`{key}` is not known to this driver"))),
            }
        }
        Ok(shape)
    }

    fn fixed(&mut self, key: &str, value: &str) -> Result<(), Status> {
        let field = format!("parameters.{key}");
        match &*key.to_ascii_lowercase() {
            "type" => self.volume_type = Some(value.to_owned()),
            "iops" => self.iops = Some(number(&field, value)?),
            "throughput" => self.throughput = Some(number(&field, value)?),
            "encrypted" => {
                self.encrypted = match value {
                    "true" => true,
                    "false" | "" => false,
                    _ => return Err(invalid(&field, format_args!("`{value}` is not true or false"))),
                }
            }
            // The filesystem is in the capability; the provisioner puts it there.
            "fstype" => {}
            "csi.storage.k8s.io/pvc/name" => self.tag("kubernetes.io/created-for/pvc/name", value),
            "csi.storage.k8s.io/pvc/namespace" => self.tag("kubernetes.io/created-for/pvc/namespace", value),
            "csi.storage.k8s.io/pv/name" => self.tag("kubernetes.io/created-for/pv/name", value),
            other if other.starts_with(SIDECAR_PREFIX) => {}
            _ => return Err(invalid("parameters", format_args!("`{key}` is not known to this driver"))),
        }
        Ok(())
    }

    fn tag(&mut self, key: &str, value: &str) {
        self.tags.insert(key.to_owned(), value.to_owned());
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
        assert_eq!((shape.volume_type.as_deref(), shape.iops, shape.encrypted), (Some("gp3"), Some(4000), true));
        assert_eq!(shape.tags["team"], "a=b");
        assert_eq!(shape.tags["kubernetes.io/created-for/pvc/name"], "data");
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (fixed, mutable, named) in [
            (map(&[("colour", "red")]), map(&[]), "colour"),
            (map(&[("iops", "0")]), map(&[]), "parameters.iops"),
            (map(&[]), map(&[("encrypted", "true")]), "encrypted"),
            (map(&[]), map(&[("throughput", "x")]), "mutable_parameters.throughput"),
            (map(&[]), map(&[("tagSpecification_1", "novalue")]), "tagSpecification_1"),
        ] {
            let status = Shape::read(&fixed, &mutable).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            assert!(status.message().contains(named), "{}", status.message());
        }
    }
}
