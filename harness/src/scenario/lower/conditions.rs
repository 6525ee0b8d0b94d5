//! Checks conditions in CEL, and the steps at which a `never` ends.

use std::time::Duration;

use super::checked::Checked;
use super::steps::Steps;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::predicate::{Holds, Subject, That};
use crate::scenario::source_span::{SourceSpan, Spanned};
use crate::suggestions::{nearest, suggest};

impl Steps<'_> {
    /// Compiles a condition.
    pub fn that(&self, that: Spanned<String>) -> Checked<That> {
        That::read(&that).map_err(|unfit| {
            let mistake = Mistake::new(self.within(&that, unfit.at, unfit.length), unfit.message, "here");
            match unfit.help {
                Some(help) => mistake.help(help),
                None => mistake,
            }
        })
    }

    /// Place in the file of a line and column `at` of a text; the start of the text if it is not found.
    fn within(&self, that: &Spanned<String>, at: Option<(usize, usize)>, length: usize) -> SourceSpan {
        let found = at.and_then(|(line, column)| {
            let written = that.lines().nth(line - 1)?;
            let column = written.char_indices().nth(column - 1).map_or(written.len(), |(at, _)| at);
            let rest = self.origin.text.get(that.place.offset..)?;
            let offset = that.place.offset + rest.find(written.trim_end())? + column;
            Some(SourceSpan::of(&self.origin.text, offset, length.max(1)))
        });
        found.unwrap_or(that.place)
    }

    /// Checks a list of all objects of a kind.
    pub fn list(&self, list: Spanned<String>, namespace: Option<Spanned<String>>) -> Checked<Subject> {
        let Some(kind) = self.customs.find(&list) else {
            let words: Vec<String> = self.customs.words().collect();
            let near = nearest(&list, words.iter().map(String::as_str));
            let message = format!("`{}` is not a kind of object", *list);
            let mistake = Mistake::new(list.place, message, "this kind").refers(&list);
            return Err(match near {
                Some(word) => mistake.help(format!("did you mean `{word}`?")),
                None => mistake,
            });
        };
        match namespace {
            Some(namespace) if !kind.namespaced() => {
                let message = format!("a {} has no namespace", kind.kind());
                Err(Mistake::new(namespace.place, message, "here"))
            }
            namespace => Ok(Subject::List(kind, namespace.map(|n| n.value))),
        }
    }

    pub fn holds(
        &self,
        of: Subject,
        place: SourceSpan,
        that: Option<Spanned<String>>,
        within: Duration,
    ) -> Checked<Holds> {
        let Some(that) = that else {
            let help = "add `that: \"self.status.phase == 'Bound'\"`";
            return Err(Mistake::new(place, format!("no condition for {of}"), "here").help(help));
        };
        Ok(Holds { of, that: self.that(that)?, within })
    }

    /// Checks that each `until` of a `never` names a later step.
    pub fn check_untils(&self) {
        for (until, index) in &self.untils {
            let later = || self.done.iter().skip(index + 1).filter_map(|step| step.name.as_deref());
            if !later().any(|name| *name == **until) {
                let message = format!("no later step is called `{}`", **until);
                let help = suggest(until, later().collect::<Vec<_>>().into_iter(), "names of later steps");
                self.heed(Err(Mistake::new(until.place, message, "this step").help(help).refers(until)));
            }
        }
    }
}
