//! The behaviours that upstream tests with csimock, one file for each of upstream's files. Each file tests the driver's
//! half: the capabilities, answers and leftovers that the orchestrator depends on. The tests of the control loops and
//! of the node agent cover the orchestrator's half; SELinux labels and health metrics have no tests yet.

mod base;
mod csi_attach_volume;
mod csi_fsgroup_mount;
mod csi_fsgroup_policy;
mod csi_honor_pv_reclaim_policy;
mod csi_kubelet_restart;
mod csi_node_stage_error_cases;
mod csi_node_volume_health;
mod csi_selinux_mount;
mod csi_service_account_token;
mod csi_snapshot;
mod csi_storage_capacity;
mod csi_volume_expansion;
mod csi_volume_limit;
mod csi_workload;
mod mutable_csinode_allocatable;
