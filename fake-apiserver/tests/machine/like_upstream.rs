//! New objects as a real 1.36 server answers them: the fields that it adds, and its messages of refusal.

use rstest::rstest;
use substrate::json::json;

use super::*;

fn named(mut object: Value) -> Value {
    object["metadata"]["name"] = json!("x");
    object
}

#[rstest]
#[case("persistentvolumeclaims", json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "dataSourceRef": {"kind": "X", "name": "y"}}}),
    "[spec.dataSource: Invalid value: \"X\": must be 'PersistentVolumeClaim' when referencing the default apiGroup, spec.dataSourceRef: Invalid value: \"X\": must be 'PersistentVolumeClaim' when referencing the default apiGroup]")]
#[case("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d.x", "volumeHandle": "v"}}}),
    "[spec.capacity: Required value, spec.capacity: Unsupported value: {}: supported values: \"storage\"]")]
#[case("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}, "csi": {"driver": "d.x", "volumeHandle": "v"}}}),
    "spec.csi: Forbidden: may not specify more than 1 volume type")]
#[case("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "nodeAffinity": {}, "csi": {"driver": "d.x", "volumeHandle": "v"}}}),
    "spec.nodeAffinity.required: Required value: must specify required node constraints")]
#[case("storageclasses", json!({"provisioner": "a.b/c", "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": []}]}]}),
    "allowedTopologies[0].matchLabelExpressions[0].values: Required value")]
#[case("storageclasses", json!({"provisioner": "a.b/c", "parameters": {"": "x"}}), "parameters: Invalid value: \"\": field can not be empty.")]
#[case("csidrivers", json!({"spec": {"nodeAllocatableUpdatePeriodSeconds": 1}}),
    "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 1: must be greater than or equal to 10 seconds")]
#[case("volumeattributesclasses", json!({"driverName": "d.x"}), "parameters: Required value: must contain at least one key/value pair")]
#[case("csistoragecapacities", json!({"storageClassName": "x", "capacity": "-1"}), "capacity: Invalid value: \"-1\": must be greater than or equal to 0")]
#[case("pods", json!({"spec": {"dnsPolicy": "x", "containers": [{"name": "c", "image": "i"}]}}),
    "spec.dnsPolicy: Unsupported value: \"x\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"")]
#[case("pods", json!({"spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 0}]}]}}),
    "spec.containers[0].ports[0].containerPort: Required value")]
#[case("pods", json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}}),
    "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1")]
#[case("pods", json!({"spec": {"tolerations": [{"operator": "Equal"}], "containers": [{"name": "c", "image": "i"}]}}),
    "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"")]
#[case("pods", json!({"spec": {"containers": [{"name": "c", "image": "i", "livenessProbe": {}}]}}),
    "spec.containers[0].livenessProbe: Required value: must specify a handler type")]
#[case("pods", json!({"spec": {"schedulingGates": [{"name": "a"}, {"name": "a"}], "containers": [{"name": "c", "image": "i"}]}}),
    "spec.schedulingGates[1]: Duplicate value: \"a\"")]
#[case("pods", json!({"spec": {"hostname": "a.b", "containers": [{"name": "c", "image": "i"}], "securityContext": {"sysctls": [{"name": "kernel/shm_max"}, {"name": "foo-"}, {"name": "bar.."}]}}}),
    r#"[spec.securityContext.sysctls[1].name: Invalid value: "foo-": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$, spec.securityContext.sysctls[2].name: Invalid value: "bar..": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$, spec.hostname: Invalid value: "a.b": must not contain dots]"#)]
#[case("resourcequotas", json!({"spec": {"hard": {"hardware": "1", "pods": "1"}, "scopes": ["Terminating", "NotTerminating"]}}),
    r#"[spec.hard[hardware]: Invalid value: "hardware": must be a standard resource type or fully qualified, spec.hard[hardware]: Invalid value: "hardware": must be a standard resource for quota, spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes]"#)]
#[case("resourcequotas", json!({"spec": {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [{"scopeName": "BadScope", "operator": "Exists"}]}}}),
    "spec.scopeSelector.matchExpressions.scopeName: Invalid value: \"BadScope\": unsupported scope")]
#[case("services", json!({"spec": {"ports": [{"port": 80, "protocol": "x"}]}}),
    "spec.ports[0].protocol: Unsupported value: \"x\": supported values: \"SCTP\", \"TCP\", \"UDP\"")]
#[case("services", json!({"spec": {"ports": [{"port": 80, "nodePort": 30000}]}}), "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'")]
#[case("services", json!({"spec": {"type": "NodePort", "clusterIP": "None", "ports": [{"port": 80}]}}),
    "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services")]
#[case("services", json!({"spec": {"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 31000}, {"name": "b", "port": 81, "nodePort": 31000}]}}),
    "spec.ports[1].nodePort: Duplicate value: 31000")]
#[case("services", json!({"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": "10.96.0.9"}}),
    "spec.clusterIPs: Forbidden: may not be set for ExternalName services")]
#[case("services", json!({"spec": {"externalIPs": ["x"], "ports": [{"port": 80}]}}),
    "spec.externalIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
#[case("services", json!({"spec": {"externalIPs": ["127.0.0.1"], "ports": [{"port": 80}]}}),
    "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)")]
#[case("services", json!({"spec": {"ports": [{"port": 80, "targetPort": "a--b"}, {"name": "A", "port": 80, "appProtocol": "a b"}]}}),
    r#"[spec.ports[0].name: Required value, spec.ports[0].targetPort: Invalid value: "a--b": must not contain consecutive hyphens, spec.ports[1].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?'), spec.ports[1].appProtocol: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}]"#)]
#[case("services", json!({"spec": {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}, "ports": [{"port": 80}]}}),
    "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400")]
#[case("services", json!({"spec": {"loadBalancerSourceRanges": ["10.0.0.1/8"], "loadBalancerClass": "a/b", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]}}),
    r#"[spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer', spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length, spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer', spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer']"#)]
#[case("services", json!({"spec": {"internalTrafficPolicy": "x", "trafficDistribution": "y", "ports": [{"port": 80}]}}),
    r#"[spec.internalTrafficPolicy: Unsupported value: "x": supported values: "Cluster", "Local", spec.trafficDistribution: Unsupported value: "y": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"]"#)]
#[case("services", json!({"spec": {"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]}}),
    r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#)]
#[case("services", json!({"spec": {"externalTrafficPolicy": "Local", "ports": [{"port": 80}]}}),
    "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services")]
#[case("pods", json!({"spec": {"containers": [{"name": "c", "image": "i"}], "ephemeralContainers": [{"name": "e", "image": "i"}]}}),
    "spec.ephemeralContainers: Forbidden: cannot be set on create")]
#[case("pods", json!({"spec": {"containers": [{"name": "c", "image": "i"}], "initContainers": [{"name": "c", "image": "i"}]}}),
    "spec.initContainers[0].name: Duplicate value: \"c\"")]
#[case("pods", json!({"spec": {"containers": [{"name": "c", "image": "i"}], "initContainers": [{"name": "i", "image": "i", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}]}}),
    "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always")]
#[case("pods", json!({"spec": {"containers": [{"name": "c", "image": " i"}]}}),
    "spec.containers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace")]
#[case("pods", json!({"spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "a=b"}]}]}}),
    "spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='")]
#[case("pods", json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}], "containers": [{"name": "c", "image": "i"}]}}),
    "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type")]
#[case("pods", json!({"spec": {"volumes": [{"name": "v"}], "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]}]}}),
    "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique")]
#[case("pods", json!({"spec": {"securityContext": {"runAsUser": -1}, "containers": [{"name": "c", "image": "i"}]}}),
    "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive")]
#[case("pods", json!({"spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 81}]}]}}),
    "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true")]
#[case("pods", json!({"spec": {"hostAliases": [{"ip": "x"}], "containers": [{"name": "c", "image": "i"}]}}),
    "spec.hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
#[case("pods", json!({"spec": {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "a"}}], "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/a"}]}]}}),
    "[spec.volumes[0].nfs.path: Invalid value: \"a\": must be an absolute path, spec.containers[0].volumeMounts[0].name: Not found: \"v\"]")]
#[case("pods", json!({"spec": {"volumes": [{"name": "v"}], "containers": [{"name": "c", "image": "i", "volumeDevices": [{"name": "v", "devicePath": "/a"}]}]}}),
    "spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")]
#[case("pods", json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], "containers": [{"name": "c", "image": "i", "volumeDevices": [{"name": "v", "devicePath": "/../a"}], "volumeMounts": [{"name": "v", "mountPath": "/b", "subPath": "../c"}]}]}}),
    "[spec.containers[0].volumeMounts[0].name: Invalid value: \"v\": must not already exist in volumeDevices, spec.containers[0].volumeMounts.subPath: Invalid value: \"../c\": must not contain '..', spec.containers[0].volumeDevices[0].devicePath: Invalid value: \"/../a\": can not contain backsteps ('..'), spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": must not already exist in volumeMounts]")]
#[case("pods", json!({"spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": ""}]}]}}),
    "[spec.containers[0].volumeMounts[0].name: Not found: \"v\", spec.containers[0].volumeMounts[0].mountPath: Required value]")]
#[case("pods", json!({"spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]}]}}),
    "spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\"")]
#[case("pods", json!({"spec": {"dnsPolicy": "None", "containers": [{"name": "c", "image": "i"}]}}),
    "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None")]
#[case("pods", json!({"spec": {"hostUsers": false, "hostPID": true, "containers": [{"name": "c", "image": "i"}]}}),
    "spec.HostPID: Forbidden: when `hostUsers` is false")]
#[case("pods", json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "+1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"+1\": must be a 32bit integer")]
#[case("pods", json!({"spec": {"nodeName": "n", "schedulingGates": [{"name": "a"}], "containers": [{"name": "c", "image": "i"}]}}),
    "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared")]
#[case("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {"path": "/a"}}}),
    "spec.nodeAffinity: Required value: Local volume requires node affinity")]
#[case("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "-1"}, "csi": {"driver": "d", "volumeHandle": "h"}}}),
    "[spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity, spec.capacity[storage]: Invalid value: \"-1\": must be greater than zero]")]
#[case("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a/.."}, "persistentVolumeReclaimPolicy": "Recycle"}}),
    "[spec.hostPath.path: Invalid value: \"/a/..\": must not contain '..', spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/']")]
#[case("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}, "volumeAttributesClassName": ""}}),
    "[spec.volumeAttributesClassName: Required value: an empty string is disallowed, spec.csi: Required value: has to be specified when using volumeAttributesClassName]")]
#[case("persistentvolumes", json!({"spec": {"accessModes": ["ReadWriteOncePod", "Other"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}}}),
    "spec.accessModes: Unsupported value: \"Other\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"")]
#[case("persistentvolumeclaims", json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}, "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "b"}}}),
    "spec: Invalid value: {}: must match dataSourceRef")]
#[case("storageclasses", json!({"provisioner": "d", "reclaimPolicy": "Recycle", "volumeBindingMode": "Late", "parameters": {"": ""}}),
    "[parameters: Invalid value: \"\": field can not be empty., reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\", volumeBindingMode: Unsupported value: \"Late\": supported values: \"Immediate\", \"WaitForFirstConsumer\"]")]
#[case("storageclasses", json!({"provisioner": "d", "allowedTopologies": [{"matchLabelExpressions": [{"key": "k", "values": ["a", "b", "a"]}, {"key": "k", "values": ["a"]}]}]}),
    "[allowedTopologies[0].matchLabelExpressions[0].values[2]: Duplicate value: \"a\", allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: \"k\"]")]
#[case("storageclasses", json!({"provisioner": "d", "allowedTopologies": [{"matchLabelExpressions": [{"key": "k", "values": ["a", "b"]}]}, {"matchLabelExpressions": [{"key": "k", "values": ["b", "a"]}]}]}),
    "allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\"")]
#[case("csinodes", json!({"spec": {"drivers": [{"name": "", "nodeID": ""}, {"name": "d", "nodeID": "i", "topologyKeys": ["k", "k"]}, {"name": "d", "nodeID": "i"}]}}),
    "[spec.drivers[0].name: Required value, spec.drivers[0].nodeID: Required value, spec.drivers[1]: Duplicate value: \"k\", spec.drivers[2].name: Duplicate value: \"d\"]")]
#[case("csidrivers", json!({"spec": {"fsGroupPolicy": "x", "volumeLifecycleModes": ["y"], "serviceAccountTokenInSecrets": true}}),
    "[spec.fsGroupPolicy: Unsupported value: \"x\": supported values: \"File\", \"None\", \"ReadWriteOnceWithFSType\", spec.volumeLifecycleModes: Unsupported value: \"y\": supported values: \"Persistent\", \"Ephemeral\", spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified]")]
#[case("csidrivers", json!({"spec": {"tokenRequests": [{"audience": "a", "expirationSeconds": 599}, {"audience": "b", "expirationSeconds": 4_294_967_297_i64}, {"audience": "a", "expirationSeconds": 1}]}}),
    "[spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes, spec.tokenRequests[1].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds, spec.tokenRequests[2].audience: Duplicate value: \"a\"]")]
#[case("volumeattachments", json!({"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": ""}}}),
    r#"[spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName, spec.source.persistentVolumeName: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')]"#)]
#[case("volumeattachments", json!({"spec": {"attacher": "d", "nodeName": "n", "source": {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}}}}}),
    "[spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes, spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes]")]
#[case("volumeattributesclasses", json!({"driverName": ""}),
    "[driverName: Required value, parameters: Required value: must contain at least one key/value pair]")]
#[case("secrets", json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eA=="}}),
    "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid character 'x' looking for beginning of value")]
#[case("secrets", json!({"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}}), "data[ssh-privatekey]: Required value")]
#[case("rolebindings", json!({"roleRef": {"apiGroup": "x", "kind": "Role", "name": "a/b"}, "subjects": [{"kind": "ServiceAccount", "apiGroup": "y", "name": "s"}]}),
    "[roleRef.apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\", roleRef.name: Invalid value: \"a/b\": may not contain '/', subjects[0].apiGroup: Unsupported value: \"y\": supported values: \"\"]")]
#[case("clusterroles", json!({"rules": [], "aggregationRule": {}}),
    "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil")]
#[case("deployments", json!({"spec": {"replicas": -1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "c"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}}),
    r#"[spec.replicas: Invalid value: -1: must be greater than or equal to 0, spec.template.metadata.labels: Invalid value: {"a":"c"}: `selector` does not match template `labels`, spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"]"#)]
#[case("deployments", json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
    "[spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`, spec.template.spec.containers: Required value]")]
#[case("deployments", json!({"spec": {"selector": {}, "strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
    "[spec.selector: Invalid value: {}: empty selector is invalid for deployment, spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate']")]
#[case("deployments", json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "progressDeadlineSeconds": 5, "minReadySeconds": 5, "strategy": {"rollingUpdate": {"maxSurge": "x", "maxUnavailable": "101%"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
    r#"[spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%'), spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%, spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds]"#)]
#[case("statefulsets", json!({"spec": {"podManagementPolicy": "x", "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "y"}, "serviceName": "a.b", "selector": {"matchLabels": {"a": "b"}}, "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}], "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}}}),
    r#"[spec.podManagementPolicy: Invalid value: "x": must be 'OrderedReady' or 'Parallel', spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "y": supported values: "Retain", "Delete", spec.volumeClaimTemplates[0].spec.resources[storage]: Required value, spec.serviceName: Invalid value: "a.b": must not contain dots]"#)]
#[case("daemonsets", json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
    r#"[spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`, spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero]"#)]
#[case("jobs", json!({"spec": {"parallelism": -1, "completionMode": "Indexed", "maxFailedIndexes": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
    r#"[spec.parallelism: Invalid value: -1: must be greater than or equal to 0, spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified, spec.completions: Required value: when completion mode is Indexed, spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"]"#)]
#[case("jobs", json!({"spec": {"podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "containerName": "x", "values": [0, 2, 2, 1]}}, {"action": "Other"}]}, "template": {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "i"}]}}}}),
    r#"[spec.podFailurePolicy.rules[0].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set, spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: "x": must be one of the container or initContainer names in the pod template, spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator, spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 2, spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [0,2,2,1]: must be ordered, spec.podFailurePolicy.rules[1].action: Unsupported value: "Other": supported values: "Count", "FailIndex", "FailJob", "Ignore", spec.podFailurePolicy.rules[1]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required, spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified]"#)]
#[case("cronjobs", json!({"spec": {"schedule": "TZ=UTC 60 * * * *", "timeZone": "a b", "concurrencyPolicy": "x", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}),
    r#"[spec.schedule: Invalid value: "TZ=UTC 60 * * * *": end of range (60) above maximum (59): 60, spec.schedule: Invalid value: "TZ=UTC 60 * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead, spec.timeZone: Invalid value: "a b": unknown time zone a b, spec.concurrencyPolicy: Unsupported value: "x": supported values: "Allow", "Forbid", "Replace"]"#)]
#[case("cronjobs", json!({"spec": {"schedule": "* * * * *", "timeZone": "local", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}),
    r#"[spec.timeZone: Invalid value: "local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones, spec.timeZone: Invalid value: "local": unknown time zone local]"#)]
#[case("poddisruptionbudgets", json!({"spec": {"minAvailable": "101%", "maxUnavailable": -1, "selector": {"matchLabels": {"a": "b"}}}}),
    r#"[spec: Invalid value: {"MinAvailable":"101%","Selector":{"matchLabels":{"a":"b"}},"MaxUnavailable":-1,"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set, spec.minAvailable: Invalid value: "101%": must not be greater than 100%, spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0]"#)]
#[case("replicationcontrollers", json!({"spec": {}}), "[spec.selector: Required value, spec.template: Required value]")]
#[case("resourcequotas", json!({"spec": {"hard": {"bad": "1"}}}),
    "[spec.hard[bad]: Invalid value: \"bad\": must be a standard resource type or fully qualified, spec.hard[bad]: Invalid value: \"bad\": must be a standard resource for quota]")]
#[case("resourcequotas", json!({"spec": {"scopes": ["Bad"]}}), "spec.scopes: Invalid value: [\"Bad\"]: unsupported scope")]
#[case("limitranges", json!({"spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}}),
    r#"[spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1, spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1, spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1]"#)]
#[case("limitranges", json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "3"}, "max": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}]}}),
    r#"spec.limits[0].default[cpu]: Invalid value: "2": default value 3 is greater than max value 2"#)]
#[case("limitranges", json!({"spec": {"limits": [{"type": "Pod", "default": {"cpu": "1"}}]}}),
    "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'")]
#[case("limitranges", json!({"spec": {"limits": [{"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}]}}),
    r#"spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000"#)]
#[case("limitranges", json!({"spec": {"limits": [{"type": "Container", "maxLimitRequestRatio": {"memory": "800m"}}]}}),
    r#"spec.limits[0].maxLimitRequestRatio[memory]: Invalid value: "800m": ratio 800m is less than 1"#)]
#[case("limitranges", json!({"spec": {"limits": [{"type": "PersistentVolumeClaim"}, {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}}),
    r#"[spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided, spec.limits[1].type: Duplicate value: "PersistentVolumeClaim"]"#)]
#[case("limitranges", json!({"spec": {"limits": [{"type": "Thing"}]}}),
    r#"spec.limits[0].type: Invalid value: "Thing": must be a standard limit type or fully qualified"#)]
#[case("limitranges", json!({"spec": {"limits": [{"type": "Container", "default": {"a.b/gpu": "2"}, "defaultRequest": {"a.b/gpu": "1"}}]}}),
    r#"spec.limits[0].defaultRequest[a.b/gpu]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in a.b/gpu"#)]
#[case("networkpolicies", json!({"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 99999, "protocol": "TCP"}]}]}}),
    "spec.ingress[0].ports[0].port: Invalid value: 99999: must be between 1 and 65535, inclusive")]
#[case("networkpolicies", json!({"spec": {"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": "x"}}]}]}}),
    "spec.egress[0].to[0].ipBlock.cidr: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]
#[case("networkpolicies", json!({"spec": {"podSelector": {}, "ingress": [{"from": [{}]}]}}), "spec.ingress[0].from[0]: Required value: must specify a peer")]
#[case("networkpolicies", json!({"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": "http", "endPort": 90}, {"endPort": 90}, {"port": 91, "endPort": 90}]}]}}),
    r#"[spec.ingress[0].ports[0].endPort: Invalid value: 90: may not be specified when `port` is non-numeric, spec.ingress[0].ports[1].endPort: Invalid value: 90: may not be specified when `port` is not specified, spec.ingress[0].ports[2].endPort: Invalid value: 91: must be greater than or equal to `port`]"#)]
#[case("networkpolicies", json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.0.0.0/8", "11.0.0.0/16"]}}]}]}}),
    r#"[spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`, spec.ingress[0].from[0].ipBlock.except[2]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`]"#)]
#[case("ingresses", json!({"spec": {"rules": [{"host": "10.0.0.1", "http": {"paths": [{"path": "a//b", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {}}}}]}}]}}),
    r#"[spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address, spec.rules[0].http.paths[0].path: Invalid value: "a//b": must be an absolute path, spec.rules[0].http.paths[0].path: Invalid value: "a//b": must not contain '//', spec.rules[0].http.paths[0].backend: Required value: port name or number is required]"#)]
#[case("ingresses", json!({"spec": {"defaultBackend": {}}}), r#"spec.defaultBackend: Invalid value: "": resource or service backend is required"#)]
#[case("ingressclasses", json!({"spec": {"controller": "x", "parameters": {"kind": "K", "name": "n", "scope": "Namespace"}}}),
    r#"[spec.controller: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo"), spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace']"#)]
#[case("nodes", json!({"spec": {"podCIDRs": ["10.0.0.1/8", "10.1.0.0/16"], "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "b", "effect": "NoSchedule"}]}}),
    r#"[metadata.taints[1]: Duplicate value: {"Key":"a","Value":"b","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair, spec.podCIDRs[0]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length, spec.podCIDRs: Invalid value: ["10.0.0.1/8","10.1.0.0/16"]: may specify no more than one CIDR for each IP family]"#)]
#[case("endpoints", json!({"subsets": [{"ports": [{"port": 80}, {"port": 0}]}, {"addresses": [{"ip": "127.0.0.1"}]}]}),
    r#"[subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`, subsets[0].ports[0].name: Required value, subsets[0].ports[1].name: Required value, subsets[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive, subsets[1].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)]"#)]
#[case("endpointslices", json!({"addressType": "IPv4", "ports": [{"name": "a", "port": 80}, {"name": "a", "port": 81}], "endpoints": [{"addresses": ["fd00::1"]}, {"addresses": []}]}),
    r#"[ports[1].name: Duplicate value: "a", endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address, endpoints[1].addresses: Required value: must contain at least 1 address]"#)]
#[case("endpointslices", json!({"addressType": "ip", "endpoints": []}), r#"addressType: Unsupported value: "ip": supported values: "FQDN", "IPv4", "IPv6""#)]
#[case("runtimeclasses", json!({}), "handler: Required value")]
#[case("secrets", json!({"type": "kubernetes.io/tls"}), "[data[tls.crt]: Required value, data[tls.key]: Required value]")]
#[case("configmaps", json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}}), "data[a]: Invalid value: \"a\": duplicate of key present in binaryData")]
#[case("nodes", json!({"spec": {"taints": [{"key": "a", "effect": "x"}]}}),
    "metadata.taints[0].effect: Unsupported value: \"x\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"")]
#[case("roles", json!({"rules": [{"apiGroups": [""], "resources": ["pods"]}]}), "rules[0].verbs: Required value: verbs must contain at least one value")]
#[case("rolebindings", json!({"roleRef": {"kind": "x", "name": "r"}}), "roleRef.kind: Unsupported value: \"x\": supported values: \"Role\", \"ClusterRole\"")]
#[case("priorityclasses", json!({"value": 2_000_000_000}), "value: Forbidden: maximum allowed value of a user defined priority is 1000000000")]
fn an_invalid_object_has_the_error_of_a_real_server(#[case] plural: &str, #[case] object: Value, #[case] words: &str) {
    let status = Machine::new().create(plural, named(object)).unwrap_err();
    assert_eq!(status.code, 422, "{}", status.message);
    assert_eq!(status.message.split_once(" is invalid: ").unwrap().1, words);
}

#[test]
fn defaults_match_a_real_server() {
    let mut m = Machine::new();
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let set = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let made = m.create("daemonsets", named(set)).unwrap();
    let generation = |set: &Value| set["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone();
    assert_eq!(generation(&made), "1");
    let labelled = m.patch("daemonsets", "x", Part::Main, json!({"metadata": {"labels": {"k": "v"}}})).unwrap();
    assert_eq!(generation(&labelled), "1");
    let grace = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}});
    assert_eq!(generation(&m.patch("daemonsets", "x", Part::Main, grace).unwrap()), "2");
    let mut work = template;
    work["spec"]["restartPolicy"] = json!("Never");
    let job = m.create("jobs", named(json!({"spec": {"template": work}}))).unwrap();
    assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
    assert_eq!((&job["metadata"]["labels"]["job-name"], &job["spec"]["manualSelector"]), (&json!("x"), &json!(false)));
    let volume = json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"},
        "claimRef": {"namespace": "default", "name": "c"}}});
    let volume = m.create("persistentvolumes", named(volume)).unwrap();
    assert_eq!(volume["spec"]["claimRef"], json!({"namespace": "default", "name": "c"}));
    assert_eq!(volume["spec"]["hostPath"]["type"], "");
    let node = m.create("nodes", named(json!({"spec": {"podCIDR": "10.0.0.0/24"}}))).unwrap();
    assert_eq!(node["spec"]["podCIDRs"], json!(["10.0.0.0/24"]));
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "");
    let slice = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}]});
    assert_eq!(m.create("endpointslices", named(slice)).unwrap()["endpoints"][0]["conditions"], json!({}));
}

#[test]
fn ephemeral_containers_are_checked_and_stay() {
    let mut m = Machine::new();
    m.create("pods", pod("x")).unwrap();
    let mut add = |container: Value| {
        m.patch("pods", "x", Part::EphemeralContainers, json!({"spec": {"ephemeralContainers": [container]}}))
    };
    let words = |answer: Answer| answer.unwrap_err().message.split_once(" is invalid: ").unwrap().1.to_owned();
    for (container, why) in [
        (json!({"name": "c", "image": "i"}), "spec.ephemeralContainers[0].name: Duplicate value: \"c\""),
        (json!({"name": "d"}), "spec.ephemeralContainers[0].image: Required value"),
        (
            json!({"name": "d", "image": "i", "targetContainerName": "z"}),
            "spec.ephemeralContainers[0].targetContainerName: Not found: \"z\"",
        ),
        (
            json!({"name": "d", "image": "i", "ports": [{"containerPort": 80}]}),
            "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
        ),
    ] {
        assert_eq!(words(add(container)), why);
    }
    let named = words(add(json!({"name": "BAD_name", "image": "i"})));
    assert!(named.starts_with("spec.ephemeralContainers[0].name: Invalid value: \"BAD_name\": "), "{named}");
    add(json!({"name": "d", "image": "i", "targetContainerName": "c"})).unwrap();
    assert_eq!(
        words(add(json!({"name": "e", "image": "i"}))),
        "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed\n"
    );
}
