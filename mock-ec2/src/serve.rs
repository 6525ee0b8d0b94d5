//! The sockets. Every other module of this crate works without one.

use std::net::{SocketAddr, TcpListener};

use substrate::{Ctx, HttpService, guard, listen};

/// Binds `address` at once, so that a port in use is reported before anything starts.
///
/// # Errors
/// The operating system's error.
pub fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves `service` on `listener` forever, within process `ctx`. `allowed_hosts` are names, besides IP addresses and
/// localhost, that requests may use.
///
/// # Errors
/// If the runtime cannot take the listener.
pub async fn http(
    ctx: Ctx,
    listener: TcpListener,
    service: HttpService,
    allowed_hosts: &[String],
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    listen::tcp(ctx, listener, guard::guard(service, allowed_hosts), None).await;
    Ok(())
}
