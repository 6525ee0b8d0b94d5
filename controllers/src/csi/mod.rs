//! Client of a CSI driver (csi-lib-utils `connection` and `rpc`): one connection with a deadline for each call, a probe
//! until the driver is ready, its capabilities, and errors with grpc-go's texts.

mod access;
mod call_log;
mod connection;
mod error;
#[cfg(test)]
mod tests;

pub use access::{access_mode, volume_capability};
pub use connection::{Connection, Driver, NodeCapabilities, within};
pub use error::RpcError;
