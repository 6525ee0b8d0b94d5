//! Address from which a node reaches the API server.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use http::Uri;

use super::{NAME_LIMIT, NAME_LOOK};

/// Interval between two checks of the node's own address.
const LOOK: Duration = Duration::from_secs(2);

/// Returns the address from which this machine reaches `endpoint`. Retries, because the name resolves only once the
/// container of the server runs.
pub(super) async fn own_address(endpoint: &str) -> Result<IpAddr, String> {
    let tries = NAME_LIMIT.as_millis() / NAME_LOOK.as_millis();
    let mut last = String::new();
    for _ in 0..tries {
        match address_towards(endpoint) {
            Ok(address) => return Ok(address),
            Err(why) => last = why,
        }
        tokio::time::sleep(NAME_LOOK).await;
    }
    Err(format!("--kubernetes: {last}"))
}

/// Waits until this machine has an address other than `known`. Without a route to the API server the address counts as
/// unchanged.
pub(super) async fn another_address(endpoint: &str, known: IpAddr) -> IpAddr {
    loop {
        tokio::time::sleep(LOOK).await;
        match address_towards(endpoint) {
            Ok(address) if address != known => return address,
            _ => {}
        }
    }
}

pub(super) fn address_towards(endpoint: &str) -> Result<IpAddr, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{endpoint}: {e}");
    let uri: Uri = endpoint.parse().map_err(|e: http::uri::InvalidUri| failed(&e))?;
    let host = uri.scheme().and_then(|_| uri.host()).ok_or_else(|| failed(&"must be http://HOST:PORT"))?;
    let mut found = (host, uri.port_u16().unwrap_or(80)).to_socket_addrs().map_err(|e| failed(&e))?;
    let server = found.next().ok_or_else(|| failed(&"its name has no address"))?;
    let any: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
    // Connecting a datagram socket sends nothing: the kernel only chooses a route.
    let socket = UdpSocket::bind((any, 0)).map_err(|e| failed(&e))?;
    socket.connect(server).map_err(|e| failed(&e))?;
    socket.local_addr().map(|own| own.ip()).map_err(|e| failed(&e))
}
