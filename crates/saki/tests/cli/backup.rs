//! Backups: what is restored is what was there, whoever is killed and whatever goes on meanwhile.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::cast::AsArray;
use arrow::array::types::Int64Type;
use saki::{CreateOptions, Database, OpenOptions, Session};

use crate::support::{LINES, Said, check, command, lines_expected, saki, scratch, sql, tpch};

fn os(path: &Path) -> &OsStr {
    path.as_os_str()
}

fn back_up(path: &Path, target: &Path) -> Said {
    saki(["backup".as_ref(), "--db".as_ref(), os(path), "--to".as_ref(), os(target)])
}

fn restore(target: &Path, name: Option<&str>, path: &Path) -> Said {
    let mut arguments: Vec<&OsStr> = vec!["restore".as_ref(), "--from".as_ref(), os(target), "--db".as_ref(), os(path)];
    if let Some(name) = name {
        arguments.extend([OsStr::new("--backup"), name.as_ref()]);
    }
    saki(arguments)
}

fn of_backups(what: &str, target: &Path, more: &[&str]) -> Said {
    let arguments: [&OsStr; 4] = ["backup".as_ref(), what.as_ref(), "--from".as_ref(), os(target)];
    saki(arguments.into_iter().chain(more.iter().map(|text| text.as_ref())))
}

/// The names that `list` prints.
fn names(target: &Path) -> Vec<String> {
    let listed = of_backups("list", target, &[]).answer();
    let name =
        |line: &str| line.split_whitespace().find(|word| word.len() == 23 && word.contains("-2")).map(str::to_owned);
    listed.lines().filter_map(name).collect()
}

#[test]
fn a_backup_of_several_devices_becomes_a_database_of_one() {
    let (directory, path) = scratch();
    let (second, target) = (directory.path().join("second"), directory.path().join("backups"));
    saki(["create".as_ref(), os(&path), "--device".as_ref(), os(&second)]).answer();
    sql(
        &path,
        "CREATE TABLE t (id int PRIMARY KEY, name text); CREATE INDEX name_idx ON t (name); \
         INSERT INTO t SELECT i, 'name ' || i FROM generate_series(1, 100000) AS s (i)",
    )
    .answer();
    let made = back_up(&path, &target).answer();
    assert!(made.contains("objects"), "{made}");
    sql(&path, "DELETE FROM t WHERE id % 2 = 0; INSERT INTO t VALUES (0, 'later')").answer();
    back_up(&path, &target).answer();
    let names = names(&target);
    assert_eq!(names.len(), 2);
    assert!(of_backups("check", &target, &[]).answer().contains("no faults"));
    let count = "SELECT count(*) AS n, count(DISTINCT name) AS d FROM t";
    for (name, expected) in [(Some(names[0].as_str()), "n,d\n100000,100000\n"), (None, "n,d\n50001,50001\n")] {
        let restored = directory.path().join(format!("restored-{}", expected.len()));
        restore(&target, name, &restored).answer();
        check(&restored).answer();
        assert_eq!(sql(&restored, count).answer(), expected);
        let devices = saki(["device".as_ref(), "list".as_ref(), "--db".as_ref(), os(&restored)]).answer();
        assert_eq!(devices.matches("restored-").count(), 1, "{devices}");
        assert!(!devices.contains("second"), "{devices}");
        assert!(restore(&target, name, &restored).failure().contains("is there already"));
    }
    let said = of_backups("prune", &target, &["--keep", "1"]).answer();
    assert!(said.contains(&format!("{} removed", names[0])), "{said}");
    assert!(of_backups("prune", &target, &["--keep", "0"]).failure().contains("0"));
    assert!(restore(&target, Some(&names[0]), &directory.path().join("gone")).failure().contains("saki backup list"));
}

fn clone(target: &Path, path: &Path) -> Said {
    saki([OsStr::new("clone"), "--from".as_ref(), os(target), "--db".as_ref(), os(path)])
}

fn complete(path: &Path) -> Said {
    saki([OsStr::new("clone"), "--db".as_ref(), os(path), "--complete".as_ref()])
}

/// Bytes that a file takes, without its holes.
fn bytes_taken(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap()) * 512
}

#[test]
fn a_clone_has_what_the_backup_has_and_fetches_what_is_read() {
    let (directory, path) = tpch();
    let (target, cloned) = (directory.path().join("backups"), directory.path().join("cloned"));
    back_up(&path, &target).answer();
    let said = clone(&target, &cloned).answer();
    assert!(said.contains("come when they are first read"), "{said}");
    let source = directory.path().join("cloned.source");
    let whole = bytes_taken(&path);
    assert!(source.exists() && bytes_taken(&cloned) < whole / 2, "{} of {whole}", bytes_taken(&cloned));
    assert!(clone(&target, &cloned).failure().contains("is there already"));
    let look_up = "SELECT count(*) AS n FROM nation";
    assert_eq!(sql(&cloned, look_up).answer(), "n\n25\n");
    assert!(bytes_taken(&cloned) < whole, "a query of one table fetches some of it");
    assert_eq!(sql(&cloned, LINES).answer(), lines_expected());
    // It is changed by itself.
    sql(&cloned, "DELETE FROM lineitem WHERE l_orderkey % 2 = 0; UPDATE nation SET n_name = lower(n_name)").answer();
    let changed = "SELECT count(*) AS n, min(n_name) AS name FROM nation";
    assert_eq!(sql(&cloned, changed).answer(), "n,name\n25,algeria\n");
    assert_eq!(sql(&path, changed).answer(), "n,name\n25,ALGERIA\n");
    assert!(complete(&cloned).answer().contains("complete"));
    assert!(!source.exists());
    std::fs::remove_dir_all(&target).unwrap();
    check(&cloned).answer();
    assert_eq!(sql(&cloned, changed).answer(), "n,name\n25,algeria\n");
    assert!(complete(&cloned).answer().contains("lacks nothing"));
    let unsaid = saki([OsStr::new("clone"), "--db".as_ref(), os(&cloned)]);
    assert!(!unsaid.success && unsaid.err.contains("--from"), "{}", unsaid.err);
}

#[test]
fn what_a_clone_lacks_and_cannot_have_is_named() {
    let (directory, path) = tpch();
    let (target, cloned) = (directory.path().join("backups"), directory.path().join("cloned"));
    back_up(&path, &target).answer();
    clone(&target, &cloned).answer();
    let moved = directory.path().join("moved");
    std::fs::rename(target.join("objects"), &moved).unwrap();
    let failed = sql(&cloned, LINES).failure();
    assert!(failed.contains("the object is missing"), "{failed}");
    assert!(complete(&cloned).failure().contains("the object is missing"));
    std::fs::rename(&moved, target.join("objects")).unwrap();
    assert_eq!(sql(&cloned, LINES).answer(), lines_expected());
    // Without its source it lacks what nobody knows of: an error, and no wrong row.
    let other = directory.path().join("other");
    clone(&target, &other).answer();
    std::fs::remove_file(directory.path().join("other.source")).unwrap();
    assert!(!sql(&other, LINES).success);
    // A source that is damaged is refused.
    let third = directory.path().join("third");
    clone(&target, &third).answer();
    let source = directory.path().join("third.source");
    let mut bytes = std::fs::read(&source).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&source, bytes).unwrap();
    let failed = sql(&third, LINES).failure();
    assert!(failed.contains("third.source") && failed.contains("checksum"), "{failed}");
}

#[test]
fn what_is_made_where_a_clone_was_lacks_nothing() {
    let (directory, path) = tpch();
    let (target, cloned) = (directory.path().join("backups"), directory.path().join("cloned"));
    let source = directory.path().join("cloned.source");
    back_up(&path, &target).answer();
    let gone = |logs: &str| {
        std::fs::remove_file(&cloned).unwrap();
        std::fs::remove_dir_all(directory.path().join(logs)).unwrap_or_default();
        assert!(source.exists(), "it is left behind");
    };
    clone(&target, &cloned).answer();
    // Nothing is made over one that is there.
    let create = || saki([OsStr::new("create"), os(&cloned)]);
    let refused = create().failure();
    assert!(refused.contains("is a clone"), "{refused}");
    assert_eq!(sql(&cloned, LINES).answer(), lines_expected());
    clone(&target, &directory.path().join("again")).answer();
    std::fs::rename(directory.path().join("again.source"), &source).unwrap();
    gone("cloned.log");
    create().answer();
    assert!(!source.exists(), "whatever was read with it would be another database's");
    let rows = "SELECT count(*) AS n, sum(i) AS s FROM t";
    sql(&cloned, "CREATE TABLE t AS SELECT i FROM generate_series(1, 100000) AS s (i)").answer();
    assert_eq!(sql(&cloned, rows).answer(), "n,s\n100000,5000050000\n");
    check(&cloned).answer();
    // Nor does a database that is restored, or a device that is added.
    std::fs::rename(&cloned, directory.path().join("made")).unwrap();
    clone(&target, &cloned).answer();
    gone("cloned.log");
    restore(&target, None, &cloned).answer();
    assert!(!source.exists());
    check(&cloned).answer();
    assert_eq!(sql(&cloned, LINES).answer(), lines_expected());
    std::fs::remove_file(&cloned).unwrap();
    std::fs::write(&source, b"left behind").unwrap();
    saki([OsStr::new("device"), "add".as_ref(), "--db".as_ref(), os(&path), os(&cloned)]).answer();
    assert!(!source.exists());
    assert_eq!(sql(&path, LINES).answer(), lines_expected());
}

#[test]
fn a_clone_survives_being_killed_while_it_fetches_and_changes() {
    let (directory, path) = tpch();
    let (target, cloned) = (directory.path().join("backups"), directory.path().join("cloned"));
    back_up(&path, &target).answer();
    let to = [OsStr::new("clone"), "--from".as_ref(), os(&target), "--db".as_ref(), os(&cloned)];
    run_and_kill(&to, Duration::from_millis(20));
    if !cloned.exists() {
        clone(&target, &cloned).answer();
    }
    sql(&cloned, "CREATE TABLE n (i int PRIMARY KEY)").answer();
    for attempt in 0..kills() {
        let change = format!(
            "INSERT INTO n VALUES ({attempt}); UPDATE orders SET o_shippriority = {attempt}; CHECKPOINT; \
             SELECT count(*) FROM lineitem WHERE l_comment LIKE '%x%'"
        );
        let run = [OsStr::new("sql"), "--db".as_ref(), os(&cloned), "-c".as_ref(), change.as_ref()];
        run_and_kill(&run, Duration::from_millis(30 + 60 * u64::from(attempt)));
        if attempt % 3 == 2 {
            let rest = [OsStr::new("clone"), "--db".as_ref(), os(&cloned), "--complete".as_ref()];
            run_and_kill(&rest, Duration::from_millis(15));
        }
        assert_eq!(sql(&cloned, LINES).answer(), lines_expected(), "after {attempt}");
        let priorities = "SELECT count(DISTINCT o_shippriority) AS n FROM orders";
        assert_eq!(sql(&cloned, priorities).answer(), "n\n1\n", "after {attempt}");
    }
    complete(&cloned).answer();
    check(&cloned).answer();
    assert_eq!(sql(&cloned, LINES).answer(), lines_expected());
}

/// Starts the command and kills it after a while. Whether it was still running.
fn run_and_kill(arguments: &[&OsStr], after: Duration) -> bool {
    let mut child = command().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let died = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    child.wait().unwrap();
    died
}

fn kills() -> u32 {
    std::env::var("SAKI_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

#[test]
fn backup_restore_and_prune_may_be_killed_at_any_moment() {
    let (directory, path) = tpch();
    let target = directory.path().join("backups");
    back_up(&path, &target).answer();
    let restored = directory.path().join("restored");
    let mut killed = 0;
    for attempt in 0..kills() {
        let after = Duration::from_millis(10 + 40 * u64::from(attempt));
        sql(&path, &format!("CREATE TABLE IF NOT EXISTS n (i int PRIMARY KEY); INSERT INTO n VALUES ({attempt})"))
            .answer();
        let backup = [OsStr::new("backup"), "--db".as_ref(), os(&path), "--to".as_ref(), os(&target)];
        killed += u32::from(run_and_kill(&backup, after));
        let made = names(&target).len();
        assert!(made == 1 || made == 2, "{made} backups after one");
        assert!(of_backups("check", &target, &[]).answer().contains("no faults"));

        let to = [OsStr::new("restore"), "--from".as_ref(), os(&target), "--db".as_ref(), os(&restored)];
        if run_and_kill(&to, after / 2) {
            killed += 1;
            assert!(!restored.exists() || check(&restored).success, "half a database opens");
        }
        let _ =
            std::fs::remove_file(&restored).map(|()| std::fs::remove_dir_all(directory.path().join("restored.log")));
        restore(&target, None, &restored).answer();
        check(&restored).answer();
        assert_eq!(sql(&restored, LINES).answer(), lines_expected());
        std::fs::remove_file(&restored).unwrap();

        let prune =
            [OsStr::new("backup"), "prune".as_ref(), "--from".as_ref(), os(&target), "--keep".as_ref(), "1".as_ref()];
        back_up(&path, &target).answer();
        killed += u32::from(run_and_kill(&prune, Duration::from_millis(2 + 3 * u64::from(attempt))));
        assert!(of_backups("check", &target, &[]).answer().contains("no faults"), "pruning took what is needed");
        of_backups("prune", &target, &["--keep", "1"]).answer();
        assert_eq!(names(&target).len(), 1);
    }
    assert!(killed >= kills(), "only {killed} processes were killed");
}

#[test]
fn a_full_target_and_a_full_device_are_said_and_leave_nothing() {
    let (directory, path) = tpch();
    let (target, restored) = (directory.path().join("backups"), directory.path().join("restored"));
    // No file may grow beyond so many bytes; the signal that comes with the refusal is ignored.
    let limited = |bytes: u64, arguments: &[&OsStr]| {
        let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", bytes / 512);
        let run =
            Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_saki")]).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(!run.status.success() && !said.contains("panicked"), "{said}");
        said
    };
    let backup = [OsStr::new("backup"), "--db".as_ref(), os(&path), "--to".as_ref(), os(&target)];
    let said = limited(200 << 10, &backup);
    assert!(said.contains("no space left") && said.contains("objects/") && said.contains("HINT"), "{said}");
    assert_eq!(names(&target), Vec::<String>::new());
    back_up(&path, &target).answer();
    let to = [OsStr::new("restore"), "--from".as_ref(), os(&target), "--db".as_ref(), os(&restored)];
    let said = limited(2 << 20, &to);
    assert!(said.contains("restored"), "{said}");
    assert!(!restored.exists() && !directory.path().join("restored.restoring").exists(), "{said}");
    restore(&target, None, &restored).answer();
    assert_eq!(sql(&restored, LINES).answer(), lines_expected());
}

/// Accounts whose sum is always the same, in a table that many share and in tables that come and go.
const ACCOUNTS: i64 = 40;
const TOTAL: i64 = ACCOUNTS * 1000;

async fn number(session: &Session, text: &str) -> i64 {
    let mut results = session.execute(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let batches = results.remove(0).collect().await.unwrap();
    batches.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>().value(0)).sum()
}

/// Moves money about; counts what was acknowledged in its own row of `done`.
async fn transfer(db: Arc<Database>, who: i64, acknowledged: &AtomicI64, stop: &AtomicBool) {
    let session = Session::new(&db);
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let (from, to) = ((count * 7 + who) % ACCOUNTS, (count * 13 + who * 5 + 1) % ACCOUNTS);
        let text = format!(
            "BEGIN; UPDATE accounts SET balance = balance - 3 WHERE id = {from}; \
             UPDATE accounts SET balance = balance + 3 WHERE id = {to}; \
             UPDATE done SET n = {} WHERE who = {who}; COMMIT",
            count + 1
        );
        match session.execute(&text).await {
            Ok(_) => {
                count += 1;
                acknowledged.store(count, Ordering::SeqCst);
            }
            // Others were at the same accounts.
            Err(_) => drop(session.execute("ROLLBACK").await),
        }
    }
}

/// Tables come with money in them and go again, each in one transaction with the account that gives and takes it.
async fn move_to_tables(db: Arc<Database>, made: &AtomicU64, stop: &AtomicBool) {
    let session = Session::new(&db);
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("purse_{}", round % 3);
        let give = format!(
            "BEGIN; CREATE TABLE {name} (id int PRIMARY KEY, balance bigint); INSERT INTO {name} VALUES (1, 50); \
             UPDATE accounts SET balance = balance - 50 WHERE id = {ACCOUNTS}; COMMIT"
        );
        let take = format!(
            "BEGIN; UPDATE accounts SET balance = balance + 50 WHERE id = {ACCOUNTS}; DROP TABLE {name}; COMMIT"
        );
        for text in [give, take] {
            while session.execute(&text).await.is_err() {
                drop(session.execute("ROLLBACK").await);
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
            made.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// The sum of all balances, in whatever tables they are.
async fn total(session: &Session) -> i64 {
    let mut sum = number(session, "SELECT CAST(sum(balance) AS bigint) FROM accounts").await;
    for purse in 0..3 {
        let exists = format!("SELECT count(*) FROM pg_tables WHERE tablename = 'purse_{purse}'");
        if number(session, &exists).await == 1 {
            sum += number(session, &format!("SELECT CAST(sum(balance) AS bigint) FROM purse_{purse}")).await;
        }
    }
    sum
}

#[test]
fn backups_beside_transfers_merges_and_changes_of_tables_have_every_commit_and_none_in_part() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        || OpenOptions { cache_bytes: 16 << 20, delta_bytes: 1 << 20, direct: false, ..OpenOptions::default() };
    let made = CreateOptions { open: options(), ..CreateOptions::default() };
    let db = Database::create(directory.path().join("bank.saki"), made).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let target: PathBuf = directory.path().join("backups");
    runtime.block_on(async {
        let session = Session::new(&db);
        let begin = format!(
            "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL); \
             INSERT INTO accounts SELECT i, CASE WHEN i = {ACCOUNTS} THEN 0 ELSE 1000 END \
             FROM generate_series(0, {ACCOUNTS}) AS s (i); \
             CREATE TABLE done (who int PRIMARY KEY, n bigint NOT NULL); INSERT INTO done VALUES (0, 0), (1, 0)"
        );
        session.execute(&begin).await.unwrap();
        let acknowledged = Arc::new([AtomicI64::new(0), AtomicI64::new(0)]);
        let (stop, tables) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut others = Vec::new();
        for who in 0..2 {
            let (db, acknowledged, stop) = (Arc::clone(&db), Arc::clone(&acknowledged), Arc::clone(&stop));
            others.push(tokio::spawn(async move { transfer(db, who, &acknowledged[who as usize], &stop).await }));
        }
        let (of_tables, made, until) = (Arc::clone(&db), Arc::clone(&tables), Arc::clone(&stop));
        others.push(tokio::spawn(async move { move_to_tables(of_tables, &made, &until).await }));
        let (merging, until) = (Arc::clone(&db), Arc::clone(&stop));
        others.push(tokio::spawn(async move {
            let session = Session::new(&merging);
            while !until.load(Ordering::Relaxed) {
                session.execute("CHECKPOINT").await.unwrap();
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
        }));
        for round in 0..6 {
            tokio::time::sleep(Duration::from_millis(120)).await;
            let before: Vec<i64> = acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            session.execute(&format!("CALL saki.backup('{}')", target.display())).await.unwrap();
            let path = directory.path().join(format!("restored-{round}.saki"));
            restore(&target, None, &path).answer();
            let restored = Database::open(&path, options()).unwrap();
            let seen = Session::new(&restored);
            assert_eq!(total(&seen).await, TOTAL, "a transaction is there in part");
            for (who, before) in before.into_iter().enumerate() {
                let after = number(&seen, &format!("SELECT n FROM done WHERE who = {who}")).await;
                assert!(after >= before, "{who}: {before} were acknowledged, {after} are there");
            }
            seen.execute("UPDATE accounts SET balance = balance WHERE id = 1; CHECKPOINT").await.unwrap();
            drop(seen);
            restored.close().unwrap();
            drop(restored);
            check(&path).answer();
        }
        stop.store(true, Ordering::Relaxed);
        for other in others {
            other.await.unwrap();
        }
        assert!(tables.load(Ordering::Relaxed) >= 10, "few tables came and went");
        assert!(acknowledged.iter().all(|count| count.load(Ordering::SeqCst) > 20), "few transfers");
        let refused = session.execute("BEGIN; CALL saki.backup('/nowhere')").await.err().unwrap();
        assert_eq!(refused.sqlstate(), "25001");
        session.execute("ROLLBACK").await.unwrap();
        assert_eq!(session.execute("CALL saki.backup(1, 2)").await.err().unwrap().sqlstate(), "42883");
    });
}
