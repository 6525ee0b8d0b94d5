//! IOPS that EBS grants. A driver lowers a request to the maximum for the type and the size of a volume, or raises it
//! to the minimum (EBS user guide, "Amazon EBS volume types"; aws-ebs-csi-driver, `capIOPS` in pkg/cloud/cloud.go).

use mock_ec2::events::VolumeChanged;

/// Minimum and maximum IOPS of a type, and the maximum for each GiB.
fn limits(volume_type: &str) -> Option<(u64, u64, u64)> {
    match volume_type {
        "io1" => Some((100, 64_000, 50)),
        "io2" => Some((100, 256_000, 1_000)),
        "gp3" => Some((3_000, 80_000, 500)),
        _ => None,
    }
}

/// Returns the most IOPS of a volume of a type and a size; `None` for a type whose IOPS are not requested.
pub(super) fn most(volume_type: &str, gib: u64) -> Option<u64> {
    let (least, most, per_gib) = limits(volume_type)?;
    Some(most.min((per_gib * gib).max(least)))
}

/// Returns true if a volume with the IOPS `has` serves a request for `asked`.
pub(super) fn serves(volume: &VolumeChanged, has: u64, asked: &str) -> bool {
    let Ok(asked) = asked.parse::<u64>() else { return false };
    let of_type = limits(&volume.volume_type).zip(most(&volume.volume_type, volume.size_gib));
    let Some(((least, ..), most)) = of_type else { return has == asked };
    has == asked || (asked > most && has == most) || (asked < least && has == least)
}

#[cfg(test)]
mod tests {
    use mock_ec2::events::VolumePhase;

    use super::*;

    #[test]
    fn a_request_beyond_the_limits_is_served_by_the_limit_alone() {
        let id = "vol-0123456789abcdef0".parse().unwrap();
        let gp3 = VolumeChanged {
            volume_type: "gp3".into(),
            size_gib: 10,
            ..VolumeChanged::new(id, VolumePhase::Available, "a", 10)
        };
        assert!(serves(&gp3, 4_000, "4000"));
        assert!(!serves(&gp3, 3_000, "4000"));
        assert!(serves(&gp3, 5_000, "200000"), "500 for each GiB");
        assert!(!serves(&gp3, 4_999, "200000"));
        assert!(serves(&gp3, 3_000, "100"));
        assert!(!serves(&gp3, 3_000, "many"));
    }
}
