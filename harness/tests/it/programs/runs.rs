//! Programs with their own endpoints, under faults, partitions and crashes.

use serde_json::Value;

use crate::programs::tools::{DONE, Folder, GO, SAYS_DONE, WAITS, eventually};

#[test]
fn a_program_has_its_own_endpoints_and_faults_match_its_name_live() {
    let folder = Folder::new();
    // The script writes each reply to a file: of the API server with TLS and token, and of the cloud.
    let script = r#"
env > variables
server=$(sed -n 's/.*"server": "\(.*\)".*/\1/p' "$KUBECONFIG")
sed -n 's/.*"certificate-authority-data": "\(.*\)".*/\1/p' "$KUBECONFIG" | base64 -d > ca.pem
token=$(sed -n 's/.*"token": "\(.*\)".*/\1/p' "$KUBECONFIG")
curl -s --cacert ca.pem -H "authorization: Bearer $token" "$server/api/v1/nodes" -o nodes -w '%{http_code}' > nodes.code
curl -s --cacert ca.pem "$server/api/v1/secrets" -w '%{http_code}' -o /dev/null > secrets.code
sign="authorization: AWS4-HMAC-SHA256 Credential=$AWS_ACCESS_KEY_ID/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0"
curl -s "$AWS_ENDPOINT_URL/" -H "$sign" -d 'Action=DescribeVolumes&Version=2016-11-15' -o volumes -w '%{http_code}' > volumes.code
curl -s "$AWS_ENDPOINT_URL/" -H "$sign" -d 'Action=DescribeRegions&Version=2016-11-15' -o regions -w '%{http_code}' > regions.code
cp "$MOORING_READY" ready
"#;
    folder.script("mine.sh", &format!("{WAITS}{script}{SAYS_DONE}\nwhile :; do sleep 1; done\n"));
    let faults = "\
faults:
  - {name: no-secrets, match: {plane: k8s, op: list, where: {resource: secrets, caller: mine}}, effect: {error: Forbidden}}
  - {name: no-volumes, match: {plane: ec2, op: DescribeVolumes, where: {caller: mine}}, effect: {error: UnauthorizedOperation}}
  - {name: no-regions, match: {plane: link, op: request, where: {caller: mine, to: ec2}}, when: {nth: 2}, effect: {http: 418}}";
    let run = "run: [{name: mine, command: [./mine.sh, $(AWS_REGION)], env: {WHO: $(MOORING_PROGRAM)-1, AWS_MAX_ATTEMPTS: 3}}]";
    let call = "  - expect: {call: {plane: k8s, op: list, where: {caller: mine, resource: nodes}, times: 1}}";
    folder.scenario(&format!("{run}\n{faults}"), &format!("{GO}{DONE}\n{call}"));
    let mut command = folder.mooring(&["run", "s.yaml", "--live", "--allow-exec", "--backend", "directory"]);
    command.env("AWS_PROFILE", "of-the-user").env("KUBECONFIG", "/home/of/the/user").env("TEAM", "storage");
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let variables = folder.read("variables");
    let of = |name: &str| variables.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
    assert_eq!((of("WHO"), of("AWS_MAX_ATTEMPTS"), of("TEAM")), (Some("mine-1"), Some("3"), Some("storage")));
    assert_eq!((of("AWS_PROFILE"), of("AWS_ACCESS_KEY_ID"), of("AWS_REGION")), (None, Some("mine"), Some("us-east-1")));
    assert!(of("KUBECONFIG").unwrap().contains("/programs/0/kubeconfig"), "{variables}");
    assert_eq!(of("CSI_ENDPOINT"), of("CSI_ADDRESS").map(|path| format!("unix://{path}")).as_deref());
    let codes = ["nodes.code", "secrets.code", "volumes.code", "regions.code"].map(|name| folder.read(name));
    assert_eq!(codes, ["200", "403", "403", "418"]);
    assert!(folder.read("nodes").contains("node-a") && folder.read("volumes").contains("UnauthorizedOperation"));
    let ready: Value = serde_json::from_str(&folder.read("ready")).unwrap();
    assert_eq!(ready["nodes"][0]["node"], "node-a");
    assert_eq!(ready["csi"].as_str(), of("CSI_ENDPOINT"));
}

#[test]
fn a_program_watches_its_endpoint_in_json_and_protobuf_live() {
    let folder = Folder::new();
    let watch = |accept: &str, file: &str| {
        format!("curl -sN -H 'accept: {accept}' \"$MOORING_KUBERNETES_HTTP/api/v1/nodes?watch=1\" > {file} &\n")
    };
    let script =
        watch("application/json", "json") + &watch("application/vnd.kubernetes.protobuf;stream=watch", "protobuf");
    // It is done when both streams have named a node, before they have ended.
    let reported = "until grep -q node-a json && grep -qa node-a protobuf; do sleep 0.1; done\n";
    folder.script("mine.sh", &format!("{script}{reported}{SAYS_DONE}\nwhile :; do sleep 1; done\n"));
    folder.scenario("run: [{name: mine, command: [./mine.sh]}]", DONE);
    let ran = folder.run(&[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(!folder.read("protobuf").starts_with('{'));
}

#[test]
fn steps_and_faults_crash_a_program_and_it_starts_again_live() {
    let folder = Folder::new();
    let script = "echo $$ >> pids\ntouch up\nwhile :; do curl -s -o /dev/null \"$MOORING_KUBERNETES_HTTP/api/v1/nodes\"; sleep 0.1; done\n";
    folder.script("mine.sh", script);
    let called = |least: u32, more: &str| {
        format!(
            "  - expect: {{call: {{plane: k8s, op: list, where: {{caller: mine}}, times: {{at-least: {least}}}}}, {more}within: 100h}}\n"
        )
    };
    let fault =
        "{name: hit, match: {plane: k8s, op: list, where: {caller: mine}}, when: {first: 1}, effect: {crash: mine}}";
    let steps = [
        called(1, ""),
        "  - crash: mine\n  - {name: again, restart: mine}\n".to_owned(),
        called(1, "since: again, "),
        format!("  - {{name: hit, fault: {fault}}}\n"),
        // The first hit ends the fault.
        called(3, "since: hit, "),
    ];
    let steps = steps.concat();
    let steps = steps.trim_end();
    folder.scenario("run: [{name: mine, command: [./mine.sh]}]", steps);
    let ran = folder.run(&[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!((&ran.program(0)["starts"], &ran.program(0)["ends"]), (&3.into(), &0.into()), "{}", ran.out);
    assert_eq!(folder.read("pids").lines().count(), 3);
    assert_eq!(ran.program(0)["lastEnd"], "was crashed by a step or a fault");
}

#[test]
fn a_partition_cuts_a_program_off_live() {
    let folder = Folder::new();
    let script = "curl -s -m 120 \"$AWS_ENDPOINT_URL/latest\" -o /dev/null; echo first $? >> said\n";
    folder.script("mine.sh", &format!("{WAITS}{script}{SAYS_DONE}\nwhile :; do sleep 1; done\n"));
    let fault = "faults: [{name: cut, match: {plane: link}, effect: {partition: [mine, ec2]}}]";
    folder.scenario(&format!("run: [{{name: mine, command: [./mine.sh]}}]\n{fault}"), &format!("{GO}{DONE}"));
    let ran = folder.run(&[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    // Exit code 52 of curl: an empty reply, as after a reset of the connection.
    assert_eq!(folder.read("said").trim(), "first 52");
}

/// The attacher of `mooring` as a program of the user: it ends in the middle of its work, and the work is completed.
#[test]
fn an_attacher_of_the_users_is_crashed_in_the_middle_and_the_pod_runs_live() {
    let folder = Folder::new();
    let mooring = env!("CARGO_BIN_EXE_mooring");
    let header = format!(
        "\
run:
  - name: my-attacher
    command: ['{mooring}', component, controllers, --only, csi-attacher, --kubernetes, $(MOORING_KUBERNETES_HTTP), --csi, $(CSI_ENDPOINT)]
    replaces: csi-attacher
faults:
  - name: attached-and-not-recorded
    match: {{plane: k8s, op: patch, where: {{caller: my-attacher, resource: volumeattachments, subresource: status}}}}
    when: {{first: 1}}
    effect: {{crash: my-attacher}}"
    );
    let steps = "  - claim: {name: data}
  - pod: {name: web, claim: data}
  - wait: {object: pod/web, records: 3, within: 30m}
  - expect: {attached: {claim: data, node: node-a}}
  - expect: {call: {plane: csi, op: ControllerPublishVolume, times: {at-least: 2}}}";
    folder.scenario(&header, steps);
    let ran = folder.run(&[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.program(0)["starts"], 2, "{}", ran.out);
}

#[test]
fn the_example_of_the_repository_passes_live() {
    let folder = Folder::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/programs/labeller.yaml");
    let ran = folder.ran(&["run", file, "--live", "--allow-exec", "--backend", "directory", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.program(0)["starts"], 2, "{}", ran.out);
    let log = ran.program(0)["log"].to_string();
    assert!(log.contains("label data") && log.contains("label more"), "{log}");
}

#[test]
fn up_has_a_program_beside_it_until_it_is_down_live() {
    let folder = Folder::new();
    folder.script("mine.sh", "echo \"the secret is $AWS_SECRET_ACCESS_KEY\"\nwhile :; do sleep 1; done\n");
    let mark = folder.path().join("mark").display().to_string();
    let ports = ["--ec2-listen", "127.0.0.1:0", "--imds-listen", "127.0.0.1:0", "--kubernetes-listen", "127.0.0.1:0"];
    let start = ["up", "--detach", "--nodes", "1", "--backend", "directory", "--replaces", "csi-resizer", "--run"];
    let ran = folder.ran(&[&start[..], &ports, &["--", "./mine.sh", &mark]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let status = folder.ran(&["status"]).out;
    assert!(status.contains("program     mine runs (pid "), "{status}");
    let data = folder.ran(&["status", "--output", "json"]).data;
    let processes = data["data"]["cluster"]["processes"].as_array().unwrap();
    assert!(processes.iter().all(|process| process["name"] != "csi-resizer"), "{processes:?}");
    eventually("its log is printed", || folder.ran(&["logs", "mine"]).out.contains("the secret is (masked)"));
    // A fault ends it, and the output says so.
    let ran = folder.ran(&["fault", "add", "--crash", "mine"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let down = folder.ran(&["status"]).out;
    assert!(down.contains("mine is down: a step or a fault has ended it"), "{down}");
    assert_eq!(folder.ran(&["fault", "rm", "crash:mine"]).code, 0);
    eventually("it runs again", || folder.ran(&["status"]).out.contains("program     mine runs (pid "));
    let data = folder.ran(&["status", "--output", "json"]).data;
    let runner = data["data"]["ready"]["pid"].as_i64().unwrap();
    assert_eq!(folder.ran(&["down"]).code, 0);
    assert_eq!(folder.left(), Vec::<String>::new());

    let ran = folder.ran(&[&start[..], &ports, &["--", "./mine.sh", &mark]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let data = folder.ran(&["status", "--output", "json"]).data;
    let again = data["data"]["ready"]["pid"].as_i64().unwrap();
    assert_ne!(runner, again);
    assert!(std::process::Command::new("kill").args(["-9", &again.to_string()]).status().unwrap().success());
    folder.no_process_left();
    folder.ran(&["down"]);
}
