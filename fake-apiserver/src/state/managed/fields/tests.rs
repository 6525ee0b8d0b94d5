//! Tests of sets of fields: the order of merged lists, and their laws on any tree.

use proptest::prelude::*;

use super::super::compare::compare;
use super::super::prune::prune;
use super::*;
use crate::kinds;

fn pod() -> Topology<'static> {
    Topology::Struct(kinds::schema::of(kinds::find("", "v1", "pods").unwrap()).unwrap())
}

/// Returns the finalizers of an object after an apply of some.
fn listed(live: &[String], applied: &[String]) -> Vec<String> {
    let mut object = json!({"metadata": {"finalizers": live}});
    merge(&mut object, &json!({"metadata": {"finalizers": applied}}), pod());
    serde_json::from_str(&object["metadata"]["finalizers"].to_string()).unwrap()
}

#[test]
fn an_apply_orders_a_list_as_structured_merge_diff_does() {
    let words = |list: &str| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for (live, applied, merged) in [
        ("x w", "z x", "z x w"),
        ("a b c", "c a", "b c a"),
        ("c a w", "a c n", "a w c n"),
        ("a b c d", "d c", "a b d c"),
        ("a a w", "a n", "a n w"),
        ("", "b a", "b a"),
        ("b a", "", "b a"),
    ] {
        assert_eq!(listed(&words(live), &words(applied)), words(merged), "{live} with {applied}");
    }
}

#[test]
fn an_applied_element_is_merged_into_the_one_of_its_name() {
    let mut object = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}});
    merge(
        &mut object,
        &json!({"spec": {"containers": [{"name": "b", "tty": true}, {"name": "a", "image": "3"}]}}),
        pod(),
    );
    let merged = json!([{"name": "b", "image": "2", "tty": true}, {"name": "a", "image": "3"}]);
    assert_eq!(object["spec"]["containers"], merged);
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(null)), Just(json!(1)), "[a-c]{0,1}".prop_map(Value::from)];
    leaf.prop_recursive(6, 40, 4, |inner| {
        let key = prop_oneof![
            Just("spec".to_owned()),
            Just("containers".to_owned()),
            Just("name".to_owned()),
            Just("ports".to_owned()),
            Just("metadata".to_owned()),
            Just("finalizers".to_owned()),
            Just("labels".to_owned()),
            "(f:|k:|v:)?[a-c{}\"]{0,3}",
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_tree_upsets_the_sets(a in tree(), b in tree(), set in tree()) {
        let mut merged = a.clone();
        merge(&mut merged, &b, pod());
        let fields = Fields::parse(&set);
        prop_assert_eq!(Fields::parse(&fields.to_value()).to_value(), fields.to_value());
        let _ = (fields.paths(), fields.union(&fields_of(&a, pod())));
        let difference = compare(Some(&a), Some(&b), pod());
        prune(&mut merged, &fields, &difference.removed, pod());
        prune(&mut merged, &difference.written, &fields_of(&b, pod()), pod());
    }

    #[test]
    fn sets_add_up(a in tree(), b in tree()) {
        let (a, b) = (fields_of(&a, pod()), fields_of(&b, pod()));
        prop_assert!(a.without(&a).is_empty());
        prop_assert_eq!(a.without(&b).union(&a.common(&b)), a.clone());
        prop_assert!(a.without(&b).common(&b).is_empty());
    }

    #[test]
    fn merged_lists_keep_the_order_of_what_was_applied(
        live in proptest::collection::vec("[a-e]", 0..6),
        applied in proptest::collection::btree_set("[a-g]", 0..7).prop_map(|set| set.into_iter().collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let merged = listed(&live, &applied);
        let theirs: Vec<&String> = merged.iter().filter(|name| applied.contains(name)).collect();
        prop_assert_eq!(theirs, applied.iter().collect::<Vec<_>>());
        let ours: Vec<&String> = merged.iter().filter(|name| !applied.contains(name)).collect();
        prop_assert_eq!(ours, live.iter().filter(|name| !applied.contains(name)).collect::<Vec<_>>());
    }

    #[test]
    fn equal_objects_have_no_changes(a in tree()) {
        let difference = compare(Some(&a), Some(&a), pod());
        prop_assert!(difference.written.is_empty() && difference.removed.is_empty());
    }
}
