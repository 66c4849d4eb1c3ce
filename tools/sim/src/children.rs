//! Seeds in processes of their own: many beside each other, and a failing one again and again with less of its script.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use saki_base::planted::Fault;

use crate::script::{Choices, Scene, Script};
use crate::threads;

/// Seeds to be run.
pub struct Seeds {
    pub seeds: Vec<(u64, Choices)>,
    /// Processes at once.
    pub jobs: usize,
    /// Whether each is run twice, and has to come out the same.
    pub is_twice: bool,
}

impl Seeds {
    /// Runs them all; whether nothing was found.
    ///
    /// # Errors
    /// If processes cannot be started.
    pub fn run(&self) -> Result<bool, String> {
        let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        on_threads(self.jobs, || {
            while let Some((seed, choices)) = self.seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Some(what) = self.one(*seed, choices)? {
                    failed.fetch_add(1, Ordering::Relaxed);
                    println!("{what}\nrepeat it: saki-sim run {}\n", arguments(*seed, choices).join(" "));
                }
            }
            Ok(())
        })?;
        let failed = failed.into_inner();
        println!("{} seeds, {failed} of them failed", self.seeds.len());
        Ok(failed == 0)
    }

    fn one(&self, seed: u64, choices: &Choices) -> Result<Option<String>, String> {
        let first = child(seed, choices)?;
        if !first.status.success() {
            return Ok(Some(told(&first)));
        }
        if self.is_twice {
            let second = child(seed, choices)?;
            if first.stdout != second.stdout {
                return Ok(Some(format!("two runs differ:\n{}{}", told(&first), told(&second))));
            }
        }
        Ok(None)
    }
}

/// Runs seeds with one fault after the other until each has been found; whether all have. A seed that fails without the
/// fault as well has not found it.
///
/// # Errors
/// If processes cannot be started.
pub fn prove(faults: &[Fault], scene: Option<Scene>, seeds: Range<u64>, jobs: usize) -> Result<bool, String> {
    let mut all_are_found = true;
    for fault in faults {
        let sound = Choices { scene, ..Choices::default() };
        let choices = Choices { fault: *fault, ..sound.clone() };
        let (next, found) = (AtomicU64::new(seeds.start), AtomicU64::new(u64::MAX));
        on_threads(jobs, || {
            while found.load(Ordering::Relaxed) == u64::MAX {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    break;
                }
                let fails = |choices: &Choices| Ok::<_, String>(!child(seed, choices)?.status.success());
                if fails(&choices)? && !fails(&sound)? {
                    found.fetch_min(seed, Ordering::Relaxed);
                }
            }
            Ok(())
        })?;
        match found.into_inner() {
            u64::MAX => {
                all_are_found = false;
                println!("{}: not found by seeds {seeds:?}", fault.name());
            }
            seed => println!("{}: found by seed {seed}", fault.name()),
        }
    }
    Ok(all_are_found)
}

/// Does work on so many threads at once, at least on one; each has a core, as far as there are enough, and so have the
/// processes that it starts.
fn on_threads(jobs: usize, work: impl Fn() -> Result<(), String> + Sync) -> Result<(), String> {
    let cores = threads::cores();
    std::thread::scope(|scope| {
        let on_core = |job: usize| {
            let (cores, work) = (&cores, &work);
            move || {
                if let Some(core) = cores.get(job % cores.len().max(1)) {
                    threads::stay_on(*core);
                }
                work()
            }
        };
        let threads: Vec<_> = (0..jobs.max(1)).map(|job| scope.spawn(on_core(job))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

/// Runs a seed in another process.
fn child(seed: u64, choices: &Choices) -> Result<Output, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let mut command = Command::new(program);
    command.arg("run").args(arguments(seed, choices)).stdin(Stdio::null());
    command.output().map_err(|error| format!("a process for seed {seed}: {error}"))
}

/// What it said last.
fn told(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<&str> = text.lines().collect();
    let verdict = lines.iter().rposition(|line| line.starts_with("seed ")).unwrap_or(0);
    lines.drain(..verdict);
    let mut told = lines.join("\n");
    if output.status.code() != Some(1) {
        told += &format!("\nthe process ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    told
}

fn arguments(seed: u64, choices: &Choices) -> Vec<String> {
    let mut arguments = vec![seed.to_string()];
    if !choices.without.is_empty() {
        arguments.extend(["--without".to_owned(), ranges(&choices.without)]);
    }
    for (option, kinds) in [("--only", &choices.only), ("--never", &choices.never)] {
        if !kinds.is_empty() {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            arguments.extend([option.to_owned(), names.join(",")]);
        }
    }
    if let Some(steps) = choices.steps {
        arguments.extend(["--steps".to_owned(), steps.to_string()]);
    }
    if choices.is_calm {
        arguments.push("--calm".to_owned());
    }
    if let Some(scene) = choices.scene {
        arguments.extend(["--scene".to_owned(), scene.name().to_owned()]);
    }
    if choices.fault != Fault::None {
        arguments.extend(["--fault".to_owned(), choices.fault.name().to_owned()]);
    }
    arguments
}

/// `1-3,7`.
fn ranges(numbers: &BTreeSet<usize>) -> String {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match all.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => all.push((*number, *number)),
        }
    }
    let text = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    all.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Leaves out of a failing seed's script what it fails without, half by half, and prints what is left; whether it did
/// not fail at all.
///
/// # Errors
/// If processes cannot be started.
pub fn shrink(seed: u64, choices: &Choices) -> Result<bool, String> {
    if child(seed, choices)?.status.success() {
        println!("seed {seed} does not fail");
        return Ok(true);
    }
    let mut choices = choices.clone();
    let parts = Script::parts(seed, &choices);
    let mut size = parts.div_ceil(2);
    while size > 0 {
        let mut first = 0;
        let mut has_shrunk = false;
        while first < parts {
            let mut less = choices.clone();
            less.without.extend(first..(first + size).min(parts));
            if less.without.len() > choices.without.len() && !child(seed, &less)?.status.success() {
                println!("{} of {parts} are left", parts - less.without.len());
                choices = less;
                has_shrunk = true;
            }
            first += size;
        }
        // Single ones until none can be left out any more.
        size = if size == 1 && has_shrunk { 1 } else { size / 2 };
    }
    let output = child(seed, &choices)?;
    println!("{}", String::from_utf8_lossy(&output.stdout));
    println!("repeat it: saki-sim run {} --trace", arguments(seed, &choices).join(" "));
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beside_each_other_are_ranges() {
        assert_eq!(ranges(&BTreeSet::from([1, 2, 3, 7, 9, 10])), "1-3,7,9-10");
        assert_eq!(ranges(&BTreeSet::new()), "");
    }
}
