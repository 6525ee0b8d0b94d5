//! Why a pod fits nowhere, in upstream's words (`framework/types.go`, `FitError`).

use std::collections::{BTreeMap, BTreeSet};

/// The plugins that can reject a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    /// spec.unschedulable.
    NodeUnschedulable,
    /// Taints.
    TaintToleration,
    /// Node selector and affinity.
    NodeAffinity,
    /// CPU, memory, pods.
    NodeResourcesFit,
    /// ReadWriteOncePod, and disks that two pods cannot share.
    VolumeRestrictions,
    /// How many volumes a node takes.
    NodeVolumeLimits,
    /// Claims and volumes.
    VolumeBinding,
    /// Zone labels of volumes.
    VolumeZone,
}

/// A node that a plugin refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Which plugin.
    pub plugin: Plugin,
    /// Its reason.
    pub reason: &'static str,
    /// Its other reasons, if any.
    pub more: Vec<&'static str>,
    /// Whether removing pods from the node could not help (`UnschedulableAndUnresolvable`).
    pub hopeless: bool,
}

impl Rejection {
    /// A rejection for some of many reasons; none when there is no reason.
    pub fn of(plugin: Plugin, reasons: impl IntoIterator<Item = &'static str>, hopeless: bool) -> Option<Self> {
        let mut reasons = reasons.into_iter();
        Some(Self { plugin, reason: reasons.next()?, more: reasons.collect(), hopeless })
    }

    /// A rejection that no eviction could change.
    pub fn hopeless(plugin: Plugin, reason: &'static str) -> Self {
        Self { plugin, reason, more: Vec::new(), hopeless: true }
    }

    /// A rejection that an eviction might change.
    pub fn resolvable(plugin: Plugin, reason: &'static str) -> Self {
        Self { plugin, reason, more: Vec::new(), hopeless: false }
    }
}

/// What stood against a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FitError {
    /// How many nodes there are.
    pub nodes: usize,
    /// What ruled out all of them before any was looked at.
    pub pre_filter: Option<String>,
    /// How often each reason was given.
    reasons: BTreeMap<&'static str, usize>,
    /// Nodes on which no eviction could help.
    hopeless: usize,
    /// Whether the pod may not preempt.
    never_preempts: bool,
    /// The plugins that objected; events that may change their mind bring the pod back.
    pub plugins: BTreeSet<Plugin>,
}

impl FitError {
    /// All of `nodes` were ruled out by `plugin` at once.
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

    /// No objection yet against `nodes`.
    pub fn new(nodes: usize, never_preempts: bool) -> Self {
        Self { nodes, never_preempts, ..Self::default() }
    }

    /// Counts an objection to one node.
    pub fn reject(&mut self, rejection: Rejection) {
        self.plugins.insert(rejection.plugin);
        self.hopeless += usize::from(rejection.hopeless);
        for reason in std::iter::once(rejection.reason).chain(rejection.more) {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    /// What the preemption plugin says: without victims it only counts. The first part is that of the plugin for
    /// resource claims, which runs before it.
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
                // Sorted as texts, counts included, as upstream does.
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
