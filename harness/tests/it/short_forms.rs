//! Short forms, repetitions and fragments of scenario files: their expansion, and the positions of mistakes in them.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use harness::cluster::{Cluster, ClusterSpec};
use harness::runner;
use harness::scenario::{self, Action, Scenario};
use serde_json::{Value, json};
use substrate::world::{Options, simulate};

fn parse(text: &str) -> Scenario {
    scenario::parse("t.yaml", text).unwrap_or_else(|e| panic!("{}", e.render(false, 100)))
}

fn refusal(text: &str) -> String {
    scenario::parse("t.yaml", text).expect_err("the text has a mistake").render(false, 100)
}

/// Returns a scenario text of three nodes with these steps.
fn with_steps(steps: &str) -> String {
    format!("name: t\nnodes: {{count: 3}}\nsteps:\n{steps}")
}

fn run(scenario: &Scenario) -> runner::Outcome {
    simulate(Options::default(), async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(scenario)).unwrap();
        runner::run(scenario, &cluster, |_| {}).await
    })
}

fn applied(scenario: &Scenario) -> Vec<&Value> {
    let applied = scenario.steps.iter().filter_map(|step| match &step.action {
        Action::Apply(list) => Some(list),
        _ => None,
    });
    applied.flatten().map(|manifest| &manifest.value).collect()
}

#[test]
fn a_claim_a_pod_and_a_class_are_the_manifests_that_they_stand_for() {
    let text = with_steps(
        "  - class: {name: fast, binding: Immediate, reclaim: Retain, parameters: {type: io2}}
  - claim: {name: data, size: 2Gi, class: fast, mode: ReadWriteOncePod}
  - pod: {name: web, claim: data, node: node-b, grace: 5s, tolerate: true}
",
    );
    let scenario = parse(&text);
    let applied = applied(&scenario);
    assert_eq!(applied[0]["parameters"], json!({ "type": "io2" }));
    assert_eq!(applied[0]["volumeBindingMode"], "Immediate");
    assert_eq!(applied[0]["reclaimPolicy"], "Retain");
    let spec = json!({
        "accessModes": ["ReadWriteOncePod"],
        "storageClassName": "fast",
        "resources": { "requests": { "storage": "2Gi" } },
    });
    assert_eq!(applied[1]["spec"], spec);
    let spec = json!({
        "containers": [{
            "name": "writer",
            "image": "mooring/writer",
            "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
        }],
        "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }],
        "nodeSelector": { "kubernetes.io/hostname": "node-b" },
        "terminationGracePeriodSeconds": 5,
        "tolerations": [{ "operator": "Exists" }],
    });
    assert_eq!(applied[2]["spec"], spec);
    assert!(scenario.objects.is_empty(), "a claim that names its class needs no other");
}

#[test]
fn twenty_volumes_are_a_few_lines_and_all_of_them_work() {
    let text = "name: twenty
nodes: {count: 2}
objects:
  - repeat:
      count: 20
      as: i
      do:
        - claim: {name: 'data-${i}'}
        - pod: {name: 'web-${i}', claim: 'data-${i}', grace: 0s}
steps:
  - repeat: {count: 20, as: i, do: [{wait: {object: 'pod/web-${i}', records: 1}}]}
  - repeat:
      each: [0, 19]
      as: i
      do:
        # Each of these stands in one line.
        - {name: 'last look ${i}', expect: {bytes-intact: 'pod/web-${i}', records: 0}}
        - delete: {object: 'pod/web-${i}'}
";
    let scenario = parse(text);
    // The default class, and a claim and a pod each.
    assert_eq!((scenario.objects.len(), scenario.steps.len()), (41, 24));
    assert_eq!(scenario.objects[0].value["kind"], "StorageClass");
    assert_eq!(scenario.steps[22].name.as_deref(), Some("last look 19"));
    assert_eq!(scenario.steps[22].line, 17, "a repeated step stands where it is written");
    let outcome = run(&scenario);
    assert!(outcome.passed(), "{:?} {:?}", outcome.failure, outcome.violations);
}

#[test]
fn repetitions_stand_in_each_other() {
    let text = with_steps(
        "  - repeat:
      each: [node-a, node-b]
      as: node
      do:
        - repeat:
            count: 2
            as: i
            do:
              - pod: {name: 'web-${node}-${i}', node: '${node}'}
        - sleep: 1s
",
    );
    let scenario = parse(&text);
    let names: Vec<&str> = applied(&scenario).iter().map(|v| v["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["web-node-a-0", "web-node-a-1", "web-node-b-0", "web-node-b-1"]);
    assert_eq!(scenario.steps.len(), 6);
}

#[test]
fn a_mistake_in_a_repetition_is_shown_in_its_line_with_its_values() {
    let text = with_steps(
        "  - repeat:\n      count: 2\n      as: i\n      do:\n        - wait: {object: 'pdo/web-${i}', is: Running}\n",
    );
    let message = refusal(&text);
    assert!(message.contains("t.yaml:8:26: `pdo` is not a kind of object, did you mean `pod`?"), "{message}");
    assert!(message.contains("8 │         - wait: {object: 'pdo/web-0', is: Running}"), "{message}");
    let text = with_steps("  - repeat:\n      count: 2\n      as: node\n      do:\n        - cordon: node-${nod}\n");
    let message = refusal(&text);
    assert!(message.contains("t.yaml:8:24: there is no variable `nod` here"), "{message}");
    assert!(message.contains("did you mean `node`?"), "{message}");
    let text = with_steps("  - repeat:\n      count: 2\n      as: i\n      do:\n        - {name: again, sleep: 1s}\n");
    assert!(refusal(&text).contains("two steps are called `again`"), "{}", refusal(&text));
    for (wrong, why) in [
        ("count: 0, as: i, do: []", "a list is repeated 1 to 10000 times"),
        ("as: i, do: []", "say either `count` or `each`"),
        ("count: 1, each: [a], as: i, do: []", "say either `count` or `each`"),
        ("count: 1, as: 'a b', do: []", "is not a variable name"),
        ("count: 1, as: i, do: 5", "`do` is a list of items"),
        ("count: 1, do: []", "the key `as` is missing"),
        ("cuont: 1, as: i, do: []", "did you mean `count`?"),
    ] {
        let message = refusal(&with_steps(&format!("  - repeat: {{{wrong}}}\n")));
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn a_step_that_fails_in_a_repetition_is_named_with_its_values() {
    let text =
        with_steps("  - repeat: {count: 3, as: i, do: [{wait: {object: 'pod/web-${i}', is: Running, within: 1s}}]}\n");
    let scenario = parse(&text);
    let outcome = run(&scenario);
    let report = harness::report::Report::of(&scenario, &outcome).render(harness::output::Style::PLAIN);
    assert!(report.starts_with("t.yaml:4:36  wait until pod/web-0 is Running within 1s\n"), "{report}");
}

#[test]
fn text_in_braces_can_be_written() {
    let text = with_steps(
        "  - repeat:
      count: 1
      as: i
      do:
        - apply:
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: 'c-${i}'}
            data: {script: 'echo $${HOME}'}
",
    );
    assert_eq!(applied(&parse(&text))[0]["data"]["script"], "echo ${HOME}");
}

#[test]
fn a_fragment_is_read_beside_the_file_that_includes_it() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("two.yaml", "- claim: {name: '${name}'}\n- pod: {name: web, claim: '${name}'}\n");
    write(
        "end.yaml",
        "- wait: {object: pod/web, is: Running}\n- sleep: 1s\n- wait: {object: pod/absent, is: Running, within: 1s}\n",
    );
    let main = "name: t
nodes: {count: 1}
objects:
  - include: {file: two.yaml, with: {name: data}}
steps:
  - include: end.yaml
";
    write("main.yaml", main);
    let load = || scenario::load(&folder.path().join("main.yaml"));
    let scenario = load().unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
    assert_eq!((scenario.objects.len(), scenario.steps.len()), (3, 3));
    let outcome = run(&scenario);
    let report = harness::report::Report::of(&scenario, &outcome).render(harness::output::Style::PLAIN);
    let place = folder.path().join("end.yaml");
    assert!(report.starts_with(&format!("{}:3:3  wait until pod/absent", place.display())), "{report}");
    // A mistake in a fragment is reported at its position in the fragment.
    write("end.yaml", "- sleep: 1s\n- slep: 1s\n");
    let message = load().unwrap_err().to_string();
    assert!(message.contains("end.yaml:2:3: unknown key `slep`"), "{message}");
    write("end.yaml", "- include: end.yaml\n");
    assert!(load().unwrap_err().to_string().contains("stand in each other more than"));
    write("end.yaml", "- include: /etc/passwd\n");
    assert!(load().unwrap_err().to_string().contains("relative to the file"));
    write("end.yaml", "- include: nothing.yaml\n");
    assert!(load().unwrap_err().to_string().contains("cannot read"));
    // A text without a file has no fragments beside it.
    assert!(refusal(&with_steps("  - include: end.yaml\n")).contains("this scenario is not a file"));
}

#[test]
fn unbounded_repeats_are_refused() {
    let mut text = String::from("  - cordon: node-a\n");
    for depth in 0..3 {
        let indented: String = text.lines().map(|line| format!("      {line}\n")).collect();
        text = format!("  - repeat:\n      count: 10000\n      as: i{depth}\n      do:\n{indented}");
    }
    assert!(refusal(&with_steps(&text)).contains("come to more than 8 MiB of text"));
}

#[test]
fn flags_by_their_upstream_names_are_in_force_in_their_process() {
    // A node becomes Unknown after the grace period, by default 50 s.
    let text = |flags: &str| {
        format!(
            "name: t
nodes: {{count: 2}}
{flags}
steps:
  - {{name: power loss, crash: node-a}}
  - wait: {{object: node/node-a, is: Unknown, within: 3m}}
  - expect: {{elapsed: {{since: power loss, at-most: 30s}}}}
"
        )
    };
    let with = run(&parse(&text("flags: {kube-controller-manager: {node-monitor-grace-period: 15s}}")));
    assert!(with.passed(), "{:?}", with.failure);
    let without = run(&parse(&text("")));
    assert!(without.failure.unwrap().seen.contains("have passed"));
    let message = refusal(&text("flags: {kube-controller-manager: {node-monitor-grace-perod: 15s}}"));
    assert!(
        message.contains("t.yaml:3:35: kube-controller-manager has no flag `node-monitor-grace-perod`"),
        "{message}"
    );
    assert!(message.contains("did you mean `node-monitor-grace-period`?"), "{message}");
    let message = refusal(&text("flags: {kube-controller-manager: {node-monitor-grace-period: soon}}"));
    assert!(
        message.contains("t.yaml:3:62: node-monitor-grace-period of kube-controller-manager is a duration"),
        "{message}"
    );
    let message = refusal(&text("flags: {kubelett: {csiTimeout: 5s}}"));
    assert!(message.contains("t.yaml:3:9: `kubelett` has no flags"), "{message}");
}

#[test]
fn a_manifest_that_the_api_server_would_refuse_is_refused_when_it_is_read() {
    let claim = |spec: &str| {
        with_steps(&format!(
            "  - apply:
      apiVersion: v1
      kind: PersistentVolumeClaim
      metadata: {{name: data}}
      spec:
        {spec}
"
        ))
    };
    let whole = "resources: {requests: {storage: 1Gi}}, accessModes: [ReadWriteOnce]";
    let message = refusal(&claim(&format!("{{{whole}, storageClasName: gp3}}")));
    assert!(message.contains("t.yaml:9:79: PersistentVolumeClaim has no field \"spec.storageClasName\""), "{message}");
    assert!(message.contains("did you mean `storageClassName`?"), "{message}");
    let message = refusal(&claim("{resources: {requests: {storage: 1Gi}}, accessModes: ReadWriteOnce}"));
    assert!(message.contains("t.yaml:9:49: json: cannot unmarshal string"), "{message}");
    let message = refusal(&claim("{resources: {requests: {storage: 1Gib}}, accessModes: [ReadWriteOnce]}"));
    assert!(message.contains("t.yaml:9:42: spec.resources.requests.storage: `1Gib` is not a quantity"), "{message}");
    assert!(message.contains("did you mean `1Gi`?"), "{message}");
    let message = refusal(&claim("{resources: {requests: {storage: 1Gi}}, accessModes: [ReadWriteTwice]}"));
    assert!(message.contains("t.yaml:9:49: spec.accessModes: Unsupported value: \"ReadWriteTwice\""), "{message}");
    // An existing object is patched with a part of it.
    let text = claim(&format!("{{{whole}}}"));
    let more = "  - apply: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {resources: {requests: {storage: 2Gi}}}}\n";
    parse(&format!("{text}{more}"));
    let message = refusal(&format!("{text}{}", more.replace("requests", "request")));
    assert!(message.contains("did you mean `requests`?"), "{message}");
    // A short form is checked like the object that it expands to.
    let message = refusal(&with_steps("  - claim: {name: data, size: much}\n"));
    assert!(message.contains("t.yaml:4:31: ") && message.contains("`much` is not a quantity"), "{message}");
}

#[test]
fn the_documents_scenario_passes() {
    let page = include_str!("../../../docs/breaking.md");
    let (_, rest) = page.split_once("```yaml\nname: three-pods\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let outcome = run(&parse(&format!("name: three-pods\n{text}")));
    assert!(outcome.passed(), "{:?} {:?}", outcome.failure, outcome.violations);
}
