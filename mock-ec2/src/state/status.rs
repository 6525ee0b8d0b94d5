//! DescribeVolumeStatus, DescribeInstanceStatus and the volume attributes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use substrate::Now;

use super::command::{
    DescribeInstanceStatus, DescribeVolumeAttribute, DescribeVolumeStatus, ModifyVolumeAttribute, Reply,
    VolumeStatusReply,
};
use super::error::Ec2Error;
use super::filter::{Filterable, check, matches};
use super::ids::VolumeId;
use super::instance::{Instance, InstanceState};
use super::snapshot::share;
use super::volume::{Volume, VolumeState};
use super::{Call, State};

impl State {
    pub(super) fn describe_volume_status(&self, now: Now, request: &DescribeVolumeStatus) -> Result<Reply, Ec2Error> {
        let page = request.page.check((!request.ids.is_empty()).then_some("volumeSet"))?;
        check::<VolumeStatusView<'_>>(&request.filters, false)?;
        let rows = self.volumes.select(&request.ids, &request.filters, page.after());
        let wanted = rows
            .map_err(Ec2Error::VolumeNotFound)?
            .map(|v| VolumeStatusReply { volume: v.clone(), initializing: initializing(v, now.mono) })
            .filter(|s| matches(&VolumeStatusView { status: s, state: self }, &request.filters));
        let (statuses, next_token) = page.cut(wanted, |s| s.volume.id.as_str());
        Ok(Reply::VolumeStatuses { statuses, next_token })
    }

    pub(super) fn describe_volume_attribute(&self, request: &DescribeVolumeAttribute) -> Result<Reply, Ec2Error> {
        Ok(Reply::VolumeAttribute(self.volume(&request.volume)?.clone(), request.attribute))
    }

    pub(super) fn modify_volume_attribute(
        &mut self,
        call: Call<'_>,
        request: &ModifyVolumeAttribute,
    ) -> Result<Reply, Ec2Error> {
        self.volume(&request.volume)?;
        let Some(auto_enable_io) = request.auto_enable_io else {
            return Err(Ec2Error::MissingParameter("AutoEnableIO".to_owned()));
        };
        call.check_dry_run()?;
        if let Some(volume) = self.volumes.get_mut(&request.volume) {
            Arc::make_mut(volume).auto_enable_io = auto_enable_io;
        }
        Ok(Reply::Done)
    }

    /// Enables the I/O of an impaired volume.
    pub(super) fn enable_volume_io(&mut self, call: Call<'_>, id: &VolumeId) -> Result<Reply, Ec2Error> {
        self.volume(id)?;
        call.check_dry_run()?;
        if let Some(volume) = self.volumes.get_mut(id) {
            let volume = Arc::make_mut(volume);
            volume.io_enabled |= volume.impaired;
        }
        Ok(Reply::Done)
    }

    pub(super) fn describe_instance_status(&self, request: &DescribeInstanceStatus) -> Result<Reply, Ec2Error> {
        let page = request.page.check((!request.ids.is_empty()).then_some("instancesSet"))?;
        check::<InstanceStatusView<'_>>(&request.filters, false)?;
        let rows = self.instances.select(&request.ids, &request.filters, page.after());
        let wanted = rows
            .map_err(Ec2Error::InstanceNotFound)?
            .filter(|i| request.all || i.state == InstanceState::Running)
            .filter(|i| matches(&InstanceStatusView { instance: i, state: self }, &request.filters))
            .cloned();
        let (instances, next_token) = page.cut(wanted, |i| i.id.as_str());
        Ok(Reply::InstanceStatuses { instances, next_token })
    }
}

/// Returns loaded blocks of `volume` at `now` in percent, and seconds until the rest is loaded.
fn initializing(volume: &Volume, now: Duration) -> Option<(u64, u64)> {
    let work = volume.initialization.as_ref().filter(|i| now < i.span.1)?;
    Some((share(work.span, now), work.span.1.saturating_sub(now).as_secs() + 1))
}

/// Returns the status words of a volume: overall, I/O, and initialization.
pub(crate) fn volume_words(status: &VolumeStatusReply) -> (&'static str, &'static str, &'static str) {
    let blocks = if status.initializing.is_some() { "initializing" } else { "completed" };
    match (status.volume.state, status.volume.impaired) {
        // The data remains suspect, so the status stays a warning; enabled I/O works again.
        (_, true) if status.volume.io_enabled => ("warning", "passed", blocks),
        (_, true) => ("impaired", "failed", blocks),
        (VolumeState::Creating, _) => ("insufficient-data", "not-applicable", blocks),
        _ => ("ok", "passed", blocks),
    }
}

/// Returns the status word of an instance.
pub(crate) fn instance_word(instance: &Instance) -> &'static str {
    match (instance.state, instance.impaired) {
        (InstanceState::Running, true) => "impaired",
        (InstanceState::Running, false) => "ok",
        (InstanceState::Pending, _) => "initializing",
        _ => "not-applicable",
    }
}

/// Returns the status word of an instance's volumes, which only the Nitro System reports. They stay reachable if the
/// instance is impaired.
pub(crate) fn disks_word(instance: &Instance) -> Option<&'static str> {
    let word = match instance_word(instance) {
        "impaired" => "ok",
        word => word,
    };
    instance.on_nitro().then_some(word)
}

struct VolumeStatusView<'a> {
    status: &'a VolumeStatusReply,
    state: &'a State,
}

impl Filterable for VolumeStatusView<'_> {
    const NAMES: &'static [&'static str] = &[
        "action.code",
        "action.description",
        "action.event-id",
        "attachment-status.instance-id",
        "attachment-status.io-performance",
        "availability-zone",
        "availability-zone-id",
        "event.description",
        "event.event-id",
        "event.event-type",
        "event.not-after",
        "event.not-before",
        "volume-status.details-name",
        "volume-status.details-status",
        "volume-status.status",
    ];

    fn values(&self, name: &str, found: &mut dyn FnMut(&str)) {
        let volume = &self.status.volume;
        let (whole, io, blocks) = volume_words(self.status);
        match name {
            "action.code" if volume.impaired && !volume.io_enabled => found("enable-volume-io"),
            "action.description" if volume.impaired && !volume.io_enabled => found("Enable Volume I/O"),
            "attachment-status.instance-id" => volume.attachments.keys().for_each(|i| found(i.as_str())),
            "attachment-status.io-performance" if !volume.attachments.is_empty() => found("not-applicable"),
            "availability-zone" => found(&volume.zone),
            "availability-zone-id" => found(self.state.zone_id(&volume.zone)),
            "event.event-type" if volume.impaired => found("potential-data-inconsistency"),
            "volume-status.details-name" => {
                ["io-enabled", "io-performance", "initialization-state"].into_iter().for_each(found)
            }
            "volume-status.details-status" => [io, "not-applicable", blocks].into_iter().for_each(found),
            "volume-status.status" => found(whole),
            _ => {}
        }
    }

    fn tags(&self) -> Option<&BTreeMap<String, String>> {
        None
    }
}

struct InstanceStatusView<'a> {
    instance: &'a Instance,
    state: &'a State,
}

impl Filterable for InstanceStatusView<'_> {
    const NAMES: &'static [&'static str] = &[
        "application-status.status",
        "attached-ebs-status.status",
        "availability-zone",
        "availability-zone-id",
        "event.code",
        "event.description",
        "event.instance-event-id",
        "event.not-after",
        "event.not-before",
        "event.not-before-deadline",
        "instance-state-code",
        "instance-state-name",
        "instance-status.reachability",
        "instance-status.status",
        "operator.managed",
        "operator.principal",
        "system-status.reachability",
        "system-status.status",
    ];

    fn values(&self, name: &str, found: &mut dyn FnMut(&str)) {
        let instance = self.instance;
        let word = instance_word(instance);
        match name {
            "availability-zone" => found(&instance.zone),
            "availability-zone-id" => found(self.state.zone_id(&instance.zone)),
            "instance-state-code" => found(&instance.state.wire().1.to_string()),
            "instance-state-name" => found(instance.state.wire().0),
            "instance-status.status" | "system-status.status" => found(word),
            "instance-status.reachability" | "system-status.reachability" => found(reachability(word)),
            "attached-ebs-status.status" => disks_word(instance).iter().for_each(|word| found(word)),
            "operator.managed" => found("false"),
            // Scheduled events are not supported.
            _ => {}
        }
    }

    fn tags(&self) -> Option<&BTreeMap<String, String>> {
        None
    }
}

/// Returns the reachability check for a status word.
pub(crate) fn reachability(word: &str) -> &'static str {
    match word {
        "ok" => "passed",
        "impaired" => "failed",
        "initializing" => "initializing",
        _ => "not-applicable",
    }
}
