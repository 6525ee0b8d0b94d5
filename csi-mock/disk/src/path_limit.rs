//! Limit of paths.

/// Longest accepted path in bytes (PATH_MAX of Linux).
pub const MAX_PATH: usize = 4096;
