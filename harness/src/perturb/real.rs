//! Result of a finding's trial with a real API server: does the finding come without Mooring's API server, too?

use std::fmt;

use serde::Serialize;

use super::verdict::{Class, Verdict};

/// Result of a finding's trial with a real API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "camelCase")]
pub enum Real {
    /// The finding came.
    Same,
    /// Another finding came.
    Other {
        /// Its class.
        class: &'static str,
        /// Its message.
        message: String,
    },
    /// The program survived all runs.
    Survived {
        /// Number of runs.
        runs: usize,
    },
    /// The perturbed call did not come in any run.
    NotReached {
        /// Number of runs.
        runs: usize,
    },
    /// The scenario fails there without a perturbation, so trials say nothing.
    Unbroken {
        /// The reason.
        message: String,
    },
}

impl Real {
    /// Returns the result of the trials of a finding with this signature and class.
    pub fn of(signature: &str, class: Class, verdicts: &[Verdict]) -> Self {
        // A step that waits in vain may fail with another message.
        if verdicts.iter().any(|verdict| verdict.signature == signature || verdict.class == class) {
            return Self::Same;
        }
        if let Some(other) = verdicts.iter().find(|verdict| verdict.class.is_finding()) {
            return Self::Other { class: other.class.word(), message: other.message.clone() };
        }
        let runs = verdicts.len();
        if verdicts.iter().all(|verdict| verdict.class == Class::NotReached) {
            Self::NotReached { runs }
        } else {
            Self::Survived { runs }
        }
    }
}

impl fmt::Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = |message: &str| message.lines().next().unwrap_or_default().to_owned();
        match self {
            Self::Same => write!(f, "with the real API server: the same"),
            Self::Other { class, message } => {
                write!(f, "with the real API server: another finding: {class}: {}", first(message))
            }
            Self::Survived { runs } => write!(
                f,
                "with the real API server: the program survived {runs} of {runs} runs; Mooring's API server may be the cause"
            ),
            Self::NotReached { runs } => {
                write!(f, "with the real API server: the call did not come in {runs} runs, which says nothing")
            }
            Self::Unbroken { message } => write!(
                f,
                "with the real API server: the scenario fails without a perturbation, which says nothing: {}",
                first(message)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(class: Class, signature: &str) -> Verdict {
        Verdict { class, signature: signature.to_owned(), message: format!("{signature}\nmore"), declared: Vec::new() }
    }

    #[test]
    fn the_finding_counts_if_it_comes_once_and_another_one_is_named() {
        let survived = || verdict(Class::Survived, "");
        let of = |verdicts: &[Verdict]| Real::of("stuck: a step", Class::Stuck, verdicts);
        assert_eq!(of(&[survived(), verdict(Class::Stuck, "stuck: another step")]), Real::Same);
        let other = of(&[survived(), verdict(Class::Leaked, "I5: a volume")]);
        assert_eq!(other.to_string(), "with the real API server: another finding: leaked: I5: a volume");
        assert_eq!(of(&[survived(), verdict(Class::NotReached, "")]), Real::Survived { runs: 2 });
        assert_eq!(of(&[verdict(Class::NotReached, "")]), Real::NotReached { runs: 1 });
        assert_eq!(substrate::encode::text(&Real::Survived { runs: 3 }), r#"{"result":"survived","runs":3}"#);
    }
}
