//! The time between two restarts: the database is opened, looked at, and worked with until the work is done or the
//! power goes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use saki_base::{PageSize, VolumeNumber};
use saki_sql::{Database, OpenOptions, Pace, Session, SqlError};
use saki_volume::{Volume, VolumeOptions};

use crate::client::{Client, STACK_BYTES};
use crate::run::{Phase, Run};
use crate::script::Cut;
use crate::verify::{self, Promise};

/// What a world's first thread does.
pub fn run(run: &Arc<Run>) {
    let number = run.restarts.load(Ordering::Relaxed);
    run.station.restart();
    run.alterations.store(0, Ordering::Relaxed);
    // What a device has that has lied is looked at, and nothing more.
    let is_last = run.station.is_lied_to();
    let is_early = |cut: &Cut| cut.is_early && number > 0;
    run.station.expect_cut(run.cut().filter(is_early));
    let weather = run.script.weather.get(number).map_or(&[][..], Vec::as_slice);
    let (early, later): (Vec<_>, Vec<_>) = weather.iter().cloned().partition(|one| one.is_early && number > 0);
    run.station.expect_weather(&early);
    let Some(database) = open_or_tell(run, is_last) else { return };
    run.station.clear_up();
    let runtime = runtime();
    if is_last {
        runtime.block_on(verify::all(run, &database, Promise::Moment));
        *run.phase.lock() = Phase::Finished;
        return;
    }
    if !begins(run, &runtime, &database) {
        return;
    }
    let phase = *run.phase.lock();
    if phase == Phase::Reopening {
        *run.phase.lock() = Phase::Finished;
        return;
    }
    if let Some(cut) = run.cut().filter(|cut| !is_early(cut)) {
        run.station.expect_cut(Some(cut));
    }
    run.station.expect_weather(&later);
    work(run, &database);
    if !run.has_failed() {
        end(run, &runtime, &database);
    }
}

/// Opens the database. If its devices do not let it be opened, somebody tries again; unless a device has lied: then
/// that has been found.
fn open_or_tell(run: &Arc<Run>, is_last: bool) -> Option<Arc<Database>> {
    let error = match open(run) {
        Ok(database) => return Some(database),
        Err(error) => error,
    };
    let what = format!("the database does not open: {}: {error}", error.sqlstate());
    match run.station.excuses(&error) {
        true if is_last => *run.phase.lock() = Phase::Finished,
        true => {}
        false => run.fail(&what),
    }
    run.tell(&what);
    None
}

/// Makes the tables, or looks at all that there is; whether there is to be work.
fn begins(run: &Arc<Run>, runtime: &tokio::runtime::Runtime, database: &Arc<Database>) -> bool {
    if run.is_set_up.load(Ordering::Relaxed) {
        return runtime.block_on(verify::all(run, database, Promise::Kept));
    }
    match runtime.block_on(set_up(run, database)) {
        Ok(()) => {
            run.is_set_up.store(true, Ordering::Relaxed);
            true
        }
        Err(error) => {
            if !run.station.excuses(&error) {
                run.fail(&format!("the tables cannot be made: {}: {error}", error.sqlstate()));
            }
            false
        }
    }
}

/// The end, in which everything is well again.
fn end(run: &Arc<Run>, runtime: &tokio::runtime::Runtime, database: &Arc<Database>) {
    run.station.expect_cut(None);
    run.station.expect_weather(&[]);
    let is_whole = !run.station.has_stormed();
    if is_whole {
        runtime.block_on(verify::all(run, database, Promise::Kept));
    }
    if !run.is_through() && run.has_failed() {
        return;
    }
    if run.is_through() {
        *run.phase.lock() = Phase::Reopening;
    }
    if is_whole && run.script.seed.is_multiple_of(3) {
        run.tell("closes");
        if let Err(error) = database.close() {
            run.fail(&format!("the database cannot be closed: {}: {error}", error.sqlstate()));
        }
    }
}

fn options(run: &Run) -> OpenOptions {
    let setup = &run.script.setup;
    OpenOptions {
        cache_bytes: setup.cache_bytes,
        column_cache_bytes: setup.column_cache_bytes,
        load_memory_bytes: 1 << 20,
        segment_rows: setup.segment_rows,
        reactors: Some(2),
        delta_bytes: setup.delta_bytes,
        log_bytes: setup.log_bytes,
        bulk_rows: setup.bulk_rows,
        logs: Some(setup.logs),
        log_extent_bytes: setup.log_extent_bytes,
        ..OpenOptions::default()
    }
}

fn open(run: &Arc<Run>) -> Result<Arc<Database>, SqlError> {
    let disk = run.station.disk();
    let volume = if run.is_made.load(Ordering::Relaxed) {
        Volume::open(Arc::clone(&disk))?
    } else {
        let page_size = PageSize::new(run.script.setup.page_bytes).expect("a page size");
        // Of any volume: addresses may be long.
        let number = VolumeNumber(run.script.seed as u16);
        let volume = Volume::create(Arc::clone(&disk), VolumeOptions { number, ..VolumeOptions::new(page_size) })?;
        run.is_made.store(true, Ordering::Relaxed);
        volume
    };
    let store =
        saki_store::Database::start(Path::new("simulated"), disk, volume, Arc::clone(&run.station) as _, options(run))?;
    Ok(Database::over(store))
}

async fn set_up(run: &Run, database: &Arc<Database>) -> Result<(), SqlError> {
    let session = Session::new(database);
    for statement in run.tables.setup(&run.script.setup) {
        run.tell(&statement);
        session.execute(&statement).await?;
    }
    if run.script.seed.is_multiple_of(2) {
        database.checkpoint(&Pace::full())?;
    }
    Ok(())
}

/// All clients, each on a thread of its own.
fn work(run: &Arc<Run>, database: &Arc<Database>) {
    let clients: Vec<_> = (0..run.script.steps.len())
        .map(|owner| {
            let (run, database) = (Arc::clone(run), Arc::clone(database));
            let client = move || runtime().block_on(Client::new(&run, owner, &database).work());
            let thread = std::thread::Builder::new().name(format!("client-{owner}")).stack_size(STACK_BYTES);
            thread.spawn(client).expect("a thread")
        })
        .collect();
    for client in clients {
        // Its panic was told where it happened.
        let _ = client.join();
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().thread_stack_size(STACK_BYTES).build().expect("a runtime")
}
