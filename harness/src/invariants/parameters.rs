//! Parameters of a class that a volume serves. A driver lowers requested IOPS to the maximum for the type and the size of
//! a volume, or raises them to the minimum (EBS user guide, "Amazon EBS volume types"; aws-ebs-csi-driver, `capIOPS` in
//! pkg/cloud/cloud.go).

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

/// Returns true if a volume of a type and a size whose parameter `key` is `has` serves a class that asks for `asked`. The
/// driver takes an IOPS or throughput of 0 for one that is not requested. An account may encrypt volumes by default.
pub(super) fn serves((volume_type, gib): (&str, u64), key: &str, has: &str, asked: &str) -> bool {
    match key {
        _ if has == asked => true,
        "encrypted" => asked != "true",
        "throughput" => asked == "0",
        "iops" if asked == "0" => true,
        "iops" => {
            let of_type = limits(volume_type).zip(most(volume_type, gib));
            let (Ok(has), Ok(asked), Some(((least, ..), most))) = (has.parse::<u64>(), asked.parse::<u64>(), of_type)
            else {
                return false;
            };
            (asked > most && has == most) || (asked < least && has == least)
        }
        _ => false,
    }
}

/// Returns true if a volume serves a class now, or did when it was smaller: a growth leaves its IOPS.
pub(super) fn has_served((volume_type, gib): (&str, u64), key: &str, has: &str, asked: &str) -> bool {
    (1..=gib).any(|gib| serves((volume_type, gib), key, has, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_beyond_the_limits_is_served_by_the_limit_alone() {
        let iops = |gib: u64, has: &str, asked: &str| serves(("gp3", gib), "iops", has, asked);
        assert!(iops(10, "4000", "4000"));
        assert!(!iops(10, "3000", "4000"));
        assert!(iops(10, "5000", "200000"), "500 for each GiB");
        assert!(!iops(10, "4999", "200000"));
        assert!(iops(10, "3000", "100"));
        assert!(!iops(10, "3000", "many"));
        assert!(!iops(20, "5000", "200000"));
        assert!(has_served(("gp3", 20), "iops", "5000", "200000"), "it was smaller");
        assert!(!has_served(("gp3", 20), "iops", "4999", "200000"));
    }

    #[test]
    fn a_request_for_0_is_none() {
        for key in ["iops", "throughput"] {
            assert!(serves(("gp3", 10), key, "3000", "0"));
            assert!(!serves(("gp3", 10), key, "3000", "3001"));
        }
        assert!(!serves(("gp3", 10), "type", "gp3", "0"));
        assert!(serves(("gp3", 10), "encrypted", "true", "false"), "the account encrypts");
        assert!(!serves(("gp3", 10), "encrypted", "false", "true"));
    }
}
