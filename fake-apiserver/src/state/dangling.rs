//! The condition Dangling of flow schemas: true if the priority level that a schema names does not exist (apiserver
//! `util/flowcontrol/apf_controller.go`).

use std::sync::Arc;

use substrate::Now;
use substrate::json::{Value, json};

use super::history::Event;
use super::object::Object;
use super::value::{self, list, text};
use super::{Store, key};
use crate::kinds;

/// Returns the condition of a flow schema that names `level`.
pub(super) fn condition(level: &str, exists: bool, now: Now) -> Value {
    let object = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, message) = if exists {
        ("False", "Found", format!("{object} and it exists"))
    } else {
        ("True", "NotFound", format!("{object} but there is no such object"))
    };
    json!({
        "type": "Dangling", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": value::time(now.wall),
    })
}

/// Returns true if two conditions are equal except for their times.
pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    ["status", "reason", "message"].iter().all(|field| text(a, &[field]) == text(b, &[field]))
}

impl Store {
    /// Updates the conditions of flow schemas after a commit.
    pub(super) fn follow_flows(&mut self, now: Now, event: &Event) {
        if !self.tracks {
            return;
        }
        if event.kind == kinds::FLOW_SCHEMAS {
            if let Some(schema) = &event.new {
                self.report_dangling(now, &schema.unfolded());
            }
        } else if event.kind == kinds::PRIORITY_LEVEL_CONFIGURATIONS && event.old.is_some() != event.new.is_some() {
            let schemas: Vec<Arc<Object>> = self.all(kinds::FLOW_SCHEMAS).map(Object::unfolded).collect();
            for schema in schemas {
                self.report_dangling(now, &schema);
            }
        }
    }

    fn report_dangling(&mut self, now: Now, schema: &Object) {
        let level = text(&schema.value, &["spec", "priorityLevelConfiguration", "name"]);
        let exists = self.get(kinds::PRIORITY_LEVEL_CONFIGURATIONS, level).is_some();
        let mut reported = condition(level, exists, now);
        let mut conditions = list(&schema.value, &["status", "conditions"]).to_vec();
        match conditions.iter_mut().find(|condition| condition["type"] == "Dangling") {
            Some(known) if is_same(known, &reported) => return,
            Some(known) => {
                if known["status"] == reported["status"] {
                    reported["lastTransitionTime"] = known["lastTransitionTime"].clone();
                }
                *known = reported;
            }
            None => conditions.push(reported),
        }
        let mut object = (*schema.value).clone();
        value::set(&mut object, "status", Some(json!({"conditions": conditions})));
        let place = key(None, value::name(&schema.value));
        self.put(now, kinds::FLOW_SCHEMAS, place, object);
    }
}
