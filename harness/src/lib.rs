//! A fake AWS and Kubernetes cluster for storage, for tests.
//!
//! A test starts a cluster with its cloud, injects faults, and checks the expected result. The cluster runs in virtual
//! time on its own thread: six minutes pass in milliseconds, and the same seed gives the same run.
//!
//! ```
//! use harness::prelude::*;
//!
//! const CLAIM_AND_POD: &str = "
//! apiVersion: v1
//! kind: PersistentVolumeClaim
//! metadata: {name: data}
//! spec:
//!   accessModes: [ReadWriteOnce]
//!   resources: {requests: {storage: 1Gi}}
//! ---
//! apiVersion: v1
//! kind: Pod
//! metadata: {name: web}
//! spec:
//!   containers: [{name: writer, image: any, volumeMounts: [{name: data, mountPath: /data}]}]
//!   volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
//! ";
//!
//! # fn main() -> Result<(), Error> {
//! let cluster = Cluster::simulated().nodes(2).start()?;
//!
//! // The cloud attaches the volume, and its reply is lost.
//! let lost = cluster.inject(fault::ec2("AttachVolume").first(1).drop_reply())?;
//! cluster.apply(CLAIM_AND_POD)?;
//! cluster.wait_for("pvc/data", "self.status.phase == 'Bound'")?;
//! cluster.wait_for("pod/web", "Running")?;
//! assert_eq!(lost.hits(), 1);
//! drop(lost); // the fault ends
//!
//! // The pod writes records to its volume. Another pod finds them.
//! cluster.wait_for_records("pod/web", 3)?;
//! cluster.delete("pod/web")?;
//! cluster.wait_for("pod/web", "gone")?;
//! cluster.apply(CLAIM_AND_POD)?;
//! assert!(cluster.bytes_intact("pod/web")? >= 3);
//!
//! // The cluster has converged, and no invariant was violated.
//! cluster.check()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Your own controller
//!
//! Leave out the component that your controller replaces, and run your controller instead, in the cluster's virtual
//! time. Tests can crash and restart it by name, and faults can match its name.
//!
//! ```
//! use harness::prelude::*;
//!
//! # fn main() -> Result<(), Error> {
//! let cluster = Cluster::simulated().without(["csi-attacher"]).start()?;
//! cluster.spawn("my-attacher", async |ctx| {
//!     let mut watch = ctx.kubernetes().watch("/apis/storage.k8s.io/v1/volumeattachments").await?;
//!     while let Some(change) = watch.next().await? {
//!         if change.r#type == "ADDED" {
//!             ctx.ec2().call("DescribeVolumes", &[]).await?;
//!         }
//!     }
//!     Ok::<(), Error>(())
//! })?;
//! let slow = cluster.inject(fault::k8s("watch").matching("caller", "my-attacher").delay(Duration::from_secs(5)))?;
//! cluster.crash("my-attacher")?;
//! cluster.restart("my-attacher")?;
//! cluster.advance(Duration::from_secs(60))?;
//! assert_eq!(slow.hits(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! [`ctx.kubernetes()`](testing::Ctx::kubernetes) is a tower service, too:
//! `kube::Client::new(ctx.kubernetes(), "default")` makes a kube-rs client from it. The seed does not control your
//! code's own hash maps, threads and clocks.
//!
//! # Async tests
//!
//! Methods block, even inside a runtime. Each has an async variant whose name ends in `_async`:
//!
//! ```
//! # use harness::prelude::*;
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # runtime.block_on(async {
//! let cluster = Cluster::simulated().start_async().await?;
//! cluster.apply_async("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}").await?;
//! assert!(cluster.get("cm/settings")?.is_some()); // this works here, too
//! # Ok::<(), Error>(())
//! # }).unwrap();
//! ```
//!
//! # Seeds
//!
//! The seed of a cluster is that in the code, otherwise `MOORING_SEED`, otherwise 1. [`seeds`](testing::seeds) runs a
//! test with many seeds; `MOORING_SEEDS=1..1000` replaces them.
//!
//! # Failures
//!
//! `{:?}` of an [`Error`](testing::Error) shows the seed, the timeline of the volumes, the last lines of the trace, and
//! the command that runs the test again. `?` in a test and `unwrap` print the same, and so does a panic of the test. A
//! simulation that does not end is abandoned after a minute ([`wall_limit`](testing::Builder::wall_limit)): its test
//! fails, and the others continue.
//!
//! # Live clusters
//!
//! [`Cluster::live`](testing::Cluster::live) has the same methods in real time, with sockets for kubectl, aws and other
//! programs. [`env`](testing::Cluster::env) returns the environment variables with which they find it. As root on Linux
//! its volumes are loop devices.
//!
//! # More
//!
//! [`fault`](testing::fault) lists all possible faults, [`play`](testing::play) runs a scenario file. The modules that
//! are not listed here belong to the `mooring` command and may change at any time.
//!
//! # Modules
//!
//! [`testing`] is the library of this page. The others, from the ground to the roof: `spec` describes a cluster, `model`
//! folds the trace of a run, `scenario` reads files, `invariants` judge, `cluster` assembles, `runner` runs steps,
//! `timeline` and `report` show the result, `search` and `perturb` look for failures, `cli` is the command. A test,
//! `floors.rs`, says which module may import which.
//!
//! # Never
//!
//! The crate decides nothing that a component decides: it assembles, breaks and checks. It starts no program of a
//! scenario file without `--allow-exec`.

mod allocator;
mod block_on;
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod cluster;
#[doc(hidden)]
pub mod containers;
#[doc(hidden)]
pub mod events;
#[cfg(test)]
mod floors;
#[doc(hidden)]
pub mod import;
#[doc(hidden)]
pub mod invariants;
mod model;
#[doc(hidden)]
pub mod mutants;
#[doc(hidden)]
pub mod output;
#[doc(hidden)]
pub mod perturb;
mod program;
#[doc(hidden)]
pub mod report;
#[doc(hidden)]
pub mod report_html;
#[doc(hidden)]
pub mod runner;
#[doc(hidden)]
pub mod scenario;
#[doc(hidden)]
pub mod schema;
#[doc(hidden)]
pub mod search;
mod secrets;
#[doc(hidden)]
pub mod seeds;
#[doc(hidden)]
pub mod spec;
mod suggestions;
pub mod testing;
#[doc(hidden)]
pub mod timeline;
#[doc(hidden)]
pub mod wiring;
mod writes;

pub(crate) use block_on::block_on;
#[doc(hidden)]
pub use program::{ProgramReport, ProgramSpec};

/// Everything that most tests need: `use harness::prelude::*;`.
pub mod prelude {
    pub use std::time::Duration;

    pub use crate::testing::{Cluster, Ctx, Error, ErrorKind, fault, seeds};
}
