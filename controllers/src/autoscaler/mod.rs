//! The HorizontalPodAutoscaler controller (`horizontal-pod-autoscaler-controller`, `pkg/controller/podautoscaler`): keeps the
//! replicas of a target within the limits of its autoscaler. This cluster has no metrics, so each metric fails as in a
//! cluster whose metrics APIs are not installed.

mod async_loop;
mod metrics;
mod status;
mod target;

pub(crate) use async_loop::run;
