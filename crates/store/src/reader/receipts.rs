//! What newer rows are told of rests on their commits, whoever has looked at them first.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use saki_base::PageSize;
use saki_catalog::Result;
use saki_io::{Device, SimDevice};
use saki_mvcc::{Isolation, Receipt};
use saki_volume::{Volume, VolumeOptions};

use crate::database::Database;
use crate::delta::LogStore;
use crate::fixture::{Bench, Shape, entry, options, simulated, table};

/// Logs whose devices can be held up.
#[derive(Default)]
struct Logs(Mutex<Vec<Arc<SimDevice>>>);

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

/// A database with rows in its base, and its logs.
fn bench() -> (Bench, Arc<Logs>) {
    let (device, logs): (Arc<dyn Device>, _) = (simulated(), Arc::new(Logs::default()));
    let page_size = PageSize::new(8192).expect("a size");
    let volume = Volume::create(Arc::clone(&device), VolumeOptions::new(page_size)).expect("created");
    let store = Arc::clone(&logs) as Arc<dyn LogStore>;
    let db = Database::start("simulated".as_ref(), device, volume, store, options()).expect("started");
    let made = db.write(|writer| {
        let table = table(&mut writer.catalog, Shape::default());
        writer.catalog.put(table);
        Ok(())
    });
    made.and_then(|()| db.start_engine()).expect("a table");
    let bench = Bench::around(db);
    bench.load((0..100).map(|id| (id, 0))).expect("loaded");
    (bench, logs)
}

/// Commits a row without waiting for the logs.
fn commit_early(bench: &Bench, id: i64, v: i64) -> Receipt {
    let table = bench.table();
    let delta = Arc::clone(bench.db().generation().delta(&table).expect("an engine has started"));
    let mut runner = bench.db().engine().expect("started").runner().expect("one more");
    let mut transaction = runner.begin(Isolation::Snapshot);
    let (key, row) = entry(&table, id, v);
    delta.write(&mut transaction, &key, Some(&row)).expect("nobody is in the way");
    transaction.commit_early().expect("committed")
}

/// The second reader of columns is shown what the first has worked out, and looks at none of it itself.
#[test]
fn whoever_is_shown_what_others_worked_out_rests_on_the_same_commits() {
    let (bench, logs) = bench();
    bench.commit(&[(1, Some(1))]);
    let held = logs.hold();
    let receipt = commit_early(&bench, 5, 5);
    let (first, second) = (bench.moment(), bench.moment());
    for moment in [&first, &second] {
        assert_eq!(moment.columns()[&5], 5);
        let shown = moment.snapshot.receipt().expect("an engine has started");
        assert_eq!(shown.through, receipt.through, "it is told of what is not durable");
    }
    drop(held);
    let engine = bench.db().engine().expect("started");
    // Wakes who waits to write.
    engine.database.finish_cut(0);
    engine.database.wait(receipt).expect("durable");
}
