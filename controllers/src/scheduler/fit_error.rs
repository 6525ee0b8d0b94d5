//! Reasons why a pod fits on no node, with upstream's texts (`framework/types.go`, `FitError`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::candidates::Candidate;
use super::nominations::Nomination;

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
    /// Spreading of similar pods.
    PodTopologySpread,
    /// Affinity between pods.
    InterPodAffinity,
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

    /// Returns the reasons.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.reason).chain(&self.more).map(|reason| &**reason)
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

/// Result of the plugins that run when no node fits (`RunPostFilterPlugins`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Text for the pod's user; empty if pods are preempted.
    pub message: String,
    /// Change of the pod's nominated node.
    pub nomination: Nomination,
    /// Node and pods to preempt there.
    pub candidate: Option<Candidate>,
}

/// Rejections of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FitError {
    /// Number of nodes.
    pub nodes: usize,
    /// Reason of a rejection before the filters.
    pub pre_filter: Option<String>,
    /// Rejection of each node by the filters.
    pub rejections: BTreeMap<String, Rejection>,
    /// Reason of the nodes that were not filtered, because a plugin had named others.
    pub unnamed: Option<&'static str>,
    /// Rejecting plugins. Events relevant to them requeue the pod.
    pub plugins: BTreeSet<Plugin>,
    /// Result of preemption.
    pub verdict: Verdict,
}

impl FitError {
    /// Creates an error without a rejection yet, for `nodes`.
    pub fn new(nodes: usize) -> Self {
        let verdict = Verdict { nomination: Nomination::Clear, ..Verdict::default() };
        Self { nodes, verdict, ..Self::default() }
    }

    /// Notes a rejection of all nodes before the filters.
    pub fn reject_all(&mut self, plugin: Plugin, reason: String) {
        self.plugins.insert(plugin);
        self.pre_filter = Some(reason);
    }

    /// Notes that only the nodes that the pod's affinity names are filtered.
    pub fn reject_unnamed(&mut self) {
        self.plugins.insert(Plugin::NodeAffinity);
        self.unnamed = Some("node(s) didn't satisfy plugin(s) [NodeAffinity]");
    }

    /// Notes a rejection of one node.
    pub fn reject(&mut self, node: &str, rejection: Rejection) {
        self.plugins.insert(rejection.plugin);
        self.rejections.insert(node.to_owned(), rejection);
    }
}

/// Returns the reasons with the number of nodes for each, sorted as texts with their counts, as upstream.
pub fn histogram<'a>(reasons: impl IntoIterator<Item = (&'a str, usize)>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (reason, count) in reasons {
        *counts.entry(reason).or_default() += count;
    }
    let mut parts: Vec<String> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    parts.join(", ")
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
                let reasons = self.rejections.values().flat_map(Rejection::reasons).map(|reason| (reason, 1));
                let absent = self.nodes - self.rejections.len();
                let unnamed = self.unnamed.filter(|_| absent > 0).map(|reason| (reason, absent));
                write!(f, " {}.", histogram(reasons.chain(unnamed)))?;
            }
        }
        if !self.verdict.message.is_empty() {
            write!(f, " {}", self.verdict.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for FitError {}
