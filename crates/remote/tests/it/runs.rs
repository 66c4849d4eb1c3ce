//! Runs of neighbouring pages: by a volume's own lane, by its pages, and from another node over every transport.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use saki_base::{CHUNK_BYTES, PageAddress, PageSize, Part, PartKind, Random, TreeId, checksum};
use saki_io::{Device, SimDevice, SimOptions};
use saki_page::{IoShare, PageStore, PagedRuns, Refusal, RunLane, RunRead, RunStore};
use saki_volume::{PageRun, Volume, VolumeOptions};

use crate::contract::wait_for;
use crate::pages::{FAILING, PAGE, Pages, UNMAPPED, fill};
use crate::world::{OWNER, WAYS, Way, World};

const WINDOW_BYTES: usize = 128 << 10;
const COLUMN: Part = Part::new(TreeId(1), PartKind::Column(5));

/// Runs of lengths from a byte to several chunks, and their bytes.
fn published() -> (Arc<Volume>, Vec<(PageRun, Vec<u8>)>) {
    let device = SimDevice::new(SimOptions { seed: 3, length_bytes: 0, ..SimOptions::default() });
    let options = VolumeOptions::new(PageSize::new(8192).expect("valid"));
    let volume = Volume::create(device as Arc<dyn Device>, options).expect("created");
    let mut random = Random::new(4);
    let publication = volume.begin();
    let mut writer = publication.writer();
    let lengths = [1, 8191, 8192, 8193, CHUNK_BYTES / 3, CHUNK_BYTES, 2 * CHUNK_BYTES + 77];
    let runs = lengths.map(|length| {
        let bytes: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        (writer.append_run(COLUMN, &bytes).expect("written"), bytes)
    });
    writer.finish().expect("finished");
    publication.commit(b"root").expect("committed");
    (volume, runs.into())
}

/// Reads runs, given as first page, bytes and checksum, as many at once as the lane takes; in the order asked for.
fn read_all(lane: &mut dyn RunLane, share: &Arc<IoShare>, runs: &[(PageAddress, usize, u64)]) -> Vec<RunRead> {
    let (mut next, mut finished) = (0, Vec::new());
    let started = Instant::now();
    while finished.len() < runs.len() {
        assert!(started.elapsed() < Duration::from_secs(60), "it hangs after {} runs", finished.len());
        while let Some((first, bytes, checksum)) = runs.get(next) {
            match lane.try_read(share, *first, *bytes, *checksum, next as u64) {
                Ok(()) => next += 1,
                Err(Refusal::Busy(_)) => break,
                Err(Refusal::Unmapped) => panic!("{first} is mapped"),
            }
        }
        lane.poll(Some(Duration::from_millis(5)), &mut finished);
    }
    assert_eq!((share.in_flight(), lane.in_flight()), (0, 0));
    finished.sort_by_key(|read| read.token);
    finished
}

fn expect_runs(store: &dyn RunStore, runs: &[(PageRun, Vec<u8>)], share: &Arc<IoShare>, what: &str) {
    let mut lane = store.open_run_lane().expect("opened");
    let asked: Vec<_> = runs.iter().map(|(run, bytes)| (run.first, bytes.len(), run.checksum)).collect();
    // The second time into buffers that were used.
    for _ in 0..2 {
        for (read, (run, bytes)) in read_all(&mut *lane, share, &asked).into_iter().zip(runs) {
            let pages = read.result.expect(what);
            assert_eq!(pages.len() as u64, run.pages * store.page_size().bytes() as u64, "{what}");
            assert!(pages[..bytes.len()] == bytes[..], "{what}: a run of {} bytes has others", bytes.len());
            assert!(pages[bytes.len()..].iter().all(|byte| *byte == 0), "{what}: something behind a run's end");
            lane.buffers().give_back(pages);
        }
    }
}

#[test]
fn a_run_is_the_same_by_every_way() {
    let (volume, runs) = published();
    let pages: Arc<dyn PageStore> = Arc::clone(&volume) as _;
    for most in [1, 3, u32::MAX] {
        let share = IoShare::new(most);
        expect_runs(&*volume, &runs, &share, "by its lane");
        expect_runs(&*PagedRuns::over(Arc::clone(&pages), WINDOW_BYTES), &runs, &share, "by its pages");
        expect_runs(&*PagedRuns::over(Arc::clone(&pages), 1), &runs, &share, "by few pages");
        for way in WAYS {
            let world = World::serving(way, &pages);
            let remote = PagedRuns::over(world.remote(volume.page_size()), WINDOW_BYTES);
            expect_runs(&*remote, &runs, &share, &format!("over {way:?}"));
        }
    }
}

fn run_of(pages: std::ops::Range<u64>) -> (PageAddress, usize, u64, Vec<u8>) {
    let mut bytes = vec![0; pages.clone().count() * PAGE.bytes()];
    for (page, memory) in pages.clone().zip(bytes.chunks_exact_mut(PAGE.bytes())) {
        fill(PageAddress(page), memory);
    }
    // What fills up the last page is not of the run.
    bytes.truncate(bytes.len() - 100);
    (PageAddress(pages.start), bytes.len(), checksum(&bytes), bytes)
}

fn expect_run(read: RunRead, bytes: &[u8]) {
    assert!(read.result.expect("read")[..bytes.len()] == *bytes, "run {} has other bytes", read.token);
}

#[test]
fn runs_that_cannot_be_read_are_errors_and_others_come() {
    for way in WAYS {
        let store: Arc<dyn PageStore> = Arc::new(Pages::default());
        let world = World::serving(way, &store);
        let runs = PagedRuns::over(world.remote(PAGE), WINDOW_BYTES);
        let mut lane = runs.open_run_lane().expect("opened");
        let asked = [10..50, FAILING - 3..FAILING + 3, 60..62, UNMAPPED - 2..UNMAPPED + 40, 100..300];
        let asked = asked.map(run_of);
        let places: Vec<_> = asked.iter().map(|(first, bytes, checksum, _)| (*first, *bytes, *checksum)).collect();
        let read = read_all(&mut *lane, &IoShare::new(u32::MAX), &places);
        for (number, (read, (.., bytes))) in read.into_iter().zip(&asked).enumerate() {
            match number {
                1 | 3 => {
                    let error = read.result.err().expect("some of it cannot be read").to_string();
                    assert!(error.contains(&format!("node {OWNER}")), "{way:?}: {error}");
                }
                _ => expect_run(read, bytes),
            }
        }
        wait_for(&world, |owner| owner.frames_lent() == 0);
    }
}

#[test]
fn a_run_that_comes_wrong_is_read_once_more() {
    for way in WAYS {
        let pages = Pages::default();
        let store: Arc<dyn PageStore> = Arc::new(pages.clone());
        let world = World::serving(way, &store);
        let runs = PagedRuns::over(world.remote(PAGE), WINDOW_BYTES);
        let mut lane = runs.open_run_lane().expect("opened");
        let (first, length, checksum, bytes) = run_of(5..45);
        let mut read = || read_all(&mut *lane, &IoShare::new(u32::MAX), &[(first, length, checksum)]).remove(0);
        pages.faults.wrong.store(1, Ordering::Relaxed);
        expect_run(read(), &bytes);
        assert_eq!(pages.faults.reads.load(Ordering::Relaxed), 80, "all pages, twice");
        pages.faults.rotten_copies.lock().extend([PageAddress(7), PageAddress(30)]);
        expect_run(read(), &bytes);
        assert!(pages.faults.rotten_copies.lock().is_empty(), "they are distrusted there");
        // What comes wrong from its home is given out: whoever reads it compares checksums, as of local runs.
        pages.faults.wrong.store(u64::MAX, Ordering::Relaxed);
        let wrong = read().result.expect("read");
        assert!(wrong[..length] != bytes[..]);
        pages.faults.wrong.store(0, Ordering::Relaxed);
        expect_run(read(), &bytes);
    }
}

#[test]
fn runs_are_read_on_when_their_owner_restarts() {
    for way in WAYS {
        let pages = Pages::default();
        let store: Arc<dyn PageStore> = Arc::new(pages.clone());
        let mut world = World::serving(way, &store);
        let runs = PagedRuns::over(world.remote(PAGE), WINDOW_BYTES);
        let mut lane = runs.open_run_lane().expect("opened");
        let (first, length, checksum, bytes) = run_of(100..300);
        let share = IoShare::new(u32::MAX);
        let mut finished = Vec::new();
        for life in 0..3_u64 {
            pages.faults.held.store(true, Ordering::Relaxed);
            assert_eq!(lane.try_read(&share, first, length, checksum, life), Ok(()));
            while pages.faults.in_flight.load(Ordering::Relaxed) == 0 {
                lane.poll(Some(Duration::from_millis(1)), &mut finished);
            }
            pages.faults.held.store(false, Ordering::Relaxed);
            world.kill();
            (0..20).for_each(|_| lane.poll(Some(Duration::from_millis(1)), &mut finished));
            world.serve(&store);
            while finished.is_empty() {
                lane.poll(Some(Duration::from_millis(5)), &mut finished);
            }
            expect_run(finished.remove(0), &bytes);
        }
    }
}

#[test]
fn runs_of_an_owner_that_stays_away_are_errors_in_time() {
    let store: Arc<dyn PageStore> = Arc::new(Pages::default());
    for way in [Way::Tcp, Way::Shm] {
        let world = World::serving(way, &store);
        let deadline = Duration::from_millis(300);
        let runs = PagedRuns::over(world.remote_with(PAGE, |options| options.deadline = deadline), WINDOW_BYTES);
        let mut lane = runs.open_run_lane().expect("opened");
        let (first, length, checksum, bytes) = run_of(0..100);
        let share = IoShare::new(u32::MAX);
        expect_run(read_all(&mut *lane, &share, &[(first, length, checksum)]).remove(0), &bytes);
        world.kill();
        let started = Instant::now();
        let error =
            read_all(&mut *lane, &share, &[(first, length, checksum)]).remove(0).result.err().expect("it is gone");
        assert!(error.to_string().contains("300 ms") && started.elapsed() < 4 * deadline, "{way:?}: {error}");
    }
}
