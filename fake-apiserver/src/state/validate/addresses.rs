//! Addresses and blocks of addresses (apimachinery `util/validation/ip.go`).

use std::net::{IpAddr, Ipv6Addr};

const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const BLOCK: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Returns the reason why a text is not an address in an unambiguous form (`IsValidIPForLegacyField`).
pub(in crate::state) fn address(text: &str) -> Option<&'static str> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if is_mapped(address) => Some("must not be an IPv4-mapped IPv6 address"),
        Ok(_) => None,
        Err(_) if without_zeros(text).parse::<IpAddr>().is_ok() => Some("must not have leading 0s"),
        Err(_) => Some(ADDRESS),
    }
}

/// Returns the reason why a text is not an address in its canonical form (`IsValidIP`).
pub(in crate::state) fn canonical(text: &str) -> Option<String> {
    let why = address(text).map(str::to_owned);
    why.or_else(|| {
        let form = text.parse::<IpAddr>().ok()?.to_string();
        (form != text).then(|| format!("must be in canonical form ({form:?})"))
    })
}

/// Returns the reasons why no endpoint outside a node can have an address (`ValidateEndpointIP`).
pub(in crate::state) fn special(text: &str) -> Vec<String> {
    let Ok(address) = without_zeros(text).parse::<IpAddr>() else { return Vec::new() };
    let (links, group) = match address {
        IpAddr::V4(address) => (address.is_link_local(), address.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(address) => (address.is_unicast_link_local(), address.segments()[0] & 0xff0f == 0xff02),
    };
    let unspecified = format!("may not be unspecified ({text})");
    let reasons = [
        (address.is_unspecified(), unspecified.as_str()),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (links, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (group, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ];
    reasons.into_iter().filter(|(wrong, _)| *wrong).map(|(_, why)| why.to_owned()).collect()
}

/// Returns the reason why a text is not a block of addresses in an unambiguous form (`IsValidCIDRForLegacyField`).
pub(in crate::state) fn block(text: &str) -> Option<&'static str> {
    let Some((start, bits)) = text.split_once('/') else { return Some(BLOCK) };
    let Ok(address) = without_zeros(start).parse::<IpAddr>() else { return Some(BLOCK) };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let Some(length) = bits.parse::<u32>().ok().filter(|length| *length <= most && !bits.starts_with('+')) else {
        return Some(BLOCK);
    };
    let rest = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    };
    if start.parse::<IpAddr>().is_err() || bits.len() > 1 && bits.starts_with('0') {
        Some("must not have leading 0s in IP or prefix length")
    } else if matches!(address, IpAddr::V6(address) if is_mapped(address)) {
        Some("must not have an IPv4-mapped IPv6 address")
    } else if rest.checked_shl(length).is_some_and(|rest| rest != 0) {
        Some("must not have bits set beyond the prefix length")
    } else {
        None
    }
}

/// A block of addresses.
pub(in crate::state) struct Bounds {
    /// True for IPv4.
    pub(in crate::state) is_ipv4: bool,
    /// The first address; an IPv4 address is in the upper bits.
    pub(in crate::state) first: u128,
    /// The last address.
    pub(in crate::state) last: u128,
    /// Length of the common prefix, in bits.
    pub(in crate::state) length: u32,
}

/// Returns the bounds of a block; `None` if a text is none.
pub(in crate::state) fn bounds(text: &str) -> Option<Bounds> {
    let (start, length) = text.split_once('/')?;
    let length = length.parse::<u32>().ok()?;
    let address = without_zeros(start).parse::<IpAddr>().ok()?;
    let (is_ipv4, bits) = match address {
        IpAddr::V4(address) => (true, u128::from(u32::from(address)) << 96),
        IpAddr::V6(address) => (false, u128::from(address)),
    };
    let rest = u128::MAX.checked_shr(length).unwrap_or(0);
    (length <= if is_ipv4 { 32 } else { 128 }).then_some(Bounds {
        is_ipv4,
        first: bits & !rest,
        last: bits | rest,
        length,
    })
}

fn is_mapped(address: Ipv6Addr) -> bool {
    address.to_ipv4_mapped().is_some()
}

/// Removes the leading zeros of the parts of an IPv4 address.
fn without_zeros(text: &str) -> String {
    if text.contains(':') {
        return text.to_owned();
    }
    let short = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    text.split('.').map(short).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10.0.0.1", None)]
    #[case("2001:DB8::1", None)]
    #[case("010.0.0.1", Some("must not have leading 0s"))]
    #[case("::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address"))]
    #[case("1.2.3", Some(ADDRESS))]
    #[case("", Some(ADDRESS))]
    fn an_address_has_one_meaning(#[case] text: &str, #[case] why: Option<&str>) {
        assert_eq!(address(text), why);
    }

    #[rstest]
    #[case("10.0.0.0/8", None)]
    #[case("0.0.0.0/0", None)]
    #[case("fd00::/8", None)]
    #[case("1.2.3.4/32", None)]
    #[case("10.0.0.1/8", Some("must not have bits set beyond the prefix length"))]
    #[case("fd00::1/64", Some("must not have bits set beyond the prefix length"))]
    #[case("10.0.0.0/08", Some("must not have leading 0s in IP or prefix length"))]
    #[case("::ffff:1.2.3.0/120", Some("must not have an IPv4-mapped IPv6 address"))]
    #[case("10.0.0.0/33", Some(BLOCK))]
    #[case("10.0.0.0", Some(BLOCK))]
    fn a_block_has_one_meaning(#[case] text: &str, #[case] why: Option<&str>) {
        assert_eq!(block(text), why);
    }

    #[rstest]
    #[case("10.0.0.1", &[])]
    #[case("fe80::1", &["may not be in the link-local range (169.254.0.0/16, fe80::/10)"])]
    #[case("0.0.0.0", &["may not be unspecified (0.0.0.0)"])]
    #[case("127.1.2.3", &["may not be in the loopback range (127.0.0.0/8, ::1/128)"])]
    #[case("224.0.0.5", &["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"])]
    fn special_addresses_are_no_endpoints(#[case] text: &str, #[case] why: &[&str]) {
        assert_eq!(special(text), why);
    }

    #[test]
    fn a_canonical_address_is_written_as_go_writes_it() {
        assert_eq!(canonical("2001:db8::1"), None);
        assert_eq!(canonical("2001:DB8::1").as_deref(), Some("must be in canonical form (\"2001:db8::1\")"));
        assert_eq!(canonical("x").as_deref(), Some(ADDRESS));
    }
}
