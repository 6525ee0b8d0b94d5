//! Chooses the ports of a Mooring: those that its user names, or the usual ones, which move if another Mooring uses
//! them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use crate::cli::day::state_directory;
use crate::cli::refusal::{Refusal, lacking, next};
use crate::cluster::ClusterError;
use crate::cluster::live::Addresses;

/// Maximum distance by which a port moves.
const FURTHEST: u16 = 2_000;

/// Number of further looks at a port that seems to have no owner.
const LOOKS: u32 = 20;
/// Pause between these looks.
const PAUSE: Duration = Duration::from_millis(50);

/// A server and its default address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    /// Name in messages.
    pub what: &'static str,
    /// Flag that sets its address.
    pub flag: &'static str,
    /// Usual port, on loopback.
    pub usual: u16,
}

/// The cloud.
pub(super) const CLOUD: Server = Server { what: "the cloud", flag: "--ec2-listen", usual: 4566 };
/// The metadata services, one port for each node.
pub(super) const METADATA: Server = Server { what: "the metadata service", flag: "--imds-listen", usual: 1338 };
/// The API server.
pub(super) const KUBERNETES: Server = Server { what: "the API server", flag: "--kubernetes-listen", usual: 6443 };
/// The API server without TLS.
pub(super) const PLAIN: Server = Server { what: "the API server without TLS", flag: "--http-listen", usual: 0 };
/// The admin API of the whole cluster.
pub(super) const ADMIN: Server = Server { what: "the admin API", flag: "--admin-listen", usual: 0 };

/// Owner of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Holder {
    /// Another Mooring, by its name or its process.
    Mooring(String),
    /// Another program.
    Program(String),
    /// A process that this user cannot see.
    Unseen,
}

/// Chooses the address of `server`, which needs `count` ports from there on: the `given` one, the usual one, or the
/// next free one if another Mooring uses that.
///
/// # Errors
/// If a port is taken, with its owner.
pub(super) fn choose(server: Server, given: Option<SocketAddr>, count: u16) -> Result<SocketAddr, Refusal> {
    let usual = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), server.usual);
    let first = given.unwrap_or(usual);
    let mut looks = LOOKS;
    let (busy, error, holder) = loop {
        let Some((busy, error)) = taken(first, count) else { return Ok(first) };
        let holder = (error.kind() == std::io::ErrorKind::AddrInUse).then(|| holder(busy.port()));
        // A port without an owner may be one that another Mooring has just tried, or has just left.
        if holder != Some(Holder::Unseen) || looks == 0 {
            break (busy, error, holder);
        }
        looks -= 1;
        std::thread::sleep(PAUSE);
    };
    if let (None, Some(Holder::Mooring(_))) = (given, &holder) {
        let mut from = busy.port();
        while let Some(port) = from.checked_add(1).filter(|port| *port - server.usual < FURTHEST) {
            match taken(SocketAddr::new(first.ip(), port), count) {
                None => return Ok(SocketAddr::new(first.ip(), port)),
                Some((busy, _)) => from = busy.port(),
            }
        }
    }
    Err(refusal(server, busy, holder, &error))
}

/// Chooses addresses and begins a cluster on them. Chooses again if another program takes one of them in between.
///
/// # Errors
/// If an address is taken, or the cluster cannot begin.
pub(super) fn begin<T>(
    addresses: impl Fn() -> Result<Addresses, Refusal>,
    begin: impl Fn(&Addresses) -> Result<T, ClusterError>,
) -> Result<T, Refusal> {
    for _ in 0..LOOKS {
        match begin(&addresses()?) {
            Err(ClusterError::Socket(error)) if error.is_taken() => {}
            begun => return begun.map_err(|error| lacking(error.to_string())),
        }
    }
    begin(&addresses()?).map_err(|error| lacking(error.to_string()))
}

/// The first of `count` ports from `first` on that cannot be bound, with the error.
fn taken(first: SocketAddr, count: u16) -> Option<(SocketAddr, std::io::Error)> {
    if first.port() == 0 {
        return None;
    }
    (0..count).find_map(|i| {
        // Past port 65535 the addition saturates; binding that port a second time fails.
        let address = SocketAddr::new(first.ip(), first.port().saturating_add(i));
        TcpListener::bind(address).err().map(|error| (address, error))
    })
}

fn refusal(server: Server, address: SocketAddr, holder: Option<Holder>, error: &std::io::Error) -> Refusal {
    let Server { what, flag, .. } = server;
    let why = match &holder {
        Some(Holder::Mooring(who)) => format!("{who} listens there"),
        Some(Holder::Program(who)) => format!("{who} listens there"),
        Some(Holder::Unseen) => "a program that this user may not look at listens there".to_owned(),
        None => error.to_string(),
    };
    let refusal = lacking(format!("{flag}: {what} cannot listen on {address}: {why}"));
    let refusal = match holder {
        Some(Holder::Program(_) | Holder::Unseen) => next(refusal, "end that program"),
        _ => refusal,
    };
    next(refusal, format!("choose another address: {flag} {}:0 takes a free port", address.ip()))
}

/// Finds the owner of `port`.
fn holder(port: u16) -> Holder {
    for other in state_directory::all().unwrap_or_default() {
        let ends = |text: &str| text.ends_with(&format!(":{port}"));
        let ready = other.ready().filter(|_| other.is_held()).unwrap_or_default();
        let own = ["ec2", "kubernetes", "kubernetesHttp"].iter().any(|key| ready[*key].as_str().is_some_and(ends));
        let imds = ready["imds"].as_array().into_iter().flatten().any(|m| m["endpoint"].as_str().is_some_and(ends));
        if own || imds {
            return Holder::Mooring(format!("the Mooring called {} (pid {})", other.name(), ready["pid"]));
        }
    }
    let Some((pid, program)) = listener(port) else {
        return match owner(&sockets(), port).and_then(|user| Some((user, mooring_of(Path::new("/proc"), user)?))) {
            Some((user, pid)) => Holder::Mooring(format!("the Mooring of another user (uid {user}, pid {pid})")),
            None => Holder::Unseen,
        };
    };
    match is_ours(&program) {
        true => Holder::Mooring(format!("another Mooring (pid {pid})")),
        false => {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            Holder::Program(format!("{} (pid {pid})", if name.trim().is_empty() { "a program" } else { name.trim() }))
        }
    }
}

/// Returns true if a program is this one, by its file or its name.
fn is_ours(program: &Path) -> bool {
    // The file may have been replaced by a newer build while the program runs.
    let text = program.to_string_lossy();
    let file = Path::new(text.trim_end_matches(" (deleted)"));
    let own = fs::read_link("/proc/self/exe").ok();
    let name = file.file_name();
    name.is_some_and(|name| name == "mooring") || own.is_some_and(|own| own == file)
}

/// Process that listens on `port` and its program, if this user may see them.
fn listener(port: u16) -> Option<(u32, std::path::PathBuf)> {
    let sockets: Vec<String> =
        listening(&sockets(), port).into_iter().map(|(_, inode)| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let is_socket = |path: std::path::PathBuf| sockets.iter().any(|socket| path.as_os_str() == socket.as_str());
        if files.filter_map(|file| fs::read_link(file.path()).ok()).any(is_socket) {
            return Some((pid, fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()));
        }
    }
    None
}

/// TCP socket tables of the kernel, which every user may read.
fn sockets() -> String {
    ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default()).concat()
}

/// User whose socket listens on `port`.
fn owner(table: &str, port: u16) -> Option<u32> {
    listening(table, port).into_iter().next()?.0.parse().ok()
}

/// Finds a process of the user `uid` with the name of this program: other users cannot see its files, but its name.
fn mooring_of(proc: &Path, uid: u32) -> Option<u32> {
    let pids = fs::read_dir(proc).ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let read = |pid: &u32, file: &str| fs::read_to_string(proc.join(pid.to_string()).join(file)).unwrap_or_default();
    let of_user = |pid: &u32| {
        let status = read(pid, "status");
        let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
        ids.split_whitespace().next() == Some(uid.to_string().as_str())
    };
    pids.into_iter().filter(|pid| read(pid, "comm").trim() == "mooring").find(of_user)
}

/// Users and inodes of the sockets that listen on `port`, from the kernel's TCP socket table.
fn listening(table: &str, port: u16) -> Vec<(String, String)> {
    /// State of a listening socket.
    const LISTEN: &str = "0A";
    let own = format!("{port:04X}");
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, state, user, inode) = (words.get(1)?, words.get(3)?, words.get(7)?, words.get(9)?);
        let (_, at) = local.rsplit_once(':')?;
        (*state == LISTEN && at == own).then(|| ((*user).to_owned(), (*inode).to_owned()))
    };
    table.lines().skip(1).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::live::SocketError;

    #[test]
    fn a_listener_is_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:11D6 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1042        0 424242 1 0 100 0 0 10 0\n   \
            1: 0100007F:11D6 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 7 1 0 20 4 30 10 -1\n";
        assert_eq!(listening(table, 4566), [("1042".to_owned(), "424242".to_owned())]);
        assert!(listening(table, 4567).is_empty());
        assert_eq!((owner(table, 4566), owner(table, 4567)), (Some(1042), None));
    }

    #[test]
    fn the_mooring_of_another_user_is_known_by_its_name_and_its_user() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, comm, uid) in [("7", "nginx", 1042), ("8", "mooring", 0), ("9", "mooring", 1042)] {
            let dir = proc.path().join(pid);
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("comm"), format!("{comm}\n")).unwrap();
            fs::write(dir.join("status"), format!("Name:\t{comm}\nUid:\t{uid}\t0\t0\t0\n")).unwrap();
        }
        fs::create_dir(proc.path().join("net")).unwrap();
        assert_eq!(mooring_of(proc.path(), 1042), Some(9));
        assert_eq!(mooring_of(proc.path(), 1), None);
    }

    #[test]
    fn a_port_that_was_given_never_moves_and_its_holder_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (exit, failure) = choose(CLOUD, Some(address), 1).unwrap_err();
        assert_eq!(exit.code(), 3);
        let own = std::process::id().to_string();
        // This test runs the program under test, so its own process counts as another Mooring.
        assert!(failure.message.contains("--ec2-listen") && failure.message.contains(&own), "{}", failure.message);
        assert!(failure.actions.iter().any(|action| action.contains("127.0.0.1:0")), "{failure:?}");
    }

    #[test]
    fn a_usual_port_that_a_mooring_has_moves_past_all_that_are_taken() {
        // This process counts as a Mooring by its file.
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let usual = first.local_addr().unwrap().port();
        let Some(next) = usual.checked_add(1) else { return };
        let _second = TcpListener::bind(("127.0.0.1", next));
        let server = Server { what: "it", flag: "--it", usual };
        let chosen = choose(server, None, 2).unwrap();
        assert!(chosen.port() > next && taken(chosen, 2).is_none(), "{chosen}");
    }

    #[test]
    fn a_port_that_is_taken_between_the_choice_and_the_start_is_chosen_again() {
        let usual = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Server { what: "it", flag: "--it", usual };
        let chosen = || Ok(Addresses { ec2: Some(choose(server, None, 1)?), ..Addresses::default() });
        let taker = std::cell::RefCell::new(Vec::new());
        let begun = begin(chosen, |addresses| {
            let address = addresses.ec2.unwrap();
            let error = |error| SocketError::Bind { what: "it", address, error };
            if taker.borrow().is_empty() {
                // This process counts as another Mooring.
                taker.borrow_mut().push(TcpListener::bind(address).map_err(error)?);
            }
            TcpListener::bind(address).map_err(|e| error(e).into())
        });
        assert!(begun.unwrap().local_addr().unwrap().port() > usual);
        let refused = begin(chosen, |_| Err::<(), _>(ClusterError::Wiring("no".to_owned())));
        assert_eq!(refused.unwrap_err().1.message, "no");
    }
}
