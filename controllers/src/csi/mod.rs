//! How controllers speak to a CSI driver (csi-lib-utils `connection` and `rpc`): one connection with a deadline for
//! each call, a probe until the driver is ready, what it says that it can do, and errors in the words of grpc-go.

mod access;
mod connection;
mod error;
#[cfg(test)]
mod tests;
mod told;

pub use access::{access_mode, volume_capability};
pub use connection::{Connection, Driver, NodeCapabilities, within};
pub use error::RpcError;
