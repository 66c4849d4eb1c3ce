//! What is done with a structure, and how long it takes.

use std::sync::Barrier;
use std::time::Instant;

use clap::ValueEnum;
use serde::Serialize;

use super::keys::{Key, Random};
use super::structures::{Access, Structure, Worker};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Keys that are there, at random, one by one
    Read,
    /// The same, sixteen at a time
    Many,
    /// Four reads, and an insert and a remove in turns
    Mixed,
    /// The whole structure in random order
    Insert,
    /// 50 entries from a key on that is there
    Scan50,
}

/// Operations under one pin.
const PINNED: u64 = 256;
/// Entries of a scan.
pub const SCANNED: usize = 50;
/// Keys given to `get_many` at once.
const TOGETHER: usize = 16;
/// Inserted keys of the mixed workload that are there at a time, of each thread.
const LIVE: u64 = 1000;

/// What a run of a workload came to.
pub struct Outcome {
    pub operations: u64,
    pub seconds: f64,
    pub wrong: u64,
}

impl Outcome {
    pub fn per_core(&self, threads: usize) -> f64 {
        self.operations as f64 / self.seconds / threads as f64
    }
}

pub struct Run {
    pub entries: u64,
    /// Of each thread; `Insert` has its own.
    pub operations: u64,
    pub seed: u64,
}

impl Run {
    /// Runs `workload` on `threads` threads, all at the same time.
    pub fn measure<K: Key, S: Structure<K>>(&self, structure: &S, workload: Workload, threads: usize) -> Outcome {
        let barrier = Barrier::new(threads);
        let work = &|thread: usize| {
            let mut worker = structure.worker();
            barrier.wait();
            let start = Instant::now();
            let (operations, wrong) = self.work(&mut worker, workload, thread as u64, threads as u64);
            (start, Instant::now(), operations, wrong)
        };
        let parts: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
            workers.into_iter().map(|worker| worker.join().expect("a worker's panic ends the benchmark")).collect()
        });
        let start = parts.iter().map(|part| part.0).min().expect("there are threads");
        let end = parts.iter().map(|part| part.1).max().expect("there are threads");
        Outcome {
            operations: parts.iter().map(|part| part.2).sum(),
            seconds: (end - start).as_secs_f64(),
            wrong: parts.iter().map(|part| part.3).sum(),
        }
    }

    /// One thread's part: how many operations, and how many of them went wrong.
    fn work<K: Key>(&self, worker: &mut impl Worker<K>, workload: Workload, thread: u64, threads: u64) -> (u64, u64) {
        let mut random = Random::new(self.seed ^ thread << 32 ^ (workload as u64) << 48);
        let count = match workload {
            Workload::Insert => (self.entries + threads - 1 - thread) / threads,
            _ => self.operations,
        };
        let mut wrong = 0;
        let mut done = 0;
        while done < count {
            let batch = PINNED.min(count - done);
            let mut access = worker.access();
            wrong += match workload {
                Workload::Read => self.read(&mut access, &mut random, batch),
                Workload::Many => self.read_many(&mut access, &mut random, batch),
                Workload::Insert => insert(&mut access, (done..done + batch).map(|i| i * threads + thread)),
                Workload::Mixed => self.mix(&mut access, &mut random, thread, done..done + batch),
                Workload::Scan50 => (0..batch).map(|_| scan(&mut access, random.below(self.entries))).sum(),
            };
            done += batch;
        }
        if workload == Workload::Mixed {
            wrong += self.clear(&mut worker.access(), thread, count);
        }
        (done, wrong)
    }

    fn read<K: Key>(&self, access: &mut impl Access<K>, random: &mut Random, count: u64) -> u64 {
        let mut wrong = 0;
        for _ in 0..count {
            let number = random.below(self.entries);
            wrong += u64::from(access.get(K::of(number)) != Some(number + 1));
        }
        wrong
    }

    fn read_many<K: Key>(&self, access: &mut impl Access<K>, random: &mut Random, count: u64) -> u64 {
        let mut wrong = 0;
        for _ in 0..count / TOGETHER as u64 {
            let numbers: [u64; TOGETHER] = std::array::from_fn(|_| random.below(self.entries));
            let keys = numbers.map(|number| K::of(number).bytes());
            let mut values = [None; TOGETHER];
            access.get_many(&keys, &mut values);
            wrong += numbers.iter().zip(values).filter(|&(&number, value)| value != Some(number + 1)).count() as u64;
        }
        wrong
    }

    /// Of five operations one inserts a new key or removes the oldest of those.
    fn mix<K: Key>(
        &self,
        access: &mut impl Access<K>,
        random: &mut Random,
        thread: u64,
        operations: std::ops::Range<u64>,
    ) -> u64 {
        let mut wrong = 0;
        for operation in operations {
            if operation % 5 < 4 {
                wrong += self.read(access, random, 1);
                continue;
            }
            let change = operation / 5;
            let number = self.own(thread, change / 2);
            wrong += u64::from(match change % 2 {
                0 => !access.insert(K::of(number), number + 1),
                _ => match (change / 2).checked_sub(LIVE).map(|old| self.own(thread, old)) {
                    Some(old) => !access.remove(K::of(old), old + 1),
                    None => false,
                },
            });
        }
        wrong
    }

    /// Removes what `mix` left behind after `operations`.
    fn clear<K: Key>(&self, access: &mut impl Access<K>, thread: u64, operations: u64) -> u64 {
        let changes = operations / 5;
        let (inserted, removed) = (changes.div_ceil(2), (changes / 2).saturating_sub(LIVE));
        let rest = (removed..inserted).map(|i| self.own(thread, i));
        rest.map(|number| u64::from(!access.remove(K::of(number), number + 1))).sum()
    }

    /// Numbers of keys that a thread has to itself.
    fn own(&self, thread: u64, i: u64) -> u64 {
        self.entries + (thread << 40) + i
    }
}

fn insert<K: Key>(access: &mut impl Access<K>, numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.map(|number| u64::from(!access.insert(K::of(number), number + 1))).sum()
}

/// 1 if a scan from a key on does not begin with it, is not in order, or is too short without being near the end.
fn scan<K: Key>(access: &mut impl Access<K>, number: u64) -> u64 {
    let from = K::of(number);
    let mut count = 0;
    let mut last = from;
    let mut is_right = true;
    access.scan(from, SCANNED, |key, value| {
        is_right &= if count == 0 { key == from && value == number + 1 } else { key > last };
        last = key;
        count += 1;
    });
    // The last 50 keys of the structure are few: scans that reach the end are let pass.
    u64::from(!is_right || count == 0)
}
