//! Command-line flags that all programs share.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::secret::Secret;
use crate::{TimeScale, host};

/// Flags that every component has; flattened into its own.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct HostOptions {
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Divides the waits of control loops and the latencies of the cloud
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = time_scale, allow_negative_numbers = true)]
    pub time_scale: f64,
    /// Path of the trace as JSON lines, with every message of every link; `-` for standard output
    #[arg(long, value_name = "PATH")]
    pub trace: Option<PathBuf>,
    /// File that is written atomically once requests are answered, and removed at the end
    #[arg(long, value_name = "PATH")]
    pub ready_file: Option<PathBuf>,
    /// Seeded bugs that are switched on. A component that has a flag for them fills this in.
    #[arg(skip)]
    pub mutants: BTreeSet<String>,
}

/// Parses the factor of `--time-scale`.
///
/// # Errors
/// The values that the flag takes.
pub fn time_scale(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "write a number, such as 10".to_owned())?;
    TimeScale::check(factor).map(|scale| scale.factor())
}

/// Parses a bearer token, for flags that take one.
///
/// # Errors
/// The values that the flag takes.
pub fn token(text: &str) -> Result<Secret, String> {
    if text.len() >= 8 && text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(Secret::new(text));
    }
    Err("must have at least 8 characters, all of them visible ASCII ones".to_owned())
}

/// Parses an address to listen on, for flags that take one.
///
/// # Errors
/// The values that the flag takes, with the address that was probably meant.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let rest = text.trim();
    let rest = rest.split_once("://").map_or(rest, |(_, rest)| rest).trim_end_matches('/');
    let (host, port) =
        rest.rsplit_once(':').unwrap_or(if rest.parse::<u16>().is_ok() { ("", rest) } else { (rest, "") });
    let host = match host {
        "" | "localhost" => "127.0.0.1",
        "*" => "0.0.0.0",
        host => host,
    };
    let port = if port.is_empty() { "0" } else { port };
    let meant = [format!("{host}:{port}"), format!("[{host}]:{port}"), format!("[{rest}]:0")];
    let meant = meant.iter().find_map(|text| text.parse::<SocketAddr>().ok());
    let hint = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
    Err(format!("write an IP address and a port, as in 127.0.0.1:4566 (port 0 picks a free one){hint}"))
}

/// Parses the command line `args`, the program's name first.
///
/// # Errors
/// The exit code, after the message was printed: success for help and version, usage for anything else.
pub fn parse<T, I>(args: I) -> Result<T, ExitCode>
where
    T: clap::Parser,
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    T::try_parse_from(args).map_err(|error| {
        // Help goes to standard output; a closed pipe there does not matter.
        let _ = error.print();
        if error.use_stderr() { ExitCode::from(host::exit::USAGE) } else { ExitCode::SUCCESS }
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        host: HostOptions,
        #[arg(long, value_parser = token)]
        token: Option<Secret>,
    }

    #[test]
    fn every_wrong_value_names_its_flag_and_what_it_takes() {
        for (flag, value, message) in [
            ("--time-scale", "0", "from 0.001 to 1000000"),
            ("--time-scale", "-1", "from 0.001 to 1000000"),
            ("--time-scale", "nan", "from 0.001 to 1000000"),
            ("--time-scale", "inf", "from 0.001 to 1000000"),
            ("--time-scale", "1e-300", "from 0.001 to 1000000"),
            ("--time-scale", "fast", "write a number"),
            ("--seed", "many", "invalid digit"),
            ("--token", "short", "at least 8 characters"),
            ("--token", "with a blank in it", "visible"),
        ] {
            let error = Line::try_parse_from(["x", flag, value]).expect_err(value).to_string();
            assert!(error.contains(flag) && error.contains(message), "{flag} {value}: {error}");
        }
        let line = Line::try_parse_from(["x", "--time-scale", "0.5"]).expect("valid");
        assert_eq!((line.host.time_scale, line.host.seed), (0.5, 1));
    }

    #[test]
    fn an_invalid_address_is_refused_with_the_likely_one() {
        for (text, meant) in [
            ("4566", "127.0.0.1:4566"),
            (":4566", "127.0.0.1:4566"),
            ("localhost:4566", "127.0.0.1:4566"),
            ("*:80", "0.0.0.0:80"),
            ("127.0.0.1", "127.0.0.1:0"),
            ("http://127.0.0.1:4566/", "127.0.0.1:4566"),
            ("::1", "[::1]:0"),
        ] {
            let error = address(text).unwrap_err();
            assert!(error.ends_with(&format!("did you mean {meant}?")), "{text}: {error}");
        }
        for text in ["", "here", "1.2.3:4", "127.0.0.1:70000", "99999"] {
            let error = address(text).unwrap_err();
            assert!(error.contains("as in 127.0.0.1:4566"), "{text}: {error}");
        }
        assert_eq!(address("[::1]:80").map(|a| a.port()), Ok(80));
    }
}
