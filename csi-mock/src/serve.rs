//! The sockets of a stand-alone driver: the only place that names listeners.

use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use substrate::{Ctx, HttpService, guard, listen};
use tokio::net::{TcpListener, UnixListener};

/// Longest path of a unix socket on Linux, in bytes.
const MAX_SOCKET: usize = 107;

/// A path out of `unix:///absolute/path`; a bare absolute path is good too.
///
/// # Errors
/// What is wrong with it.
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

/// Serves `service` on a unix socket within process `ctx`. A stale socket is removed first (CSI asks for that);
/// anything else at the path is left alone.
///
/// # Errors
/// What the system says.
pub fn unix(ctx: &Ctx, path: &Path, service: HttpService) -> anyhow::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => {
            std::fs::remove_file(path).with_context(|| format!("cannot remove the stale socket {}", path.display()))?;
        }
        Ok(_) => bail!("{} exists and is not a socket; it was left alone", path.display()),
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).with_context(|| format!("cannot listen on {}", path.display()))?;
    ctx.spawn(listen::unix(ctx.clone(), listener, service));
    Ok(())
}

/// Serves `service` on TCP behind the Host and Origin checks, within process `ctx`; returns the address.
///
/// # Errors
/// What the system says.
pub async fn tcp(ctx: &Ctx, address: SocketAddr, service: HttpService) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let bound = listener.local_addr()?;
    ctx.spawn(listen::tcp(ctx.clone(), listener, guard::guard(service, &[]), None));
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
}
