//! Users and groups of client certificates, RBAC, and the tokens of service accounts.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use substrate::json::{Value, json};

use crate::client::Client;
use crate::pair::{Assets, Authority, Pair};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn a_certificate_says_user_and_groups_and_roles_say_what_they_may() {
    let pair = Pair::start();
    let (admin, ann) = (pair.admin(), pair.assets.user("ann", &["readers", "team"]));
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let who = ann.write("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &review);
    let info = &who["status"]["userInfo"];
    assert_eq!(info["username"], "ann");
    assert_eq!(info["groups"], json!(["readers", "team", "system:authenticated"]));
    let refused = ann.get(CONFIGS);
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.json()["message"],
        "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \
         \"default\""
    );
    let role = json!({"metadata": {"name": "read"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]});
    admin.write("POST", &format!("{RBAC}/namespaces/default/roles"), &role);
    let binding = json!({"metadata": {"name": "read"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "read"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}]});
    admin.write("POST", &format!("{RBAC}/namespaces/default/rolebindings"), &binding);
    assert_eq!(ann.get(CONFIGS).status, 200);
    assert_eq!(ann.send("POST", CONFIGS, r#"{"metadata": {"name": "c"}}"#).status, 403);
    // The admin API is for administrators.
    assert_eq!(ann.get("/admin/v1/state").status, 403);
    assert_eq!(admin.get("/admin/v1/state").status, 200);
}

#[test]
fn a_token_of_the_file_is_that_of_its_user() {
    let assets = Assets::new();
    assets.write("tokens.csv", "secret,ann,7,\"readers,team\"\n");
    let file = format!("--token-auth-file={}", assets.certs().join("tokens.csv").display());
    let _etcd = assets.start_etcd();
    let _apiserver = assets.start_apiserver(&[&file, "--version=v1.36.2-custom"]);
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let ann = assets.anyone().with_token("secret");
    let who = ann.write("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &review);
    let groups = ["readers", "team", "system:authenticated"];
    assert_eq!(who["status"]["userInfo"], json!({"username": "ann", "uid": "7", "groups": groups}));
    assert_eq!(assets.anyone().with_token("other").get(CONFIGS).status, 401);
    assert_eq!(ann.get("/version").json()["gitVersion"], "v1.36.2-custom");
}

#[test]
fn a_certificate_of_another_authority_is_answered_401_and_none_is_anonymous() {
    let pair = Pair::start();
    let (certificate, key) = Authority::new().user("admin", &["system:masters"]);
    let stranger = Client::new(pair.assets.port, &pair.assets.servers.pem(), Some((&certificate, &key)));
    // The same for a health check, which is open to anonymous requests: an invalid certificate is refused even there.
    for path in [CONFIGS, "/healthz"] {
        let refused = stranger.get(path);
        assert_eq!((refused.status, &refused.json()["reason"]), (401, &json!("Unauthorized")), "{path}");
    }
    let anonymous = pair.assets.anyone().get(CONFIGS);
    assert_eq!(anonymous.status, 403);
    assert!(anonymous.body.contains("User \\\"system:anonymous\\\" cannot list"), "{anonymous:?}");
    // A token counts even if the certificate is invalid.
    let token = token_of(&pair.admin(), "robot");
    assert_eq!(stranger.with_token(&token).get("/healthz").status, 200);
    assert_eq!(stranger.with_token("rubbish").get("/healthz").status, 401);
}

#[test]
fn without_roles_everyone_who_is_known_may_do_everything() {
    let assets = Assets::new();
    let _etcd = assets.start_etcd();
    // Requests without credentials are then refused, so envtest's own health check fails, as with the real server.
    let server = assets.spawn_with(&[assets.args(), vec!["--authorization-mode=AlwaysAllow".to_owned()]].concat());
    let ann = assets.user("ann", &[]);
    assets.wait_until(|| ann.open("GET", "/healthz", "").is_ok_and(|answer| answer.status == 200));
    assert_eq!(ann.get("/api/v1/secrets").status, 200);
    assert_eq!(assets.anyone().get("/healthz").status, 401);
    drop(server);
}

fn token_of(admin: &Client, name: &str) -> String {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let found = admin.get(&format!("{accounts}/{name}"));
    if found.status == 404 {
        admin.write("POST", accounts, &json!({"metadata": {"name": name}}));
    }
    let made = admin.write("POST", &format!("{accounts}/{name}/token"), &json!({"spec": {}}));
    made["status"]["token"].as_str().unwrap().to_owned()
}

fn part(token: &str, index: usize) -> Value {
    let part = token.split('.').nth(index).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[test]
fn tokens_are_signed_by_the_key_of_the_command_line_and_outlive_the_server() {
    let mut pair = Pair::start();
    let token = token_of(&pair.admin(), "robot");
    let issuer = format!("https://127.0.0.1:{}/", pair.assets.port);
    assert_eq!(part(&token, 0)["alg"], "ES256");
    assert_eq!(part(&token, 1)["iss"], issuer.as_str());
    assert_eq!(part(&token, 1)["aud"], json!([issuer]));
    let refused = |pair: &Pair| pair.assets.anyone().with_token(&token).get(CONFIGS);
    let seen = refused(&pair);
    assert!(seen.status == 403 && seen.body.contains("system:serviceaccount:default:robot"), "{seen:?}");
    // A token with a forged signature is refused.
    let (signed, signature) = token.rsplit_once('.').unwrap();
    // The last character has bits that do not count, so another one changes nothing in a fourth of the runs.
    let other = if signature.starts_with('A') { 'B' } else { 'A' };
    let forged = format!("{signed}.{other}{}", &signature[1..]);
    assert_eq!(pair.assets.anyone().with_token(&forged).get(CONFIGS).status, 401);
    pair.end_apiserver("-TERM");
    pair.apiserver = Some(pair.assets.start_apiserver(&[]));
    assert_eq!(refused(&pair).status, 403);
    // After a change of the key the old token is invalid.
    pair.end_apiserver("-TERM");
    let signer = Authority::new();
    pair.assets.write("sa-signer.crt", &signer.pem());
    pair.assets.write("sa-signer.key", &signer.key());
    pair.apiserver = Some(pair.assets.start_apiserver(&[]));
    assert_eq!(refused(&pair).status, 401);
}

#[test]
fn privileged_containers_need_the_flag() {
    let pair = Pair::start_in(Assets::new(), &["--allow-privileged=false"]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "i", "securityContext": {"privileged": true}}]}});
    let refused = pair.admin().send("POST", "/api/v1/namespaces/default/pods", &pod.to_string());
    assert_eq!(refused.status, 422);
    assert!(refused.body.contains("Forbidden: disallowed by cluster policy"), "{refused:?}");
}
