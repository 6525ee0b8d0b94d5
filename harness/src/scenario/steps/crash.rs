//! `crash`: a node loses power, or a process is killed; it stays down.

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("crash", Of::Text, ABOUT).like(&["- crash: csi-attacher", "- crash: node-a"]);

const ABOUT: &str = "The process ends or the machine loses power, and stays down: `mock-ec2`, `fake-apiserver`, \
    `csi-controller`, a process of control loops such as `csi-attacher`, `controllers` for all \
    of these, `node-a/kubelet`, `node-a/csi-node`, or a node for its machine.";

pub(super) fn lower(name: Spanned<String>, steps: &mut Steps<'_>) -> Checked<Action> {
    steps.node_or_process(name).map(Action::Crash)
}

pub(super) fn summary(name: &str) -> Summary {
    Summary::change(format!("crash {name}"))
}
