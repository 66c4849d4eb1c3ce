//! Everything is looked at: every table by every way to its rows, the money, and what is stored.

use std::sync::Arc;

use saki_sql::Database;

use crate::client::{Client, Refused};
use crate::run::Run;
use crate::tables::Filter;

const PATHS: [&str; 4] = ["rows", "columns", "index", "auto"];

/// Compares the whole database with the model, while nobody is at work. What is found is what has happened.
pub async fn all(run: &Run, database: &Arc<Database>) {
    run.tell("everything is looked at");
    let client = Client::new(run, 0, database);
    let mut window = run.model.lock().look();
    for path in PATHS {
        if let Err(error) = client.sql(&format!("SET saki.access_path = '{path}'")).await {
            return run.fail(&error.to_string());
        }
        for table in run.tables.all() {
            let filters = [Filter::All, Filter::N(i64::from(i32::MIN), i64::from(i32::MAX)), Filter::Tag("t1".into())];
            for filter in filters {
                match client.read(table, &filter, &mut window, None).await {
                    Ok(()) => {}
                    Err(Refused::Stop(_)) => return,
                    Err(Refused::Error(error)) => {
                        return run.fail(&format!("by {path}: {}: {error}", error.sqlstate()));
                    }
                }
            }
        }
    }
    run.model.lock().settle(&window, 0..run.tables.owners);
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

async fn money(run: &Run, client: &Client<'_>) {
    let told = run.bank.lock().look();
    let balances = client.sql("SELECT id, balance FROM account").await;
    let ledger = client.sql("SELECT id, src, dst, amount FROM ledger").await;
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
