//! Pods. Rarely set fields keep their JSON names below the first level.

use substrate::json::Value;

use super::{Field, Go, diff, plain as json, shown};
use crate::fields::value::map_mut;

const fn text(json: &'static str, go: &'static str) -> Field {
    (json, go, Go::Text)
}

const fn plain(json: &'static str, go: &'static str) -> Field {
    (json, go, Go::Plain)
}

const VOLUME: &[Field] = &[
    text("name", "Name"),
    plain("hostPath", "HostPath"),
    ("emptyDir", "EmptyDir", Go::Pointer(&[text("medium", "Medium"), plain("sizeLimit", "SizeLimit")])),
    plain("gcePersistentDisk", "GCEPersistentDisk"),
    plain("awsElasticBlockStore", "AWSElasticBlockStore"),
    plain("gitRepo", "GitRepo"),
    plain("secret", "Secret"),
    plain("nfs", "NFS"),
    plain("iscsi", "ISCSI"),
    plain("glusterfs", "Glusterfs"),
    (
        "persistentVolumeClaim",
        "PersistentVolumeClaim",
        Go::Pointer(&[text("claimName", "ClaimName"), ("readOnly", "ReadOnly", Go::Bool)]),
    ),
    plain("rbd", "RBD"),
    plain("quobyte", "Quobyte"),
    plain("flexVolume", "FlexVolume"),
    plain("cinder", "Cinder"),
    plain("cephfs", "CephFS"),
    plain("flocker", "Flocker"),
    plain("downwardAPI", "DownwardAPI"),
    plain("fc", "FC"),
    plain("azureFile", "AzureFile"),
    plain("configMap", "ConfigMap"),
    plain("vsphereVolume", "VsphereVolume"),
    plain("azureDisk", "AzureDisk"),
    plain("photonPersistentDisk", "PhotonPersistentDisk"),
    plain("projected", "Projected"),
    plain("portworxVolume", "PortworxVolume"),
    plain("scaleIO", "ScaleIO"),
    plain("storageos", "StorageOS"),
    plain("csi", "CSI"),
    plain("ephemeral", "Ephemeral"),
    plain("image", "Image"),
];

const PORT: &[Field] = &[
    text("name", "Name"),
    ("hostPort", "HostPort", Go::Number),
    ("containerPort", "ContainerPort", Go::Number),
    text("protocol", "Protocol"),
    text("hostIP", "HostIP"),
];

const MOUNT: &[Field] = &[
    text("name", "Name"),
    ("readOnly", "ReadOnly", Go::Bool),
    plain("recursiveReadOnly", "RecursiveReadOnly"),
    text("mountPath", "MountPath"),
    text("subPath", "SubPath"),
    plain("mountPropagation", "MountPropagation"),
    text("subPathExpr", "SubPathExpr"),
];

const CONTAINER: &[Field] = &[
    text("name", "Name"),
    text("image", "Image"),
    plain("command", "Command"),
    plain("args", "Args"),
    text("workingDir", "WorkingDir"),
    ("ports", "Ports", Go::List(PORT)),
    plain("envFrom", "EnvFrom"),
    ("env", "Env", Go::List(&[text("name", "Name"), text("value", "Value"), plain("valueFrom", "ValueFrom")])),
    (
        "resources",
        "Resources",
        Go::Struct(&[plain("limits", "Limits"), plain("requests", "Requests"), plain("claims", "Claims")]),
    ),
    plain("resizePolicy", "ResizePolicy"),
    plain("restartPolicy", "RestartPolicy"),
    plain("restartPolicyRules", "RestartPolicyRules"),
    ("volumeMounts", "VolumeMounts", Go::List(MOUNT)),
    ("volumeDevices", "VolumeDevices", Go::List(&[text("name", "Name"), text("devicePath", "DevicePath")])),
    plain("livenessProbe", "LivenessProbe"),
    plain("readinessProbe", "ReadinessProbe"),
    plain("startupProbe", "StartupProbe"),
    plain("lifecycle", "Lifecycle"),
    text("terminationMessagePath", "TerminationMessagePath"),
    text("terminationMessagePolicy", "TerminationMessagePolicy"),
    text("imagePullPolicy", "ImagePullPolicy"),
    plain("securityContext", "SecurityContext"),
    ("stdin", "Stdin", Go::Bool),
    ("stdinOnce", "StdinOnce", Go::Bool),
    ("tty", "TTY", Go::Bool),
];

/// Fields of a template's metadata that are printed, in the order of Go's struct.
const METADATA: [&str; 6] = ["name", "generateName", "namespace", "labels", "annotations", "finalizers"];

/// Fields that the API has in the spec, and the internal type in its security context.
const OF_HOST: [&str; 5] = ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

const SECURITY: &[Field] = &[
    ("hostNetwork", "HostNetwork", Go::Bool),
    ("hostPID", "HostPID", Go::Bool),
    ("hostIPC", "HostIPC", Go::Bool),
    plain("shareProcessNamespace", "ShareProcessNamespace"),
    plain("hostUsers", "HostUsers"),
    plain("seLinuxOptions", "SELinuxOptions"),
    plain("windowsOptions", "WindowsOptions"),
    plain("runAsUser", "RunAsUser"),
    plain("runAsGroup", "RunAsGroup"),
    plain("runAsNonRoot", "RunAsNonRoot"),
    plain("supplementalGroups", "SupplementalGroups"),
    plain("supplementalGroupsPolicy", "SupplementalGroupsPolicy"),
    plain("fsGroup", "FSGroup"),
    plain("fsGroupChangePolicy", "FSGroupChangePolicy"),
    plain("sysctls", "Sysctls"),
    plain("seccompProfile", "SeccompProfile"),
    plain("appArmorProfile", "AppArmorProfile"),
    plain("seLinuxChangePolicy", "SELinuxChangePolicy"),
];

const TOLERATION: &[Field] = &[
    text("key", "Key"),
    text("operator", "Operator"),
    text("value", "Value"),
    text("effect", "Effect"),
    plain("tolerationSeconds", "TolerationSeconds"),
];

/// `core.PodSpec`.
const SPEC: &[Field] = &[
    ("volumes", "Volumes", Go::List(VOLUME)),
    ("initContainers", "InitContainers", Go::List(CONTAINER)),
    ("containers", "Containers", Go::List(CONTAINER)),
    plain("ephemeralContainers", "EphemeralContainers"),
    text("restartPolicy", "RestartPolicy"),
    plain("terminationGracePeriodSeconds", "TerminationGracePeriodSeconds"),
    plain("activeDeadlineSeconds", "ActiveDeadlineSeconds"),
    text("dnsPolicy", "DNSPolicy"),
    plain("nodeSelector", "NodeSelector"),
    text("serviceAccountName", "ServiceAccountName"),
    plain("automountServiceAccountToken", "AutomountServiceAccountToken"),
    text("nodeName", "NodeName"),
    ("securityContext", "SecurityContext", Go::Pointer(SECURITY)),
    plain("imagePullSecrets", "ImagePullSecrets"),
    text("hostname", "Hostname"),
    text("subdomain", "Subdomain"),
    plain("setHostnameAsFQDN", "SetHostnameAsFQDN"),
    plain("affinity", "Affinity"),
    text("schedulerName", "SchedulerName"),
    ("tolerations", "Tolerations", Go::List(TOLERATION)),
    plain("hostAliases", "HostAliases"),
    text("priorityClassName", "PriorityClassName"),
    plain("priority", "Priority"),
    plain("preemptionPolicy", "PreemptionPolicy"),
    plain("dnsConfig", "DNSConfig"),
    plain("readinessGates", "ReadinessGates"),
    plain("runtimeClassName", "RuntimeClassName"),
    plain("overhead", "Overhead"),
    plain("enableServiceLinks", "EnableServiceLinks"),
    plain("topologySpreadConstraints", "TopologySpreadConstraints"),
    plain("os", "OS"),
    plain("schedulingGates", "SchedulingGates"),
    plain("resourceClaims", "ResourceClaims"),
    plain("resources", "Resources"),
    plain("hostnameOverride", "HostnameOverride"),
    plain("schedulingGroup", "SchedulingGroup"),
];

/// Returns the diff of two pod specs.
pub(in crate::state) fn pod_diff(old: &Value, new: &Value) -> String {
    diff(&internal(old), &internal(new), SPEC)
}

/// Prints a pod template in one line: its metadata with their JSON names, its spec under its Go name.
pub(in crate::state) fn template_shown(template: &Value) -> String {
    let mut members: Vec<String> = METADATA
        .iter()
        .filter_map(|field| {
            let value = template["metadata"].get(field).filter(|value| !value.is_null())?;
            Some(format!("\"{field}\":{}", json(value)))
        })
        .collect();
    members.push(format!("\"Spec\":{}", shown(&internal(&template["spec"]), SPEC)));
    format!("{{{}}}", members.join(","))
}

fn internal(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(fields) = spec.as_object_mut() else { return spec };
    let moved: Vec<(&str, Value)> =
        OF_HOST.into_iter().filter_map(|field| Some((field, fields.remove(field)?))).collect();
    if let Some(context) = map_mut(&mut spec, "securityContext") {
        for (field, value) in moved {
            context.insert(field, value);
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn a_difference_of_specs_has_the_names_of_go() {
        let old = json!({"containers": [{"name": "c", "image": "i"}], "nodeName": "a", "securityContext": {}});
        let mut new = old.clone();
        new["nodeName"] = "b".into();
        let reported = pod_diff(&old, &new);
        assert!(reported.contains(" \"ServiceAccountName\": \"\",\n"), "{reported}");
        assert!(reported.contains("- \"NodeName\": \"a\",\n+ \"NodeName\": \"b\",\n"), "{reported}");
        new = old.clone();
        new["hostNetwork"] = true.into();
        let reported = pod_diff(&old, &new);
        assert!(reported.contains("-  \"HostNetwork\": false,\n+  \"HostNetwork\": true,\n"), "{reported}");
    }
}
