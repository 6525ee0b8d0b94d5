//! Creation (apiserver `registry/rest/create.go`, `registry/generic/registry/store.go`).

use substrate::Now;
use substrate::json::Value;

use super::command::{Reply, WriteOptions};
use super::identify::{identify, stored};
use super::status::Status;
use super::value;
use super::write::Write;
use super::{Store, shape};
use crate::kinds::Kind;

impl Store {
    pub(super) fn create(
        &mut self,
        now: Now,
        served: &Kind,
        namespace: Option<&str>,
        mut object: Value,
        options: WriteOptions,
    ) -> Result<Reply, Status> {
        let unknown = shape::decode(served, &mut object)?;
        self.judge_fields(&options, unknown).map_err(|why| shape::refusal(served, why))?;
        identify(served, namespace, None, &mut object)?;
        let (_, mut object) = stored(served, object);
        // A client cannot set the managers of a new object.
        value::metadata(&mut object).remove("managedFields");
        self.write(Write::new(served, namespace, object, options, now))
    }
}
