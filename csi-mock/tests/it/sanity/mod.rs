//! The requirements of csi-sanity 5.5 as tests of this project: 95 cases with the original's names and groups, and some
//! that it skips. Each case runs against the services in process, over a cloud and memory disks in virtual time, with
//! mount and block volumes, with all and with minimal capabilities. A case whose capability is not offered is skipped,
//! as in csi-sanity.

mod controller;
mod expansion;
mod group;
mod identity;
mod lifecycle;
mod metadata;
mod node;
mod offered;
mod snapshots;
