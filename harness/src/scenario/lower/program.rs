//! Checks programs of the user: unique names, commands that can start, components that can be replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use substrate::WorldKind;

use super::checked::Checked;
use super::find;
use super::text::Text;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::source_span::{SourceSpan, Spanned};
use crate::spec::ProgramSpec;
use crate::spec::object::check_name;
use crate::spec::{ClusterSpec, names};
use crate::suggestions::suggest;

/// Maximum number of programs in one file.
const MOST: usize = 16;

/// A program, and the place of its name.
pub(super) type Named = (ProgramSpec, SourceSpan);

/// Checks programs; the names of other processes are not known yet.
pub(super) fn programs(from: Text<'_>, run: Vec<Spanned<doc::Program>>) -> Checked<Vec<Named>> {
    if let Some(more) = run.get(MOST) {
        let message = format!("a file runs at most {MOST} programs, and this one has {}", run.len());
        return Err(Mistake::new(more.place, message, "the first that is too many"));
    }
    let directory = directory(from)?;
    let mut programs: Vec<Named> = Vec::new();
    let mut replaced: BTreeMap<String, String> = BTreeMap::new();
    for program in run {
        let (place, program) = (program.place, program.value);
        check_name(&program.name).map_err(|m| Mistake::new(program.name.place, m, "this name"))?;
        if programs.iter().any(|(known, _)| known.name == program.name.value) {
            let message = format!("two programs are called `{}`", *program.name);
            return Err(Mistake::new(program.name.place, message, "the second one"));
        }
        let command = command(&program.command)?;
        let env = env(from.text, program.env)?;
        let replaces = replaces(program.replaces)?;
        for (component, place) in &replaces {
            if let Some(by) = replaced.insert(component.clone(), program.name.value.clone()) {
                let message = format!("`{component}` is replaced by {by} already");
                return Err(Mistake::new(*place, message, "the second time"));
            }
        }
        let spec = ProgramSpec {
            name: program.name.value,
            command,
            env,
            replaces: replaces.into_iter().map(|(component, _)| component).collect(),
            directory: directory.clone(),
            line: place.line,
            column: place.column,
        };
        programs.push((spec, program.name.place));
    }
    Ok(programs)
}

/// Checks that no process of `spec` has the name of a program.
pub(super) fn check_names(programs: &[Named], spec: &ClusterSpec) -> Checked<()> {
    let known = names::of(spec);
    for (program, place) in programs {
        let name = program.name.as_str();
        if names::is_taken(&known, name) {
            let message = format!("`{name}` is the name of a process of the cluster");
            let help = match controllers::can_be_left_out().contains(&name) {
                true => format!("write `replaces: {name}` beside it, or choose another name"),
                false => format!("choose another name, as in my-{name}"),
            };
            return Err(Mistake::new(*place, message, "this name").help(help));
        }
    }
    Ok(())
}

/// Worlds of a file that runs programs: only the live one.
pub(super) fn worlds(
    programs: &[Named],
    written: Option<SourceSpan>,
    worlds: Vec<WorldKind>,
) -> Checked<Vec<WorldKind>> {
    match written {
        _ if programs.is_empty() => Ok(worlds),
        Some(place) if worlds.contains(&WorldKind::Simulated) => {
            let message = "a program runs in wall time and over sockets: a file with `run` is for the live world alone";
            Err(Mistake::new(place, message, "here").help("write `[live]`, or leave it out"))
        }
        _ => Ok(vec![WorldKind::Live]),
    }
}

/// Directory of the file, which is the working directory of its programs.
fn directory(from: Text<'_>) -> Checked<PathBuf> {
    let parent = Path::new(from.source).parent().filter(|_| from.has_files);
    let directory =
        std::path::absolute(parent.filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")));
    directory.map_err(|e| {
        Mistake::new(SourceSpan::default(), format!("the directory of the file is not known: {e}"), "here")
    })
}

fn command(command: &Spanned<Vec<Spanned<doc::Argument>>>) -> Checked<Vec<String>> {
    match command.first() {
        None => {
            let message = "a command has at least one word: the program";
            return Err(Mistake::new(command.place, message, "here").help("write `[./my-program, --flag]`"));
        }
        Some(program) if program.0.trim().is_empty() => {
            return Err(Mistake::new(program.place, "the first word is the program, and it is empty", "here"));
        }
        Some(_) => {}
    }
    command.iter().map(|word| plain(word).map(str::to_owned)).collect()
}

/// Checks that a text can be an argument of a process.
fn plain(word: &Spanned<doc::Argument>) -> Checked<&str> {
    let is_good = !word.0.contains('\0');
    is_good.then_some(word.0.as_str()).ok_or_else(|| Mistake::new(word.place, "no process takes a zero byte", "here"))
}

fn env(text: &str, env: BTreeMap<String, Spanned<doc::Argument>>) -> Checked<BTreeMap<String, String>> {
    let mut variables = BTreeMap::new();
    for (name, value) in env {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || !name.chars().all(is_name) || name.starts_with(|c: char| c.is_ascii_digit()) {
            let place = find::key_before(text, value.place, &name);
            let message = format!("`{name}` is not a variable name");
            let help = "a name is letters, digits, `_`, `-` and `.`, and begins with no digit";
            return Err(Mistake::new(place, message, "this name").help(help));
        }
        let value = plain(&value)?.to_owned();
        variables.insert(name, value);
    }
    Ok(variables)
}

fn replaces(replaced: Option<Spanned<doc::Replaced>>) -> Checked<Vec<(String, SourceSpan)>> {
    let Some(replaced) = replaced else { return Ok(Vec::new()) };
    let names: Vec<Spanned<String>> = match replaced.value {
        doc::Replaced::One(name) => vec![Spanned { value: name, place: replaced.place }],
        doc::Replaced::Many(names) => names,
    };
    let mut all = BTreeSet::new();
    let mut out = Vec::new();
    for name in names {
        let left_out = controllers::left_out([name.as_str()]).map_err(|_| {
            let message = format!("`{}` is not a component that can be replaced", name.value);
            let help = suggest(&name, controllers::can_be_left_out().into_iter(), "components");
            Mistake::new(name.place, message, "this component").help(help)
        })?;
        let fresh = left_out.into_iter().filter(|component| all.insert(component.clone()));
        out.extend(fresh.map(|component| (component, name.place)).collect::<Vec<_>>());
    }
    Ok(out)
}
