//! The step `csi`: one call of the driver.

use std::time::Duration;

use csi_mock::calls::code_name;
use csi_proto::{Code, Rpc, Status};
use serde_json::Value;
use substrate::json::Value as Tree;

use super::requests::at;
use super::{Failure, Run};
use crate::scenario::steps::csi::Call;

/// Time limit for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Run<'_> {
    pub(super) async fn csi(&mut self, call: &Call) -> Result<(), Failure> {
        let expected = format!("the driver answers as expected: {call}");
        let mut request = call.request.clone();
        for (pointer, id) in &call.references {
            let id = self.id(id).await?;
            if let Some(slot) = request.pointer_mut(pointer) {
                *slot = Value::String(id);
            }
        }
        if let Some(volume) = request["volume_id"].as_str().filter(|_| !call.only_looks()) {
            self.applied_objects().touched(volume);
        }
        let service = match (&call.node, call.is_efs) {
            (None, false) => "csi-controller".to_owned(),
            (None, true) => crate::spec::names::EFS_CONTROLLER.to_owned(),
            (Some(node), false) => format!("csi-{node}"),
            (Some(node), true) => format!("efs-csi-{node}"),
        };
        let service = self.cluster.driver(&service).map_err(|seen| self.failure(&*expected, seen))?;
        let rpc = Rpc::find(&call.rpc).expect("the check of the step has found it");
        let answer = match tokio::time::timeout(TIMEOUT, rpc.call(service, Tree::from(request))).await {
            Ok(answer) => answer,
            Err(_) => Err(Status::new(Code::DeadlineExceeded, format!("no answer within {TIMEOUT:?}"))),
        };
        match (&answer, &call.fails) {
            (Ok(_), None) => {}
            (Err(status), Some(wanted)) if code_name(status.code()) == wanted => {}
            (Ok(_), Some(_)) => return Err(self.failure(expected, "it succeeded")),
            (Err(status), _) => {
                let seen = format!("{}: {}", code_name(status.code()), status.message());
                return Err(self.failure(expected, seen));
            }
        }
        let Ok(answer) = answer else { return Ok(()) };
        if let Some(that) = &call.that
            && that.holds(&answer) != Ok(true)
        {
            let expected = format!("the answer to {} satisfies `{}`", call.rpc, that.source());
            return Err(self.failure(expected, that.seen(&answer)));
        }
        let Some((name, field)) = &call.save else { return Ok(()) };
        match at(&answer, field) {
            Some(text) => drop(self.saved.insert(name.clone(), text)),
            None => return Err(self.failure(format!("the answer to {} has {field}", call.rpc), "it has none")),
        }
        Ok(())
    }
}
