//! Costs in seconds on the device at hand. A fetch at depth 1000 is not a fetch at depth 1:
//! out of order, many reads share the latency and the device's throughput is the price; in order, each read pays the
//! latency.

use saki_base::{Part, PartKind, TreeId};
use saki_exec::plan::VisitOrder;

use saki_settings::Settings;
use saki_store::DeviceSpeed;

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
/// CPU seconds per newer row that is merged with a tree in key order, and per one that is brought beside segments:
/// that is done anew for each moment, value by value, on one thread.
const NEWER_BY_KEY: f64 = 200e-9;
const NEWER_BY_COLUMN: f64 = 600e-9;
/// What starting a pipeline takes.
const START: f64 = 50e-6;

/// What reading costs, by where that lies which is read.
pub trait Costs {
    /// Of pages of these parts.
    fn of(&self, parts: &[Part]) -> CostModel;

    /// Of pages of a tree.
    fn of_tree(&self, tree: TreeId) -> CostModel {
        self.of(&[Part::new(tree, PartKind::Leaves)])
    }
}

/// The same, wherever it lies.
impl Costs for CostModel {
    fn of(&self, _: &[Part]) -> CostModel {
        *self
    }
}

/// What reading pages costs.
#[derive(Clone, Copy, Debug)]
pub struct CostModel {
    page_bytes: f64,
    /// Requests in flight at most.
    depth: f64,
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

/// Rows and seconds a plan is expected to take.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Estimate {
    pub rows: f64,
    pub seconds: f64,
}

impl CostModel {
    pub fn new(speed: DeviceSpeed, page_bytes: usize, settings: &Settings) -> Self {
        let depth = match settings.execution {
            VisitOrder::OutOfOrder => f64::from(settings.max_in_flight),
            VisitOrder::InOrder => 1.0,
        };
        let nowhere = Self {
            page_bytes: page_bytes as f64,
            depth,
            latency: 0.0,
            random_pages_per_second: 1.0,
            sequential_pages_per_second: 1.0,
            bytes_per_second: 1.0,
            cores: settings.scan_partitions() as f64,
            out_of_order: settings.execution == VisitOrder::OutOfOrder,
            native_joins: settings.native_joins(),
        };
        nowhere.on(speed)
    }

    /// The same on a device as fast as this.
    #[must_use]
    pub fn on(&self, speed: DeviceSpeed) -> Self {
        let by_device = speed.reads_per_second.min(speed.bytes_per_second / self.page_bytes);
        let by_depth = self.depth / speed.latency.max(1e-9);
        Self {
            latency: speed.latency,
            random_pages_per_second: by_device.min(by_depth).max(1.0),
            sequential_pages_per_second: (speed.bytes_per_second / self.page_bytes).min(by_depth).max(1.0),
            bytes_per_second: speed.bytes_per_second.max(1.0),
            ..*self
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

    /// Newer rows in the key ranges of a tree that are read.
    pub fn newer_by_key(&self, rows: f64) -> f64 {
        rows * NEWER_BY_KEY / self.cores
    }

    /// All newer rows of a table beside its segments.
    pub fn newer_by_column(&self, rows: f64) -> f64 {
        rows * NEWER_BY_COLUMN
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
    use proptest::prelude::*;

    use super::*;

    const CLOUD: DeviceSpeed = DeviceSpeed { latency: 700e-6, reads_per_second: 64_000.0, bytes_per_second: 1e9 };
    const DISK: DeviceSpeed = DeviceSpeed { latency: 8e-3, reads_per_second: 200.0, bytes_per_second: 2e8 };
    const FLASH: DeviceSpeed = DeviceSpeed { latency: 80e-6, reads_per_second: 800_000.0, bytes_per_second: 6e9 };

    fn model(speed: DeviceSpeed, changes: &[(&str, &str)]) -> CostModel {
        let mut settings = Settings { partitions: 4, ..Settings::default() };
        for (name, value) in changes {
            settings.set(name, Some(value)).unwrap();
        }
        CostModel::new(speed, 8192, &settings)
    }

    #[test]
    fn few_draws_touch_as_many_pages_and_many_draws_touch_all() {
        assert!((distinct_pages(10.0, 1e6) - 10.0).abs() < 0.01);
        assert!((distinct_pages(1e7, 1e3) - 1e3).abs() < 0.01);
        assert_eq!(distinct_pages(0.0, 1e3), 0.0);
        assert_eq!((distinct_pages(5.0, 1.0), distinct_pages(0.5, 1.0)), (1.0, 0.5));
    }

    #[test]
    fn few_lookups_beat_a_scan_and_many_do_not() {
        let (rows, pages) = (1e7, 1e5);
        for speed in [CLOUD, DISK, FLASH] {
            for changes in [&[][..], &[("execution", "in_order")]] {
                let model = model(speed, changes);
                let scan = model.sequential(pages, rows);
                assert!(model.lookups(10.0, 1.0, pages) < scan / 10.0, "{speed:?} {changes:?}");
                assert!(model.lookups(rows, 1.0, pages) > scan, "{speed:?} {changes:?}");
            }
        }
    }

    #[test]
    fn in_order_each_page_waits_whether_it_is_looked_up_or_read_on() {
        let (eager, patient) = (model(CLOUD, &[]), model(CLOUD, &[("execution", "in_order")]));
        assert!(patient.lookups(1000.0, 1.0, 1e5) > 30.0 * eager.lookups(1000.0, 1.0, 1e5));
        assert!(patient.sequential(1e5, 1e7) > 30.0 * eager.sequential(1e5, 1e7));
    }

    #[test]
    fn a_deep_device_is_as_fast_as_it_can_only_with_enough_in_flight() {
        let all = model(CLOUD, &[]);
        assert_eq!(all.random_pages_per_second, 64_000.0);
        let few = model(CLOUD, &[("max_in_flight", "7")]);
        assert!((few.random_pages_per_second - 7.0 / 700e-6).abs() < 1.0);
        let one = model(CLOUD, &[("execution", "in_order")]);
        assert!((one.random_pages_per_second - 1.0 / 700e-6).abs() < 1.0);
        assert_eq!(one.cores, 1.0);
    }

    #[test]
    fn what_lies_elsewhere_costs_what_it_does_there() {
        for changes in [&[][..], &[("max_in_flight", "7")], &[("execution", "in_order")]] {
            let (moved, there) = (model(DISK, changes).on(FLASH), model(FLASH, changes));
            assert_eq!(moved.random(1e4, 1e4), there.random(1e4, 1e4));
            assert_eq!(moved.sequential(1e4, 1e6), there.sequential(1e4, 1e6));
            let work = ColumnWork { bytes: 1e9, runs: 1e3, ..ColumnWork::default() };
            assert_eq!(moved.columns(&work), there.columns(&work));
        }
    }

    #[test]
    fn pages_of_a_slow_line_are_bound_by_its_bytes() {
        let narrow = DeviceSpeed { latency: 1e-3, reads_per_second: 1e6, bytes_per_second: 8192.0 * 100.0 };
        let model = model(narrow, &[]);
        assert_eq!((model.random_pages_per_second, model.sequential_pages_per_second), (100.0, 100.0));
    }

    #[test]
    fn a_disk_prefers_reading_on_far_sooner_than_flash() {
        let (pages, rows) = (1e4, 1e6);
        let ratio = |model: CostModel| model.random(pages, pages) / model.sequential(pages, rows);
        assert!(ratio(model(DISK, &[])) > 20.0 * ratio(model(FLASH, &[])));
    }

    #[test]
    fn reading_and_computing_go_on_at_once_out_of_order_alone() {
        let (eager, patient) = (model(CLOUD, &[]), model(CLOUD, &[("execution", "in_order")]));
        assert_eq!(eager.overlap(3.0, 4.0), 3.0, "four cores");
        assert_eq!(eager.overlap(1.0, 8.0), 2.0);
        assert_eq!(patient.overlap(3.0, 4.0), 7.0);
    }

    #[test]
    fn hash_tables_of_ours_cost_less() {
        let (ours, others) = (model(FLASH, &[]), model(FLASH, &[("operators", "datafusion")]));
        assert!(ours.hash_join(1e6, 1e7) < others.hash_join(1e6, 1e7));
        assert!(ours.hash_join(1e6, 1e7) < ours.hash_join(1e7, 1e6), "the smaller side is the table");
    }

    #[test]
    fn runs_of_columns_wait_once_out_of_order_and_each_in_order() {
        let work = ColumnWork { runs: 10.0, ..ColumnWork::default() };
        let waits = |model: CostModel| (model.columns(&work) - START) / CLOUD.latency;
        assert!((waits(model(CLOUD, &[])) - 1.0).abs() < 1e-6);
        assert!((waits(model(CLOUD, &[("execution", "in_order")])) - 10.0).abs() < 1e-6);
        assert_eq!(model(CLOUD, &[]).columns(&ColumnWork::default()), START, "what is in memory waits for nothing");
    }

    fn any_model() -> impl Strategy<Value = CostModel> {
        (prop::sample::select(&[CLOUD, DISK, FLASH][..]), any::<bool>()).prop_map(|(speed, in_order)| {
            if in_order { model(speed, &[("execution", "in_order")]) } else { model(speed, &[]) }
        })
    }

    proptest! {
        #[test]
        fn draws_touch_no_more_pages_than_there_are_draws_or_pages(draws in 0.0_f64..1e9, pages in 1.0_f64..1e9) {
            let touched = distinct_pages(draws, pages);
            let most = draws.min(pages) * (1.0 + 1e-9);
            prop_assert!(touched >= 0.0 && touched <= most, "{touched}");
            prop_assert!(distinct_pages(draws + 1.0, pages) >= touched - 1e-6);
        }

        #[test]
        fn more_work_never_costs_less(
            model in any_model(),
            pages in 1.0_f64..1e7,
            rows in 1.0_f64..1e8,
            more in 1.0_f64..100.0,
        ) {
            prop_assert!(model.sequential(pages * more, rows) >= model.sequential(pages, rows));
            prop_assert!(model.sequential(pages, rows * more) >= model.sequential(pages, rows));
            prop_assert!(model.random(pages * more, rows) >= model.random(pages, rows));
            prop_assert!(model.lookups(rows * more, 1.0, pages) >= model.lookups(rows, 1.0, pages) * (1.0 - 1e-9));
            prop_assert!(model.lookups(rows, more, pages) >= model.lookups(rows, 1.0, pages) * (1.0 - 1e-9));
            prop_assert!(model.hash_join(rows * more, pages) >= model.hash_join(rows, pages));
        }
    }
}
