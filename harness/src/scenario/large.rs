//! A scenario of any size, for figures and for the replay of large clusters.

use std::fmt::Write as _;

use crate::spec::cluster::node_name;

/// Text of `node-crash-short` at scale: `volumes` claims and pods, 20 on each node, on the first nodes. These lose
/// power, their pods are force-deleted, and the replacements start on the other nodes. `nodes` must exceed the number
/// of nodes that crash.
pub fn crash_of_many(nodes: usize, volumes: usize) -> String {
    // m5.large takes 26 volumes.
    let per_node = 20;
    let crashed = volumes.div_ceil(per_node);
    let mut text = format!("name: crash\ndeadline: 60m\nnodes: {{count: {nodes}}}\nobjects:\n");
    text.push_str("  - {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: gp3}, provisioner: ebs.csi.aws.com, parameters: {type: gp3}, volumeBindingMode: WaitForFirstConsumer}\n");
    let names: Vec<String> = (0..crashed).map(node_name).collect();
    // A crashed node counts as ready for another 50 s, so the replacements name their nodes.
    let survivors: Vec<String> = (crashed..nodes).map(node_name).collect();
    let pod = |suffix: &str, i: usize, node: &str| {
        let selector = format!("nodeSelector: {{kubernetes.io/hostname: {node}}}, ");
        format!(
            "      - {{apiVersion: v1, kind: Pod, metadata: {{name: pod-{i}{suffix}}}, spec: {{{selector}containers: [{{name: w, image: w, volumeMounts: [{{name: d, mountPath: /d}}]}}], volumes: [{{name: d, persistentVolumeClaim: {{claimName: data-{i}}}}}]}}}}\n"
        )
    };
    text.push_str("steps:\n  - apply:\n");
    for i in 0..volumes {
        let _ = writeln!(
            text,
            "      - {{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: data-{i}}}, spec: {{accessModes: [ReadWriteOnce], storageClassName: gp3, resources: {{requests: {{storage: 1Gi}}}}}}}}"
        );
        text.push_str(&pod("", i, &names[i / per_node]));
    }
    for i in 0..volumes {
        let _ = writeln!(text, "  - wait: {{object: pod/pod-{i}, is: Running, within: 10m}}");
    }
    text.push_str("  - sleep: 15s\n");
    for name in &names {
        let _ = writeln!(text, "  - crash: {name}");
    }
    for i in 0..volumes {
        let _ = writeln!(text, "  - delete: {{object: pod/pod-{i}, force: true, grace: 0s}}");
    }
    text.push_str("  - apply:\n");
    for i in 0..volumes {
        text.push_str(&pod("-b", i, &survivors[i % survivors.len()]));
    }
    for i in 0..volumes {
        let _ = writeln!(text, "  - wait: {{object: pod/pod-{i}-b, is: Running, within: 20m}}");
    }
    text.push_str("  - expect: {elapsed: {at-least: 373s}}\nteardown: false\n");
    text
}

/// Returns the text of a scenario that ends when `volumes` pods with claims run.
pub fn starts_of_many(nodes: usize, volumes: usize) -> String {
    format!(
        "name: starts\ndeadline: 60m\nnodes: {{count: {nodes}}}\nsteps:\n  \
         - repeat: {{count: {volumes}, as: i, do: [{{claim: {{name: 'data-${{i}}'}}}}, \
         {{pod: {{name: 'web-${{i}}', claim: 'data-${{i}}'}}}}]}}\n  \
         - wait: {{list: pods, that: \"self.filter(p, p.status.phase == 'Running').size() == {volumes}\", within: 50m}}\n\
         teardown: false\n"
    )
}

/// Returns the text of a scenario in which `volumes` pods with claims start and are deleted. It waits for the list of
/// pods if `lists`, otherwise for each pod.
pub fn waits_for_many(nodes: usize, volumes: usize, lists: bool) -> String {
    let each = |what: &str| format!("  - repeat: {{count: {volumes}, as: i, do: [{what}]}}\n");
    let wait = |each_is: &str, list_that: &str| match lists {
        true => format!("  - wait: {{list: pods, that: \"{list_that}\", within: 20m}}\n"),
        false => each(&format!("{{wait: {{object: 'pod/web-${{i}}', is: {each_is}, within: 20m}}}}")),
    };
    let running = format!("self.filter(p, p.status.phase == 'Running').size() == {volumes}");
    [
        format!("name: waits\ndeadline: 60m\nnodes: {{count: {nodes}}}\nsteps:\n"),
        each("{claim: {name: 'data-${i}'}}, {pod: {name: 'web-${i}', claim: 'data-${i}'}}"),
        wait("Running", &running),
        each("{delete: {object: 'pod/web-${i}'}}"),
        wait("gone", "self.size() == 0"),
        "teardown: false\n".to_owned(),
    ]
    .concat()
}
