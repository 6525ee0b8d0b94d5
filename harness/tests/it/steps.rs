//! Whole runs of the less common steps: the cloud, patches, custom resources, partitions, files of nodes, pauses; and
//! of the settings of the cluster in the header.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use csi_mock::events::CsiCall;
use harness::cluster::{Cluster, ClusterSpec, live};
use harness::events::ClusterNode;
use harness::output::Exit;
use harness::runner::{self, Outcome, PauseHook};
use harness::scenario::{self, ObjectRef};
use mock_ec2::events::{AttachmentChanged, AttachmentPhase, VolumeChanged};
use substrate::World;
use substrate::json::Value;
use substrate::world::{Options, simulate};

/// Runs a scenario text in virtual time, and reads an object afterwards.
fn run_and_read(text: &str, object: &str) -> (Outcome, Exit, Option<Value>) {
    let scenario = scenario::parse("test.yaml", text).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
    let object: ObjectRef = object.parse().unwrap();
    let (outcome, object) = simulate(Options::default(), async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
        let outcome = runner::run(&scenario, &cluster, |_| {}).await;
        (outcome, cluster.objects().get(&object).await.unwrap())
    });
    let exit = harness::report::failure(&scenario, &outcome).map_or(Exit::Passed, |(exit, _)| exit);
    (outcome, exit, object)
}

fn run(text: &str) -> (Outcome, Exit) {
    let (outcome, exit, _) = run_and_read(text, "node/node-a");
    (outcome, exit)
}

/// Runs a scenario that must pass.
fn passes(text: &str) -> Outcome {
    let (outcome, exit) = run(text);
    assert_eq!(exit, Exit::Passed, "{}", why(&outcome));
    outcome
}

/// Runs a scenario that must fail at a step. Returns the expectation and the observation.
fn fails(text: &str) -> (String, String) {
    let (outcome, exit) = run(text);
    let failure = outcome.failure.unwrap_or_else(|| panic!("it passed as {exit:?}"));
    assert_eq!(exit, Exit::Failed);
    (failure.expected, failure.seen)
}

fn why(outcome: &Outcome) -> String {
    let Outcome { failure, violations, leftovers, silent_faults, .. } = outcome;
    format!("{failure:?} {violations:?} {leftovers:?} {silent_faults:?}")
}

/// Returns a scenario text with two nodes, a storage class and these lines.
fn scenario_text(head: &str, steps: &str) -> String {
    format!(
        "name: t
nodes: {{count: 2}}
deadline: 2h
{head}
objects:
  - apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {{name: gp3}}
    provisioner: ebs.csi.aws.com
    parameters: {{type: gp3}}
    volumeBindingMode: WaitForFirstConsumer
steps:
{steps}"
    )
}

/// Steps that create a claim, and a pod that uses it on a node.
fn pod(name: &str, claim: &str, node: &str) -> String {
    format!(
        "  - apply:
      - apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {{name: {claim}}}
        spec: {{accessModes: [ReadWriteOnce], storageClassName: gp3, resources: {{requests: {{storage: 1Gi}}}}}}
      - apiVersion: v1
        kind: Pod
        metadata: {{name: {name}}}
        spec:
          nodeSelector: {{kubernetes.io/hostname: {node}}}
          containers: [{{name: writer, image: mooring/writer, volumeMounts: [{{name: data, mountPath: /data}}]}}]
          volumes: [{{name: data, persistentVolumeClaim: {{claimName: {claim}}}}}]
"
    )
}

/// Returns a scenario text with a pod that runs on node-a, and these steps.
fn with_pod(head: &str, steps: &str) -> String {
    let runs = "  - wait: {object: pod/web, is: Running, on: node-a, within: 5m}
  - wait: {object: pod/web, records: 3, within: 1m}\n";
    scenario_text(head, &(pod("web", "data", "node-a") + runs + steps))
}

const OWN_VOLUME: &str = "
  - ec2:
      action: CreateVolume
      with:
        AvailabilityZone: us-east-1a
        Size: 1
        TagSpecification: [{ResourceType: volume, Tag: [{Key: who, Value: a person}]}]
      save: own
      from: VolumeId
  - ec2: {action: AttachVolume, with: {VolumeId: {saved: own}, InstanceId: {instance: node-b}, Device: /dev/xvdba}}
  - ec2: {action: DeleteVolume, with: {VolumeId: {saved: own}}, fails: VolumeInUse}
  - ec2:
      action: DescribeVolumes
      with: {Filter: [{Name: 'tag:who', Value: [no one, a person]}, {Name: status, Value: [in-use]}]}
      save: found
      from: VolumeId
  - ec2: {action: DetachVolume, with: {VolumeId: {saved: found}, Force: true}}
  - sleep: 30s
";

#[test]
fn a_person_makes_attaches_finds_and_deletes_a_volume_past_kubernetes() {
    let deleted = "  - ec2: {action: DeleteVolume, with: {VolumeId: {saved: own}}}\n";
    let outcome = passes(&scenario_text("", &format!("{OWN_VOLUME}{deleted}")));
    let instance = outcome.events.iter().filter_map(|e| e.get::<ClusterNode>()).find(|n| &*n.node == "node-b").unwrap();
    let changes: Vec<&AttachmentChanged> = outcome.events.iter().filter_map(|e| e.get()).collect();
    assert!(changes.iter().all(|c| c.instance.as_str() == &*instance.instance && &*c.device == "/dev/xvdba"));
    assert!(changes.iter().any(|c| c.state == AttachmentPhase::Attached));
    assert!(changes.iter().any(|c| c.state == AttachmentPhase::Detached && c.forced));
    // A volume that a step leaves behind is a leak like any other.
    let (outcome, exit) = run(&scenario_text("", OWN_VOLUME));
    assert_eq!((exit, outcome.leftovers.cloud_volumes.len()), (Exit::Leaked, 1));
}

#[test]
fn a_call_that_fails_or_succeeds_against_the_file_fails_the_step_with_the_clouds_message() {
    let twice = "  - ec2: {action: AttachVolume, with: {VolumeId: {volume: pvc/data}, InstanceId: {instance: node-b}, Device: /dev/xvdba}}\n";
    let (expected, seen) = fails(&with_pod("", twice));
    assert_eq!(expected, "the cloud accepts AttachVolume");
    assert!(seen.starts_with("VolumeInUse: vol-") && seen.ends_with("is already attached to an instance"), "{seen}");
    let fine =
        "  - ec2: {action: DescribeVolumes, with: {VolumeId: [{volume: pvc/data}]}, fails: InvalidVolume.NotFound}\n";
    assert_eq!(fails(&with_pod("", fine)).1, "it succeeded");
    let none = "  - ec2: {action: DescribeRegions, save: x, from: VolumeId}\n";
    assert_eq!(fails(&scenario_text("", none)).1, "it has none");
    let unbound = "  - ec2: {action: DeleteVolume, with: {VolumeId: {volume: pvc/other}}}\n";
    assert_eq!(fails(&scenario_text("", unbound)).1, "pvc/other does not exist");
}

/// The volume is detached in the cloud without Kubernetes: invariant I4 is violated.
#[test]
fn a_volume_that_is_detached_by_hand_is_what_the_machines_do_not_agree_on() {
    let by_hand = "  - ec2: {action: DetachVolume, with: {VolumeId: {volume: pvc/data}, Force: true}}\n  - sleep: 1m\n";
    let (outcome, _) = run(&with_pod("", by_hand));
    assert!(outcome.failure.is_none(), "{}", why(&outcome));
    let found: Vec<&str> = outcome.violations.iter().map(|v| v.id).collect();
    assert!(!found.is_empty() && found.contains(&"I4"), "{}", why(&outcome));
    assert!(outcome.violations.iter().any(|v| v.message.contains("attached by its VolumeAttachment")));
}

#[test]
fn an_operator_sticks_and_completes_a_transition() {
    let steps = "
  - ec2: {action: CreateVolume, with: {AvailabilityZone: us-east-1a, Size: 1}, save: own, from: VolumeId}
  - ec2: {poke: stick, volume: {saved: own}}
  - sleep: 30m
  - ec2: {action: AttachVolume, with: {VolumeId: {saved: own}, InstanceId: {instance: node-a}, Device: /dev/xvdba}, fails: IncorrectState}
  - ec2: {poke: complete, volume: {saved: own}}
  - sleep: 1s
";
    let delete = "  - ec2: {action: DeleteVolume, with: {VolumeId: {saved: own}}}\n";
    passes(&scenario_text("latency: aws", &format!("{steps}{delete}")));
    let again = "  - ec2: {poke: complete, volume: {saved: own}}\n";
    let (expected, seen) = fails(&scenario_text("latency: aws", &format!("{steps}{again}")));
    assert_eq!(
        (expected.as_str(), seen.as_str()),
        ("the cloud accepts: poke the cloud: complete volume the saved own", "no transition of it was under way")
    );
}

#[test]
fn an_operator_stops_and_starts_a_node_and_hides_a_device_name() {
    let first = passes(&with_pod("", ""));
    let device = |outcome: &Outcome| {
        let attached: Option<&AttachmentChanged> = outcome.events.iter().find_map(|e| e.get());
        attached.unwrap().device.to_string()
    };
    let name = device(&first);
    let hide = format!("  - ec2: {{poke: hardware, instance: node-a, hide: [{name}], reserved-slots: 1}}\n");
    let stop = "
  - wait: {object: pod/web, is: Running, on: node-a, within: 5m}
  - ec2: {poke: stop, instance: node-a}
  - wait: {object: node/node-a, is: Unknown, within: 5m}
  - ec2: {poke: start, instance: node-a}
  - wait: {object: node/node-a, is: Ready, within: 10m}
";
    let outcome = passes(&scenario_text("", &(hide + &pod("web", "data", "node-a") + stop)));
    assert_ne!(device(&outcome), name);
}

#[test]
fn a_vanished_volume_is_gone_and_a_terminated_node_stays_away() {
    let vanish = "
  - ec2: {action: CreateVolume, with: {AvailabilityZone: us-east-1a, Size: 1, ClientToken: mine}, save: own, from: VolumeId}
  - ec2: {poke: vanish, volume: {saved: own}}
  - ec2: {action: DeleteVolume, with: {VolumeId: {saved: own}}, fails: InvalidVolume.NotFound}
  - ec2: {poke: burn, token: mine}
";
    passes(&scenario_text("", vanish));
    let unknown = "  - ec2: {poke: burn, token: never-used}\n";
    assert_eq!(fails(&scenario_text("", unknown)).1, "token: not used yet");
    let terminate = "
  - ec2: {poke: terminate, instance: node-b}
  - wait: {object: node/node-b, is: Unknown, within: 5m}
  - ec2: {action: DescribeInstances, with: {InstanceId: [{instance: node-b}], Filter: [{Name: instance-state-name, Value: [terminated]}]}, save: x, from: InstanceId}
";
    passes(&scenario_text("", terminate));
}

#[test]
fn a_patch_changes_an_object_or_its_status_and_a_refusal_is_seen() {
    let steps = "
  - patch: {object: node/node-a, with: {metadata: {labels: {seen: 'yes'}}}}
  - patch: {object: node/node-a, type: json, with: [{op: add, path: /metadata/labels/json, value: 'true'}]}
  - patch:
      object: node/node-a
      subresource: status
      type: strategic
      with: {status: {conditions: [{type: Haunted, status: 'True', reason: Test, message: it is}]}}
  - patch: {object: node/node-a, with: {metadata: {resourceVersion: '1', labels: {never: 'no'}}}, fails: Conflict}
  - patch: {object: storageclass/gp3, with: {provisioner: other}, fails: 422}
  - patch: {object: pod/none, with: {metadata: {labels: {a: b}}}, fails: NotFound}
";
    let (outcome, exit, node) = run_and_read(&scenario_text("", steps), "node/node-a");
    assert_eq!(exit, Exit::Passed, "{}", why(&outcome));
    let node = node.unwrap();
    let labels = &node["metadata"]["labels"];
    assert_eq!((&labels["seen"], &labels["json"], &labels["never"]), (&"yes".into(), &"true".into(), &Value::Null));
    let conditions = node["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "Haunted") && conditions.iter().any(|c| c["type"] == "Ready"));
    let (expected, seen) =
        fails(&scenario_text("", "  - patch: {object: storageclass/gp3, with: {provisioner: other}}\n"));
    assert_eq!(expected, "the API server accepts: patch storageclass/gp3");
    assert!(seen.contains("is invalid"), "{seen}");
    let (_, seen) =
        fails(&scenario_text("", "  - patch: {object: node/node-a, with: {metadata: {}}, fails: Invalid}\n"));
    assert_eq!(seen, "it was taken");
}

#[test]
fn a_key_that_a_second_manifest_lacks_is_removed() {
    passes(&scenario_text(
        "",
        "  - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {a: one, b: one}}, data: {k: v, l: w}}
  - patch: {object: configmap/c, with: {data: {by-hand: kept}}}
  - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {b: two}}, data: {k: x}}
  - expect: {object: configmap/c, that: \"self.metadata.labels == {'b': 'two'}\"}
  - expect: {object: configmap/c, that: \"self.data == {'k': 'x', 'by-hand': 'kept'}\"}
",
    ));
}

const WIDGETS: &str = "
  - apply:
      - apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: widgets.example.com}
        spec:
          group: example.com
          scope: Namespaced
          names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
          versions:
            - name: v1
              served: true
              storage: true
              subresources: {status: {}}
              schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
      - {apiVersion: example.com/v1, kind: Widget, metadata: {name: w1, finalizers: [example.com/hold]}, spec: {size: 1}}
  - wait: {object: widget/w1, is: exists, within: 10s}
";

#[test]
fn a_request_is_sent_as_written_and_its_answer_is_checked() {
    let text = "  - request: {method: PATCH, path: /api/v1/namespaces/default/configmaps/c, query: {fieldManager: mine}, content-type: application/apply-patch+yaml, body: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}, status: 201, that: \"self.metadata.managedFields[0].manager == 'mine'\", save: version, from: metadata.resourceVersion}
  - request: {path: /api/v1/namespaces/default/configmaps, query: {limit: 1}, that: self.items.size() == 1}
  - request: {method: PUT, path: /api/v1/namespaces/default/configmaps/c, body: {metadata: {name: c, resourceVersion: {saved: version}}, data: {a: c}}, save: data, from: data}
  - request: {method: PUT, path: /api/v1/namespaces/default/configmaps/c, body: {metadata: {name: c, resourceVersion: {saved: version}}, data: {a: d}}, fails: Conflict, that: \"self.message.contains('the object has been modified')\"}
  - request: {path: /readyz, that: self == 'ok'}
  - request: {method: POST, path: /apis/authentication.k8s.io/v1/selfsubjectreviews, as: ann, groups: [team], body: {}, that: \"self.status.userInfo.username == 'ann' && 'team' in self.status.userInfo.groups\"}
  - request: {method: DELETE, path: /api/v1/namespaces/default/configmaps/c, status: 200}
  - request: {path: /api/v1/namespaces/default/configmaps/c, fails: 404}
";
    passes(&scenario_text("worlds: [simulated]\n", text));
    let (expected, seen) = fails(&scenario_text("", "  - request: {path: /api/v1/namespaces/none}\n"));
    assert_eq!(expected, "the API server answers as expected: GET /api/v1/namespaces/none");
    assert_eq!(seen, "404 NotFound: namespaces \"none\" not found");
    let (_, seen) = fails(&scenario_text("", "  - request: {path: /api/v1/namespaces/default, fails: NotFound}\n"));
    assert!(seen.starts_with("200"), "{seen}");
    let (_, seen) = fails(&scenario_text(
        "",
        "  - request: {path: /api/v1/namespaces/default, that: \"self.status.phase == 'Gone'\"}\n",
    ));
    assert!(seen.contains("self.status.phase = \"Active\""), "{seen}");
}

#[test]
fn custom_objects_are_applied_waited_for_patched_and_deleted() {
    let steps = "
  - patch: {object: wd/w1, subresource: status, with: {status: {phase: Done}}}
  - patch: {object: Widget/w1, with: {spec: {size: 2}}}
  - delete: {object: widgets.example.com/default/w1}
  - wait: {object: widget/w1, is: Terminating, within: 10s}
  - patch: {object: widgets/w1, type: json, with: [{op: remove, path: /metadata/finalizers}]}
  - wait: {object: widget.v1.example.com/w1, is: gone, within: 10s}
";
    let outcome = passes(&scenario_text("", &format!("{WIDGETS}{steps}")));
    let commits = outcome.events.iter().filter_map(|e| e.get::<fake_apiserver::events::Commit>());
    let verbs: Vec<String> = commits.filter(|c| c.resource == "widgets").map(|c| c.verb.to_string()).collect();
    assert_eq!(verbs.len(), 5, "{verbs:?}");
}

#[test]
fn a_partition_cuts_until_it_is_healed_and_must_be_felt() {
    let steps = "
  - partition: {between: [node-a, apiserver], name: cut}
  - wait: {object: node/node-a, is: Unknown, within: 5m}
  - heal: cut
  - wait: {object: node/node-a, is: Ready, within: 5m}
  - partition: {between: [node-b/kubelet, apiserver], one-way: true}
  - wait: {object: node/node-b, is: Unknown, within: 5m}
  - heal:
  - wait: {object: node/node-b, is: Ready, within: 5m}
";
    passes(&scenario_text("", steps));
    let nothing = "  - partition: {between: [node-a/csi-node, csi-controller]}\n  - sleep: 1m\n  - heal: node-a-csi-node-csi-controller\n";
    let (outcome, exit) = run(&scenario_text("", nothing));
    assert_eq!((exit, outcome.silent_faults[0].name.as_str()), (Exit::Failed, "node-a-csi-node-csi-controller"));
}

/// A kubelet that starts and finds no metadata (`vol_data.json`) beside a mount leaves the mount alone
/// (kubernetes#85280).
#[test]
fn a_mount_whose_metadata_is_lost_is_never_taken_down() {
    let lost = |step: &str| {
        with_pod(
            "",
            &format!(
                "  - crash: node-a/kubelet\n{step}  - delete: {{object: pod/web, force: true}}\n  - restart: node-a/kubelet\n  - sleep: 2m\n"
            ),
        )
    };
    passes(&lost(""));
    let (outcome, exit) = run(&lost("  - node-file: {node: node-a, remove: vol_data.json, of: pvc/data}\n"));
    assert!(outcome.failure.is_none() && exit != Exit::Passed, "{}", why(&outcome));
    assert!(!outcome.leftovers.mounts.is_empty(), "{}", why(&outcome));
    let (_, seen) = fails(&lost("  - node-file: {node: node-b, remove: vol_data.json, of: pvc/data}\n"));
    assert_eq!(seen, "there is no such file, and no other below kubelet's directory");
    let (_, seen) = fails(&lost("  - node-file: {node: node-a, remove: pods/none/vol_data.json}\n"));
    let of_staging =
        "there is no such file; below kubelet's directory there are plugins/kubernetes.io/csi/ebs.csi.aws.com/";
    assert!(seen.starts_with(of_staging) && seen.contains("pods/") && seen.ends_with("vol_data.json"), "{seen}");
}

/// A driver whose registration socket is removed is unregistered from the node until it creates the socket again
/// (kubernetes#71424, node-driver-registrar#206).
#[test]
fn a_driver_without_socket_registers_after_a_restart() {
    let steps = "
  - node-file: {node: node-a, remove: registration-socket}
  - sleep: 5s
  - patch: {object: csinode/node-a, type: json, with: [{op: test, path: /spec/drivers/0/name, value: ebs.csi.aws.com}], fails: 422}
".to_owned()
        + &pod("web", "data", "node-a")
        + "
  - sleep: 2m
  - wait: {object: pod/web, is: Pending, within: 1s}
  - crash: node-a/csi-node
  - restart: node-a/csi-node
  - wait: {object: pod/web, is: Running, on: node-a, within: 10m}
  - patch: {object: csinode/node-a, type: json, with: [{op: test, path: /spec/drivers/0/name, value: ebs.csi.aws.com}]}
";
    passes(&scenario_text("", &steps));
    let twice = "  - node-file: {node: node-a, remove: registration-socket}\n".repeat(2);
    assert_eq!(fails(&scenario_text("", &twice)).1, "there is no registration socket");
}

/// Returns a file that expects writes while a claim is bound. `{bound}` is the phase that the line names.
fn with_writes(bound: &str, more: &str) -> String {
    format!(
        "name: bind
worlds: [simulated]
nodes: {{count: 1}}
objects: [{{class: {{name: now, binding: Immediate}}}}]
steps:
  - sleep: 10s
  - {{name: start, claim: {{name: data, class: now}}}}
  - wait: {{object: pvc/data, is: Bound}}
  - sleep: 5s
  - expect:
      writes:
        since: start
        elsewhere:
          - {{by: csi-provisioner, in: provision-immediate}}
          - {{by: kube-controller-manager/persistent-volume-binder, does: PUT persistentvolumeclaims data, in: other}}
          - {{by: kube-controller-manager/persistent-volume-binder, does: PUT persistentvolumes, in: other}}
          - {{by: kube-controller-manager/persistent-volume-binder, does: PATCH strategic events, in: other}}
        lines:
          - by: kube-controller-manager/persistent-volume-binder
            event: Normal ExternalProvisioning pvc/data
            says: <any>
            component: persistentvolume-controller
          - by: kube-controller-manager/persistent-volume-binder
            does: PUT persistentvolumeclaims/status data
            fields: {{status: {{accessModes: [ReadWriteOnce], capacity: {{storage: 1Gi}}, phase: {bound}}}}}
{more}"
    )
}

#[test]
fn writes_are_compared_with_the_lines_of_the_file() {
    passes(&with_writes("Bound", ""));
    let (expected, seen) = fails(&with_writes("Lost", ""));
    assert_eq!(expected, "the writes to the API server since step 2 are as the file says");
    assert!(seen.contains(".status.phase: \"Lost\", and \"Bound\" was written"), "{seen}");
    let more = "          - {by: csi-attacher, does: POST pods web, fields: {}, from: nowhere}\n";
    let (_, seen) = fails(&with_writes("Bound", more));
    assert!(seen.contains("missing    csi-attacher POST pods web {}\n            (nowhere)"), "{seen}");
}

#[test]
fn a_stopped_process_cannot_crash_and_a_running_node_cannot_start() {
    let reported = |steps: &str| fails(&scenario_text("", steps));
    let failure = |expected: &str, seen: &str| (expected.to_owned(), seen.to_owned());
    assert_eq!(
        reported("  - crash: node-a\n  - crash: node-a\n"),
        failure("node-a carries out the step", "node-a is down already")
    );
    let of_node = reported("  - crash: node-a\n  - crash: node-a/kubelet\n");
    assert_eq!(of_node, failure("node-a/kubelet carries out the step", "node-a/kubelet is down already"));
    assert_eq!(
        reported("  - restart: node-a\n"),
        failure("node-a carries out the step", "node-a is up; crash it first")
    );
    // A restart of a running process is like the deletion of its pod.
    passes(&scenario_text("", "  - restart: kube-scheduler\n  - crash: csi-attacher\n  - restart: csi-attacher\n"));
}

#[test]
fn a_pause_shows_the_cluster_and_its_time_does_not_count() {
    let text = scenario_text("", "  - pause: look at the nodes\n").replacen("deadline: 2h", "deadline: 1m", 1);
    passes(&text);
    let scenario = scenario::parse("test.yaml", &text).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reported = seen.clone();
    let pause_hook = PauseHook::new(Box::new(move |cluster, text| {
        reported.lock().push((text.to_owned(), cluster.spec().nodes.len()));
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(())
        })
    }));
    let outcome = simulate(Options::default(), async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
        runner::run_with_pauses(&scenario, &cluster, |_| {}, &pause_hook).await
    });
    assert!(outcome.passed() && outcome.elapsed > Duration::from_secs(600), "{}", why(&outcome));
    assert_eq!(*seen.lock(), [("look at the nodes".to_owned(), 2)]);
}

#[test]
fn a_cluster_is_made_of_what_the_header_says() {
    let alone = scenario_text("without: [kube-scheduler]", &pod("web", "data", "node-a"));
    let pending = "  - sleep: 5m\n  - wait: {object: pod/web, is: Pending, within: 1s}\n";
    let outcome = passes(&format!("{alone}{pending}"));
    assert!(outcome.events.iter().all(|e| &*e.process != "kube-scheduler"));

    let full = pod("web", "data", "node-a")
        + "  - wait: {object: pod/web, is: Running, within: 5m}\n"
        + &pod("more", "other", "node-a")
        + "  - expect: {event: {object: pod/more, reason: FailedScheduling, contains: exceed max volume count, within: 1m}}\n";
    passes(&scenario_text("driver: {attach-limit: 1}", &full));

    let limit = "  - wait: {object: csinode/node-a, that: 'self.spec.drivers.exists(d, d.allocatable.count == 31)', within: 1m}\n";
    let large = "nodes: {count: 2, instance-type: m7i.large}";
    passes(&scenario_text("", limit).replacen("nodes: {count: 2}", large, 1));

    let rich = passes(&with_pod("driver: {capabilities: 'LIST_VOLUMES,LIST_VOLUMES_PUBLISHED_NODES'}", ""));
    let lists = |outcome: &Outcome| {
        outcome.events.iter().filter_map(|e| e.get::<CsiCall>()).any(|call| &*call.rpc == "ListVolumes")
    };
    assert_eq!((lists(&rich), lists(&passes(&with_pod("", "")))), (true, false));

    let small = pod("more", "other", "node-a")
        + "  - expect: {event: {object: pvc/other, reason: ProvisioningFailed, within: 5m}}\n";
    passes(&with_pod("driver: {capacity-gib: 1}", &small));

    let elsewhere = passes(&with_pod("zones: [us-east-1f]", ""));
    let volume: &VolumeChanged = elsewhere.events.iter().find_map(|e| e.get()).unwrap();
    assert_eq!(&*volume.zone, "us-east-1f");
}

/// The same steps over sockets and on directories.
#[test]
fn the_cloud_objects_links_and_files_are_reached_live() {
    let steps = "
  - ec2: {action: CreateVolume, with: {AvailabilityZone: us-east-1a, Size: 1}, save: own, from: VolumeId}
  - ec2: {action: AttachVolume, with: {VolumeId: {saved: own}, InstanceId: {instance: node-b}, Device: /dev/xvdba}}
  - ec2: {action: DeleteVolume, with: {VolumeId: {volume: pvc/data}}, fails: VolumeInUse}
  - ec2: {action: DetachVolume, with: {VolumeId: {saved: own}}}
  - sleep: 10s
  - ec2: {poke: vanish, volume: {saved: own}}
  - patch: {object: node/node-a, subresource: status, type: strategic, with: {status: {conditions: [{type: Haunted, status: 'True'}]}}}
  - crash: node-a/kubelet
  - node-file: {node: node-a, remove: vol_data.json, of: pvc/data}
  - restart: node-a/kubelet
  - node-file: {node: node-a, remove: registration-socket}
  - restart: node-a/csi-node
  - partition: {between: [node-b, apiserver], name: cut}
  - wait: {object: node/node-b, is: Unknown, within: 5m}
  - heal: cut
  - wait: {object: node/node-b, is: Ready, within: 5m}
";
    let text = with_pod("time-scale: {live: 30}", steps);
    let scenario = scenario::parse("test.yaml", &text).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
    let site = live::Site::prepare(Some(live::BackendChoice::Directory), None).unwrap();
    let outcome = live::runtime().unwrap().block_on(async {
        let scale = substrate::clock::TimeScale::new(scenario.time_scale.live);
        let world = World::live(Options { scale, ..Options::default() });
        let spec = ClusterSpec::of_scenario(&scenario);
        let cluster = Cluster::live(&world, spec, &site, &live::Addresses::default()).unwrap();
        let outcome = runner::run(&scenario, &cluster, |_| {}).await;
        cluster.stop().await;
        outcome
    });
    assert!(outcome.passed(), "{}", why(&outcome));
}
