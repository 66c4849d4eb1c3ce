//! Backups in a store of objects that speaks S3's protocol, and fails.
#![cfg(feature = "s3")]

#[path = "../support/mod.rs"]
mod support;

mod server;

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock};

use saki_backup::{CheckReport, Wanted, backup, check, list, prune, restore};
use saki_store::Stop;
use server::{Fault, Server};
use support::{Sample, rows_of};

const TARGET: &str = "s3://bucket/some/prefix";

/// Credentials and address come from the environment, so the other tests run in a process that has one of their own.
#[test]
fn all_that_is_below_with_an_environment() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--test-threads", "1"])
        .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"))
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "very secret")
        .env("AWS_REGION", "eu-central-1")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("5 passed"), "{said}");
}

/// The one server of this process.
fn server() -> (&'static Server, MutexGuard<'static, ()>) {
    static SERVER: OnceLock<Server> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let server = SERVER.get_or_init(Server::start);
    *server.state.lock().expect("no panic") = server::State::default();
    (server, turn)
}

fn back_up(sample: &Sample) -> saki_catalog::Result<saki_backup::BackupReport> {
    backup(sample.db(), TARGET, &Stop::default(), &|_| {})
}

fn restored(name: Option<&str>, path: &Path) -> saki_catalog::Result<saki_backup::RestoreReport> {
    restore(TARGET, name.map_or(Wanted::Newest, Wanted::Backup), path, &Stop::default(), &|_| {})
}

fn checked() -> CheckReport {
    check(TARGET, None, &Stop::default(), &|_| {}).expect("checked")
}

#[test]
#[ignore = "run by the first test"]
fn what_is_backed_up_to_s3_is_restored_from_there() {
    let (server, _turn) = server();
    let sample = Sample::new(20_000);
    let first = back_up(&sample).expect("backed up");
    assert_eq!((first.new_objects, first.objects), (first.objects, first.new_objects));
    sample.add(20_000..20_100);
    let second = back_up(&sample).expect("backed up");
    assert!(second.new_objects < second.objects, "{second:?}");
    let names: Vec<_> = list(TARGET).expect("listed").into_iter().map(|it| it.name).collect();
    assert_eq!(names, [first.name.clone(), second.name.clone()]);
    assert_eq!(checked().faults, Vec::<String>::new());
    let directory = tempfile::tempdir().expect("a directory");
    for (name, rows) in [(Some(first.name.as_str()), 20_000), (None, 20_100)] {
        let path = directory.path().join(format!("restored-{rows}"));
        restored(name, &path).expect("restored");
        assert_eq!(rows_of(&path), rows);
    }
    let pruned = prune(TARGET, 1, &Stop::default()).expect("pruned");
    assert_eq!((pruned.removed, pruned.kept.len()), (vec![first.name], 1));
    assert!(pruned.objects > 0);
    assert_eq!(checked().faults, Vec::<String>::new());
    restored(None, &directory.path().join("again")).expect("restored");
    let state = server.state.lock().expect("no panic");
    assert!(state.objects.keys().all(|key| key.starts_with("some/prefix/")), "outside of the prefix");
    assert_eq!(state.unsigned, 0, "requests without a signature");
    for (key, bytes) in &state.objects {
        assert!(!bytes.windows(11).any(|it| it == b"very secret"), "{key} has the secret");
    }
}

#[test]
#[ignore = "run by the first test"]
fn failures_that_pass_are_not_noticed() {
    let (server, _turn) = server();
    let sample = Sample::new(5_000);
    server.fail("PUT", Fault::Status(500), 2);
    server.fail("PUT", Fault::Status(503), 1);
    back_up(&sample).expect("backed up after three failures");
    assert!(server.state.lock().expect("no panic").faults.is_empty(), "the failures have not come");
    server.fail("GET", Fault::Status(500), 2);
    assert_eq!(checked().faults, Vec::<String>::new());
    let directory = tempfile::tempdir().expect("a directory");
    server.fail("GET", Fault::Status(503), 2);
    restored(None, &directory.path().join("restored")).expect("restored");
    assert!(server.state.lock().expect("no panic").faults.is_empty());
}

#[test]
#[ignore = "run by the first test"]
fn whoever_is_denied_is_told_so_and_nothing_is_there() {
    let (server, _turn) = server();
    let sample = Sample::new(1_000);
    server.state.lock().expect("no panic").always = Some(("PUT", 403));
    let denied = back_up(&sample).expect_err("denied");
    assert_eq!(denied.sqlstate(), "42501");
    assert!(denied.message.contains(TARGET) && denied.hint.is_some(), "{denied:?}");
    assert!(!format!("{denied:?}").contains("very secret"), "{denied:?}");
    server.state.lock().expect("no panic").always = Some(("GET", 403));
    let directory = tempfile::tempdir().expect("a directory");
    let denied = restored(None, &directory.path().join("restored")).expect_err("denied");
    assert_eq!(denied.sqlstate(), "42501");
    assert_eq!(std::fs::read_dir(directory.path()).expect("readable").count(), 0);
}

#[test]
#[ignore = "run by the first test"]
fn an_object_that_is_missing_half_or_changed_is_named() {
    let (server, _turn) = server();
    let sample = Sample::new(20_000);
    back_up(&sample).expect("backed up");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("restored");
    let keys: Vec<String> = {
        let state = server.state.lock().expect("no panic");
        state.objects.keys().filter(|key| key.contains("/objects/")).cloned().collect()
    };
    for key in &keys {
        let whole = server.state.lock().expect("no panic").objects[key].clone();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 4;
        for damaged in [None, Some(whole[..whole.len() / 2].to_vec()), Some(flipped)] {
            {
                let mut state = server.state.lock().expect("no panic");
                match damaged {
                    Some(bytes) => state.objects.insert(key.clone(), bytes),
                    None => state.objects.remove(key),
                };
            }
            let hash = key.rsplit('/').next().expect("a name");
            let refused = restored(None, &path).expect_err("damaged");
            assert!(refused.message.contains(hash) && refused.sqlstate() == "XX001", "{refused:?}");
            assert_eq!(std::fs::read_dir(directory.path()).expect("readable").count(), 0);
            let faults = checked().faults;
            assert!(faults.len() == 1 && faults[0].contains(hash), "{faults:?}");
        }
        server.state.lock().expect("no panic").objects.insert(key.clone(), whole);
    }
    // A connection that ends in the middle is no object either.
    server.fail("GET", Fault::Half, 1);
    let _ = check(TARGET, None, &Stop::default(), &|_| {});
    restored(None, &path).expect("whole again");
    assert_eq!(rows_of(&path), 20_000);
}

#[test]
#[ignore = "run by the first test"]
fn the_next_backup_writes_what_has_gone() {
    let (server, _turn) = server();
    let sample = Sample::new(20_000);
    back_up(&sample).expect("backed up");
    {
        let mut state = server.state.lock().expect("no panic");
        let key = state.objects.keys().find(|key| key.contains("/objects/")).cloned().expect("an object");
        state.objects.remove(&key);
    }
    assert_eq!(checked().faults.len(), 1);
    back_up(&sample).expect("backed up");
    let directory = tempfile::tempdir().expect("a directory");
    restored(None, &directory.path().join("restored")).expect("the newest is whole");
}
