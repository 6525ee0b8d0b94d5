//! Sockets of a stand-alone driver. The only file that names listeners.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use substrate::events::ProcessFailed;
use substrate::listen::{self, ConnectionTimeouts, accept_unix, bind_unix, socket_path};
use substrate::{Ctx, HttpService, guard};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::calls::Absence;
use crate::events::{CsiSocket, SocketState};

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

/// Serves `service` on a unix socket like [`listen::unix`], but each message of `absences` removes the socket for a time: new connections are refused, and then a new
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
    let mut listener = bind_unix(path)?;
    let (ctx, own, path) = (ctx.clone(), ctx.clone(), path.to_owned());
    ctx.spawn(async move {
        loop {
            let absence = tokio::select! {
                biased;
                absence = absences.recv() => absence,
                () = accept_unix(own.clone(), listener, service.clone()) => None,
            };
            let Some(Absence { lasts, begins }) = absence else { return };
            // Ignore NotFound: the goal is that the socket no longer exists.
            let _ = std::fs::remove_file(&path);
            own.emit(CsiSocket { state: SocketState::Gone });
            // The sender of the order may not wait.
            let _ = begins.send(());
            own.sleep(lasts).await;
            listener = match bind_unix(&path) {
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
    fn tcp_stays_on_this_machine() {
        assert_eq!(endpoint("tcp://127.0.0.1:7").unwrap(), Endpoint::Tcp("127.0.0.1:7".parse().unwrap()));
        assert_eq!(endpoint("/run/x").unwrap(), Endpoint::Unix("/run/x".into()));
        for bad in ["tcp://0.0.0.0:1", "tcp://localhost", "tcp://"] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }
}
