//! Sockets of a stand-alone driver. The only file that names listeners.

use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use substrate::events::ProcessFailed;
use substrate::listen::ConnectionTimeouts;
use substrate::{Ctx, HttpService, guard, listen};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;

use crate::authority::AnyAuthority;
use crate::calls::Absence;
use crate::events::{CsiSocket, SocketState};

/// Longest path of a unix socket on Linux, in bytes.
const MAX_SOCKET: usize = 107;

/// Parses `unix:///absolute/path` or a bare absolute path.
///
/// # Errors
/// The reason why it is invalid.
pub fn socket_path(endpoint: &str) -> Result<PathBuf, String> {
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    if !path.starts_with('/') {
        return Err(format!("`{endpoint}` is not unix:///ABSOLUTE/PATH"));
    }
    if path.len() > MAX_SOCKET {
        return Err(format!("`{path}` is {} bytes long, a socket's path has at most {MAX_SOCKET}", path.len()));
    }
    Ok(PathBuf::from(path))
}

/// Endpoint of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port of this machine.
    Tcp(SocketAddr),
}

/// Parses `unix:///absolute/path`, a bare absolute path, or `tcp://127.0.0.1:PORT`.
///
/// # Errors
/// The reason why it is invalid. CSI over TCP has neither tokens nor TLS, so it stays on this machine.
pub fn endpoint(text: &str) -> Result<Endpoint, String> {
    let Some(address) = text.strip_prefix("tcp://") else { return socket_path(text).map(Endpoint::Unix) };
    let address: SocketAddr = address.parse().map_err(|_| format!("`{text}` is not tcp://ADDRESS:PORT"))?;
    if address.ip().is_loopback() { Ok(Endpoint::Tcp(address)) } else { Err(format!("`{text}` is not on loopback")) }
}

/// Binds `path`. A stale socket is removed first (CSI requires it); any other file is kept.
fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => {
            std::fs::remove_file(path).with_context(|| format!("cannot remove the stale socket {}", path.display()))?;
        }
        Ok(_) => bail!("{} exists and is not a socket; it was left alone", path.display()),
        Err(_) => {}
    }
    UnixListener::bind(path).with_context(|| format!("cannot listen on {}", path.display()))
}

/// Serves `service` on a unix socket within process `ctx`. A stale socket is removed first (CSI requires it); any other
/// file at the path is kept.
///
/// # Errors
/// The operating system's error.
pub fn unix(ctx: &Ctx, path: &Path, service: HttpService) -> anyhow::Result<()> {
    ctx.spawn(accept(ctx.clone(), bind(path)?, service));
    Ok(())
}

/// Accepts connections on a unix socket forever, with any `:authority` in requests: gRPC for C++, Python and Ruby sends
/// the percent-encoded socket path, which is not a valid host.
pub async fn accept(ctx: Ctx, listener: UnixListener, service: HttpService) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            listen::make_room(&ctx).await;
            continue;
        };
        ctx.spawn(listen::stream(ctx.clone(), AnyAuthority::new(stream), service.clone(), ConnectionTimeouts::STEADY));
    }
}

/// Like [`unix`], but each message of `absences` removes the socket for a time: new connections are refused, and then a new
/// socket is created.
///
/// # Errors
/// The operating system's error.
pub(crate) fn unix_with_absences(
    ctx: &Ctx,
    path: &Path,
    service: HttpService,
    mut absences: mpsc::UnboundedReceiver<Absence>,
) -> anyhow::Result<()> {
    let mut listener = bind(path)?;
    let (ctx, own, path) = (ctx.clone(), ctx.clone(), path.to_owned());
    ctx.spawn(async move {
        loop {
            let absence = tokio::select! {
                biased;
                absence = absences.recv() => absence,
                () = accept(own.clone(), listener, service.clone()) => None,
            };
            let Some(Absence { lasts, begins }) = absence else { return };
            // Ignore NotFound: the goal is that the socket no longer exists.
            let _ = std::fs::remove_file(&path);
            own.emit(CsiSocket { state: SocketState::Gone });
            // The sender of the order may not wait.
            let _ = begins.send(());
            own.sleep(lasts).await;
            listener = match bind(&path) {
                Ok(listener) => listener,
                Err(error) => return own.emit(ProcessFailed { error: format!("{error:#}") }),
            };
            own.emit(CsiSocket { state: SocketState::Back });
        }
    });
    Ok(())
}

/// Serves `service` on TCP behind the Host and Origin checks, within process `ctx`. Returns the address.
///
/// # Errors
/// The operating system's error.
pub async fn tcp(ctx: &Ctx, address: SocketAddr, service: HttpService) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let bound = listener.local_addr()?;
    ctx.spawn(listen::tcp_with(ctx.clone(), listener, guard::guard(service, &[]), None, ConnectionTimeouts::STEADY));
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_absolute_paths_with_or_without_the_scheme() {
        assert_eq!(socket_path("unix:///run/csi.sock").unwrap(), PathBuf::from("/run/csi.sock"));
        assert_eq!(socket_path("/run/csi.sock").unwrap(), PathBuf::from("/run/csi.sock"));
        for bad in ["unix://csi.sock", "tcp://127.0.0.1:1", "csi.sock", ""] {
            assert!(socket_path(bad).is_err(), "{bad}");
        }
        assert!(socket_path(&format!("/{}", "x".repeat(MAX_SOCKET))).is_err());
    }

    #[test]
    fn tcp_stays_on_this_machine() {
        assert_eq!(endpoint("tcp://127.0.0.1:7").unwrap(), Endpoint::Tcp("127.0.0.1:7".parse().unwrap()));
        assert_eq!(endpoint("/run/x").unwrap(), Endpoint::Unix("/run/x".into()));
        for bad in ["tcp://0.0.0.0:1", "tcp://localhost", "tcp://"] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }
}
