//! Everything is looked at: every table by every way to its rows, the money, and what is stored.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use saki_base::Random;
use saki_sql::Database;

use crate::client::{Client, Look, Refused};
use crate::run::Run;
use crate::tables::Filter;

const PATHS: [&str; 4] = ["rows", "columns", "index", "auto"];

/// Compares the whole database with the model, while nobody is at work. What is found is what has happened.
pub async fn all(run: &Run, database: &Arc<Database>) {
    run.tell("everything is looked at");
    let client = Client::new(run, 0, database);
    if !tables(run, &client).await {
        return;
    }
    money(run, &client).await;
    if run.has_failed() {
        return;
    }
    match database.check(&mut |_| {}) {
        Ok(report) => {
            // A superblock that the power cut tore is what it is mended for.
            let faults = report.faults.iter().filter(|fault| !fault.what.contains("its copy is whole"));
            faults.for_each(|fault| run.fail(&format!("check: {fault}")));
        }
        Err(error) => run.fail(&format!("check: {}: {error}", error.sqlstate())),
    }
}

/// Finds out what tables there are, and reads each by every path, and by some of the conditions; whether all is well.
async fn tables(run: &Run, client: &Client<'_>) -> bool {
    let mut window = run.model.lock().look();
    for table in run.tables.all() {
        let read = client.read_by_all_names(table, &Filter::All, &mut window).await;
        if !went_well(run, "by all names", read) {
            return false;
        }
    }
    if !went_well(run, "constraints", client.read_constraints(&mut window, None).await) {
        return false;
    }
    run.model.lock().settle(&window, 0..run.tables.owners);
    let number = run.restarts.load(Ordering::Relaxed) as u64;
    let mut random = Random::new(run.script.seed.wrapping_add(number << 32));
    let conditions = [Filter::N(i64::from(i32::MIN), i64::from(i32::MAX)), Filter::Tag("t1".into())];
    for path in PATHS {
        if let Err(error) = client.sql(&format!("SET saki.access_path = '{path}'")).await {
            run.fail(&error.to_string());
            return false;
        }
        for table in run.tables.all() {
            let shape = &client.shape_of(table);
            let chosen = random.below(3) as usize;
            let filters = [Some(&Filter::All), conditions.get(chosen)];
            // There is nothing to read of a table that there is not.
            let is_there = run.tables.refusal(table, shape, &Filter::All, shape).is_none();
            for filter in filters.into_iter().flatten().filter(|_| is_there) {
                let read = client.read(Look { table, shape, filter }, &mut window, None).await;
                if !went_well(run, &format!("by {path}"), read) {
                    return false;
                }
            }
        }
    }
    true
}

/// Whether one can go on; else that has been told.
fn went_well(run: &Run, what: &str, outcome: Result<(), Refused>) -> bool {
    match outcome {
        Ok(()) | Err(Refused::Expected) => true,
        Err(Refused::Stop(_)) => false,
        Err(Refused::Error(error)) => {
            run.fail(&format!("{what}: {}: {error}", error.sqlstate()));
            false
        }
    }
}

async fn money(run: &Run, client: &Client<'_>) {
    let told = run.bank.lock().look();
    let balances = client.sql("SELECT id, balance FROM account").await;
    let ledger = client.sql("SELECT id, src, dst, amount, line FROM ledger").await;
    let seen = match (balances, ledger) {
        (Ok(balances), Ok(ledger)) => {
            run.bank.lock().seen(&told, &crate::client::numbers(&balances.rows), &crate::client::numbers(&ledger.rows))
        }
        (Err(error), _) | (_, Err(error)) => Err(format!("{}: {error}", error.sqlstate())),
    };
    match seen {
        Ok(()) => run.bank.lock().settle(),
        Err(what) => run.fail(&what),
    }
}
