//! `repeat`: stands for the steps of a list, several times.

use serde::de::IgnoredAny;

use super::STEP;
use crate::scenario::document::Word;
use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("repeat", Of::Map(&REPEAT_STEPS), ABOUT).like(&[
    "- repeat: {count: 3, as: i, do: [{claim: {name: 'data-${i}'}}]}",
    "- repeat: {each: [node-a, node-b], as: node, do: [{cordon: '${node}'}, {uncordon: '${node}'}]}",
]);

pub(crate) const ABOUT: &str = "A list several times, with a variable `${NAME}` in its text.";
pub(crate) const COUNT_ABOUT: &str = "Number of repetitions; the variable is 0, 1, 2 … Either this or `each`.";
pub(crate) const EACH_ABOUT: &str = "The values of the variable, one per repetition. Either this or `count`.";
pub(crate) const AS_ABOUT: &str = "The variable's name. `${NAME}` in the list is replaced by its value.";

static REPEAT_STEPS: Map = Map {
    name: "repeat-steps",
    about: ABOUT,
    keys: &[
        one("count", Of::Whole(1, Some(10_000)), COUNT_ABOUT),
        one("each", Of::Some(&Of::Scalar), EACH_ABOUT),
        must("as", Of::Text, AS_ABOUT),
        must("do", Of::List(&Of::Map(&STEP)), "The steps."),
    ],
};

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    pub count: Option<Spanned<u32>>,
    pub each: Option<Spanned<Vec<Word>>>,
    #[serde(rename = "as")]
    pub variable: Spanned<String>,
    #[serde(rename = "do")]
    pub body: Spanned<IgnoredAny>,
}

pub(super) fn lower(repeat: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Option<Action>> {
    let bodies = steps.repeated(repeat)?;
    bodies.into_iter().for_each(|body| steps.inside(body, Steps::steps));
    Ok(None)
}
