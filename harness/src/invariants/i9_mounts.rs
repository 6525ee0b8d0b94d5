//! I9: a volume is mounted as its PersistentVolume and its pods request: as a filesystem of the type or as a raw
//! device, formatted with the options of its StorageClass, with the mount options, read-only only if all request it, and
//! with the size that its claim reports. An occasion is a stage, a publish, or a size that a kubelet writes to a claim.
//!
//! Volumes without a PersistentVolume (inline volumes, manual calls of the driver) are not checked. The check reads the
//! disk's report of a mount, not the request to the driver.

use csi_mock::events::{DiskPublished, DiskStaged};
use fake_apiserver::events::{Commit, Spec, Volume};
use substrate::Event;
use substrate::json::Text;

use super::{Checked, Found, Id};
use crate::model::{RunModel, Stored};

/// Parameters of a StorageClass with a value, and their options of mkfs.ext4 and mkfs.xfs (aws-ebs-csi-driver,
/// docs/parameters.md and pkg/driver/node.go, `NodeStageVolume`).
const FORMAT_PARAMETERS: [(&str, &str, &str); 5] = [
    ("blockSize", "-b", "-b"),
    ("inodeSize", "-I", "-i"),
    ("bytesPerInode", "-i", "-i"),
    ("numberOfInodes", "-N", "-N"),
    ("ext4ClusterSize", "-C", "-C"),
];
/// Parameters that are on with the value `true`, and the feature of mkfs.ext4 that each switches on.
const FORMAT_FEATURES: [(&str, &str); 2] = [("ext4BigAlloc", "bigalloc"), ("ext4EncryptionSupport", "encrypt")];

/// Checks an event.
pub(super) fn check(model: &RunModel, checked: &mut Checked, event: &Event) -> Option<Found> {
    if let Some(staged) = event.get::<DiskStaged>() {
        let pv = model.objects.volume_of(&staged.volume)?;
        checked.add(Id::I9, 1);
        let why = wrongly_staged(pv, staged)
            .or_else(|| wrongly_formatted(model, pv, staged))
            .or_else(|| too_small(model, pv, staged))?;
        let message = format!("{} was staged on {} {why}", staged.volume, staged.node);
        return Some(found(model, message, "NodeStageVolume", &staged.volume, &staged.node));
    }
    if let Some(published) = event.get::<DiskPublished>() {
        let pv = model.objects.volume_of(&published.volume)?;
        let node = model.name(&published.node).to_owned();
        let of_pods = read_only_by_pods(model, pv, &node)?;
        checked.add(Id::I9, 1);
        let by_volume = pv.spec.read_only || only_reads(pv);
        let why = match (published.readonly, of_pods) {
            (false, _) if by_volume => "for writing, and its PersistentVolume is read-only",
            (false, (_, true)) => "for writing, and each pod there asks for it read-only",
            (true, (true, _)) if !by_volume => "read-only, and no pod there and no PersistentVolume asks for that",
            _ => &*without_option(pv, published)?,
        };
        let message = format!("{} was published on {node} {why}", published.volume);
        return Some(found(model, message, "NodePublishVolume", &published.volume, &node));
    }
    let commit = event.get::<Commit>().filter(|commit| commit.user.starts_with("kubelet"))?;
    commit.pvc.as_ref()?;
    let (now, before) = (model.objects.claim(&commit.object)?, model.objects.before.claim.as_ref()?);
    let capacity = now.spec.capacity.filter(|now| before.spec.capacity.is_some_and(|before| before < *now))?;
    let pv = model.objects.volume(now.state.volume.as_deref()?).filter(|pv| !pv.spec.block)?;
    let handle = pv.state.handle.as_deref()?;
    let has = model.objects.filesystem(handle)?;
    checked.add(Id::I9, 1);
    let message = (has < capacity).then(|| {
        format!("kubelet reports {capacity} bytes for pvc/{}, and the filesystem of {handle} has {has}", commit.object)
    })?;
    let volume = Some(handle.to_owned());
    Some(Found { message, operation: "NodeExpandVolume".to_owned(), volume, ..Found::default() })
}

/// Returns the reason if a new filesystem lacks an option that each version of its StorageClass asks for. A volume that
/// was not provisioned for its claim may have been made by hand, without the parameters of the class.
fn wrongly_formatted(model: &RunModel, pv: &Stored<Volume>, staged: &DiskStaged) -> Option<String> {
    let made = model.objects.volume(&format!("pvc-{}", pv.state.claim_uid.as_deref()?))?;
    if !staged.formatted || staged.fs_type.is_empty() || made.state.handle.as_deref() != Some(&*staged.volume) {
        return None;
    }
    let classes = model.objects.class(pv.spec.class.as_deref()?).iter();
    let missing = classes.map(|class| missing_option(class, staged)).collect::<Option<Vec<_>>>()?;
    let (parameter, value) = missing.into_iter().next_back()?;
    Some(format!("without the {parameter} {value} that its StorageClass asks for"))
}

/// Returns a parameter of a class whose option mkfs was not given.
fn missing_option<'a>(class: &'a Spec, staged: &DiskStaged) -> Option<(&'a Text, &'a Text)> {
    let is_given =
        |flag: &str, value: &str| staged.format.windows(2).any(|pair| &*pair[0] == flag && &*pair[1] == value);
    class.parameters.iter().find(|(key, value)| {
        let sized = FORMAT_PARAMETERS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(key));
        let feature = FORMAT_FEATURES.iter().find(|(name, _)| name.eq_ignore_ascii_case(key) && &***value == "true");
        match (sized, feature) {
            (Some((_, _, flag)), _) if &*staged.fs_type == "xfs" => !is_given(flag, &format!("size={value}")),
            (Some((_, flag, _)), _) => !is_given(flag, value),
            (None, Some((_, feature))) => !is_given("-O", feature),
            (None, None) => false,
        }
    })
}

/// Returns the reason if the filesystem is smaller than the status of its claim says.
fn too_small(model: &RunModel, pv: &Stored<Volume>, staged: &DiskStaged) -> Option<String> {
    let has = staged.size_bytes.filter(|_| !staged.readonly)?;
    let claim = model.objects.claim(pv.state.claim.as_deref()?)?;
    let capacity = claim.spec.capacity.filter(|capacity| has < *capacity)?;
    Some(format!("with {has} bytes, and the status of its claim says {capacity}"))
}

fn found(model: &RunModel, message: String, operation: &str, volume: &str, node: &str) -> Found {
    let (volume, node) = (Some(volume.to_owned()), Some(model.name(node).to_owned()));
    Found { message, operation: operation.to_owned(), volume, node, ..Found::default() }
}

/// Returns true if all access modes of a volume are read-only.
pub(super) fn only_reads(pv: &Stored<Volume>) -> bool {
    pv.spec.mount_options.iter().any(|option| option == "ro")
        || !pv.state.access_modes.is_empty() && pv.state.access_modes.iter().all(|mode| mode == "ReadOnlyMany")
}

/// Returns the difference between a stage and its PersistentVolume, as the end of a sentence.
fn wrongly_staged(pv: &Stored<Volume>, staged: &DiskStaged) -> Option<String> {
    match (pv.spec.block, staged.raw) {
        (true, false) => return Some("as a filesystem, and its PersistentVolume is a raw device".to_owned()),
        (false, true) => return Some("as a raw device, and its PersistentVolume is a filesystem".to_owned()),
        (true, true) => return None,
        (false, false) => {}
    }
    // A driver without staging mounts at the pod's path, so the pod's options apply.
    let is_of_a_pod = staged.path.contains("/pods/");
    if staged.readonly && !is_of_a_pod && !pv.spec.read_only && !only_reads(pv) {
        return Some("read-only, and its PersistentVolume does not ask for that".to_owned());
    }
    if staged.fs_type.is_empty() {
        // A directory represents the volume: it has no type and no options.
        return None;
    }
    if let Some(wanted) = pv.spec.fs_type.as_ref().filter(|wanted| **wanted != staged.fs_type) {
        return Some(format!("with {}, and its PersistentVolume asks for {wanted}", staged.fs_type));
    }
    let mut options = pv.spec.mount_options.iter().filter(|option| *option != "ro");
    let missing = options.find(|option| !staged.options.contains(option))?;
    Some(format!("without the mount option {missing} of its PersistentVolume"))
}

/// Returns a mount option of its PersistentVolume that a shared file system was mounted without, as the end of a
/// sentence. The EFS driver reads some options itself (aws-efs-csi-driver, pkg/driver/node.go, `NodePublishVolume`).
fn without_option(pv: &Stored<Volume>, published: &DiskPublished) -> Option<String> {
    let has = published.options.as_ref()?;
    let is_of_the_driver = |option: &str| matches!(option, "ro" | "tls" | "iam") || option.starts_with("accesspoint=");
    let mut options = pv.spec.mount_options.iter().map(|option| option.to_lowercase());
    let missing = options.find(|option| !is_of_the_driver(option) && !has.iter().any(|has| **has == **option))?;
    Some(format!("without the mount option {missing} of its PersistentVolume"))
}

/// For the pods on a node that use the volume, returns whether no pod requests it read-only, and whether each does;
/// `None` if there is no such pod.
fn read_only_by_pods(model: &RunModel, pv: &Stored<Volume>, node: &str) -> Option<(bool, bool)> {
    let claim = pv.state.claim.as_deref()?;
    let name = claim.split_once('/').map_or(claim, |(_, name)| name);
    let here = model.objects.users(claim).filter(|(_, pod)| pod.state.node.as_deref() == Some(node));
    let asks: Vec<bool> = here.map(|(_, pod)| pod.spec.read_only_claims.iter().any(|claim| claim == name)).collect();
    (!asks.is_empty()).then(|| (!asks.contains(&true), !asks.contains(&false)))
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{Claim, Pod};
    use fake_apiserver::state::EventType;
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    const VOLUME: &str = "vol-0123456789abcdef0";

    /// A run with one volume, its claim and a pod on node-a.
    struct Run(Trace, u64);

    impl Run {
        fn new(pv: Stored<Volume>, read_only: bool) -> Self {
            let mut run = Self(Trace::new(Clock::live(), Level::Info), 0);
            let name = pv.state.claim_uid.as_ref().map_or_else(|| "pv-1".to_owned(), |uid| format!("pvc-{uid}"));
            let state = Volume { claim: Some("default/data".into()), handle: Some(VOLUME.into()), ..pv.state };
            run.commit("persistentvolumes", &name, "user", |commit| {
                (commit.pv, commit.spec) = (Some(Box::new(state)), Some(Box::new(pv.spec)));
            });
            let pod = Pod { claims: vec!["data".into()], node: Some("node-a".into()), ..Pod::default() };
            let read_only_claims = if read_only { vec!["data".into()] } else { Vec::new() };
            run.commit("pods", "default/web", "user", |commit| {
                commit.pod = Some(Box::new(pod));
                commit.spec = Some(Box::new(Spec { read_only_claims, ..Spec::default() }));
            });
            run
        }

        fn commit(&mut self, resource: &str, object: &str, user: &str, say: impl FnOnce(&mut Commit)) {
            self.1 += 1;
            let mut commit = Commit::new(resource, object, self.1, EventType::Added);
            commit.user = user.into();
            say(&mut commit);
            self.0.info(&"fake-apiserver".into(), commit);
        }

        fn staged(self, change: impl FnOnce(&mut DiskStaged)) -> Self {
            let mut staged = DiskStaged { fs_type: "ext4".into(), ..DiskStaged::new(VOLUME, "node-a", "/s") };
            change(&mut staged);
            self.0.info(&"node-a/csi-node".into(), staged);
            self
        }

        fn published(self, readonly: bool) -> Self {
            let (volume, node, path) = (VOLUME.into(), "node-a".into(), "/t".into());
            self.0.info(&"node-a/csi-node".into(), DiskPublished { volume, node, path, readonly, options: None });
            self
        }

        /// Publishes a shared file system with these mount options.
        fn mounted(self, options: Option<&[&str]>) -> Self {
            let (volume, node, path) = (VOLUME.into(), "node-a".into(), "/t".into());
            let options = options.map(|all| all.iter().map(|option| (*option).into()).collect());
            self.0.info(&"node-a/efs-csi-node".into(), DiskPublished { volume, node, path, readonly: false, options });
            self
        }

        /// Lets the claim report these sizes, one after the other.
        fn sizes(mut self, user: &str, sizes: [u64; 2]) -> Self {
            for size in sizes {
                let claim = Claim { volume: Some("pv-1".into()), ..Claim::default() };
                let spec = Spec { capacity: Some(size), ..Spec::default() };
                self.commit("persistentvolumeclaims", "default/data", user, |commit| {
                    (commit.pvc, commit.spec) = (Some(Box::new(claim)), Some(Box::new(spec)));
                });
            }
            self
        }

        /// Returns the sentences of I9 without the volume and the node.
        fn found(self) -> Vec<String> {
            let invariants = Invariants::new(TimeScale::default());
            self.0.events().iter().for_each(|event| invariants.observe(event));
            assert!(invariants.checked().get(Id::I9) > 0, "there was an occasion");
            let all = invariants.violations().into_iter().filter(|violation| violation.id == "I9");
            all.map(|violation| violation.message.replace(VOLUME, "V").replace(" on node-a", "")).collect()
        }
    }

    fn volume(change: impl FnOnce(&mut Stored<Volume>)) -> Stored<Volume> {
        let mut pv = Stored::<Volume>::default();
        pv.state.access_modes = vec!["ReadWriteOnce".into()];
        change(&mut pv);
        pv
    }

    #[test]
    fn a_stage_that_differs_from_its_volume_is_a_violation() {
        let plain = || Run::new(volume(|_| {}), false);
        assert!(plain().staged(|_| {}).found().is_empty());
        let read_only = plain().staged(|staged| staged.readonly = true).found();
        assert_eq!(read_only, ["V was staged read-only, and its PersistentVolume does not ask for that"]);
        let by_pod =
            |staged: &mut DiskStaged| (staged.readonly, staged.path) = (true, "/k/pods/u/volumes/v/mount".into());
        assert!(plain().staged(by_pod).found().is_empty(), "a driver that stages nothing");
        let raw = plain().staged(|staged| staged.raw = true).found();
        assert_eq!(raw, ["V was staged as a raw device, and its PersistentVolume is a filesystem"]);
        let block = Run::new(volume(|pv| pv.spec.block = true), false).staged(|_| {}).found();
        assert_eq!(block, ["V was staged as a filesystem, and its PersistentVolume is a raw device"]);
        let xfs = || Run::new(volume(|pv| pv.spec.fs_type = Some("xfs".into())), false);
        assert_eq!(xfs().staged(|_| {}).found(), ["V was staged with ext4, and its PersistentVolume asks for xfs"]);
        assert!(xfs().staged(|staged| staged.fs_type = "".into()).found().is_empty(), "directories have no type");
        let options = || Run::new(volume(|pv| pv.spec.mount_options = vec!["noatime".into()]), false);
        let missing = ["V was staged without the mount option noatime of its PersistentVolume"];
        assert_eq!(options().staged(|_| {}).found(), missing);
        assert!(options().staged(|staged| staged.options = vec!["noatime".into()]).found().is_empty());
    }

    #[test]
    fn a_shared_file_system_has_the_mount_options_of_its_volume() {
        let options = ["tls", "accesspoint=fsap-1", "NoAtime", "nodiratime"];
        let mounted = |has: Option<&[&str]>| {
            let asks = |pv: &mut Stored<Volume>| pv.spec.mount_options = options.map(Into::into).into();
            Run::new(volume(asks), false).mounted(has).found()
        };
        assert!(mounted(Some(&["noatime", "nodiratime"])).is_empty());
        assert!(mounted(None).is_empty(), "a directory has no options");
        let missing = ["V was published without the mount option nodiratime of its PersistentVolume"];
        assert_eq!(mounted(Some(&["noatime"])), missing);
    }

    #[test]
    fn a_new_filesystem_has_the_options_of_its_class() {
        let staged = |uid: Option<&str>, formatted: bool, format: &[&str]| {
            let of_class = |pv: &mut Stored<Volume>| {
                (pv.spec.class, pv.state.claim_uid) = (Some("tuned".into()), uid.map(Into::into));
            };
            let mut run = Run::new(volume(of_class), false);
            run.commit("storageclasses", "tuned", "user", |commit| {
                let parameters = [(Text::from("blockSize"), Text::from("1024")), ("type".into(), "gp3".into())].into();
                commit.spec = Some(Box::new(Spec { parameters, ..Spec::default() }));
            });
            let format = format.iter().map(|option| Text::from(*option)).collect();
            run.staged(|staged| (staged.formatted, staged.format) = (formatted, format)).found()
        };
        let missing = ["V was staged without the blockSize 1024 that its StorageClass asks for"];
        assert_eq!(staged(Some("u"), true, &[]), missing);
        assert_eq!(staged(Some("u"), true, &["-b", "4096"]), missing);
        assert!(staged(Some("u"), true, &["-b", "1024"]).is_empty());
        assert_eq!(staged(Some("u"), true, &["-I", "1024"]), missing, "another option");
        assert!(staged(Some("u"), false, &[]).is_empty(), "there was a filesystem");
        assert!(staged(None, true, &[]).is_empty(), "made by hand");
    }

    #[test]
    fn each_filesystem_has_its_own_options_of_mkfs() {
        let lacks = |parameter: &str, value: &str, fs_type: &str, format: &[&str]| {
            let parameters = [(Text::from(parameter), Text::from(value))].into();
            let class = Spec { parameters, ..Spec::default() };
            let format = format.iter().map(|option| Text::from(*option)).collect();
            let staged = DiskStaged { fs_type: fs_type.into(), format, ..DiskStaged::new("V", "i-1", "/staging") };
            missing_option(&class, &staged).is_some()
        };
        assert!(!lacks("inodeSize", "512", "ext4", &["-I", "512"]));
        assert!(lacks("inodeSize", "512", "ext4", &["-i", "512"]));
        assert!(!lacks("inodesize", "512", "xfs", &["-i", "size=512"]));
        assert!(lacks("inodeSize", "512", "xfs", &["-I", "512"]));
        assert!(!lacks("ext4BigAlloc", "true", "ext4", &["-b", "4096", "-O", "bigalloc"]));
        assert!(lacks("ext4BigAlloc", "true", "ext4", &["-O", "encrypt"]));
        assert!(!lacks("ext4EncryptionSupport", "false", "ext4", &[]));
        assert!(!lacks("type", "gp3", "ext4", &[]));
    }

    #[test]
    fn writing_and_reading_are_as_pods_and_volume_ask() {
        let plain = |read_only| Run::new(volume(|_| {}), read_only);
        assert!(plain(false).published(false).found().is_empty());
        assert!(plain(true).published(true).found().is_empty());
        let writes = plain(true).published(false).found();
        assert_eq!(writes, ["V was published for writing, and each pod there asks for it read-only"]);
        let reads = plain(false).published(true).found();
        assert_eq!(reads, ["V was published read-only, and no pod there and no PersistentVolume asks for that"]);
        for change in [
            |pv: &mut Stored<Volume>| pv.spec.read_only = true,
            |pv: &mut Stored<Volume>| pv.state.access_modes = vec!["ReadOnlyMany".into()],
            |pv: &mut Stored<Volume>| pv.spec.mount_options = vec!["ro".into()],
        ] {
            let kept = || Run::new(volume(change), false);
            assert!(kept().published(true).found().is_empty());
            assert_eq!(
                kept().published(false).found(),
                ["V was published for writing, and its PersistentVolume is read-only"]
            );
        }
    }

    #[test]
    fn a_size_that_the_filesystem_does_not_have_is_a_violation() {
        let grown = |user, bytes| {
            let run = Run::new(volume(|_| {}), false).staged(|staged| staged.size_bytes = Some(bytes));
            run.sizes(user, [1, 2]).found()
        };
        assert_eq!(
            grown("kubelet", 1),
            ["kubelet reports 2 bytes for pvc/default/data, and the filesystem of V has 1"]
        );
        assert!(grown("kubelet", 2).is_empty());
        // A controller writes the size of a volume that no node must expand. At rest I12 compares it.
        assert!(grown("csi-resizer", 1).is_empty());
        // A copy that is larger than its source is expanded when it is staged.
        let staged = |bytes: u64, readonly: bool| {
            let run = Run::new(volume(|_| {}), false).sizes("csi-provisioner", [2, 2]);
            let stage = |staged: &mut DiskStaged| (staged.size_bytes, staged.readonly) = (Some(bytes), readonly);
            run.staged(stage).found()
        };
        assert_eq!(staged(1, false), ["V was staged with 1 bytes, and the status of its claim says 2"]);
        assert!(staged(2, false).is_empty());
        assert!(staged(1, true).iter().all(|message| !message.contains("bytes")), "it cannot grow");
    }
}
