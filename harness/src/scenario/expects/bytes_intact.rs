//! `bytes-intact`: the workload of a pod found the records of an earlier one, with correct checksums.

use crate::scenario::prelude::*;

pub(super) static KEY: Key =
    one("bytes-intact", Of::Object, "The pod's workload found the records of an earlier one when it started.")
        .like(&["- expect: {bytes-intact: pod/web, records: 5}"]);

/// A pod, and the minimum number of records that its workload found when it started.
#[derive(Clone, Debug, PartialEq)]
pub struct BytesIntact {
    pub pod: ObjectRef,
    pub records: u64,
}

pub(super) fn lower(text: Spanned<String>, expect: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
    let pod = steps.object(&text)?;
    if pod.kind != Kind::pod() {
        let message = format!("a {} keeps no records", pod.kind.kind());
        return Err(Mistake::new(text.place, message, "not a pod"));
    }
    let records = expect.records.map_or(1, |records| records.value);
    Ok(Expectation::BytesIntact(BytesIntact { pod, records }))
}

pub(super) fn summary(BytesIntact { pod, records }: &BytesIntact) -> Summary {
    Summary::check(format!("{pod} found at least {records} intact records when it started")).of(pod)
}
