//! Generates the table of kinds from the aggregated discovery documents of a real server of version 1.36.2.

use std::fmt::Write;

use anyhow::Context;
use serde_json::Value;

/// A resource in a discovery document.
pub struct Resource {
    pub group: String,
    pub version: String,
    pub kind: String,
    plural: String,
    singular: String,
    namespaced: bool,
    short_names: Vec<String>,
    categories: Vec<String>,
    verbs: Vec<String>,
    subresources: Vec<Subresource>,
}

struct Subresource {
    name: String,
    verbs: Vec<String>,
    /// Group, version and kind of its object; empty group and version mean those of the resource.
    response: [String; 3],
}

/// Kinds for which a PUT without resourceVersion is refused (AllowUnconditionalUpdate of their strategies is false).
const CONDITIONAL: &[&str] = &[
    "APIService",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "CustomResourceDefinition",
    "Lease",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "PodDisruptionBudget",
    "RuntimeClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
];

/// Resources that are another form of a stored resource: group, version and plural of both.
const VIEWS: &[([&str; 3], [&str; 3])] = &[
    (["events.k8s.io", "v1", "events"], ["", "v1", "events"]),
    (["autoscaling", "v1", "horizontalpodautoscalers"], ["autoscaling", "v2", "horizontalpodautoscalers"]),
];

const VERBS: &str = "create delete deletecollection get list patch update watch";

impl Resource {
    fn is(&self, [group, version, plural]: [&str; 3]) -> bool {
        self.group == group && self.version == version && self.plural == plural
    }

    /// Returns true if objects of it are stored; a resource that only answers requests cannot be watched.
    fn is_stored(&self) -> bool {
        self.verbs.iter().any(|verb| verb == "watch")
    }
}

/// Returns the resources in the order of discovery.
pub fn read(documents: &Value) -> Result<Vec<Resource>, anyhow::Error> {
    let mut resources = Vec::new();
    for document in ["api", "apis"] {
        for group in list(&documents[document]["items"]) {
            for version in list(&group["versions"]) {
                for resource in list(&version["resources"]) {
                    resources.push(Resource {
                        group: text(&group["metadata"]["name"]),
                        version: text(&version["version"]),
                        kind: text(&resource["responseKind"]["kind"]),
                        plural: text(&resource["resource"]),
                        singular: text(&resource["singularResource"]),
                        namespaced: resource["scope"].as_str().context("scope")? == "Namespaced",
                        short_names: texts(&resource["shortNames"]),
                        categories: texts(&resource["categories"]),
                        verbs: texts(&resource["verbs"]),
                        subresources: list(&resource["subresources"]).iter().map(subresource).collect(),
                    });
                }
            }
        }
    }
    Ok(resources)
}

fn subresource(of: &Value) -> Subresource {
    let response = ["group", "version", "kind"].map(|part| text(&of["responseKind"][part]));
    Subresource { name: text(&of["subresource"]), verbs: texts(&of["verbs"]), response }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    list(value).iter().map(text).collect()
}

/// Returns the module `table.rs`: stored kinds first, then kinds that only answer requests.
pub fn render(resources: &[Resource]) -> String {
    let mut order: Vec<usize> = (0..resources.len()).collect();
    order.sort_by_key(|i| !resources[*i].is_stored());
    let place = |i: usize| order.iter().position(|o| *o == i).unwrap_or_default();
    let stored = resources.iter().filter(|r| r.is_stored()).count();
    let mut out = String::from(
        "//! The kinds of a Kubernetes 1.36.2 server, from its discovery documents (`testdata/discovery.json`).\n//!\n\
         //! Written by `cargo run -p xtask -- kinds`, which adds facts that discovery lacks (unconditional updates, views).\n\n\
         use super::{Kind, Subresource};\n\n\
         const ALL: &[&str] = &[\"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"update\", \"watch\"];\n\
         const WRITE: &[&str] = &[\"get\", \"patch\", \"update\"];\n\n",
    );
    let _ = writeln!(
        out,
        "/// Number of stored kinds, which come first in [`KINDS`].\npub const STORED: usize = {stored};\n"
    );
    let positions: Vec<String> = (0..resources.len()).map(|i| place(i).to_string()).collect();
    let _ = writeln!(
        out,
        "/// Positions in [`KINDS`] in the order of discovery.\n#[rustfmt::skip]\npub(super) static DISCOVERY: &[usize] = &[{}];\n",
        positions.join(", ")
    );
    // A `static`, since a `const` may be duplicated at several addresses and kinds are compared by address.
    let _ = writeln!(out, "/// All kinds.\n#[rustfmt::skip]\npub(super) static KINDS: [Kind; {}] = [", resources.len());
    for (index, i) in order.iter().enumerate() {
        let of = &resources[*i];
        let view = VIEWS.iter().find(|(view, _)| of.is(*view));
        let store = view.and_then(|(_, stored)| resources.iter().position(|r| r.is(*stored))).map_or(index, place);
        let subs: Vec<String> = of.subresources.iter().map(render_sub).collect();
        let _ = writeln!(
            out,
            "    Kind {{ index: {index}, store: {store}, group: {:?}, version: {:?}, kind: {:?}, plural: {:?}, singular: {:?}, \
             short_names: &{:?}, categories: &{:?}, namespaced: {}, has_status: {}, verbs: {}, subresources: &[{}], \
             allow_unconditional_update: {}, custom: None }},",
            of.group,
            of.version,
            of.kind,
            of.plural,
            of.singular,
            of.short_names,
            of.categories,
            of.namespaced,
            of.subresources.iter().any(|s| s.name == "status"),
            render_verbs(&of.verbs),
            subs.join(", "),
            !CONDITIONAL.contains(&of.kind.as_str()),
        );
    }
    out.push_str("];\n");
    out
}

/// Returns the module `named.rs`: the kinds by name, and their positions.
pub fn render_names(resources: &[Resource]) -> String {
    let mut out = String::from(
        "//! Kinds by name. A kind that is stored as another kind has no name here.\n//!\n//! Written by `cargo run -p xtask -- kinds`.\n\n\
         use super::{Kind, table::KINDS};\n\n/// Positions of kinds in the table of all kinds.\npub mod index {\n",
    );
    let mut kinds = String::new();
    let is_own = |of: &&Resource| !VIEWS.iter().any(|(view, _)| of.is(*view));
    let (stored, answered): (Vec<&Resource>, Vec<&Resource>) = resources.iter().partition(|r| r.is_stored());
    for (index, of) in stored.into_iter().chain(answered).enumerate().filter(|(_, of)| is_own(of)) {
        let name = constant(&of.kind, &of.plural);
        let group = if of.group.is_empty() { String::new() } else { format!("{}/", of.group) };
        let _ = writeln!(out, "    /// Position of {}.\n    pub const {name}: usize = {index};", of.kind);
        let _ = writeln!(
            kinds,
            "\n/// `{}` of {group}{}.\npub static {name}: &Kind = &KINDS[index::{name}];",
            of.plural, of.version
        );
    }
    out.push_str("}\n");
    out + &kinds
}

/// Returns the constant of a kind in upper snake case, in the plural: `CSI_DRIVERS`.
fn constant(kind: &str, plural: &str) -> String {
    let letters: Vec<char> = kind.chars().collect();
    let lower = |i: usize| letters.get(i).is_some_and(char::is_ascii_lowercase);
    let shared = letters.iter().zip(plural.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let mut name = String::new();
    for (i, letter) in letters.iter().enumerate().take(shared) {
        if i > 0 && letter.is_ascii_uppercase() && (lower(i - 1) || lower(i + 1)) {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name + &plural.chars().skip(shared).collect::<String>().to_ascii_uppercase()
}

fn render_verbs(verbs: &[String]) -> String {
    match verbs.join(" ").as_str() {
        VERBS => "ALL".to_owned(),
        "get patch update" => "WRITE".to_owned(),
        _ => format!("&{verbs:?}"),
    }
}

fn render_sub(sub: &Subresource) -> String {
    let [group, version, kind] = &sub.response;
    let verbs = render_verbs(&sub.verbs);
    format!("Subresource {{ name: {:?}, verbs: {verbs}, response: ({group:?}, {version:?}, {kind:?}) }}", sub.name)
}
