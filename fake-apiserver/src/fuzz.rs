//! Entry points for fuzzers: every input has an answer, and none is a 5xx that blames the server.
//!
//! The targets are in `fuzz/`; the tests here run the same functions with random and damaged input.

use std::time::Duration;

use substrate::json::{Value, json};
use substrate::{Now, Seed};

use crate::cel::Expression;
use crate::custom::{self, Schema};
use crate::kinds;
use crate::patch::{self, PatchError, PatchKind};
use crate::state::selector::Selector;
use crate::state::{Command, Limits, ListOptions, Store, WriteOptions};
use crate::wire::protobuf;

/// Applies a patch of each type, as JSON text, to a pod. The result is an object or an error of the client.
pub fn patch(bytes: &[u8]) {
    let Ok(patch) = serde_json::from_slice::<Value>(bytes) else { return };
    let Some(pods) = kinds::find("", "v1", "pods") else { return };
    let target = json!({"metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["x/y"]},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}], "tolerations": [{"key": "k"}]}});
    for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
        if let Err(error) = patch::apply(pods, kind, patch.clone(), &target) {
            // A failed strategic merge is upstream's only 500.
            let failed = matches!(error, PatchError::Failed(_));
            assert!(failed || (400..500).contains(&error.code()), "{error}");
        }
    }
}

/// Parses a label or field selector.
pub fn selector(text: &str) {
    for (kind, labels, fields) in
        kinds::all().iter().take(5).flat_map(|kind| [(kind, text, ""), (kind, "", text), (kind, text, text)])
    {
        match Selector::parse(kind, labels, fields) {
            Ok(selector) => {
                selector.matches(&json!({"metadata": {"labels": {"a": "b"}}, "spec": {}}));
            }
            Err(status) => assert_eq!(status.code, 400, "{}", status.message),
        }
    }
}

/// Decodes bytes as an enveloped object, and as the message of each kind in an envelope.
pub fn object(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else { return };
    let kind = &kinds::all()[usize::from(*which) % kinds::all().len()];
    let version = kind.api_version();
    // Decoding may fail; a decoded object can be encoded.
    let _ = protobuf::decode(rest, (&version, kind.kind));
    if let Ok(object) = protobuf::decode(&protobuf::envelope(&version, kind.kind, rest), ("", "")) {
        let _ = protobuf::encode(&version, kind.kind, &object);
    }
}

/// Parses a continue token.
pub fn token(text: &str) {
    let mut store = Store::new(&Seed::root(1), Limits::default());
    store.bootstrap(Now::at(Duration::ZERO));
    let Some(kind) = kinds::find("", "v1", "namespaces") else { return };
    let options = ListOptions { token: text.to_owned(), limit: 2, ..ListOptions::default() };
    if let Err(status) = store.list(kind, None, &Selector::default(), &options) {
        assert!(matches!(status.code, 400 | 410 | 504), "{}", status.message);
    }
}

/// Takes a list of a schema and an object; prunes the object, sets its defaults and validates it.
pub fn schema(bytes: &[u8]) {
    let Ok(pair) = serde_json::from_slice::<Value>(bytes) else { return };
    let mut errors = Vec::new();
    let schema = Schema::parse(&pair[0], "schema", &mut errors);
    let (mut object, mut unknown) = (pair[1].clone(), Vec::new());
    custom::prune(&schema, &mut object, true, &mut String::new(), &mut unknown);
    schema.fill(&mut object);
    custom::validate(&schema, &object, None, &crate::field_path::FieldPath::OBJECT, &mut errors);
}

/// Compiles an expression, and evaluates it for an object.
pub fn expression(text: &str) {
    if let Ok(expression) = Expression::compile(text) {
        let _ = expression.evaluate(&[("self", &json!({"a": 1, "b": ["x"], "c": {"d": true}}))]);
    }
}

/// Creates an object of each kind from JSON text.
pub fn create(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else { return };
    let Ok(object) = serde_json::from_slice::<Value>(rest) else { return };
    let mut store = Store::new(&Seed::root(1), Limits::default());
    let now = Now::at(Duration::ZERO);
    store.bootstrap(now);
    let kind = &kinds::all()[usize::from(*which) % kinds::all().len()];
    let namespace = kind.namespaced.then(|| "default".to_owned());
    let options = WriteOptions::default();
    if let Err(status) = store.apply(now, Command::Create { kind: kind.into(), namespace, object, options }) {
        // A resourceVersion on a new object is upstream's only 500.
        assert!(status.code < 500 || status.message.contains("resourceVersion"), "{}", status.message);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATCH: &str = r#"{"metadata":{"finalizers":["a/b"],"$deleteFromPrimitiveList/finalizers":["x/y"]},"spec":{"$setElementOrder/containers":[{"name":"c"}],"containers":[{"name":"c","$patch":"delete"}],"tolerations":null,"$retainKeys":["containers"]}}"#;
    const SCHEMA: &str = r#"[{"type":"object","properties":{"a":{"type":"integer","minimum":1,"default":3},"l":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},"m":{"additionalProperties":{"type":"string"},"type":"object"}},"oneOf":[{"required":["a"]}],"x-kubernetes-validations":[{"rule":"self.a > 0"}]},{"a":null,"l":["x","x"],"m":{"k":1}}]"#;
    const CREATE: &str = r#"{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"selector":{"matchLabels":{"a":"b"}},"replicas":1,"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}],"validations":[{"expression":"true"}],"ports":[{"port":80}],"limits":[{"type":"Container","max":{"cpu":"1"}}]},"webhooks":[{"rules":[{}]}],"subjects":[{"kind":"User"}],"roleRef":{}}"#;

    /// Generates a sample with some bytes replaced, repeated or removed.
    fn damaged(sample: &'static str) -> impl Strategy<Value = Vec<u8>> {
        let damage = (any::<prop::sample::Index>(), any::<u8>(), 0..4u8);
        proptest::collection::vec(damage, 0..6).prop_map(move |damage| {
            let mut bytes = sample.as_bytes().to_vec();
            for (at, byte, how) in damage {
                let at = at.index(bytes.len());
                match how {
                    0 => bytes[at] = byte,
                    1 => bytes[at] = b"{}[]\",:0-"[usize::from(byte) % 9],
                    2 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, byte),
                }
                if bytes.is_empty() {
                    bytes.push(b'0');
                }
            }
            bytes
        })
    }

    proptest! {
        #[test]
        fn no_patch_upsets_the_server(bytes in damaged(PATCH)) {
            patch(&bytes);
        }

        #[test]
        fn no_selector_upsets_the_server(text in "[a-z!=,() <>\\\\./]{0,40}|\\PC{0,20}") {
            selector(&text);
        }

        #[test]
        fn no_message_upsets_the_server(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            object(&bytes);
        }

        #[test]
        fn no_token_upsets_the_server(text in "[A-Za-z0-9_-]{0,60}|\\PC{0,20}", rv in any::<i64>(), start in "\\PC{0,10}") {
            use base64::Engine;
            token(&text);
            let made = json!({"v": "meta.k8s.io/v1", "rv": rv, "start": start}).to_string();
            token(&base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(made));
        }

        #[test]
        fn no_schema_upsets_the_server(bytes in damaged(SCHEMA)) {
            schema(&bytes);
        }

        #[test]
        fn no_expression_upsets_the_server(text in "(self|a|b|\\.|\\(|\\)|\\[|\\]|[0-9]| |==|&&|\\?|:|in|has|all|map|'x'|,|-|!|>){0,14}|\\PC{0,30}") {
            expression(&text);
        }

        #[test]
        fn no_object_upsets_the_server(which in any::<u8>(), bytes in damaged(CREATE)) {
            let mut sent = vec![which];
            sent.extend(bytes);
            create(&sent);
        }
    }
}
