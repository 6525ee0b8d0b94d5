//! Blocks public access to snapshots.

use super::code::Code;
use super::command::Reply;
use super::error::Ec2Error;
use super::listing::text;
use super::public_access::{BlockRequest, PublicAccess};
use super::{Call, State};

impl State {
    pub(super) fn block_request(&mut self, call: Call<'_>, request: BlockRequest) -> Result<Reply, Ec2Error> {
        call.check_dry_run()?;
        match request {
            BlockRequest::Get => {}
            BlockRequest::Enable(state) => self.account.public_access = state,
            BlockRequest::Disable => self.account.public_access = PublicAccess::Unblocked,
        }
        let mut fields = vec![text("state", self.account.public_access.as_str())];
        if request == BlockRequest::Get {
            fields.push(text("managedBy", "account"));
        }
        Ok(Reply::Fields(fields))
    }

    /// Checks that a snapshot may be shared publicly.
    pub(super) fn check_public(&self) -> Result<(), Ec2Error> {
        if self.account.public_access == PublicAccess::Unblocked {
            return Ok(());
        }
        Err(Ec2Error::Resource {
            code: Code::OperationNotPermitted,
            text: "Snapshots cannot be shared publicly: block public access is enabled for snapshots in this region."
                .to_owned(),
        })
    }
}
