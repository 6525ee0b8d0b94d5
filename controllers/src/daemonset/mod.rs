//! The DaemonSet controller (`daemonset-controller`, `pkg/controller/daemon`): one pod on each node that fits.

mod async_loop;
mod history;
mod nodes;
mod pods;
mod status;
#[cfg(test)]
mod tests;
mod update;

pub(crate) use async_loop::run;
