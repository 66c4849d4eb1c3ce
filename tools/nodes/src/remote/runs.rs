//! Scans of runs, such as columns of segments: by the volume's own lane, and by the pages of another process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{PageAddress, PageRef, PageSize, Random, checksum};
use saki_page::{IoShare, PagedRuns, RunLane, RunRead, RunStore};

use super::measure::{Case, Measured};
use crate::world::fill;

/// Bytes of a run: those of a column of a segment.
pub const RUN_BYTES: usize = 1 << 20;
/// Runs that a lane is asked for at once.
const DEPTH: usize = 8;
/// Of a lane's pages on their way.
pub const WINDOW_BYTES: usize = 8 << 20;

/// A run of the volume.
struct Run {
    first: PageAddress,
    checksum: u64,
}

/// Runs of a volume that [`create`](super::stores::create) has made.
pub struct Runs {
    runs: Vec<Run>,
}

impl Runs {
    /// Those that its pages make up, one behind the other.
    pub fn of(page_size: PageSize, pages: &[PageRef]) -> Self {
        let mut bytes = vec![0; RUN_BYTES];
        let each = RUN_BYTES / page_size.bytes();
        let mut run = |(number, pages): (usize, &[PageRef])| {
            let follow = pages.windows(2).all(|pair| pair[0].address.0 + 1 == pair[1].address.0);
            assert!(follow, "pages that are written one after the other lie so");
            let at = number * RUN_BYTES;
            for (page, memory) in bytes.chunks_exact_mut(page_size.bytes()).enumerate() {
                fill(memory, (at + page * page_size.bytes()) as u64);
            }
            Run { first: pages[0].address, checksum: checksum(&bytes) }
        };
        Self { runs: pages.chunks_exact(each).enumerate().map(&mut run).collect() }
    }

    /// Scans for a while: how many runs a second. Latencies are not taken.
    ///
    /// # Errors
    /// If the store opens no lane.
    pub fn scan(&self, store: &dyn RunStore, case: &Case) -> Result<Measured, String> {
        let mut lane = store.open_run_lane().map_err(|error| error.to_string())?;
        let mut random = Random::new(case.seed);
        let mut scan = Scan { share: IoShare::new(u32::MAX), under_way: 0, measured: Measured::default() };
        let until = Instant::now() + case.time / 4;
        while Instant::now() < until {
            scan.turn(&mut *lane, &self.runs, &mut random);
        }
        let (before, started) = (scan.measured.reads, Instant::now());
        while started.elapsed() < case.time || scan.measured.reads == before {
            scan.turn(&mut *lane, &self.runs, &mut random);
        }
        scan.measured.per_second = (scan.measured.reads - before) as f64 / started.elapsed().as_secs_f64();
        Ok(scan.measured)
    }
}

/// The runs of another node's pages.
pub fn by_pages(pages: &Arc<dyn saki_page::PageStore>) -> Arc<PagedRuns> {
    PagedRuns::over(Arc::clone(pages), WINDOW_BYTES)
}

struct Scan {
    share: Arc<IoShare>,
    under_way: usize,
    measured: Measured,
}

impl Scan {
    fn turn(&mut self, lane: &mut dyn RunLane, runs: &[Run], random: &mut Random) {
        while self.under_way < DEPTH {
            let number = random.below(runs.len() as u64);
            let Run { first, checksum } = runs[number as usize];
            if lane.try_read(&self.share, first, RUN_BYTES, checksum, number).is_err() {
                break;
            }
            self.under_way += 1;
        }
        let mut finished: Vec<RunRead> = Vec::new();
        lane.poll(Some(Duration::from_millis(10)), &mut finished);
        for RunRead { token, result } in finished {
            self.under_way -= 1;
            self.measured.reads += 1;
            match result {
                Ok(bytes) => {
                    self.measured.wrong += u64::from(checksum(&bytes) != runs[token as usize].checksum);
                    lane.buffers().give_back(bytes);
                }
                Err(_) => self.measured.wrong += 1,
            }
        }
    }
}
