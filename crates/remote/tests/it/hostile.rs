//! Peers that know the cluster's key, and lie.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use saki_base::{Arena, PageAddress};
use saki_fabric::{Event, LinkId, Port, RegionKey};
use saki_io::Wait;
use saki_page::{IoShare, PageCache, PagePort, PageStore};
use saki_remote::wire::{self, AnswerBatch, Ask, Outcome, ToOwner, ToReader, VERSION, Welcome};

use crate::contract::{read_all, wait_for};
use crate::pages::{PAGE, Pages};
use crate::world::{WAYS, Way, World};

fn ask(id: u32) -> Ask {
    Ask { id, from_home: false, address: PageAddress(u64::from(id)) }
}

/// A reader that says what it likes.
struct Liar<'w> {
    world: &'w World,
    port: Port,
    link: LinkId,
    heard: Vec<Vec<u8>>,
    down: bool,
}

impl<'w> Liar<'w> {
    fn new(world: &'w World, name: &str) -> Self {
        let mut port = world.port(name, 66);
        let link = port.connect(world.address());
        let mut liar = Self { world, port, link, heard: Vec::new(), down: false };
        let started = Instant::now();
        while !liar.turn() {
            assert!(started.elapsed() < Duration::from_secs(10), "the owner does not answer");
        }
        liar
    }

    /// `true` once the link is up.
    fn turn(&mut self) -> bool {
        self.world.turn();
        let mut events = Vec::new();
        self.port.poll(Wait::AtMost(Duration::from_millis(1)), &mut events);
        let mut is_up = false;
        for event in events {
            match event {
                Event::Up { .. } => is_up = true,
                Event::Message { bytes, .. } => self.heard.push(bytes),
                Event::Down { .. } => self.down = true,
                Event::Completed(_) => {}
            }
        }
        is_up
    }

    fn say(&mut self, message: Vec<u8>) {
        self.port.send(self.link, 0, message);
    }

    /// Says all of it, and is hung up on.
    fn loses_the_link(mut self, messages: Vec<Vec<u8>>) {
        messages.into_iter().for_each(|message| self.say(message));
        let started = Instant::now();
        while !self.down {
            assert!(started.elapsed() < Duration::from_secs(10), "the owner puts up with it");
            self.turn();
        }
    }
}

#[test]
fn readers_without_sense_are_hung_up_on() {
    for way in WAYS {
        let store: Arc<dyn PageStore> = Arc::new(Pages::default());
        let world = World::serving(way, &store);
        let enter = || wire::encode_enter(VERSION);
        // 64 frames, so 32 at once.
        let too_many = wire::encode_asks(&[], (0..33).map(ask).collect::<Vec<_>>().into_iter());
        let cases = [
            vec![b"nonsense".to_vec()],
            vec![Vec::new()],
            vec![wire::encode_asks(&[], [ask(1)].into_iter())],
            vec![enter(), enter()],
            vec![enter(), wire::encode_asks(&[0], [].into_iter())],
            vec![enter(), wire::encode_asks(&[u32::MAX], [].into_iter())],
            vec![enter(), too_many],
        ];
        for (number, messages) in cases.into_iter().enumerate() {
            Liar::new(&world, &format!("liar {number}")).loses_the_link(messages);
        }
        let cache = PageCache::new(PAGE, 200).expect("mapped");
        let mut port = PagePort::new(&cache, &world.remote(PAGE)).expect("opened");
        assert_eq!(read_all(&mut port, &cache, 0..100), (100, 0), "{way:?}: others are served");
        drop(port);
        wait_for(&world, |owner| owner.frames_lent() == 0 && owner.readers() == 0);
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let store: Arc<dyn PageStore> = Arc::new(Pages::default());
    let world = World::serving(Way::Tcp, &store);
    let mut liar = Liar::new(&world, "liar");
    liar.say(wire::encode_enter(VERSION + 1));
    let started = Instant::now();
    while liar.heard.is_empty() {
        assert!(started.elapsed() < Duration::from_secs(10));
        liar.turn();
    }
    let said = ToReader::decode(&liar.heard[0]);
    assert!(matches!(said, Some(ToReader::Refused { version: VERSION, .. })), "{said:?}");
}

/// Frames that a reader does not give back go to others once the lease is over; until then others have the rest.
#[test]
fn a_reader_that_keeps_its_frames_loses_the_link() {
    for way in WAYS {
        let store: Arc<dyn PageStore> = Arc::new(Pages::default());
        let mut world = World::new(way);
        world.options.lease = Duration::from_millis(300);
        world.serve(&store);
        let mut hog = Liar::new(&world, "hog");
        hog.say(wire::encode_enter(VERSION));
        hog.say(wire::encode_asks(&[], (0..32).map(ask).collect::<Vec<_>>().into_iter()));
        let started = Instant::now();
        while world.owner(|owner| owner.frames_lent()) < 20 {
            assert!(started.elapsed() < Duration::from_secs(10), "it gets frames");
            hog.turn();
        }
        assert!(world.owner(|owner| owner.frames_lent()) <= 32, "a part of them is for others");
        let cache = PageCache::new(PAGE, 200).expect("mapped");
        let mut port = PagePort::new(&cache, &world.remote(PAGE)).expect("opened");
        assert_eq!(read_all(&mut port, &cache, 0..100), (100, 0), "{way:?}");
        while !hog.down {
            assert!(started.elapsed() < Duration::from_secs(10), "it keeps them");
            hog.turn();
            port.poll(None, &mut Vec::new());
        }
        drop(port);
        wait_for(&world, |owner| owner.frames_lent() == 0);
    }
}

/// An owner that answers as `answer` says: each read fails, in time, and the lane lives on.
fn lying_owner(way: Way, answer: impl Fn(&RegionKey, ToOwner<'_>) -> Vec<Vec<u8>> + Send + 'static) -> String {
    let world = World::new(way);
    let mut port = world.port("owner", 5);
    let (arena, _frames) = Arena::shared(4, PAGE.bytes()).expect("mapped");
    let key = port.regions().lend(&arena);
    let at = if way == Way::Tcp { "127.0.0.1:0".into() } else { world.path("liar") };
    let address = port.listen(&at).expect("listens");
    let ended = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let over = Arc::clone(&ended);
    let owner = std::thread::spawn(move || {
        let mut events = Vec::new();
        while !over.load(Ordering::Relaxed) {
            port.poll(Wait::AtMost(Duration::from_millis(5)), &mut events);
            for event in events.drain(..) {
                if let Event::Message { link, bytes } = event {
                    let said = ToOwner::decode(&bytes).expect("readers have sense");
                    answer(&key, said).into_iter().for_each(|message| port.send(link, 0, message));
                }
            }
        }
    });
    let remote = world.remote_with(PAGE, |options| {
        options.addresses = vec![address];
        options.deadline = Duration::from_millis(500);
    });
    let cache = PageCache::new(PAGE, 64).expect("mapped");
    let mut port = PagePort::new(&cache, &remote).expect("opened");
    let share = IoShare::new(u32::MAX);
    let error = port.read(&share, &cache.reader(), crate::pages::reference(9)).err().expect("no page");
    assert_eq!((share.in_flight(), port.in_flight()), (0, 0));
    ended.store(true, Ordering::Relaxed);
    owner.join().expect("it lies, and does not panic");
    error.to_string()
}

#[test]
fn owners_without_sense_are_errors() {
    let welcome = |key: &RegionKey, page_bytes| vec![Welcome { page_bytes, requests_most: 9, region: *key }.encode()];
    let answer = |id: u32, frame: u32| {
        let mut batch = AnswerBatch::default();
        batch.push(id, &Outcome::Page { frame });
        vec![batch.take()]
    };
    for way in [Way::Tcp, Way::Shm] {
        let error = lying_owner(way, |_, _| vec![b"nonsense".to_vec()]);
        assert!(error.contains("node 5") && error.contains("sent what no owner"), "{error}");
        let error = lying_owner(way, move |key, _| welcome(key, 8192));
        assert!(error.contains("pages of 8192 bytes"), "{error}");
        let error = lying_owner(way, |_, _| vec![wire::encode_refused("not today")]);
        assert!(error.contains("not today"), "{error}");
        let error = lying_owner(way, |_, _| Vec::new());
        assert!(error.contains("500 ms"), "{error}");
        let error = lying_owner(way, move |key, said| match said {
            ToOwner::Enter { .. } => welcome(key, 4096),
            ToOwner::Ask(_) => answer(1000, 0),
        });
        assert!(error.contains("was not asked"), "{error}");
        let error = lying_owner(way, move |key, said| match said {
            ToOwner::Enter { .. } => welcome(key, 4096),
            ToOwner::Ask(asks) => asks.asked().flat_map(|ask| answer(ask.id, 4_000_000)).collect(),
        });
        assert!(error.contains("do not lie within the region"), "{error}");
        let error = lying_owner(way, move |key, said| match said {
            ToOwner::Enter { .. } => welcome(&RegionKey { secret: 1, ..*key }, 4096),
            ToOwner::Ask(asks) => asks.asked().flat_map(|ask| answer(ask.id, 0)).collect(),
        });
        assert!(error.contains("lends no region"), "{error}");
        // An empty frame: wrong bytes, twice.
        let error = lying_owner(way, move |key, said| match said {
            ToOwner::Enter { .. } => welcome(key, 4096),
            ToOwner::Ask(asks) => asks.asked().flat_map(|ask| answer(ask.id, 0)).collect(),
        });
        assert!(error.contains("node 5") && error.contains("is corrupt"), "{error}");
    }
}
