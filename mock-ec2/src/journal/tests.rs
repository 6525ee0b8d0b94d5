//! A journal on a failing disk: answered changes are kept regardless of which writes fail.

use std::sync::Arc;
use std::time::Duration;

use substrate::{Now, Seed};

use super::medium::Fill;
use super::*;
use crate::config::Config;
use crate::state::State;
use crate::state::command::Reply;

/// Failure of a disk operation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fails {
    /// Only this many bytes are written.
    Short(usize),
    /// No effect. A failed sync drops the unsynced bytes, as Linux does.
    Whole,
}

/// Disk with the cached content, and the content after a loss of power.
#[derive(Default)]
struct Disk {
    cache: Vec<u8>,
    safe: Vec<u8>,
    /// Failing operations, by number from 0.
    fails: Vec<(usize, Fails)>,
    operations: usize,
    syncs: usize,
}

impl Disk {
    fn next(&mut self) -> Option<Fails> {
        let number = self.operations;
        self.operations += 1;
        self.fails.iter().find(|(at, _)| *at == number).map(|(_, fails)| *fails)
    }
}

struct Pretended(Arc<Mutex<Disk>>);

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl Medium for Pretended {
    fn append(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = lock(&self.0);
        let fails = disk.next();
        let some = match fails {
            None => bytes,
            Some(Fails::Short(most)) => &bytes[..most.min(bytes.len().saturating_sub(1))],
            Some(_) => &[],
        };
        disk.cache.resize(at as usize, 0);
        disk.cache.extend_from_slice(some);
        if fails.is_some() { Err(full()) } else { Ok(()) }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        let mut disk = lock(&self.0);
        if disk.next().is_some() {
            return Err(full());
        }
        disk.cache.truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = lock(&self.0);
        disk.syncs += 1;
        match disk.next() {
            None => disk.safe = disk.cache.clone(),
            Some(_) => {
                // The pages count as clean although the disk does not have them.
                return Err(io::Error::other("the disk does not answer"));
            }
        }
        Ok(())
    }

    fn replace(&mut self, fill: Fill<'_>) -> io::Result<u64> {
        let mut new = Vec::new();
        fill(&mut new)?;
        let mut disk = lock(&self.0);
        if disk.next().is_some() {
            return Err(full());
        }
        (disk.cache, disk.safe) = (new.clone(), new.clone());
        Ok(new.len() as u64)
    }
}

/// Machine under a lock.
struct Machine(Mutex<State>);

impl Source for Machine {
    fn whole(&self, noted: &mut dyn FnMut()) -> Saved {
        let state = lock(&self.0);
        noted();
        state.save(Now::at(Duration::ZERO))
    }

    fn remove(&self, _: Doomed) {}
}

impl Machine {
    fn new() -> Self {
        let settings = crate::cloud::settings(&Config::default()).unwrap();
        let mut state = State::new(settings, Seed::root(1), &[]).unwrap();
        state.track();
        Self(Mutex::new(state))
    }

    /// Creates a volume, notes it, and returns its id.
    fn create(&self, journal: &Journal) -> String {
        let mut state = lock(&self.0);
        let form = b"Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4";
        let now = Now::at(Duration::ZERO);
        let Reply::Volume(made) = state.apply(now, &crate::fuzz::form(form).unwrap()).unwrap() else { panic!() };
        journal.note(state.take_patch(now), Doomed::default());
        made.id.to_string()
    }

    fn volumes(&self) -> Vec<String> {
        lock(&self.0).volumes().map(|v| v.id.to_string()).collect()
    }
}

/// Returns the volumes in a file.
fn volumes(bytes: &[u8]) -> Vec<String> {
    let saved = serde_json::to_value(line::parse(bytes).unwrap()).unwrap();
    saved["volumes"].as_array().unwrap().iter().map(|v| v["id"].as_str().unwrap().to_owned()).collect()
}

fn flush(journal: &Journal, machine: &Machine) -> Result<(), String> {
    journal.owes().map_or(Ok(()), |last| journal.flush(last, machine))
}

/// Creates `count` volumes on a disk with failures `fails`, checks it after each, and returns how many were refused.
fn play(sync: StateSync, fails: &[(usize, Fails)], count: usize) -> usize {
    let disk = Arc::new(Mutex::new(Disk { fails: fails.to_vec(), ..Disk::default() }));
    let (journal, machine) = (Journal::new(Box::new(Pretended(disk.clone())), sync), Machine::new());
    let (mut answered, mut refused) = (Vec::new(), 0);
    for _ in 0..count {
        let id = machine.create(&journal);
        let outcome = flush(&journal, &machine);
        assert_eq!(outcome.is_err(), journal.has_failed());
        match outcome {
            Ok(()) => answered.push(id),
            Err(_) => refused += 1,
        }
        let disk = lock(&disk);
        let found = if sync == StateSync::Power { &disk.safe } else { &disk.cache };
        if !answered.is_empty() {
            let found = volumes(found);
            for id in &answered {
                assert!(found.contains(id), "{sync:?} {fails:?}: {id} was answered and is lost");
            }
        }
    }
    lock(&disk).fails.clear();
    assert_eq!(flush(&journal, &machine), Ok(()));
    let disk = lock(&disk);
    for bytes in [Some(&disk.cache), (sync == StateSync::Power).then_some(&disk.safe)].into_iter().flatten() {
        assert_eq!(volumes(bytes), machine.volumes(), "{sync:?} {fails:?}: in the end all is there");
    }
    refused
}

#[test]
fn an_answered_change_is_never_lost_whichever_operation_of_the_disk_fails() {
    for sync in [StateSync::Process, StateSync::Power] {
        assert_eq!(play(sync, &[], 8), 0);
        for kind in [Fails::Whole, Fails::Short(1), Fails::Short(100), Fails::Short(700)] {
            for first in 0..9 {
                let refused = play(sync, &[(first, kind)], 7);
                // Without power loss the disk is not synced, so later operations are not reached.
                assert!(refused == 1 || first >= 7, "{sync:?} {kind:?} at {first}: {refused}");
                for then in [1, 2] {
                    play(sync, &[(first, kind), (first + then, Fails::Whole)], 7);
                }
            }
        }
    }
}

#[test]
fn one_sync_serves_all_that_wait() {
    let disk = Arc::<Mutex<Disk>>::default();
    let journal = Journal::new(Box::new(Pretended(disk.clone())), StateSync::Power);
    let machine = Machine::new();
    flush(&journal, &machine).unwrap();
    let lasts: Vec<u64> = (0..10).map(|_| (machine.create(&journal), journal.owes().unwrap()).1).collect();
    for last in &lasts {
        journal.flush(*last, &machine).unwrap();
    }
    assert_eq!((lock(&disk).syncs, journal.owes()), (1, None));
    assert_eq!(volumes(&lock(&disk).safe), machine.volumes());
}

#[test]
fn records_that_outweigh_the_state_are_written_into_it() {
    let disk = Arc::<Mutex<Disk>>::default();
    let journal = Journal::new(Box::new(Pretended(disk.clone())), StateSync::Process);
    let machine = Machine::new();
    let id = machine.create(&journal).parse().unwrap();
    let mut longest = 0;
    for round in 0..20 {
        let mut state = lock(&machine.0);
        let tags = (1..=40).map(|n| format!("&Tag.{n}.Key=k{n}&Tag.{n}.Value={round}{}", "x".repeat(200)));
        let form = format!("Action=CreateTags&Version=2016-11-15&ResourceId.1={id}{}", tags.collect::<String>());
        let now = Now::at(Duration::ZERO);
        state.apply(now, &crate::fuzz::form(form.as_bytes()).unwrap()).unwrap();
        for _ in 0..40 {
            // Simulates another change.
            let _ = state.impair_volume(&id, round % 2 == 0);
            journal.note(state.take_patch(now), Doomed::default());
        }
        drop(state);
        flush(&journal, &machine).unwrap();
        longest = longest.max(lock(&disk).cache.len() as u64);
    }
    assert!(longest > LEAST / 2 && longest < LEAST * 2, "{longest}");
    assert_eq!(volumes(&lock(&disk).cache), machine.volumes());
}

#[test]
fn a_torn_end_is_left_out_and_a_broken_middle_is_refused() {
    let machine = Machine::new();
    let disk = Arc::<Mutex<Disk>>::default();
    let journal = Journal::new(Box::new(Pretended(disk.clone())), StateSync::Process);
    let mut ends = Vec::new();
    for _ in 0..4 {
        machine.create(&journal);
        flush(&journal, &machine).unwrap();
        ends.push(lock(&disk).cache.len());
    }
    let whole = lock(&disk).cache.clone();
    for end in (ends[0]..=whole.len()).filter(|end| end % 7 == 0 || ends.iter().any(|known| known.abs_diff(*end) < 3)) {
        let found = volumes(&whole[..end]).len();
        assert_eq!(found, ends.iter().filter(|known| **known <= end).count(), "cut at {end} of {ends:?}");
        let zeros = [&whole[..end], &[0; 300]].concat();
        assert_eq!(volumes(&zeros).len(), found, "zeros from {end} on");
    }
    let mut broken = whole.clone();
    broken[ends[1] + 20] ^= 1;
    let error = line::parse(&broken).unwrap_err().to_string();
    assert!(error.contains(&format!("head -c {}", ends[1])), "{error}");
    assert_eq!(volumes(&broken[..ends[1]]).len(), 2);
}
