//! Semantic versions (semver.org 2.0.0).

use std::cmp::Ordering;

use cel::common::types::{CelBool, CelInt, CelString};
use cel::{DeclarationError, Env, ExecutionError};

use super::values::{fails, opaque};

/// A version. Build metadata do not count in comparisons.
#[derive(Clone, Debug)]
struct Version {
    numbers: [u64; 3],
    pre: Vec<Part>,
}
opaque!(Version, "kubernetes.Semver");

/// A part of a pre-release; numbers sort before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        // A release sorts after its pre-releases.
        let released = |version: &Self| version.pre.is_empty();
        let rest = || released(self).cmp(&released(other)).then_with(|| self.pre.cmp(&other.pre));
        self.numbers.cmp(&other.numbers).then_with(rest)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_overload!(env, fn semver: (CelString) -> Result<Version>)?;
    cel::add_overload!(env, fn semver_normal: (CelString, CelBool) -> Result<Version>, name = "semver")?;
    cel::add_overload!(env, fn is_semver: (CelString) -> CelBool)?;
    cel::add_overload!(env, fn is_semver_normal: (CelString, CelBool) -> CelBool, name = "isSemver")?;
    cel::add_member_overload!(env, fn major: (Version) -> CelInt)?;
    cel::add_member_overload!(env, fn minor: (Version) -> CelInt)?;
    cel::add_member_overload!(env, fn patch: (Version) -> CelInt)?;
    cel::add_member_overload!(env, fn is_greater_than: (Version, Version) -> CelBool)?;
    cel::add_member_overload!(env, fn is_less_than: (Version, Version) -> CelBool)?;
    cel::add_member_overload!(env, fn compare_to: (Version, Version) -> CelInt)
}

fn number(text: &str, what: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {what} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{what} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| format!("{what} number is too great: {text:?}"))
}

fn parse(text: &str) -> Result<Version, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts[..] else { return Err("No Major.Minor.Patch elements found".to_owned()) };
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
    if let Some(wrong) = build.into_iter().flat_map(|build| build.split('.')).find(|word| !is_word(word)) {
        return Err(format!("Invalid character(s) found in build meta data {wrong:?}"));
    }
    let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
    let numbers = [number(major, "Major")?, number(minor, "Minor")?, number(patch, "Patch")?];
    let part = |word: &str| match word {
        _ if !is_word(word) => Err(format!("Invalid character(s) found in prerelease {word:?}")),
        _ if word.bytes().all(|b| b.is_ascii_digit()) => number(word, "Numeric PreRelease version").map(Part::Number),
        _ => Ok(Part::Word(word.to_owned())),
    };
    let pre = pre.into_iter().flat_map(|pre| pre.split('.')).map(part).collect::<Result<_, _>>()?;
    Ok(Version { numbers, pre })
}

/// Normalizes a version: without `v` and leading zeros, and with missing numbers added.
fn normalized(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| {
            let bare = part.trim_start_matches('0');
            match bare.chars().next() {
                _ if part.len() <= 1 => part.to_owned(),
                Some(first) if first.is_ascii_digit() => bare.to_owned(),
                _ if bare.len() < part.len() => format!("0{bare}"),
                _ => part.to_owned(),
            }
        })
        .collect();
    // Numbers can be added only if there is no pre-release or build part.
    if parts.len() < 3 && !parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        parts.resize(3, "0".to_owned());
    }
    parts.join(".")
}

fn read(text: &CelString<'_>, normal: bool) -> Result<Version, String> {
    if normal { parse(&normalized(text.inner())) } else { parse(text.inner()) }
}

fn semver(text: &CelString<'_>) -> Result<Version, ExecutionError> {
    read(text, false).map_err(|why| fails("semver", why))
}

fn semver_normal(text: &CelString<'_>, normal: &CelBool) -> Result<Version, ExecutionError> {
    read(text, *normal.inner()).map_err(|why| fails("semver", why))
}

fn is_semver(text: &CelString<'_>) -> CelBool {
    read(text, false).is_ok().into()
}

fn is_semver_normal(text: &CelString<'_>, normal: &CelBool) -> CelBool {
    read(text, *normal.inner()).is_ok().into()
}

fn int(number: u64) -> CelInt {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

fn major(version: &Version) -> CelInt {
    int(version.numbers[0])
}

fn minor(version: &Version) -> CelInt {
    int(version.numbers[1])
}

fn patch(version: &Version) -> CelInt {
    int(version.numbers[2])
}

fn is_greater_than(a: &Version, b: &Version) -> CelBool {
    (a > b).into()
}

fn is_less_than(a: &Version, b: &Version) -> CelBool {
    (a < b).into()
}

fn compare_to(a: &Version, b: &Version) -> CelInt {
    (a.cmp(b) as i64).into()
}
