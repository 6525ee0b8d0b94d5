//! Checks expectations.

use std::collections::BTreeMap;
use std::time::Duration;

use super::checked::Checked;
use super::steps::{Steps, only};
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::model::{Attached, BytesIntact, Elapsed, Expectation, Fired, Writes};
use crate::scenario::predicate::Subject;
use crate::scenario::source_span::Spanned;
use crate::spec::Id;
use crate::spec::object::{Kind, ObjectRef};
use crate::suggestions::suggest;
use crate::writes::expected;

impl Steps<'_> {
    pub(super) fn expect(&mut self, expect: Spanned<Box<doc::Expect>>) -> Checked<Expectation> {
        let (place, mut expect) = (expect.place, *expect.value);
        let help = "make two steps of it";
        let demand = only(expect.take(), place, "an `expect` demands one thing", doc::Expect::KEYS, help)?;
        let records = expect.records.as_ref().map(|records| records.value);
        if let Some(records) = &expect.records
            && !matches!(demand, doc::Demand::BytesIntact(_))
        {
            return Err(Mistake::new(records.place, "`records` belongs to `bytes-intact`", "here"));
        }
        self.own_keys(&expect, &demand)?;
        let doc::Expect { that, namespace, since, within, .. } = expect;
        let within = within.map_or(Duration::ZERO, |w| w.value.0);
        match demand {
            doc::Demand::Object(text) => {
                let place = text.place;
                self.holds(Subject::Object(self.object(&text)?), place, that, within)
            }
            doc::Demand::List(list) => {
                let place = list.place;
                self.holds(self.list(list, namespace)?, place, that, within)
            }
            doc::Demand::Call(call) => self.calls(call, since, within).map(Expectation::Calls),
            doc::Demand::Metric(metric) => self.metric(metric, within).map(Expectation::Metric),
            doc::Demand::Ec2(cloud) => self.cloud(cloud, within).map(Expectation::Cloud),
            doc::Demand::Violation(id) => {
                self.violations.push(id.clone());
                Ok(Expectation::Violation(id.value))
            }
            doc::Demand::Fired(fault) => {
                if !self.faults.contains(&fault.value) {
                    let message = format!("no fault called `{}` is in force here", *fault);
                    let help = suggest(&fault, self.faults.iter().map(String::as_str), "faults in force");
                    return Err(Mistake::new(fault.place, message, "this fault").help(help).refers(&fault));
                }
                Ok(Expectation::Fired(Fired { fault: fault.value, within }))
            }
            doc::Demand::BytesIntact(text) => {
                let pod = self.object(&text)?;
                if pod.kind != Kind::pod() {
                    let message = format!("a {} keeps no records", pod.kind.kind());
                    return Err(Mistake::new(text.place, message, "not a pod"));
                }
                let records = records.unwrap_or(1);
                Ok(Expectation::BytesIntact(BytesIntact { pod, records }))
            }
            doc::Demand::Event(event) => self.event(event.value).map(Expectation::Event),
            doc::Demand::Attached(attached) => {
                let doc::Attached { claim, node, within } = attached.value;
                let object: ObjectRef =
                    format!("pvc/{}", claim.value).parse().map_err(|m| Mistake::new(claim.place, m, "this claim"))?;
                self.refer(&object, claim.place);
                let within = within.map_or(Duration::ZERO, |w| w.0);
                Ok(Expectation::Attached(Attached { claim: object, node: self.node(node)?, within }))
            }
            doc::Demand::Checked(checked) => counts(checked).map(Expectation::Checked),
            doc::Demand::Writes(writes) => self.writes(writes).map(Expectation::Writes),
            doc::Demand::Elapsed(elapsed) => self.elapsed(elapsed).map(Expectation::Elapsed),
        }
    }

    fn writes(&self, writes: Spanned<doc::WritesMade>) -> Checked<Writes> {
        let Spanned { place, value: doc::WritesMade { since, elsewhere, lines } } = writes;
        if !self.is_simulated {
            let message = "writes are recorded in simulation only";
            return Err(Mistake::new(place, message, "here").help("add `worlds: [simulated]` to the file"));
        }
        if lines.is_empty() {
            let help = "for no write at all, use `never: {call: {plane: k8s, op: write}}`";
            return Err(Mistake::new(place, "`lines` expects no write", "here").help(help));
        }
        let mut found = Vec::new();
        for (index, line) in lines.into_iter().enumerate() {
            expected(index, &line, &mut found).map_err(|why| Mistake::new(line.place, why, "in this line"))?;
        }
        Ok(Writes { since: self.index(since)?, elsewhere, lines: found })
    }

    fn elapsed(&self, elapsed: Spanned<doc::Elapsed>) -> Checked<Elapsed> {
        let Spanned { place, value: elapsed } = elapsed;
        let (at_least, at_most) = (elapsed.at_least.map(|s| s.0), elapsed.at_most.map(|s| s.0));
        if at_least.is_none() && at_most.is_none() {
            return Err(
                Mistake::new(place, "no bound on the time that passed", "here").help("add `at-least` or `at-most`")
            );
        }
        if at_least.zip(at_most).is_some_and(|(least, most)| least > most) {
            return Err(Mistake::new(place, "`at-least` is more than `at-most`", "no time lies between these"));
        }
        let since = elapsed.since.map(|name| self.index(name)).transpose()?;
        Ok(Elapsed { since, at_least, at_most })
    }
}

fn counts(checked: Spanned<BTreeMap<String, u64>>) -> Checked<BTreeMap<Id, u64>> {
    let Spanned { place, value } = checked;
    if value.is_empty() {
        return Err(Mistake::new(place, "no invariant is named", "here").help("write `{I2: 1}`"));
    }
    let count = |(name, least): (String, u64)| {
        let id: Id = name.parse().map_err(|message: String| Mistake::new(place, message, "here"))?;
        if least == 0 {
            return Err(Mistake::new(place, format!("{id} on 0 occasions is no requirement"), "here"));
        }
        Ok((id, least))
    };
    value.into_iter().map(count).collect()
}
