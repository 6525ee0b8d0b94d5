//! Errnos that a fault may set.

use rustix::io::Errno;

/// Defines the errnos that a fault may name.
macro_rules! errnos {
    ($($name:literal = $errno:ident,)*) => {
        /// Names of the errnos that a fault may set.
        pub const ERRNOS: &[&str] = &[$($name),*];

        /// Returns the errno of a name.
        pub fn errno(name: &str) -> Option<Errno> {
            match name {
                $($name => Some(Errno::$errno),)*
                _ => None,
            }
        }
    };
}

errnos! {
    "EACCES" = ACCESS,
    "EAGAIN" = AGAIN,
    "EBUSY" = BUSY,
    "EDQUOT" = DQUOT,
    "EEXIST" = EXIST,
    "EFBIG" = FBIG,
    "EINTR" = INTR,
    "EINVAL" = INVAL,
    "EIO" = IO,
    "EISDIR" = ISDIR,
    "EMFILE" = MFILE,
    "ENODEV" = NODEV,
    "ENOENT" = NOENT,
    "ENOMEM" = NOMEM,
    "ENOSPC" = NOSPC,
    "ENOTDIR" = NOTDIR,
    "ENOTEMPTY" = NOTEMPTY,
    "ENXIO" = NXIO,
    "EPERM" = PERM,
    "EROFS" = ROFS,
    "ESTALE" = STALE,
    "ETIMEDOUT" = TIMEDOUT,
}
