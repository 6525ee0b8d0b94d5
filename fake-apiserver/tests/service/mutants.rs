//! Seeded bugs: each has its effect when it is on, and none when it is off.

use fake_apiserver::mutants::MUTANTS;
use fake_apiserver::{Apiserver, Config};
use http::Request;
use substrate::body::full;
use substrate::world::{Options, simulate};
use substrate::{Level, Seed};

use super::rbac::{RBAC, guarded, send};
use super::*;

/// Returns observations of a client that reveal each of the seeded bugs.
fn seen(mutant: Option<&str>) -> Vec<String> {
    let mutants = mutant.into_iter().map(str::to_owned).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), Config::default())).await;
        let held = json!({"metadata": {"name": "a", "finalizers": ["x.io/y"]}, "data": {"k": "v"}});
        let old = client.post(CONFIGS, held).await.1["metadata"]["resourceVersion"].clone();
        client.merge(&format!("{CONFIGS}/a"), json!({"data": {"k": "new"}})).await;
        let stale =
            json!({"metadata": {"name": "a", "resourceVersion": old, "finalizers": ["x.io/y"]}, "data": {"k": "old"}});
        let mut seen = vec![format!("stale {}", client.put(&format!("{CONFIGS}/a"), stale).await.0)];
        let version = old.as_str().unwrap();
        let mut watch =
            client.watch(&format!("{CONFIGS}?watch=1&resourceVersion={version}&allowWatchBookmarks=true")).await;
        for name in ["b", "c"] {
            client.post(CONFIGS, config(name)).await;
        }
        seen.extend(watch.events_seen().await);
        client.delete(&format!("{CONFIGS}/a")).await;
        seen.push(format!("deleted {}", client.get(&format!("{CONFIGS}/a")).await.0));
        let at = client.get("/admin/v1/state").await.1["revision"].as_u64().unwrap();
        while let Some(event) = watch.next_within(Duration::from_secs(100)).await {
            if event["type"] == "BOOKMARK" {
                let reported: u64 = event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                seen.push(format!("bookmark {:+}", reported as i64 - at as i64));
                break;
            }
        }
        seen
    })
}

#[test]
fn each_defect_shows_and_none_without() {
    let right = ["stale 409", "MODIFIED a", "ADDED b", "ADDED c", "deleted 200", "bookmark +0"];
    assert_eq!(seen(None), right);
    for mutant in MUTANTS {
        let mut expected: Vec<&str> = right.to_vec();
        match mutant.name {
            "watch-gap" => drop(expected.remove(1)),
            "watch-duplicate" => expected.insert(2, "ADDED b"),
            "watch-out-of-order" => expected.swap(2, 3),
            "bookmark-ahead" => expected[5] = "bookmark +1",
            "finalizer-ignored" => expected[4] = "deleted 404",
            "stale-write-accepted" => {
                expected[0] = "stale 200";
                expected.insert(2, "MODIFIED a");
            }
            // They need a precondition, a selector, an object without finalizers: harness/tests/it/mutants/ has them.
            "delete-precondition-ignored" | "selector-forgotten" | "deletion-told-as-change" => continue,
            // harness/tests/it/mutants/shipped.rs has the scenario that shows each.
            "released-object-stays" | "grace-period-ignored" | "patch-precondition-ignored" => continue,
            "status-in-main-write" | "status-patch-replaces-lists" | "namespace-goes-before-content" => continue,
            "orphaning-ignored" | "generation-not-raised" | "waiting-events-merged" => continue,
            // It needs a disruption budget.
            "budget-ignored" | "eviction-not-counted" => continue,
            "allow-expansion-ignored" | "finalizer-added-while-deleting" | "default-class-not-set" => continue,
            // The test below shows it.
            "continue-skips-one" => continue,
            "list-ignores-selector" | "leaving-object-not-told" => continue,
            // They need a strategic merge patch, an expansion, an eviction, or a forgotten revision.
            "primitive-deletions-ignored" | "recovery-refused" => continue,
            "eviction-without-condition" | "expired-watch-goes-on" => continue,
            // They need a quota, a changed budget, or two default classes.
            "expansion-beyond-quota" | "stale-budget-spent" | "oldest-default-class-taken" => continue,
            "json-patch-test-ignored" | "grace-ends-with-finalizer" | "quota-keeps-deleted" => continue,
            // The tests below show them.
            "continued-list-reads-present" | "created-in-ending-namespace" => continue,
            "former-account-trusted" | "dry-run-eviction-counted" | "leaving-object-missed-while-away" => continue,
            // They need a scale and a quota: harness/tests/it/mutants/shipped.rs has the scenarios.
            "stale-scale-accepted" | "growth-charged-in-full" => continue,
            // They need a budget, a second quota, a LimitRange, an apply or a definition: the same file has them.
            "unready-pod-evicted-freely" | "second-quota-not-charged" | "limits-checked-at-creation-only" => continue,
            "unchanged-write-stored" | "definition-goes-before-objects" => continue,
            // They need a quota.
            "ended-pod-charged" | "changed-quota-not-adopted" => continue,
            // They need custom objects, a long absence, a list by node, or a null: the same file has them.
            "custom-objects-survive-namespace" | "expired-watch-starts-late" | "pod-index-not-refreshed" => continue,
            "merge-patch-null-ignored" => continue,
            // They need a StatefulSet, a grace period, or a second finalizer.
            "zero-replicas-defaulted" | "eviction-grace-dropped" | "object-goes-with-first-finalizer" => continue,
            // The tests below show them.
            "apply-takes-fields-of-updates" | "named-rule-allows-lists" | "neighbour-namespace-watched" => continue,
            "apply-keeps-dropped-fields" | "account-of-any-namespace-bound" | "token-outlives-pod" => continue,
            // They need a StorageClass, or a binding whose answer is lost: harness/tests/it/mutants/shipped.rs has them.
            "empty-class-defaulted" | "bound-pod-rebound" => continue,
            // `of_writes_and_reads` shows them.
            "status-raises-generation" | "binding-drops-tolerations" | "list-lacks-last" => continue,
            "get-reads-past" | "write-answers-former" | "uid-of-the-name" => continue,
            "late-status-ends-deletion" | "claim-update-drops-volume-mode" => continue,
            other => panic!("{other} is not looked at"),
        }
        assert_eq!(seen(Some(mutant.name)), expected, "{}", mutant.name);
    }
}

/// Returns the names of four ConfigMaps, read in pages of two.
fn paged(mutants: &[&str]) -> Vec<String> {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), Config::default())).await;
        for name in ["a", "b", "c", "d"] {
            client.post(CONFIGS, config(name)).await;
        }
        let (mut names, mut token) = (Vec::new(), String::new());
        loop {
            let (_, list) = client.get(&format!("{CONFIGS}?limit=2&continue={token}")).await;
            let items = list["items"].as_array().unwrap();
            names.extend(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()));
            match list["metadata"]["continue"].as_str() {
                Some(next) if !next.is_empty() => token = next.to_owned(),
                _ => return names,
            }
        }
    })
}

#[test]
fn a_page_lacks_an_object_only_by_the_defect() {
    let all = paged(&[]);
    assert!(["a", "b", "c", "d"].iter().all(|name| all.iter().any(|listed| listed == name)), "{all:?}");
    assert!(paged(&["continue-skips-one"]).len() < all.len());
}

/// Returns the status code of the eviction of a ready pod, and the disruptions that its budget allows afterwards.
fn evicted(mutants: &[&str], allowed: u64, query: &'static str) -> (u16, Value) {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), Config::default())).await;
        let mut web = pod("web");
        web["metadata"]["labels"] = json!({"app": "web"});
        client.post(PODS, web).await;
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        client.merge(&format!("{PODS}/web/status"), ready).await;
        let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
        let budget = json!({
            "metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        });
        client.post(budgets, budget).await;
        let status = json!({"status": {
            "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1 + allowed, "desiredHealthy": 1,
            "expectedPods": 1 + allowed,
        }});
        client.merge(&format!("{budgets}/web/status"), status).await;
        let (code, _) = client.post(&format!("{PODS}/web/eviction{query}"), json!({"metadata": {"name": "web"}})).await;
        let (_, budget) = client.get(&format!("{budgets}/web")).await;
        (code, budget["status"]["disruptionsAllowed"].clone())
    })
}

#[test]
fn a_pod_is_evicted_against_its_budget_only_by_the_defect() {
    assert_eq!(evicted(&[], 0, "").0, 429);
    assert_eq!(evicted(&["budget-ignored"], 0, "").0, 201);
}

#[test]
fn a_dry_run_spends_a_budget_only_by_the_defect() {
    assert_eq!(evicted(&[], 1, "?dryRun=All"), (201, json!(1)));
    assert_eq!(evicted(&["dry-run-eviction-counted"], 1, "?dryRun=All"), (201, json!(0)));
}

/// Returns true if a token review accepts an issued token.
async fn is_authenticated(client: &client::Client, issued: &Value) -> bool {
    let review = json!({"spec": {"token": issued["status"]["token"]}});
    let (_, answer) = client.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await;
    answer["status"]["authenticated"] == true
}

/// Returns true if a token is good whose account was deleted and created again.
fn is_trusted(mutants: &[&str]) -> bool {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), Config::default())).await;
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let account = json!({"metadata": {"name": "app"}});
        client.post(accounts, account.clone()).await;
        let (_, issued) = client.post(&format!("{accounts}/app/token"), json!({})).await;
        client.delete(&format!("{accounts}/app")).await;
        client.post(accounts, account).await;
        is_authenticated(&client, &issued).await
    })
}

#[test]
fn a_token_of_a_former_account_is_good_only_by_the_defect() {
    assert!(!is_trusted(&[]));
    assert!(is_trusted(&["former-account-trusted"]));
}

/// Returns true if a token is good whose pod was deleted and created again.
fn is_trusted_without_its_pod(mutants: &[&str]) -> bool {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), Config::default())).await;
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        client.post(accounts, json!({"metadata": {"name": "app"}})).await;
        let mut of_app = pod("web");
        of_app["spec"]["serviceAccountName"] = "app".into();
        client.post(PODS, of_app.clone()).await;
        let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": "web"});
        let request = json!({"spec": {"boundObjectRef": bound}});
        let (code, issued) = client.post(&format!("{accounts}/app/token"), request).await;
        assert_eq!(code, 201);
        client.delete(&format!("{PODS}/web?gracePeriodSeconds=0")).await;
        client.post(PODS, of_app).await;
        is_authenticated(&client, &issued).await
    })
}

#[test]
fn a_token_of_a_former_pod_is_good_only_by_the_defect() {
    assert!(!is_trusted_without_its_pod(&[]));
    assert!(is_trusted_without_its_pod(&["token-outlives-pod"]));
}

/// Returns the events of a watch with a selector that goes on after an object lost its label.
fn resumed(mutants: &[&str]) -> Vec<String> {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), Config::default())).await;
        let labelled = json!({"metadata": {"name": "a", "labels": {"of": "test"}}});
        let (_, made) = client.post(CONFIGS, labelled).await;
        client.merge(&format!("{CONFIGS}/a"), json!({"metadata": {"labels": {"of": null}}})).await;
        let version = made["metadata"]["resourceVersion"].as_str().unwrap();
        let watch = format!("{CONFIGS}?watch=1&resourceVersion={version}&labelSelector=of%3Dtest");
        client.watch(&watch).await.events_seen().await
    })
}

#[test]
fn an_object_that_left_a_selector_is_missed_only_by_the_defect() {
    assert_eq!(resumed(&[]), ["DELETED a"]);
    assert_eq!(resumed(&["leaving-object-missed-while-away"]), Vec::<String>::new());
}

/// Returns the names in the second page of a list, after a change that came between the two pages.
fn second_page(mutants: &[&str]) -> Vec<String> {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), Config::default())).await;
        let labelled = |name: &str| json!({"metadata": {"name": name, "labels": {"of": "test"}}});
        for name in ["a", "b", "c", "d"] {
            client.post(CONFIGS, labelled(name)).await;
        }
        let pages = format!("{CONFIGS}?labelSelector=of%3Dtest&limit=2&continue=");
        let (_, first) = client.get(&pages).await;
        client.delete(&format!("{CONFIGS}/d")).await;
        client.post(CONFIGS, labelled("e")).await;
        let (_, second) = client.get(&format!("{pages}{}", first["metadata"]["continue"].as_str().unwrap())).await;
        let items = second["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    })
}

#[test]
fn pages_of_two_revisions_come_only_by_the_defect() {
    assert_eq!(second_page(&[]), ["c", "d"]);
    assert_eq!(second_page(&["continued-list-reads-present"]), ["c", "e"]);
}

/// Returns the status code of a creation in a namespace that is being deleted.
fn created_late(mutants: &[&str]) -> u16 {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), Config::default())).await;
        client.post("/api/v1/namespaces", json!({"metadata": {"name": "team"}})).await;
        let configs = "/api/v1/namespaces/team/configmaps";
        client.post(configs, json!({"metadata": {"name": "held", "finalizers": ["x.io/y"]}})).await;
        client.delete("/api/v1/namespaces/team").await;
        client.post(configs, config("late")).await.0
    })
}

#[test]
fn an_ending_namespace_gets_an_object_only_by_the_defect() {
    assert_eq!(created_late(&[]), 403);
    assert_eq!(created_late(&["created-in-ending-namespace"]), 201);
}

/// Returns the status code of an apply that sets a field which a patch has changed, and the field afterwards.
fn applied_over(mutants: &[&str]) -> (u16, Value) {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), Config::default())).await;
        let uri = format!("{CONFIGS}/a");
        let apply = async |size: &str| {
            let data = json!({"size": size});
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
            let request = Request::patch(format!("{uri}?fieldManager=me"))
                .header("content-type", "application/apply-patch+yaml")
                .header("user-agent", "test/1")
                .body(full(object.to_string()))
                .unwrap();
            client.request(request).await.0
        };
        assert_eq!(apply("1").await, 201);
        client.merge(&uri, json!({"data": {"size": "2"}})).await;
        let code = apply("3").await;
        (code, client.get(&uri).await.1["data"]["size"].clone())
    })
}

#[test]
fn an_apply_takes_a_field_of_an_update_only_by_the_defect() {
    assert_eq!(applied_over(&[]), (409, json!("2")));
    assert_eq!(applied_over(&["apply-takes-fields-of-updates"]), (200, json!("3")));
}

/// Returns the data of an object after its manager has applied two fields, and then one of them.
fn applied_again(mutants: &[&str]) -> Value {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), Config::default())).await;
        let uri = format!("{CONFIGS}/a");
        for data in [json!({"size": "1", "colour": "red"}), json!({"size": "1"})] {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
            let request = Request::patch(format!("{uri}?fieldManager=me"))
                .header("content-type", "application/apply-patch+yaml")
                .header("user-agent", "test/1")
                .body(full(object.to_string()))
                .unwrap();
            assert!(client.request(request).await.0 < 300);
        }
        client.get(&uri).await.1["data"].clone()
    })
}

#[test]
fn a_field_that_is_no_longer_applied_stays_only_by_the_defect() {
    assert_eq!(applied_again(&[]), json!({"size": "1"}));
    assert_eq!(applied_again(&["apply-keeps-dropped-fields"]), json!({"size": "1", "colour": "red"}));
}

/// Returns the status codes of a list and of a get by a user with a rule for one object.
fn read_by_name(mutants: &[&str]) -> [u16; 2] {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), guarded())).await;
        let post = async |uri: &str, body: Value| send(&client, "secret", &[], Method::POST, uri, body).await.0;
        assert_eq!(post(CONFIGS, config("a")).await, 201);
        let rule =
            json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get", "list"]});
        let role = json!({"metadata": {"name": "r"}, "rules": [rule]});
        assert_eq!(post(&format!("{RBAC}/namespaces/default/roles"), role).await, 201);
        let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "ann"}]});
        assert_eq!(post(&format!("{RBAC}/namespaces/default/rolebindings"), binding).await, 201);
        let get = async |uri: &str| send(&client, "secret", &["ann"], Method::GET, uri, Value::Null).await.0;
        [get(CONFIGS).await, get(&format!("{CONFIGS}/a")).await]
    })
}

#[test]
fn a_rule_for_one_object_allows_a_list_only_by_the_defect() {
    assert_eq!(read_by_name(&[]), [403, 200]);
    assert_eq!(read_by_name(&["named-rule-allows-lists"]), [200, 200]);
}

/// Returns the status codes of lists by the service accounts `app` of two namespaces, one of which has a role.
fn listed_by_accounts(mutants: &[&str]) -> [u16; 2] {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), guarded())).await;
        let post = async |uri: &str, body: Value| send(&client, "secret", &[], Method::POST, uri, body).await.0;
        let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]});
        let role = json!({"metadata": {"name": "r"}, "rules": [rule]});
        assert_eq!(post(&format!("{RBAC}/namespaces/default/roles"), role).await, 201);
        let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "app", "namespace": "default"}]});
        assert_eq!(post(&format!("{RBAC}/namespaces/default/rolebindings"), binding).await, 201);
        let list = async |user: &str| send(&client, "secret", &[user], Method::GET, CONFIGS, Value::Null).await.0;
        [list("system:serviceaccount:default:app").await, list("system:serviceaccount:other:app").await]
    })
}

#[test]
fn a_namesake_in_another_namespace_has_a_role_only_by_the_defect() {
    assert_eq!(listed_by_accounts(&[]), [200, 403]);
    assert_eq!(listed_by_accounts(&["account-of-any-namespace-bound"]), [200, 200]);
}

/// Returns the events of a watch of the namespace `team`, beside which there is `team-b`.
fn watched_in_team(mutants: &[&str]) -> Vec<String> {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), Config::default())).await;
        for namespace in ["team", "team-b"] {
            client.post("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
        }
        let mut watch = client.watch("/api/v1/namespaces/team/secrets?watch=1").await;
        for namespace in ["team-b", "team"] {
            let secret = json!({"metadata": {"name": format!("of-{namespace}")}});
            client.post(&format!("/api/v1/namespaces/{namespace}/secrets"), secret).await;
        }
        watch.events_seen().await
    })
}

#[test]
fn a_namespace_with_a_similar_name_is_watched_only_by_the_defect() {
    assert_eq!(watched_in_team(&[]), ["ADDED of-team"]);
    assert_eq!(watched_in_team(&["neighbour-namespace-watched"]), ["ADDED of-team-b", "ADDED of-team"]);
}

/// Returns facts of writes and reads, each under the name of the seeded bug that makes it false.
fn of_writes_and_reads(mutants: &[&str]) -> Vec<(&'static str, bool)> {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { level: Level::Info, mutants, ..Options::default() }, |world| async move {
        let client = client::serve(&world, &Apiserver::new(&Seed::root(1), Config::default())).await;
        let web = format!("{PODS}/web");
        let (_, made) = client.post(PODS, pod("web")).await;
        client.post(&format!("{web}/binding"), json!({"target": {"kind": "Node", "name": "n"}})).await;
        let (_, started) = client.merge(&format!("{web}/status"), json!({"status": {"phase": "Running"}})).await;
        let (_, listed) = client.get(PODS).await;
        let (_, read) = client.get(&web).await;
        client.delete(&web).await;
        client.merge(&format!("{web}/status"), json!({"status": {"message": "ends"}})).await;
        let (_, ending) = client.get(&format!("{PODS}?resourceVersion=0")).await;
        client.delete(&format!("{web}?gracePeriodSeconds=0")).await;
        let (_, again) = client.post(PODS, pod("web")).await;
        client.post(CLAIMS, claim("data")).await;
        let (_, labelled) = client.merge(&format!("{CLAIMS}/data"), json!({"metadata": {"labels": {"a": "b"}}})).await;
        client.post(CLAIMS, claim("other")).await;
        let (_, claims) = client.get(CLAIMS).await;
        let generation = |pod: &Value| pod["metadata"]["generation"].as_i64();
        let ends = ending["items"]
            .as_array()
            .is_none_or(|items| items.iter().all(|pod| !pod["metadata"]["deletionTimestamp"].is_null()));
        vec![
            ("status-raises-generation", generation(&started) == generation(&made)),
            ("binding-drops-tolerations", read["spec"]["tolerations"].is_array()),
            ("list-lacks-last", listed["items"].as_array().is_some_and(|items| items.len() == 1)),
            ("get-reads-past", read["status"]["phase"] == "Running"),
            ("write-answers-former", labelled["metadata"]["labels"]["a"] == "b"),
            ("uid-of-the-name", again["metadata"]["uid"] != made["metadata"]["uid"]),
            ("late-status-ends-deletion", ends),
            ("claim-update-drops-volume-mode", claims["items"][0]["spec"]["volumeMode"] == "Filesystem"),
        ]
    })
}

#[test]
fn writes_and_reads_are_wrong_only_by_the_defect() {
    let right = of_writes_and_reads(&[]);
    assert!(right.iter().all(|(_, holds)| *holds), "{right:?}");
    for (name, _) in &right {
        let seen = of_writes_and_reads(&[*name]);
        assert!(seen.contains(&(*name, false)), "{name}: {seen:?}");
    }
}
