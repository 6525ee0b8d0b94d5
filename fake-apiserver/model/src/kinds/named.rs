//! Kinds by name. A kind that is stored as another kind has no name here.
//!
//! Written by `cargo run -p xtask -- kinds`.

use super::{Kind, table::KINDS};

/// Positions of kinds in the table of all kinds.
pub mod index {
    /// Position of ConfigMap.
    pub const CONFIG_MAPS: usize = 0;
    /// Position of Endpoints.
    pub const ENDPOINTS: usize = 1;
    /// Position of Event.
    pub const EVENTS: usize = 2;
    /// Position of LimitRange.
    pub const LIMIT_RANGES: usize = 3;
    /// Position of Namespace.
    pub const NAMESPACES: usize = 4;
    /// Position of Node.
    pub const NODES: usize = 5;
    /// Position of PersistentVolumeClaim.
    pub const PERSISTENT_VOLUME_CLAIMS: usize = 6;
    /// Position of PersistentVolume.
    pub const PERSISTENT_VOLUMES: usize = 7;
    /// Position of Pod.
    pub const PODS: usize = 8;
    /// Position of PodTemplate.
    pub const POD_TEMPLATES: usize = 9;
    /// Position of ReplicationController.
    pub const REPLICATION_CONTROLLERS: usize = 10;
    /// Position of ResourceQuota.
    pub const RESOURCE_QUOTAS: usize = 11;
    /// Position of Secret.
    pub const SECRETS: usize = 12;
    /// Position of ServiceAccount.
    pub const SERVICE_ACCOUNTS: usize = 13;
    /// Position of Service.
    pub const SERVICES: usize = 14;
    /// Position of APIService.
    pub const API_SERVICES: usize = 15;
    /// Position of ControllerRevision.
    pub const CONTROLLER_REVISIONS: usize = 16;
    /// Position of DaemonSet.
    pub const DAEMON_SETS: usize = 17;
    /// Position of Deployment.
    pub const DEPLOYMENTS: usize = 18;
    /// Position of ReplicaSet.
    pub const REPLICA_SETS: usize = 19;
    /// Position of StatefulSet.
    pub const STATEFUL_SETS: usize = 20;
    /// Position of HorizontalPodAutoscaler.
    pub const HORIZONTAL_POD_AUTOSCALERS: usize = 22;
    /// Position of CronJob.
    pub const CRON_JOBS: usize = 24;
    /// Position of Job.
    pub const JOBS: usize = 25;
    /// Position of CertificateSigningRequest.
    pub const CERTIFICATE_SIGNING_REQUESTS: usize = 26;
    /// Position of IngressClass.
    pub const INGRESS_CLASSES: usize = 27;
    /// Position of Ingress.
    pub const INGRESSES: usize = 28;
    /// Position of IPAddress.
    pub const IP_ADDRESSES: usize = 29;
    /// Position of NetworkPolicy.
    pub const NETWORK_POLICIES: usize = 30;
    /// Position of ServiceCIDR.
    pub const SERVICE_CIDRS: usize = 31;
    /// Position of PodDisruptionBudget.
    pub const POD_DISRUPTION_BUDGETS: usize = 32;
    /// Position of ClusterRoleBinding.
    pub const CLUSTER_ROLE_BINDINGS: usize = 33;
    /// Position of ClusterRole.
    pub const CLUSTER_ROLES: usize = 34;
    /// Position of RoleBinding.
    pub const ROLE_BINDINGS: usize = 35;
    /// Position of Role.
    pub const ROLES: usize = 36;
    /// Position of CSIDriver.
    pub const CSI_DRIVERS: usize = 37;
    /// Position of CSINode.
    pub const CSI_NODES: usize = 38;
    /// Position of CSIStorageCapacity.
    pub const CSI_STORAGE_CAPACITIES: usize = 39;
    /// Position of StorageClass.
    pub const STORAGE_CLASSES: usize = 40;
    /// Position of VolumeAttachment.
    pub const VOLUME_ATTACHMENTS: usize = 41;
    /// Position of VolumeAttributesClass.
    pub const VOLUME_ATTRIBUTES_CLASSES: usize = 42;
    /// Position of MutatingAdmissionPolicy.
    pub const MUTATING_ADMISSION_POLICIES: usize = 43;
    /// Position of MutatingAdmissionPolicyBinding.
    pub const MUTATING_ADMISSION_POLICY_BINDINGS: usize = 44;
    /// Position of MutatingWebhookConfiguration.
    pub const MUTATING_WEBHOOK_CONFIGURATIONS: usize = 45;
    /// Position of ValidatingAdmissionPolicy.
    pub const VALIDATING_ADMISSION_POLICIES: usize = 46;
    /// Position of ValidatingAdmissionPolicyBinding.
    pub const VALIDATING_ADMISSION_POLICY_BINDINGS: usize = 47;
    /// Position of ValidatingWebhookConfiguration.
    pub const VALIDATING_WEBHOOK_CONFIGURATIONS: usize = 48;
    /// Position of CustomResourceDefinition.
    pub const CUSTOM_RESOURCE_DEFINITIONS: usize = 49;
    /// Position of PriorityClass.
    pub const PRIORITY_CLASSES: usize = 50;
    /// Position of Lease.
    pub const LEASES: usize = 51;
    /// Position of RuntimeClass.
    pub const RUNTIME_CLASSES: usize = 52;
    /// Position of EndpointSlice.
    pub const ENDPOINT_SLICES: usize = 53;
    /// Position of DeviceClass.
    pub const DEVICE_CLASSES: usize = 54;
    /// Position of ResourceClaim.
    pub const RESOURCE_CLAIMS: usize = 55;
    /// Position of ResourceClaimTemplate.
    pub const RESOURCE_CLAIM_TEMPLATES: usize = 56;
    /// Position of ResourceSlice.
    pub const RESOURCE_SLICES: usize = 57;
    /// Position of FlowSchema.
    pub const FLOW_SCHEMAS: usize = 58;
    /// Position of PriorityLevelConfiguration.
    pub const PRIORITY_LEVEL_CONFIGURATIONS: usize = 59;
    /// Position of Binding.
    pub const BINDINGS: usize = 60;
    /// Position of ComponentStatus.
    pub const COMPONENT_STATUSES: usize = 61;
    /// Position of SelfSubjectReview.
    pub const SELF_SUBJECT_REVIEWS: usize = 62;
    /// Position of TokenReview.
    pub const TOKEN_REVIEWS: usize = 63;
    /// Position of LocalSubjectAccessReview.
    pub const LOCAL_SUBJECT_ACCESS_REVIEWS: usize = 64;
    /// Position of SelfSubjectAccessReview.
    pub const SELF_SUBJECT_ACCESS_REVIEWS: usize = 65;
    /// Position of SelfSubjectRulesReview.
    pub const SELF_SUBJECT_RULES_REVIEWS: usize = 66;
    /// Position of SubjectAccessReview.
    pub const SUBJECT_ACCESS_REVIEWS: usize = 67;
}

/// `configmaps` of v1.
pub static CONFIG_MAPS: &Kind = &KINDS[index::CONFIG_MAPS];

/// `endpoints` of v1.
pub static ENDPOINTS: &Kind = &KINDS[index::ENDPOINTS];

/// `events` of v1.
pub static EVENTS: &Kind = &KINDS[index::EVENTS];

/// `limitranges` of v1.
pub static LIMIT_RANGES: &Kind = &KINDS[index::LIMIT_RANGES];

/// `namespaces` of v1.
pub static NAMESPACES: &Kind = &KINDS[index::NAMESPACES];

/// `nodes` of v1.
pub static NODES: &Kind = &KINDS[index::NODES];

/// `persistentvolumeclaims` of v1.
pub static PERSISTENT_VOLUME_CLAIMS: &Kind = &KINDS[index::PERSISTENT_VOLUME_CLAIMS];

/// `persistentvolumes` of v1.
pub static PERSISTENT_VOLUMES: &Kind = &KINDS[index::PERSISTENT_VOLUMES];

/// `pods` of v1.
pub static PODS: &Kind = &KINDS[index::PODS];

/// `podtemplates` of v1.
pub static POD_TEMPLATES: &Kind = &KINDS[index::POD_TEMPLATES];

/// `replicationcontrollers` of v1.
pub static REPLICATION_CONTROLLERS: &Kind = &KINDS[index::REPLICATION_CONTROLLERS];

/// `resourcequotas` of v1.
pub static RESOURCE_QUOTAS: &Kind = &KINDS[index::RESOURCE_QUOTAS];

/// `secrets` of v1.
pub static SECRETS: &Kind = &KINDS[index::SECRETS];

/// `serviceaccounts` of v1.
pub static SERVICE_ACCOUNTS: &Kind = &KINDS[index::SERVICE_ACCOUNTS];

/// `services` of v1.
pub static SERVICES: &Kind = &KINDS[index::SERVICES];

/// `apiservices` of apiregistration.k8s.io/v1.
pub static API_SERVICES: &Kind = &KINDS[index::API_SERVICES];

/// `controllerrevisions` of apps/v1.
pub static CONTROLLER_REVISIONS: &Kind = &KINDS[index::CONTROLLER_REVISIONS];

/// `daemonsets` of apps/v1.
pub static DAEMON_SETS: &Kind = &KINDS[index::DAEMON_SETS];

/// `deployments` of apps/v1.
pub static DEPLOYMENTS: &Kind = &KINDS[index::DEPLOYMENTS];

/// `replicasets` of apps/v1.
pub static REPLICA_SETS: &Kind = &KINDS[index::REPLICA_SETS];

/// `statefulsets` of apps/v1.
pub static STATEFUL_SETS: &Kind = &KINDS[index::STATEFUL_SETS];

/// `horizontalpodautoscalers` of autoscaling/v2.
pub static HORIZONTAL_POD_AUTOSCALERS: &Kind = &KINDS[index::HORIZONTAL_POD_AUTOSCALERS];

/// `cronjobs` of batch/v1.
pub static CRON_JOBS: &Kind = &KINDS[index::CRON_JOBS];

/// `jobs` of batch/v1.
pub static JOBS: &Kind = &KINDS[index::JOBS];

/// `certificatesigningrequests` of certificates.k8s.io/v1.
pub static CERTIFICATE_SIGNING_REQUESTS: &Kind = &KINDS[index::CERTIFICATE_SIGNING_REQUESTS];

/// `ingressclasses` of networking.k8s.io/v1.
pub static INGRESS_CLASSES: &Kind = &KINDS[index::INGRESS_CLASSES];

/// `ingresses` of networking.k8s.io/v1.
pub static INGRESSES: &Kind = &KINDS[index::INGRESSES];

/// `ipaddresses` of networking.k8s.io/v1.
pub static IP_ADDRESSES: &Kind = &KINDS[index::IP_ADDRESSES];

/// `networkpolicies` of networking.k8s.io/v1.
pub static NETWORK_POLICIES: &Kind = &KINDS[index::NETWORK_POLICIES];

/// `servicecidrs` of networking.k8s.io/v1.
pub static SERVICE_CIDRS: &Kind = &KINDS[index::SERVICE_CIDRS];

/// `poddisruptionbudgets` of policy/v1.
pub static POD_DISRUPTION_BUDGETS: &Kind = &KINDS[index::POD_DISRUPTION_BUDGETS];

/// `clusterrolebindings` of rbac.authorization.k8s.io/v1.
pub static CLUSTER_ROLE_BINDINGS: &Kind = &KINDS[index::CLUSTER_ROLE_BINDINGS];

/// `clusterroles` of rbac.authorization.k8s.io/v1.
pub static CLUSTER_ROLES: &Kind = &KINDS[index::CLUSTER_ROLES];

/// `rolebindings` of rbac.authorization.k8s.io/v1.
pub static ROLE_BINDINGS: &Kind = &KINDS[index::ROLE_BINDINGS];

/// `roles` of rbac.authorization.k8s.io/v1.
pub static ROLES: &Kind = &KINDS[index::ROLES];

/// `csidrivers` of storage.k8s.io/v1.
pub static CSI_DRIVERS: &Kind = &KINDS[index::CSI_DRIVERS];

/// `csinodes` of storage.k8s.io/v1.
pub static CSI_NODES: &Kind = &KINDS[index::CSI_NODES];

/// `csistoragecapacities` of storage.k8s.io/v1.
pub static CSI_STORAGE_CAPACITIES: &Kind = &KINDS[index::CSI_STORAGE_CAPACITIES];

/// `storageclasses` of storage.k8s.io/v1.
pub static STORAGE_CLASSES: &Kind = &KINDS[index::STORAGE_CLASSES];

/// `volumeattachments` of storage.k8s.io/v1.
pub static VOLUME_ATTACHMENTS: &Kind = &KINDS[index::VOLUME_ATTACHMENTS];

/// `volumeattributesclasses` of storage.k8s.io/v1.
pub static VOLUME_ATTRIBUTES_CLASSES: &Kind = &KINDS[index::VOLUME_ATTRIBUTES_CLASSES];

/// `mutatingadmissionpolicies` of admissionregistration.k8s.io/v1.
pub static MUTATING_ADMISSION_POLICIES: &Kind = &KINDS[index::MUTATING_ADMISSION_POLICIES];

/// `mutatingadmissionpolicybindings` of admissionregistration.k8s.io/v1.
pub static MUTATING_ADMISSION_POLICY_BINDINGS: &Kind = &KINDS[index::MUTATING_ADMISSION_POLICY_BINDINGS];

/// `mutatingwebhookconfigurations` of admissionregistration.k8s.io/v1.
pub static MUTATING_WEBHOOK_CONFIGURATIONS: &Kind = &KINDS[index::MUTATING_WEBHOOK_CONFIGURATIONS];

/// `validatingadmissionpolicies` of admissionregistration.k8s.io/v1.
pub static VALIDATING_ADMISSION_POLICIES: &Kind = &KINDS[index::VALIDATING_ADMISSION_POLICIES];

/// `validatingadmissionpolicybindings` of admissionregistration.k8s.io/v1.
pub static VALIDATING_ADMISSION_POLICY_BINDINGS: &Kind = &KINDS[index::VALIDATING_ADMISSION_POLICY_BINDINGS];

/// `validatingwebhookconfigurations` of admissionregistration.k8s.io/v1.
pub static VALIDATING_WEBHOOK_CONFIGURATIONS: &Kind = &KINDS[index::VALIDATING_WEBHOOK_CONFIGURATIONS];

/// `customresourcedefinitions` of apiextensions.k8s.io/v1.
pub static CUSTOM_RESOURCE_DEFINITIONS: &Kind = &KINDS[index::CUSTOM_RESOURCE_DEFINITIONS];

/// `priorityclasses` of scheduling.k8s.io/v1.
pub static PRIORITY_CLASSES: &Kind = &KINDS[index::PRIORITY_CLASSES];

/// `leases` of coordination.k8s.io/v1.
pub static LEASES: &Kind = &KINDS[index::LEASES];

/// `runtimeclasses` of node.k8s.io/v1.
pub static RUNTIME_CLASSES: &Kind = &KINDS[index::RUNTIME_CLASSES];

/// `endpointslices` of discovery.k8s.io/v1.
pub static ENDPOINT_SLICES: &Kind = &KINDS[index::ENDPOINT_SLICES];

/// `deviceclasses` of resource.k8s.io/v1.
pub static DEVICE_CLASSES: &Kind = &KINDS[index::DEVICE_CLASSES];

/// `resourceclaims` of resource.k8s.io/v1.
pub static RESOURCE_CLAIMS: &Kind = &KINDS[index::RESOURCE_CLAIMS];

/// `resourceclaimtemplates` of resource.k8s.io/v1.
pub static RESOURCE_CLAIM_TEMPLATES: &Kind = &KINDS[index::RESOURCE_CLAIM_TEMPLATES];

/// `resourceslices` of resource.k8s.io/v1.
pub static RESOURCE_SLICES: &Kind = &KINDS[index::RESOURCE_SLICES];

/// `flowschemas` of flowcontrol.apiserver.k8s.io/v1.
pub static FLOW_SCHEMAS: &Kind = &KINDS[index::FLOW_SCHEMAS];

/// `prioritylevelconfigurations` of flowcontrol.apiserver.k8s.io/v1.
pub static PRIORITY_LEVEL_CONFIGURATIONS: &Kind = &KINDS[index::PRIORITY_LEVEL_CONFIGURATIONS];

/// `bindings` of v1.
pub static BINDINGS: &Kind = &KINDS[index::BINDINGS];

/// `componentstatuses` of v1.
pub static COMPONENT_STATUSES: &Kind = &KINDS[index::COMPONENT_STATUSES];

/// `selfsubjectreviews` of authentication.k8s.io/v1.
pub static SELF_SUBJECT_REVIEWS: &Kind = &KINDS[index::SELF_SUBJECT_REVIEWS];

/// `tokenreviews` of authentication.k8s.io/v1.
pub static TOKEN_REVIEWS: &Kind = &KINDS[index::TOKEN_REVIEWS];

/// `localsubjectaccessreviews` of authorization.k8s.io/v1.
pub static LOCAL_SUBJECT_ACCESS_REVIEWS: &Kind = &KINDS[index::LOCAL_SUBJECT_ACCESS_REVIEWS];

/// `selfsubjectaccessreviews` of authorization.k8s.io/v1.
pub static SELF_SUBJECT_ACCESS_REVIEWS: &Kind = &KINDS[index::SELF_SUBJECT_ACCESS_REVIEWS];

/// `selfsubjectrulesreviews` of authorization.k8s.io/v1.
pub static SELF_SUBJECT_RULES_REVIEWS: &Kind = &KINDS[index::SELF_SUBJECT_RULES_REVIEWS];

/// `subjectaccessreviews` of authorization.k8s.io/v1.
pub static SUBJECT_ACCESS_REVIEWS: &Kind = &KINDS[index::SUBJECT_ACCESS_REVIEWS];
