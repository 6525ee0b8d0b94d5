//! Events of the driver: its calls, their effects on disks, and those of the device plug.

use serde::{Deserialize, Serialize};
use substrate::json::Text;

/// Rule of the volume lifecycle in the CSI specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// DeleteVolume of a volume that is attached.
    DeleteWhilePublished,
    /// NodePublishVolume of a volume that is not staged.
    PublishBeforeStage,
    /// ControllerPublishVolume to a node while the volume is on another.
    PublishToSecondNode,
    /// NodeStageVolume of a volume without a device.
    StageWithoutAttach,
    /// ControllerUnpublishVolume of a volume that is staged.
    UnpublishWhileStaged,
    /// NodeUnstageVolume of a volume that is published on the node.
    UnstageWhilePublished,
}

impl Rule {
    /// Returns its name (`publish-before-stage`).
    pub fn name(self) -> &'static str {
        match self {
            Self::DeleteWhilePublished => "delete-while-published",
            Self::PublishBeforeStage => "publish-before-stage",
            Self::PublishToSecondNode => "publish-to-second-node",
            Self::StageWithoutAttach => "stage-without-attach",
            Self::UnpublishWhileStaged => "unpublish-while-staged",
            Self::UnstageWhilePublished => "unstage-while-published",
        }
    }
}

/// State of the driver's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SocketState {
    /// It was removed.
    Gone,
    /// A new one was created.
    Back,
}

/// State of an access point after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessPointState {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
}

substrate::events! {
    /// A call of the driver started.
    pub struct CsiCall = "csi.call" {
        /// The program of the user's that calls, where the runner started one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub caller: Option<Text>,
        /// The RPC (`NodeStageVolume`).
        pub rpc: Text,
        /// The volume, if the request names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub volume: Option<Text>,
        /// The node: its id in controller RPCs, its name in node RPCs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub node: Option<Text>,
        /// The staging or target path; the name of a volume or snapshot that is created; the id of one that is deleted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub target: Option<Text>,
        /// Name of the device in the publish context of a node RPC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub device: Option<Text>,
        /// Position among the calls of this driver process, from 1.
        pub ordinal: u64,
        /// NodePublishVolume of a driver whose volumes are mounted without an attachment.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub needs_no_attachment: bool,
        /// NodePublishVolume of a driver without STAGE_UNSTAGE_VOLUME: there was no stage before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub stages_nothing: bool,
        /// ControllerPublishVolume for writing, of a driver with PUBLISH_READONLY.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub for_writing: bool,
    }

    /// A call of the driver ended.
    pub struct CsiDone = "csi.done" {
        /// The RPC.
        pub rpc: Text,
        /// The volume in the request, or the one that the call created.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub volume: Option<Text>,
        /// The node: its id in controller RPCs, its name in node RPCs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub node: Option<Text>,
        /// Position of the call.
        pub ordinal: u64,
        /// The gRPC code by name (`OK`), or `CANCELLED` if the caller went away.
        pub code: Text,
        /// Duration in milliseconds.
        pub took_ms: u64,
        /// The error's message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub message: Option<String>,
    }

    /// A call violated the lifecycle of CSI.
    pub struct CsiViolation = "csi.violation" {
        /// The RPC.
        pub rpc: Text,
        /// The volume.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub volume: Option<Text>,
        /// The node, as the request names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub node: Option<Text>,
        /// The staging or target path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub target: Option<Text>,
        /// The violated rule.
        pub rule: Rule,
        /// Position of the call.
        pub ordinal: u64,
    }

    /// kubelet reported the result of the registration to the registrar.
    pub struct CsiRegistration = "csi.registration" {
        /// The driver.
        pub driver: Text,
        /// True if it is registered.
        pub registered: bool,
        /// The reason of a failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
    }

    /// The controller named a device of another volume.
    pub struct CsiWrongDevice = "csi.wrong_device" {
        /// The volume.
        pub volume: Text,
        /// The node.
        pub node: Text,
        /// The device name in the publish context.
        pub told: Text,
        /// The name of the volume's device.
        pub found: Text,
    }

    /// A fault made an answer say something else than the truth.
    pub struct CsiFalsified = "csi.falsified" {
        /// The RPC.
        pub rpc: Text,
        /// The volume, if the request names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub volume: Option<Text>,
        /// The node, as the request names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub node: Option<Text>,
        /// The effect of the fault.
        pub effect: Text,
        /// The false content of the answer.
        pub said: Text,
        /// The true content.
        pub truth: Text,
    }

    /// The driver's socket was removed or recreated.
    pub struct CsiSocket = "csi.socket" {
        /// New state.
        pub state: SocketState,
    }

    /// A volume was staged on a node.
    pub struct DiskStaged = "disk.staged" {
        /// The volume.
        pub volume: Text,
        /// The node.
        pub node: Text,
        /// The staging path.
        pub path: Text,
        /// True if the mount refuses writes.
        pub readonly: bool,
        /// True if the device was empty and got a filesystem.
        pub formatted: bool,
        /// True for a raw device, which has no mount.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub raw: bool,
        /// The filesystem; absent for a raw device, and where directories stand for volumes.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub fs_type: Text,
        /// Options of mkfs that the StorageClass asked for, if the device was formatted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub format: Vec<Text>,
        /// Mount options besides `ro`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub options: Vec<Text>,
        /// Size of the filesystem in bytes; absent where the disk does not tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub size_bytes: Option<u64>,
    }

    /// A volume was unstaged.
    pub struct DiskUnstaged = "disk.unstaged" {
        /// The volume.
        pub volume: Text,
        /// The node.
        pub node: Text,
        /// The staging path.
        pub path: Text,
    }

    /// A volume was published at a pod's path.
    pub struct DiskPublished = "disk.published" {
        /// The volume.
        pub volume: Text,
        /// The node.
        pub node: Text,
        /// The target path.
        pub path: Text,
        /// True if the mount refuses writes.
        pub readonly: bool,
        /// Options of the mount of a shared file system besides `ro`; absent for other volumes, and where directories
        /// stand for volumes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub options: Option<Vec<Text>>,
    }

    /// An access point of a file system was created or deleted.
    pub struct AccessPointChanged = "efs.access_point" {
        /// The access point.
        pub access_point: Text,
        /// Its file system.
        pub file_system: Text,
        /// Its root directory.
        pub directory: Text,
        /// The group of its files.
        pub gid: i64,
        /// Its state after the change.
        pub state: AccessPointState,
    }

    /// A volume was unpublished from a pod's path.
    pub struct DiskUnpublished = "disk.unpublished" {
        /// The volume.
        pub volume: Text,
        /// The node.
        pub node: Text,
        /// The target path.
        pub path: Text,
    }

    /// A volume was mounted for writing while other nodes have a writable mount, too.
    pub struct DiskDoubleMount = "disk.double_mount" {
        /// The volume.
        pub volume: Text,
        /// The node.
        pub node: Text,
        /// The other nodes.
        pub others: Vec<String>,
    }

    /// Device and filesystem of a volume were expanded to the volume's size.
    pub struct DiskExpanded = "disk.expanded" {
        /// The volume.
        pub volume: Text,
        /// The node.
        pub node: Text,
        /// Its mount path.
        pub path: Text,
        /// The size of the device in bytes.
        pub size_bytes: u64,
    }

    /// A request of the driver to the cloud ended. Only at the trace level, and for observers that ask for it.
    pub struct Ec2Answered = "ec2.answered" {
        /// The action.
        pub action: Text,
        /// The first parameters of the request.
        pub parameters: String,
        /// Number of attempts.
        pub attempts: u32,
        /// Duration with all attempts, in milliseconds.
        pub took_ms: u64,
        /// The error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
    }

    /// A request to the cloud is retried. Only at the trace level, and for observers that ask for it.
    pub struct Ec2Retry = "ec2.retry" {
        /// The action.
        pub action: Text,
        /// Error of the previous attempt.
        pub error: String,
        /// Number of attempts so far.
        pub attempt: u32,
    }
}

impl CsiCall {
    /// Describes a call without a volume, a node or a path.
    pub fn new(rpc: impl Into<Text>, ordinal: u64) -> Self {
        Self {
            caller: None,
            rpc: rpc.into(),
            volume: None,
            node: None,
            target: None,
            device: None,
            ordinal,
            needs_no_attachment: false,
            stages_nothing: false,
            for_writing: false,
        }
    }
}

impl AccessPointChanged {
    /// Returns the handle of the volume behind the access point.
    pub fn volume(&self) -> String {
        crate::efs::of_access_point(&self.file_system, &self.access_point)
    }
}

impl DiskStaged {
    /// Returns the event of a volume that is mounted for writing. All other fields are at their defaults.
    pub fn new(volume: impl Into<Text>, node: impl Into<Text>, path: impl Into<Text>) -> Self {
        Self {
            volume: volume.into(),
            node: node.into(),
            path: path.into(),
            readonly: false,
            formatted: false,
            raw: false,
            fs_type: Text::default(),
            format: Vec::new(),
            options: Vec::new(),
            size_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use substrate::json::{Value, json};
    use substrate::{Clock, EventType, Level, Trace};

    use super::*;

    fn fields(event: impl EventType) -> String {
        let trace = Trace::new(Clock::live(), Level::Trace);
        trace.info(&"csi".into(), event);
        let line = &trace.lines()[0];
        // An event from another OS process is parsed into the same type, and has the same text again.
        let there = Trace::new(Clock::live(), Level::Trace);
        there.adopt(EVENTS, line.clone()).unwrap();
        assert_eq!(there.lines()[0].fields, line.fields);
        Value::from(line.fields.clone()).to_string()
    }

    #[test]
    fn absent_fields_are_left_out_of_the_line() {
        let (volume, node, path) = (Text::from("vol-1"), Text::from("node-a"), Text::from("/s"));
        let done = CsiDone {
            rpc: "NodeStageVolume".into(),
            volume: Some(volume.clone()),
            node: None,
            ordinal: 7,
            code: "OK".into(),
            took_ms: 12,
            message: None,
        };
        assert_eq!(
            fields(done.clone()),
            r#"{"code":"OK","ordinal":7,"rpc":"NodeStageVolume","took_ms":12,"volume":"vol-1"}"#
        );
        let failed = CsiDone { code: "ABORTED".into(), message: Some("later".into()), ..done };
        assert_eq!(
            fields(failed),
            r#"{"code":"ABORTED","message":"later","ordinal":7,"rpc":"NodeStageVolume","took_ms":12,"volume":"vol-1"}"#
        );
        let staged = DiskStaged { formatted: true, ..DiskStaged::new(volume, node, path) };
        assert_eq!(
            fields(staged.clone()),
            r#"{"formatted":true,"node":"node-a","path":"/s","readonly":false,"volume":"vol-1"}"#
        );
        assert_eq!(
            fields(DiskStaged { raw: true, ..staged }),
            r#"{"formatted":true,"node":"node-a","path":"/s","raw":true,"readonly":false,"volume":"vol-1"}"#
        );
        let violation = CsiViolation {
            rpc: "ControllerUnpublishVolume".into(),
            volume: None,
            node: None,
            target: None,
            rule: Rule::UnpublishWhileStaged,
            ordinal: 1,
        };
        assert_eq!(
            fields(violation),
            r#"{"ordinal":1,"rpc":"ControllerUnpublishVolume","rule":"unpublish-while-staged"}"#
        );
        assert_eq!(fields(CsiSocket { state: SocketState::Gone }), r#"{"state":"gone"}"#);
    }

    #[test]
    fn a_rule_is_written_as_it_is_called() {
        for rule in [
            Rule::DeleteWhilePublished,
            Rule::PublishBeforeStage,
            Rule::PublishToSecondNode,
            Rule::StageWithoutAttach,
            Rule::UnpublishWhileStaged,
            Rule::UnstageWhilePublished,
        ] {
            assert_eq!(substrate::json::to_value(&rule).unwrap(), json!(rule.name()));
        }
    }

    #[test]
    fn each_kind_is_one() {
        let kinds: BTreeSet<_> = EVENTS.iter().map(|event| event.kind).collect();
        assert_eq!(kinds.len(), EVENTS.len());
    }
}
