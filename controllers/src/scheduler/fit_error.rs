//! Reasons why a pod fits on no node, with upstream's texts (`framework/types.go`, `FitError`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Plugins that can reject a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    /// spec.unschedulable.
    NodeUnschedulable,
    /// Taints.
    TaintToleration,
    /// Node selector and affinity.
    NodeAffinity,
    /// Host ports.
    NodePorts,
    /// CPU, memory, pods and other resources.
    NodeResourcesFit,
    /// ReadWriteOncePod, and disks that two pods cannot share.
    VolumeRestrictions,
    /// Volume limits of a node.
    NodeVolumeLimits,
    /// Claims and volumes.
    VolumeBinding,
    /// Zone labels of volumes.
    VolumeZone,
}

/// Rejection of a node by a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The plugin.
    pub plugin: Plugin,
    /// First reason.
    pub reason: Cow<'static, str>,
    /// Further reasons.
    pub more: Vec<Cow<'static, str>>,
    /// True if an eviction from the node could not help (`UnschedulableAndUnresolvable`).
    pub hopeless: bool,
}

impl Rejection {
    /// Creates a rejection with the given reasons; None without a reason.
    pub fn of(plugin: Plugin, reasons: impl IntoIterator<Item = Cow<'static, str>>, hopeless: bool) -> Option<Self> {
        let mut reasons = reasons.into_iter();
        Some(Self { plugin, reason: reasons.next()?, more: reasons.collect(), hopeless })
    }

    /// Creates a rejection that no eviction could change.
    pub fn hopeless(plugin: Plugin, reason: &'static str) -> Self {
        Self { plugin, reason: reason.into(), more: Vec::new(), hopeless: true }
    }

    /// Creates a rejection that an eviction might change.
    pub fn resolvable(plugin: Plugin, reason: &'static str) -> Self {
        Self { plugin, reason: reason.into(), more: Vec::new(), hopeless: false }
    }
}

/// Rejections of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FitError {
    /// Number of nodes.
    pub nodes: usize,
    /// Reason of a rejection before the filters.
    pub pre_filter: Option<String>,
    /// Number of nodes for each reason.
    reasons: BTreeMap<Cow<'static, str>, usize>,
    /// Number of nodes on which no eviction could help.
    hopeless: usize,
    /// True if the pod must not preempt.
    never_preempts: bool,
    /// Rejecting plugins. Events relevant to them requeue the pod.
    pub plugins: BTreeSet<Plugin>,
}

impl FitError {
    /// Creates the error for a rejection of all `nodes` by `plugin` at once.
    pub fn before_filters(nodes: usize, plugin: Plugin, reason: String, never_preempts: bool) -> Self {
        Self {
            nodes,
            pre_filter: Some(reason),
            hopeless: nodes,
            never_preempts,
            plugins: BTreeSet::from([plugin]),
            ..Self::default()
        }
    }

    /// Creates an error without a rejection yet, for `nodes`.
    pub fn new(nodes: usize, never_preempts: bool) -> Self {
        Self { nodes, never_preempts, ..Self::default() }
    }

    /// Counts a rejection of one node.
    pub fn reject(&mut self, rejection: Rejection) {
        self.plugins.insert(rejection.plugin);
        self.hopeless += usize::from(rejection.hopeless);
        for reason in std::iter::once(rejection.reason).chain(rejection.more) {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    /// Returns the preemption plugin's text: without victims it only counts. The first part is that of the
    /// resource-claims plugin, which runs before it.
    fn preemption(&self) -> String {
        if self.never_preempts {
            return "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.".to_owned();
        }
        let mut parts = Vec::new();
        let resolvable = self.nodes - self.hopeless.min(self.nodes);
        if self.hopeless > 0 {
            parts.push(format!("{} Preemption is not helpful for scheduling", self.hopeless));
        }
        if resolvable > 0 {
            parts.push(format!("{resolvable} No preemption victims found for incoming pod"));
        }
        parts.sort();
        format!("no new claims to deallocate, preemption: 0/{} nodes are available: {}.", self.nodes, parts.join(", "))
    }
}

impl std::fmt::Display for FitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        write!(f, "0/{} nodes are available:", self.nodes)?;
        match &self.pre_filter {
            Some(reason) => write!(f, " {reason}.")?,
            None => {
                // Sorted as texts with their counts, as upstream.
                let mut parts: Vec<String> =
                    self.reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
                parts.sort();
                write!(f, " {}.", parts.join(", "))?;
            }
        }
        write!(f, " {}", self.preemption())
    }
}

impl std::error::Error for FitError {}
