//! The context of the user's own program when it runs as a process of a cluster.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use rand_chacha::rand_core::Rng as _;
use substrate::HttpService;

use super::ec2::Ec2;
use super::kubernetes::Kubernetes;

/// The context of a process that [`Cluster::spawn`](super::Cluster::spawn) has started: its clients, and the cluster's
/// time and randomness. All clones are one context.
///
/// Tasks that the process starts with [`spawn`](Ctx::spawn) end when it crashes.
#[derive(Clone)]
pub struct Ctx {
    inner: substrate::Ctx,
    apiserver: HttpService,
    ec2: HttpService,
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("name", self.inner.name()).finish_non_exhaustive()
    }
}

impl Ctx {
    pub(super) fn new(inner: substrate::Ctx, apiserver: HttpService, ec2: HttpService) -> Self {
        Self { inner, apiserver, ec2 }
    }

    /// Returns the name of the process.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Returns the number of this start of the process, from 1.
    pub fn incarnation(&self) -> u32 {
        self.inner.incarnation()
    }

    /// Returns a client of the API server. It has a few methods of its own, and is a tower service for
    /// `kube::Client::new(ctx.kubernetes(), "default")`.
    pub fn kubernetes(&self) -> Kubernetes {
        Kubernetes::new(self.apiserver.clone(), self.inner.name())
    }

    /// Returns a client of the cloud's Query API, which `aws ec2` also uses.
    pub fn ec2(&self) -> Ec2 {
        Ec2::new(self.ec2.clone(), self.inner.name())
    }

    /// Waits in the cluster's time.
    pub async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
    }

    /// Returns the time since the start of the cluster.
    pub fn elapsed(&self) -> Duration {
        self.inner.now().mono
    }

    /// Returns the wall time, as in timestamps of objects. A simulation starts on 2026-01-01.
    pub fn now(&self) -> Timestamp {
        self.inner.now().wall
    }

    /// Returns a seed for a random generator of the process. It differs for each purpose, process and start, and is the
    /// same in each run with the cluster's seed.
    pub fn seed(&self, purpose: &str) -> u64 {
        self.inner.rng(purpose).next_u64()
    }

    /// Starts a task that ends with the process.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.spawn(task);
    }
}

/// Result of a process's main function: `()`, a `Result` whose error is recorded in the trace, or an endless loop.
pub trait Ending {
    /// Returns the error, if there is one.
    fn error(self) -> Option<String>;
}

/// The type of `loop {}`, which stable Rust can only name as the output of a function.
mod never {
    pub trait Returning {
        type Output;
    }

    impl<T> Returning for fn() -> T {
        type Output = T;
    }

    pub type Never = <fn() -> ! as Returning>::Output;
}

impl Ending for never::Never {
    fn error(self) -> Option<String> {
        self
    }
}

impl Ending for () {
    fn error(self) -> Option<String> {
        None
    }
}

impl<E: fmt::Display> Ending for Result<(), E> {
    fn error(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}
