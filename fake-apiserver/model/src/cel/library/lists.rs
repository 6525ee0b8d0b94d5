//! `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`, `first` and `last` of lists.

use std::cmp::Ordering;

use cel::common::types::{CelBool, CelInt, CelOptional, DYN_TYPE, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use super::values::{elements, fails};

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_extension(cel::extensions::lists)?;
    env.add_member_overload("isSorted", "list_is_sorted", LIST_TYPE, vec![], is_sorted)?;
    env.add_member_overload("sum", "list_sum", LIST_TYPE, vec![], sum)?;
    env.add_member_overload("min", "list_min", LIST_TYPE, vec![], min)?;
    env.add_member_overload("max", "list_max", LIST_TYPE, vec![], max)?;
    env.add_member_overload("indexOf", "list_index_of", LIST_TYPE, vec![DYN_TYPE], index_of)?;
    env.add_member_overload("lastIndexOf", "list_last_index_of", LIST_TYPE, vec![DYN_TYPE], last_index_of)?;
    env.add_member_overload("first", "list_first", LIST_TYPE, vec![], first)?;
    env.add_member_overload("last", "list_last", LIST_TYPE, vec![], last)
}

type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

fn compare(function: &str, a: &dyn Val, b: &dyn Val) -> Result<Ordering, ExecutionError> {
    a.as_comparer().ok_or_else(|| fails(function, "no such overload"))?.compare(b)
}

fn is_sorted<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let items = elements(&args, 0, "isSorted")?;
    for pair in items.windows(2) {
        if compare("isSorted", pair[0], pair[1])? == Ordering::Greater {
            return Ok(CowVal::owned(CelBool::from(false)));
        }
    }
    Ok(CowVal::owned(CelBool::from(true)))
}

fn sum<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let items = elements(&args, 0, "sum")?;
    let Some((first, rest)) = items.split_first() else { return Ok(CowVal::owned(CelInt::from(0))) };
    let mut total: Box<dyn Val + 'v> = first.clone_as_boxed();
    for item in rest {
        let adder = total.as_adder().ok_or_else(|| fails("sum", "no such overload"))?;
        let next = adder.add(*item)?.into_owned();
        total = next;
    }
    Ok(CowVal::Owned(total))
}

fn extreme<'b, 'v>(args: &[CowVal<'b, 'v>], function: &str, wanted: Ordering) -> Answer<'b, 'v> {
    let items = elements(args, 0, function)?;
    let Some((first, rest)) = items.split_first() else {
        return Err(fails(function, format!("{function} called on empty list")));
    };
    let mut found = *first;
    for item in rest {
        if compare(function, *item, found)? == wanted {
            found = *item;
        }
    }
    Ok(CowVal::Owned(found.clone_as_boxed()))
}

fn min<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    extreme(&args, "min", Ordering::Less)
}

fn max<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    extreme(&args, "max", Ordering::Greater)
}

fn place<'b, 'v>(args: &[CowVal<'b, 'v>], find: impl Fn(&[bool]) -> Option<usize>) -> Answer<'b, 'v> {
    let items = elements(args, 0, "indexOf")?;
    let Some(wanted) = args.get(1) else { return Err(ExecutionError::invalid_argument_count(2, args.len())) };
    let same: Vec<bool> = items.iter().map(|item| item.equals(wanted.as_ref())).collect();
    let at = find(&same).and_then(|at| i64::try_from(at).ok()).unwrap_or(-1);
    Ok(CowVal::owned(CelInt::from(at)))
}

fn index_of<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    place(&args, |same| same.iter().position(|is| *is))
}

fn last_index_of<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    place(&args, |same| same.iter().rposition(|is| *is))
}

fn optional<'b, 'v>(item: Option<&(dyn Val + 'v)>) -> CowVal<'b, 'v> {
    CowVal::owned(item.map_or_else(CelOptional::none, |item| CelOptional::of(item.clone_as_boxed())))
}

fn first<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    Ok(optional(elements(&args, 0, "first")?.first().copied()))
}

fn last<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    Ok(optional(elements(&args, 0, "last")?.last().copied()))
}
