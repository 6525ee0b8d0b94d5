//! Published capacity (upstream `pkg/capacity`): one CSIStorageCapacity object for each topology segment of the driver
//! and each of its StorageClasses. The scheduler reads them for drivers with `storageCapacity: true`.
//!
//! Pure parts: [`segments`] (topology of the nodes), [`items`] (objects that should exist), [`object`] (request to the
//! driver and the write that its answer needs). `async_loop::capacity` runs them.

pub mod items;
pub mod object;
pub mod segments;
#[cfg(test)]
mod tests;
