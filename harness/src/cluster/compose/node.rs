//! The `node` program runs one machine with all its processes in one container. Machine, driver and kubelet are
//! separate OS processes, and the program restarts each that ends.

mod address;
mod args;
mod orders;
mod process;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use futures_util::future::select_all;
use substrate::host::{self, Order, Stop};

use self::address::{another_address, own_address};
use self::args::Args;
use self::orders::{OrdersInForce, listen, send};
use self::process::{KUBELET, Part, Running};
use crate::cluster::live::BackendChoice;

/// Time limit for the servers to become reachable.
const NAME_LIMIT: Duration = Duration::from_secs(60);
/// Interval between two tries to reach them.
const NAME_LOOK: Duration = Duration::from_millis(50);
/// Delay before a part that has ended is restarted: kubelet's delay for the first restart of a container.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Interval between two checks of the stop files.
const ASKED_LOOK: Duration = Duration::from_millis(50);
/// Exit code: the machine lacks something that the node needs.
const ENVIRONMENT: u8 = 3;

/// Runs the program with `args`, its name first.
pub fn main_with(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Args = match host::parse(args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let failed = |why: String| {
        eprintln!("node: {why}");
        ExitCode::from(ENVIRONMENT)
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return failed(format!("cannot start the runtime: {e}")),
    };
    crate::block_on(
        &runtime,
        Box::pin(async {
            let mut stop = match Stop::install() {
                Ok(stop) => stop,
                Err(e) => return failed(format!("cannot install the signal handlers: {e}")),
            };
            tokio::select! { biased;
                code = stop.wait() => code,
                why = run(&args) => failed(why),
            }
        }),
    )
}

/// Runs all parts until one fails to start, and returns the reason.
async fn run(args: &Args) -> String {
    match supervise(args).await {
        Ok(never) => match never {},
        Err(why) => why,
    }
}

async fn supervise(args: &Args) -> Result<std::convert::Infallible, String> {
    for dir in [&args.registry(), &args.runtime_dir] {
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    prepare(args.backend)?;
    let ready = args.runtime_dir.join("ready.json");
    gone(&ready)?;
    let mut address = own_address(&args.kubernetes).await?;
    there(&args.volume_dir).await?;
    let parts = args.parts();
    let (mut in_force, mut orders) = (OrdersInForce::default(), listen());
    let mut running = Vec::new();
    for part in &parts {
        // Stop files of an earlier life do not count after a boot.
        gone(&part.stop)?;
        running.push(Some(part.start(args, address).await?));
    }
    loop {
        substrate::ready::write(&ready, &args.describe(address)).map_err(|e| format!("{}: {e}", ready.display()))?;
        let is_up: Vec<bool> = running.iter().map(Option::is_some).collect();
        let change = tokio::select! { biased;
            (at, how) = one_ends(&mut running) => Change::Ended(at, how),
            change = asked(&parts, &is_up) => change,
            Some(order) = orders.recv() => Change::OrdersInForce(order),
            moved = another_address(&args.kubernetes, address) => Change::Moved(moved),
        };
        let again = match change {
            Change::Ended(at, how) => {
                eprintln!("node: {} ended ({how}); it starts again in {RESTART_AFTER:?}", parts[at].name);
                running[at] = None;
                at
            }
            Change::Moved(moved) => {
                let was = std::mem::replace(&mut address, moved);
                // The Node object carries the address, and kubelet writes it.
                let kubelet = parts.iter().position(|part| part.component == KUBELET);
                let Some(kubelet) = kubelet.filter(|at| running[*at].is_some()) else { continue };
                eprintln!("node: its address is {moved} now, no longer {was}; kubelet starts again");
                end(&mut running[kubelet]).await;
                kubelet
            }
            // The machine stays ready: only the requested part is down.
            Change::Stop(at) => {
                end(&mut running[at]).await;
                gone(&parts[at].ready)?;
                continue;
            }
            Change::Start(at) => {
                running[at] = Some(in_force.to(parts[at].start(args, address).await?).await);
                continue;
            }
            Change::OrdersInForce(order) => {
                for (_, stdin) in running.iter_mut().flatten() {
                    send(stdin, &order).await;
                }
                in_force.note(order);
                continue;
            }
        };
        gone(&ready)?;
        gone(&parts[again].ready)?;
        tokio::time::sleep(RESTART_AFTER).await;
        if !parts[again].stop.exists() {
            running[again] = Some(in_force.to(parts[again].start(args, address).await?).await);
        }
    }
}

/// Waits until one of the running parts ends.
async fn one_ends(running: &mut [Option<Running>]) -> (usize, String) {
    let waits: Vec<_> = running
        .iter_mut()
        .enumerate()
        .filter_map(|(at, part)| {
            let (child, _) = part.as_mut()?;
            Some(Box::pin(async move { (at, child.wait().await) }))
        })
        .collect();
    if waits.is_empty() {
        return std::future::pending().await;
    }
    let ((at, ended), ..) = select_all(waits).await;
    (at, ended.map_or_else(|e| e.to_string(), |status| status.to_string()))
}

/// Ends a part, which may have ended by itself.
async fn end(part: &mut Option<Running>) {
    if let Some((mut child, _)) = part.take() {
        let _ = child.kill().await;
    }
}

/// Waits until a stop file appears for a running part, or disappears for a stopped one.
async fn asked(parts: &[Part], is_up: &[bool]) -> Change {
    loop {
        for (at, (part, is_up)) in parts.iter().zip(is_up).enumerate() {
            match (part.stop.exists(), *is_up) {
                (true, true) => return Change::Stop(at),
                (false, false) => return Change::Start(at),
                _ => {}
            }
        }
        tokio::time::sleep(ASKED_LOOK).await;
    }
}

/// Event in the life of a running node.
enum Change {
    /// This part has ended, with this status.
    Ended(usize, String),
    /// The machine has this address now.
    Moved(IpAddr),
    /// The stop file of this part appeared; see [`super::part`].
    Stop(usize),
    /// The stop file of this part disappeared.
    Start(usize),
    /// An order for the parts arrived.
    OrdersInForce(Order),
}

/// Creates /dev/loop-control, which a container lacks.
#[cfg(target_os = "linux")]
fn prepare(backend: BackendChoice) -> Result<(), String> {
    match backend {
        BackendChoice::Loop => csi_disk::make_control().map_err(|e| e.to_string()),
        BackendChoice::Directory => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn prepare(_: BackendChoice) -> Result<(), String> {
    Ok(())
}

/// Removes a stale file; a missing one is fine.
fn gone(path: &Path) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", path.display())),
        _ => Ok(()),
    }
}

/// Waits until mock-ec2 has created the directory of the volumes' bytes. It could not write to a directory of ours.
async fn there(dir: &Path) -> Result<(), String> {
    for _ in 0..NAME_LIMIT.as_millis() / NAME_LOOK.as_millis() {
        if dir.is_dir() {
            return Ok(());
        }
        tokio::time::sleep(NAME_LOOK).await;
    }
    Err(format!("--volume-dir {}: is not there; mock-ec2 with the same --volume-dir makes it", dir.display()))
}
