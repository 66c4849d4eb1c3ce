//! Random reads of pages through lanes of a store, each of them verified.

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{Arena, ArenaFrame, PageRef, Random, checksum};
use saki_page::{IoShare, PageRead, PageStore};

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Threads, each with a lane: of another node, connections.
    pub lanes: usize,
    /// In flight at once on all of them, if the store takes so many.
    pub depth: usize,
    pub time: Duration,
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Measured {
    pub per_second: f64,
    /// Latencies in microseconds.
    pub median: f64,
    pub p99: f64,
    pub reads: u64,
    /// Pages that did not come, or not as they should be.
    pub wrong: u64,
}

/// Of every so many reads, the latency is taken.
const SAMPLE_EVERY: u64 = 8;

/// Measures.
///
/// # Errors
/// If the store opens no lane.
pub fn measure(store: &Arc<dyn PageStore>, pages: &[PageRef], case: &Case) -> Result<Measured, String> {
    let outcomes: Vec<Result<One, String>> = std::thread::scope(|scope| {
        let start = |lane| scope.spawn(move || one_lane(store, pages, case, lane));
        let threads: Vec<_> = (0..case.lanes as u64).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that measures panicked")).collect()
    });
    let mut all = Measured::default();
    let mut samples = Vec::new();
    for outcome in outcomes {
        let one = outcome?;
        all.per_second += one.per_second;
        all.reads += one.reads;
        all.wrong += one.wrong;
        samples.extend(one.samples);
    }
    samples.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| samples.get((samples.len() as f64 * share) as usize).copied().unwrap_or(0.0);
    (all.median, all.p99) = (at(0.5), at(0.99));
    Ok(all)
}

/// Of one lane.
#[derive(Default)]
struct One {
    per_second: f64,
    samples: Vec<f64>,
    reads: u64,
    wrong: u64,
}

/// A read under way.
#[derive(Clone, Copy)]
struct UnderWay {
    page: PageRef,
    since: Option<Instant>,
}

fn one_lane(store: &Arc<dyn PageStore>, pages: &[PageRef], case: &Case, number: u64) -> Result<One, String> {
    let depth = (case.depth / case.lanes).max(1);
    let (arena, mut frames) = Arena::new(depth as u32, store.page_size().bytes()).map_err(|error| error.to_string())?;
    let mut lane = store.open_lane(&arena).map_err(|error| error.to_string())?;
    let share = IoShare::new(u32::MAX);
    let mut random = Random::new(case.seed ^ number << 32);
    let mut under_way: Vec<UnderWay> = vec![UnderWay { page: pages[0], since: None }; depth];
    let mut finished: Vec<PageRead> = Vec::new();
    let mut one = One::default();
    let (started, warm_up) = (Instant::now(), case.time / 4);
    let mut counted_from: Option<(Instant, u64)> = None;
    // A slow way on a busy machine is measured for as long as it takes to see something come.
    while counted_from.is_none_or(|(from, before)| from.elapsed() < case.time || one.reads == before) {
        if counted_from.is_none() && started.elapsed() >= warm_up {
            counted_from = Some((Instant::now(), one.reads));
            one.samples.clear();
        }
        while let Some(frame) = frames.pop() {
            let page = pages[random.below(pages.len() as u64) as usize];
            let (token, since) = (frame.index(), one.reads.is_multiple_of(SAMPLE_EVERY).then(Instant::now));
            match lane.try_read(&share, page.address, frame, u64::from(token)) {
                Ok(()) => under_way[token as usize] = UnderWay { page, since },
                Err((frame, _)) => {
                    frames.push(frame);
                    break;
                }
            }
        }
        lane.poll(Some(Duration::from_millis(10)), &mut finished);
        finished.drain(..).for_each(|read| one.take(read, &under_way, &mut frames));
    }
    let (from, before) = counted_from.expect("nothing ends before it is counted");
    one.per_second = (one.reads - before) as f64 / from.elapsed().as_secs_f64();
    while lane.in_flight() > 0 {
        lane.poll(Some(Duration::from_millis(10)), &mut finished);
        finished.drain(..).for_each(|read| one.take(read, &under_way, &mut frames));
    }
    Ok(one)
}

impl One {
    fn take(&mut self, read: PageRead, under_way: &[UnderWay], frames: &mut Vec<ArenaFrame>) {
        let UnderWay { page, since } = under_way[read.token as usize];
        if read.result.is_err() || checksum(&read.memory) != page.checksum {
            self.wrong += 1;
        }
        self.reads += 1;
        self.samples.extend(since.map(|since| since.elapsed().as_secs_f64() * 1e6));
        frames.push(read.memory);
    }
}
