//! A component as an OS process of its own: runtime, live world, trace sink, signals.

use std::future::Future;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::clock::TimeScale;
use crate::fault::catalogue::within;
use crate::fault::{Effect, Fault, Names, When};
use crate::trace::Level;
use crate::world::{Options, World};

/// When this variable is set, the process ends as soon as its standard input does: whoever started it holds the
/// other end, so no component outlives its starter, not even after `kill -9`.
///
/// Before that, each line of it is an [`Order`] about faults, as JSON. With the value [`BRIEFS_FIRST`] the component
/// starts after the first [`Order::Begin`].
pub const PARENT_PIPE: &str = "MOORING_PARENT_PIPE";
/// The value of [`PARENT_PIPE`] that promises orders before the component starts.
pub const BRIEFS_FIRST: &str = "orders";
/// What the component is called by whoever started it: the name of its process in the trace, and for faults.
pub const PROCESS_NAME: &str = "MOORING_PROCESS";
/// When this variable is set, the trace has every message of every link.
pub const EVERY_MESSAGE: &str = "MOORING_EVERY_MESSAGE";
/// Kinds of events, separated by commas, that are written to a trace on standard output though the process only
/// whispers them: what its starter's checkers look at. See [`Trace::whisper`](crate::Trace::whisper).
pub const WHISPERS: &str = "MOORING_WHISPERS";

/// What whoever started this process says of faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Which processes, nodes and servers there are.
    Names(Names),
    /// A fault is in force. What cannot happen in this process is nothing to it: the starter has checked it.
    Fault(Box<Fault>),
    /// A fault is over.
    End(String),
    /// All has been said that the process has to know before it starts.
    Begin,
}

/// The exit code of a process that a fault crashed: that of one that was killed with SIGKILL.
const CRASHED: i32 = 137;
/// Events that a server keeps in memory.
const KEPT_EVENTS: usize = 20_000;

/// What every component's command line has in common.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// The root seed.
    pub seed: u64,
    /// Divides waits and latencies.
    pub time_scale: f64,
    /// Where the trace goes as JSON lines: a path, `-` for standard output, nowhere when absent.
    pub trace: Option<PathBuf>,
}

/// Runs `main` in a live world until it returns, a signal arrives, or the starter is gone.
///
/// `main` gets the world, starts its processes, and returns an error when it cannot serve. Exit codes: what `main`
/// returned as an error is printed and ends in 3 (environment); SIGINT gives 130, SIGTERM and the starter's end 0.
pub fn run<F, E>(name: &str, options: &HostOptions, main: impl FnOnce(World) -> F) -> ExitCode
where
    F: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return failed(name, &format!("the runtime does not start: {e}")),
    };
    let level = if std::env::var_os(EVERY_MESSAGE).is_some() { Level::Trace } else { Level::Info };
    let world_options = Options {
        seed: options.seed,
        scale: TimeScale::new(options.time_scale),
        level,
        watchdog: None,
        process: std::env::var(PROCESS_NAME).ok(),
        ..Options::default()
    };
    let code = runtime.block_on(async {
        let mut stop = match Stop::install() {
            Ok(stop) => stop,
            Err(e) => return failed(name, &format!("signals cannot be waited for: {e}")),
        };
        let world = World::live(world_options);
        stop.obey(&world);
        world.trace().keep(KEPT_EVENTS);
        end_on_crash_fault(name, &world);
        if let Some(path) = &options.trace {
            match sink(path) {
                Ok(sink) => world.trace().write_to(sink),
                Err(e) => return failed(name, &format!("--trace {}: {e}", path.display())),
            }
            if path.as_os_str() == "-" && level == Level::Info {
                speak_up(&world);
            }
        }
        let briefed = stop.briefed();
        let served = async {
            briefed.await;
            main(world.clone()).await
        };
        let code = tokio::select! { biased;
            result = served => match result {
                Ok(()) => ExitCode::SUCCESS,
                Err(e) => failed(name, &e.to_string()),
            },
            code = stop.wait() => code,
        };
        // The trace is a report: that it could not be written whole is said, the run is over all the same.
        if let Err(e) = world.trace().flush() {
            eprintln!("{name}: the trace is not complete: {e}");
        }
        code
    });
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    code
}

/// Ends this OS process, as `kill -9` would, when a fault fires in `world` that crashes the process itself, by `self` or
/// by its name, or reboots its machine: for programs that are one component, which whoever runs them starts again.
pub fn end_on_crash_fault(name: &str, world: &World) {
    let (name, trace, faults) = (name.to_owned(), world.trace().clone(), world.faults().clone());
    world.observe_faults(move |process, firing| {
        if ends(&firing.effect, process, faults.known().names().map(|names| &**names)) {
            // Nobody may be listening; it ends all the same.
            let _ = writeln!(std::io::stderr(), "{name}: crashed by fault {}", firing.name);
            // The trace is a report of what happened up to here; it is lost only if it cannot be written.
            let _ = trace.flush();
            std::process::exit(CRASHED);
        }
    });
}

/// Whether `effect` ends `process`, which it fires in.
fn ends(effect: &Effect, process: &str, names: Option<&Names>) -> bool {
    match effect {
        Effect::Crash(who) if who == "self" => true,
        // A machine itself goes on when what runs on it crashes.
        Effect::Crash(who) => names.is_some_and(|names| {
            !names.nodes.contains(process) && names.resolve(who).iter().any(|meant| meant == process)
        }),
        Effect::Reboot(node) => within(node, process),
        _ => false,
    }
}

fn failed(name: &str, message: &str) -> ExitCode {
    eprintln!("{name}: {message}");
    ExitCode::from(3)
}

fn sink(path: &PathBuf) -> std::io::Result<Box<dyn Write + Send>> {
    if path.as_os_str() == "-" {
        Ok(Box::new(StdoutLines::default()))
    } else {
        Ok(Box::new(std::io::BufWriter::new(std::fs::File::create(path)?)))
    }
}

/// Writes to standard output line by line, because whoever reads the pipe follows along, and each line at once.
#[derive(Debug, Default)]
struct StdoutLines(Vec<u8>);

impl Write for StdoutLines {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.extend_from_slice(text);
        if self.0.ends_with(b"\n") {
            self.flush()?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let line = std::mem::take(&mut self.0);
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&line)?;
        stdout.flush()
    }
}

/// Writes what is whispered of the kinds that the starter asks for to standard output.
fn speak_up(world: &World) {
    let Ok(kinds) = std::env::var(WHISPERS) else { return };
    kinds.split(',').for_each(|kind| world.trace().hear(kind));
    world.trace().observe(move |event| {
        if kinds.split(',').any(|kind| kind == event.kind()) {
            // A trace that cannot be written must not change the run.
            let _ = writeln!(StdoutLines::default(), "{}", event.line().text());
        }
    });
}

/// The ways in which a process is asked to end: SIGINT, SIGTERM, the end of its starter.
///
/// Install it before anything says that the process is ready: a signal that comes before its handler kills without
/// clean-up.
#[derive(Debug)]
pub struct Stop {
    interrupt: Signal,
    terminate: Signal,
    starter: Option<oneshot::Receiver<()>>,
    orders: Arc<Mutex<Orders>>,
}

impl Stop {
    /// Starts to listen for signals.
    ///
    /// # Errors
    /// When the system refuses the handlers.
    pub fn install() -> std::io::Result<Self> {
        let orders = Arc::<Mutex<Orders>>::default();
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            starter: std::env::var_os(PARENT_PIPE).map(|_| watch_starter(orders.clone())),
            orders,
        })
    }

    /// Lets the starter's orders about faults act in `world`, also those that have come already.
    pub fn obey(&self, world: &World) {
        lock(&self.orders).obey(world);
    }

    /// Completes when the starter has said what the process has to know before it starts; at once when the starter
    /// promises nothing. The starter's end is no reason to wait.
    pub fn briefed(&self) -> impl Future<Output = ()> + Send + use<> {
        let promised = std::env::var(PARENT_PIPE).is_ok_and(|value| value == BRIEFS_FIRST);
        let begin = promised.then(|| {
            let (begun, begin) = oneshot::channel();
            let mut orders = lock(&self.orders);
            if !orders.begun {
                orders.begin = Some(begun);
            }
            begin
        });
        async move {
            if let Some(begin) = begin {
                // The sender is dropped when the input ends or has begun before.
                let _ = begin.await;
            }
        }
    }

    /// Completes when the process is asked to end, with its exit code: 130 for SIGINT, otherwise 0.
    pub async fn wait(&mut self) -> ExitCode {
        let starter_gone = async {
            match &mut self.starter {
                // The sender is dropped when the input ends; both outcomes mean the same.
                Some(gone) => drop(gone.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! { biased;
            _ = self.interrupt.recv() => ExitCode::from(130),
            _ = self.terminate.recv() => ExitCode::SUCCESS,
            () = starter_gone => ExitCode::SUCCESS,
        }
    }
}

/// What the starter has said.
#[derive(Debug, Default)]
struct Orders {
    /// Where they act, once there is a world.
    world: Option<World>,
    /// Those that came before.
    waiting: Vec<Order>,
    /// [`Order::Begin`] has come, or nothing will come any more.
    begun: bool,
    /// Who waits for that.
    begin: Option<oneshot::Sender<()>>,
}

impl Orders {
    fn obey(&mut self, world: &World) {
        // The first world stays; a process has one.
        if self.world.is_none() {
            self.world = Some(world.clone());
            for order in std::mem::take(&mut self.waiting) {
                carry_out(world, order);
            }
        }
    }

    fn take(&mut self, order: Order) {
        match (&self.world, order) {
            (_, Order::Begin) => self.begin(),
            (Some(world), order) => carry_out(world, order),
            (None, order) => self.waiting.push(order),
        }
    }

    fn begin(&mut self) {
        self.begun = true;
        if let Some(begin) = self.begin.take() {
            // Whoever waited may have given up.
            let _ = begin.send(());
        }
    }
}

fn lock(orders: &Mutex<Orders>) -> std::sync::MutexGuard<'_, Orders> {
    orders.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does what each line of standard input says, and ends when that does. A thread, because a read of standard input
/// cannot be cancelled and would hold up the runtime's end.
fn watch_starter(orders: Arc<Mutex<Orders>>) -> oneshot::Receiver<()> {
    let (gone, wait) = oneshot::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match serde_json::from_str(&line) {
                Ok(order) => lock(&orders).take(order),
                Err(error) => eprintln!("an order on standard input cannot be read: {error}"),
            }
        }
        lock(&orders).begin();
        drop(gone);
    });
    wait
}

fn carry_out(world: &World, order: Order) {
    match order {
        Order::Names(names) => world.faults().name(names),
        Order::Fault(fault) => {
            // Refused is what belongs to a server that this process is not, or is here already.
            let _ =
                world.faults().add(world.clock().mono(), Fault { when: When { until: None, ..fault.when }, ..*fault });
        }
        Order::End(name) => {
            world.faults().remove(&name);
        }
        Order::Begin => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_process_ends_by_faults_that_name_it_or_its_machine() {
        let names = Names {
            processes: ["node-a", "node-a/kubelet", "node-a/csi-node", "csi-attacher"].map(str::to_owned).into(),
            groups: BTreeMap::from([("controllers".to_owned(), vec!["csi-attacher".to_owned()])]),
            nodes: ["node-a".to_owned()].into(),
            ..Names::default()
        };
        let crash = |who: &str, process: &str| ends(&Effect::Crash(who.to_owned()), process, Some(&names));
        for (who, process) in [
            ("self", "node-a"),
            ("node-a", "node-a/kubelet"),
            ("controllers", "csi-attacher"),
            ("csi-attacher", "csi-attacher"),
        ] {
            assert!(crash(who, process), "{who} in {process}");
        }
        for (who, process) in [("node-a", "node-a"), ("csi-attacher", "node-a/kubelet"), ("node-a", "csi-attacher")] {
            assert!(!crash(who, process), "{who} in {process}");
        }
        assert!(ends(&Effect::Reboot("node-a".to_owned()), "node-a/csi-node", Some(&names)));
        assert!(!ends(&Effect::Reboot("node-a".to_owned()), "node-ab", Some(&names)));
        assert!(!ends(&Effect::Count(true), "node-a", Some(&names)));
    }

    #[test]
    fn orders_act_in_the_world_whether_they_come_before_it_or_after() {
        let fault = |name: &str| {
            let text = format!(
                r#"{{"fault": {{"name": "{name}", "match": {{"plane": "process", "op": "start"}}, "effect": {{"count": true}}}}}}"#
            );
            serde_json::from_str::<Order>(&text).expect("an order")
        };
        let mut orders = Orders::default();
        let (begun, mut begin) = oneshot::channel();
        orders.begin = Some(begun);
        orders.take(fault("early"));
        assert!(begin.try_recv().is_err());
        orders.take(Order::Begin);
        assert!(begin.try_recv().is_ok() && orders.begun);
        crate::world::simulate(Options::default(), async move |world| {
            orders.obey(&world);
            orders.take(fault("late"));
            // It is said again once the process has become ready.
            orders.take(fault("early"));
            let names = || world.faults().list().into_iter().map(|report| report.fault.name).collect::<Vec<_>>();
            assert_eq!(names(), ["early", "late"]);
            orders.take(Order::End("early".to_owned()));
            assert_eq!(names(), ["late"]);
        });
    }
}
