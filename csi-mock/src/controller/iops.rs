//! IOPS of a new or modified volume, within the limits of its type (aws-ebs-csi-driver, `capIOPS` in
//! pkg/cloud/cloud.go). The driver learns the maximum from a dry run of CreateVolume; here it is the cloud's documented
//! one (EBS user guide, "Amazon EBS volume types"). Pure.

/// Limits of a volume type; 0 means no limit.
struct Limits {
    least: u64,
    most: u64,
    per_gib: u64,
}

fn limits(volume_type: &str) -> Limits {
    let (least, most, per_gib) = match volume_type {
        "io1" => (100, 64_000, 50),
        "io2" => (100, 256_000, 1_000),
        "gp3" => (3_000, 80_000, 500),
        _ => (0, 0, 0),
    };
    Limits { least, most, per_gib }
}

/// Returns the IOPS to ask the cloud for. `increase` raises a value below the minimum of the type.
pub(crate) fn capped(volume_type: &str, gib: u64, wanted: u64, increase: bool) -> u64 {
    let Limits { least, most, per_gib } = limits(volume_type);
    let mut iops = wanted;
    if increase {
        iops = iops.max(least);
    }
    if most > 0 {
        iops = iops.min(most);
    }
    let by_size = per_gib.saturating_mul(gib);
    if by_size > 0 && by_size >= least {
        iops = iops.min(by_size);
    }
    iops
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::capped;

    #[rstest]
    #[case("gp3", 100, 4_000, false, 4_000)]
    #[case("gp3", 100, 90_000, false, 50_000)]
    #[case("gp3", 1_000, 90_000, false, 80_000)]
    // Even a gp3 of 1 GiB has its 3,000 IOPS.
    #[case("gp3", 1, 100, true, 3_000)]
    #[case("gp3", 1, 100, false, 100)]
    #[case("io1", 10, 10_000, false, 500)]
    #[case("io2", 1_000, 300_000, false, 256_000)]
    #[case("gp2", 10, 10_000, true, 10_000)]
    fn iops_stay_within_the_limits_of_the_type(
        #[case] of: &str,
        #[case] gib: u64,
        #[case] wanted: u64,
        #[case] increase: bool,
        #[case] expected: u64,
    ) {
        assert_eq!(capped(of, gib, wanted, increase), expected);
    }
}
