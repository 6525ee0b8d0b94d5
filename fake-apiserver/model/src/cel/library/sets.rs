//! `sets.contains`, `sets.equivalent` and `sets.intersects`.

use cel::common::types::{CelBool, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use super::values::elements;

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload("sets.contains", "list_sets_contains_list", vec![LIST_TYPE, LIST_TYPE], contains)?;
    env.add_overload("sets.equivalent", "list_sets_equivalent_list", vec![LIST_TYPE, LIST_TYPE], equivalent)?;
    env.add_overload("sets.intersects", "list_sets_intersects_list", vec![LIST_TYPE, LIST_TYPE], intersects)
}

type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

fn has(all: &[&dyn Val], wanted: &dyn Val) -> bool {
    all.iter().any(|item| item.equals(wanted))
}

fn answer<'b, 'v>(
    args: &[CowVal<'b, 'v>],
    function: &str,
    holds: impl Fn(&[&dyn Val], &[&dyn Val]) -> bool,
) -> Answer<'b, 'v> {
    let (a, b) = (elements(args, 0, function)?, elements(args, 1, function)?);
    Ok(CowVal::owned(CelBool::from(holds(&a, &b))))
}

fn contains<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    answer(&args, "sets.contains", |a, b| b.iter().all(|item| has(a, *item)))
}

fn equivalent<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    answer(&args, "sets.equivalent", |a, b| b.iter().all(|item| has(a, *item)) && a.iter().all(|item| has(b, *item)))
}

fn intersects<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    answer(&args, "sets.intersects", |a, b| b.iter().any(|item| has(a, *item)))
}
