//! Custom kinds of a file's CustomResourceDefinitions, valid from where the file applies them.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use fake_apiserver::kinds;
use fake_apiserver::kinds::priority;
use serde_json::Value;

use super::kind::Kind;

/// Custom kinds that a file has defined so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Customs(Vec<Kind>);

impl Customs {
    /// The kinds of snapshots, which a cluster has from its beginning if one of their loops runs in it.
    pub(crate) fn with_snapshots() -> Self {
        static KINDS: OnceLock<Customs> = OnceLock::new();
        let kinds = KINDS.get_or_init(|| {
            let mut customs = Self::default();
            let definitions = controllers::snapshot::definitions().expect("the embedded definitions are valid");
            definitions.iter().for_each(|definition| customs.learn(definition));
            customs
        });
        kinds.clone()
    }

    /// The custom kinds with which a cluster begins, without the components `without`.
    pub(crate) fn of_cluster(without: &BTreeSet<String>) -> Self {
        let is_out = |name: &str| without.contains(name);
        if is_out(controllers::SNAPSHOT_CONTROLLER) && is_out(controllers::SNAPSHOTTER) {
            return Self::default();
        }
        Self::with_snapshots()
    }

    /// Adds the kinds of `manifest` if it is a CustomResourceDefinition, and drops the versions of an earlier one with
    /// the same name.
    pub(crate) fn learn(&mut self, manifest: &Value) {
        if manifest["kind"] != "CustomResourceDefinition" {
            return;
        }
        let rows = rows(manifest);
        if let Some(first) = rows.first() {
            self.0.retain(|kind| !kind.is_resource(&first.plural, &first.group));
        }
        self.0.extend(rows.into_iter().map(|row| Kind::custom(row.keep())));
    }

    /// Finds the kind of a manifest.
    pub(crate) fn of_manifest(&self, api_version: &str, kind: &str) -> Option<Kind> {
        self.0.iter().copied().find(|one| one.kind() == kind && one.api_version() == api_version)
    }

    /// All of them; of several versions the preferred one comes first.
    pub(crate) fn all(&self) -> impl Iterator<Item = Kind> + Clone + '_ {
        self.0.iter().copied()
    }

    /// Finds the kind for `word` among these and the built-in ones.
    pub(crate) fn find(&self, word: &str) -> Option<Kind> {
        Kind::find(word, &self.0)
    }

    /// Every word that [`Customs::find`] accepts without a group; for custom kinds also with their groups.
    pub(crate) fn words(&self) -> impl Iterator<Item = String> + '_ {
        Kind::words(&self.0)
    }
}

/// Names of one version of a custom kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    group: String,
    version: String,
    kind: String,
    plural: String,
    singular: String,
    short_names: Vec<String>,
    namespaced: bool,
    status: bool,
    scale: bool,
}

/// Served versions of a definition, the preferred one first.
fn rows(definition: &Value) -> Vec<Row> {
    let (spec, names) = (&definition["spec"], &definition["spec"]["names"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&names["kind"]);
    let singular = Some(text(&names["singular"])).filter(|word| !word.is_empty());
    let short_names = names["shortNames"].as_array().map(|list| list.iter().map(text).collect()).unwrap_or_default();
    let row = |version: &Value| Row {
        group: text(&spec["group"]),
        version: text(&version["name"]),
        plural: text(&names["plural"]),
        singular: singular.clone().unwrap_or_else(|| kind.to_lowercase()),
        kind: kind.clone(),
        short_names: Vec::clone(&short_names),
        namespaced: spec["scope"] == "Namespaced",
        status: version["subresources"]["status"].is_object(),
        scale: version["subresources"]["scale"].is_object(),
    };
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rows: Vec<Row> = versions.iter().filter(|version| version["served"] == true).map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(priority(&row.version)));
    rows
}

impl Row {
    /// Returns the static kind for these names. Each distinct one is leaked once, so that it lives as long as built-in
    /// kinds. Earlier entries have no observable effect.
    fn keep(self) -> &'static kinds::Kind {
        static KINDS: Mutex<BTreeMap<Row, &'static kinds::Kind>> = Mutex::new(BTreeMap::new());
        let mut kept = KINDS.lock();
        if let Some(known) = kept.get(&self) {
            return known;
        }
        let name = |text: &str| -> &'static str { text.to_owned().leak() };
        let kind: &'static kinds::Kind = Box::leak(Box::new(kinds::Kind {
            // Sorts after all built-in kinds; custom kinds sort by name.
            index: usize::MAX,
            store: usize::MAX,
            group: name(&self.group),
            version: name(&self.version),
            kind: name(&self.kind),
            plural: name(&self.plural),
            singular: name(&self.singular),
            short_names: self.short_names.iter().map(|word| name(word)).collect::<Vec<_>>().leak(),
            categories: &[],
            namespaced: self.namespaced,
            has_status: self.status,
            verbs: &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            subresources: kinds::custom_subresources(self.status, self.scale),
            allow_unconditional_update: true,
            custom: None,
        }));
        kept.insert(self, kind);
        kind
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::spec::ObjectRef;

    fn customs() -> Customs {
        let mut customs = Customs::default();
        customs.learn(&json!({
            "kind": "CustomResourceDefinition",
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": { "plural": "widgets", "kind": "Widget", "shortNames": ["wd", "pvc"] },
                "versions": [
                    { "name": "v1beta1", "served": true },
                    { "name": "v1", "served": true, "subresources": { "status": {} } },
                    { "name": "v2", "served": false },
                ],
            },
        }));
        customs
    }

    #[test]
    fn a_custom_kind_goes_by_the_words_that_kubectl_takes() {
        let customs = customs();
        for word in
            ["widget", "widgets", "wd", "Widget", "widgets.example.com", "wd.example.com", "widget.v1.example.com"]
        {
            let object = ObjectRef::read(&format!("{word}/w1"), &customs).unwrap();
            assert_eq!(object.path(), "/apis/example.com/v1/namespaces/default/widgets/w1", "{word}");
        }
        let old = ObjectRef::read("widgets.v1beta1.example.com/a/w1", &customs).unwrap();
        assert_eq!(old.path(), "/apis/example.com/v1beta1/namespaces/a/widgets/w1");
        assert_eq!(old.kind.subresources().count(), 0);
        // Built-in words win, as in kubectl.
        assert_eq!(ObjectRef::read("pvc/data", &customs).unwrap().kind, Kind::claim());
        assert_eq!(ObjectRef::read("storageclasses.storage.k8s.io/a", &customs).unwrap().kind, Kind::storage_class());
        assert_eq!(ObjectRef::read("sc.v1.storage.k8s.io/a", &customs).unwrap().kind, Kind::storage_class());
    }

    #[test]
    fn an_unknown_word_gets_the_nearest_of_both_kinds_of_words() {
        let error = |text: &str| ObjectRef::read(text, &customs()).unwrap_err();
        assert_eq!(error("wigdet/w1"), "`wigdet` is not a kind of object, did you mean `widget`?");
        assert_eq!(
            error("widgets.example.org/w1"),
            "`widgets.example.org` is not a kind of object, did you mean `widgets.example.com`?"
        );
        assert_eq!(
            error("widgets.v2.example.com/w1"),
            "`widgets.v2.example.com` is not a kind of object, did you mean `widgets.example.com`?"
        );
        assert!(ObjectRef::read("widget/w1", &Customs::default()).is_err());
    }

    #[test]
    fn a_kind_is_made_once_and_a_later_definition_replaces_an_earlier_one() {
        let (one, other) = (customs(), customs());
        assert!(one.all().eq(other.all()));
        let mut changed = one.clone();
        changed.learn(&json!({
            "kind": "CustomResourceDefinition",
            "spec": {
                "group": "example.com",
                "scope": "Cluster",
                "names": { "plural": "widgets", "kind": "Widget" },
                "versions": [{ "name": "v1", "served": true }],
            },
        }));
        assert_eq!(ObjectRef::read("widget/w1", &changed).unwrap().path(), "/apis/example.com/v1/widgets/w1");
        assert!(ObjectRef::read("wd/w1", &changed).is_err());
    }
}
