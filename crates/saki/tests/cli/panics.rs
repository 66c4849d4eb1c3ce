//! Panics planted into a server: one that is a statement's own ends that statement and nothing else; one that could
//! leave broken what all share ends the process, and who opens the database next has everything that was acknowledged.

mod client;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::sync::Mutex;
use std::thread::{JoinHandle, scope};
use std::time::{Duration, Instant};

use saki_base::panics::{Place, VARIABLE};

use self::client::Client;
use crate::support::{Said, check, command, saki, scratch, sql};

const SIGABRT: i32 = 6;
/// How long a server may take to come to a planted panic.
const PATIENCE: Duration = Duration::from_secs(120);
/// Rows that are there before, on more pages than are read at the start.
const BEFORE: u64 = 20_000;
/// Clients that write.
const WRITERS: u64 = 3;

/// A server in which a panic is planted.
struct Server {
    process: Child,
    address: String,
    log: JoinHandle<String>,
    /// Somebody listens to what else it says.
    _said: BufReader<ChildStdout>,
}

impl Server {
    /// At the `passes`th time that it comes to `place` it panics.
    fn start(path: &Path, (place, passes): (&str, u64), arguments: &[&str]) -> Self {
        let mut process = command()
            .args(["serve".as_ref(), "--db".as_ref(), path.as_os_str()])
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .env(VARIABLE, format!("{place}:{passes}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let read_log = |mut stderr: ChildStderr| {
            let mut log = Vec::new();
            let _ = stderr.read_to_end(&mut log);
            String::from_utf8_lossy(&log).into_owned()
        };
        let stderr = process.stderr.take().expect("piped");
        let log = std::thread::spawn(move || read_log(stderr));
        let mut said = String::new();
        let mut stdout = BufReader::new(process.stdout.take().expect("piped"));
        stdout.read_line(&mut said).expect("it says where it is");
        let address = said.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        Self { process, address, log, _said: stdout }
    }

    fn connect(&self) -> Option<Client> {
        Client::connect(&self.address).ok()
    }

    /// Waits for its end by itself; the signal that ended it, and its log.
    fn ended(mut self, what: &str) -> (Option<i32>, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().expect("a child") {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                let _ = self.process.kill();
                let _ = self.process.wait();
                panic!("{what}: the server goes on\n{}", self.log.join().expect("no panic"));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        (status.signal(), self.log.join().expect("no panic"))
    }

    /// Ends it as a power cut would; its log.
    fn kill(mut self) -> String {
        assert_eq!(self.process.try_wait().expect("a child"), None, "it has ended by itself");
        self.process.kill().expect("it runs");
        self.process.wait().expect("a child");
        self.log.join().expect("no panic")
    }
}

/// A database with a table of some pages.
fn made(path: &Path) {
    saki(["create".as_ref(), path.as_os_str()]).answer();
    let text = format!(
        "CREATE TABLE t (id bigint PRIMARY KEY, made bool, note text); CREATE INDEX t_note ON t (note); \
         INSERT INTO t SELECT i, false, repeat('x', 100) || i FROM generate_series(1, {BEFORE}) AS s (i)"
    );
    sql(path, &text).answer();
}

/// What was told to clients.
#[derive(Default)]
struct Told {
    /// Rows whose commit was acknowledged.
    committed: Vec<u64>,
    /// The codes of errors.
    errors: Vec<String>,
}

/// Everything that comes to a planted panic somewhere: rows that are added, changed, taken back and read from pages,
/// and tables that are made together with rows. Until the connection ends, or for so many rounds.
fn write(client: &mut Client, writer: u64, rounds: u64, told: &Mutex<Told>) {
    let begun = Instant::now();
    for round in (0..rounds).take_while(|_| begun.elapsed() < PATIENCE) {
        let id = BEFORE + 1 + round * WRITERS + writer;
        let old = 1 + id * 7919 % BEFORE;
        let (add, acknowledged) = match round % 4 {
            0 => (
                format!(
                    "BEGIN; CREATE TABLE m{id} (id int PRIMARY KEY); INSERT INTO m{id} VALUES (1); \
                     INSERT INTO t VALUES ({id}, true, 'm'); COMMIT"
                ),
                true,
            ),
            1 => (format!("BEGIN; INSERT INTO t VALUES ({id}, false, 'undone'); ROLLBACK"), false),
            2 => (format!("BEGIN; LOCK TABLE t; INSERT INTO t VALUES ({id}, false, 'locked'); COMMIT"), true),
            _ => (format!("INSERT INTO t VALUES ({id}, false, 'added{id}')"), true),
        };
        let statements = [
            format!("SELECT note FROM t WHERE id = {old}"),
            add,
            format!("UPDATE t SET note = note || 'y' WHERE id = {old}"),
            "SELECT count(*) FROM t WHERE note > 'xx'".to_owned(),
        ];
        for (position, statement) in statements.iter().enumerate() {
            let Ok(answer) = client.ask(statement) else { return };
            let mut told = told.lock().expect("no panic");
            match answer {
                Ok(_) if position == 1 && acknowledged => told.committed.push(id),
                Ok(_) => {}
                // Others have the row, or hold a lock that this one's crosses.
                Err(code) if ["40001", "40P01"].contains(&code.as_str()) => {}
                Err(code) => told.errors.push(code),
            }
            drop(told);
            let _ = client.ask("ROLLBACK");
        }
    }
}

/// Has clients write for so many rounds, or as long as there is a server.
fn under_load(server: &Server, rounds: u64) -> Told {
    let told = Mutex::default();
    scope(|scope| {
        for writer in 0..WRITERS {
            let told = &told;
            scope.spawn(move || {
                if let Some(mut client) = server.connect() {
                    write(&mut client, writer, rounds, told);
                }
            });
        }
    });
    told.into_inner().expect("no panic")
}

/// What is there afterwards: nothing broken, every row that was acknowledged, and catalog and rows together or not.
#[track_caller]
fn has_everything(path: &Path, told: &Told, what: &str) {
    check(path).answer();
    let numbers = |text: &str| -> Vec<u64> {
        let Said { out, err, success } = sql(path, text);
        assert!(success, "{what}: {text}: {err}");
        out.lines().skip(1).map(|line| line.parse().expect("a number")).collect()
    };
    assert_eq!(numbers("SELECT count(*) AS n FROM t WHERE note LIKE 'xx%'"), [BEFORE], "{what}");
    assert_eq!(numbers("SELECT count(*) AS n FROM t WHERE note = 'undone'"), [0], "{what}");
    let there = numbers(&format!("SELECT id FROM t WHERE id > {BEFORE} ORDER BY id"));
    for id in &told.committed {
        assert!(there.binary_search(id).is_ok(), "{what}: row {id} was acknowledged and is gone");
    }
    let named =
        sql(path, "SELECT tablename FROM pg_tables WHERE tablename LIKE 'm%' AND schemaname = 'public'").answer();
    let mut tables: Vec<u64> = named.lines().filter_map(|name| name.strip_prefix('m')?.parse().ok()).collect();
    tables.sort_unstable();
    assert_eq!(tables, numbers("SELECT id FROM t WHERE made ORDER BY id"), "{what}: rows and tables");
    // The same by the index, and it can be written again.
    assert_eq!(numbers("SELECT count(*) AS n FROM t WHERE note = 'm'"), [tables.len() as u64], "{what}");
    sql(path, "INSERT INTO t VALUES (0, false, 'afterwards'); DELETE FROM t WHERE id = 0").answer();
    check(path).answer();
}

#[test]
fn a_panic_that_could_break_what_is_shared_ends_the_server_and_loses_nothing() {
    for (place, name) in Place::ALL.iter().filter(|(place, _)| !place.is_of_a_statement()) {
        let (directory, path) = scratch();
        made(&path);
        let archive = directory.path().join("archive").display().to_string();
        if *place == Place::Mover {
            let fast = format!("{}:64MB:fast", directory.path().join("fast").display());
            saki(["device", "add", "--db", path.to_str().expect("a plain path"), &fast]).answer();
        }
        let arguments: &[&str] = if *place == Place::Archiver { &["--archive", &archive] } else { &[] };
        let passes = match place {
            // Some of these are come to by opening already.
            Place::Stamped | Place::Finishing | Place::Latched => 100,
            Place::Published | Place::TakingBack | Place::Locks | Place::Archiver => 8,
            Place::Checkpointer => 4,
            _ => 1,
        };
        let server = Server::start(&path, (name, passes), arguments);
        let told = under_load(&server, u64::MAX);
        let (signal, log) = server.ended(name);
        assert_eq!(signal, Some(SIGABRT), "{name}\n{log}");
        let planted = log.contains(&format!("planted: {place:?}"));
        assert!(planted && log.contains("so the process ends here"), "{name}\n{log}");
        assert!(told.errors.is_empty(), "{name}: {:?}\n{log}", told.errors);
        has_everything(&path, &told, name);
    }
}

#[test]
fn a_panic_of_a_statement_ends_that_statement_alone() {
    for (place, name) in Place::ALL.iter().filter(|(place, _)| place.is_of_a_statement()) {
        let (_directory, path) = scratch();
        made(&path);
        let passes = if *place == Place::CommittingDraft { 2 } else { 20 };
        let server = Server::start(&path, (name, passes), &[]);
        let told = under_load(&server, 12);
        assert_eq!(told.errors, ["XX000"], "{name}\n{}", server.kill());
        // What the statement held is free, whatever its session does now.
        let mut client = server.connect().expect("it goes on");
        for statement in ["SET lock_timeout = '5s'", "BEGIN; LOCK TABLE t; COMMIT", "SELECT count(*) FROM t"] {
            assert_eq!(client.ask(statement).expect("it goes on").err(), None, "{name}: {statement}");
        }
        let log = server.kill();
        assert!(log.contains(&format!("planted: {place:?}")), "{name}\n{log}");
        has_everything(&path, &told, name);
    }
}

/// A commit that panics before anything has come of it lets go of what its transaction had locked, though the session
/// stays.
#[test]
fn a_commit_that_panics_lets_go_of_its_locks() {
    let (_directory, path) = scratch();
    made(&path);
    let server = Server::start(&path, ("committing-draft", 1), &[]);
    let (mut one, mut other) = (server.connect().expect("a server"), server.connect().expect("a server"));
    for statement in ["BEGIN", "LOCK TABLE t", "CREATE TABLE made (id int PRIMARY KEY)"] {
        assert_eq!(one.ask(statement).expect("it goes on").err(), None, "{statement}");
    }
    assert_eq!(one.ask("COMMIT").expect("it goes on"), Err("XX000".to_owned()));
    for statement in
        ["SET lock_timeout = '5s'", "BEGIN; LOCK TABLE t; COMMIT", "CREATE TABLE made (id int PRIMARY KEY)"]
    {
        assert_eq!(other.ask(statement).expect("it goes on").err(), None, "{statement}");
    }
    // The session goes on as well, outside of any transaction.
    assert_eq!(one.ask("INSERT INTO made VALUES (1)").expect("it goes on").err(), None);
    server.kill();
    assert_eq!(sql(&path, "SELECT id FROM made").answer(), "id\n1\n");
}

/// Within a transaction it fails all of that, and the session goes on after ROLLBACK.
#[test]
fn a_panic_within_a_transaction_fails_the_transaction() {
    let (_directory, path) = scratch();
    made(&path);
    let server = Server::start(&path, ("writing", 2), &[]);
    let mut client = server.connect().expect("a server");
    let steps = [
        ("BEGIN", Ok(0)),
        ("INSERT INTO t VALUES (-1, false, 'before')", Ok(0)),
        ("INSERT INTO t VALUES (-2, false, 'panics')", Err("XX000")),
        ("SELECT id FROM t WHERE id < 0", Err("25P02")),
        ("ROLLBACK", Ok(0)),
        ("SELECT id FROM t WHERE id < 0", Ok(0)),
        ("INSERT INTO t VALUES (-3, false, 'afterwards')", Ok(0)),
        ("SELECT id FROM t WHERE id < 0", Ok(1)),
    ];
    for (statement, expected) in steps {
        let answer = client.ask(statement).expect("it goes on");
        assert_eq!(answer, expected.map_err(str::to_owned), "{statement}");
    }
    server.kill();
    assert_eq!(sql(&path, "SELECT id FROM t WHERE id < 0").answer(), "id\n-3\n");
    check(&path).answer();
}
