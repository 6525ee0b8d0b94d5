//! Rows of `types.txt`, parsed once.

use std::sync::LazyLock;

use super::AttachLimit::{self, Dedicated, Shared, Unknown, Xen};
use super::{Disks, InstanceType};

/// The file. Its header names its source.
const TEXT: &str = include_str!("types.txt");

/// All types, in the order of names.
pub(super) static ROWS: LazyLock<Vec<InstanceType>> = LazyLock::new(|| lines().filter_map(row).collect());

fn lines() -> impl Iterator<Item = &'static str> {
    TEXT.lines().filter(|line| !line.starts_with('#'))
}

fn row(line: &'static str) -> Option<InstanceType> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let vcpus = words.next()?.parse().ok()?;
    let threads_per_core = words.next()?.parse().ok()?;
    let memory_mib = words.next()?.parse().ok()?;
    let limit = limit(words.next()?)?;
    let network_interfaces = words.next()?.parse().ok()?;
    let disks = disks(words.next()?)?;
    let flags = words.next().unwrap_or_default();
    Some(InstanceType {
        name,
        vcpus,
        threads_per_core,
        memory_mib,
        limit,
        network_interfaces,
        disks,
        current: !flags.contains('o'),
        ebs_cards: if flags.contains('2') { 2 } else { 1 },
        free_tier: flags.contains('f'),
    })
}

fn limit(word: &str) -> Option<AttachLimit> {
    let number = || word.get(1..)?.parse().ok();
    match word.get(..1)? {
        "s" => number().map(Shared),
        "d" => number().map(Dedicated),
        "x" => number().map(Xen),
        "?" => Some(Unknown),
        _ => None,
    }
}

fn disks(word: &str) -> Option<Disks> {
    if word == "-" {
        return Some(Disks { count: 0, size_gb: 0, kind: "" });
    }
    let (count, size) = word.split_once('x')?;
    let (size, kind) = match (size.strip_suffix('s'), size.strip_suffix('h')) {
        (Some(size), _) => (size, "ssd"),
        (None, size) => (size?, "hdd"),
    };
    Some(Disks { count: count.parse().ok()?, size_gb: size.parse().ok()?, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_row_and_they_are_in_order() {
        let odd: Vec<&str> = lines().filter(|line| row(line).is_none()).collect();
        assert_eq!(odd, [""; 0]);
        assert_eq!(ROWS.len(), lines().count());
        assert!(ROWS.is_sorted_by(|a, b| a.name < b.name));
        assert!(ROWS.iter().all(|t| t.vcpus > 0 && t.memory_mib > 0 && t.network_interfaces > 0));
        assert!(ROWS.iter().all(|t| t.vcpus % t.threads_per_core == 0), "whole cores");
    }
}
