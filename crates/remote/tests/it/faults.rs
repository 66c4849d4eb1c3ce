//! Owners that die, hang, are slow or bring wrong bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saki_base::PageAddress;
use saki_fabric::SimRates;
use saki_page::{IoShare, PageCache, PageError, PagePort, PageStore, Request};

use crate::contract::{expect_page, read_all, wait_for};
use crate::pages::{PAGE, Pages, reference};
use crate::world::{OWNER, WAYS, Way, World};

struct Reader {
    cache: Arc<PageCache>,
    port: PagePort,
    share: Arc<IoShare>,
}

fn reader(remote: &Arc<dyn PageStore>) -> Reader {
    let cache = PageCache::new(PAGE, 300).expect("mapped");
    let port = PagePort::new(&cache, remote).expect("opened");
    Reader { cache, port, share: IoShare::new(u32::MAX) }
}

#[test]
fn an_owner_that_restarts_in_mid_read_is_read_on() {
    for way in WAYS {
        let pages = Pages::default();
        let store: Arc<dyn PageStore> = Arc::new(pages.clone());
        let mut world = World::serving(way, &store);
        let Reader { cache, mut port, share } = reader(&world.remote(PAGE));
        assert_eq!(read_all(&mut port, &cache, 0..20), (20, 0));
        let mut arrivals = Vec::new();
        for life in 1..=3_u64 {
            pages.faults.held.store(true, Ordering::Relaxed);
            for address in life * 100..life * 100 + 30 {
                assert_eq!(port.request(&share, reference(address), address), Request::Queued);
            }
            // Until some of it is at the owner's store.
            while pages.faults.in_flight.load(Ordering::Relaxed) == 0 {
                port.poll(Some(Duration::from_millis(1)), &mut arrivals);
            }
            pages.faults.held.store(false, Ordering::Relaxed);
            world.kill();
            for _ in 0..20 {
                port.poll(Some(Duration::from_millis(1)), &mut arrivals);
            }
            world.serve(&store);
            while arrivals.len() < 30 {
                port.poll(Some(Duration::from_millis(5)), &mut arrivals);
            }
            for arrival in arrivals.drain(..) {
                arrival.result.expect("it has come after all");
                expect_page(
                    &cache.reader().find(arrival.page).expect("verified").expect("there"),
                    arrival.page.address.0,
                );
            }
        }
        assert_eq!((share.in_flight(), port.in_flight()), (0, 0));
    }
}

#[test]
fn an_owner_that_stays_away_is_an_error_in_time() {
    for way in WAYS {
        let store: Arc<dyn PageStore> = Arc::new(Pages::default());
        let mut world = World::serving(way, &store);
        let deadline = Duration::from_millis(400);
        let remote = world.remote_with(PAGE, |options| options.deadline = deadline);
        let Reader { cache, mut port, share } = reader(&remote);
        assert_eq!(read_all(&mut port, &cache, 0..20), (20, 0));
        world.kill();
        let clock = world.port_options(1).clock;
        let started = clock.now();
        let error = port.read(&share, &cache.reader(), reference(50)).err().expect("nobody is there");
        let took = clock.now() - started;
        assert!(took >= deadline && took < 3 * deadline, "{way:?}: {took:?}");
        let text = error.to_string();
        let names = [format!("node {OWNER}"), PageAddress(50).to_string(), "400 ms".into()];
        assert!(names.iter().all(|name| text.contains(name)), "{way:?}: {text}");
        assert_eq!(share.in_flight(), 0);
        world.serve(&store);
        assert_eq!(read_all(&mut port, &cache, 50..70), (20, 0));
    }
}

#[test]
fn an_owner_that_hangs_is_an_error_in_time() {
    for way in WAYS {
        let pages = Pages::default();
        let store: Arc<dyn PageStore> = Arc::new(pages.clone());
        let world = World::serving(way, &store);
        let remote = world.remote_with(PAGE, |options| options.deadline = Duration::from_millis(200));
        let Reader { cache, mut port, share } = reader(&remote);
        pages.faults.held.store(true, Ordering::Relaxed);
        assert_eq!(read_all(&mut port, &cache, 0..20), (0, 20), "{way:?}");
        pages.faults.held.store(false, Ordering::Relaxed);
        // The answers that nobody waits for free their frames.
        assert_eq!(read_all(&mut port, &cache, 0..100), (100, 0), "{way:?}");
        for _ in 0..10 {
            port.poll(Some(Duration::from_millis(1)), &mut Vec::new());
        }
        wait_for(&world, |owner| owner.frames_lent() == 0);
        assert_eq!(share.in_flight(), 0);
    }
}

#[test]
fn wrong_bytes_are_read_once_more_and_never_believed() {
    for way in WAYS {
        let pages = Pages::default();
        let store: Arc<dyn PageStore> = Arc::new(pages.clone());
        let world = World::serving(way, &store);
        let Reader { cache, mut port, share } = reader(&world.remote(PAGE));
        let reader = cache.reader();
        pages.faults.wrong.store(1, Ordering::Relaxed);
        expect_page(&port.read(&share, &reader, reference(1)).expect("the second time"), 1);
        assert_eq!(pages.faults.reads.load(Ordering::Relaxed), 2);
        // A copy at the owner is rotten: it is distrusted there.
        pages.faults.rotten_copies.lock().insert(PageAddress(2));
        expect_page(&port.read(&share, &reader, reference(2)).expect("from its home"), 2);
        assert!(pages.faults.rotten_copies.lock().is_empty());
        pages.faults.wrong.store(u64::MAX, Ordering::Relaxed);
        let error = port.read(&share, &reader, reference(3)).err().expect("wrong both times");
        assert!(matches!(error, PageError::Corrupt { .. }));
        let text = error.to_string();
        assert!(text.contains(&format!("node {OWNER}")) && text.contains(&PageAddress(3).to_string()), "{text}");
        pages.faults.wrong.store(0, Ordering::Relaxed);
        expect_page(&port.read(&share, &reader, reference(3)).expect("sound again"), 3);
    }
}

/// Bytes of the wire are damaged, lost, doubled, and connections cut, from seeds: pages come right or not at all.
#[test]
fn whatever_the_network_does_no_wrong_page_comes() {
    for seed in 0..12 {
        for way in [Way::SimDirect, Way::SimWire] {
            let store: Arc<dyn PageStore> = Arc::new(Pages::default());
            let world = World::serving(way, &store);
            let network = world.network.clone().expect("simulated");
            let rates = SimRates { direct: way == Way::SimDirect, ..SimRates::default() };
            let rate = 0.002 * (seed % 4) as f64;
            network.set_rates(SimRates { damage: rate, drop: rate, cut: rate, ..rates.clone() });
            let Reader { cache, mut port, share } = reader(&world.remote(PAGE));
            let base = seed * 500;
            let share_of_all = IoShare::new(u32::MAX);
            let (mut arrivals, mut right, mut failed) = (Vec::new(), 0, 0);
            for address in base..base + 400 {
                while matches!(port.request(&share_of_all, reference(address), address), Request::Busy(_)) {
                    port.poll(Some(Duration::from_millis(1)), &mut arrivals);
                }
            }
            while port.in_flight() > 0 {
                port.poll(Some(Duration::from_millis(1)), &mut arrivals);
            }
            port.poll(None, &mut arrivals);
            assert_eq!(arrivals.len(), 400, "each ends once");
            for arrival in arrivals {
                match arrival.result {
                    Ok(()) => right += 1,
                    // Damaged twice.
                    Err(PageError::Corrupt { .. } | PageError::Unreadable { .. }) => failed += 1,
                    Err(error) => panic!("{error}"),
                }
                if let Some(bytes) = cache.reader().find(arrival.page).expect("verified") {
                    expect_page(&bytes, arrival.page.address.0);
                }
            }
            assert!(right > 300 || rate > 0.0, "{right} right, {failed} failed");
            network.set_rates(rates);
            expect_page(&port.read(&share, &cache.reader(), reference(base + 450)).expect("all is well"), base + 450);
        }
    }
}
