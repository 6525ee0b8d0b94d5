//! The signal that asks a program to stop (`lifecycle.stopSignal`), by its name in the API. Numbers are those of Linux, and
//! real-time signals are counted as by containerd (`moby/sys/signal`).

/// First real-time signal that the C library leaves to programs.
const FIRST: i32 = 34;
/// Last real-time signal.
const LAST: i32 = 64;

/// Returns the options of the guard for a signal. An unknown one is SIGTERM.
pub(super) fn options(name: Option<&str>) -> Vec<String> {
    let number = name.and_then(number);
    number.map(|number| vec!["--stop-signal".to_owned(), number.to_string()]).unwrap_or_default()
}

fn number(name: &str) -> Option<i32> {
    let number = match name.strip_prefix("SIG")? {
        "HUP" => libc::SIGHUP,
        "INT" => libc::SIGINT,
        "QUIT" => libc::SIGQUIT,
        "ILL" => libc::SIGILL,
        "TRAP" => libc::SIGTRAP,
        "ABRT" | "IOT" => libc::SIGABRT,
        "BUS" => libc::SIGBUS,
        "FPE" => libc::SIGFPE,
        "KILL" => libc::SIGKILL,
        "USR1" => libc::SIGUSR1,
        "SEGV" => libc::SIGSEGV,
        "USR2" => libc::SIGUSR2,
        "PIPE" => libc::SIGPIPE,
        "ALRM" => libc::SIGALRM,
        "TERM" => libc::SIGTERM,
        "STKFLT" => libc::SIGSTKFLT,
        "CHLD" | "CLD" => libc::SIGCHLD,
        "CONT" => libc::SIGCONT,
        "STOP" => libc::SIGSTOP,
        "TSTP" => libc::SIGTSTP,
        "TTIN" => libc::SIGTTIN,
        "TTOU" => libc::SIGTTOU,
        "URG" => libc::SIGURG,
        "XCPU" => libc::SIGXCPU,
        "XFSZ" => libc::SIGXFSZ,
        "VTALRM" => libc::SIGVTALRM,
        "PROF" => libc::SIGPROF,
        "WINCH" => libc::SIGWINCH,
        "IO" | "POLL" => libc::SIGIO,
        "PWR" => libc::SIGPWR,
        "SYS" => libc::SIGSYS,
        "RTMIN" => FIRST,
        "RTMAX" => LAST,
        other => match (other.strip_prefix("RTMIN+"), other.strip_prefix("RTMAX-")) {
            (Some(after), _) => FIRST + after.parse::<i32>().ok().filter(|after| (1..=15).contains(after))?,
            (None, Some(before)) => LAST - before.parse::<i32>().ok().filter(|before| (1..=14).contains(before))?,
            (None, None) => return None,
        },
    };
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_found_by_its_name() {
        for (name, is) in [("SIGTERM", 15), ("SIGRTMIN", 34), ("SIGRTMIN+3", 37), ("SIGRTMAX-14", 50), ("SIGRTMAX", 64)]
        {
            assert_eq!(number(name), Some(is), "{name}");
        }
        for name in ["TERM", "SIG", "SIGRTMIN+16", "SIGRTMAX-x", "SIGWAITING"] {
            assert_eq!(number(name), None, "{name}");
        }
        assert_eq!(options(Some("SIGINT")), ["--stop-signal", "2"]);
        assert!(options(None).is_empty());
    }
}
