//! Unix sockets.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use super::authority::AnyAuthority;
use super::{ConnectionTimeouts, make_room};
use crate::body::HttpService;
use crate::process::Ctx;

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

/// Reason why a socket cannot be served.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum SocketError {
    /// cannot remove the stale socket {0}: {1}
    Stale(PathBuf, std::io::Error),
    /// {0} exists and is not a socket; it was left alone
    Occupied(PathBuf),
    /// cannot listen on {0}: {1}
    Listen(PathBuf, std::io::Error),
}

/// Binds `path`. A stale socket is removed first (CSI requires it); any other file is kept.
///
/// # Errors
/// The operating system's error, or an existing file of another kind.
pub fn bind_unix(path: &Path) -> Result<UnixListener, SocketError> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => {
            std::fs::remove_file(path).map_err(|error| SocketError::Stale(path.to_owned(), error))?;
        }
        Ok(_) => return Err(SocketError::Occupied(path.to_owned())),
        Err(_) => {}
    }
    UnixListener::bind(path).map_err(|error| SocketError::Listen(path.to_owned(), error))
}

/// Serves `service` on a unix socket within process `ctx`. A stale socket is removed first (CSI requires it); any other
/// file at the path is kept.
///
/// # Errors
/// The operating system's error.
pub fn unix(ctx: &Ctx, path: &Path, service: HttpService) -> Result<(), SocketError> {
    ctx.spawn(accept_unix(ctx.clone(), bind_unix(path)?, service));
    Ok(())
}

/// Accepts connections on a unix socket forever, with any `:authority` in requests: gRPC for C++, Python and Ruby sends
/// the percent-encoded socket path, which is not a valid host.
pub async fn accept_unix(ctx: Ctx, listener: UnixListener, service: HttpService) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            make_room(&ctx).await;
            continue;
        };
        ctx.spawn(super::stream(ctx.clone(), AnyAuthority::new(stream), service.clone(), ConnectionTimeouts::STEADY));
    }
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
