//! `checked`: by the end of the run, invariants were checked at least this often.

use std::collections::BTreeMap;

use crate::scenario::prelude::*;
use crate::scenario::shape::{Row, RowOf};
use crate::spec::Id;

pub(super) static KEY: Key =
    one("checked", Of::Keyed(invariants), "By the end, invariants were checked on at least this many occasions.")
        .like(&["- expect: {checked: {I3: 1}}"]);

fn invariants() -> Vec<Row> {
    let row = |id: &Id| Row {
        name: id.name().to_owned(),
        about: format!("{}: {}.", id.name(), id.of()),
        of: RowOf::Of(Of::Whole(1, None)),
    };
    Id::ALL.iter().map(row).collect()
}

pub(super) fn lower(checked: Spanned<BTreeMap<String, u64>>, _: Expect, _: &mut Steps<'_>) -> Checked<Expectation> {
    let Spanned { place, value } = checked;
    if value.is_empty() {
        return Err(Mistake::new(place, "no invariant is named", "here").help("write `{I2: 1}`"));
    }
    let count = |(name, least): (String, u64)| {
        let id: Id = name.parse().map_err(|message: String| Mistake::new(place, message, "here"))?;
        if least == 0 {
            return Err(Mistake::new(place, format!("{id} on 0 occasions requires nothing"), "here"));
        }
        Ok((id, least))
    };
    value.into_iter().map(count).collect::<Checked<_>>().map(Expectation::Checked)
}

pub(super) fn summary(counts: &BTreeMap<Id, u64>) -> Summary {
    let counts: Vec<String> = counts.iter().map(|(id, least)| format!("{id} on {least}")).collect();
    Summary::check(format!("by the end invariants were looked at: {} occasions or more", counts.join(", ")))
}
