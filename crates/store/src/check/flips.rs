//! What devices may do to a database as a whole: any bit turned is found or harmless, in the volume, its superblocks
//! and the logs alike; and whatever a power cut leaves opens, with all that was committed.
//!
//! `SAKI_FLIPS` and `SAKI_CRASHES` say how many are tried.

use std::path::Path;
use std::sync::Arc;

use saki_base::{PageSize, Random};
use saki_catalog::Result;
use saki_io::{Device, SimDevice};
use saki_volume::{Volume, VolumeOptions};

use crate::delta::{LogStore, SimLogs};
use crate::fixture::{Bench, Rows, Shape, decoded, entry, make_table, options, simulated};
use crate::{Database, OpenOptions};

const SECTOR: u64 = 512;
const ROWS: i64 = 1_500;

/// All that a database lies on.
struct Devices {
    disk: Arc<SimDevice>,
    logs: Arc<SimLogs>,
}

impl Devices {
    fn new() -> (Self, Bench) {
        let devices = Self { disk: simulated(), logs: Arc::default() };
        let page_size = PageSize::new(4096).expect("a page size");
        let volume = Volume::create(Arc::clone(&devices.disk) as _, VolumeOptions::new(page_size)).expect("created");
        let db = devices.start(volume).expect("started");
        make_table(&db, Shape::default());
        (devices, Bench::around(db))
    }

    fn start(&self, volume: Arc<Volume>) -> Result<Arc<Database>> {
        let options = OpenOptions { logs: Some(2), log_extent_bytes: 64 << 10, ..options() };
        let (disk, logs) = (Arc::clone(&self.disk) as Arc<dyn Device>, Arc::clone(&self.logs) as Arc<dyn LogStore>);
        Database::start(Path::new("simulated"), disk, volume, logs, options)
    }

    fn open(&self) -> Result<Arc<Database>> {
        self.start(Volume::open(Arc::clone(&self.disk) as _)?)
    }

    /// As a power cut now would leave them.
    fn crashed(&self, seed: u64) -> Self {
        let logs = self.logs.devices().iter().map(|log| log.crash(seed)).collect();
        Self { disk: self.disk.crash(seed), logs: Arc::new(SimLogs::of(logs)) }
    }

    fn each(&self) -> Vec<Arc<SimDevice>> {
        std::iter::once(&self.disk).chain(self.logs.devices().iter()).map(Arc::clone).collect()
    }

    /// Sectors that hold something: the number of the device, and where.
    fn sectors(&self) -> Vec<(usize, u64)> {
        let mut sectors = Vec::new();
        for (number, device) in self.each().iter().enumerate() {
            let mut bytes = [0; SECTOR as usize];
            for at in (0..device.length_bytes().expect("a length")).step_by(SECTOR as usize) {
                device.peek(at, &mut bytes);
                if bytes.iter().any(|byte| *byte != 0) {
                    sectors.push((number, at));
                }
            }
        }
        sectors
    }
}

fn times(name: &str, few: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(few)
}

/// Loaded, changed, merged and changed again.
fn filled() -> (Devices, Rows) {
    let (devices, bench) = Devices::new();
    bench.load((0..ROWS).map(|id| (id, id % 7))).expect("loaded");
    (0..60).for_each(|id| bench.commit(&[(id * 3, Some(id)), (id * 5, None)]));
    bench.merge();
    (0..90).for_each(|id| bench.commit(&[(id * 4, Some(id)), (id * 11, None), (ROWS + id, Some(1))]));
    bench.check();
    let rows = bench.moment().range();
    drop(bench.close());
    (devices, rows)
}

/// Whether an opening, or `check`, finds something; and nobody reads a row that is wrong.
fn is_found(devices: &Devices, rows: &Rows, what: &str) -> bool {
    let Ok(db) = devices.open() else { return true };
    let report = db.check(&mut |_| {});
    let bench = Bench::around(db);
    let moment = bench.moment();
    if report.is_ok_and(|report| report.faults.is_empty()) {
        assert!(
            moment.range() == *rows && moment.pipeline() == *rows && moment.columns() == *rows,
            "{what}: other rows"
        );
        return false;
    }
    for id in 0..ROWS + 90 {
        let (key, _) = entry(moment.table(), id, 0);
        let value = |row: &[u8]| decoded(moment.table(), &key, row).1;
        let read = moment.read(|reader, base| reader.get(base, &key).map(|row| row.map(|row| value(&row))));
        if let Ok(found) = read {
            assert_eq!(found, rows.get(&id).copied(), "{what}: row {id}");
        }
    }
    true
}

#[test]
fn any_bit_that_is_turned_is_found_or_harmless() {
    let (devices, rows) = filled();
    assert!(!is_found(&devices.crashed(0), &rows, "as it was"));
    let (sectors, mut random) = (devices.sectors(), Random::new(times("SAKI_SEED", 1)));
    let mut found = 0;
    for number in 0..times("SAKI_FLIPS", 120) {
        let damaged = devices.crashed(number);
        // Superblocks and logs are small beside the rest, and as interesting.
        let (device, sector) = match number % 4 {
            0 => sectors[random.below(sectors.len().min(16) as u64) as usize],
            1 => {
                let of_logs = sectors.partition_point(|(device, _)| *device == 0);
                sectors[random.range(of_logs as u64..sectors.len() as u64) as usize]
            }
            _ => sectors[random.below(sectors.len() as u64) as usize],
        };
        let (at, bit) = (sector + random.below(SECTOR), random.below(8) as u8);
        damaged.each()[device].flip_bit(at, bit);
        let what = format!("flip {number}, device {device}, byte {at}, bit {bit}");
        found += u64::from(is_found(&damaged, &rows, &what));
    }
    assert!(found > 0, "nothing was found");
}

#[test]
fn whatever_a_power_cut_leaves_opens_with_all_that_was_committed() {
    let (devices, bench) = Devices::new();
    let mut random = Random::new(times("SAKI_SEED", 1));
    for number in 0..times("SAKI_CRASHES", 40) {
        match random.below(8) {
            0 => bench.merge(),
            1 => bench.db().release_merged().expect("released"),
            2 => drop(bench.load((0..50).map(|id| (1_000 * (number as i64 + 1) + id, 5))).expect("loaded")),
            _ => {
                let id = random.below(200) as i64;
                bench.commit(&[(id, Some(number as i64)), (id + 300, random.chance(0.5).then_some(1))]);
            }
        }
        let rows = bench.moment().range();
        let mut left = devices.crashed(number);
        // Power may go again while it is being opened, or right after.
        for again in 0..2 {
            let db = left.open().unwrap_or_else(|error| panic!("crash {number}, {again}: {error}"));
            let opened = Bench::around(db);
            assert_eq!(opened.moment().range(), rows, "crash {number}, {again}");
            opened.check();
            left = left.crashed(number + 1);
        }
    }
}
