//! The variables of a Mooring, for shells, for CI and for one command.

use std::process::Command;

use crate::day::home::{Home, texts};

#[test]
fn variables_reach_shells_files_and_commands_live() {
    let home = Home::new();
    let ready = home.up("one", &["--nodes", "1"]);
    let file = home.path().join("variables");
    std::fs::write(&file, home.ok(&["env", "--name", "one"])).unwrap();
    let script = format!(". {} && echo $AWS_ENDPOINT_URL $KUBECONFIG $MOORING_NAME $MOORING_ADMIN", file.display());
    let shell = Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = |key: &str| ready[key].as_str().unwrap().to_owned();
    let all = [text("ec2"), text("kubeconfig"), "one".to_owned(), text("admin")].join(" ");
    assert_eq!(texts(&shell).0.trim(), all);
    // The env file of `up` has the same content.
    assert_eq!(std::fs::read_to_string(text("env")).unwrap(), std::fs::read_to_string(&file).unwrap());
    // From then on the name in the environment is enough.
    let named = home.mooring(&["status"]).env("MOORING_NAME", "one").output().unwrap();
    assert!(texts(&named).0.starts_with("one: up for "), "{:?}", texts(&named));
    let github = home.ok(&["env", "--name", "one", "--github"]);
    assert!(
        github.contains(&format!("\nAWS_ENDPOINT_URL={}\n", text("ec2"))) && !github.contains("export"),
        "{github}"
    );
    let json: serde_json::Value = serde_json::from_str(&home.ok(&["env", "--name", "one", "--json"])).unwrap();
    assert_eq!(json["KUBECONFIG"], ready["kubeconfig"]);
    assert!(home.ok(&["env", "--name", "one", "--shell", "fish"]).contains("set -gx AWS_REGION 'us-east-1'\n"));

    let print = "echo $AWS_ENDPOINT_URL $1; exit 7";
    let exec = home.run(&["exec", "--name", "one", "--", "sh", "-c", print, "sh", "--help"]);
    assert_eq!(exec.status.code(), Some(7));
    assert_eq!(texts(&exec).0, format!("{} --help\n", text("ec2")));
    // Exit codes as in a shell: 127 if the program is not found, 126 if it cannot be executed.
    std::fs::write(home.path().join("notes.txt"), "no program").unwrap();
    for (code, program) in [(127, "no-such-program"), (127, "./no-such-file"), (126, "./notes.txt"), (126, "/tmp")] {
        let error = home.fails(code, &["exec", "--name", "one", "--", program]);
        assert!(error.contains(program) && error.contains("next:"), "{error}");
    }
    let json = home.run(&["exec", "--name", "one", "--output", "json", "--", "no-such-program"]);
    let envelope: serde_json::Value = serde_json::from_str(&texts(&json).0).unwrap();
    assert_eq!((json.status.code(), &envelope["error"]["code"]), (Some(127), &"not-found".into()));
}

#[test]
fn a_missing_cluster_error_lists_others_live() {
    let home = Home::new();
    home.up("other", &["--nodes", "1"]);
    for args in
        [&["env"][..], &["exec", "--", "true"], &["status"], &["reset"], &["state"], &["fault", "ls"], &["collect"]]
    {
        let error = home.fails(3, args);
        assert!(error.contains("no Mooring called default is up") && error.contains("--name other"), "{error}");
    }
    assert!(home.fails(2, &["status", "--name", "../x"]).contains("--name"));
}
