//! `request`: sends one HTTP request to the API server, as `kubectl --raw` or any other client.

use http::Method;
use serde_json::{Map as Object, Value};

use super::ec2::SAVED;
use super::patch::{REASONS, Refused, refused};
use crate::scenario::lower::find;
use crate::scenario::predicate::That;
use crate::scenario::prelude::*;
use crate::scenario::saved;

pub(super) static KEY: Key = one(
    "request",
    Of::Map(&REQUEST),
    "Sends one HTTP request to the API server, as any client may. Use it for what `apply`, `patch` and `delete` cannot \
     send.",
)
.like(&[
    "- request: {path: /api/v1/namespaces/default/configmaps, query: {limit: 1}, that: 'self.items.size() <= 1'}",
    "- request: {method: PATCH, path: /api/v1/namespaces/default/configmaps/a, query: {fieldManager: mine}, content-type: application/apply-patch+yaml, body: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {level: info}}, status: 201}",
    "- request: {method: POST, path: /api/v1/namespaces, body: {metadata: {name: default}}, fails: AlreadyExists}",
]);

static REQUEST: Map = Map {
    name: "request",
    about: "A request to the API server. It is sent once; a request that the server does not accept is repeated.",
    keys: &[
        must("path", Of::Text, "The URL path, without a query."),
        may("method", Of::Words(METHODS), "The HTTP method; `GET` when absent."),
        may("query", Of::Each(&VALUE), "The query parameters."),
        may("as", Of::Text, "The user to impersonate. Roles decide; the file needs `worlds: [simulated]`."),
        may("groups", Of::List(&Of::Text), "The groups to impersonate; with `as`."),
        may("token", VALUE, "The bearer token. Roles decide; the file needs `worlds: [simulated]`."),
        may("accept", Of::Text, "The media type of the answer; application/json when absent."),
        may(
            "content-type",
            Of::Text,
            "The media type of the body; application/json when absent. A PATCH needs it: it is the type of the patch.",
        ),
        may(
            "body",
            Of::Either(&[
                (Of::Part, "An object. `{saved: NAME}` in it stands for a saved text."),
                (Of::List(&Of::Part), "A list, such as the operations of a JSON patch."),
                (Of::Text, "A text, which is sent as it is."),
            ]),
            "The body.",
        ),
        may("status", Of::Whole(200, Some(599)), "The HTTP code of the answer; any success when absent."),
        may(
            "fails",
            Of::Either(&[
                (Of::Whole(400, Some(599)), "Its HTTP code."),
                (Of::Words(REASONS), "The reason of its Status."),
            ]),
            "The error that the request must get.",
        ),
        may(
            "that",
            Of::Cel,
            "A condition on the body of the answer, of an error too. A body that is not JSON is a text.",
        ),
        may("save", Of::Text, "The name under which a field of the answer is kept for `{saved: NAME}`; with `from`."),
        may("from", Of::Text, "The field to keep: `metadata.continue`, `items.0.metadata.uid`; with `save`."),
    ],
};

/// Value of a parameter.
const VALUE: Of = Of::Either(&[(Of::Scalar, "The value."), (Of::Map(&SAVED), "A text that was saved.")]);

const METHODS: &[Word] = &[
    ("GET", "Reads an object or a list."),
    ("POST", "Creates an object."),
    ("PUT", "Replaces an object."),
    ("PATCH", "Changes an object."),
    ("DELETE", "Deletes an object, or a list of objects."),
];

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    path: Spanned<String>,
    method: Option<Spanned<String>>,
    query: Option<Spanned<Object<String, Value>>>,
    r#as: Option<Spanned<String>>,
    groups: Option<Spanned<Vec<String>>>,
    token: Option<Spanned<Value>>,
    accept: Option<String>,
    content_type: Option<String>,
    body: Option<Spanned<Value>>,
    status: Option<u16>,
    fails: Option<Spanned<Value>>,
    that: Option<Spanned<String>>,
    save: Option<Spanned<String>>,
    from: Option<Spanned<String>>,
}

/// A request to the API server, and the answer that it must get.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiRequest {
    pub method: Method,
    pub path: String,
    /// Query, token and body, in which saved texts are still to be filled in.
    pub given: Given,
    /// User and groups to impersonate.
    pub user: Option<(String, Vec<String>)>,
    pub accept: String,
    pub content_type: String,
    pub answer: Expected,
}

/// Parts of a request in which `{saved: NAME}` stands for a saved text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    pub query: Object<String, Value>,
    pub token: Option<Value>,
    pub body: Option<Value>,
}

/// Expected answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    pub status: Option<u16>,
    pub fails: Option<Refused>,
    pub that: Option<That>,
    /// Name of a saved text, and the field of the answer.
    pub save: Option<(String, String)>,
}

impl Given {
    /// Replaces each `{saved: NAME}`, unless `text` does not know it.
    pub fn fill_in(&mut self, text: &mut dyn FnMut(&str) -> Option<String>) {
        let parts = self.query.values_mut().chain(&mut self.token).chain(&mut self.body);
        parts.for_each(|part| saved::replace(part, text));
    }
}

pub(super) fn lower(request: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let Spanned { place, value: written } = request;
    let path = path(written.path)?;
    let method = method(written.method)?;
    let mut given = Given {
        query: query(written.query)?,
        token: written.token.map(|token| token.value),
        body: body(&method, written.body)?,
    };
    check_saved(&mut given, place, steps)?;
    if let Some(token) = &given.token
        && !token.is_string()
        && token.get("saved").is_none()
    {
        return Err(Mistake::new(place, "`token` is a text", "here").help("write `token: {saved: NAME}`"));
    }
    let content_type = match written.content_type {
        Some(content_type) => content_type,
        None if method == Method::PATCH => {
            let help = "add `content-type: application/apply-patch+yaml`, application/merge-patch+json, \
                        application/json-patch+json or application/strategic-merge-patch+json";
            return Err(Mistake::new(place, "a PATCH needs the type of the patch", "here").help(help));
        }
        None => "application/json".to_owned(),
    };
    let user = match (written.r#as, written.groups) {
        (Some(user), groups) => Some((user.value, groups.map(|groups| groups.value).unwrap_or_default())),
        (None, Some(groups)) => {
            return Err(Mistake::new(groups.place, "`groups` belongs to `as`", "here").help("add `as: USER`"));
        }
        (None, None) => None,
    };
    if (user.is_some() || given.token.is_some()) && !steps.is_simulated {
        let message = "roles decide about other users in simulation only";
        return Err(Mistake::new(place, message, "here").help("add `worlds: [simulated]` to the file"));
    }
    let answer = Expected {
        status: written.status,
        fails: written.fails.map(refused).transpose()?,
        that: written.that.map(|that| steps.that(that)).transpose()?,
        save: save(written.save, written.from, steps)?,
    };
    if let (Some(status), Some(_)) = (answer.status, &answer.fails)
        && status < 400
    {
        return Err(
            Mistake::new(place, format!("{status} is not the status of a refusal"), "here").help("leave out one")
        );
    }
    let accept = written.accept.unwrap_or_else(|| "application/json".to_owned());
    Ok(Action::Request(Box::new(ApiRequest { method, path, given, user, accept, content_type, answer })))
}

fn path(path: Spanned<String>) -> Checked<String> {
    let refuse = |message: &str, help: &str| Err(Mistake::new(path.place, message, "this path").help(help));
    if !path.starts_with('/') {
        return refuse("a path begins with `/`", "write `/api/v1/namespaces/default/pods`");
    }
    if path.contains('?') {
        return refuse("the query stands apart", "write `query: {limit: 1}`");
    }
    if path.parse::<http::Uri>().is_err() {
        return refuse("this is not a URL path", "escape other characters: a blank is `%20`");
    }
    Ok(path.value)
}

fn method(method: Option<Spanned<String>>) -> Checked<Method> {
    let Some(method) = method else { return Ok(Method::GET) };
    match method.parse() {
        Ok(known) if names(METHODS).any(|name| name == method.value) => Ok(known),
        _ => {
            let help = suggest(&method, names(METHODS), "methods");
            Err(Mistake::new(method.place, format!("`{}` is not a method", method.value), "this method").help(help))
        }
    }
}

fn query(query: Option<Spanned<Object<String, Value>>>) -> Checked<Object<String, Value>> {
    let Some(query) = query else { return Ok(Object::new()) };
    if query.contains_key("watch") {
        let help = "use `wait` for a state, and `never` for one that must not come";
        return Err(Mistake::new(query.place, "a watch has no end", "here").help(help));
    }
    let is_text = |value: &Value| match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => true,
        Value::Object(map) => map.len() == 1 && map.contains_key("saved"),
        Value::Array(_) | Value::Null => false,
    };
    match query.iter().find(|(_, value)| !is_text(value)) {
        Some((name, _)) => {
            let help = "write a text, a number, a boolean, or `{saved: NAME}`";
            Err(Mistake::new(query.place, format!("the parameter `{name}` has no text"), "here").help(help))
        }
        None => Ok(query.value),
    }
}

fn body(method: &Method, body: Option<Spanned<Value>>) -> Checked<Option<Value>> {
    match body {
        Some(body) if *method == Method::GET => Err(Mistake::new(body.place, "a GET has no body", "here")),
        Some(body) if body.is_null() => Err(Mistake::new(body.place, "the body is empty", "here").help("leave it out")),
        body => Ok(body.map(|body| body.value)),
    }
}

/// Checks that each saved text was saved by an earlier step.
fn check_saved(given: &mut Given, place: crate::scenario::source_span::SourceSpan, steps: &Steps<'_>) -> Checked<()> {
    let mut unknown = None;
    given.fill_in(&mut |name| {
        if !steps.saved.contains_key(name) {
            unknown.get_or_insert_with(|| name.to_owned());
        }
        None
    });
    let Some(name) = unknown else { return Ok(()) };
    let place = find::word(&steps.origin.text, place, &name).unwrap_or(place);
    Err(steps.unknown_saved(&Spanned { value: name, place }))
}

fn save(
    name: Option<Spanned<String>>,
    from: Option<Spanned<String>>,
    steps: &mut Steps<'_>,
) -> Checked<Option<(String, String)>> {
    match (name, from) {
        (None, None) => Ok(None),
        (Some(name), Some(from)) => {
            steps.saved.insert(name.value.clone(), from.value.clone());
            Ok(Some((name.value, from.value)))
        }
        (Some(alone), None) | (None, Some(alone)) => {
            let message = "`save` and `from` belong together";
            Err(Mistake::new(alone.place, message, "here").help("write `save: NAME, from: metadata.uid`"))
        }
    }
}

pub(super) fn summary(request: &ApiRequest) -> Summary {
    if request.method == Method::GET {
        Summary::check(request.to_string())
    } else {
        Summary::change(request.to_string())
    }
}

impl fmt::Display for ApiRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        if let Some((user, _)) = &self.user {
            write!(f, " as {user}")?;
        }
        match (&self.answer.fails, self.answer.status) {
            (Some(refused), _) => write!(f, ", which is refused as {refused}"),
            (None, Some(status)) => write!(f, ", which is answered with {status}"),
            (None, None) => Ok(()),
        }
    }
}
