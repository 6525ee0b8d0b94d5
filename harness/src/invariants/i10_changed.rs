//! I10: external-resizer reports a change only after the cloud has made it. It gives a PersistentVolume no more bytes
//! than the cloud volume has. It gives a claim only a VolumeAttributesClass whose parameters the cloud volume has. An
//! occasion is a new size or a new class.
//!
//! Volumes that are not in Mooring's cloud are not checked.

use fake_apiserver::events::{Commit, Spec};
use mock_ec2::events::VolumeChanged;
use substrate::Event;

use super::{Checked, Found, Id, parameters};
use crate::model::RunModel;

const GIB: u64 = 1 << 30;

/// Checks an event.
pub(super) fn check(model: &RunModel, checked: &mut Checked, event: &Event) -> Option<Found> {
    let commit = event.get::<Commit>().filter(|commit| commit.user.starts_with("csi-resizer"))?;
    let (object, spec) = (&commit.object, commit.spec.as_ref()?);
    let (message, handle) = if let Some(pv) = &commit.pv {
        let before = model.objects.before.volume.as_ref()?.spec.capacity;
        let bytes = spec.capacity.filter(|bytes| before.is_none_or(|before| before < *bytes))?;
        let handle = pv.handle.as_ref()?;
        let cloud = model.objects.in_cloud(handle)?;
        checked.add(Id::I10, 1);
        let has = cloud.size_gib;
        let message = format!("persistentvolume/{object} says that it has {bytes} bytes, and the cloud has {has} GiB");
        ((bytes > has * GIB).then_some(message)?, handle.clone())
    } else {
        let claim = commit.pvc.as_ref()?;
        let before = &model.objects.before.claim.as_ref()?.spec.current_attributes_class;
        let class = spec.current_attributes_class.as_ref().filter(|class| before.as_ref() != Some(class))?;
        let handle = model.objects.volume(claim.volume.as_deref()?)?.state.handle.clone()?;
        let (cloud, versions) = (model.objects.in_cloud(&handle)?, model.objects.attributes_class(class));
        checked.add(Id::I10, 1);
        // The cloud volume must satisfy one version of the class: the resizer uses the version in its cache.
        let differs = versions.iter().map(|version| differs(cloud, version)).collect::<Option<Vec<_>>>()?;
        let why = differs.into_iter().next_back()?;
        (format!("pvc/{object} says that it has the VolumeAttributesClass {class}, and the cloud has {why}"), handle)
    };
    Some(Found { message, operation: commit.verb.to_string(), volume: Some(handle.to_string()), ..Found::default() })
}

/// Returns the first difference between a cloud volume and a class, as the end of a sentence.
fn differs(cloud: &VolumeChanged, class: &Spec) -> Option<String> {
    class.parameters.iter().find_map(|(key, value)| {
        let key = key.to_lowercase();
        let has = match key.as_str() {
            "type" => cloud.volume_type.to_string(),
            "iops" => cloud.iops?.to_string(),
            "throughput" => cloud.throughput?.to_string(),
            _ => return None,
        };
        let is_served = parameters::serves((&cloud.volume_type, cloud.size_gib), &key, &has, value);
        (!is_served).then(|| format!("the {key} {has} instead of {value}"))
    })
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{Claim, Volume};
    use fake_apiserver::state::EventType;
    use mock_ec2::events::{ModificationChanged, ModificationState, VolumePhase};
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    const VOLUME: &str = "vol-0123456789abcdef0";

    /// Returns the messages of I10 for a run in which the cloud has these GiB and IOPS. A component writes the size of
    /// 2 GiB to the volume, and the class `gold` of 6000 IOPS to the claim.
    fn found(size_gib: u64, iops: u64, user: &str) -> Vec<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        trace.info(&"mock-ec2".into(), VolumeChanged::new(VOLUME.parse().unwrap(), VolumePhase::Available, "a", 1));
        let changed = ModificationChanged {
            volume: VOLUME.parse().unwrap(),
            state: ModificationState::Optimizing,
            size_gib,
            volume_type: "gp3".into(),
            iops: Some(iops),
            throughput: None,
        };
        trace.info(&"mock-ec2".into(), changed);
        let mut rv = 0;
        let mut commit = |resource: &str, object: &str, user: &str, spec: Spec, say: &dyn Fn(&mut Commit)| {
            rv += 1;
            let mut commit = Commit::new(resource, object, rv, EventType::Modified);
            (commit.user, commit.spec) = (user.into(), Some(Box::new(spec)));
            say(&mut commit);
            trace.info(&"fake-apiserver".into(), commit);
        };
        let gold = Spec { parameters: [("iops".into(), "6000".into())].into(), ..Spec::default() };
        commit("volumeattributesclasses", "gold", "me", gold, &|_| {});
        for (user, gib, class) in [("me", 1, None), (user, 2, Some("gold".into()))] {
            let pv = Volume { handle: Some(VOLUME.into()), ..Volume::default() };
            let spec = Spec { capacity: Some(gib * GIB), ..Spec::default() };
            commit("persistentvolumes", "pv-1", user, spec, &|commit| commit.pv = Some(Box::new(pv.clone())));
            let claim = Claim { volume: Some("pv-1".into()), ..Claim::default() };
            let spec = Spec { current_attributes_class: class, ..Spec::default() };
            commit("persistentvolumeclaims", "default/data", user, spec, &|commit| {
                commit.pvc = Some(Box::new(claim.clone()));
            });
        }
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        let all = invariants.violations().into_iter().filter(|violation| violation.id == "I10");
        all.map(|violation| violation.message).collect()
    }

    #[test]
    fn a_change_that_the_cloud_has_not_made_is_a_violation() {
        let resizer = "csi-resizer/v2";
        assert!(found(12, 6000, resizer).is_empty());
        let size = ["persistentvolume/pv-1 says that it has 2147483648 bytes, and the cloud has 1 GiB"];
        assert_eq!(found(1, 3000, resizer), size);
        let class = "pvc/default/data says that it has the VolumeAttributesClass gold, and the cloud has the iops 3000 \
                     instead of 6000";
        assert_eq!(found(20, 3000, resizer), [class]);
        assert!(found(2, 3000, resizer).is_empty(), "no gp3 of 2 GiB has more");
        assert!(found(1, 3000, "kubectl").is_empty(), "a user wrote it");
    }
}
