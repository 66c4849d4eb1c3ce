//! What a server counts, in the format of Prometheus.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StatementLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    /// The first two characters of the SQLSTATE.
    class: String,
}

/// Counters of one server.
pub struct Metrics {
    registry: Registry,
    pub connections: Gauge,
    pub refused: Counter,
    statements: Family<StatementLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    seconds: Histogram,
    pub rows: Counter<u64, AtomicU64>,
    pub received: Counter<u64, AtomicU64>,
    pub sent: Counter<u64, AtomicU64>,
}

/// Upper bounds of the latency histogram: from 10 µs, each four times the one before, to 45 minutes.
const LATENCY_BUCKETS: u16 = 15;

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("saki"),
            connections: Gauge::default(),
            refused: Counter::default(),
            statements: Family::default(),
            errors: Family::default(),
            seconds: Histogram::new(exponential_buckets(1e-5, 4.0, LATENCY_BUCKETS)),
            rows: Counter::default(),
            received: Counter::default(),
            sent: Counter::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("connections", "Open connections", metrics.connections.clone());
        registry.register("connections_refused", "Connections that did not log in", metrics.refused.clone());
        registry.register("statements", "Statements run, by kind", metrics.statements.clone());
        registry.register("errors", "Errors told to clients, by class of SQLSTATE", metrics.errors.clone());
        let seconds = metrics.seconds.clone();
        registry.register_with_unit("statement_duration", "Time of statements", Unit::Seconds, seconds);
        registry.register("rows_sent", "Rows sent to clients", metrics.rows.clone());
        registry.register_with_unit("received", "Read from clients", Unit::Bytes, metrics.received.clone());
        registry.register_with_unit("sent", "Written to clients", Unit::Bytes, metrics.sent.clone());
        metrics
    }
}

impl Metrics {
    /// Counts a statement that took `elapsed`.
    pub fn statement(&self, kind: &'static str, elapsed: Duration) {
        self.statements.get_or_create(&StatementLabels { kind }).inc();
        self.seconds.observe(elapsed.as_secs_f64());
    }

    /// Counts an error by its SQLSTATE.
    pub fn error(&self, code: &str) {
        let class = code.get(..2).unwrap_or(code).to_owned();
        self.errors.get_or_create(&ErrorLabels { class }).inc();
    }

    /// All of them as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a text in memory cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
