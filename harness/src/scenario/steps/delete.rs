//! `delete`: deletes an object.

use controllers::kube::metadata::Propagation;

use crate::scenario::prelude::*;

pub(super) static KEY: Key =
    one("delete", Of::Map(&DELETE), "Deletes an object, as `kubectl delete` does without waiting.").like(&[
        "- delete: {object: pod/web}",
        "- delete: {object: pod/web, grace: 5s}",
        "- delete: {object: pod/web, force: true}",
        "- delete: {object: pvc/data, cascade: foreground}",
    ]);

static DELETE: Map = Map {
    name: "delete",
    about: "A deletion.",
    keys: &[
        must("object", Of::Object, "The object. If it does not exist, the step succeeds."),
        may("force", Of::Flag, "Removes the object at once, even if it still runs: `--force --grace-period=0`."),
        may("grace", Of::Span, "The grace period; the object's own when absent."),
        may(
            "cascade",
            Of::Words(CASCADES),
            "Treatment of the objects that it owns; the API server's default when absent.",
        ),
    ],
};

const CASCADES: &[Word] = &[
    ("background", "They are deleted after it."),
    ("foreground", "They are deleted before it, and it waits for those with `blockOwnerDeletion`."),
    ("orphan", "They stay, without their reference to it."),
];

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    object: Spanned<String>,
    #[serde(default)]
    force: bool,
    grace: Option<Span>,
    cascade: Option<Spanned<String>>,
}

/// A deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    pub object: ObjectRef,
    pub force: bool,
    pub grace: Option<Duration>,
    pub cascade: Option<Propagation>,
}

pub(super) fn lower(delete: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let Spanned { value: Written { object, force, grace, cascade }, place } = delete;
    if force && grace.is_some_and(|g| !g.0.is_zero()) {
        let message = "a forced deletion has no grace period";
        return Err(Mistake::new(place, message, "here").help("leave `grace` out, or write `grace: 0s`"));
    }
    let cascade = cascade.map(cascading).transpose()?;
    Ok(Action::Delete(Delete { object: steps.object(&object)?, force, grace: grace.map(|g| g.0), cascade }))
}

/// Parses the values of `kubectl delete --cascade`.
fn cascading(word: Spanned<String>) -> Checked<Propagation> {
    match word.as_str() {
        "background" => Ok(Propagation::Background),
        "foreground" => Ok(Propagation::Foreground),
        "orphan" => Ok(Propagation::Orphan),
        _ => {
            let help = suggest(&word, names(CASCADES), "ways to treat dependents");
            let message = format!("`{}` is not a way to treat dependents", *word);
            Err(Mistake::new(word.place, message, "this word").help(help))
        }
    }
}

pub(super) fn summary(delete: &Delete) -> Summary {
    let force = if delete.force { "force " } else { "" };
    Summary::change(format!("{force}delete {}", delete.object)).of(&delete.object)
}
