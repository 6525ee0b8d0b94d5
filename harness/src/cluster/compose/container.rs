//! A container as a part of a cluster: docker ends and starts it, and its log carries its trace.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use substrate::events::{ProcessCrashed, ProcessFailed, ProcessStarted};
use substrate::{EventType, Line, World};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::events;

/// Interval between two checks of a container or its log.
const LOOK: Duration = Duration::from_millis(200);
/// Time limit for a container to become healthy.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time allowed for the last lines of a container's log to arrive.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A container of a compose project, or one process in the container of a machine.
#[derive(Debug)]
pub(in crate::cluster) struct Container {
    world: World,
    /// Name of the service, or of the process in traces.
    name: String,
    id: String,
    /// True if it is one of several processes in the container.
    is_part: bool,
    /// Processes that run in it, by their names in the trace.
    up: Arc<Mutex<BTreeSet<Arc<str>>>>,
}

impl Container {
    /// Wraps the running container `id` of `service`, which runs `processes`, and follows its trace from now on.
    pub(super) fn new(world: &World, service: &str, id: &str, processes: &[String]) -> Arc<Self> {
        let up = processes.iter().map(|name| Arc::from(name.as_str())).collect();
        let container = Self {
            world: world.clone(),
            name: service.to_owned(),
            id: id.to_owned(),
            is_part: false,
            up: Arc::new(Mutex::new(up)),
        };
        container.follow();
        Arc::new(container)
    }

    /// Returns the process `name` of this machine, which can end alone.
    pub(super) fn part(&self, name: &str) -> Arc<Self> {
        let (world, id, up) = (self.world.clone(), self.id.clone(), self.up.clone());
        Arc::new(Self { world, name: name.to_owned(), id, is_part: true, up })
    }

    /// Name of the service, or of the process in traces.
    pub(in crate::cluster) fn name(&self) -> &str {
        &self.name
    }

    /// Kills the container, as a power cut does, or the one process, as `kill -9` does. Does nothing if it has ended
    /// already.
    pub(in crate::cluster) async fn kill(&self) {
        let ended = if self.is_part { self.order("stop").await } else { docker(&["kill", &self.id]).await.map(drop) };
        if let Err(error) = ended
            && !error.contains("is not running")
        {
            self.world.trace().info(&self.name.as_str().into(), ProcessFailed { error });
        }
        // Its last events must come before its end in the trace.
        tokio::time::sleep(LAST_WORDS).await;
        let ended = {
            let mut up = lock(&self.up);
            if self.is_part { up.take(self.name.as_str()).into_iter().collect() } else { std::mem::take(&mut *up) }
        };
        for process in ended {
            self.world.trace().info(&process, ProcessCrashed {});
        }
    }

    /// Orders the machine to end or start this process.
    async fn order(&self, verb: &str) -> Result<(), String> {
        docker(&["exec", &self.id, "mooring", "component", "part", verb, &self.name]).await.map(drop)
    }

    /// Starts it and waits until it is healthy.
    ///
    /// # Errors
    /// Returns docker's error, or that it is not healthy in time.
    pub(in crate::cluster) async fn start(&self) -> Result<(), String> {
        if self.is_part {
            return self.order("start").await;
        }
        docker(&["start", &self.id]).await?;
        let format = "{{if .State.Health}}{{.State.Health.Status}}{{else}}{{.State.Status}}{{end}}";
        for _ in 0..START_LIMIT.as_millis() / LOOK.as_millis() {
            let state = docker(&["inspect", "--format", format, &self.id]).await?;
            if matches!(state.trim(), "healthy" | "running") {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        Err(format!("{} is not well within {START_LIMIT:?}: see `docker logs {}`", self.name, self.id))
    }

    /// Copies its trace into the world's, across restarts of the container.
    fn follow(&self) {
        let (world, service, id, up) = (self.world.clone(), self.name.clone(), self.id.clone(), self.up.clone());
        let name = format!("trace of {service}");
        let reader = substrate::Process::start(&self.world, &name, |_| std::future::pending());
        let Some(ctx) = reader.ctx() else { return };
        let kinds = events::all();
        // Events before the run do not belong to it.
        let mut last = jiff::Timestamp::now().to_string();
        ctx.spawn(async move {
            // Keeps the process handle alive while lines arrive.
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
                // The log stream ends when the container ends.
                tokio::time::sleep(LOOK).await;
            }
        });
    }
}

/// Splits a log line into time and text if it is later than `last`. docker's timestamps sort as text.
fn fresh<'a>(line: &'a str, last: &str) -> Option<(&'a str, &'a str)> {
    let (stamp, text) = line.split_once(' ')?;
    (stamp > last).then_some((stamp, text))
}

/// Runs docker and returns its output.
///
/// # Errors
/// Returns its standard error.
pub(super) async fn docker(args: &[&str]) -> Result<String, String> {
    let output = Command::new("docker").args(args).stdin(Stdio::null()).output().await;
    let output = output.map_err(|e| format!("docker does not start: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(format!("docker {}: {}", args.first().unwrap_or(&""), message.trim()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
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
