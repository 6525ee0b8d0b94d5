//! The demands of csi-sanity 5.5 as tests of ours: 95 cases under the names of the original, in the groups of the
//! original, and what it skips besides. Each case runs against the services in process, over a cloud and memory disks
//! in virtual time, with mount and with block volumes, with all capabilities and with the minimal ones; where a case
//! needs a capability that is not offered, csi-sanity skips it, and so does the case here.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod bench;
mod controller;
mod expansion;
mod group;
mod identity;
mod lifecycle;
mod metadata;
mod node;
mod offered;
mod snapshots;
