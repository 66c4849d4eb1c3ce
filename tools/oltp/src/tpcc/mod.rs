//! TPC-C: nine tables, five transactions in the standard mix, twelve conditions that hold throughout.
//!
//! After the standard specification, revision 5.11, whose clauses the modules name. What is left out is what a database
//! does not do: terminals, keying and think times. So the rates are no official result, and tpmC is only what the
//! specification calls the rate of New-Order.
//!
//! All transactions are serializable. Each worker has warehouses of its own; what goes to others' (1 % of the order
//! lines, 15 % of the payments) is where workers meet.

pub mod consistency;
mod context;
mod delivery;
pub mod load;
mod new_order;
mod order_status;
mod payment;
pub mod random;
pub mod schema;
mod stock_level;

use clap::Args;
use saki_base::Random;
use saki_mvcc::{Database, Durability, Error, Runner};
use saki_report::{Common, Report};
use serde_json::json;

use crate::driver::{End, Measured, Span, Work, drive, joined, percentiles};
use crate::engine::{Engine, Home};
use crate::{ChartData, Outcome};
use context::Context;
use delivery::Delivery;
use load::Scale;
use new_order::NewOrder;
use order_status::OrderStatus;
use payment::Payment;
use random::Constants;
use schema::Tables;
use stock_level::StockLevel;

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Workers
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub threads: Vec<usize>,
    /// Logs; by default as many as workers
    #[arg(long)]
    pub logs: Option<usize>,
    /// Warehouses; by default as many as workers
    #[arg(long)]
    pub warehouses: Option<i32>,
    /// Read the items and stocks of an order together
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub batched: bool,
    /// Acknowledge commits before they are durable
    #[arg(long)]
    pub relaxed: bool,
    /// Keep the logs in memory
    #[arg(long)]
    pub log_memory: bool,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Seconds before each measurement
    #[arg(long, default_value_t = 2.0)]
    pub warmup: f64,
    /// Also check the conditions after a restart
    #[arg(long)]
    pub recover: bool,
}

/// The transactions, in the order of [`DECK`].
pub const KINDS: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];
/// Clause 5.2.4.2: the mix, as cards of a deck that is shuffled and dealt out, again and again.
const DECK: [usize; 5] = [45, 43, 4, 4, 4];

pub fn run(common: &Common, options: &Options) -> Result<Outcome, String> {
    let mut report = Report::new("tpcc", common);
    report.configure("threads", &options.threads);
    report.configure("logs", options.logs);
    report.configure("warehouses", options.warehouses);
    report.configure("batched", options.batched);
    report.configure("log_memory", options.log_memory);
    report.configure("durability", if options.relaxed { "relaxed" } else { "sync" });
    report.configure("isolation", "serializable");
    report.configure("seconds", options.seconds);
    report.configure("warmup_seconds", options.warmup);
    let mut chart = ChartData::new("TPC-C", "workers", "transactions acknowledged a second");
    println!("{:>7} {:>10} {:>12} {:>12} {:>10} {:>8}", "workers", "warehouses", "acked/s", "tpmC", "p99 ms", "aborts");
    let mut is_consistent = true;
    for workers in &options.threads {
        let before = report.faults.len();
        let measured = measure(common, options, *workers, &mut report)?;
        is_consistent &= report.faults.len() == before;
        summarise(&mut report, &mut chart, *workers, &measured);
    }
    report.summarise("consistent", f64::from(u8::from(is_consistent)));
    if let (Some(one), Some(two)) = (report.summary.get("tps_1").copied(), report.summary.get("tps_2").copied()) {
        report.summarise("scaling_2", two / one.max(1e-9));
    }
    report.note("without keying and think times: no official TPC-C figure");
    report.note("New-Orders rolled back by the one unused item in a hundred are not counted");
    Ok(Outcome { report, charts: vec![chart] })
}

fn measure(common: &Common, options: &Options, workers: usize, report: &mut Report) -> Result<Measured, String> {
    let logs = options.logs.unwrap_or(workers);
    let engine = Engine { logs, log_memory: options.log_memory, ..Engine::of(workers) };
    let (database, home) = engine.create(common, "tpcc")?;
    let tables = Tables::of(&database)?;
    let warehouses = options.warehouses.unwrap_or(workers as i32);
    let scale = if common.small { Scale::small(warehouses) } else { Scale::whole(warehouses) };
    let constants = load::load(&database, &tables, scale, common.seed)?;
    let what = format!("{workers} workers, {warehouses} warehouses");
    consistency::check(&database, &tables, scale, 0, &format!("{what}, loaded"), report)?;
    let terminal = |worker| Terminal::new(&tables, scale, constants, worker, workers, options.batched, common.seed);
    let mut works: Vec<_> = (0..workers).map(terminal).collect();
    let durability = if options.relaxed { Durability::Relaxed } else { Durability::Sync };
    let span = if common.small {
        Span::new(0.05, 0.3, durability)
    } else {
        Span::new(options.warmup, options.seconds, durability)
    };
    let measured = drive(&database, &mut works, &KINDS, span, &what)?;
    let delivered = works.iter().map(|work| work.delivery.delivered()).sum();
    drop(works);
    consistency::check(&database, &tables, scale, delivered, &what, report)?;
    if common.small || options.recover {
        drop(tables);
        recover(database, &home, &engine, scale, delivered, &what, report)?;
    }
    let facts = json!({ "what": "tpcc", "warehouses": warehouses, "batched": options.batched });
    report.row(joined(joined(facts, engine.to_json()), measured.to_json()));
    println!(
        "{workers:>7} {warehouses:>10} {:>12.0} {:>12.0} {:>10.3} {:>8.4}",
        measured.rate(),
        60.0 * measured.rate_of(0),
        measured.latency(None).value_at_quantile(0.99) as f64 / 1e6,
        measured.abort_share(),
    );
    Ok(measured)
}

/// The conditions hold after a restart as well.
fn recover(
    database: Database,
    home: &Home,
    engine: &Engine,
    scale: Scale,
    delivered: u64,
    what: &str,
    report: &mut Report,
) -> Result<(), String> {
    database.close().map_err(|error| error.to_string())?;
    let database = engine.open(home)?;
    let tables = Tables::of(&database)?;
    consistency::check(&database, &tables, scale, delivered, &format!("{what}, restarted"), report)
}

fn summarise(report: &mut Report, chart: &mut ChartData, workers: usize, measured: &Measured) {
    let rate = measured.rate();
    chart.point("all", workers as f64, rate);
    report.summarise(format!("tps_{workers}"), rate);
    report.summarise(format!("tpmc_{workers}"), 60.0 * measured.rate_of(0));
    report.summarise(format!("abort_share_{workers}"), measured.abort_share());
    measured.note_sharing(report, &format!("{workers} workers"));
    // Of the most workers, which come last.
    report.summarise("tps_per_worker", report.summary.get("tps_1").copied().unwrap_or(rate / workers as f64));
    report.summarise("tps_total", rate);
    report.summarise("tpmc", 60.0 * measured.rate_of(0));
    for (number, name) in KINDS.iter().enumerate() {
        let latency = percentiles(&measured.latency(Some(number)));
        report.summarise(format!("{name}_p99_ms_{workers}"), latency["p99"].as_f64().unwrap_or_default());
        chart.point(name, workers as f64, measured.rate_of(number));
    }
}

/// What a worker's clients ask for.
pub struct Terminal<'t> {
    context: Context<'t>,
    deck: Vec<usize>,
    dealt: usize,
    kind: usize,
    new_order: NewOrder,
    payment: Payment,
    order_status: OrderStatus,
    delivery: Delivery,
    stock_level: StockLevel,
}

impl<'t> Terminal<'t> {
    /// Those of worker `worker` of `workers`.
    pub fn new(
        tables: &'t Tables,
        scale: Scale,
        constants: Constants,
        worker: usize,
        workers: usize,
        batched: bool,
        seed: u64,
    ) -> Self {
        let random = Random::new(seed ^ (worker as u64 + 1) << 40);
        let cards = DECK.iter().enumerate().flat_map(|(kind, count)| std::iter::repeat_n(kind, *count));
        Self {
            context: Context::new(tables, scale, constants, worker, workers, random),
            deck: cards.collect(),
            dealt: 0,
            kind: 0,
            new_order: NewOrder::new(tables, batched),
            payment: Payment::new(tables, worker),
            order_status: OrderStatus::default(),
            delivery: Delivery::default(),
            stock_level: StockLevel::default(),
        }
    }
}

impl Work for Terminal<'_> {
    fn draw(&mut self) -> usize {
        if self.dealt.is_multiple_of(self.deck.len()) {
            self.context.random.shuffle(&mut self.deck);
            self.dealt = 0;
        }
        self.kind = self.deck[self.dealt];
        self.dealt += 1;
        self.context.draw();
        match self.kind {
            0 => self.new_order.draw(&mut self.context),
            1 => self.payment.draw(&mut self.context),
            2 => self.order_status.draw(&mut self.context),
            3 => self.delivery.draw(&mut self.context),
            _ => self.stock_level.draw(&mut self.context),
        }
        self.kind
    }

    fn run(&mut self, runner: &mut Runner) -> Result<End, Error> {
        match self.kind {
            0 => self.new_order.run(&self.context, runner),
            1 => self.payment.run(&self.context, runner),
            2 => self.order_status.run(&self.context, runner),
            3 => self.delivery.run(&self.context, runner),
            _ => self.stock_level.run(&self.context, runner),
        }
    }
}
