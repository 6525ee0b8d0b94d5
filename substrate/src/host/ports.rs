//! Ports of loopback for programs that get theirs before they listen.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// First port of the range that Linux hands out by default (`ip_local_port_range`).
const HANDED_OUT: u16 = 32_768;
/// First port that [`unused_port`] returns.
const FIRST: u16 = 20_000;
/// Ports between the first tries of two processes with neighbouring ids.
const APART: u32 = 64;

/// Returns a port of 127.0.0.1 on which no program listens.
///
/// The system hands out ports above this range to connections and to listeners at port 0, so none of them takes the port
/// before the program listens. Two calls of one process return different ports; processes begin at different ones.
///
/// # Errors
/// `AddrInUse` if a program listens on every port of the range.
pub fn unused_port() -> std::io::Result<u16> {
    static TRIES: AtomicU16 = AtomicU16::new(0);
    let range = range(std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok().as_deref());
    let width = u32::from(range.end - range.start);
    for _ in range.clone() {
        let tries = u32::from(TRIES.fetch_add(1, Ordering::Relaxed));
        let place = (std::process::id().wrapping_mul(APART)).wrapping_add(tries) % width;
        let port = range.start + u16::try_from(place).expect("the place is below the width of a range of ports");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    let message = format!("a program listens on every port from {} to {}", range.start, range.end - 1);
    Err(std::io::Error::new(std::io::ErrorKind::AddrInUse, message))
}

/// Returns the ports below those that the system hands out, given the content of `ip_local_port_range`. A system that
/// hands out almost every port shares this range.
fn range(handed_out: Option<&str>) -> Range<u16> {
    let first = handed_out.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(HANDED_OUT);
    if first > FIRST { FIRST..first } else { FIRST..HANDED_OUT }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_differ_and_are_not_those_that_the_system_hands_out() {
        let ports: BTreeSet<u16> = (0..100).map(|_| unused_port().unwrap()).collect();
        assert_eq!(ports.len(), 100);
        let handed_out = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let range = range(std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok().as_deref());
        assert!(ports.iter().all(|port| range.contains(port)) && !range.contains(&handed_out), "{range:?}");
    }

    #[test]
    fn a_port_with_a_listener_is_not_returned() {
        let taken = unused_port().unwrap();
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, taken)).unwrap();
        assert!((0..100).all(|_| unused_port().unwrap() != taken));
    }

    #[test]
    fn the_range_ends_where_the_system_begins() {
        assert_eq!(range(Some("32768\t60999\n")), 20_000..32_768);
        assert_eq!(range(Some("49152 65535")), 20_000..49_152);
        assert_eq!(range(Some("1024 65535")), 20_000..32_768);
        assert_eq!(range(None), 20_000..32_768);
    }
}
