//! Imports of files in the form that kubectl and the AWS CLI print.

use serde_json::{Value, json};

use super::{Imported, Input, import};
use crate::scenario;

const INSTANCE: &str = "i-0aaaaaaaaaaaaaaa1";
const VOLUME: &str = "vol-0bbbbbbbbbbbbbbb2";
const NODE: &str = "ip-10-0-1-5.eu-west-1.compute.internal";

fn file(name: &str, text: impl Into<String>) -> Input {
    Input { name: name.to_owned(), text: text.into() }
}

fn objects() -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "Node",
          "metadata": { "name": NODE, "uid": "11111111-1111-4111-8111-111111111111", "resourceVersion": "5",
            "labels": { "topology.kubernetes.io/zone": "eu-west-1a", "node.kubernetes.io/instance-type": "m5.large", "team": "payments" },
            "managedFields": [{ "manager": "kubelet" }] },
          "spec": { "providerID": format!("aws:///eu-west-1a/{INSTANCE}") },
          "status": { "images": [{ "names": ["registry.example/secret-project"] }],
            "volumesAttached": [{ "name": format!("kubernetes.io/csi/ebs.csi.aws.com^{VOLUME}"), "devicePath": "" }] } },
        { "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "fast", "uid": "66666666-6666-4666-8666-666666666666" },
          "provisioner": "ebs.csi.aws.com", "parameters": { "type": "gp3" }, "reclaimPolicy": "Delete",
          "volumeBindingMode": "WaitForFirstConsumer" },
        { "apiVersion": "v1", "kind": "PersistentVolume",
          "metadata": { "name": "pvc-22222222-2222-4222-8222-222222222222", "uid": "33333333-3333-4333-8333-333333333333",
            "annotations": { "pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com", "owner": "payments" },
            "finalizers": ["kubernetes.io/pv-protection", "external-attacher/ebs-csi-aws-com"] },
          "spec": { "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "8Gi" }, "storageClassName": "fast",
            "persistentVolumeReclaimPolicy": "Delete", "volumeMode": "Filesystem",
            "claimRef": { "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "payments", "name": "ledger",
              "uid": "22222222-2222-4222-8222-222222222222" },
            "csi": { "driver": "ebs.csi.aws.com", "fsType": "ext4", "volumeHandle": VOLUME },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
              { "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["eu-west-1a"] }] }] } } },
          "status": { "phase": "Bound" } },
        { "apiVersion": "v1", "kind": "PersistentVolumeClaim",
          "metadata": { "name": "ledger", "namespace": "payments", "uid": "22222222-2222-4222-8222-222222222222",
            "finalizers": ["kubernetes.io/pvc-protection"] },
          "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Filesystem",
            "volumeName": "pvc-22222222-2222-4222-8222-222222222222", "resources": { "requests": { "storage": "8Gi" } } },
          "status": { "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "8Gi" } } },
        { "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
          "metadata": { "name": "csi-aaaa", "uid": "44444444-4444-4444-8444-444444444444",
            "deletionTimestamp": "2026-11-20T10:00:00Z", "deletionGracePeriodSeconds": 0,
            "finalizers": ["external-attacher/ebs-csi-aws-com"] },
          "spec": { "attacher": "ebs.csi.aws.com", "nodeName": NODE,
            "source": { "persistentVolumeName": "pvc-22222222-2222-4222-8222-222222222222" } },
          "status": { "attached": true, "attachmentMetadata": { "devicePath": "/dev/xvdba" } } },
        { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "db-0", "namespace": "payments", "uid": "55555555-5555-4555-8555-555555555555" },
          "spec": { "nodeName": NODE, "containers": [{ "name": "db", "image": "postgres",
            "command": ["psql", "--password=hunter2"], "env": [{ "name": "PASSWORD", "value": "hunter2" }],
            "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "ledger" } },
              { "name": "conf", "projected": { "sources": [{ "configMap": { "name": "conf" } }] } }] },
          "status": { "phase": "Running", "podIP": "10.0.1.77" } },
        { "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tls", "namespace": "payments" },
          "data": { "key": "aHVudGVyMg==" } },
        { "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "payments" } },
    ] })
}

fn volumes() -> Value {
    json!({ "Volumes": [
        { "VolumeId": VOLUME, "Size": 8, "AvailabilityZone": "eu-west-1a", "VolumeType": "gp3", "Iops": 3000,
          "Throughput": 125, "State": "in-use", "Encrypted": true,
          "KmsKeyId": "arn:aws:kms:eu-west-1:123456789012:key/abc", "CreateTime": "2026-11-01T00:00:00+00:00",
          "Tags": [{ "Key": "kubernetes.io/created-for/pvc/name", "Value": "ledger" }, { "Key": "team", "Value": "payments" }],
          "Attachments": [{ "VolumeId": VOLUME, "InstanceId": INSTANCE, "Device": "/dev/xvdba", "State": "detaching",
            "AttachTime": "2026-11-02T00:00:00+00:00" }] },
        { "VolumeId": "vol-0cccccccccccccccc", "Size": 20, "AvailabilityZone": "eu-west-1a", "VolumeType": "gp3",
          "State": "in-use", "Attachments": [{ "InstanceId": INSTANCE, "Device": "/dev/xvda", "State": "attached" }] },
    ] })
}

fn instances() -> Value {
    json!({ "Reservations": [{ "Instances": [
        { "InstanceId": INSTANCE, "InstanceType": "m5.large", "State": { "Name": "running" },
          "Placement": { "AvailabilityZone": "eu-west-1a" }, "PrivateDnsName": NODE,
          "RootDeviceName": "/dev/xvda",
          "BlockDeviceMappings": [{ "DeviceName": "/dev/xvda", "Ebs": { "VolumeId": "vol-0cccccccccccccccc" } }] },
        { "InstanceId": "i-0ddddddddddddddd3", "InstanceType": "t3.small", "State": { "Name": "running" },
          "Placement": { "AvailabilityZone": "eu-west-1b" } },
    ] }] })
}

fn all() -> [Input; 3] {
    [
        file("objects.yaml", objects().to_string()),
        file("volumes.json", volumes().to_string()),
        file("instances.json", instances().to_string()),
    ]
}

fn imported(anonymised: bool) -> Imported {
    import("incident", &all(), anonymised).expect("an import")
}

fn remarks(imported: &Imported, object: &str) -> Vec<String> {
    imported.notes.iter().filter(|note| note.object == object).map(|note| note.message.clone()).collect()
}

#[test]
fn an_incident_becomes_a_scenario() {
    let imported = imported(false);
    let scenario = scenario::parse("incident.yaml", &imported.scenario).unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(scenario.zones, ["eu-west-1a"]);
    assert_eq!(scenario.nodes.len(), 1);
    assert_eq!(scenario.nodes[0].instance.as_deref(), Some(INSTANCE));
    let volumes = &scenario.begin.volumes;
    assert_eq!(volumes.iter().map(|v| v.id.as_str()).collect::<Vec<_>>(), [VOLUME]);
    assert_eq!(volumes[0].attachments[0].device, "/dev/xvdba");
    let kinds: Vec<String> = scenario.begin.objects.iter().map(|m| m.object.to_string()).collect();
    assert_eq!(kinds.len(), 7, "{kinds:?}");
    let attachment = scenario.begin.objects.iter().find(|m| m.object.name == "csi-aaaa").expect("the attachment");
    assert_eq!(attachment.value["metadata"]["deletionTimestamp"], "2026-11-20T10:00:00Z");
    assert_eq!(attachment.value["status"]["attached"], true);
    let pod = scenario.begin.objects.iter().find(|m| m.object.name == "db-0").expect("the pod");
    let sources = &pod.value["spec"]["volumes"][1]["projected"]["sources"];
    assert_eq!(sources[0]["configMap"]["optional"], true, "it is not imported");
}

#[test]
fn omissions_are_noted_and_no_secret_is_imported() {
    let imported = imported(false);
    assert!(!imported.scenario.contains("hunter2") && !imported.scenario.contains("aHVudGVyMg"));
    for (object, part) in [
        ("Secret payments/tls", "secrets are never imported"),
        ("Deployment payments/web", "is not imported"),
        ("Pod payments/db-0", "without commands"),
        ("i-0ddddddddddddddd3", "no node is on this t3.small"),
        ("vol-0cccccccccccccccc", "boots from it"),
        (VOLUME, "is detaching, and begins as attached"),
    ] {
        let remarks = remarks(&imported, object);
        assert!(remarks.iter().any(|remarks| remarks.contains(part)), "{object}: {remarks:?}");
    }
}

#[test]
fn an_anonymised_import_contains_no_names() {
    let imported = imported(true);
    for name in [
        "payments",
        "ledger",
        "db-0",
        "123456789012",
        "ip-10-0-1-5",
        "10.0.1.77",
        "postgres",
        INSTANCE,
        VOLUME,
        "22222222-2222",
        "33333333",
        "csi-aaaa",
        "/key/abc",
        "key/abc",
    ] {
        assert!(!imported.scenario.contains(name), "{name}:\n{}", imported.scenario);
        assert!(
            !imported.notes.iter().any(|note| note.to_string().contains(name) && !name.starts_with("key")),
            "{name}"
        );
    }
    let scenario = scenario::parse("incident.yaml", &imported.scenario).unwrap_or_else(|e| panic!("{e:?}"));
    let object = |kind: &str| {
        let found = scenario.begin.objects.iter().find(|m| m.value["kind"] == kind);
        found.unwrap_or_else(|| panic!("no {kind}")).value.clone()
    };
    let (volume, claim) = (object("PersistentVolume"), object("PersistentVolumeClaim"));
    assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
    assert_eq!(volume["spec"]["claimRef"]["name"], claim["metadata"]["name"]);
    assert_eq!(claim["spec"]["volumeName"], volume["metadata"]["name"]);
    assert_eq!(volume["spec"]["csi"]["volumeHandle"], scenario.begin.volumes[0].id.as_str());
    let node = object("Node");
    let attached = node["status"]["volumesAttached"][0]["name"].as_str().expect("a name");
    assert!(attached.ends_with(&scenario.begin.volumes[0].id), "{attached}");
    assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "eu-west-1a");
}

#[test]
fn volumes_that_the_cloud_does_not_tell_are_made() {
    let imported = import("incident", &[file("objects.yaml", objects().to_string())], false).expect("an import");
    let scenario = scenario::parse("incident.yaml", &imported.scenario).unwrap_or_else(|e| panic!("{e:?}"));
    let volume = &scenario.begin.volumes[0];
    assert_eq!((volume.id.as_str(), volume.size, volume.zone.as_str()), (VOLUME, 8, "eu-west-1a"));
    assert_eq!(volume.attachments[0].device, "/dev/xvdba");
}

#[test]
fn yaml_of_several_documents_is_read() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: node-a}\n";
    let text = format!("# two\n---\n{node}---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: shop}}\n...\n");
    let imported = import("x", &[file("a.yaml", text)], false).expect("an import");
    assert_eq!((imported.counts.nodes, imported.counts.objects), (1, 2));
    let remarks = remarks(&imported, "Node node-a");
    assert_eq!(remarks.len(), 3, "zone, type and instance are not known: {remarks:?}");
}

#[test]
fn broken_files_are_refused_with_file_and_object() {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "node-a" } }).to_string();
    let cases = [
        ("", "f: there is nothing in it"),
        ("- 1\n- 2\n", "f: a map is expected, and this is a list"),
        ("{\"a\": ", "f: it is neither JSON nor YAML"),
        ("a: [\n", "f: it is neither JSON nor YAML"),
        ("{}", "f: it is neither a Kubernetes object"),
        ("{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}", "f: Pod: metadata.name is missing"),
        ("{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [3]}", "f: items[0]: a map is expected"),
        ("{\"Volumes\": [{}]}", "f: volume: VolumeId is missing"),
        ("{\"Volumes\": [{\"VolumeId\": \"vol-1\"}]}", "f: vol-1: Size is missing"),
        ("{\"Reservations\": [{\"Instances\": [{}]}]}", "f: instance: InstanceId is missing"),
        ("{\"Volumes\": [{\"VolumeId\": \"x\", \"Size\": 1, \"AvailabilityZone\": \"z\"}]}", "f: x: id: "),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}", "f: Pod a: spec.containers"),
    ];
    for (text, expected) in cases {
        let error = import("x", &[file("f", text)], false).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "c" }, "spec": { "accessModes": 5 } });
    let error = import("x", &[file("n", node.clone()), file("f", claim.to_string())], false).expect_err("mistyped");
    assert!(error.to_string().starts_with("f: PersistentVolumeClaim c: "), "{error}");
    let deep = "[".repeat(100_000);
    assert!(import("x", &[file("f", deep)], false).is_err());
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
    assert!(import("x", &[file("f", bomb)], false).is_err());
    let far = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "b", "labels": { "topology.kubernetes.io/zone": "us-east-1a" } } });
    let near = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "a", "labels": { "topology.kubernetes.io/zone": "eu-west-1a" } } });
    let error =
        import("x", &[file("f", far.to_string()), file("g", near.to_string())], false).expect_err("two regions");
    assert!(error.to_string().contains("several regions"), "{error}");
    let none = import("x", &[file("f", volumes().to_string())], false).expect_err("no node").to_string();
    assert!(none.contains("there is no node in it"), "{none}");
}

#[test]
fn an_unknown_field_is_left_out_and_noted() {
    let text = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "node-a" }, "spec": { "podCIDR": "10.0.0.0/24", "novel": { "a": 1 } } });
    let imported = import("x", &[file("f", text.to_string())], false).expect("an import");
    assert!(
        remarks(&imported, "Node node-a").iter().any(|remarks| remarks.contains("spec.novel")),
        "{:?}",
        imported.notes
    );
}

/// Imports, starts a cluster without loops from the result, and imports its objects in the form that kubectl prints.
#[test]
fn import_survives_an_export() {
    use crate::cluster::{Cluster, ClusterSpec};

    let first = imported(false);
    let scenario = scenario::parse("incident.yaml", &first.scenario).unwrap_or_else(|e| panic!("{e:?}"));
    let mut spec = ClusterSpec::of_scenario(&scenario);
    spec.without = controllers::left_out(controllers::can_be_left_out()).expect("all");
    let exported = substrate::world::simulate(substrate::world::Options::default(), async |world| {
        let cluster = Cluster::simulate(&world, spec).expect("a cluster");
        world.clock().sleep_until(std::time::Duration::from_secs(5)).await;
        let mut items = Vec::new();
        for path in [
            "/api/v1/nodes",
            "/api/v1/persistentvolumes",
            "/api/v1/persistentvolumeclaims",
            "/api/v1/pods",
            "/apis/storage.k8s.io/v1/storageclasses",
            "/apis/storage.k8s.io/v1/volumeattachments",
        ] {
            items.extend(cluster.objects().list_tree(path).await.expect("a list").0);
        }
        items.into_iter().map(Value::from).collect::<Vec<_>>()
    });
    let objects = json!({ "apiVersion": "v1", "kind": "List", "items": exported });
    let inputs = [
        file("objects.yaml", objects.to_string()),
        file("volumes.json", volumes().to_string()),
        file("instances.json", instances().to_string()),
    ];
    let second = import("incident", &inputs, false).expect("an import");
    assert_eq!(first.scenario, second.scenario);
}
