//! Validation of success policies of indexed jobs (`validateSuccessPolicy`). The number of rules is not limited.

use substrate::json::Value;

use super::validate::NEGATIVE;
use crate::state::FieldError;
use crate::state::value::{int, list};

pub(super) fn check(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let rules = list(spec, &["successPolicy", "rules"]);
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(format!("{at}.rules"), why));
    }
    let completions = int(spec, &["completions"]).unwrap_or(0);
    for (i, rule) in rules.iter().enumerate() {
        of_rule(rule, completions, &format!("{at}.rules[{i}]"), errors);
    }
}

fn of_rule(rule: &Value, completions: i64, at: &str, errors: &mut Vec<FieldError>) {
    let (count, indexes) = (int(rule, &["succeededCount"]), rule["succeededIndexes"].as_str());
    if count.is_none() && indexes.is_none() {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(at, why));
    }
    let mut total = 0;
    if let Some(text) = indexes {
        match number_of_indexes(text, completions) {
            Ok(number) => total = number,
            Err(why) => {
                let why = format!("error parsing succeededIndexes: {why}");
                errors.push(FieldError::invalid(format!("{at}.succeededIndexes"), &text.into(), why));
            }
        }
    }
    let Some(count) = count else { return };
    let mut refuse = |why: String| errors.push(FieldError::invalid(format!("{at}.succeededCount"), &count.into(), why));
    if count < 0 {
        refuse(NEGATIVE.to_owned());
    }
    if count > completions {
        refuse(format!("must be less than or equal to {completions} (the number of specified completions)"));
    }
    if indexes.is_some() && count > total {
        let of = "the number of indexes in the specified succeededIndexes field";
        refuse(format!("must be less than or equal to {total} ({of})"));
    }
}

/// Returns the number of indexes that a text such as `1,3-5` names (`validateIndexesFormat`).
pub(super) fn number_of_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last): (i64, Option<i64>) = (0, None);
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = limits(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Returns the first and the last index of an interval (`parseIndexInterval`).
pub(super) fn limits(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
        Ok(index) if index >= completions => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(index),
    };
    let Some((first, rest)) = interval.split_once('-') else {
        let only = index(interval)?;
        return Ok((only, only));
    };
    if rest.contains('-') {
        return Err(format!(
            "the fragment {interval:?} violates the requirement that an index interval can have at most two parts \
             separated by '-'"
        ));
    }
    let (first, end) = (index(first)?, index(rest)?);
    if first >= end {
        return Err(format!("non-increasing order, previous: {first}, current: {end}"));
    }
    Ok((first, end))
}
