//! What is promised, over every transport.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use saki_base::{PageAddress, PageSize, Random, TreeId};
use saki_io::{Device, SimDevice, SimOptions};
use saki_page::{Arrival, IoShare, PageCache, PageError, PagePort, PageStore, Request};
use saki_remote::{PageServer, PageService, RemoteStore, ServiceOptions};
use saki_tree::{BulkLoader, LivePages, NoInspection, TreeReader, TreeRoot, verify};
use saki_volume::{Volume, VolumeOptions};

use crate::pages::{FAILING, PAGE, Pages, UNMAPPED, fill, reference};
use crate::world::{OWNER, WAYS, Way, World};

pub fn expect_page(bytes: &[u8], address: u64) {
    let mut expected = vec![0; PAGE.bytes()];
    fill(PageAddress(address), &mut expected);
    assert!(bytes == expected, "page {address} holds other bytes");
}

/// A tree in a volume, and what is in it.
fn tree(page_bytes: u32) -> (Arc<Volume>, TreeRoot, BTreeMap<Vec<u8>, Vec<u8>>) {
    let device = SimDevice::new(SimOptions { seed: 3, length_bytes: 0, ..SimOptions::default() });
    let page_size = PageSize::new(page_bytes).expect("valid");
    let volume = Volume::create(device as Arc<dyn Device>, VolumeOptions::new(page_size)).expect("created");
    let mut random = Random::new(5);
    let mut map = BTreeMap::new();
    for number in 0..6000_u64 {
        let length = if random.below(200) == 0 { 3 * u64::from(page_bytes) } else { random.below(90) };
        map.insert(format!("key/{number:07}").into_bytes(), vec![number as u8; length as usize]);
    }
    let publication = volume.begin();
    let mut loader = BulkLoader::new(publication.writer(), page_size, TreeId(1));
    for (key, value) in &map {
        loader.push(key, value).expect("ascending");
    }
    let (root, writer) = loader.finish().expect("loaded");
    writer.finish().expect("finished");
    publication.commit(&root.to_bytes()).expect("committed");
    (volume, root, map)
}

#[test]
fn a_tree_of_another_node_is_the_tree() {
    for page_bytes in [4096, 128 << 10] {
        let (volume, root, map) = tree(page_bytes);
        for way in WAYS {
            let local: Arc<dyn PageStore> = Arc::clone(&volume) as Arc<dyn PageStore>;
            let mut world = World::new(way);
            world.options.memory_bytes = 8 * page_bytes as usize;
            world.serve(&local);
            let remote = world.remote(volume.page_size());
            let cache = PageCache::new(volume.page_size(), 40).expect("mapped");
            let mut reader = TreeReader::new(&cache, &remote, &IoShare::new(u32::MAX)).expect("opened");
            let found = verify(reader.fetcher(), &root, &mut LivePages::new(volume.page_size()), &mut NoInspection);
            assert!(found.faults.is_empty() && found.entries == map.len() as u64, "{way:?}: {:?}", found.faults);
            let mut random = Random::new(8);
            for _ in 0..60 {
                let key = format!("key/{:07}", random.below(7000)).into_bytes();
                assert_eq!(reader.get(&root, &key).expect("read"), map.get(&key).cloned(), "{way:?}");
            }
            let (low, high) = (&b"key/0001"[..], &b"key/00012"[..]);
            let mut range = reader.range(&root, Bound::Included(low), Bound::Excluded(high));
            let mut expected = map.range(low.to_vec()..high.to_vec());
            while let Some((key, value)) = range.next().expect("read") {
                let (expected_key, expected_value) = expected.next().expect("no more than there is");
                assert!(key == expected_key && value == expected_value, "{way:?}");
            }
            assert!(expected.next().is_none());
        }
    }
}

#[test]
fn errors_of_the_owner_name_node_and_page() {
    for way in WAYS {
        let store: Arc<dyn PageStore> = Arc::new(Pages::default());
        let world = World::serving(way, &store);
        let remote = world.remote(PAGE);
        let cache = PageCache::new(PAGE, 64).expect("mapped");
        let mut port = PagePort::new(&cache, &remote).expect("opened");
        let (reader, share) = (cache.reader(), IoShare::new(u32::MAX));
        expect_page(&port.read(&share, &reader, reference(3)).expect("read"), 3);
        for (address, why) in [(FAILING + 1, "on fire"), (UNMAPPED + 1, "not mapped")] {
            let error = port.read(&share, &reader, reference(address)).err().expect("fails").to_string();
            let names = [format!("node {OWNER}"), PageAddress(address).to_string(), why.to_owned()];
            assert!(names.iter().all(|name| error.contains(name)), "{way:?}: {error}");
        }
        // And it goes on.
        expect_page(&port.read(&share, &reader, reference(4)).expect("read"), 4);
        assert_eq!(share.in_flight(), 0);
    }
}

#[test]
fn a_share_of_one_reads_one_at_a_time() {
    for way in WAYS {
        let pages = Pages::default();
        let store: Arc<dyn PageStore> = Arc::new(pages.clone());
        let world = World::serving(way, &store);
        let cache = PageCache::new(PAGE, 64).expect("mapped");
        let mut port = PagePort::new(&cache, &world.remote(PAGE)).expect("opened");
        let share = IoShare::new(1);
        let (mut next, mut arrivals) = (0, Vec::new());
        while next < 50 {
            match port.request(&share, reference(next), next) {
                Request::Busy(_) => {
                    port.poll(Some(Duration::from_millis(5)), &mut arrivals);
                }
                _ => next += 1,
            }
        }
        drop(port);
        assert_eq!(pages.faults.in_flight_most.load(Ordering::Relaxed), 1, "{way:?}");
    }
}

/// Reads pages until so many have come, with as many in flight as the lane takes.
pub fn read_all(port: &mut PagePort, cache: &Arc<PageCache>, pages: impl Iterator<Item = u64>) -> (u64, u64) {
    let share = IoShare::new(u32::MAX);
    let mut pages = pages.peekable();
    let reader = cache.reader();
    let (mut right, mut failed, mut under_way) = (0, 0, 0_u64);
    let mut arrivals: Vec<Arrival> = Vec::new();
    let started = Instant::now();
    while pages.peek().is_some() || under_way > 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "it hangs: {right} right, {under_way} under way");
        while let Some(&address) = pages.peek() {
            match port.request(&share, reference(address), address) {
                Request::Busy(_) => break,
                Request::Cached => right += 1,
                Request::Queued | Request::Shared => under_way += 1,
            }
            pages.next();
        }
        port.poll(Some(Duration::from_millis(5)), &mut arrivals);
        for arrival in arrivals.drain(..) {
            under_way -= 1;
            match arrival.result {
                Ok(()) => {
                    right += 1;
                    // It may be evicted by now.
                    if let Some(bytes) = reader.find(arrival.page).expect("what was verified") {
                        expect_page(&bytes, arrival.page.address.0);
                    }
                }
                Err(PageError::Unreadable { .. }) => failed += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(share.in_flight(), 0);
    (right, failed)
}

#[test]
fn many_readers_share_few_frames() {
    for way in WAYS {
        let pages = Pages::default();
        pages.faults.depth.store(5, Ordering::Relaxed);
        let store: Arc<dyn PageStore> = Arc::new(pages.clone());
        // 64 frames.
        let world = World::serving(way, &store);
        let remote = world.remote(PAGE);
        if world.network.is_some() {
            let caches: Vec<_> = (0..4).map(|_| PageCache::new(PAGE, 200).expect("mapped")).collect();
            for cache in &caches {
                let mut port = PagePort::new(cache, &remote).expect("opened");
                assert_eq!(read_all(&mut port, cache, 0..400), (400, 0));
            }
        } else {
            std::thread::scope(|scope| {
                for thread in 0..8_u64 {
                    let remote = &remote;
                    scope.spawn(move || {
                        let cache = PageCache::new(PAGE, 200).expect("mapped");
                        let mut port = PagePort::new(&cache, remote).expect("opened");
                        let mut random = Random::new(thread);
                        let addresses: Vec<_> = (0..1500).map(|_| random.below(5000)).collect();
                        assert_eq!(read_all(&mut port, &cache, addresses.into_iter()), (1500, 0));
                    });
                }
            });
        }
        assert!(pages.faults.in_flight_most.load(Ordering::Relaxed) <= 5);
        wait_for(&world, |owner| owner.frames_lent() == 0 && owner.readers() == 0);
    }
}

/// Until something holds of the owner.
pub fn wait_for(world: &World, holds: impl Fn(&PageService) -> bool) {
    let started = Instant::now();
    while !world.owner(&holds) {
        assert!(started.elapsed() < Duration::from_secs(20), "the owner does not come to that");
        world.turn();
    }
}

#[test]
fn a_lane_takes_no_more_than_its_window() {
    for way in WAYS {
        let pages = Pages::default();
        let store: Arc<dyn PageStore> = Arc::new(pages.clone());
        let world = World::serving(way, &store);
        pages.faults.held.store(true, Ordering::Relaxed);
        let remote = world.remote_with(PAGE, |options| options.requests_most = 20);
        let cache = PageCache::new(PAGE, 200).expect("mapped");
        let mut port = PagePort::new(&cache, &remote).expect("opened");
        let share = IoShare::new(u32::MAX);
        let mut arrivals = Vec::new();
        let mut taken = 0;
        for address in 0..100 {
            taken += u32::from(!matches!(port.request(&share, reference(address), address), Request::Busy(_)));
            port.poll(None, &mut arrivals);
        }
        assert_eq!((taken, share.in_flight()), (20, 20), "{way:?}");
        pages.faults.held.store(false, Ordering::Relaxed);
        while share.in_flight() > 0 {
            port.poll(Some(Duration::from_millis(5)), &mut arrivals);
        }
        assert_eq!(arrivals.len(), 20);
    }
}

#[test]
fn a_store_asks_what_is_served() {
    for way in [Way::Tcp, Way::Shm] {
        let world = World::new(way);
        let store: Arc<dyn PageStore> = Arc::new(Pages::default());
        let listen = if way == Way::Tcp { "127.0.0.1:0".into() } else { world.path("served") };
        let mut services = Vec::new();
        let mut addresses = Vec::new();
        for number in 0..2 {
            let options = (world.port_options(OWNER), ServiceOptions::default());
            let transport = world.transport("owner");
            let mut service = PageService::new(&store, transport, options.0, options.1).expect("opened");
            let listen = if way == Way::Tcp { listen.clone() } else { format!("{listen}{number}") };
            addresses.push(service.listen(&listen).expect("listens"));
            services.push(service);
        }
        let server = PageServer::start(services).expect("started");
        let mut options = world.remote_options();
        options.addresses = addresses;
        options.deadline = Duration::from_millis(500);
        let remote = RemoteStore::open(options.clone()).expect("opened");
        assert_eq!(remote.page_size(), PAGE);
        assert!(remote.describe(PageAddress(0)).starts_with(&format!("node {OWNER} at ")));
        let remote: Arc<dyn PageStore> = remote;
        for _ in 0..2 {
            let cache = PageCache::new(PAGE, 200).expect("mapped");
            let mut port = PagePort::new(&cache, &remote).expect("opened");
            assert_eq!(read_all(&mut port, &cache, 0..300), (300, 0));
        }
        drop(server);
        let error = RemoteStore::open(options).err().expect("nobody is there").to_string();
        assert!(error.contains("500 ms"), "{error}");
    }
}
