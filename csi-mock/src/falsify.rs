//! False answers: a fault changes the content of an answer. The call has its usual effect, and the trace has both
//! contents.

use std::collections::BTreeMap;

use substrate::fault::Effect;
use substrate::json::Text;

use crate::calls::Call;
use crate::events::CsiFalsified;

/// A node that does not exist.
const NO_NODE: &str = "i-0fffffffffffffff0";

impl Call {
    fn falsified(&self, answer: impl Into<Text>, truth: impl Into<Text>) {
        let (rpc, volume, node) = self.subject();
        let (effect, answer, truth) = (self.falsifies().map_or("", Effect::name).into(), answer.into(), truth.into());
        self.ctx().emit(CsiFalsified { rpc, volume, node, effect, said: answer, truth });
    }

    /// Omits or repeats an entry of a list if a fault asks for that: the first entry that `matter` accepts, or else the
    /// first.
    pub(crate) fn falsify_list<T: Clone>(&self, entries: &mut Vec<T>, matter: impl Fn(&T) -> bool) {
        let at = entries.iter().position(matter).unwrap_or_default();
        let truth = entries.len();
        match self.falsifies() {
            Some(Effect::OmitEntry(true)) if !entries.is_empty() => drop(entries.remove(at)),
            Some(Effect::RepeatEntry(true)) if !entries.is_empty() => entries.insert(at, entries[at].clone()),
            _ => return,
        }
        self.falsified(format!("{} entries", entries.len()), format!("{truth} entries"));
    }

    /// Returns `bytes`, or the wrong capacity that a fault puts in the answer.
    pub(crate) fn falsify_capacity(&self, bytes: i64) -> i64 {
        let answer = match self.falsifies() {
            Some(Effect::WrongCapacity(how)) if how == "less" => bytes / 2,
            Some(Effect::WrongCapacity(how)) if how == "more" => bytes.saturating_mul(2),
            Some(Effect::WrongCapacity(_)) => 0,
            _ => return bytes,
        };
        self.falsified(answer.to_string(), bytes.to_string());
        answer
    }

    /// Returns `zone`, or another zone of the region if a fault asks for that.
    pub(crate) fn falsify_zone(&self, zone: &str) -> String {
        if !matches!(self.falsifies(), Some(Effect::WrongZone(true))) {
            return zone.to_owned();
        }
        let region = zone.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let answer = format!("{region}{}", if zone.ends_with('a') { 'b' } else { 'a' });
        self.falsified(answer.as_str(), zone);
        answer
    }

    /// Returns `node`, or the id of a node that does not exist if a fault asks for that.
    pub(crate) fn falsify_node(&self, node: &str) -> String {
        if !matches!(self.falsifies(), Some(Effect::WrongNode(true))) {
            return node.to_owned();
        }
        self.falsified(NO_NODE, node);
        NO_NODE.to_owned()
    }

    /// Returns `context`, or an empty context if a fault asks for that.
    pub(crate) fn falsify_context(&self, context: BTreeMap<String, String>) -> BTreeMap<String, String> {
        if !matches!(self.falsifies(), Some(Effect::NoContext(true))) {
            return context;
        }
        self.falsified("", context.values().map(String::as_str).collect::<Vec<_>>().join(" "));
        BTreeMap::new()
    }
}
