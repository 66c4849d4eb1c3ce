//! What a stretch of work did to the device and took of the processor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use saki_sql::Database;

use crate::usage::Usage;

/// How often requests in flight are looked at.
const SAMPLE_EVERY: Duration = Duration::from_micros(500);

/// What was measured from [`Meter::start`] to [`Meter::stop`].
#[derive(Clone, Copy, Default, Debug)]
pub struct Reading {
    pub seconds: f64,
    /// Requests to the devices: pages, and runs of columns.
    pub pages_read: u64,
    /// Requests in flight at the device, over time.
    pub depth_mean: f64,
    pub depth_max: u32,
    /// Processor time of the whole process.
    pub user_seconds: f64,
    pub system_seconds: f64,
}

impl Reading {
    /// Pages from the device per second.
    pub fn pages_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.pages_read as f64 / self.seconds } else { 0.0 }
    }

    /// Microseconds of user time per page.
    pub fn user_us_per_page(&self) -> f64 {
        self.user_seconds * 1e6 / self.pages_read.max(1) as f64
    }
}

/// A measurement that is going on. It counts everything that the database and the process do meanwhile.
pub struct Meter {
    database: Arc<Database>,
    started: Instant,
    /// Of the volume when it began.
    reads: u64,
    usage: Usage,
    stop: Arc<AtomicBool>,
    /// Yields the sum and number of samples, and the greatest.
    sampler: Option<JoinHandle<(u64, u64, u32)>>,
}

impl Meter {
    pub fn start(database: &Arc<Database>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let sampler = sample(Arc::clone(database), Arc::clone(&stop));
        let reads = database.volume().reads();
        Self { database: Arc::clone(database), started: Instant::now(), reads, usage: Usage::now(), stop, sampler }
    }

    pub fn stop(mut self) -> Reading {
        let seconds = self.started.elapsed().as_secs_f64();
        let used = Usage::now().since(&self.usage);
        self.stop.store(true, Ordering::Relaxed);
        let sampled = self.sampler.take().and_then(|sampler| sampler.join().ok());
        let (sum, samples, depth_max) = sampled.unwrap_or_default();
        Reading {
            seconds,
            pages_read: self.database.volume().reads() - self.reads,
            depth_mean: sum as f64 / samples.max(1) as f64,
            depth_max,
            user_seconds: used.user.as_secs_f64(),
            system_seconds: used.system.as_secs_f64(),
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn sample(database: Arc<Database>, stop: Arc<AtomicBool>) -> Option<JoinHandle<(u64, u64, u32)>> {
    let look = move || {
        let (mut sum, mut samples, mut max) = (0, 0, 0);
        while !stop.load(Ordering::Relaxed) {
            let depth = database.volume().governor().in_flight();
            sum += u64::from(depth);
            samples += 1;
            max = max.max(depth);
            thread::sleep(SAMPLE_EVERY);
        }
        (sum, samples, max)
    };
    thread::Builder::new().name("saki-meter".into()).spawn(look).ok()
}
