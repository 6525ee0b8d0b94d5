//! Names of AWS's regions in words.

/// Region, its name in words, and true if an account must opt in to it.
const NAMES: &[(&str, &str, bool)] = &[
    ("af-south-1", "Africa (Cape Town)", true),
    ("ap-east-1", "Asia Pacific (Hong Kong)", true),
    ("ap-east-2", "Asia Pacific (Taipei)", true),
    ("ap-northeast-1", "Asia Pacific (Tokyo)", false),
    ("ap-northeast-2", "Asia Pacific (Seoul)", false),
    ("ap-northeast-3", "Asia Pacific (Osaka)", false),
    ("ap-south-1", "Asia Pacific (Mumbai)", false),
    ("ap-south-2", "Asia Pacific (Hyderabad)", true),
    ("ap-southeast-1", "Asia Pacific (Singapore)", false),
    ("ap-southeast-2", "Asia Pacific (Sydney)", false),
    ("ap-southeast-3", "Asia Pacific (Jakarta)", true),
    ("ap-southeast-4", "Asia Pacific (Melbourne)", true),
    ("ap-southeast-5", "Asia Pacific (Malaysia)", true),
    ("ap-southeast-6", "Asia Pacific (New Zealand)", true),
    ("ap-southeast-7", "Asia Pacific (Thailand)", true),
    ("ca-central-1", "Canada (Central)", false),
    ("ca-west-1", "Canada West (Calgary)", true),
    ("eu-central-1", "Europe (Frankfurt)", false),
    ("eu-central-2", "Europe (Zurich)", true),
    ("eu-north-1", "Europe (Stockholm)", false),
    ("eu-south-1", "Europe (Milan)", true),
    ("eu-south-2", "Europe (Spain)", true),
    ("eu-west-1", "Europe (Ireland)", false),
    ("eu-west-2", "Europe (London)", false),
    ("eu-west-3", "Europe (Paris)", false),
    ("il-central-1", "Israel (Tel Aviv)", true),
    ("me-central-1", "Middle East (UAE)", true),
    ("me-south-1", "Middle East (Bahrain)", true),
    ("mx-central-1", "Mexico (Central)", true),
    ("sa-east-1", "South America (Sao Paulo)", false),
    ("us-east-1", "US East (N. Virginia)", false),
    ("us-east-2", "US East (Ohio)", false),
    ("us-west-1", "US West (N. California)", false),
    ("us-west-2", "US West (Oregon)", false),
];

/// Returns the name of `region` in words: `US East (N. Virginia)`.
fn in_words(region: &str) -> Option<&'static str> {
    row(region).map(|(_, words, _)| *words)
}

/// Returns the opt-in status of `region` in DescribeRegions. An account has opted in to each region that is served.
pub(crate) fn opt_in_status(region: &str) -> &'static str {
    match row(region) {
        Some((_, _, true)) => "opted-in",
        _ => "opt-in-not-required",
    }
}

/// Returns the group of the availability zones of `region`.
pub(crate) fn zone_group(region: &str) -> String {
    format!("{region}-zg-1")
}

/// Returns the name in words of that group.
pub(crate) fn zone_group_in_words(region: &str) -> Option<String> {
    in_words(region).map(|words| format!("{words} 1"))
}

fn row(region: &str) -> Option<&'static (&'static str, &'static str, bool)> {
    NAMES.iter().find(|(name, ..)| *name == region)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_is_not_known_has_no_words() {
        assert_eq!(zone_group_in_words("us-west-2").as_deref(), Some("US West (Oregon) 1"));
        assert_eq!((zone_group_in_words("mars-1"), opt_in_status("mars-1")), (None, "opt-in-not-required"));
    }
}
