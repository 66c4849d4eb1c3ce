//! kill -9: a writer is killed at a random moment, again and again: while it starts, while it recovers, right after its
//! first acknowledgement, in full swing. What it had acknowledged is there in full, and nothing is there by half. The
//! same of a writer that ends itself by a panic where others could see half of what it was doing.
//!
//! The writer is the example of that name, run by this test's own binary. `SAKI_KILLS` says how often, `SAKI_SEED`
//! which seed.

#[allow(dead_code)]
#[path = "../examples/writer.rs"]
mod writer;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use saki_base::Random;
use saki_base::panics::{Place, VARIABLE};
use saki_mvcc::Database;

const DIRECTORY: &str = "SAKI_WRITER_DIRECTORY";
const SEED: &str = "SAKI_WRITER_SEED";
/// How long a writer may take to come to a planted panic.
const PATIENCE: Duration = Duration::from_secs(60);

/// Not a test but the process that is killed.
#[test]
#[ignore = "writes without end; run by the test below"]
fn writer_process() {
    let (Some(directory), Ok(seed)) = (std::env::var_os(DIRECTORY), std::env::var(SEED)) else { return };
    println!();
    writer::run(Path::new(&directory), seed.parse().expect("a number"));
}

/// What the writers have said of one directory.
#[derive(Default, Debug)]
struct Said {
    /// Transactions of each worker that have to be there.
    acknowledged: [u64; writer::WORKERS],
    /// Greatest timestamp of them.
    timestamp: u64,
    /// Writers that got as far as to open the database.
    opened: u64,
    acks: u64,
}

impl Said {
    fn hear(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        let numbers: Vec<u64> = words[1..].iter().filter_map(|word| word.parse().ok()).collect();
        match (words[0], &numbers[..]) {
            ("open", [clock, counts @ ..]) => {
                self.check(*clock, counts);
                self.opened += 1;
            }
            ("ack", [worker, number, timestamp]) => {
                let acknowledged = &mut self.acknowledged[*worker as usize];
                *acknowledged = (*acknowledged).max(number + 1);
                self.timestamp = self.timestamp.max(*timestamp);
                self.acks += 1;
            }
            _ => {}
        }
    }

    fn check(&self, clock: u64, counts: &[u64]) {
        assert!(clock >= self.timestamp, "the clock stands at {clock}, and timestamps went on to {}", self.timestamp);
        let all = counts.iter().zip(self.acknowledged).all(|(count, acknowledged)| *count >= acknowledged);
        assert!(all, "acknowledged: {:?}, found: {counts:?}", self.acknowledged);
    }
}

fn start(directory: &Path, seed: u64, panic: Option<String>) -> (Child, Receiver<String>) {
    let mut writer = Command::new(std::env::current_exe().expect("this test's binary"))
        .args(["--exact", "writer_process", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(SEED, seed.to_string())
        .envs(panic.map(|panic| (VARIABLE, panic)))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let (to, lines) = channel();
    let out = BufReader::new(writer.stdout.take().expect("a pipe"));
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
    (writer, lines)
}

/// Lets a writer live for a while, kills it, and hears all it said.
fn live_and_die(directory: &Path, seed: u64, random: &mut Random, said: &mut Said) {
    let (mut writer, lines) = start(directory, seed, None);
    let first_word = random.below(4);
    let wanted = ["", "open", "ack", "ack"][first_word as usize];
    while let Some(line) =
        (!wanted.is_empty()).then(|| lines.recv_timeout(Duration::from_secs(60)).expect("a writer that writes"))
    {
        said.hear(&line);
        if line.starts_with(wanted) {
            break;
        }
    }
    let micros = match first_word {
        0 => random.below(60_000),
        1 | 2 => random.below(3_000),
        _ => random.below(150_000),
    };
    std::thread::sleep(Duration::from_micros(micros));
    writer.kill().expect("a process to kill");
    let status = writer.wait().expect("a process that ended");
    lines.iter().for_each(|line| said.hear(&line));
    assert_eq!(status.signal(), Some(9), "the writer ended by itself, see above");
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let kills: u64 = std::env::var("SAKI_KILLS").map_or(15, |kills| kills.parse().expect("SAKI_KILLS is a number"));
    let seed: u64 = std::env::var("SAKI_SEED").map_or(1, |seed| seed.parse().expect("SAKI_SEED is a number"));
    let mut random = Random::new(seed);
    let mut directory = tempfile::tempdir().expect("a directory");
    let (mut said, mut acks, mut opened) = (Said::default(), 0, 0);
    for kill in 0..kills {
        eprintln!("kill {kill} of seed {seed}: {said:?}");
        live_and_die(directory.path(), seed, &mut random, &mut said);
        // Else the next writer looks for itself.
        if random.chance(0.4) {
            let database =
                Database::open(directory.path(), writer::options(), &|_| {}).unwrap_or_else(|error| panic!("{error}"));
            let counts = writer::verify(&database, seed).unwrap_or_else(|error| panic!("{error}"));
            said.check(database.now(), &counts);
        }
        if kill % 12 == 11 || kill + 1 == kills {
            (acks, opened) = (acks + said.acks, opened + said.opened);
            directory = tempfile::tempdir().expect("a directory");
            said = Said::default();
        }
    }
    eprintln!("{kills} kills, {acks} transactions acknowledged, {opened} openings by writers");
    assert!(acks > 10 * kills, "too little was written to mean anything: {acks}");
}

#[test]
fn what_was_acknowledged_survives_a_panic() {
    let seed = 1;
    for place in [Place::Stamped, Place::Finishing, Place::TakingBack, Place::Latched] {
        let name = Place::ALL.iter().find(|(known, _)| *known == place).expect("all are there").1;
        let directory = tempfile::tempdir().expect("a directory");
        let mut said = Said::default();
        // The later ones find what the earlier ones have left.
        for passes in [1, 50, 1_000] {
            let (mut writer, lines) = start(directory.path(), seed, Some(format!("{name}:{passes}")));
            let begun = Instant::now();
            while begun.elapsed() < PATIENCE
                && let Ok(line) = lines.recv_timeout(PATIENCE)
            {
                said.hear(&line);
            }
            // Here it has ended, or it does not come to that place.
            let _ = writer.kill();
            let status = writer.wait().expect("a process that ended");
            assert_eq!(status.signal(), Some(libc::SIGABRT), "{name}:{passes}: a panic there ends the process");
            let database =
                Database::open(directory.path(), writer::options(), &|_| {}).unwrap_or_else(|error| panic!("{error}"));
            let counts = writer::verify(&database, seed).unwrap_or_else(|error| panic!("{name}:{passes}: {error}"));
            said.check(database.now(), &counts);
        }
        assert!(said.acks > 20, "{name}: too little was written to mean anything: {}", said.acks);
    }
}
