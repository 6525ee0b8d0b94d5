//! Parameters of calls of the cloud.

use mock_ec2::state::command::ACTIONS;
use mock_ec2::wire::parameters as table;
use serde_json::{Map as Object, Value, json};

/// Parameters of each action. A call that must fail may have others.
pub(super) fn parameters() -> Value {
    let of = |action: &&str| {
        let mut names: Vec<&str> =
            table::of(action).into_iter().map(|name| name.split('.').next().unwrap_or(name)).collect();
        names.sort_unstable();
        names.dedup();
        let value = |name: &&str| {
            let own: Vec<&str> =
                table::of(action).into_iter().filter(|of| of.split('.').next() == Some(name)).collect();
            ((*name).to_owned(), json!({ "description": format!("The parameter {} of {action}.", own.join(", ")) }))
        };
        let properties: Object<String, Value> = names.iter().map(value).collect();
        let flat = format!("^(?:{})\\.", names.join("|"));
        json!({
            "if": {
                "properties": { "action": { "const": action } },
                "required": ["action"],
                "not": { "required": ["fails"] },
            },
            "then": {
                "properties": {
                    "with": {
                        "properties": properties,
                        "patternProperties": { flat: { "description": "A parameter, as in the Query API." } },
                        "additionalProperties": false,
                    },
                },
            },
        })
    };
    ACTIONS.iter().map(of).collect()
}
