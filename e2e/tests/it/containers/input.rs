//! Standard input and terminals of containers.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use anyhow::{Context, ensure};
use e2e::{Up, eventually};

use super::{MOORING, apply, can_run, feed, in_terminal, text};

/// Pods whose programs read their standard input: until their end, from one client for each start, and not at all.
const READERS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: reads}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      image: busybox
      command: [sh, -c, 'while read line; do echo "got $line"; done; echo end']
      stdin: true
---
apiVersion: v1
kind: Pod
metadata: {name: once}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: busybox, command: [sh, -c, "cat; echo over"], stdin: true, stdinOnce: true}]
---
apiVersion: v1
kind: Pod
metadata: {name: deaf}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      command: [sh, -c, "until test -e /tmp/mooring-deaf-ends; do echo tick; sleep 0.1; done; cat; echo over"]
"#;

#[test]
fn programs_read_the_input_of_attached_clients_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "loop", "--containers", "process", "--check"]).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    apply(&up, READERS).unwrap();
    // More than all buffers on the way hold.
    let input = "0123456789abcde\n".repeat(400_000);
    let run = ["run", "copy", "-i", "--quiet", "--restart=Never", "--image=busybox"];
    let run = [&run[..], &["--command", "--", "sh", "-c", "cat; echo over >&2; exit 3"]].concat();
    let copied = feed(&up, &run, &input);
    let (printed, errors) = text(&copied);
    assert!(printed == format!("{input}over\n"), "{} bytes: {errors}", printed.len());
    assert_eq!(copied.status.code(), Some(3), "{errors}");

    kubectl(&["wait", "--for=condition=Ready", "pod/reads", "pod/once", "pod/deaf", "--timeout=90s"])
        .context(up.log())
        .unwrap();
    // Without stdinOnce a client leaves when its input ends, and the program reads on.
    for (line, expected) in [("one\n", "got one\n"), ("two\n", "got one\ngot two\n")] {
        let attached = feed(&up, &["attach", "-i", "-q", "reads"], line);
        assert!(attached.status.success(), "{attached:?}");
        eventually(|| {
            let log = kubectl(&["logs", "reads"])?;
            ensure!(log == expected, "{log}");
            Ok(())
        })
        .unwrap();
    }
    let field = |pod: &str, path: &str| kubectl(&["get", "pod", pod, "-o", &format!("jsonpath={path}")]);
    let restarts = "{.status.containerStatuses[0].restartCount}{.status.phase}";
    assert_eq!(field("reads", restarts).unwrap(), "0Running");

    // With stdinOnce the program gets the end of the input. Its next start has a new one.
    let once = feed(&up, &["attach", "-i", "-q", "once"], "one\n");
    assert_eq!(text(&once).0, "one\nover\n", "{once:?}");
    eventually(|| {
        let state = field("once", "{.status.containerStatuses[0].restartCount}{.status.containerStatuses[0].state}")?;
        ensure!(state.starts_with('1') && state.contains("running"), "{state}");
        Ok(())
    })
    .unwrap();
    let again = feed(&up, &["attach", "-i", "-q", "once"], "two\n");
    assert_eq!(text(&again).0, "two\nover\n", "{again:?}");

    // A container without stdin takes none, and shows its output to the end.
    let mut command = up.command("kubectl");
    command.args(["attach", "-i", "-q", "deaf"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = command.spawn().unwrap();
    client.stdin.take().unwrap().write_all(b"lost\n").unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "tick");
    kubectl(&["exec", "deaf", "--", "touch", "/tmp/mooring-deaf-ends"]).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).filter(|line| line != "tick").collect();
    assert_eq!(rest, ["over"]);
    assert!(client.wait().unwrap().success());
}

/// A pod whose program waits for the size of its terminal.
const SCREEN: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: screen}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      stdin: true
      tty: true
      command: [sh, -c]
      args:
        - |
          tty
          for n in $(seq 1200); do test "$(stty size)" = "33 77" && break; sleep 0.1; done
          stty size
          echo $TERM
          read word
          echo "got $word"
          exit 4
"#;

#[test]
fn a_program_has_a_terminal_live() {
    if !can_run() {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "loop", "--containers", "process", "--check"]).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    apply(&up, SCREEN).unwrap();
    kubectl(&["wait", "--for=condition=Ready", "pod/screen", "--timeout=90s"]).context(up.log()).unwrap();
    // As in a cluster: the client of a terminal must have one.
    let refused = feed(&up, &["attach", "screen"], "");
    assert!(text(&refused).1.contains("tty and stderr cannot both be true"), "{refused:?}");
    let attached = in_terminal(&up, "stty rows 33 cols 77; kubectl attach -it screen", "word\\n");
    let (printed, _) = text(&attached);
    assert!(printed.contains("33 77\r\n") && printed.contains("got word\r\n"), "{attached:?}");
    kubectl(&["wait", "--for=jsonpath={.status.phase}=Failed", "pod/screen", "--timeout=60s"]).unwrap();
    let code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    assert_eq!(kubectl(&["get", "pod", "screen", "-o", code]).unwrap(), "4");
    let log = kubectl(&["logs", "screen"]).unwrap();
    assert!(log.starts_with("/dev/pts/"), "{log}");
    assert!(["33 77\n", "xterm\n", "got word\n"].into_iter().all(|line| log.contains(line)), "{log}");

    let run = "kubectl run shell -it --rm --restart=Never --image=busybox --command -- sh";
    let shell = in_terminal(&up, run, "echo $((6*7)); exit\\n");
    assert!(text(&shell).0.contains("42"), "{shell:?}");
    eventually(|| {
        let left = kubectl(&["get", "pod", "shell", "--ignore-not-found", "-o", "name"])?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })
    .unwrap();
}
