//! `find` and `findAll`.

use ::regex::Regex;
use cel::common::types::{CelInt, CelList, CelString};
use cel::{DeclarationError, Env, ExecutionError};

use super::values::{fails, texts};

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_member_overload!(env, fn find: (CelString, CelString) -> Result<CelString>)?;
    cel::add_member_overload!(env, fn find_all: (CelString, CelString) -> Result<CelList>)?;
    cel::add_member_overload!(env, fn find_some: (CelString, CelString, CelInt) -> Result<CelList>, name = "findAll")
}

fn pattern(text: &CelString<'_>) -> Result<Regex, ExecutionError> {
    Regex::new(text.inner()).map_err(|why| fails("find", format!("Illegal regex: {why}")))
}

fn find(text: &CelString<'_>, regex: &CelString<'_>) -> Result<CelString<'static>, ExecutionError> {
    let found = pattern(regex)?.find(text.inner()).map_or("", |found| found.as_str()).to_owned();
    Ok(found.into())
}

fn find_all(text: &CelString<'_>, regex: &CelString<'_>) -> Result<CelList<'static>, ExecutionError> {
    find_some(text, regex, &CelInt::from(-1))
}

fn find_some(text: &CelString<'_>, regex: &CelString<'_>, most: &CelInt) -> Result<CelList<'static>, ExecutionError> {
    // A negative number means no limit.
    let most = usize::try_from(*most.inner()).unwrap_or(usize::MAX);
    Ok(texts(pattern(regex)?.find_iter(text.inner()).take(most).map(|found| found.as_str().to_owned())))
}
