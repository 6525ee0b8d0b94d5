//! Manifests as `kubectl apply -f` takes them: one YAML text of several documents.

use serde_json::{Map, Value};

use super::diagnostic::Mistake;
use super::lower;
use super::model::Manifest;
use super::source_span::SourceSpan;
use crate::spec::custom::Customs;

/// Reads the manifests in `text`, separated by `---`, and learns the kinds that they define. A `List` is replaced by
/// its items.
///
/// # Errors
/// Names the line and the error, and says what to write instead.
pub(crate) fn manifests(text: &str, customs: &mut Customs) -> Result<Vec<Manifest>, String> {
    let mut all = Vec::new();
    for (line, document) in documents(text) {
        let tree: Option<Map<String, Value>> = substrate::yaml::from_str_with_options(&document, super::options())
            .map_err(|error| text_of(Mistake::of_yaml(&document, &error)))?;
        let Some(tree) = tree else { continue };
        let place = SourceSpan { line, column: 1, ..SourceSpan::default() };
        let items = match tree.get("items") {
            Some(Value::Array(items)) if tree.get("kind").is_some_and(|kind| kind == "List") => items.clone(),
            _ => vec![Value::Object(tree)],
        };
        for item in items {
            let Value::Object(map) = item else { return Err(format!("line {line}: an item of the list is not a map")) };
            let manifest = lower::manifest_of(place, map, customs).map_err(text_of)?;
            all.push(manifest);
        }
    }
    if all.is_empty() {
        return Err("there is no manifest in this text".to_owned());
    }
    Ok(all)
}

/// Formats an error with its line and suggestion.
fn text_of(mistake: Mistake) -> String {
    let help = mistake.help.map(|help| format!("; {help}")).unwrap_or_default();
    format!("line {}: {}{help}", mistake.place.line.max(1), mistake.message)
}

/// Splits a text at its `---` lines. Empty lines replace the earlier documents, so that line numbers stay.
fn documents(text: &str) -> Vec<(u64, String)> {
    let mut all: Vec<(u64, String)> = Vec::new();
    let mut current = String::new();
    let mut begins = 1;
    let mut number = 0;
    for line in text.split_inclusive('\n') {
        number += 1;
        let rest = line.strip_prefix("---").map(str::trim_end);
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])) {
            all.push((begins, std::mem::replace(&mut current, "\n".repeat(number))));
            begins = number as u64 + 1;
        } else {
            current.push_str(line);
        }
    }
    all.push((begins, current));
    let has_content =
        |text: &str| text.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    all.retain(|(_, text)| has_content(text));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let manifests = manifests(text, &mut Customs::default())?;
        Ok(manifests.iter().map(|manifest| manifest.object.to_string()).collect())
    }

    #[test]
    fn documents_lists_and_custom_kinds_are_read() {
        let text = include_str!("../../../docs/pod-with-claim.yaml");
        assert_eq!(
            read(text).unwrap(),
            ["persistentvolumeclaim/data", "pod/web"].map(|text| { text.replace("persistentvolumeclaim", "pvc") })
        );
        let list = "---\n# a comment\n---\nkind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n\
                    - {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: team}}\n";
        assert_eq!(read(list).unwrap(), ["pod/a", "pod/team/b"]);
        let custom = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: tapes.example.com}\n\
                      spec: {group: example.com, scope: Namespaced, names: {kind: Tape, plural: tapes}, \
                      versions: [{name: v1, served: true, storage: true}]}\n--- \napiVersion: example.com/v1\nkind: Tape\n\
                      metadata: {name: one}\n";
        assert_eq!(read(custom).unwrap()[1], "tape/one");
    }

    #[test]
    fn a_mistake_has_its_line() {
        for (text, expected) in [
            ("", "there is no manifest in this text"),
            ("a: 1\n---\nkind: Pod\n", "line 1: the manifest has no `apiVersion`"),
            ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n- 1\n", "line 5: "),
            (
                "apiVersion: v1\nkind: Podd\nmetadata: {name: a}\n",
                "line 1: this cluster has no kind Podd in v1; did you mean `Pod`?",
            ),
            ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\na: [\n", "line "),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
