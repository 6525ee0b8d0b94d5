//! StartInstances, StopInstances, RebootInstances and TerminateInstances.

use std::sync::Arc;
use std::time::Duration;

use substrate::Now;

use super::code::Code;
use super::command::{Reply, StopInstances};
use super::device::DeviceSlot;
use super::error::{Ec2Error, Missing};
use super::ids::{InstanceId, VolumeId};
use super::instance::{Instance, InstanceState};
use super::latency::Operation;
use super::options::LaunchOptions;
use super::timers::{HoldReason, Progress, Subject};
use super::volume::AttachmentState;
use super::{Call, State};
use crate::events::InstancePhase;

/// Time that a terminated instance stays listed.
const REMEMBERED: Duration = Duration::from_secs(3600);

impl State {
    pub(super) fn start_instances(&mut self, call: Call<'_>, ids: &[InstanceId]) -> Result<Reply, Ec2Error> {
        let wanted = [InstanceState::Stopped, InstanceState::Pending, InstanceState::Running];
        self.check_power(ids, &wanted, "started")?;
        self.check_roots(ids)?;
        call.check_dry_run()?;
        self.power(call, ids, |instance| match instance.state {
            InstanceState::Stopped => Some((InstanceState::Pending, Operation::RunInstances, "start")),
            _ => None,
        })
    }

    pub(super) fn stop_instances(&mut self, call: Call<'_>, request: &StopInstances) -> Result<Reply, Ec2Error> {
        let wanted = [InstanceState::Stopped, InstanceState::Stopping, InstanceState::Running];
        self.check_power(&request.ids, &wanted, "stopped")?;
        self.check_allowed(&request.ids, "stopped", "disableApiStop", |options| options.disable_api_stop)?;
        call.check_dry_run()?;
        self.power(call, &request.ids, |instance| match instance.state {
            InstanceState::Running => Some((InstanceState::Stopping, Operation::StopInstances, "stop")),
            _ => None,
        })
    }

    pub(super) fn reboot_instances(&mut self, call: Call<'_>, ids: &[InstanceId]) -> Result<Reply, Ec2Error> {
        self.check_power(ids, &[InstanceState::Running], "rebooted")?;
        call.check_dry_run()?;
        for id in ids {
            self.guest_ended(call.now, id);
            self.note_instance(id, InstancePhase::Rebooted);
        }
        Ok(Reply::Done)
    }

    pub(super) fn terminate_instances(&mut self, call: Call<'_>, ids: &[InstanceId]) -> Result<Reply, Ec2Error> {
        self.check_power(ids, &[], "terminated")?;
        let protected = |options: &LaunchOptions| options.disable_api_termination;
        self.check_allowed(ids, "terminated", "disableApiTermination", protected)?;
        call.check_dry_run()?;
        let reply = self.power(call, ids, |instance| match instance.state {
            InstanceState::ShuttingDown | InstanceState::Terminated => None,
            _ => Some((InstanceState::ShuttingDown, Operation::TerminateInstances, "terminate")),
        });
        for id in ids {
            self.let_go(call, id);
        }
        reply
    }

    /// Starts the release of the data volumes of `id`, which is terminating. They are free about a minute later.
    fn let_go(&mut self, call: Call<'_>, id: &InstanceId) {
        let Some(instance) = self.instances.get(id) else { return };
        let held: Vec<VolumeId> = instance.slots.values().cloned().collect();
        for volume in held {
            let Some(attachment) = self.volumes.get(&volume).and_then(|v| v.attachments.get(id)) else { continue };
            let goes = attachment.delete_on_termination || self.seeded_bugs.goes_with_instance;
            if goes || attachment.state == AttachmentState::Detaching || self.seeded_bugs.holds_volumes {
                continue;
            }
            let old = attachment.progress.clone();
            self.timers.cancel(&old);
            let call = Call { stick: None, ..call };
            let progress = self.begin_attachment(call, Operation::ImplicitDetach, "let go", &volume, id);
            if let Some(v) = self.volumes.get_mut(&volume)
                && let Some(attachment) = Arc::make_mut(v).attachments.get_mut(id)
            {
                attachment.state = AttachmentState::Detaching;
                attachment.progress = progress;
            }
            self.note_attachment(&volume, id);
            if self.seeded_bugs.frees_everywhere {
                let others = self.volumes.get(&volume).map(|v| v.attachments.keys().cloned().collect::<Vec<_>>());
                for other in others.unwrap_or_default().iter().filter(|other| *other != id) {
                    self.remove_attachment(call.now.mono, &volume, other);
                }
            }
        }
    }

    pub(super) fn end_instance_transition(&mut self, now: Now, id: &InstanceId) {
        let Some(instance) = self.instances.get_mut(id).map(Arc::make_mut) else { return };
        instance.progress = Progress::Settled;
        instance.state = match instance.state {
            InstanceState::Pending => InstanceState::Running,
            InstanceState::Stopping => InstanceState::Stopped,
            InstanceState::ShuttingDown => InstanceState::Terminated,
            settled => settled,
        };
        let state = instance.state;
        self.note_instance(id, state);
        match state {
            InstanceState::Stopped => {
                self.guest_ended(now, id);
                if self.seeded_bugs.stop_detaches {
                    self.let_go(Call { now, dry_run: false, stick: None }, id);
                }
            }
            InstanceState::Terminated => self.end_instance(now, id),
            _ => {}
        }
    }

    /// Ends the guest of `id`: clears its mounts and poisoned device names.
    pub(super) fn guest_ended(&mut self, now: Now, id: &InstanceId) {
        let Some(instance) = self.instances.get_mut(id).map(Arc::make_mut) else { return };
        if !self.seeded_bugs.keeps_mounts {
            instance.mounted.clear();
        }
        instance.poisoned.clear();
        instance.impaired = false;
        self.release_held(now.mono, id, HoldReason::Mounted);
        self.release_held(now.mono, id, HoldReason::PoisonedName);
    }

    /// Releases everything from the terminated `id`. It stays listed for an hour.
    pub(super) fn end_instance(&mut self, now: Now, id: &InstanceId) {
        let Some(instance) = self.instances.get(id) else { return };
        let held: Vec<VolumeId> = instance.slots.values().cloned().collect();
        for interface in instance.interface_ids() {
            self.account.tags.remove(&interface);
        }
        for volume in held {
            let goes = self.volumes.get(&volume).and_then(|v| v.attachments.get(id)).map(|a| a.delete_on_termination);
            if goes == Some(false) && self.seeded_bugs.holds_volumes {
                continue;
            }
            self.remove_attachment(now.mono, &volume, id);
            if (goes == Some(true) || self.seeded_bugs.goes_with_instance)
                && let Some(gone) = self.volumes.remove(&volume)
            {
                self.timers.cancel(&gone.progress);
                self.note_deleted(&gone);
            }
        }
        let due = now.mono + self.scale.apply(REMEMBERED);
        self.memories.set(due, Subject::Forget(id.clone()));
    }

    fn check_power(&self, ids: &[InstanceId], from: &[InstanceState], verb: &'static str) -> Result<(), Ec2Error> {
        let missing: Vec<String> =
            ids.iter().filter(|id| !self.instances.contains_key(*id)).map(ToString::to_string).collect();
        if !missing.is_empty() {
            return Err(Ec2Error::InstanceNotFound(Missing(missing)));
        }
        let wrong = ids.iter().filter_map(|id| self.instances.get(id)).find(|i| !from.contains(&i.state));
        match wrong {
            Some(instance) if verb == "stopped" && instance.state == InstanceState::Pending && instance.draws == 0 => {
                Err(Ec2Error::NeverRan(instance.id.clone()))
            }
            Some(instance) if !from.is_empty() => {
                Err(Ec2Error::IncorrectInstanceState { instance: instance.id.clone(), verb })
            }
            _ => Ok(()),
        }
    }

    /// Checks that each stopped instance of `ids` has a boot volume.
    fn check_roots(&self, ids: &[InstanceId]) -> Result<(), Ec2Error> {
        let stopped = ids.iter().filter_map(|id| self.instances.get(id)).filter(|i| i.state == InstanceState::Stopped);
        match stopped.into_iter().find(|i| !i.slots.contains_key(&DeviceSlot::root())) {
            None => Ok(()),
            Some(instance) => Err(Ec2Error::InvalidParameterValue(format!(
                "Invalid value '{}' for instanceId. Instance does not have a volume attached at root ({})",
                instance.id, instance.root_device
            ))),
        }
    }

    /// Checks that no attribute of an instance forbids the request. If one of several forbids it, all stay unchanged.
    fn check_allowed(
        &self,
        ids: &[InstanceId],
        verb: &str,
        attribute: &str,
        forbids: impl Fn(&LaunchOptions) -> bool,
    ) -> Result<(), Ec2Error> {
        match ids.iter().filter_map(|id| self.instances.get(id)).find(|i| forbids(&i.options)) {
            None => Ok(()),
            Some(instance) => Err(Ec2Error::Resource {
                code: Code::OperationNotPermitted,
                text: format!(
                    "The instance '{}' may not be {verb}. Modify its '{attribute}' instance attribute and try again.",
                    instance.id
                ),
            }),
        }
    }

    fn power(
        &mut self,
        call: Call<'_>,
        ids: &[InstanceId],
        change: impl Fn(&Instance) -> Option<(InstanceState, Operation, &'static str)>,
    ) -> Result<Reply, Ec2Error> {
        let mut changes = Vec::new();
        for id in ids {
            let Some(instance) = self.instances.get(id) else { continue };
            let before = instance.state;
            let Some((state, operation, verb)) = change(instance) else {
                changes.push((id.clone(), before, before));
                continue;
            };
            let (old, draws) = (instance.progress.clone(), instance.draws + 1);
            self.timers.cancel(&old);
            let draw = format!("{verb} {id} {draws}");
            let progress = self.begin(call, operation, format_args!("{draw}"), Subject::Instance(id.clone()));
            if let Some(instance) = self.instances.get_mut(id).map(Arc::make_mut) {
                (instance.state, instance.progress, instance.draws) = (state, progress, draws);
                if state == InstanceState::Pending {
                    instance.boot();
                }
                instance.ended = (state != InstanceState::Pending).then_some(call.now.wall);
            }
            self.note_instance(id, state);
            changes.push((id.clone(), before, state));
        }
        Ok(Reply::InstanceChanges { changes })
    }

    /// Removes a terminated instance.
    pub(super) fn forget_instance(&mut self, id: &InstanceId) {
        if self.instances.get(id).is_some_and(|instance| instance.state == InstanceState::Terminated) {
            self.instances.remove(id);
        }
    }
}
