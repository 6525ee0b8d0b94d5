//! ModifyVolume and DescribeVolumesModifications.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use substrate::Now;

use super::command::{DescribeVolumesModifications, ModificationReply, ModifyVolume, Reply};
use super::describe::flag;
use super::error::{Ec2Error, NeverModified};
use super::filter::{Filterable, check, matches};
use super::ids::VolumeId;
use super::latency::Operation;
use super::modification::{Modification, ModificationState, Shape};
use super::timers::{Progress, Subject};
use super::times::time;
use super::volume::{Volume, VolumeState, VolumeType};
use super::{Call, State};

/// Largest number of modifications of a volume within [`WINDOW`].
const MOST: usize = 4;
/// Rolling window of that limit.
const WINDOW: Duration = Duration::from_secs(24 * 3600);
/// Largest page of DescribeVolumesModifications.
const PAGE: u64 = 500;

impl State {
    pub(super) fn modify_volume(&mut self, call: Call<'_>, request: &ModifyVolume) -> Result<Reply, Ec2Error> {
        let id = &request.volume;
        let volume = self.volume(id)?;
        if !matches!(volume.state, VolumeState::Available | VolumeState::InUse) {
            return Err(Ec2Error::VolumeInState { volume: id.clone(), state: volume.state.as_str() });
        }
        let mut target = target(volume, request, self.seeded_bugs.shrinks)?;
        if self.seeded_bugs.iops_reset && request.iops.is_none() {
            target.iops = target.volume_type.resolve_iops(target.size_gib, None).unwrap_or(target.iops);
        }
        if self.seeded_bugs.keeps_iops_of_type && request.iops.is_none() && target.volume_type != volume.volume_type {
            target.iops = volume.iops;
        }
        if self.seeded_bugs.size_reset
            && request.size_gib.is_none()
            && let Some(latest) = &volume.modification
        {
            target.size_gib = latest.original.size_gib;
        }
        let goes_on = |state: ModificationState| match state {
            ModificationState::Optimizing => !self.seeded_bugs.modifies_optimizing,
            state => !state.ended(),
        };
        if let Some(latest) = volume.modification.as_ref().filter(|m| goes_on(m.state)) {
            let state = latest.state.as_str().to_uppercase();
            return Err(Ec2Error::ModificationState { volume: id.clone(), state });
        }
        let window = self.scale.apply(WINDOW);
        let recent = volume.modified.iter().filter(|at| call.now.mono < **at + window).count();
        if recent >= MOST && !self.seeded_bugs.modifies_at_any_pace {
            return Err(Ec2Error::ModificationRate(id.clone()));
        }
        call.check_dry_run()?;

        let original = volume.shape();
        let former = volume.modification.as_ref().map(|m| m.progress.clone());
        if let Some(former) = former.filter(|_| self.seeded_bugs.modifies_optimizing) {
            self.timers.cancel(&former);
        }
        let stick = |state: &str| call.stick.filter(|s| s.state == state);
        let begun = if stick("optimizing").is_some() { Call { stick: None, ..call } } else { call };
        let stick_optimizing = stick("optimizing").map(|s| s.fault.clone());
        let draw = self.volume_draw("modify", id);
        let progress =
            self.begin(begun, Operation::ModifyVolume, format_args!("{draw}"), Subject::Modification(id.clone()));
        let modification = Modification {
            state: ModificationState::Modifying,
            status_message: None,
            target,
            original,
            start_time: call.now.wall,
            end_time: None,
            span: span(call.now.mono, &progress),
            stick_optimizing,
            progress,
        };
        if let Some(volume) = self.volumes.get_mut(id) {
            let volume = Arc::make_mut(volume);
            volume.modified.push_back(call.now.mono);
            volume.modified.retain(|at| call.now.mono < *at + window);
            volume.modification = Some(modification.clone());
        }
        self.note_modification(id);
        Ok(Reply::Modification(Box::new(ModificationReply { volume: id.clone(), modification, percent: 0 })))
    }

    pub(super) fn end_modification_transition(&mut self, now: Now, id: &VolumeId) {
        let Some(volume) = self.volumes.get(id) else { return };
        let Some(state) = volume.modification.as_ref().map(|m| m.state) else { return };
        match state {
            ModificationState::Modifying if self.seeded_bugs.modification_stays => {}
            ModificationState::Modifying => {
                let held = volume.modification.as_ref().and_then(|m| m.stick_optimizing.clone());
                let stick = held.map(|fault| super::command::Stick { fault, state: "optimizing".to_owned() });
                let draw = self.volume_draw("optimize", id);
                let call = Call { now, dry_run: false, stick: stick.as_ref() };
                let progress = self.begin(
                    call,
                    Operation::OptimizeVolume,
                    format_args!("{draw}"),
                    Subject::Modification(id.clone()),
                );
                let Some(volume) = self.volumes.get_mut(id).map(Arc::make_mut) else { return };
                let Some(modification) = &mut volume.modification else { return };
                modification.state = ModificationState::Optimizing;
                modification.span = span(now.mono, &progress);
                modification.progress = progress;
                let target = modification.target.clone();
                volume.size_gib = target.size_gib;
                volume.volume_type = target.volume_type;
                if !self.seeded_bugs.keeps_iops {
                    volume.iops = target.iops;
                }
                if !self.seeded_bugs.keeps_throughput {
                    volume.throughput = target.throughput;
                }
                volume.multi_attach_enabled = target.multi_attach_enabled;
                if self.seeded_bugs.skips_optimizing {
                    return self.end_modification(now, id, ModificationState::Completed, None);
                }
                self.note_modification(id);
            }
            ModificationState::Optimizing => self.end_modification(now, id, ModificationState::Completed, None),
            ModificationState::Completed | ModificationState::Failed => {}
        }
    }

    /// Ends the modification of `id` in `state`.
    pub(super) fn end_modification(&mut self, now: Now, id: &VolumeId, state: ModificationState, why: Option<&str>) {
        let Some(volume) = self.volumes.get_mut(id).map(Arc::make_mut) else { return };
        let Some(modification) = volume.modification.as_mut().filter(|m| !m.state.ended()) else { return };
        self.timers.cancel(&modification.progress);
        modification.state = state;
        modification.status_message = why.map(str::to_owned);
        modification.end_time = Some(now.wall);
        modification.progress = Progress::Settled;
        self.note_modification(id);
    }

    pub(super) fn describe_volumes_modifications(
        &self,
        now: Now,
        request: &DescribeVolumesModifications,
    ) -> Result<Reply, Ec2Error> {
        let page = request.page.check_most((!request.ids.is_empty()).then_some("volumeSet"), PAGE)?;
        check::<ModificationView<'_>>(&request.filters, false)?;
        let rows = self.volumes.select(&request.ids, &request.filters, page.after());
        let rows: Vec<&Arc<Volume>> = rows.map_err(Ec2Error::VolumeNotFound)?.collect();
        let never = rows.iter().filter(|v| v.modification.is_none()).map(|v| v.id.clone());
        let never: Vec<VolumeId> = if request.ids.is_empty() { Vec::new() } else { never.collect() };
        // Never a shorter list: with batching, the EBS driver dereferences the entry of each requested id.
        if !never.is_empty() {
            return Err(Ec2Error::NeverModified(NeverModified(never)));
        }
        let wanted = rows
            .into_iter()
            .filter_map(|v| Some((v, v.modification.as_ref()?)))
            .filter(|(volume, modification)| matches(&ModificationView { volume, modification }, &request.filters));
        let replies = wanted.map(|(volume, modification)| ModificationReply {
            volume: volume.id.clone(),
            modification: modification.clone(),
            percent: modification.percent(now),
        });
        let (modifications, next_token) = page.cut(replies, |m| m.volume.as_str());
        Ok(Reply::Modifications { modifications, next_token })
    }

    /// Names the next draw of volume `id`.
    pub(super) fn volume_draw(&mut self, verb: &str, id: &VolumeId) -> String {
        let draws = self.volumes.get_mut(id).map_or(0, |v| {
            let v = Arc::make_mut(v);
            v.draws += 1;
            v.draws
        });
        format!("{verb} {id} {draws}")
    }
}

/// Returns start and due end of a state that began at `now`.
pub(super) fn span(now: Duration, progress: &Progress) -> (Duration, Duration) {
    match progress {
        Progress::Until(key) => (now, key.due),
        // No known end: no progress.
        _ => (now, Duration::MAX),
    }
}

/// Returns the properties of `volume` after `request`.
fn target(volume: &Volume, request: &ModifyVolume, shrinks: bool) -> Result<Shape, Ec2Error> {
    let ModifyVolume { size_gib, volume_type, iops, throughput, multi_attach, .. } = request;
    if (size_gib, iops, throughput) == (&None, &None, &None) && volume_type.is_none() && multi_attach.is_none() {
        return Err(Ec2Error::MissingParameter("size, volumeType, iops, throughput or multiAttachEnabled".to_owned()));
    }
    let old = volume.shape();
    let volume_type = volume_type.as_deref().map_or(Ok(old.volume_type), VolumeType::parse)?;
    let size_gib = size_gib.unwrap_or(old.size_gib);
    if size_gib < old.size_gib && !shrinks {
        return Err(Ec2Error::InvalidParameterValue("New size cannot be smaller than existing size".to_owned()));
    }
    volume_type.check_size(size_gib)?;
    let same = volume_type == old.volume_type;
    // Types without selectable IOPS derive them from the size. A change to a type with selectable IOPS starts at 3,000.
    let keeps = volume_type.has_iops().then_some(if same { old.iops } else { Some(3_000) }).flatten();
    let iops = volume_type.resolve_iops(size_gib, iops.or(keeps))?;
    let throughput = volume_type.resolve_throughput(throughput.or(old.throughput.filter(|_| same)))?;
    volume_type.check_throughput_ratio(iops, throughput)?;
    let multi_attach_enabled = multi_attach.unwrap_or(old.multi_attach_enabled);
    if multi_attach_enabled != old.multi_attach_enabled {
        if volume_type != VolumeType::Io2 {
            let text = format!("Multi-Attach cannot be changed on {} volumes.", volume_type.as_str());
            return Err(Ec2Error::InvalidParameterCombination(text));
        }
        if !volume.attachments.is_empty() {
            return Err(Ec2Error::VolumeInState { volume: volume.id.clone(), state: volume.state.as_str() });
        }
    }
    if multi_attach_enabled && !volume_type.multi_attach() {
        let text = format!("Multi-Attach volumes cannot become {}.", volume_type.as_str());
        return Err(Ec2Error::InvalidParameterCombination(text));
    }
    Ok(Shape { size_gib, volume_type, iops, throughput, multi_attach_enabled })
}

struct ModificationView<'a> {
    volume: &'a Volume,
    modification: &'a Modification,
}

impl Filterable for ModificationView<'_> {
    const NAMES: &'static [&'static str] = &[
        "modification-state",
        "original-iops",
        "original-size",
        "original-volume-type",
        "originalMultiAttachEnabled",
        "start-time",
        "target-iops",
        "target-size",
        "target-volume-type",
        "targetMultiAttachEnabled",
        "volume-id",
    ];

    fn values(&self, name: &str, found: &mut dyn FnMut(&str)) {
        let m = self.modification;
        match name {
            "modification-state" => found(m.state.as_str()),
            "start-time" => found(&time(m.start_time)),
            "volume-id" => found(self.volume.id.as_str()),
            "originalMultiAttachEnabled" => found(flag(m.original.multi_attach_enabled)),
            "targetMultiAttachEnabled" => found(flag(m.target.multi_attach_enabled)),
            _ => {
                let (shape, field) = match name.split_once('-') {
                    Some(("original", field)) => (&m.original, field),
                    Some((_, field)) => (&m.target, field),
                    None => return,
                };
                match field {
                    "size" => found(&shape.size_gib.to_string()),
                    "volume-type" => found(shape.volume_type.as_str()),
                    _ => shape.iops.into_iter().for_each(|iops| found(&iops.to_string())),
                }
            }
        }
    }

    fn tags(&self) -> Option<&BTreeMap<String, String>> {
        None
    }
}
