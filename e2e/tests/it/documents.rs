//! Commands and scenarios of README.md and docs/: each fenced block runs as a reader would run it, or gives its reason
//! after `no-run:` in its first line. A comment `<!-- before: COMMANDS -->` before a block has what the reader has done
//! by then.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod block;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use block::{Block, blocks};
use e2e::{have, root, seat};

const MOORING: &str = env!("CARGO_BIN_EXE_mooring-under-test");

/// Returns README.md and the pages of docs/, by path from the root, in order.
fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut pages: Vec<PathBuf> = docs.map(|name| Path::new("docs").join(name)).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(PathBuf::from("README.md"));
    pages.sort();
    pages
}

fn all() -> Vec<Block> {
    let read = |page: PathBuf| blocks(&page, &std::fs::read_to_string(root().join(&page)).unwrap());
    pages().into_iter().flat_map(read).collect()
}

/// A reader's directory: the repository's scenarios, docs and examples, and programs in `bin`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["scenarios", "docs", "examples"] {
        symlink(root().join(name).canonicalize().unwrap(), folder.path().join(name)).unwrap();
    }
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let write = |name: &str, text: String| {
        std::fs::write(bin.join(name), text).unwrap();
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    // Free ports, because other tests run beside this one. A log that is followed ends after three seconds.
    let follow = "\"logs -f\") timeout 3 $real \"$@\"; [ $? = 124 ]; exit ;;";
    let ports = "--ec2-listen 127.0.0.1:0 --kubernetes-listen 127.0.0.1:0";
    let up = format!("\"up \"*) shift; exec $real up {ports} \"$@\" ;;");
    let shim = |real: &str, cases: &str| {
        format!("#!/bin/bash\nreal={real}\ncase \"$1 ${{2-}}\" in\n{cases}\n{follow}\nesac\nexec $real \"$@\"\n")
    };
    write("mooring", shim(MOORING, &up));
    write("kubectl", shim(&found("kubectl"), ""));
    // README's ways to start what is built already, and the tests that this is one of.
    let cargo = "case \"$*\" in \"run -p harness -- \"*) shift 4; exec mooring \"$@\" ;; \"test --workspace\") ;; *) exit 2 ;; esac";
    write("cargo", format!("#!/bin/bash\n{cargo}\n"));
    write("sudo", "#!/bin/bash\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n".to_owned());
    folder
}

/// Returns the path of a program, or its name where there is none.
fn found(program: &str) -> String {
    let output = Command::new("bash").args(["-c", &format!("command -v {program}")]).output().unwrap();
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
        .filter(|path| !path.is_empty())
        .unwrap_or(program.into())
}

/// Runs the commands of a page in one shell, and stops at the first that fails.
fn run(page: &Path, blocks: &[Block]) {
    let folder = folder();
    let mut script = "set -euo pipefail\ntrap 'mooring down >/dev/null 2>&1 || true' EXIT\n".to_owned();
    for block in blocks {
        for command in block.before.iter().cloned().chain(block.commands()) {
            let shown = command.lines().next().unwrap().replace('\'', "'\\''");
            script.push_str(&format!("echo '+ {}: {shown}' >&2\n{command}\n", block.place()));
        }
    }
    let path = format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("timeout");
    shell.args(["--kill-after=20", "300", "bash", "-c", &script]).current_dir(folder.path());
    shell.env("PATH", path).env("HOME", folder.path()).env_remove("XDG_STATE_HOME").env_remove("KUBECONFIG");
    let output = shell.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}\n{error}", page.display(), String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_commands_of_each_page_run_live() {
    let all = all();
    if !["kubectl", "aws", "curl", "jq"].iter().all(|program| have(program)) {
        return;
    }
    for page in pages() {
        let blocks: Vec<Block> = all.iter().filter(|b| b.page == page && b.is_shell() && b.runs()).cloned().collect();
        if !blocks.is_empty() {
            let _seat = seat().unwrap();
            run(&page, &blocks);
            println!("{}: {} blocks of commands ran", page.display(), blocks.len());
        }
    }
}

#[test]
fn the_scenarios_of_each_page_are_read_and_those_that_are_whole_pass() {
    let folder = folder();
    let blocks = all().into_iter().filter(|block| block.is_yaml() && block.runs());
    let mut run = 0;
    for block in blocks {
        let file = folder.path().join("block.yaml");
        let (text, whole) = block.scenario();
        std::fs::write(&file, text).unwrap();
        let mut mooring = Command::new(MOORING);
        mooring.arg("run").args((!whole).then_some("--check")).arg(&file).current_dir(folder.path());
        let output = mooring.output().unwrap();
        assert!(
            output.status.success(),
            "{}: {}{}",
            block.place(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        run += 1;
    }
    assert!(run > 5, "only {run} blocks");
    println!("{run} blocks of YAML were read");
}

#[test]
fn each_block_runs_or_gives_a_reason() {
    let all = all();
    let (run, left): (Vec<&Block>, Vec<&Block>) =
        all.iter().filter(|block| block.is_shell() || block.is_yaml()).partition(|block| block.runs());
    for block in &left {
        println!("{} does not run: {}", block.place(), block.reason.as_deref().unwrap());
        assert!(block.reason.as_deref().unwrap().len() > 8, "{}: a reason is a sentence", block.place());
    }
    println!("{} blocks run, {} do not", run.len(), left.len());
    // A block in an indented or unnamed fence would escape both lists.
    let unnamed: Vec<String> = all.iter().filter(|block| block.language.is_empty()).map(Block::place).collect();
    assert!(unnamed.is_empty(), "blocks without a language: {unnamed:?}");
}
