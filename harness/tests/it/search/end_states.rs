//! Differences between the end states of runs.

use std::cell::RefCell;

use harness::cluster::{Cluster, ClusterSpec};
use harness::runner::{self, PauseHook};
use harness::search::document::Document;
use harness::search::end_state::EndState;
use harness::search::judge::options;
use substrate::world::simulate;

use super::{LIMIT, MOVE};

/// The cloud requires a signature, but accepts any.
const SIGNED: &str =
    "AWS4-HMAC-SHA256 Credential=user/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0";

/// Returns the end state of a run of `text`, after it has converged and `more` has changed the cluster.
fn end(text: &str, more: impl AsyncFn(&Cluster)) -> EndState {
    let scenario = Document::of_text("t", text).unwrap().scenario("t.yaml").unwrap();
    simulate(options(&scenario, 1, &[], LIMIT), async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
        let first = RefCell::new(None);
        let rests = async || {
            if first.borrow().is_none() {
                more(&cluster).await;
                let end = EndState::of(&cluster).await;
                first.replace(Some(end));
            }
        };
        let outcome = runner::run_watched(&scenario, &cluster, |_| {}, &PauseHook::none(), rests).await;
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        first.into_inner().unwrap()
    })
}

#[test]
fn a_stray_annotation_finalizer_tag_or_directory_is_found() {
    let standing = format!("teardown: false\n{MOVE}");
    let usual = end(&standing, async |_| {});
    assert_eq!(end(&standing, async |_| {}).differences(&usual).unwrap(), Vec::<String>::new());
    let patched = |with: &str| format!("{standing}  - patch: {{object: pvc/data, with: {{metadata: {with}}}}}\n");
    let annotation = end(&patched("{annotations: {stray: mark}}"), async |_| {});
    let finalizer = end(&patched("{finalizers: [kubernetes.io/pvc-protection, stray.io/mark]}"), async |_| {});
    let directory = end(&standing, async |cluster| {
        let path = cluster.root("node-a").unwrap().join("pods").join("stray");
        cluster.disk("node-a").unwrap().make_dir(&path).await.unwrap();
    });
    let tag = end(&standing, async |cluster| {
        let state = cluster.objects().list(harness::scenario::Kind::volume()).await.unwrap();
        let volume = state[0]["spec"]["csi"]["volumeHandle"].as_str().unwrap().to_owned();
        let body =
            format!("Action=CreateTags&Version=2016-11-15&ResourceId.1={volume}&Tag.1.Key=stray&Tag.1.Value=mark");
        let request = http::Request::post("/")
            .header("host", "localhost")
            .header("authorization", SIGNED)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(substrate::body::full(body))
            .unwrap();
        let answer = substrate::body::call(cluster.ec2().clone(), request).await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    });
    for (end, expected) in
        [(annotation, "stray"), (finalizer, "stray.io/mark"), (tag, "stray"), (directory, "pods/stray")]
    {
        let differences = end.differences(&usual).unwrap();
        assert_eq!(differences.len(), 1, "{expected}: {differences:?}");
        assert!(differences[0].contains(expected), "{differences:?}");
    }
}
