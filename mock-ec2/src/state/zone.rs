//! Availability zones and their ids.

use super::error::{Ec2Error, Missing};

/// One availability zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// `us-east-1a`.
    pub name: String,
    /// `use1-az1`.
    pub id: String,
}

impl Zone {
    /// Creates the zone `name`, the `number`th of `region`, from 1.
    pub fn new(region: &str, name: &str, number: usize) -> Self {
        Self { name: name.to_owned(), id: format!("{}-az{number}", short(region)) }
    }
}

/// Returns `error` as RunInstances words it: an unknown zone is an invalid value (newsapps/beeswithmachineguns#90).
pub(super) fn as_value(error: Ec2Error) -> Ec2Error {
    match error {
        Ec2Error::ZoneNotFound(Missing(zones)) => {
            Ec2Error::InvalidParameterValue(format!("Invalid availability zone: [{}]", zones.join(", ")))
        }
        error => error,
    }
}

/// Abbreviates a region: `us-east-1` → `use1`, `ap-southeast-2` → `apse2`.
fn short(region: &str) -> String {
    let mut out = String::new();
    for (position, part) in region.split('-').enumerate() {
        match part {
            _ if position == 0 => out.push_str(part),
            "northeast" => out.push_str("ne"),
            "northwest" => out.push_str("nw"),
            "southeast" => out.push_str("se"),
            "southwest" => out.push_str("sw"),
            _ => out.extend(part.chars().next()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_ids_are_made_as_aws_makes_them() {
        assert_eq!(Zone::new("us-east-1", "us-east-1a", 1).id, "use1-az1");
        assert_eq!(Zone::new("ap-southeast-2", "ap-southeast-2b", 2).id, "apse2-az2");
    }
}
