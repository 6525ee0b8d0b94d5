//! Events of disks and of the device plug.

use substrate::json::Text;

substrate::events! {
    /// A device appeared on a node.
    pub struct DiskPlugged = "disk.plugged" {
        /// The volume.
        pub volume: Text,
        /// The node.
        pub node: Text,
        /// The cloud's name of the device.
        pub device: Text,
    }

    /// A device was removed from a node.
    pub struct DiskUnplugged = "disk.unplugged" {
        /// The volume.
        pub volume: Text,
        /// The node.
        pub node: Text,
    }

    /// A device on a node was updated after its volume had grown.
    pub struct DiskResized = "disk.resized" {
        /// The volume.
        pub volume: Text,
        /// The node.
        pub node: Text,
        /// The volume's size in bytes.
        pub size_bytes: u64,
    }

    /// The disk failed at a line of the device stream.
    pub struct DiskError = "disk.error" {
        /// The volume.
        pub volume: Text,
        /// The node.
        pub node: Text,
        /// The error.
        pub error: String,
    }

    /// A node lost its power: its mounts, devices and unsynced writes are gone.
    pub struct DiskCrashed = "disk.crashed" {
        /// The node.
        pub node: Text,
    }

    /// The device stream broke. Only at the trace level, and for observers that ask for it.
    pub struct PlugDisconnected = "plug.disconnected" {
        /// The node.
        pub node: Text,
        /// The error.
        pub error: String,
    }
}
