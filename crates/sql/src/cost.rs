//! Costs in seconds on the device at hand. A fetch at depth 1000 is not a fetch at depth 1:
//! out of order, many reads share the latency and the device's throughput is the price; in order, each read pays the latency.

use saki_exec::plan::Execution;

use crate::settings::Settings;

/// CPU seconds per row scanned, per row of a hash table built or probed, per probe of a tree.
const SCAN_ROW: f64 = 60e-9;
const HASH_BUILD_ROW: f64 = 120e-9;
const HASH_PROBE_ROW: f64 = 40e-9;
const PROBE: f64 = 700e-9;
/// The same of hash tables of ours.
const NATIVE_BUILD_ROW: f64 = 20e-9;
const NATIVE_PROBE_ROW: f64 = 6e-9;
/// CPU seconds to decode a value of a column segment, to test one, and to hand one on.
const COLUMN_DECODE: f64 = 1.2e-9;
const COLUMN_TEST: f64 = 0.5e-9;
const COLUMN_YIELD: f64 = 1.2e-9;
/// What starting a pipeline takes.
const START: f64 = 50e-6;

/// What reading pages costs.
#[derive(Clone, Copy, Debug)]
pub struct CostModel {
    /// Seconds from request to arrival of one page, alone.
    pub latency: f64,
    /// Single pages per second with as many requests in flight as the session allows.
    pub random_pages_per_second: f64,
    /// Pages per second read one after another.
    pub sequential_pages_per_second: f64,
    /// Bytes per second of long reads.
    pub bytes_per_second: f64,
    /// Reactors and query threads.
    pub cores: f64,
    pub out_of_order: bool,
    /// Hash joins are ours.
    pub native_joins: bool,
}

/// What a scan of column segments has to do.
#[derive(Clone, Copy, Default, Debug)]
pub struct ColumnWork {
    /// Bytes and runs that are not in memory.
    pub bytes: f64,
    pub runs: f64,
    pub values_decoded: f64,
    pub values_tested: f64,
    pub values_yielded: f64,
}

/// What a device can do, measured or stated.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSpeed {
    pub latency: f64,
    pub reads_per_second: f64,
    pub bytes_per_second: f64,
}

/// Rows and seconds a plan is expected to take.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Estimate {
    pub rows: f64,
    pub seconds: f64,
}

impl CostModel {
    pub fn new(speed: DeviceSpeed, page_bytes: usize, settings: &Settings) -> Self {
        let page_bytes = page_bytes as f64;
        let depth = match settings.execution {
            Execution::OutOfOrder => f64::from(settings.max_in_flight),
            Execution::InOrder => 1.0,
        };
        let by_device = speed.reads_per_second.min(speed.bytes_per_second / page_bytes);
        let by_depth = depth / speed.latency.max(1e-9);
        Self {
            latency: speed.latency,
            random_pages_per_second: by_device.min(by_depth).max(1.0),
            sequential_pages_per_second: (speed.bytes_per_second / page_bytes).min(by_depth).max(1.0),
            bytes_per_second: speed.bytes_per_second.max(1.0),
            cores: settings.scan_partitions() as f64,
            out_of_order: settings.execution == Execution::OutOfOrder,
            native_joins: settings.native().join,
        }
    }

    /// `pages` neighbours, `rows` rows looked at.
    pub fn sequential(&self, pages: f64, rows: f64) -> f64 {
        START + self.overlap(self.latency + pages / self.sequential_pages_per_second, rows * SCAN_ROW)
    }

    /// A scan of column segments.
    pub fn columns(&self, work: &ColumnWork) -> f64 {
        // In order there is one run in flight, and each pays the latency.
        let waits = if self.out_of_order { work.runs.min(1.0) } else { work.runs };
        let io = waits * self.latency + work.bytes / self.bytes_per_second;
        let cpu =
            work.values_decoded * COLUMN_DECODE + work.values_tested * COLUMN_TEST + work.values_yielded * COLUMN_YIELD;
        START + self.overlap(io, cpu)
    }

    /// `pages` single pages found by `probes` lookups.
    pub fn random(&self, pages: f64, probes: f64) -> f64 {
        START + self.overlap(self.latency + pages / self.random_pages_per_second, probes * PROBE)
    }

    /// `probes` lookups in a tree of `leaf_pages` leaves whose matches lie in `leaves_per_probe` of them each.
    pub fn lookups(&self, probes: f64, leaves_per_probe: f64, leaf_pages: f64) -> f64 {
        let inner = (leaf_pages / 100.0).min(probes);
        self.random(distinct_pages(probes * leaves_per_probe.max(1.0), leaf_pages) + inner, probes)
    }

    /// A hash join of inputs that are there already.
    pub fn hash_join(&self, build_rows: f64, probe_rows: f64) -> f64 {
        let (build, probe) = match self.native_joins {
            true => (NATIVE_BUILD_ROW, NATIVE_PROBE_ROW),
            false => (HASH_BUILD_ROW, HASH_PROBE_ROW),
        };
        (build_rows * build + probe_rows * probe) / self.cores
    }

    /// Reading and computing go on at once, or in turns.
    fn overlap(&self, io: f64, cpu: f64) -> f64 {
        if self.out_of_order { io.max(cpu / self.cores) } else { io + cpu }
    }
}

/// How many of `pages` pages `draws` uniform draws touch.
pub fn distinct_pages(draws: f64, pages: f64) -> f64 {
    if pages <= 1.0 {
        return pages.min(draws);
    }
    -pages * (draws * (-1.0 / pages).ln_1p()).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(settings: &Settings) -> CostModel {
        let cloud = DeviceSpeed { latency: 700e-6, reads_per_second: 64_000.0, bytes_per_second: 1e9 };
        CostModel::new(cloud, 8192, settings)
    }

    #[test]
    fn few_draws_touch_as_many_pages_and_many_draws_touch_all() {
        assert!((distinct_pages(10.0, 1e6) - 10.0).abs() < 0.01);
        assert!((distinct_pages(1e7, 1e3) - 1e3).abs() < 0.01);
    }

    #[test]
    fn lookups_beat_a_scan_up_to_a_higher_share_out_of_order() {
        let break_even = |model: CostModel| {
            let (rows, pages) = (1e7, 1e5);
            (0..60)
                .map(|i| 10_f64.powf(f64::from(i) / 10.0))
                .find(|n| model.lookups(*n, 1.0, pages) > model.sequential(pages, rows))
        };
        let mut in_order = Settings::default();
        in_order.set("execution", Some("in_order")).unwrap();
        let (eager, patient) =
            (break_even(model(&Settings::default())).unwrap(), break_even(model(&in_order)).unwrap());
        assert!(eager.is_finite() && patient.is_finite());
    }
}
