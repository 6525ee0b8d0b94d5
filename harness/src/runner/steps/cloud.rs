//! Steps that act on the cloud directly.

use substrate::json::Value as Tree;

use super::{Failure, Run};
use crate::runner::describe::tree;
use crate::runner::ec2::{self, Answer};
use crate::scenario::steps::admin_action::{About, AdminAction};
use crate::scenario::steps::ec2::{Call, Id};
use crate::spec::object::{Kind, ObjectRef};

/// Volume behind a claim or a PersistentVolume, as Kubernetes knows it.
pub(super) struct Known {
    /// Name of the PersistentVolume.
    pub(super) pv: String,
    /// Name of the driver.
    pub(super) driver: String,
    /// Volume handle.
    pub(super) handle: String,
}

impl Run<'_> {
    pub(super) async fn ec2(&mut self, call: &Call) -> Result<(), Failure> {
        let mut parameters = Vec::new();
        for (name, id) in &call.parameters {
            parameters.push((name.clone(), self.id(id).await?));
        }
        let expected = match &call.fails {
            Some(code) => format!("{} fails with {code}", call.action),
            None => format!("the cloud accepts {}", call.action),
        };
        for (name, id) in parameters.iter().filter(|_| !call.action.starts_with("Describe")) {
            if ["VolumeId", "SnapshotId", "ResourceId"].iter().any(|of| name.contains(of)) {
                self.applied_objects().touched(id);
            }
        }
        let answer = ec2::perform(self.cluster, &call.action, &parameters).await;
        let answer = answer.map_err(|seen| self.failure(&*expected, seen))?;
        match (&answer, &call.fails) {
            (Answer::Done(_), None) => {}
            (Answer::Error(code, _), Some(wanted)) if code == wanted => {}
            (Answer::Done(_), Some(_)) => return Err(self.failure(expected, "it succeeded")),
            (Answer::Error(code, message), _) => return Err(self.failure(expected, format!("{code}: {message}"))),
        }
        if let (Answer::Done(xml), Some(that)) = (&answer, &call.that) {
            let body = tree(xml).map_err(|seen| self.failure(&*expected, seen))?;
            if that.holds(&body) != Ok(true) {
                let expected = format!("the answer to {} satisfies `{}`", call.action, that.source());
                return Err(self.failure(expected, that.seen(&body)));
            }
        }
        let Some(save) = &call.save else { return Ok(()) };
        let mut tag = save.from.clone();
        tag[..1].make_ascii_lowercase();
        match answer.field(&tag) {
            Some(id) => drop(self.saved.insert(save.name.clone(), id.to_owned())),
            None => {
                let expected = format!("the answer to {} has a {}", call.action, save.from);
                return Err(self.failure(expected, "it has none"));
            }
        }
        Ok(())
    }

    pub(super) async fn admin_action(&self, admin_action: &AdminAction) -> Result<(), Failure> {
        let (expected, id) = (format!("the cloud accepts: {admin_action}"), self.id(&admin_action.target).await?);
        self.applied_objects().touched(&id);
        let action = match admin_action.verb.as_str() {
            "stop" => Some("StopInstances"),
            "start" => Some("StartInstances"),
            "reboot" => Some("RebootInstances"),
            _ => None,
        };
        if let Some(action) = action {
            let answer = ec2::perform(self.cluster, action, &[("InstanceId.1".to_owned(), id)]).await;
            return match answer.map_err(|seen| self.failure(&*expected, seen))? {
                Answer::Done(_) => Ok(()),
                Answer::Error(code, message) => Err(self.failure(expected, format!("{code}: {message}"))),
            };
        }
        let (path, body) = match admin_action.about {
            About::Instance => (format!("instances/{id}/{}", admin_action.verb), admin_action.body.clone()),
            About::Volume => (format!("volumes/{id}/{}", admin_action.verb), admin_action.body.clone()),
            About::Snapshot => (format!("snapshots/{id}/{}", admin_action.verb), admin_action.body.clone()),
            About::Token => ("tokens/burn".to_owned(), serde_json::json!({ "token": id })),
            About::Cloud => ("switches".to_owned(), admin_action.body.clone()),
        };
        let answer = ec2::admin_action(self.cluster, &path, &body).await;
        let answer = answer.map_err(|seen| self.failure(&*expected, seen))?;
        if answer["changed"] == false {
            return Err(self.failure(expected, "no transition of it was under way"));
        }
        Ok(())
    }

    /// Resolves an id at the start of the step.
    pub(super) async fn id(&self, id: &Id) -> Result<String, Failure> {
        match id {
            Id::Text(text) => Ok(text.clone()),
            Id::Volume(object) => Ok(self.known_volume(object).await?.handle),
            Id::Instance(node) => {
                let instance = self.cluster.instance(node).map(str::to_owned);
                instance.ok_or_else(|| self.failure(format!("{node} has an instance"), "it has none"))
            }
            Id::Saved(name) => {
                let saved = self.saved.get(name).cloned();
                saved.ok_or_else(|| self.failure(format!("an earlier step saved {name}"), "none did"))
            }
        }
    }

    /// Finds the volume of a claim or a PersistentVolume.
    pub(super) async fn known_volume(&self, object: &ObjectRef) -> Result<Known, Failure> {
        let expected = format!("{object} has a volume");
        let read = async |object: &ObjectRef| -> Result<Tree, Failure> {
            let value = self.api(&format!("get {object}"), self.objects.get(object).await)?;
            value.ok_or_else(|| self.failure(&*expected, format!("{object} does not exist")))
        };
        let mut value = read(object).await?;
        if object.kind == Kind::claim() {
            let pv = value["spec"]["volumeName"].as_str();
            let pv = pv.ok_or_else(|| self.failure(&*expected, "the claim is not bound"))?;
            value = read(&ObjectRef::new(Kind::volume(), None, pv)).await?;
        }
        let csi = &value["spec"]["csi"];
        let (handle, driver) = (csi["volumeHandle"].as_str(), csi["driver"].as_str());
        let Some((handle, driver)) = handle.zip(driver) else {
            return Err(self.failure(expected, "its PersistentVolume is of no CSI driver"));
        };
        let pv = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(Known { pv, driver: driver.to_owned(), handle: handle.to_owned() })
    }
}
