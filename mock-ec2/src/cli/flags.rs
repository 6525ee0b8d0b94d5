//! Flags, and the configuration from them.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use substrate::admin::Secret;
use substrate::host::{self, Failure, HostOptions};

use super::files;
use crate::config::{Config, StateFile, StateSync};
use crate::regions;
use crate::state::latency::LatencyFile;

const EXAMPLE: &str = "\
Example:
  mock-ec2 --instances instances.yaml --latency aws &
  export AWS_ENDPOINT_URL=http://127.0.0.1:4566 AWS_DEFAULT_REGION=us-east-1
  export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test
  aws ec2 create-volume --availability-zone us-east-1a --size 4 --volume-type gp3

with instances.yaml:
  - {name: node-a, zone: us-east-1a}
  - {name: node-b, zone: us-east-1a, instanceType: m7i.large}";

/// EC2 and EBS for tests: the Query API as SDKs, the AWS CLI and the EBS CSI driver speak it.
#[derive(Debug, Parser)]
#[command(name = "mock-ec2", version, after_help = EXAMPLE)]
pub(super) struct Flags {
    /// Listen address; port 0 picks a free port. Off loopback a token is needed.
    #[arg(long, value_name = "ADDR:PORT", value_parser = host::address, default_value = "127.0.0.1:4566")]
    pub(super) listen: SocketAddr,
    /// Served region, with its own data and zones; `all` for those of AWS. Repeatable. The first is the default of
    /// admin requests without ?region=NAME.
    #[arg(long, value_name = "REGION|all", default_value = "us-east-1")]
    pub(super) region: Vec<String>,
    /// The account that owns everything, twelve digits.
    #[arg(long, default_value = "000000000000")]
    pub(super) account_id: String,
    /// Availability zones, whose names begin with their region's. Default: a, b and c of each region.
    #[arg(long, value_name = "ZONE,…", value_delimiter = ',')]
    pub(super) zones: Vec<String>,
    /// First listen address of the metadata service: one port per instance of the list, counted up from it.
    #[arg(long, value_name = "ADDR:PORT", value_parser = host::address)]
    pub(super) imds_listen: Option<SocketAddr>,
    /// Duration of transitions: instant, aws, aws-recent, or a YAML file with rules.
    #[arg(long, value_name = "PROFILE|FILE", default_value = "instant")]
    pub(super) latency: String,
    /// Directory of mock-ec2's own for a sparse backing file of each volume. Each region except the first has a
    /// subdirectory with its name.
    #[arg(long, value_name = "DIR")]
    pub(super) volume_dir: Option<PathBuf>,
    /// Largest space of a region's backing files on disk, such as 512MiB or 10GiB.
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = size)]
    pub(super) disk_limit: u64,
    /// YAML or JSON list of instances that run from the start (name, zone, instanceType, id, …).
    #[arg(long, value_name = "FILE")]
    pub(super) instances: Option<PathBuf>,
    /// Access key and its secret. If any are given, signatures are verified. Repeatable.
    #[arg(long, value_name = "KEY:SECRET", value_parser = credential)]
    pub(super) credential: Vec<(String, Secret)>,
    /// File that keeps the whole state from one run to the next. An answered change is in it, however the program ends:
    /// its record is written before the answer. The backing files of --volume-dir are as safe as their filesystem makes
    /// them. Each region except the first has its own file beside it: FILE.REGION.
    #[arg(long, value_name = "FILE")]
    pub(super) state_file: Option<PathBuf>,
    /// Failure that an answered change in --state-file survives: the end of the program, even by kill -9 (process), or
    /// also the loss of power (power), which syncs the disk once for each group of answers.
    #[arg(long, value_name = "WHAT", default_value = "process", requires = "state_file")]
    pub(super) state_sync: Survives,
    /// Host name, besides IP addresses and localhost, that requests may use. Repeatable.
    #[arg(long, value_name = "NAME")]
    pub(super) allow_host: Vec<String>,
    /// Bearer token that admin requests must carry.
    #[arg(long, value_name = "TOKEN", value_parser = host::token)]
    pub(super) token: Option<Secret>,
    #[command(flatten)]
    pub(super) host: HostOptions,
}

/// Failure that an answered change survives.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Survives {
    /// The end of the program.
    Process,
    /// The loss of power.
    Power,
}

impl From<Survives> for StateSync {
    fn from(what: Survives) -> Self {
        match what {
            Survives::Process => Self::Process,
            Survives::Power => Self::Power,
        }
    }
}

fn credential(text: &str) -> Result<(String, Secret), String> {
    match text.split_once(':') {
        Some((key, secret)) if !key.is_empty() && !secret.is_empty() => Ok((key.to_owned(), Secret::new(secret))),
        _ => Err("write KEY:SECRET".to_owned()),
    }
}

/// Returns the requested regions, without duplicates.
fn regions(flags: &Flags) -> Vec<String> {
    let mut regions: Vec<String> = Vec::new();
    for word in &flags.region {
        let named = if word == "all" { regions::ALL.to_vec() } else { vec![word.as_str()] };
        for name in named {
            if !regions.iter().any(|known| known == name) {
                regions.push(name.to_owned());
            }
        }
    }
    regions
}

/// Returns a configuration for each region.
pub(super) fn configs(flags: &Flags) -> Result<Vec<Config>, Failure> {
    let LatencyFile { base, rules } = files::latency(&flags.latency)?;
    let regions = regions(flags);
    let alone = regions.len() == 1;
    let instances = flags.instances.as_deref().map(files::instances).transpose()?.unwrap_or_default();
    let homeless = |zone: &str| !alone && !regions.iter().any(|region| regions::lies_in(zone, region));
    if let Some(zone) = flags.zones.iter().find(|zone| homeless(zone)) {
        let text = format!("--zones: `{zone}` lies in none of the regions {}", regions.join(", "));
        return Err(Failure::usage(text));
    }
    if let Some((at, instance)) = instances.iter().enumerate().find(|(_, instance)| homeless(&instance.zone)) {
        let text =
            format!("instances[{at}].zone: `{}` lies in none of the regions {}", instance.zone, regions.join(", "));
        return Err(Failure::usage(text));
    }
    let config = |(at, region): (usize, &String)| {
        let own = |zone: &str| alone || regions::lies_in(zone, region);
        let mut zones: Vec<String> = flags.zones.iter().filter(|zone| own(zone)).cloned().collect();
        if zones.is_empty() {
            zones = ["a", "b", "c"].map(|letter| format!("{region}{letter}")).to_vec();
        }
        let beside = |path: &PathBuf| match at {
            0 => path.clone(),
            _ => PathBuf::from(format!("{}.{region}", path.display())),
        };
        Config {
            region: region.clone(),
            account_id: flags.account_id.clone(),
            zones,
            latency: base,
            latency_rules: rules.clone(),
            instances: instances.iter().filter(|instance| own(&instance.zone)).cloned().collect(),
            volume_dir: flags.volume_dir.as_ref().map(|dir| if at == 0 { dir.clone() } else { dir.join(region) }),
            disk_limit: flags.volume_dir.is_some().then_some(flags.disk_limit),
            admin_token: flags.token.clone(),
            watch_mounts: flags.volume_dir.is_some(),
            credentials: flags.credential.iter().cloned().collect(),
            state_file: flags
                .state_file
                .as_ref()
                .map(|path| StateFile { path: beside(path), sync: flags.state_sync.into() }),
            keep_files: flags.state_file.is_some(),
            ..Config::default()
        }
    };
    Ok(regions.iter().enumerate().map(config).collect())
}

fn size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 =
        text[..digits].parse().map_err(|_| "write a number and a unit, such as 512MiB or 10GiB".to_owned())?;
    let shift = match text[digits..].trim_end_matches('B').trim_end_matches('i') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        unit => return Err(format!("`{unit}` is not a unit: use KiB, MiB, GiB or TiB")),
    };
    number.checked_mul(1 << shift).ok_or_else(|| "is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(size("10GiB"), Ok(10 << 30));
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("42"), Ok(42));
        for bad in ["", "x", "10XiB", "99999999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
