//! A program that never starts, forks, ignores SIGTERM, fills its log or prints secrets is limited, and the report says
//! so.

use crate::programs::tools::{DONE, Folder, SAYS_DONE, eventually};

#[test]
fn a_program_that_cannot_be_started_ends_the_run_at_once_and_says_why_live() {
    let folder = Folder::new();
    let steps = "  - wait: {object: pod/absent, is: Running, within: 20h}";
    folder.scenario("run: [{name: mine, command: [./nothing, --flag]}]", steps);
    let ran = folder.run(&[]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.error().contains("expected   the program mine starts"), "{}", ran.error());
    assert!(ran.error().contains("`./nothing --flag` cannot be started in "), "{}", ran.error());
    assert!(ran.error().contains("No such file or directory"), "{}", ran.error());

    folder.write("plain", "no program");
    folder.scenario("run: [{name: mine, command: [./plain]}]", steps);
    assert!(folder.run(&[]).error().contains("Permission denied"));
    folder.no_process_left();
}

#[test]
fn a_program_that_ends_at_once_is_started_again_with_backoff_and_fails_the_run_with_its_last_lines_live() {
    let folder = Folder::new();
    // Ten seconds of backoff follow the second exit, and the steps end within them.
    let second = format!("if [ $(wc -l < starts) -ge 2 ]; then {SAYS_DONE}fi");
    folder.script("mine.sh", &format!("echo started >> starts\n{second}\necho 'flag --x is not known' >&2\nexit 3\n"));
    folder.scenario("run: [{name: mine, command: [./mine.sh]}]", &format!("{DONE}\n  - sleep: 3s"));
    let text = folder.read("s.yaml").replace("time-scale: 60\n", "");
    folder.write("s.yaml", &text);
    let ran = folder.run(&[]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let error = ran.error();
    assert!(error.contains("the program mine runs at the end of the scenario"), "{error}");
    assert!(error.contains("ended with exit code 3") && error.contains("    flag --x is not known"), "{error}");
    assert!(
        error.contains("  command   ./mine.sh") && error.contains("does not run, and is started again in "),
        "{error}"
    );
    assert_eq!((&ran.program(0)["starts"], &ran.program(0)["lastCode"]), (&2.into(), &3.into()));
}

#[test]
fn a_program_that_ends_with_zero_has_done_its_work_live() {
    let folder = Folder::new();
    folder.script("mine.sh", &format!("{SAYS_DONE}\nexit 0\n"));
    folder.scenario("run: [{name: mine, command: [./mine.sh]}]", DONE);
    let ran = folder.run(&[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

/// A program that leaves processes behind: one in its own session, one whose parent has ended, one that forks without
/// end. All of them ignore SIGTERM, as the program itself does. The argument marks all of them.
const STUBBORN: &str = r#"
trap '' TERM HUP INT
mark=$1
setsid sh -c 'trap "" TERM; while :; do sleep 1; done' "$mark" &
( ( sh -c 'trap "" TERM; while :; do sleep 1; done' "$mark" & ) & )
sh -c 'trap "" TERM; while :; do sh -c "sleep 0.05; :" "$0" & sleep 0.02; done' "$mark" &
"#;

fn stubborn(folder: &Folder) {
    folder.script("mine.sh", &format!("{STUBBORN}{SAYS_DONE}\nwhile :; do sleep 1; done\n"));
    let mark = folder.path().join("mark");
    let command = format!("run: [{{name: mine, command: [./mine.sh, '{}']}}]", mark.display());
    folder.scenario(&command, &format!("{DONE}\n  - sleep: 20m"));
}

#[test]
fn a_program_that_forks_and_ignores_sigterm_is_killed_with_all_that_it_has_started_live() {
    let folder = Folder::new();
    stubborn(&folder);
    let text = folder.read("s.yaml").replace("  - sleep: 20m", "");
    folder.write("s.yaml", &text);
    let ran = folder.run(&[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("note: the program mine did not end within 5s after SIGTERM, and was killed"),
        "{}",
        ran.err
    );
    assert_eq!(folder.left(), Vec::<String>::new(), "a run that is over has left nothing");
}

#[test]
fn after_kill_9_of_the_runner_no_process_of_the_program_is_left_live() {
    let folder = Folder::new();
    stubborn(&folder);
    let mut runner = folder.start();
    // At least the program, its guard and its three children.
    eventually("the program and its children run", || folder.left().len() >= 5);
    runner.kill().unwrap();
    runner.wait().unwrap();
    folder.no_process_left();
}

#[test]
fn processes_left_by_a_program_are_ended_and_named_live() {
    let folder = Folder::new();
    let mark = folder.path().join("mark");
    let leaves = "if [ ! -e left ]; then setsid sh -c 'echo $$ > left; while :; do sleep 1; done' \"$1\" &\n\
        until [ -s left ]; do sleep 0.1; done; exit 4; fi\n";
    folder.script("mine.sh", &format!("{leaves}{SAYS_DONE}\nwhile :; do sleep 1; done\n"));
    folder.scenario(&format!("run: [{{name: mine, command: [./mine.sh, '{}']}}]", mark.display()), DONE);
    let ran = folder.run(&[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let last = ran.program(0)["lastEnd"].as_str().unwrap();
    // The `sleep` of the shell may be there, too.
    let message = ["one process that it had left behind was ended", "2 processes that it had left behind were ended"];
    assert!(message.iter().any(|message| last == format!("ended with exit code 4; {message}")), "{last}");
    assert!(!folder.left().iter().any(|line| line.starts_with(&format!("{}:", folder.read("left").trim()))));
}

#[test]
fn a_program_that_prints_without_end_takes_bounded_room_and_shows_no_secret_live() {
    let folder = Folder::new();
    // 100 MB in lines, a line of 1 MB, and each of its secrets.
    let script = format!(
        "yes 'a line of a program that says much and means little, again and again' | head -c 100000000\n\
         head -c 1000000 /dev/zero | tr '\\0' x; echo\n\
         cat \"$KUBECONFIG\"; echo \"key $AWS_SECRET_ACCESS_KEY own $DB_PASSWORD runner $RUNNER_TOKEN\"\n\
         echo \"$DB_PASSWORD\" > own; cp \"$KUBECONFIG\" kubeconfig; echo \"$AWS_SECRET_ACCESS_KEY\" > key\n\
         {SAYS_DONE}\nwhile :; do sleep 1; done\n"
    );
    folder.script("mine.sh", &script);
    folder.scenario("run: [{name: mine, command: [./mine.sh], env: {DB_PASSWORD: swordfish-of-mine}}]", DONE);
    let mut command = folder.mooring(&["run", "s.yaml", "--live", "--allow-exec", "--backend", "directory"]);
    let output = command.args(["--logs", "logs", "--report", "page.html", "--output", "json"]);
    let output = output.env("RUNNER_TOKEN", "ghp_of_the_runner").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}{out}");
    let kubeconfig: serde_json::Value = serde_json::from_str(&folder.read("kubeconfig")).unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap().to_owned();
    let (key, own) = (folder.read("key").trim().to_owned(), folder.read("own").trim().to_owned());
    assert!(token.len() > 20 && key.len() > 20 && own == "swordfish-of-mine");
    let [newer, older] = ["logs/mine.log", "logs/mine.log.1"].map(|name| folder.read(name));
    let page = folder.read("page.html");
    for text in [&*out, &*err, &newer, &older, &page] {
        for secret in [&token, &key, &own, "ghp_of_the_runner"] {
            assert!(!text.contains(secret), "{secret}");
        }
    }
    assert!(newer.contains("key (masked) own (masked) runner (masked)"), "its last lines are there");
    assert!(newer.len() + older.len() <= 8 << 20 && older.len() > 3 << 20, "{} {}", newer.len(), older.len());
    let data: serde_json::Value = serde_json::from_str(&out).unwrap();
    let program = &data["data"]["programs"][0];
    let kept: usize = program["log"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().len()).sum();
    assert!(kept <= 64 << 10 && program["logBefore"].as_u64().unwrap() > 1_000_000, "{kept}");
}
