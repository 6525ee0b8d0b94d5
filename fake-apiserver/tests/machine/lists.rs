use fake_apiserver::state::selector::Selector;
use fake_apiserver::state::{ListOptions, Listed, Match, Version};
use substrate::json::json;

use super::*;

fn names(listed: &Listed) -> Vec<&str> {
    listed.items.iter().map(|o| value::name(&o.value)).collect()
}

fn with_configs(names: &[&str]) -> Machine {
    let mut m = Machine::new();
    for name in names {
        m.create("configmaps", config(name)).unwrap();
    }
    m
}

fn list(m: &Machine, options: ListOptions) -> Result<Listed, Status> {
    m.store.list(kind("configmaps"), Some("default"), &Selector::default(), &options)
}

fn limit(limit: usize) -> ListOptions {
    ListOptions { limit, ..ListOptions::default() }
}

#[test]
fn pages_show_one_revision_whatever_happens_between_them() {
    let mut m = with_configs(&["a", "b", "c", "d"]);
    let first = list(&m, limit(2)).unwrap();
    assert_eq!((names(&first), first.remaining), (vec!["a", "b"], Some(2)));
    m.delete("configmaps", "c", DeleteOptions::default()).unwrap();
    m.create("configmaps", config("bb")).unwrap();
    m.patch("configmaps", "d", Part::Main, json!({"data": {"k": "new"}})).unwrap();
    let second = list(&m, ListOptions { token: first.token.clone(), ..limit(2) }).unwrap();
    assert_eq!((names(&second), second.revision, second.token.as_str()), (vec!["c", "d"], first.revision, ""));
    assert_eq!(second.items[1].value["data"]["k"], "v");
}

#[test]
fn an_expired_token_comes_with_one_that_goes_on() {
    let mut m = with_configs(&["a", "b", "c"]);
    let first = list(&m, limit(1)).unwrap();
    m.create("configmaps", config("d")).unwrap();
    m.store.compact(m.store.revision());
    let status = list(&m, ListOptions { token: first.token, ..limit(1) }).unwrap_err();
    assert_eq!((status.code, status.reason), (410, "Expired"));
    let rest = list(&m, ListOptions { token: status.continue_token, ..ListOptions::default() }).unwrap();
    assert_eq!((names(&rest), rest.revision), (vec!["b", "c", "d"], m.store.revision()));
}

#[test]
fn an_exact_revision_is_that_revision() {
    let mut m = with_configs(&["a"]);
    let then = m.store.revision();
    m.create("configmaps", config("b")).unwrap();
    let exact = |version, matching, limit| ListOptions { version, matching, limit, ..ListOptions::default() };
    let at = Version::At(then);
    assert_eq!(names(&list(&m, exact(at, Some(Match::Exact), 0)).unwrap()), ["a"]);
    assert_eq!(names(&list(&m, exact(at, None, 0)).unwrap()), ["a", "b"]);
    assert_eq!(names(&list(&m, exact(at, None, 5)).unwrap()), ["a"]);
    assert_eq!(names(&list(&m, exact(at, Some(Match::NotOlderThan), 0)).unwrap()), ["a", "b"]);
    assert_eq!(names(&list(&m, exact(Version::Any, None, 0)).unwrap()), ["a", "b"]);
    let future = list(&m, exact(Version::At(999), None, 0)).unwrap_err();
    assert_eq!((future.code, future.details.causes[0].reason), (504, "ResourceVersionTooLarge"));
    assert_eq!(future.message, format!("Timeout: Too large resource version: 999, current: {}", m.store.revision()));
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let m = with_configs(&["a"]);
    let options = ListOptions::default;
    for (options, code) in [
        (ListOptions { matching: Some(Match::Exact), ..options() }, 422),
        (ListOptions { matching: Some(Match::Exact), version: Version::Any, ..options() }, 422),
        (ListOptions { token: "x".into(), version: Version::At(1), ..options() }, 400),
        (ListOptions { token: "!".into(), ..options() }, 400),
        (ListOptions { token: "e30".into(), ..options() }, 400),
    ] {
        assert_eq!(list(&m, options).unwrap_err().code, code);
    }
    // Parsed like Go's strconv.ParseUint.
    for bad in ["x", "-1", "1.0", "+1", "18446744073709551616"] {
        assert_eq!(Version::parse(bad).unwrap_err().code, 400, "{bad}");
    }
    assert_eq!(Version::parse("01").unwrap(), Version::At(1));
    assert_eq!(Version::parse("18446744073709551615").unwrap(), Version::At(u64::MAX));
}

#[test]
fn keys_are_in_the_order_of_their_bytes() {
    let mut m = Machine::new();
    for namespace in ["a", "a-b"] {
        m.create("namespaces", json!({"metadata": {"name": namespace}})).unwrap();
    }
    let listed = m.store.list(kind("serviceaccounts"), None, &Selector::default(), &ListOptions::default()).unwrap();
    let namespaces: Vec<_> = listed.items.iter().map(|o| value::namespace(&o.value)).collect();
    // `-` sorts before `/`, as in etcd.
    assert_eq!(&namespaces[..2], ["a-b", "a"]);
}
