//! `partition`: cuts the link between two ends. It is a short form of a fault.

use substrate::fault::{Effect, Fault, Lease, Match, Moment, Plane, When};

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("partition", Of::Map(&PARTITION), "Cuts the link between two ends, until a `heal`.")
    .like(&[
        "- partition: {between: [node-b, apiserver], name: cut}",
        "- partition: {between: [csi-attacher, csi-controller], one-way: true}",
    ]);

static PARTITION: Map = Map {
    name: "partition",
    about: "A cut link between two ends.",
    keys: &[
        must(
            "between",
            Of::Two(&Of::Text),
            "The two ends: nodes, processes, `controllers`, or the servers `apiserver`, `ec2` and `csi-controller`.",
        ),
        may("one-way", Of::Flag, "If true, only messages from the first end to the second are lost."),
        may("name", Of::Text, "A name for `heal`; the names of the two ends when absent, such as `node-b-apiserver`."),
    ],
};

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    between: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    one_way: bool,
    name: Option<Spanned<String>>,
}

pub(super) fn lower(partition: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let Spanned { value: Written { between, one_way, name }, place } = partition;
    let [one, other] = between.as_slice() else {
        let message = "a partition is between two ends";
        return Err(Mistake::new(between.place, message, "here").help("write `between: [node-a, apiserver]`"));
    };
    let ends = [one.value.clone(), other.value.clone()];
    let default = || ends.join("-").chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let (name, at) = name.map_or_else(|| (default(), place), |name| (name.value, name.place));
    let effect = if one_way { Effect::PartitionOneWay(ends) } else { Effect::Partition(ends) };
    let matches = Match { plane: Plane::Link, op: None, attributes: Default::default() };
    let (when, lease) = (When::default(), Lease::default());
    let fault = Fault { name, matches, when, effect, at: Moment::default(), lease };
    if let Err(mistake) = steps.catalogue.check(&fault) {
        if !mistake.field.starts_with("effect.") {
            return Err(Mistake::new(at, format!("{}: {}", mistake.field, mistake.message), "here"));
        }
        let end = between.iter().find(|end| mistake.word.as_deref() == Some(end.as_str()));
        let wrong = Mistake::new(end.map_or(between.place, |end| end.place), mistake.message, "this end");
        return Err(match mistake.nearest {
            Some(word) => wrong.help(format!("did you mean `{word}`?")),
            None => wrong,
        });
    }
    let fault = Spanned { value: fault, place: at };
    steps.add_fault(&fault)?;
    Ok(Action::Fault(Box::new(fault.value)))
}
