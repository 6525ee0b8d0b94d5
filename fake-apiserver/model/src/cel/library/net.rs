//! IP addresses and networks in CIDR notation.

use std::net::IpAddr;

use cel::common::types::{CelBool, CelInt, CelString};
use cel::{DeclarationError, Env, ExecutionError};

use super::values::{fails, opaque};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Ip(IpAddr);
opaque!(Ip, "net.IP");

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cidr {
    address: IpAddr,
    bits: u8,
}
opaque!(Cidr, "net.CIDR");

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_overload!(env, fn ip: (CelString) -> Result<Ip>)?;
    cel::add_overload!(env, fn is_ip: (CelString) -> CelBool, name = "isIP")?;
    cel::add_overload!(env, fn is_canonical: (CelString) -> Result<CelBool>, name = "ip.isCanonical")?;
    cel::add_overload!(env, fn ip_text: (Ip) -> CelString, name = "string")?;
    cel::add_member_overload!(env, fn family: (Ip) -> CelInt)?;
    cel::add_member_overload!(env, fn is_unspecified: (Ip) -> CelBool)?;
    cel::add_member_overload!(env, fn is_loopback: (Ip) -> CelBool)?;
    cel::add_member_overload!(env, fn is_link_local_multicast: (Ip) -> CelBool)?;
    cel::add_member_overload!(env, fn is_link_local_unicast: (Ip) -> CelBool)?;
    cel::add_member_overload!(env, fn is_global_unicast: (Ip) -> CelBool)?;
    cel::add_overload!(env, fn cidr: (CelString) -> Result<Cidr>)?;
    cel::add_overload!(env, fn is_cidr: (CelString) -> CelBool, name = "isCIDR")?;
    cel::add_overload!(env, fn cidr_text: (Cidr) -> CelString, name = "string")?;
    cel::add_member_overload!(env, fn contains_ip: (Cidr, Ip) -> CelBool, name = "containsIP")?;
    cel::add_member_overload!(env, fn contains_ip_text: (Cidr, CelString) -> Result<CelBool>, name = "containsIP")?;
    cel::add_member_overload!(env, fn contains_cidr: (Cidr, Cidr) -> CelBool, name = "containsCIDR")?;
    cel::add_member_overload!(env, fn contains_cidr_text: (Cidr, CelString) -> Result<CelBool>, name = "containsCIDR")?;
    cel::add_member_overload!(env, fn cidr_ip: (Cidr) -> Ip, name = "ip")?;
    cel::add_member_overload!(env, fn prefix_length: (Cidr) -> CelInt)?;
    cel::add_member_overload!(env, fn masked: (Cidr) -> Cidr)
}

fn parse(text: &str) -> Result<IpAddr, String> {
    if text.contains('%') {
        return Err(format!("IP address {text:?} with zone value is not allowed"));
    }
    let address: IpAddr = text.parse().map_err(|_| {
        format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        )
    })?;
    match is_mapped(address) {
        true => Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed")),
        false => Ok(address),
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some())
}

fn ip(text: &CelString<'_>) -> Result<Ip, ExecutionError> {
    parse(text.inner()).map(Ip).map_err(|why| fails("ip", why))
}

fn is_ip(text: &CelString<'_>) -> CelBool {
    parse(text.inner()).is_ok().into()
}

fn is_canonical(text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    let address = parse(text.inner()).map_err(|why| fails("ip.isCanonical", why))?;
    Ok((address.to_string() == text.inner()).into())
}

fn ip_text(ip: &Ip) -> CelString<'static> {
    ip.0.to_string().into()
}

fn family(ip: &Ip) -> CelInt {
    CelInt::from(if ip.0.is_ipv4() { 4 } else { 6 })
}

fn is_unspecified(ip: &Ip) -> CelBool {
    ip.0.is_unspecified().into()
}

fn is_loopback(ip: &Ip) -> CelBool {
    ip.0.is_loopback().into()
}

fn is_link_local_multicast(ip: &Ip) -> CelBool {
    match ip.0 {
        IpAddr::V4(four) => four.octets()[..3] == [224, 0, 0],
        IpAddr::V6(six) => six.segments()[0] & 0xff0f == 0xff02,
    }
    .into()
}

fn local_unicast(ip: &Ip) -> bool {
    match ip.0 {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_unicast(ip: &Ip) -> CelBool {
    local_unicast(ip).into()
}

fn is_global_unicast(ip: &Ip) -> CelBool {
    let broadcast = matches!(ip.0, IpAddr::V4(four) if four.is_broadcast());
    let other = ip.0.is_unspecified() || ip.0.is_loopback() || ip.0.is_multicast() || local_unicast(ip);
    (!broadcast && !other).into()
}

fn prefix(text: &str) -> Result<Cidr, String> {
    let wrong = |why: &str| {
        format!("network address parse error during conversion from string: netip.ParsePrefix({text:?}): {why}")
    };
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
    if address.contains('%') {
        return Err(wrong("IPv6 zones cannot be present in a prefix"));
    }
    let address: IpAddr = address.parse().map_err(|_| wrong("unable to parse IP"))?;
    let digits = bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits: u8 = bits.parse().ok().filter(|_| digits).ok_or_else(|| wrong("bad bits after slash"))?;
    if bits > most {
        return Err(wrong("prefix length out of range"));
    }
    match is_mapped(address) {
        true => Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed")),
        false => Ok(Cidr { address, bits }),
    }
}

fn cidr(text: &CelString<'_>) -> Result<Cidr, ExecutionError> {
    let wrong = |why| fails("cidr", format!("network address parse error during conversion from string: {why}"));
    prefix(text.inner()).map_err(wrong)
}

fn is_cidr(text: &CelString<'_>) -> CelBool {
    prefix(text.inner()).is_ok().into()
}

fn cidr_text(cidr: &Cidr) -> CelString<'static> {
    format!("{}/{}", cidr.address, cidr.bits).into()
}

/// Clears all except the first `bits` bits of an address.
fn masked_address(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((four.to_bits() & mask).into())
        }
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((six.to_bits() & mask).into())
        }
    }
}

fn holds(cidr: &Cidr, address: IpAddr) -> bool {
    let same = cidr.address.is_ipv4() == address.is_ipv4();
    same && masked_address(address, cidr.bits) == masked_address(cidr.address, cidr.bits)
}

fn contains_ip(cidr: &Cidr, ip: &Ip) -> CelBool {
    holds(cidr, ip.0).into()
}

fn contains_ip_text(cidr: &Cidr, text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok(contains_ip(cidr, &ip(text)?))
}

fn contains_cidr(cidr: &Cidr, other: &Cidr) -> CelBool {
    (cidr.bits <= other.bits && holds(cidr, other.address)).into()
}

fn contains_cidr_text(this: &Cidr, text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok(contains_cidr(this, &cidr(text)?))
}

fn cidr_ip(cidr: &Cidr) -> Ip {
    Ip(cidr.address)
}

fn prefix_length(cidr: &Cidr) -> CelInt {
    i64::from(cidr.bits).into()
}

fn masked(cidr: &Cidr) -> Cidr {
    Cidr { address: masked_address(cidr.address, cidr.bits), bits: cidr.bits }
}
