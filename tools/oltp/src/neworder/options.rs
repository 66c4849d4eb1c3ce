//! What can be asked of the benchmark.

use clap::Args;

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
    /// Items, and stocks of a warehouse
    #[arg(long, default_value_t = 100_000)]
    pub items: i32,
    /// Also with one log for all workers
    #[arg(long)]
    pub single_log: bool,
    /// Also with commits that are invisible until they are durable
    #[arg(long)]
    pub no_speculation: bool,
    /// Also with logs in memory
    #[arg(long)]
    pub log_memory: bool,
    /// All of these
    #[arg(long)]
    pub all: bool,
    /// Read the items and stocks of an order together
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub batched: bool,
    /// Acknowledge commits before they are durable
    #[arg(long)]
    pub relaxed: bool,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Seconds before each measurement
    #[arg(long, default_value_t = 2.0)]
    pub warmup: f64,
    /// Clients that update hot rows
    #[arg(long, default_value_t = 64)]
    pub clients: usize,
    /// How many hot rows there are
    #[arg(long, value_delimiter = ',', default_values_t = [8, 1])]
    pub hot_rows: Vec<u64>,
    /// How far the logs' threads give way to the workers, 0 to 19
    #[arg(long)]
    pub niceness: Option<u8>,
    /// Leave out the measurement of hot rows
    #[arg(long)]
    pub no_hot: bool,
}
