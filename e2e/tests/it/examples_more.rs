//! The examples for Go, for containers and for GitHub Actions: each runs as a user would run it, or is skipped with the
//! reason.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::{have, root, seat};
use serde_json::Value;

const MOORING: &str = env!("CARGO_BIN_EXE_mooring-under-test");
/// The longest file of an example, in lines.
const SHORT: usize = 39;

fn example(name: &str) -> PathBuf {
    root().canonicalize().unwrap_or_else(|_| root()).join("examples").join(name)
}

/// A home directory with `mooring` in its PATH.
struct Reader(tempfile::TempDir);

impl Reader {
    fn new() -> Result<Self> {
        let home = tempfile::tempdir()?;
        std::fs::create_dir(home.path().join("bin"))?;
        symlink(MOORING, home.path().join("bin/mooring"))?;
        Ok(Self(home))
    }

    fn command(&self, program: &str, directory: &Path) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .env("HOME", self.0.path())
            .env("PATH", format!("{}:{path}", self.0.path().join("bin").display()))
            .env_remove("XDG_STATE_HOME")
            .env_remove("KUBECONFIG")
            .current_dir(directory)
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // A failed example leaves a cluster up.
        let _ = self.command("mooring", self.0.path()).args(["down", "--all", "--force"]).output();
    }
}

/// Returns the output of a command, which must pass.
fn passed(output: &Output) -> Result<String> {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    ensure!(output.status.success(), "{}\n{out}{err}", output.status);
    Ok(out)
}

fn lines(name: &str) -> usize {
    std::fs::read_to_string(example(name)).unwrap_or_default().lines().count()
}

#[test]
fn each_example_is_short() {
    for name in ["go/volume_test.go", "compose/compose.yaml", "compose/test.sh", "github-actions/storage.yaml"] {
        assert!((1..=SHORT).contains(&lines(name)), "{name} has {} lines", lines(name));
    }
}

#[test]
fn a_go_test_with_the_standard_library_passes_live() {
    // `go` has no --version.
    let has_go = Command::new("go").arg("version").output().is_ok_and(|output| output.status.success());
    if !has_go && !have("go") {
        return;
    }
    let _seat = seat().unwrap();
    let reader = Reader::new().unwrap();
    // A copy, so that the repository stays clean.
    let folder = reader.0.path().join("example");
    std::fs::create_dir(&folder).unwrap();
    for file in ["go.mod", "volume_test.go"] {
        std::fs::copy(example("go").join(file), folder.join(file)).unwrap();
    }
    let mut go = reader.command("go", &folder);
    // Only the standard library: with GOPROXY=off nothing else can be fetched.
    go.args(["test", "-count=1", "-v", "./..."]).env("GOPROXY", "off").env("GOTOOLCHAIN", "local").env("GOFLAGS", "");
    let message = passed(&go.output().unwrap()).unwrap();
    assert!(message.contains("--- PASS: TestPodRunsAfterALostReply"), "{message}");
}

/// Runs the steps of the workflow as GitHub does, except those that download and build.
#[test]
fn the_steps_of_the_workflow_run_as_they_stand_there_live() {
    if !have("kubectl") {
        return;
    }
    let _seat = seat().unwrap();
    let text = std::fs::read_to_string(example("github-actions/storage.yaml")).unwrap();
    let workflow: Value = substrate::yaml::from_str(&text).unwrap();
    let job = &workflow["jobs"]["storage"];
    let reader = Reader::new().unwrap();
    let workspace = reader.0.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    symlink(root().canonicalize().unwrap(), workspace.join("mooring")).unwrap();
    let mut ran = Vec::new();
    for step in job["steps"].as_array().unwrap() {
        let name = step["name"].as_str().or(step["run"].as_str()).or(step["uses"].as_str()).unwrap_or_default();
        let Some(script) = step["run"].as_str().filter(|script| !script.starts_with("cargo ")) else {
            eprintln!("skipped: {name}: it fetches or builds what is here already");
            continue;
        };
        if step["if"] == "failure()" {
            eprintln!("skipped: {name}: nothing failed");
            continue;
        }
        // The runner's invocation for a step without `shell`.
        let mut bash = reader.command("bash", &workspace);
        bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]).env("GITHUB_ACTIONS", "true");
        for (name, value) in job["env"].as_object().unwrap() {
            bash.env(name, value.as_str().unwrap());
        }
        let message = bash.output().with_context(|| name.to_owned()).and_then(|output| passed(&output));
        ran.push(message.unwrap_or_else(|error| panic!("{name}: {error:#}")));
    }
    assert_eq!(ran.len(), 5, "{ran:?}");
    assert!(ran[2].contains("\"hits\":1") && ran[3].contains("20 of 20 seeds passed"), "{ran:?}");
    assert!(workspace.join("results.xml").exists());
}

#[test]
fn the_containers_of_the_example_pass_live() {
    let succeeds = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    let image = std::env::var("MOORING_IMAGE").unwrap_or_else(|_| "mooring:latest".to_owned());
    let lacks = if !succeeds("docker", &["info"]) {
        Some("no docker daemon answers".to_owned())
    } else if !succeeds("docker", &["compose", "version"]) && !succeeds("docker-compose", &["version"]) {
        Some("there is no docker compose".to_owned())
    } else if !succeeds("docker", &["image", "inspect", &image]) {
        Some(format!("there is no image {image}: cargo run -p xtask -- image"))
    } else {
        (!have("kubectl")).then(|| "there is no kubectl".to_owned())
    };
    if let Some(lacks) = lacks {
        return eprintln!("skipped: examples/compose: {lacks}");
    }
    let _seat = seat().unwrap();
    let reader = Reader::new().unwrap();
    let message = passed(&reader.command("./test.sh", &example("compose")).output().unwrap()).unwrap();
    assert!(message.contains("the pod runs, the fault fired"), "{message}");
}

/// Also on machines without docker: parses the services of the file, and the `mooring` commands of each.
#[test]
fn the_compose_file_names_services_that_there_are() {
    let text = std::fs::read_to_string(example("compose/compose.yaml")).unwrap();
    let file: Value = substrate::yaml::from_str(&text).unwrap();
    let services = file["services"].as_object().unwrap();
    assert_eq!(services.keys().collect::<Vec<_>>(), ["mooring", "test"]);
    assert!(services["test"]["depends_on"]["mooring"]["condition"] == "service_healthy");
    for (name, service) in services {
        let words: Vec<&str> = service["command"].as_str().unwrap().split_whitespace().collect();
        // With `--help` an unknown flag is still refused, and nothing starts.
        let read = Command::new(MOORING).args(&words).arg("--help").output().unwrap();
        assert!(read.status.success(), "{name}: {}", String::from_utf8_lossy(&read.stderr));
    }
}
