//! The suite's own node: one port, and one link with the subject.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use saki_base::{AlignedBuffer, Buffer, Clock};
use saki_io::Wait;

use super::subject::command;
use crate::error::FabricError;
use crate::event::{Completion, Event, LinkId, Peer};
use crate::options::PortOptions;
use crate::port::Port;
use crate::region::RegionKey;

/// Nothing in the suite may take longer: what never comes fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the suite runs.
pub trait World {
    /// Of the suite's node: it has the key of the subject's cluster.
    fn options(&self) -> PortOptions;
    fn open(&self, options: PortOptions) -> Port;
    /// Where the subject listens.
    fn address(&self) -> String;
    /// Where nobody listens.
    fn nowhere(&self) -> String;
    /// Lets the subject work, if it has no thread of its own.
    fn turn(&mut self) {}
}

pub struct Client<'w> {
    pub world: &'w mut dyn World,
    pub port: Port,
    pub link: LinkId,
    pub clock: Arc<dyn Clock>,
    events: VecDeque<Event>,
    next_token: u64,
}

impl<'w> Client<'w> {
    /// A link that is up.
    pub fn new(world: &'w mut dyn World) -> Self {
        let options = world.options();
        let mut client = Self::with(world, options);
        client.up();
        client
    }

    /// A link that is being connected.
    pub fn with(world: &'w mut dyn World, options: PortOptions) -> Self {
        let address = world.address();
        Self::calling(world, options, &address)
    }

    pub fn calling(world: &'w mut dyn World, options: PortOptions, address: &str) -> Self {
        let clock = Arc::clone(&options.clock);
        let mut port = world.open(options);
        let link = port.connect(address);
        Self { world, port, link, clock, events: VecDeque::new(), next_token: 0 }
    }

    pub fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// Takes events until one is what is wanted; others stay for later.
    pub fn until<T>(&mut self, what: &str, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let started = self.clock.now();
        let mut looked = 0;
        loop {
            while looked < self.events.len() {
                if let Some(found) = wanted(&self.events[looked]) {
                    self.events.remove(looked);
                    return found;
                }
                looked += 1;
            }
            assert!(self.clock.now() < started + PATIENCE, "{what} never came; what came: {:?}", self.events);
            self.turn();
        }
    }

    /// Polls once.
    pub fn turn(&mut self) {
        self.world.turn();
        let mut events = Vec::new();
        let count = self.port.poll(Wait::AtMost(Duration::from_millis(5)), &mut events);
        assert_eq!(count, events.len(), "poll miscounted");
        self.events.extend(events);
    }

    pub fn up(&mut self) -> Peer {
        let link = self.link;
        self.until("a link", |event| match event {
            Event::Up { link: up, peer } if *up == link => Some(peer.clone()),
            Event::Down { error, again: false, .. } => panic!("the link is down: {error}"),
            _ => None,
        })
    }

    pub fn down(&mut self) -> (FabricError, bool) {
        let link = self.link;
        self.until("the end of a link", |event| match event {
            Event::Down { link: down, error, again } if *down == link => Some((error.clone(), *again)),
            _ => None,
        })
    }

    pub fn message(&mut self) -> Vec<u8> {
        let link = self.link;
        self.until("a message", |event| match event {
            Event::Message { link: from, bytes } if *from == link => Some(bytes.clone()),
            _ => None,
        })
    }

    pub fn completion(&mut self, token: u64) -> Completion {
        let mut found = None;
        let events = &mut self.events;
        if let Some(index) = events.iter().position(|event| is_of(event, token)) {
            found = events.remove(index);
        }
        let started = self.clock.now();
        while found.is_none() {
            assert!(self.clock.now() < started + PATIENCE, "operation {token} never ended");
            let known = self.events.len();
            self.turn();
            let index = (known..self.events.len()).find(|index| is_of(&self.events[*index], token));
            found = index.and_then(|index| self.events.remove(index));
        }
        let Some(Event::Completed(completion)) = found else { unreachable!("it is a completion") };
        completion
    }

    /// Completions of so many operations, which all end once.
    pub fn completions(&mut self, count: usize) -> Vec<Completion> {
        let mut completions = Vec::new();
        let started = self.clock.now();
        loop {
            let (ended, others): (VecDeque<_>, VecDeque<_>) =
                self.events.drain(..).partition(|event| matches!(event, Event::Completed(_)));
            self.events = others;
            completions.extend(ended.into_iter().filter_map(|event| match event {
                Event::Completed(completion) => Some(completion),
                _ => None,
            }));
            if completions.len() >= count {
                break;
            }
            let (ended, now) = (completions.len(), self.clock.now());
            assert!(now < started + PATIENCE, "{ended} of {count} operations ended");
            self.turn();
        }
        let mut seen = HashMap::new();
        completions.iter().for_each(|completion| *seen.entry(completion.token).or_insert(0) += 1);
        assert!(seen.values().all(|count| *count == 1), "an operation ended twice");
        assert_eq!(completions.len(), count, "more operations ended than there were");
        completions
    }

    pub fn send(&mut self, message: Vec<u8>) -> u64 {
        let token = self.token();
        self.port.send(self.link, token, message);
        token
    }

    /// Sends, and gives the answer.
    pub fn ask(&mut self, message: Vec<u8>) -> Vec<u8> {
        let token = self.send(message);
        self.completion(token).result.expect("a message is sent");
        self.message()
    }

    pub fn echo(&mut self, text: &[u8]) {
        let answer = self.ask([&[command::ECHO], text].concat());
        assert_eq!(answer, text);
    }

    /// A region of the subject's.
    pub fn lend(&mut self, seed: u64, frames: u32, frame_bytes: u32) -> RegionKey {
        let shape = u64::from(frame_bytes) << 32 | u64::from(frames);
        let message = [&[command::LEND][..], &seed.to_le_bytes(), &shape.to_le_bytes()].concat();
        RegionKey::from_bytes(&self.ask(message)).expect("a key")
    }

    pub fn read(&mut self, key: &RegionKey, offset: u64, length: usize) -> u64 {
        let token = self.token();
        let buffer = Buffer::Aligned(AlignedBuffer::new(length));
        self.port.read(self.link, token, key, offset, buffer);
        token
    }

    /// Reads, and gives how it ended.
    pub fn try_read(&mut self, key: &RegionKey, offset: u64, length: usize) -> Result<Buffer, FabricError> {
        let token = self.read(key, offset, length);
        let completion = self.completion(token);
        let buffer = completion.buffer.expect("a read gives its buffer back");
        assert_eq!(buffer.len(), length);
        completion.result.map(|()| buffer).map_err(|error| *error)
    }
}

fn is_of(event: &Event, token: u64) -> bool {
    matches!(event, Event::Completed(completion) if completion.token == token)
}
