//! `saki load`

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use clap::{Subcommand, ValueEnum};
use saki::tpch::{self, Progress, TABLES, Table};
use saki::{Database, PageSize};

use super::calibrate;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::open::{OpenArgs, create, open, parse_page_size};
use crate::cli::{progress, size};

/// Fill a database with generated data
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    data: Data,
}

#[derive(Subcommand, Debug)]
enum Data {
    Tpch(TpchArgs),
}

/// The eight tables of TPC-H, with primary keys and the indexes that its foreign keys suggest
#[derive(clap::Args, Debug)]
struct TpchArgs {
    /// The database; created if it does not exist
    #[arg(long, value_name = "DB")]
    db: PathBuf,

    /// Scale factor: 1 is about 1 GB of data, 6 million rows of lineitem
    #[arg(long, value_name = "N", default_value_t = 1.0, allow_negative_numbers = true)]
    sf: f64,

    /// Page size of a database that is created, from 4k to 128k
    #[arg(long, value_name = "SIZE", value_parser = parse_page_size)]
    page_size: Option<PageSize>,

    /// Only these tables
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    tables: Vec<TableName>,

    /// Leave secondary indexes out
    #[arg(long)]
    no_indexes: bool,

    /// Memory for sorting; a sixteenth of what there is, up to 256MB, if not given
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,

    #[command(flatten)]
    open: OpenArgs,
}

/// A table's name; the list shows in the help.
#[derive(Clone, Copy, Debug)]
struct TableName(&'static Table);

impl ValueEnum for TableName {
    fn value_variants<'a>() -> &'a [Self] {
        static NAMES: LazyLock<Vec<TableName>> = LazyLock::new(|| TABLES.iter().map(TableName).collect());
        &NAMES
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name))
    }
}

/// A database at least this large is worth the seconds of measuring its device.
const CALIBRATED_FROM_BYTES: u64 = 256 << 20;

pub async fn run(args: &Args) -> Outcome {
    let Data::Tpch(args) = &args.data;
    if !(tpch::SCALE_MIN..=tpch::SCALE_MAX).contains(&args.sf) {
        return Err(Failure::new(format!(
            "--sf {}: the scale factor must be from {} to {}",
            args.sf,
            tpch::SCALE_MIN,
            tpch::SCALE_MAX
        )));
    }
    let mut options = args.open.options(false);
    if let Some(bytes) = args.memory {
        options.load_memory_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    let database = if args.db.exists() {
        let database = open(&args.db, options)?;
        if let Some(asked) = args.page_size.filter(|asked| *asked != database.page_size()) {
            return Err(Failure::new(format!(
                "{}: has pages of {} bytes, not {}; leave out --page-size or choose another file",
                args.db.display(),
                database.page_size().bytes(),
                asked.bytes()
            )));
        }
        database
    } else {
        let page_size = args.page_size.unwrap_or(saki::CreateOptions::default().page_size);
        create(&args.db, page_size, options)?
    };
    let tables: Vec<&'static Table> =
        if args.tables.is_empty() { TABLES.iter().collect() } else { args.tables.iter().map(|name| name.0).collect() };
    let started = Instant::now();
    let (mut rows, mut bytes) = (0, 0);
    for table in tables {
        let loaded = load_table(&database, table, args.sf, !args.no_indexes).await?;
        rows += loaded.rows;
        bytes += loaded.bytes;
    }
    let took = started.elapsed().as_secs_f64();
    let stored = database.volume().stats().used_bytes;
    say!(
        "loaded {rows} rows ({}) into {} in {}: {} on the device",
        size::display(bytes),
        args.db.display(),
        progress::seconds(took),
        size::display(stored)
    );
    // Plans are priced by what the device can do. A small database plans well without, and says little about its
    // device.
    let known = database.volume().device_profile().map_err(|error| Failure::at(&args.db, &error))?.is_some();
    if !known && stored >= CALIBRATED_FROM_BYTES {
        calibrate::measure_database(&database, &args.db)?;
    }
    Ok(())
}

/// Loads one table under a progress bar; a line stays when it is done.
pub async fn load_table(
    database: &Arc<Database>,
    table: &'static Table,
    scale: f64,
    indexes: bool,
) -> Outcome<tpch::TableLoaded> {
    let total = table.rows(scale);
    let bar = progress::rows(table.name, total);
    let (shown, started) = (bar.clone(), Instant::now());
    let loaded = tpch::load(database, table, scale, indexes, move |at| match at {
        Progress::Rows { rows, bytes } => {
            shown.set_position(rows.min(total));
            shown.set_message(progress::load_rates(rows, bytes, total, started.elapsed()));
        }
        Progress::Finishing => shown.set_message("writing indexes"),
        Progress::Columns => shown.set_message("writing columns"),
    })
    .await;
    bar.finish_and_clear();
    let loaded = loaded.map_err(|error| match error.message.contains(table.name) {
        true => Failure::from(error),
        false => Failure::new(format!("table {}: {}", table.name, Failure::from(error))),
    })?;
    let seconds = loaded.elapsed.as_secs_f64();
    let mut line = format!("{:10} {:>11} rows in {:>9}", table.name, loaded.rows, progress::seconds(seconds));
    // Rates of a handful of rows say nothing.
    if loaded.rows >= 1000 {
        line += &format!(
            "  {:>8} rows/s  {:>4.0} MB/s",
            progress::short(loaded.rows as f64 / seconds),
            loaded.bytes as f64 / 1e6 / seconds
        );
    }
    eprintln!("{line}");
    Ok(loaded)
}
