//! The real kubectl against the binary over TLS: commands and their output.

use crate::support::{Server, available};

const OBJECTS: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp3, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: ebs.csi.aws.com}
spec: {attachRequired: true, podInfoOnMount: false}
---
apiVersion: v1
kind: Node
metadata: {name: node-a, labels: {topology.kubernetes.io/zone: us-east-1a}}
spec: {providerID: "aws:///us-east-1a/i-0123456789abcdef0"}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: node-a}
spec: {drivers: [{name: ebs.csi.aws.com, nodeID: i-0123456789abcdef0, topologyKeys: [topology.kubernetes.io/zone], allocatable: {count: 25}}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: app}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {a: "1"}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1}
spec:
  capacity: {storage: 4Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: gp3
  csi: {driver: ebs.csi.aws.com, volumeHandle: vol-0123456789abcdef0}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 4Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  containers: [{name: main, image: busybox, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: csi-1}
spec: {attacher: ebs.csi.aws.com, nodeName: node-a, source: {persistentVolumeName: pv-1}}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: fast}
driverName: ebs.csi.aws.com
parameters: {iops: "4000"}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: cap}
storageClassName: gp3
capacity: 100Gi
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: node-a}
spec: {holderIdentity: node-a, leaseDurationSeconds: 40}
---
apiVersion: v1
kind: Event
metadata: {name: writer.1}
involvedObject: {apiVersion: v1, kind: Pod, name: writer, namespace: default}
type: Warning
reason: FailedAttachVolume
message: Multi-Attach error for volume "pv-1"
source: {component: attachdetach-controller}
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
count: 2
"#;

/// A command line, and texts that its output must contain; a leading `!` means that the command must fail.
const COMMANDS: &[(&str, &[&str])] = &[
    ("version", &["Server Version"]),
    ("api-resources", &["volumeattachments", "storage.k8s.io/v1", "pvc"]),
    ("api-resources --categories=all", &["pods"]),
    ("api-versions", &["v1", "storage.k8s.io/v1", "coordination.k8s.io/v1", "events.k8s.io/v1"]),
    ("explain pvc.spec", &["storageClassName", "<string>", "VERSION:    v1"]),
    ("explain volumeattachment.spec.source", &["persistentVolumeName"]),
    (
        "explain pod.spec.containers",
        &["DESCRIPTION:", "Entrypoint array. Not executed within a shell.", "env\t<[]EnvVar>"],
    ),
    ("explain pvc.spec.resources", &["limits\t<map[string]Quantity>", "maximum amount of compute resources allowed"]),
    ("explain service.spec.ports", &["targetPort\t<IntOrString>"]),
    ("explain pod.metadata", &["creationTimestamp\t<string>"]),
    ("explain pod.spec.restartPolicy", &["ENUM:", "    Always", "    OnFailure"]),
    ("get namespaces", &["NAME", "STATUS", "AGE", "default", "Active", "kube-system"]),
    (
        "apply -f objects.yaml",
        &["storageclass.storage.k8s.io/gp3 created", "pod/writer created", "event/writer.1 created"],
    ),
    (
        "apply -f objects.yaml",
        &[
            "storageclass.storage.k8s.io/gp3 unchanged",
            // The server adds a token volume, so the list of volumes differs from the file's.
            "pod/writer configured",
            "persistentvolume/pv-1 unchanged",
            "node/node-a unchanged",
        ],
    ),
    ("diff -f objects.yaml", &[]),
    ("get -f objects.yaml", &["persistentvolumeclaim/data"]),
    // Every kind's table.
    (
        "get sc",
        &[
            "NAME",
            "PROVISIONER",
            "RECLAIMPOLICY",
            "VOLUMEBINDINGMODE",
            "ALLOWVOLUMEEXPANSION",
            "gp3 (default)",
            "WaitForFirstConsumer",
            "true",
        ],
    ),
    ("get csidrivers", &["ATTACHREQUIRED", "ebs.csi.aws.com", "Persistent"]),
    ("get csinodes", &["DRIVERS", "node-a"]),
    ("get csistoragecapacities", &["CREATED AT", "cap"]),
    ("get vac", &["DRIVERNAME", "fast"]),
    ("get leases", &["HOLDER", "node-a"]),
    ("get cm settings", &["DATA", "settings   1"]),
    ("get secrets key", &["Opaque   1"]),
    ("get sa app", &["NAME", "AGE"]),
    ("get nodes -o wide", &["INTERNAL-IP", "Unknown", "<none>"]),
    ("get pv", &["RECLAIM POLICY", "4Gi", "RWO", "Retain", "gp3", "<unset>"]),
    ("get pvc -o wide", &["VOLUMEMODE", "data", "Pending", "gp3", "Filesystem"]),
    ("get pods -o wide", &["NOMINATED NODE", "writer", "0/1", "Pending"]),
    ("get volumeattachment -o wide", &["ATTACHER", "PV", "NODE", "ATTACHED", "csi-1", "pv-1", "node-a", "false"]),
    ("get events", &["LAST SEEN", "Warning", "FailedAttachVolume", "pod/writer", "Multi-Attach error"]),
    ("get events.events.k8s.io -o yaml", &["regarding", "note: Multi-Attach"]),
    ("get all", &["writer"]),
    ("get pods -A", &["NAMESPACE", "default"]),
    // Selectors, output forms, raw paths.
    ("get pods --field-selector metadata.name=nope", &["No resources found"]),
    ("get pods --field-selector status.phase=Pending -o name", &["pod/writer"]),
    ("!get pods --field-selector spec.nope=1", &["field label not supported"]),
    ("get nodes -l topology.kubernetes.io/zone=us-east-1a -o name", &["node/node-a"]),
    ("get pvc data -o jsonpath={.spec.storageClassName}", &["gp3"]),
    ("get --raw /readyz", &["ok"]),
    ("get pv -o custom-columns=H:.spec.csi.volumeHandle", &["vol-0123456789abcdef0"]),
    ("!get pod nope", &["Error from server (NotFound): pods \"nope\" not found"]),
    ("!get nonsense", &["the server doesn't have a resource type \"nonsense\""]),
    // Describe.
    (
        "describe pod writer",
        &["Name:             writer", "ClaimName:  data", "kube-api-access-", "not-ready:NoExecute op=Exists for 300s"],
    ),
    ("describe pvc data", &["StorageClass:  gp3", "Status:        Pending", "Used By:       writer"]),
    (
        "describe pv pv-1",
        &["Driver:            ebs.csi.aws.com", "VolumeHandle:      vol-0123456789abcdef0", "Node Affinity"],
    ),
    ("describe node node-a", &["ProviderID:", "aws:///us-east-1a/i-0123456789abcdef0", "Taints:"]),
    ("describe volumeattachment csi-1", &["Attacher:", "ebs.csi.aws.com"]),
    ("describe sc gp3", &["IsDefaultClass:  Yes"]),
    // Writes.
    ("label node node-a team=storage", &["node/node-a labeled"]),
    ("label node node-a team-", &["node/node-a unlabeled"]),
    ("annotate pvc data a=b", &["annotated"]),
    ("taint node node-a a=b:NoSchedule", &["tainted"]),
    ("taint node node-a a-", &["untainted"]),
    ("cordon node-a", &["cordoned"]),
    ("get nodes", &["SchedulingDisabled"]),
    ("uncordon node-a", &["uncordoned"]),
    (
        "patch pv pv-1 --type=json -p [{\"op\":\"test\",\"path\":\"/metadata/name\",\"value\":\"pv-1\"},{\"op\":\"add\",\"path\":\"/metadata/labels\",\"value\":{\"x\":\"y\"}}]",
        &["patched"],
    ),
    (
        "!patch pv pv-1 --type=json -p [{\"op\":\"test\",\"path\":\"/metadata/name\",\"value\":\"other\"}]",
        &["rejected our request"],
    ),
    ("patch pv pv-1 --type=merge -p {\"metadata\":{\"labels\":{\"x\":null}}}", &["patched"]),
    ("patch pod writer -p {\"spec\":{\"containers\":[{\"name\":\"main\",\"image\":\"busybox:2\"}]}}", &["patched"]),
    (
        "get pod writer -o jsonpath={.spec.containers[*].image}{.spec.containers[0].volumeMounts[0].mountPath}",
        &["busybox:2/data"],
    ),
    (
        "patch volumeattachment csi-1 --subresource=status --type=merge -p {\"status\":{\"attached\":true}}",
        &["patched"],
    ),
    ("get volumeattachment -o wide", &["true"]),
    ("wait volumeattachment/csi-1 --for=jsonpath={.status.attached}=true --timeout=90s", &["condition met"]),
    ("!patch volumeattachment csi-1 --type=merge -p {\"spec\":{\"nodeName\":\"other\"}}", &["immutable"]),
    ("!patch sc gp3 -p {\"provisioner\":\"other\"}", &["field is immutable"]),
    ("apply -f changed.yaml", &["configmap/settings configured"]),
    ("get cm settings -o jsonpath={.data}", &["{\"b\":\"2\"}"]),
    ("!apply -f unknown-field.yaml", &["unknown field \"spec.storageClas\""]),
    ("apply --validate=false -f unknown-field.yaml", &["created"]),
    ("apply --dry-run=server -f dry.yaml", &["created (server dry run)"]),
    ("!get cm dry", &["NotFound"]),
    ("create -f made.yaml", &["configmap/made created", "namespace/work created", "configmap/inside created"]),
    ("replace -f changed.yaml", &["replaced"]),
    ("!create -f made.yaml", &["configmaps \"made\" already exists"]),
    ("-n work get cm", &["inside"]),
    // These commands send protobuf.
    ("create namespace typed", &["namespace/typed created"]),
    ("!create namespace typed", &["namespaces \"typed\" already exists"]),
    ("create configmap typed -n typed --from-literal=a=1", &["configmap/typed created"]),
    ("get cm typed -n typed -o jsonpath={.data.a}", &["1"]),
    ("create serviceaccount typed -n typed", &["serviceaccount/typed created"]),
    ("create secret generic typed -n typed --from-literal=a=1", &["secret/typed created"]),
    ("get secret typed -n typed -o jsonpath={.data.a}", &["MQ=="]),
    ("create token typed -n typed --duration=15m", &["eyJ"]),
    ("!create token typed -n typed --duration=1m", &["may not specify a duration less than 10 minutes"]),
    ("auth can-i create persistentvolumes", &["yes"]),
    ("auth can-i --list", &["*.*", "[*]"]),
    ("auth whoami", &["kubernetes-admin", "system:masters"]),
    ("delete ns typed --timeout=90s", &["deleted"]),
    ("apply --server-side -f dry.yaml", &["configmap/dry serverside-applied"]),
    ("get cm dry -o yaml --show-managed-fields", &["manager: kubectl", "operation: Apply"]),
    ("apply --server-side -f settings.yaml --field-manager=one", &["serverside-applied"]),
    ("!apply --server-side -f other.yaml --field-manager=two", &["conflict with \"one\"", ".data.c"]),
    ("apply --server-side -f other.yaml --field-manager=two --force-conflicts", &["serverside-applied"]),
    ("get cm shared -o jsonpath={.data}", &["{\"c\":\"2\"}"]),
    // Deletion.
    ("delete configmap made", &["deleted"]),
    ("delete pod writer --wait --timeout=90s --grace-period=0 --force", &["deleted"]),
    ("wait --for=delete pod/writer --timeout=90s", &[]),
    ("delete volumeattachment csi-1 --timeout=90s", &["deleted"]),
    ("delete ns work --timeout=90s", &["deleted"]),
    ("!get ns work", &["NotFound"]),
    ("delete cm --all", &["deleted"]),
];

const WORKLOADS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "nginx:1"}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: "postgres:17", volumeMounts: [{name: data, mountPath: /data}]}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {schedule: "0 3 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec: {rules: [{host: a.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
"#;

/// Commands on workloads. No controller runs here, so they never become ready.
const WORKLOAD_COMMANDS: &[(&str, &[&str])] = &[
    ("api-resources --api-group=apps", &["deployments", "deploy", "statefulsets", "sts", "controllerrevisions"]),
    (
        "api-resources --namespaced=false -o name",
        &["clusterroles.rbac.authorization.k8s.io", "storageclasses.storage.k8s.io"],
    ),
    ("explain deployment.spec.strategy.rollingUpdate", &["maxSurge", "maxUnavailable", "VERSION:    v1"]),
    ("explain crd.spec.versions.schema.openAPIV3Schema", &["KIND:       CustomResourceDefinition"]),
    (
        "apply -f workloads.yaml",
        &["deployment.apps/web created", "statefulset.apps/db created", "ingress.networking.k8s.io/web created"],
    ),
    ("apply -f workloads.yaml", &["deployment.apps/web unchanged", "service/web unchanged"]),
    ("apply --server-side -f workloads.yaml --force-conflicts", &["deployment.apps/web serverside-applied"]),
    ("get deploy web", &["READY", "UP-TO-DATE", "AVAILABLE", "0/2"]),
    ("get deploy web -o wide", &["CONTAINERS", "IMAGES", "SELECTOR", "nginx:1", "app=web"]),
    ("get sts", &["db", "0/1"]),
    ("get svc web", &["CLUSTER-IP", "ClusterIP", "10.96.", "80/TCP"]),
    ("get pdb", &["MIN AVAILABLE", "ALLOWED DISRUPTIONS", "N/A"]),
    ("get cj", &["SCHEDULE", "0 3 * * *", "False", "<none>"]),
    ("get ing", &["CLASS", "HOSTS", "a.example"]),
    ("get all", &["deployment.apps/web", "statefulset.apps/db", "service/web", "cronjob.batch/nightly"]),
    ("describe deploy web", &["StrategyType:           RollingUpdate", "25% max unavailable, 25% max surge"]),
    ("describe svc web", &["TargetPort:               8080/TCP"]),
    ("scale deploy web --replicas=5", &["deployment.apps/web scaled"]),
    ("get deploy web -o jsonpath={.spec.replicas}/{.metadata.generation}", &["5/2"]),
    ("scale sts db --current-replicas=1 --replicas=3", &["statefulset.apps/db scaled"]),
    ("!scale sts db --current-replicas=1 --replicas=4", &["Expected replicas to be 1, was 3"]),
    (
        "get --raw /apis/apps/v1/namespaces/default/deployments/web/scale",
        &["\"kind\":\"Scale\"", "\"selector\":\"app=web\""],
    ),
    ("set image deploy/web c=nginx:2", &["image updated"]),
    ("set env deploy/web A=1", &["env updated"]),
    ("set resources deploy/web --limits=cpu=1", &["resource requirements updated"]),
    ("get deploy web -o jsonpath={.spec.template.spec.containers[0].image}", &["nginx:2"]),
    ("rollout restart deploy/web", &["restarted"]),
    ("rollout pause deploy/web", &["paused"]),
    ("rollout resume deploy/web", &["resumed"]),
    ("!rollout status deploy/web --timeout=4s", &["Waiting for deployment"]),
    ("rollout history deploy/web", &["No rollout history found"]),
    ("autoscale deploy web --min=1 --max=4 --cpu-percent=70", &["autoscaled"]),
    ("get hpa web", &["Deployment/web", "70%"]),
    ("get horizontalpodautoscalers.v1.autoscaling web -o jsonpath={.spec.targetCPUUtilizationPercentage}", &["70"]),
    ("create deployment made --image=busybox --replicas=2", &["deployment.apps/made created"]),
    ("create job once --image=busybox", &["job.batch/once created"]),
    ("create job again --from=cronjob/nightly", &["job.batch/again created"]),
    ("get jobs", &["STATUS", "COMPLETIONS", "0/1"]),
    ("create cronjob tick --image=busybox --schedule=*/5\u{a0}*\u{a0}*\u{a0}*\u{a0}*", &["created"]),
    ("create service clusterip plain --tcp=80:80", &["service/plain created"]),
    ("create service nodeport open --tcp=80:80", &["service/open created"]),
    ("get svc open", &["NodePort", "80:300"]),
    ("expose deploy web --name=exposed --port=81", &["service/exposed exposed"]),
    ("create role reader --verb=get --resource=pods", &["created"]),
    ("create rolebinding readers --role=reader --user=ann --serviceaccount=default:default", &["created"]),
    ("get rolebindings -o wide", &["Role/reader", "ann", "default/default"]),
    ("create clusterrole all --verb=* --resource=*.*", &["created"]),
    ("create clusterrolebinding all --clusterrole=all --group=admins", &["created"]),
    ("create pdb other --selector=app=other --max-unavailable=50%", &["created"]),
    ("create quota q --hard=pods=4", &["created"]),
    ("create priorityclass high --value=1000", &["created"]),
    ("get pc", &["VALUE", "GLOBAL-DEFAULT", "1000"]),
    ("create ingress simple --rule=b.example/=web:80", &["created"]),
    ("run single --image=busybox --restart=Never", &["pod/single created"]),
    // There is no kubelet, so the log is empty.
    ("logs single", &[]),
    ("!exec single -- true", &["pod single does not have a host assigned"]),
    ("get cs", &["etcd-0", "Healthy"]),
    ("auth can-i delete deployments --subresource=scale", &["yes"]),
    ("drain node-x --ignore-daemonsets --force --dry-run=client", &[]),
    ("delete deploy,sts,svc,job,cronjob --all --timeout=90s", &["\"web\" deleted", "\"db\" deleted"]),
];

#[test]
fn a_day_with_workloads() {
    if !available("kubectl") {
        return;
    }
    let server = Server::start();
    if minor(&server) < 30 {
        eprintln!("kubectl is older than 1.30: the {} commands of this list are left out", WORKLOAD_COMMANDS.len());
        return;
    }
    server.file("workloads.yaml", WORKLOADS);
    server.file("node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: node-x}\n");
    assert!(server.kubectl(&["apply", "-f", "node.yaml"]).status.success());
    tell(&server, WORKLOAD_COMMANDS, &[]);
}

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: backups.example.com}
spec:
  group: example.com
  names: {plural: backups, kind: Backup, shortNames: [bk], categories: [all]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.copies, statusReplicasPath: .status.copies}}
    additionalPrinterColumns:
    - {name: Source, type: string, jsonPath: .spec.source}
    - {name: Copies, type: integer, jsonPath: .spec.copies}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [source]
            properties:
              source: {type: string, description: "What is backed up."}
              copies: {type: integer, default: 1, maximum: 5}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"#;

const CUSTOM_COMMANDS: &[(&str, &[&str])] = &[
    ("apply -f definition.yaml", &["customresourcedefinition.apiextensions.k8s.io/backups.example.com created"]),
    ("wait --for=condition=Established crd/backups.example.com --timeout=90s", &["condition met"]),
    ("api-resources --api-group=example.com", &["backups", "bk", "example.com/v1", "true", "Backup"]),
    ("api-versions", &["example.com/v1"]),
    ("explain backup", &["apiVersion\t<string>", "kind\t<string>", "metadata\t<ObjectMeta>", "APIVersion defines"]),
    ("explain backup.spec", &["source", "<string>", "-required-", "What is backed up."]),
    ("apply -f backup.yaml", &["backup.example.com/nightly created"]),
    ("apply -f backup.yaml", &["backup.example.com/nightly unchanged"]),
    ("get bk", &["NAME", "SOURCE", "COPIES", "nightly", "data", "1"]),
    ("get all", &["backup.example.com/nightly"]),
    ("get bk nightly -o jsonpath={.spec.copies}", &["1"]),
    ("scale bk nightly --replicas=3", &["scaled"]),
    ("patch bk nightly --type=merge -p {\"spec\":{\"copies\":4}}", &["patched"]),
    ("!patch bk nightly --type=merge -p {\"spec\":{\"copies\":9}}", &["should be less than or equal to 5"]),
    ("!patch bk nightly -p {\"spec\":{\"copies\":2}}", &["is not supported by example.com/v1, Kind=Backup"]),
    ("patch bk nightly --subresource=status --type=merge -p {\"status\":{\"copies\":4}}", &["patched"]),
    ("!apply -f wrong.yaml", &["unknown field \"spec.sauce\""]),
    ("apply --server-side -f backup.yaml --force-conflicts", &["serverside-applied"]),
    ("label bk nightly a=b", &["labeled"]),
    ("describe bk nightly", &["API Version:  example.com/v1", "Source:  data"]),
    ("get bk -w --output-watch-events --request-timeout=4s", &["ADDED"]),
    ("delete crd backups.example.com --timeout=90s", &["deleted"]),
    ("!get bk", &["the server could not find the requested resource"]),
];

#[test]
fn a_day_with_a_custom_kind() {
    if !available("kubectl") {
        return;
    }
    let server = Server::start();
    if minor(&server) < 30 {
        eprintln!("kubectl is older than 1.30: the {} commands of this list are left out", CUSTOM_COMMANDS.len());
        return;
    }
    server.file("definition.yaml", DEFINITION);
    let backup = "apiVersion: example.com/v1\nkind: Backup\nmetadata: {name: nightly}\nspec: {source: data}\n";
    server.file("backup.yaml", backup);
    server.file("wrong.yaml", &backup.replace("{source: data}", "{source: data, sauce: x}"));
    tell(&server, CUSTOM_COMMANDS, &[]);
}

/// Runs `commands`, except those that begin with a text in `left_out`.
fn tell(server: &Server, commands: &[(&str, &[&str])], left_out: &[&str]) {
    let mut failures = Vec::new();
    for (line, wanted) in commands {
        let (command, fails) = line.strip_prefix('!').map_or((*line, false), |rest| (rest, true));
        if left_out.iter().any(|newer| command.starts_with(newer)) {
            continue;
        }
        // A space within an argument is written as \u{a0}.
        let words: Vec<String> = command.split(' ').map(|word| word.replace('\u{a0}', " ")).collect();
        let output = server.kubectl(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let missing: Vec<_> = wanted.iter().filter(|w| !text.contains(**w)).collect();
        if output.status.success() == fails || !missing.is_empty() {
            failures.push(format!("$ kubectl {command}\n{text}\n  missing: {missing:?}"));
        }
    }
    assert!(failures.is_empty(), "{} of {} commands:\n{}", failures.len(), commands.len(), failures.join("\n"));
}

/// Commands whose flags or output came with kubectl 1.24 to 1.30, and later commands that depend on them.
const SINCE_1_30: &[&str] = &[
    "api-resources --categories",
    "apply -f unknown-field.yaml",
    "describe pod writer",
    "explain pvc.spec",
    "get volumeattachment -o wide",
    "label node node-a team-",
    "patch pv pv-1 --type=json",
    "patch volumeattachment csi-1 --subresource",
    "wait --for=delete pod/writer",
    "wait volumeattachment/csi-1 --for=jsonpath",
];

/// Returns the minor version of the installed kubectl.
fn minor(server: &Server) -> u32 {
    let output = server.kubectl(&["version", "--client", "-o", "json"]);
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}

#[test]
fn a_users_day_with_kubectl() {
    if !available("kubectl") {
        return;
    }
    let server = Server::start();
    let minor = minor(&server);
    if minor < 30 {
        eprintln!("kubectl 1.{minor} is older than 1.30: the list is shorter by {} commands", SINCE_1_30.len());
    }
    server.file("objects.yaml", OBJECTS);
    server.file("changed.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {b: \"2\"}\n");
    server.file("settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {c: \"1\"}\n");
    server.file("other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {c: \"2\"}\n");
    server.file("dry.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dry}\n");
    server.file(
        "made.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: work}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: inside, namespace: work}\n",
    );
    server.file(
        "unknown-field.yaml",
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: odd}\nspec: {storageClas: x, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n",
    );
    tell(&server, COMMANDS, if minor < 30 { SINCE_1_30 } else { &[] });
}

const LIST: &str = r#"{"kind": "List", "apiVersion": "v1", "metadata": {}, "items": [
    {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "one"}, "data": {"a": "1"}},
    {"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "two"}, "provisioner": "p"}]}"#;

/// kubectl validates a `kind: List` with the v2 document in its protobuf form.
#[test]
fn kubectl_applies_lists_and_finds_wrong_fields_in_them() {
    if !available("kubectl") {
        return;
    }
    let server = Server::start();
    server.file("list.json", LIST);
    server.file("wrong-field.json", &LIST.replace("\"data\"", "\"dataa\""));
    server.file("wrong-type.json", &LIST.replace("\"1\"", "[1]"));
    let run = |command: &str| {
        let output = server.kubectl(&command.split(' ').collect::<Vec<_>>());
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.success(), text)
    };
    for (command, wanted) in [
        ("apply -f list.json", "storageclass.storage.k8s.io/two created"),
        ("apply -f list.json", "configmap/one unchanged"),
        ("delete -f list.json", "\"one\" deleted"),
        ("create -f list.json", "configmap/one created"),
    ] {
        let (success, text) = run(command);
        assert!(success && text.contains(wanted), "$ kubectl {command}\n{text}");
    }
    for (command, wanted) in [
        ("apply -f wrong-field.json", "unknown field \"dataa\""),
        ("apply -f wrong-type.json", "invalid type for io.k8s.api.core.v1.ConfigMap.data"),
    ] {
        let (success, text) = run(command);
        assert!(!success && text.contains(wanted), "$ kubectl {command}\n{text}");
    }
}

const ANYTHING: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "bags.example.com"},
    "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "bags", "singular": "bag", "kind": "Bag", "listKind": "BagList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true, "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]}}"#;

const BAGS: &str = r#"{"kind": "List", "apiVersion": "v1", "metadata": {}, "items": [
    {"kind": "Bag", "apiVersion": "example.com/v1", "metadata": {"name": "one"}, "spec": {"size": 1}, "anything": {"at": ["all"]}}]}"#;

/// The v2 document must not list the fields of a kind that allows others: kubectl would refuse those.
#[test]
fn kubectl_applies_lists_of_a_kind_that_may_have_any_field() {
    if !available("kubectl") {
        return;
    }
    let server = Server::start();
    server.file("definition.json", ANYTHING);
    server.file("bags.json", BAGS);
    for (command, wanted) in [
        ("apply -f definition.json", "created"),
        ("wait --for=condition=established crd/bags.example.com", "condition met"),
        ("apply -f bags.json", "bag.example.com/one created"),
        ("get bag one -o jsonpath={.anything.at[0]}", "all"),
    ] {
        let output = server.kubectl(&command.split(' ').collect::<Vec<_>>());
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && text.contains(wanted), "$ kubectl {command}\n{text}");
    }
}
