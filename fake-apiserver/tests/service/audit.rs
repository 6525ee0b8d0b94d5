//! The audit log.

use parking_lot::Mutex;
use std::io::Write;
use std::sync::Arc;

use fake_apiserver::{Audit, Config, Policy};
use http::Request;
use substrate::body::full;

use super::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn under(&self, policy: Policy) -> Config {
        Config { audit: Some(Audit::new(policy, Box::new(self.clone()))), ..Config::default() }
    }

    fn events(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns stage, verb, resource and code of every event.
    fn events_seen(&self) -> Vec<String> {
        let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let one = |e: &Value| {
            let code = &e["responseStatus"]["code"];
            format!("{} {} {} {code}", word(&e["stage"]), word(&e["verb"]), word(&e["objectRef"]["resource"]))
        };
        self.events().iter().map(one).collect()
    }
}

#[test]
fn everything_is_logged_as_it_comes_and_goes() {
    let log = Log::default();
    in_simulation_with(log.under(Policy::default()), |client| async move {
        client.post(CONFIGS, config("a")).await;
        client.get(&format!("{CONFIGS}/b")).await;
        client.get("/version").await;
        drop(client.watch(&format!("{CONFIGS}?watch=1")).await);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let wanted = [
            "RequestReceived create configmaps null",
            "ResponseComplete create configmaps 201",
            "RequestReceived get configmaps null",
            "ResponseComplete get configmaps 404",
            "RequestReceived get - null",
            "ResponseComplete get - 200",
            "RequestReceived watch configmaps null",
            "ResponseStarted watch configmaps 200",
            "ResponseComplete watch configmaps 200",
        ];
        assert_eq!(log.events_seen(), wanted);
        let made = &log.events()[1];
        assert_eq!((&made["level"], &made["userAgent"]), (&json!("Metadata"), &json!("test")));
        assert_eq!((&made["user"]["username"], &made["requestURI"]), (&json!("kubernetes-admin"), &json!(CONFIGS)));
        assert_eq!(made["requestReceivedTimestamp"], "2026-01-01T00:00:00.000000Z");
        assert_eq!(made.get("requestObject"), None);
    });
}

#[test]
fn an_event_is_annotated_with_what_access_and_policies_decided() {
    let log = Log::default();
    in_simulation_with(log.under(Policy::default()), |client| async move {
        let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
        let policy = json!({"metadata": {"name": "p"}, "spec": {
            "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
            "validations": [{"expression": "object.metadata.name != 'b'", "message": "no b"}],
            "auditAnnotations": [{"key": "name", "valueExpression": "'is ' + string(object.metadata.name)"}],
        }});
        assert_eq!(client.post(policies, policy).await.0, 201);
        let binding =
            json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny", "Audit"]}});
        let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
        assert_eq!(client.post(bindings, binding).await.0, 201);
        client.post(CONFIGS, config("a")).await;
        assert_eq!(client.post(CONFIGS, config("b")).await.0, 422);
        let events = log.events();
        let of = |name: &str| {
            let is =
                |e: &&Value| e["stage"] == "ResponseComplete" && e["annotations"]["p/name"] == format!("is {name}");
            events.iter().find(is).unwrap_or_else(|| panic!("{events:?}"))["annotations"].clone()
        };
        let allowed =
            json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "", "p/name": "is a"});
        assert_eq!(of("a"), allowed);
        let failures: Value =
            serde_json::from_str(of("b")["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap())
                .unwrap();
        assert_eq!(failures[0]["message"], "no b");
    });
}

#[test]
fn a_status_is_logged_with_what_it_says() {
    let log = Log::default();
    in_simulation_with(log.under(Policy::default()), |client| async move {
        let json = client.get(&format!("{CONFIGS}/b")).await;
        let request = Request::get(format!("{CONFIGS}/b")).header("accept", "application/vnd.kubernetes.protobuf");
        client.request(request.body(full("")).unwrap()).await;
        client.post(CONFIGS, config("a")).await;
        client.delete(&format!("{CONFIGS}/a")).await;
        let reported: Vec<Value> = log.events().iter().map(|event| event["responseStatus"].clone()).collect();
        let refused = json!({"metadata": {}, "status": "Failure", "message": "configmaps \"b\" not found", "reason": "NotFound",
            "details": json.1["details"], "code": 404});
        assert_eq!((&reported[1], &reported[3]), (&refused, &refused));
        assert_eq!(reported[5], json!({"metadata": {}, "code": 201}));
        assert_eq!((&reported[7]["status"], &reported[7]["code"]), (&json!("Success"), &json!(200)));
    });
}

#[test]
fn impersonation_logs_both_users() {
    let log = Log::default();
    in_simulation_with(log.under(Policy::default()), |client| async move {
        let request =
            Request::get(format!("{CONFIGS}/b")).header("impersonate-user", "system:serviceaccount:default:bob");
        client.request(request.body(full("")).unwrap()).await;
        let events = log.events();
        assert!(events.iter().all(|event| event["user"]["username"] == "kubernetes-admin"), "{events:?}");
        let acting = &events[1]["impersonatedUser"];
        assert_eq!(acting["username"], "system:serviceaccount:default:bob");
        assert_eq!(acting["groups"][0], "system:serviceaccounts");
    });
}

#[test]
fn a_policy_says_what_is_logged_and_how_much() {
    let policy = Policy::parse(
        "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: Metadata, resources: [{group: '', resources: [secrets]}]}
- {level: RequestResponse, resources: [{group: '', resources: [configmaps, pods/status]}], namespaces: [default]}
",
    );
    let log = Log::default();
    in_simulation_with(log.under(policy.unwrap()), |client| async move {
        client.get(CONFIGS).await;
        client.post(CONFIGS, config("a")).await;
        client.post("/api/v1/namespaces/default/secrets", config("s")).await;
        client.post(PODS, pod("p")).await;
        client.merge(&format!("{PODS}/p/status"), json!({"status": {"phase": "Running"}})).await;
        client.post("/api/v1/namespaces/kube-system/configmaps", config("a")).await;
        let wanted = [
            "ResponseComplete create configmaps 201",
            "ResponseComplete create secrets 422",
            "ResponseComplete patch pods 200",
        ];
        // The data of a Secret must be base64; this is not.
        let reported = log.events_seen();
        assert_eq!(reported.len(), 3, "{reported:?}");
        assert_eq!((reported[0].as_str(), reported[2].as_str()), (wanted[0], wanted[2]));
        let events = log.events();
        assert_eq!(events[0]["requestObject"]["data"], json!({"k": "v"}));
        assert_eq!(events[0]["responseObject"]["metadata"]["name"], "a");
        assert_eq!(events[1].get("requestObject"), None);
        assert_eq!(events[2]["objectRef"]["subresource"], "status");
    });
}

#[test]
fn a_policy_that_says_nothing_is_refused() {
    for (yaml, why) in [
        ("kind: Policy", "must be a Policy of audit.k8s.io/v1"),
        ("{apiVersion: audit.k8s.io/v1, kind: Policy}", "rules: must hold at least one"),
        ("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: All}]}", "rules[0].level"),
        ("[", "is not valid YAML"),
    ] {
        let error = Policy::parse(yaml).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn requests_that_their_callers_gave_up_are_logged_as_upstream_does() {
    let log = Log::default();
    in_simulation_with(log.under(Policy::default()), |client| async move {
        let fault = json!({"name": "f", "match": {"plane": "k8s"}, "effect": {"hang": true}});
        assert_eq!(client.post("/admin/v1/faults", fault).await.0, 201);
        let limit = Duration::from_secs(5);
        for (method, uri, body) in [
            ("POST", CONFIGS.to_owned(), Some(config("a"))),
            ("GET", format!("{CONFIGS}/a"), None),
            ("GET", format!("{CONFIGS}?watch=1"), None),
        ] {
            let request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
            let body = body.map_or_else(substrate::body::empty, |body| full(body.to_string()));
            // Without a link between the two, the request ends when its caller stops waiting.
            let mut service = client.service();
            let asked = tower::Service::call(&mut service, request.body(body).unwrap());
            assert!(tokio::time::timeout(limit, asked).await.is_err());
        }
        let wanted = [
            "RequestReceived create configmaps null",
            "ResponseComplete create configmaps 504",
            "RequestReceived get configmaps null",
            "ResponseComplete get configmaps 500",
            "RequestReceived watch configmaps null",
            "ResponseStarted watch configmaps 200",
            "ResponseComplete watch configmaps 200",
        ];
        assert_eq!(log.events_seen(), wanted);
        let gone = &log.events()[1]["responseStatus"];
        let message = "Timeout: request did not complete within requested timeout - context canceled";
        assert_eq!((&gone["reason"], &gone["message"]), (&json!("Timeout"), &json!(message)));
    });
}

#[test]
fn a_process_that_crashes_logs_nothing_of_what_it_had_begun() {
    let log = Log::default();
    in_simulation_with(log.under(Policy::default()), |client| async move {
        let watch = client.watch(&format!("{CONFIGS}?watch=1")).await;
        let reported = log.events_seen();
        client.process.crash();
        drop(watch);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(log.events_seen(), reported);
    });
}
