//! Changes and describes restore permissions of snapshots.

use std::sync::Arc;

use super::code::Code;
use super::command::{ModifySnapshotAttribute, Reply, SnapshotAttribute};
use super::error::Ec2Error;
use super::ids::SnapshotId;
use super::listing::{Field, list, text};
use super::sharing::{Sharing, is_account};
use super::{Call, State};

impl ModifySnapshotAttribute {
    /// Returns the error for a value of the item type `kind` that cannot be, in the words for images
    /// (hashicorp/packer#1068, kenzanlabs/spinnaker-terraform#29).
    pub(crate) fn invalid_item(value: &str, kind: &str) -> Ec2Error {
        let text = format!("Invalid attribute item value \"{value}\" for {kind} item type.");
        Ec2Error::Resource { code: Code::InvalidAMIAttributeItemValue, text }
    }
}

impl State {
    pub(super) fn describe_snapshot_attribute(
        &self,
        id: &SnapshotId,
        attribute: SnapshotAttribute,
    ) -> Result<Reply, Ec2Error> {
        let sharing = &self.snapshot(id)?.sharing;
        let field = match attribute {
            SnapshotAttribute::CreateVolumePermission => {
                let everybody = sharing.everybody.then(|| vec![text("group", "all")]);
                let accounts = sharing.accounts.iter().map(|account| vec![text("userId", account)]);
                list("createVolumePermission", everybody.into_iter().chain(accounts).collect::<Vec<_>>())
            }
            SnapshotAttribute::ProductCodes => ("productCodes", Field::List(Vec::new())),
        };
        Ok(Reply::Fields(vec![text("snapshotId", id), field]))
    }

    pub(super) fn modify_snapshot_attribute(
        &mut self,
        call: Call<'_>,
        request: &ModifySnapshotAttribute,
    ) -> Result<Reply, Ec2Error> {
        let snapshot = self.snapshot(&request.snapshot)?;
        let mut sharing = snapshot.sharing.clone();
        for (user, may) in &request.accounts {
            if !is_account(user) {
                return Err(ModifySnapshotAttribute::invalid_item(user, "userId"));
            }
            if *may {
                sharing.accounts.insert(user.clone())
            } else {
                sharing.accounts.remove(user)
            };
        }
        sharing.everybody = request.everybody.unwrap_or(sharing.everybody);
        if sharing.everybody && snapshot.encrypted {
            return Err(Ec2Error::Resource {
                code: Code::OperationNotPermitted,
                text: "Encrypted snapshots cannot be shared with everybody.".to_owned(),
            });
        }
        if request.everybody == Some(true) {
            self.check_public()?;
        }
        call.check_dry_run()?;
        if let Some(snapshot) = self.snapshots.get_mut(&request.snapshot) {
            Arc::make_mut(snapshot).sharing = sharing;
        }
        Ok(Reply::Done)
    }

    pub(super) fn reset_snapshot_attribute(&mut self, call: Call<'_>, id: &SnapshotId) -> Result<Reply, Ec2Error> {
        self.snapshot(id)?;
        call.check_dry_run()?;
        if let Some(snapshot) = self.snapshots.get_mut(id) {
            Arc::make_mut(snapshot).sharing = Sharing::default();
        }
        Ok(Reply::Done)
    }
}
