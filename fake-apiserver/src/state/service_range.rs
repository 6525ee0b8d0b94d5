//! Ranges of service addresses.

use std::net::{IpAddr, Ipv4Addr};

/// Range of service addresses (`--service-cluster-ip-range`), IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    pub(super) network: u32,
    bits: u8,
}

impl Default for ServiceRange {
    /// Kubeadm's range, 10.96.0.0/12.
    fn default() -> Self {
        Self { network: u32::from(Ipv4Addr::new(10, 96, 0, 0)), bits: 12 }
    }
}

impl ServiceRange {
    /// Parses an IPv4 CIDR with at least eight addresses.
    ///
    /// # Errors
    /// The reason why the text is not such a range.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("invalid CIDR address: {text}");
        let (address, bits) = text.split_once('/').ok_or_else(invalid)?;
        let address: Ipv4Addr = match address.parse::<IpAddr>().map_err(|_| invalid())? {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => return Err(format!("{text}: services have IPv4 addresses only here")),
        };
        let bits: u8 = bits.parse().ok().filter(|bits| *bits <= 32).ok_or_else(invalid)?;
        if bits > 29 {
            return Err("the service cluster IP range must be at least 8 IP addresses".to_owned());
        }
        let mask = u32::MAX.checked_shl(u32::from(32 - bits)).unwrap_or(0);
        Ok(Self { network: u32::from(address) & mask, bits })
    }

    /// Returns the range as a CIDR.
    pub fn cidr(self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.network), self.bits)
    }

    /// Returns the address of the API server's own service: the first of the range.
    pub fn own_address(self) -> String {
        Ipv4Addr::from(self.network.wrapping_add(1)).to_string()
    }

    /// Returns the number of addresses, at most as many as upstream allocates from.
    fn size(self) -> u32 {
        1_u32.checked_shl(u32::from(32 - self.bits)).unwrap_or(u32::MAX).min(1 << 16)
    }

    /// Returns the offsets of automatically allocated addresses. The lower ones are for services that request one
    /// (KEP-3070, `calculateRangeOffset`).
    pub(super) fn dynamic(self) -> std::ops::Range<u32> {
        let lower = (self.size() / 16).clamp(16, 256);
        let lower = if self.size() <= 16 { 0 } else { lower };
        lower + 1..self.size() - 1
    }

    /// Returns true if a service may request this IPv4 address: all but the first and the last of the range.
    pub(super) fn holds(self, address: Ipv4Addr) -> bool {
        let last = 1_u32.checked_shl(u32::from(32 - self.bits)).map_or(u32::MAX, |size| size - 1);
        u32::from(address).checked_sub(self.network).is_some_and(|offset| (1..last).contains(&offset))
    }

    pub(super) fn offset(self, address: &str) -> Option<u32> {
        let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
        address.checked_sub(self.network).filter(|offset| *offset < self.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_an_ipv4_cidr_with_room() {
        let range = ServiceRange::parse("10.0.0.7/24").unwrap();
        assert_eq!(
            (range.cidr(), range.own_address(), range.dynamic()),
            ("10.0.0.0/24".into(), "10.0.0.1".into(), 17..255)
        );
        assert_eq!(ServiceRange::parse("10.96.0.0/12"), Ok(ServiceRange::default()));
        assert_eq!(ServiceRange::default().dynamic(), 257..65_535);
        assert_eq!(ServiceRange::parse("10.0.0.0/29").unwrap().dynamic(), 1..7);
        for (text, why) in [
            ("10.0.0.0", "invalid CIDR address: 10.0.0.0"),
            ("x/8", "invalid CIDR address: x/8"),
            ("10.0.0.0/33", "invalid CIDR address: 10.0.0.0/33"),
            ("10.0.0.0/30", "the service cluster IP range must be at least 8 IP addresses"),
            ("fd00::/108", "fd00::/108: services have IPv4 addresses only here"),
        ] {
            assert_eq!(ServiceRange::parse(text), Err(why.to_owned()));
        }
    }
}
