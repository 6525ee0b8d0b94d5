//! Steps on the cloud, objects of any kind, links and files of nodes: refusals, and descriptions of steps.

use rstest::rstest;

use super::{parse, refusal, with_line, with_steps};

/// A file for the simulated world with this step.
fn simulated(step: &str) -> String {
    format!("name: t\nworlds: [simulated]\nnodes: {{count: 2}}\nsteps:\n{step}")
}

/// A file with a custom kind and this step.
fn with_widgets(step: &str) -> String {
    format!(
        "name: t
nodes: {{count: 2}}
objects:
  - apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {{name: widgets.example.com}}
    spec:
      group: example.com
      scope: Namespaced
      names: {{plural: widgets, kind: Widget}}
      versions: [{{name: v1, served: true, storage: true, subresources: {{status: {{}}}}, schema: {{openAPIV3Schema: {{type: object}}}}}}]
steps:
{step}"
    )
}

#[rstest]
#[case(&with_steps("  - ec2: {action: DetachVolum}\n"), "t.yaml:4:19: `DetachVolum` is not an action of this cloud", "DetachVolum", "did you mean `DetachVolume`?")]
#[case(&with_steps("  - ec2: {action: DetachVolume, with: {VolumeID: vol-0123456789abcdef0}}\n"),
    "t.yaml:4:40: DetachVolume has no parameter `VolumeID`", "VolumeID", "did you mean `VolumeId`?")]
#[case(&with_steps("  - ec2: {action: DetachVolume}\n"), "t.yaml:4:19: DetachVolume needs the parameter `VolumeId`", "DetachVolume", "add `VolumeId` to `with`")]
#[case(&with_steps("  - ec2: {action: DetachVolume, with: {VolumeId: {volume: pvc/data}, Forced: true}}\n"),
    "t.yaml:4:70: DetachVolume has no parameter `Forced`", "Forced", "did you mean `Force`?")]
#[case(&with_steps("  - ec2: {action: DescribeVolumes, with: {Filter: [{Name: status, Values: [in-use]}]}}\n"),
    "t.yaml:4:67: DescribeVolumes has no parameter `Filter.1.Values.1`", "Values", "did you mean `Filter.N.Value.N`?")]
#[case(&with_steps("  - ec2: {action: DescribeVolumes, with: {MaxResult: 5}}\n"),
    "t.yaml:4:43: DescribeVolumes has no parameter `MaxResult`", "MaxResult", "did you mean `MaxResults`?")]
#[case(&with_steps("  - ec2: {action: CreateVolume, with: {Size: ten}}\n"), "t.yaml:4:39: CreateVolume: Value (ten) for parameter Size is invalid", "{Size: ten}", "")]
#[case(&with_steps("  - ec2: {action: DeleteVolume, with: {VolumeId: {volum: pvc/data}}}\n"),
    "t.yaml:4:51: `volum` is not a reference", "volum", "did you mean `volume`?")]
#[case(&with_steps("  - ec2: {action: DeleteVolume, with: {VolumeId: {volume: pod/web}}}\n"),
    "t.yaml:4:59: a Pod has no volume of its own", "pod/web", "write pvc/NAME or pv/NAME")]
#[case(&with_steps("  - ec2: {action: StopInstances, with: {InstanceId: [{instance: node-c}]}}\n"),
    "t.yaml:4:65: there is no node called `node-c`", "node-c", "did you mean `node-b`?")]
#[case(&with_steps("  - ec2: {action: DeleteVolume, with: {VolumeId: {saved: own}}}\n"),
    "t.yaml:4:58: no earlier step saves `own`", "own", "there are no saved ids")]
#[case(&with_steps("  - ec2: {action: DeleteVolume, with: {VolumeId: {volume: pvc/data}}, fails: IncorectState}\n"),
    "t.yaml:4:78: `IncorectState` is not an error code", "IncorectState", "did you mean `IncorrectState`?")]
#[case(&with_steps("  - expect: {writes: {since: go, lines: [{by: a, does: PUT b, fields: {}}]}}\n"),
    "t.yaml:4:22: writes are recorded in simulation only", "{since: go, lines: [{by: a, does: PUT b, fields: {}}]}", "add `worlds: [simulated]` to the file")]
#[case(&simulated("  - expect: {writes: {since: go, lines: []}}\n"),
    "t.yaml:5:22: `lines` expects no write", "{since: go, lines: []}", "for no write at all, use `never: {call: {plane: k8s, op: write}}`")]
#[case(&simulated("  - expect: {writes: {since: go, lines: [{by: a, does: PUT b, fields: {}}]}}\n"),
    "t.yaml:5:30: no earlier step is called `go`", "go", "there are no names of earlier steps")]
#[case(&simulated("  - expect: {writes: {since: go, lines: [{by: a, does: PUT b}]}}\n"),
    "t.yaml:5:42: the line `a PUT b` needs either `does` and `fields`, or `event`", "{by: a, does: PUT b}", "")]
#[case(&with_steps("  - fault: {name: f, match: {plane: ec2, op: AttachVolume, where: {volume: pvc/data}}, effect: {delay: 1s}}\n"),
    "t.yaml:4:76: match.where.volume: a fault knows a volume by its id, and `pvc/data` is an object", "pvc/data", "leave it out, and select by `node`, or by `when: {nth: 2}`")]
#[case(&with_steps("  - ec2: {action: DescribeVolumes, save: own}\n"), "t.yaml:4:42: `save` says under which name, and not what", "own", "add `from: VolumeId`")]
#[case(&with_steps("  - ec2: {action: DescribeVolumes, save: own, from: VolumId}\n"), "t.yaml:4:53: `VolumId` is not an id of an answer", "VolumId", "did you mean `VolumeId`?")]
#[case(&with_steps("  - ec2: {action: DescribeVolumes, instance: node-a}\n"), "t.yaml:4:46: `instance` belongs to a poke", "node-a", "an action has its parameters in `with`")]
#[case(&with_steps("  - ec2: {poke: terminate, with: {InstanceId: i}}\n"), "t.yaml:4:34: `with` belongs to an action", "{InstanceId: i}", "a poke names")]
#[case(&with_steps("  - ec2: {action: DescribeVolumes, poke: vanish}\n"), "t.yaml:4:42: an `ec2` step calls an action or pokes the cloud, and this one has both", "vanish", "make two steps")]
#[case(&with_steps("  - ec2: {poke: terminat, instance: node-a}\n"), "t.yaml:4:17: `terminat` is not a poke", "terminat", "did you mean `terminate`?")]
#[case(&with_steps("  - ec2: {poke: terminate, volume: pvc/data}\n"), "t.yaml:4:36: `terminate` does not go with `volume`", "pvc/data", "`terminate` takes `instance`")]
#[case(&with_steps("  - ec2: {poke: vanish}\n"), "t.yaml:4:17: `vanish` has no target", "vanish", "add `volume`")]
#[case(&with_steps("  - ec2: {poke: vanish, volume: pvc/data, which: attachment}\n"), "t.yaml:4:50: `which` does not go with `vanish`", "attachment", "`vanish` takes only its target")]
#[case(&with_steps("  - ec2: {poke: stick, instance: node-a, which: attachment}\n"), "t.yaml:4:17: `which` does not go with an instance", "stick", "only volumes")]
#[case(&with_steps("  - ec2: {poke: stick, volume: pvc/data, which: atachment}\n"), "t.yaml:4:49: `atachment` is not a transition", "atachment", "did you mean `attachment`?")]
#[case(&with_steps("  - ec2: {poke: fail, volume: pvc/data}\n"), "t.yaml:4:17: of a volume only a modification can fail", "fail", "add `which: modification`")]
#[case(&with_steps("  - ec2: {poke: hardware, instance: node-a}\n"), "t.yaml:4:17: `hardware` has no change", "hardware", "add one of: hide")]
#[case(&with_steps("  - ec2: {poke: hardware, instance: node-a, hide: [xvd]}\n"), "t.yaml:4:51: `xvd` is not a device name", "[xvd]", "write one such as")]
#[case(&with_steps("  - ec2: {poke: switch}\n"), "t.yaml:4:17: `switch` names no switch", "switch", "add `switches`")]
#[case(&with_steps("  - ec2: {poke: switch, switches: {volumeQota: 5}}\n"), "t.yaml:4:35: `volumeQota` is not a switch", "{volumeQota: 5}", "did you mean `volumeQuota`?")]
#[case(&with_steps("  - ec2: {poke: switch, switches: {volumeQuota: few}}\n"), "t.yaml:4:35: the cloud refuses these switches", "{volumeQuota: few}", "")]
#[case(&with_steps("  - ec2: {poke: switch, instance: node-a, switches: {volumeQuota: 5}}\n"), "t.yaml:4:35: `switch` does not go with `instance`", "node-a", "`switch` takes switches")]
#[case(&with_steps("  - ec2: {poke: vanish, volume: pvc/data, switches: {volumeQuota: 5}}\n"), "t.yaml:4:53: `switches` does not go with `vanish`", "{volumeQuota: 5}", "`vanish` takes only its target")]
#[case(&with_steps("  - ec2: {poke: state, volume: pvc/data, state: eror}\n"), "t.yaml:4:49: `eror` is not a state of a volume", "eror", "did you mean `error`?")]
#[case(&with_steps("  - patch: {object: node/node-a, subresource: stats, with: {}}\n"), "t.yaml:4:47: a Node has no subresource `stats` to patch", "stats", "did you mean `status`?")]
#[case(&with_steps("  - patch: {object: storageclass/gp3, subresource: status, with: {}}\n"), "t.yaml:4:52: a StorageClass has no subresource `status`", "status", "there are no subresources to patch")]
#[case(&with_steps("  - patch: {object: node/node-a, type: jsn, with: []}\n"), "t.yaml:4:40: `jsn` is not one of the values", "jsn", "did you mean `json`?")]
#[case(&with_steps("  - patch: {object: node/node-a, type: json, with: {a: b}}\n"), "t.yaml:4:52: a JSON patch is a list", "{a: b}", "write `with: [")]
#[case(&with_steps("  - patch: {object: node/node-a, with: [a]}\n"), "t.yaml:4:40: this patch is a part of an object", "[a]", "write what it shall look like")]
#[case(&with_steps("  - patch: {object: node/node-a, with: {}, fails: Invald}\n"), "t.yaml:4:51: `Invald` is not a reason", "Invald", "did you mean `Invalid`?")]
#[case(&with_steps("  - patch: {object: node/node-a, with: {}, fails: 200}\n"), "t.yaml:4:51: 200 is not the status of a refusal", "200", "")]
#[case(&with_steps("  - ec2: {action: DescribeVolumes, fails: VolumeInUse, that: self.volumeSet.size() > 0}\n"), "t.yaml:4:62: a call that fails has no answer", "self.volumeSet.size() > 0", "leave out one")]
#[case(&with_steps("  - request: {path: api/v1}\n"), "t.yaml:4:21: a path begins with `/`", "api/v1", "write `/api/v1/namespaces/default/pods`")]
#[case(&with_steps("  - request: {path: /api?limit=1}\n"), "t.yaml:4:21: the query stands apart", "/api?limit=1", "write `query: {limit: 1}`")]
#[case(&with_steps("  - request: {path: /api, method: GETS}\n"), "t.yaml:4:35: `GETS` is not a method", "GETS", "did you mean `GET`?")]
#[case(&with_steps("  - request: {path: /api, query: {watch: true}}\n"), "t.yaml:4:34: a watch has no end", "{watch: true}", "use `wait` for a state")]
#[case(&with_steps("  - request: {path: /api, query: {limit: }}\n"), "t.yaml:4:34: the parameter `limit` has no text", "{limit: }", "write a text")]
#[case(&with_steps("  - request: {path: /api, body: {a: b}}\n"), "t.yaml:4:33: a GET has no body", "{a: b}", "")]
#[case(&with_steps("  - request: {path: /api, method: PATCH, body: {a: b}}\n"), "t.yaml:4:14: a PATCH needs the type", "{path: /api, method: PATCH, body: {a: b}}", "add `content-type:")]
#[case(&with_steps("  - request: {path: /api, token: {saved: none}}\n"), "t.yaml:4:42: no earlier step saves `none`", "none", "")]
#[case(&with_steps("  - request: {path: /api, as: ann}\n"), "t.yaml:4:14: roles decide about other users in simulation only", "{path: /api, as: ann}", "add `worlds: [simulated]` to the file")]
#[case(&with_steps("  - request: {path: /api, save: version}\n"), "t.yaml:4:33: `save` and `from` belong together", "version", "write `save: NAME, from:")]
#[case(&with_steps("  - request: {path: /api, groups: [a]}\n"), "t.yaml:4:35: `groups` belongs to `as`", "[a]", "add `as: USER`")]
#[case(&with_steps("  - request: {path: /api, that: 'slef'}\n"), "t.yaml:4:34: `slef` is not a variable", "slef", "did you mean `self`?")]
#[case(&with_steps("  - csi: {rpc: ListVolume}\n"), "t.yaml:4:16: `ListVolume` is not an RPC", "ListVolume", "did you mean `ListVolumes`?")]
#[case(&with_steps("  - csi: {rpc: NodeGetInfo}\n"), "t.yaml:4:16: NodeGetInfo belongs to the node service", "NodeGetInfo", "add `node: node-a`")]
#[case(&with_steps("  - csi: {rpc: ListVolumes, fails: NOTFOUND}\n"), "t.yaml:4:36: `NOTFOUND` is not a gRPC code", "NOTFOUND", "did you mean `NOT_FOUND`?")]
#[case(&with_steps("  - csi: {rpc: ListVolumes, with: {most: 1}}\n"), "t.yaml:4:35: this is not the request of ListVolumes", "{most: 1}", "see `csi.proto`")]
#[case(&with_steps("  - csi: {rpc: ListVolumes, save: token}\n"), "t.yaml:4:35: `save` and `from` belong together", "token", "write `save: NAME, from:")]
#[case(&with_widgets("  - patch: {object: widget/w1, type: strategic, with: {}}\n"), "t.yaml:13:38: custom kinds take no strategic", "strategic", "write `type: merge`")]
#[case(&with_widgets("  - wait: {object: wigdet/w1, is: exists}\n"), "t.yaml:13:20: `wigdet` is not a kind of object, did you mean `widget`?", "wigdet/w1", "")]
#[case(&with_widgets("  - wait: {object: widget/w1, is: Bound}\n"), "t.yaml:13:35: a Widget is never Bound", "Bound", "its states: Terminating, exists, gone")]
#[case(&with_widgets("  - apply: {apiVersion: example.com/v2, kind: Widget, metadata: {name: w1}}\n"),
    "t.yaml:13:12: this cluster has no kind Widget in example.com/v2", "{apiVersion: example.com/v2, kind: Widget, metadata: {name: w1}}", "write `apiVersion: example.com/v1`")]
#[case(&with_steps("  - delete: {object: widget/w1}\n"), "t.yaml:4:22: `widget` is not a kind of object", "widget/w1", "")]
#[case(&with_steps("  - partition: {between: [node-a, apisrver]}\n"), "t.yaml:4:35: `apisrver` is not a process", "apisrver", "did you mean `apiserver`?")]
#[case(&with_steps("  - partition: {between: [node-a]}\n"), "t.yaml:4:26: a partition is between two ends", "[node-a]", "write `between:")]
#[case(&with_steps("  - heal: cut\n"), "t.yaml:4:11: no partition called `cut` is in force", "cut", "there are no partitions in force")]
#[case(&with_steps("  - heal:\n"), "t.yaml:4:9: no partition is in force here", ":", "")]
#[case(&with_steps("  - partition: {between: [node-a, apiserver]}\n  - partition: {between: [node-b, ec2]}\n  - heal: {}\n"),
    "t.yaml:6:11: several partitions are in force here", "{}", "name one of: node-a-apiserver, node-b-ec2")]
#[case(&with_steps("  - partition: {between: [node-a, apiserver], name: c}\n  - clear-fault: c\n  - heal: c\n"), "t.yaml:6:11: no partition called `c`", "c", "")]
#[case(&with_steps("  - node-file: {node: node-a, remove: vol_data.json}\n"), "t.yaml:4:39: every volume has a `vol_data.json`", "vol_data.json", "add `of: pvc/NAME`")]
#[case(&with_steps("  - node-file: {node: node-a, remove: registration-sockt}\n"), "t.yaml:4:39: kubelet's directory has no such file", "registration-sockt", "did you mean `registration-socket`?")]
#[case(&with_steps("  - node-file: {node: node-a, remove: pods/../../etc/passwd}\n"), "t.yaml:4:39: a path does not leave", "pods/../../etc/passwd", "write it without")]
#[case(&with_steps("  - node-file: {node: node-a, remove: /etc/passwd}\n"), "t.yaml:4:39: a path begins at kubelet's directory", "/etc/passwd", "leave")]
#[case(&with_steps("  - node-file: {node: node-a, remove: vol_data.json, of: pvc/data, beside: stagin}\n"), "t.yaml:4:76: there is no such place", "stagin", "did you mean `staging`?")]
#[case(&with_steps("  - node-file: {node: node-a, remove: plugins/a, beside: pods}\n"), "t.yaml:4:58: `beside` needs the volume", "pods", "add `of: pvc/NAME`")]
#[case(&with_steps("  - node-file: {node: node-a, remove: registration-socket, of: pvc/data}\n"), "t.yaml:4:64: `of` does not go with this file", "pvc/data", "only `vol_data.json`")]
#[case(&with_steps("  - crash: apiserver\n"), "t.yaml:4:12: there is no node and no process called `apiserver`", "apiserver", "did you mean `fake-apiserver`?")]
#[case(&with_steps("  - crash: ec2\n"), "t.yaml:4:12: there is no node and no process called `ec2`", "ec2", "did you mean `mock-ec2`?")]
#[case(&with_line("without: [kube-sheduler]"), "t.yaml:3:11: `kube-sheduler` is not a component", "kube-sheduler", "did you mean `kube-scheduler`?")]
#[case(&with_line("without: [kube-scheduler]\nsteps: [{crash: kube-scheduler}]"), "t.yaml:4:17: there is no node and no process called `kube-scheduler`", "kube-scheduler", "")]
#[case(&with_line("worlds: [simulatd]"), "t.yaml:3:10: `simulatd` is not one of the values", "simulatd", "did you mean `simulated`?")]
#[case(&with_line("worlds: []"), "t.yaml:3:9: a scenario that is for no world", "[]", "write `[simulated]`")]
#[case(&with_line("driver: {capabilities: '-STAGE_UNSTAGE_VOLUM'}"), "t.yaml:3:24: `-STAGE_UNSTAGE_VOLUM` is not a capability", "'-STAGE_UNSTAGE_VOLUM'", "did you mean `STAGE_UNSTAGE_VOLUME`?")]
#[case(&with_line("driver: {attach-limit: -1}"), "t.yaml:3:24: a node takes no fewer", "-1", "0 leaves it")]
#[case(&with_line("efs: {file-systems: [{id: fs-12}]}"), "t.yaml:3:27: `fs-12` is not the id of a file system", "fs-12", "write fs- and")]
#[case(&with_line("efs: {file-systems: [{id: fs-01234567}, {id: fs-01234567}]}"), "t.yaml:3:46: the file system `fs-01234567` is there twice", "fs-01234567", "")]
#[case(&with_line("efs: {file-systems: [{id: fs-01234567, directories: [a]}]}"), "t.yaml:3:54: `a` is not a directory", "a", "write an absolute path")]
#[case(&with_line("efs: {}\nwithout: [csi-mock]"), "t.yaml:3:6: the EFS driver runs beside csi-mock", "{}", "remove `efs`")]
#[case(&with_line("steps: [{crash: efs-csi-controller}]"), "t.yaml:3:17: there is no node and no process called `efs-csi-controller`", "efs-csi-controller", "")]
#[case(&with_line("zones: [a, a]"), "t.yaml:3:12: the zone `a` is there twice", "a", "")]
#[case(
    "name: t\nnodes: [{name: n, zone: us-east-1d}]\nzones: [us-east-1a]\n",
    "t.yaml:3:9: n is in the zone `us-east-1d`, which the cloud has not",
    "us-east-1a",
    "did you mean `us-east-1a`?"
)]
fn unknown_or_conflicting_values_are_refused_at_their_place(
    #[case] text: &str,
    #[case] message: &str,
    #[case] offending: &str,
    #[case] advice: &str,
) {
    let error = refusal(text);
    assert!(error.to_string().starts_with(message), "{error}");
    assert_eq!(error.text(), offending, "{error}");
    assert!(error.advice().unwrap_or_default().starts_with(advice), "{:?}", error.advice());
}

#[test]
fn a_second_driver_has_the_file_systems_that_the_file_names() {
    let file_systems = |line: &str| {
        let efs = parse("t.yaml", &with_line(line)).unwrap_or_else(|e| panic!("{e}")).efs;
        efs.map(|all| all.into_iter().map(|one| (one.id, one.directories)).collect::<Vec<_>>())
    };
    assert_eq!(file_systems(""), None);
    let default = csi_mock::efs::DEFAULT_FILE_SYSTEM.to_owned();
    assert_eq!(file_systems("efs: {}"), Some(vec![(default, Vec::new())]));
    let one = file_systems("efs: {file-systems: [{id: fs-01234567, directories: [/a]}]}");
    assert_eq!(one, Some(vec![("fs-01234567".to_owned(), vec!["/a".to_owned()])]));
    let text = with_line("efs: {}\nsteps: [{crash: efs-csi-controller}, {crash: node-a/efs-csi-node}]");
    assert!(parse("t.yaml", &text).is_ok());
}

#[test]
fn a_step_says_what_it_does() {
    let text = with_steps(
        "  - ec2: {action: DetachVolume, with: {VolumeId: {volume: pvc/data}, InstanceId: {instance: node-a}}, fails: IncorrectState}
  - ec2: {action: CreateVolume, with: {AvailabilityZone: us-east-1a, Size: 1}, save: own, from: VolumeId}
  - ec2: {poke: stick, volume: {saved: own}, which: attachment}
  - ec2: {poke: terminate, instance: node-a}
  - patch: {object: node/node-a, subresource: status, with: {}, fails: Invalid}
  - partition: {between: [node-a, apiserver], name: cut}
  - heal: cut
  - node-file: {node: node-a, remove: vol_data.json, of: pvc/data}
  - node-file: {node: node-a, remove: vol_data.json, of: pvc/data, beside: staging}
  - node-file: {node: node-a, remove: registration-socket}
  - pause: look at the VolumeAttachment now
",
    );
    let steps = parse("t.yaml", &text).unwrap_or_else(|e| panic!("{e}")).steps;
    let wording: Vec<String> = steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        wording,
        [
            "call DetachVolume InstanceId=node-a, VolumeId=pvc/data, which fails with IncorrectState",
            "call CreateVolume AvailabilityZone=us-east-1a, Size=1",
            "poke the cloud: stick volume the saved own {\"which\":\"attachment\"}",
            "poke the cloud: terminate instance node-a",
            "patch status of node/node-a, which is refused as Invalid",
            "fault cut",
            "clear fault cut",
            "remove vol_data.json of pvc/data on node-a",
            "remove vol_data.json of pvc/data beside its staging path on node-a",
            "remove the registration socket of the driver on node-a",
            "pause: look at the VolumeAttachment now",
        ]
    );
}

#[test]
fn a_file_runs_in_the_worlds_that_it_names() {
    use substrate::WorldKind::{Live, Simulated};

    let runs = |line: &str| {
        let scenario = parse("t.yaml", &with_line(line)).unwrap_or_else(|e| panic!("{e}"));
        [Simulated, Live].map(|kind| scenario.runs_in(kind))
    };
    assert_eq!([runs("teardown: true"), runs("worlds: [live]")], [[true, true], [false, true]]);
}

#[test]
fn a_fault_of_the_driver_needs_our_driver() {
    let text = "name: x\nnodes: {count: 1}\nwithout: [csi-mock]\nfaults:\n  - name: f\n    match: {plane: csi, op: NodeStageVolume}\n    \
                effect: {error: INTERNAL}\nsteps: [{sleep: 1s}]\n";
    let error = crate::scenario::parse("x.yaml", text).expect_err("no driver asks for it");
    assert_eq!((error.line(), error.to_string().contains("csi-mock is left out")), (6, true), "{error}");
    assert!(crate::scenario::parse("x.yaml", &text.replace("without: [csi-mock]\n", "")).is_ok());
}
