//! Conditions of `mooring wait --for`: an object in a state, or a condition in CEL on an object or a list.

use std::fmt;
use std::str::FromStr;

use substrate::json::Value as Tree;

use crate::cluster::{ObjectError, Objects, condition};
use crate::scenario::predicate::{Subject, That, Unfit};
use crate::spec::object::{Condition, Kind, ObjectRef};

/// A condition to wait for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Awaited {
    /// An object is in a state: `pvc/data=Bound`.
    Is(Condition),
    /// A condition holds: `pvc/data: self.status.phase == "Bound"`.
    Satisfies(Subject, That),
}

/// Result of a check.
#[derive(Debug)]
pub(crate) enum Seen {
    /// The condition holds.
    Holds,
    /// It does not hold.
    Other {
        /// The present state.
        seen: String,
        /// Fields that a condition in CEL mentions, and that the object does not have.
        absent: Vec<String>,
    },
}

impl Seen {
    fn state(seen: String) -> Self {
        Self::Other { seen, absent: Vec::new() }
    }
}

impl Awaited {
    /// Object of the condition, if it is a single one.
    pub fn object(&self) -> Option<&ObjectRef> {
        match self {
            Self::Is(condition) => Some(&condition.object),
            Self::Satisfies(Subject::Object(object), _) => Some(object),
            Self::Satisfies(Subject::List(..), _) => None,
        }
    }

    /// Checks the condition.
    pub async fn look(&self, objects: &Objects) -> Result<Seen, ObjectError> {
        let (value, that) = match self {
            Self::Is(Condition { object, is }) => {
                let look = objects.look(object).await?;
                return Ok(if condition::holds(object.kind, look.as_ref(), *is) {
                    Seen::Holds
                } else {
                    Seen::state(condition::describe(object.kind, look.as_ref()))
                });
            }
            Self::Satisfies(Subject::Object(object), that) => match objects.get(object).await? {
                Some(value) => (value, that),
                None => return Ok(Seen::state(condition::describe(object.kind, None))),
            },
            Self::Satisfies(list @ Subject::List(..), that) => {
                (Tree::Array(objects.list_tree(&list.collection_path()).await?.0), that)
            }
        };
        if that.holds(&value) == Ok(true) {
            return Ok(Seen::Holds);
        }
        Ok(Seen::Other { seen: that.seen(&value), absent: that.absent(&value) })
    }

    /// Message after the condition did not hold for the time `after`.
    pub fn missed(&self, after: impl fmt::Display) -> String {
        match self {
            Self::Is(Condition { object, is }) => format!("{object} is not {is} after {after}"),
            Self::Satisfies(of, that) => format!("{of} does not satisfy `{that}` after {after}"),
        }
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(Condition { object, is }) => write!(f, "{object} is {is}"),
            Self::Satisfies(of, that) => write!(f, "{of} satisfies `{that}`"),
        }
    }
}

impl FromStr for Awaited {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // No name contains either sign.
        let trigger = text.find([':', '=']);
        let Some(at) = trigger.filter(|at| text[*at..].starts_with(':')) else {
            return match trigger {
                Some(_) => text.parse().map(Self::Is),
                None => Err(format!(
                    "`{text}` is not a condition: write kind/name=State, as in pvc/data=Bound, or kind/name: EXPRESSION, as \
                     in pvc/data: self.status.phase == \"Bound\""
                )),
            };
        };
        let (of, rest) = (text[..at].trim(), &text[at + 1..]);
        let of = match (of.contains('/'), Kind::of_word(of)) {
            (false, Some(kind)) => Subject::List(kind, None),
            _ => Subject::Object(of.parse()?),
        };
        let expression = rest.trim();
        if expression.is_empty() {
            return Err(format!("no condition for {of}: write a CEL condition after the colon"));
        }
        let begins = text.len() - rest.trim_start().len();
        let before = text[..begins].chars().count();
        let that = That::read(expression).map_err(|unfit| place(unfit, before))?;
        Ok(Self::Satisfies(of, that))
    }
}

/// Formats an error in an expression that begins after `before` characters.
fn place(Unfit { message, help, at, .. }: Unfit, before: usize) -> String {
    let place = match at {
        Some((1, column)) => format!("column {}: ", before + column),
        Some((line, column)) => format!("line {line}, column {column}: "),
        None => format!("column {}: ", before + 1),
    };
    let help = help.map(|help| format!("; {help}")).unwrap_or_default();
    format!("{place}{message}{help}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_the_object_does_not_have_is_named() {
        let claim = substrate::json::json!({ "status": { "phase": "Bound" } });
        let absent = |expression: &str| That::read(expression).expect("a condition").absent(&claim);
        assert_eq!(absent("self.status.phase == 'Lost'"), Vec::<String>::new());
        assert_eq!(absent("self.status.phse == 'Bound' || self.status.phase == 'Lost'"), ["self.status.phse"]);
    }

    #[test]
    fn a_state_and_a_condition_of_an_object_or_a_list_are_read() {
        for (text, expected) in [
            ("pvc/data=Bound", "pvc/data is Bound"),
            ("pvc/data: self.status.phase == \"Bound\"", "pvc/data satisfies `self.status.phase == \"Bound\"`"),
            ("pod/team-a/web:self.spec.nodeName != ''", "pod/team-a/web satisfies `self.spec.nodeName != ''`"),
            ("pods: size(self) >= 2", "the list of pods satisfies `size(self) >= 2`"),
            ("node: self.all(n, has(n.status))", "the list of nodes satisfies `self.all(n, has(n.status))`"),
        ] {
            assert_eq!(text.parse::<Awaited>().map(|awaited| awaited.to_string()), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_mistake_has_its_column() {
        for (text, wrong) in [
            ("pvc/data: self.status.phase ==", "column 31: this is not a condition in CEL: "),
            (
                "pvc/data:  slef.status.phase == 'x'",
                "column 12: `slef` is not a variable of a condition; did you mean `self`?",
            ),
            ("pods: siez(self) == 2", "column 7: this is not a condition in CEL: "),
            ("pvc/data: 1 == 1", "column 11: the condition does not mention `self`"),
            ("pvc/data: self.a &&\n  other.b", "line 2, column 3: `other` is not a variable"),
            ("pvc/data: ", "no condition for pvc/data"),
            ("pvcc/data: self.x == 1", "did you mean `pvc`?"),
            ("pdos: size(self) == 1", "`pdos` names no object"),
            ("pvc/data=Bond", "a PersistentVolumeClaim is never Bond"),
            ("data", "kind/name: EXPRESSION"),
        ] {
            let error = text.parse::<Awaited>().unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }
}
