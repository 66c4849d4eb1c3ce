//! Everything is looked at: every table by every way to its rows, the money, and what is stored.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use saki_base::Random;
use saki_sql::Database;

use crate::client::{Client, Look, Refused};
use crate::model::Window;
use crate::run::Run;
use crate::tables::Filter;

const PATHS: [&str; 4] = ["rows", "columns", "index", "auto"];

/// What has to be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// All that anybody has been told.
    Kept,
    /// What can be promised still when a device has acknowledged writes that it did not do, or did elsewhere, and the
    /// database has been opened anew. A log that lacks its last frames looks like one that ended earlier, and a volume
    /// without its newest superblocks like an older one: that what was told is there, nobody can promise then. But
    /// what is read is either found to be damaged, which is an error that says so (58…, XX001), by whoever opens the
    /// database or by the statement that comes upon it; or it is right: that of one moment of the past, the same for
    /// all tables and every way to their rows, with no transaction by halves and none without those before it. No
    /// answer is wrong, and nobody panics.
    Moment,
}

/// Compares the whole database with the model, while nobody is at work. What is found is what has happened. Whether
/// everything could be looked at, and nothing was wrong.
pub async fn all(run: &Run, database: &Arc<Database>, promise: Promise) -> bool {
    run.tell("everything is looked at");
    let client = Client::new(run, 0, database);
    if promise == Promise::Moment && !is_set_up(&client).await {
        run.tell("of a moment before its tables were made");
        return true;
    }
    let mut window = match promise {
        Promise::Kept => run.model.lock().look(),
        Promise::Moment => run.model.lock().look_back(),
    };
    let mut all = All { run, client: &client, promise, is_whole: true };
    if !all.tables(&mut window).await || !all.pictures().await || !all.money().await {
        return false;
    }
    all.check(database);
    all.is_whole && !run.has_failed()
}

/// Whether the last thing is there that was done when the tables were made. If it cannot be read, that is told later.
async fn is_set_up(client: &Client<'_>) -> bool {
    match client.sql("SELECT id FROM account").await {
        Ok(answer) => !answer.rows.is_empty(),
        Err(error) => error.sqlstate() != "42P01",
    }
}

/// A look at everything.
struct All<'a> {
    run: &'a Run,
    client: &'a Client<'a>,
    promise: Promise,
    /// Nothing was refused so far because of the devices.
    is_whole: bool,
}

impl All<'_> {
    /// Finds out what tables there are, and reads each by every path, and by some of the conditions; whether one can go
    /// on.
    async fn tables(&mut self, window: &mut Window) -> bool {
        let (run, client) = (self.run, self.client);
        for table in run.tables.all() {
            let read = client.read_by_all_names(table, &Filter::All, window).await;
            if !self.went_well("by all names", read) {
                return false;
            }
        }
        let read = client.read_constraints(window, None).await;
        if !self.went_well("constraints", read) {
            return false;
        }
        // After an error it is not known of everything.
        if self.promise == Promise::Kept && self.is_whole {
            run.model.lock().settle(window, 0..run.tables.owners);
        }
        let number = run.restarts.load(Ordering::Relaxed) as u64;
        let mut random = Random::new(run.script.seed.wrapping_add(number << 32));
        let conditions = [Filter::N(i64::from(i32::MIN), i64::from(i32::MAX)), Filter::Tag("t1".into())];
        for path in PATHS {
            let set = client.sql(&format!("SET saki.access_path = '{path}'")).await;
            if !self.went_well("SET", set.map(drop).map_err(Refused::Error)) {
                return false;
            }
            for table in run.tables.all() {
                let shape = &client.shape_of(table);
                let chosen = random.below(3) as usize;
                let filters = [Some(&Filter::All), conditions.get(chosen)];
                // There is nothing to read of a table that there is not.
                let is_there = run.tables.refusal(table, shape, &Filter::All, shape).is_none();
                for filter in filters.into_iter().flatten().filter(|_| is_there) {
                    let read = client.read(Look { table, shape, filter }, window, None).await;
                    if !self.went_well(&format!("by {path}"), read) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// What was made of everybody's rows, at whatever moment, is of what has been. Whether one can go on.
    async fn pictures(&mut self) -> bool {
        for owner in 0..self.run.tables.owners {
            let window = self.run.model.lock().look_back();
            let read = self.client.read_picture(owner, window).await;
            if !self.went_well("a picture", read) {
                return false;
            }
        }
        true
    }

    /// Whether one can go on; else that has been told.
    fn went_well(&mut self, what: &str, outcome: Result<(), Refused>) -> bool {
        match outcome {
            Ok(()) | Err(Refused::Expected) => true,
            Err(Refused::Stop(_)) => false,
            Err(Refused::Error(error)) if self.run.station.excuses(&error) => {
                self.is_whole = false;
                true
            }
            Err(Refused::Error(error)) => {
                self.run.fail(&format!("{what}: {}: {error}", error.sqlstate()));
                false
            }
        }
    }

    async fn money(&mut self) -> bool {
        let run = self.run;
        let told = match self.promise {
            Promise::Kept => run.bank.lock().look(),
            Promise::Moment => BTreeSet::new(),
        };
        let balances = self.client.sql("SELECT id, balance FROM account").await;
        let ledger = self.client.sql("SELECT id, src, dst, amount, line FROM ledger").await;
        let (balances, ledger) = match (balances, ledger) {
            (Ok(balances), Ok(ledger)) => (balances, ledger),
            (Err(error), _) | (_, Err(error)) => return self.went_well("money", Err(Refused::Error(error))),
        };
        let (balances, ledger) = (crate::client::numbers(&balances.rows), crate::client::numbers(&ledger.rows));
        let mut bank = run.bank.lock();
        match bank.seen(&told, &balances, &ledger) {
            Ok(()) if self.promise == Promise::Kept => bank.settle(),
            Ok(()) => {}
            Err(what) => {
                drop(bank);
                run.fail(&what);
                return false;
            }
        }
        true
    }

    /// What is stored is sound; after a device has lied, that is found out.
    fn check(&mut self, database: &Database) {
        let run = self.run;
        match database.check(&mut |_| {}) {
            Ok(report) => {
                // A superblock that the power cut tore is what it is mended for.
                let faults = report.faults.iter().filter(|fault| !fault.what.contains("its copy is whole"));
                for fault in faults {
                    match run.station.is_lied_to() {
                        true => run.tell(&format!("check: {fault}")),
                        false => run.fail(&format!("check: {fault}")),
                    }
                }
            }
            Err(error) => _ = self.went_well("check", Err(Refused::Error(error))),
        }
    }
}
