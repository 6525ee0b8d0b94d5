//! A container as a part of a cluster: ended and started by docker, and its trace read from its log.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use substrate::events::{ProcessCrashed, ProcessFailed, ProcessStarted};
use substrate::{EventType, Line, World};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::events;

/// How long is waited between two looks at a container or its log.
const LOOK: Duration = Duration::from_millis(200);
/// How long a container may take to be well.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long what a container said last may take.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A container of a compose project.
#[derive(Debug)]
pub(in crate::cluster) struct Container {
    world: World,
    service: String,
    id: String,
    /// The processes that run in it, by their names in the trace.
    up: Arc<Mutex<BTreeSet<Arc<str>>>>,
}

impl Container {
    /// The running container `id` of `service`, in which `processes` run. Its trace is followed from now on.
    pub(super) fn new(world: &World, service: &str, id: &str, processes: &[String]) -> Arc<Self> {
        let up = processes.iter().map(|name| Arc::from(name.as_str())).collect();
        let container =
            Self { world: world.clone(), service: service.to_owned(), id: id.to_owned(), up: Arc::new(Mutex::new(up)) };
        container.follow();
        Arc::new(container)
    }

    /// The service's name.
    pub(in crate::cluster) fn name(&self) -> &str {
        &self.service
    }

    /// Ends it as a power cut does. What has ended already stays so.
    pub(in crate::cluster) async fn kill(&self) {
        if let Err(error) = docker(&["kill", &self.id]).await
            && !error.contains("is not running")
        {
            self.world.trace().info(&self.service.as_str().into(), ProcessFailed { error });
        }
        // What it said before comes before its end.
        tokio::time::sleep(LAST_WORDS).await;
        for process in std::mem::take(&mut *lock(&self.up)) {
            self.world.trace().info(&process, ProcessCrashed {});
        }
    }

    /// Starts it and waits until it is well.
    ///
    /// # Errors
    /// What docker says, or that it is not well in time.
    pub(in crate::cluster) async fn start(&self) -> Result<(), String> {
        docker(&["start", &self.id]).await?;
        let format = "{{if .State.Health}}{{.State.Health.Status}}{{else}}{{.State.Status}}{{end}}";
        for _ in 0..START_LIMIT.as_millis() / LOOK.as_millis() {
            let state = docker(&["inspect", "--format", format, &self.id]).await?;
            if matches!(state.trim(), "healthy" | "running") {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        Err(format!("{} is not well within {START_LIMIT:?}: see `docker logs {}`", self.service, self.id))
    }

    /// Reads its trace, through all its lives, into the world's.
    fn follow(&self) {
        let (world, service, id, up) = (self.world.clone(), self.service.clone(), self.id.clone(), self.up.clone());
        let name = format!("trace of {service}");
        let reader = substrate::Process::start(&self.world, &name, |_| std::future::pending());
        let Some(ctx) = reader.ctx() else { return };
        let kinds = events::all();
        // What was said before the run is not of the run.
        let mut last = jiff::Timestamp::now().to_string();
        ctx.spawn(async move {
            // Keeps the process handle for as long as lines come.
            let _reader = reader;
            loop {
                let mut command = Command::new("docker");
                command.args(["logs", "--follow", "--timestamps", "--since", &last, &id]);
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
                let child = command.spawn();
                if let Ok(mut child) = child
                    && let Some(stdout) = child.stdout.take()
                {
                    let mut lines = BufReader::new(stdout).lines();
                    while let Ok(Some(line)) = lines.next_line().await {
                        let Some((stamp, text)) = fresh(&line, &last) else { continue };
                        last = stamp.to_owned();
                        if !text.starts_with('{') {
                            continue;
                        }
                        let adopted = serde_json::from_str::<Line>(text).map_err(|e| e.to_string()).and_then(|line| {
                            match &*line.kind {
                                ProcessStarted::KIND => drop(lock(&up).insert(line.process.clone())),
                                ProcessCrashed::KIND => drop(lock(&up).remove(&line.process)),
                                _ => {}
                            }
                            // Each process counts time from its own start, so the event gets this world's time.
                            let ms = u64::try_from(world.clock().mono().as_millis()).unwrap_or(u64::MAX);
                            world.trace().adopt(&kinds, Line { ms, ..line }).map_err(|e| e.to_string())
                        });
                        if let Err(error) = adopted {
                            let error = format!("its trace cannot be read: {error}: {text}");
                            world.trace().info(&service.as_str().into(), ProcessFailed { error });
                        }
                    }
                }
                // The log ends with each life of the container.
                tokio::time::sleep(LOOK).await;
            }
        });
    }
}

/// The time and the text of a line of a log, when it is later than `last`. docker writes times so that they sort.
fn fresh<'a>(line: &'a str, last: &str) -> Option<(&'a str, &'a str)> {
    let (stamp, text) = line.split_once(' ')?;
    (stamp > last).then_some((stamp, text))
}

/// Runs docker and gives what it printed.
///
/// # Errors
/// What it said.
pub(super) async fn docker(args: &[&str]) -> Result<String, String> {
    let output = Command::new("docker").args(args).stdin(Stdio::null()).output().await;
    let output = output.map_err(|e| format!("docker does not start: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("docker {}: {}", args.first().unwrap_or(&""), said.trim()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_read_before_is_not_read_again() {
        let last = "2026-01-02T03:04:05.000000001Z";
        assert_eq!(fresh("2026-01-02T03:04:05.000000001Z {}", last), None);
        let later = "2026-01-02T03:04:05.000000002Z";
        assert_eq!(fresh(&format!("{later} {{\"a\": 1}}"), last), Some((later, "{\"a\": 1}")));
    }
}
