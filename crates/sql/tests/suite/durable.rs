//! Clients are told of nothing that is not durable, whatever they ask.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use saki_base::PageSize;
use saki_catalog::Result;
use saki_io::{Device, SimDevice, SimOptions};
use saki_sql::{Database, Session};
use saki_store::delta::LogStore;
use saki_volume::{Volume, VolumeOptions};

use super::support::{number, options, run};

/// Logs whose devices can be held up.
#[derive(Default)]
struct Logs(Mutex<Vec<Arc<SimDevice>>>);

fn simulated() -> Arc<SimDevice> {
    SimDevice::new(SimOptions { length_bytes: 0, ..SimOptions::default() })
}

impl Logs {
    fn hold(&self) -> Held<'_> {
        self.0.lock().iter().for_each(|device| device.faults().hold(true));
        Held(self)
    }
}

/// Nothing becomes durable until it is dropped.
struct Held<'l>(&'l Logs);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.lock().iter().for_each(|device| device.faults().hold(false));
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("simulated logs")
    }
}

impl LogStore for Logs {
    fn name(&self) -> String {
        "simulated logs".into()
    }

    fn exists(&self) -> bool {
        !self.0.lock().is_empty()
    }

    fn clear(&self) -> Result<()> {
        self.remove()
    }

    fn open(&self, count: usize) -> Result<Vec<Arc<dyn Device>>> {
        self.0.lock().resize_with(count, simulated);
        self.open_to_read(count)
    }

    fn open_to_read(&self, _: usize) -> Result<Vec<Arc<dyn Device>>> {
        Ok(self.0.lock().iter().map(|device| Arc::clone(device) as Arc<dyn Device>).collect())
    }

    fn remove(&self) -> Result<()> {
        self.0.lock().clear();
        Ok(())
    }
}

fn database(logs: &Arc<Logs>) -> Arc<Database> {
    let device: Arc<dyn Device> = simulated();
    let volume = Volume::create(Arc::clone(&device), VolumeOptions::new(PageSize::new(8192).unwrap())).unwrap();
    let logs = Arc::clone(logs) as Arc<dyn LogStore>;
    Database::over(saki_store::Database::start(Path::new("simulated"), device, volume, logs, options()).unwrap())
}

/// What a session is told, rows and all.
async fn told(session: Session, settings: &str, statement: &str) -> String {
    run(&session, settings).await;
    let result = match session.execute(statement).await {
        Ok(mut results) => results.pop().unwrap().collect().await,
        Err(error) => Err(error),
    };
    match result {
        Ok(batches) => format!("{} rows", batches.iter().map(|batch| batch.num_rows()).sum::<usize>()),
        Err(error) => error.to_string(),
    }
}

/// Each rests on a row that is committed and not durable; the second scan of columns is shown what the first has made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_durable_is_not_told() {
    let logs = Arc::new(Logs::default());
    let database = database(&logs);
    let session = Session::new(&database);
    run(&session, "CREATE TABLE t (k bigint PRIMARY KEY, v bigint)").await;
    run(&session, "INSERT INTO t SELECT g, g FROM generate_series(1, 300) g").await;
    run(&session, "CHECKPOINT").await;
    run(&session, "INSERT INTO t VALUES (301, 1)").await;
    let held = logs.hold();
    let start = |settings: &'static str, statement: &'static str| {
        (statement, tokio::spawn(told(Session::new(&database), settings, statement)))
    };
    let mut asked = vec![start("SET saki.access_path = 'auto'", "INSERT INTO t VALUES (1000, 1)")];
    // Until it is committed, and not yet told.
    while database
        .store()
        .newest_snapshot()
        .unwrap()
        .newer_rows(database.store().generation().catalog.table("t").unwrap())
        < 2
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (settings, statement) in [
        ("SET saki.access_path = 'columns'", "SELECT sum(v) FROM t"),
        ("SET saki.access_path = 'columns'", "SELECT sum(v) + 0 FROM t"),
        ("SET saki.access_path = 'rows'", "SELECT count(*) FROM t"),
        ("SET saki.access_path = 'auto'", "SELECT v FROM t WHERE k = 1000"),
        ("SET saki.access_path = 'auto'", "EXPLAIN ANALYZE SELECT count(*) FROM t"),
        ("SET saki.access_path = 'auto'", "SELECT 1 / (k - 1000) FROM t"),
        ("SET saki.access_path = 'auto'", "INSERT INTO t VALUES (1000, 2)"),
        ("SET saki.access_path = 'auto'", "UPDATE t SET v = v WHERE k = 1000 RETURNING v"),
        ("SET saki.access_path = 'auto'", "CREATE TABLE u AS SELECT * FROM t"),
        ("SET saki.access_path = 'auto'", "ANALYZE t"),
    ] {
        asked.push(start(settings, statement));
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    let early: Vec<&str> = asked.iter().filter(|(_, task)| task.is_finished()).map(|(asked, _)| *asked).collect();
    drop(held);
    // Wakes who waits to write.
    database.store().engine().unwrap().database.finish_cut(0);
    let mut answers = Vec::new();
    for (statement, task) in asked {
        let answer = tokio::time::timeout(Duration::from_secs(60), task).await.expect("told by now").unwrap();
        answers.push((statement, answer));
    }
    assert_eq!(early, [""; 0], "told of what is not durable");
    let of = |wanted: &str| &answers.iter().find(|(statement, _)| *statement == wanted).unwrap().1;
    assert!(of("SELECT 1 / (k - 1000) FROM t").contains("division by zero"), "{answers:?}");
    assert!(of("INSERT INTO t VALUES (1000, 2)").contains("duplicate key"), "{answers:?}");
    assert_eq!(number(&session, "SELECT count(*) FROM u").await, 302);
}
