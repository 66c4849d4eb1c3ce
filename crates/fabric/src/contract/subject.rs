//! The node that the suite talks to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use saki_base::bytes::ByteReader;
use saki_base::{AlignedBuffer, Arena, Buffer, Clock};
use saki_io::Wait;

use super::pattern::fill;
use crate::error::FabricError;
use crate::event::{Completion, Event, LinkId};
use crate::port::Port;
use crate::region::{REGION_KEY_BYTES, RegionKey};

/// What a message tells the subject to do, by its first byte.
pub mod command {
    /// Sends the rest back.
    pub const ECHO: u8 = b'e';
    /// seed: u64, frames: u32, bytes of each: u32. Lends so much, filled; answers with the key.
    pub const LEND: u8 = b'l';
    /// key. Takes the region back; answers.
    pub const TAKE_BACK: u8 = b't';
    /// key, offset: u64, length: u64. Reads from the caller's region; answers with the bytes' checksum.
    pub const READ: u8 = b'r';
    /// milliseconds: u64. Does nothing for so long.
    pub const SLEEP: u8 = b's';
    /// Closes the link.
    pub const CLOSE: u8 = b'c';
    /// Starts again: drops all it has, and listens at the same address.
    pub const RESTART: u8 = b'x';
    /// Ends.
    pub const QUIT: u8 = b'q';
}

/// Opens a port of the subject's node, as new.
type Opener = Box<dyn Fn() -> Port + Send>;

/// A node that does what it is told.
pub struct Subject {
    open: Opener,
    clock: Arc<dyn Clock>,
    address: String,
    port: Option<Port>,
    lent: HashMap<RegionKey, Arc<Arena>>,
    /// Who asked for a read.
    reads: HashMap<u64, LinkId>,
    next_token: u64,
    asleep_until: Duration,
    events: Vec<Event>,
}

impl Subject {
    /// Listens at `address`.
    pub fn new(open: Opener, clock: Arc<dyn Clock>, address: &str) -> Result<Self, FabricError> {
        let mut subject = Self {
            open,
            clock,
            address: address.into(),
            port: None,
            lent: HashMap::new(),
            reads: HashMap::new(),
            next_token: 0,
            asleep_until: Duration::ZERO,
            events: Vec::new(),
        };
        subject.restart()?;
        Ok(subject)
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    fn restart(&mut self) -> Result<(), FabricError> {
        self.port = None;
        self.lent.clear();
        self.reads.clear();
        let mut port = (self.open)();
        self.address = port.listen(&self.address)?;
        self.port = Some(port);
        Ok(())
    }

    /// Does what there is to do; `false` once it was told to end.
    pub fn turn(&mut self, wait: Wait) -> bool {
        if self.clock.now() < self.asleep_until {
            if wait != Wait::No {
                std::thread::sleep(Duration::from_millis(1));
            }
            return true;
        }
        let mut events = std::mem::take(&mut self.events);
        self.port().poll(wait, &mut events);
        for event in events.drain(..) {
            match event {
                Event::Message { link, bytes } => {
                    if !self.obey(link, &bytes) {
                        return false;
                    }
                }
                Event::Completed(completion) => self.answer_read(completion),
                Event::Up { .. } | Event::Down { .. } => {}
            }
        }
        self.events = events;
        true
    }

    /// Until it is told to end.
    pub fn run(&mut self) {
        while self.turn(Wait::AtMost(Duration::from_millis(50))) {}
    }

    fn port(&mut self) -> &mut Port {
        self.port.as_mut().expect("a subject has a port")
    }

    fn answer(&mut self, link: LinkId, bytes: Vec<u8>) {
        self.port().send(link, u64::MAX, bytes);
    }

    fn obey(&mut self, link: LinkId, message: &[u8]) -> bool {
        let (command, rest) = message.split_first().expect("a command");
        let mut reader = ByteReader::new(rest);
        let mut number = || reader.u64().expect("a number");
        match *command {
            command::ECHO => self.answer(link, rest.to_vec()),
            command::LEND => {
                let (seed, shape) = (number(), number());
                let (arena, frames) = Arena::shared(shape as u32, (shape >> 32) as usize).expect("memory");
                for mut frame in frames {
                    let offset = u64::from(frame.index()) * frame.len() as u64;
                    fill(&mut frame, seed, offset);
                }
                let key = self.port().regions().lend(&arena);
                self.lent.insert(key, arena);
                self.answer(link, key.to_bytes().to_vec());
            }
            command::TAKE_BACK => {
                let key = RegionKey::from_bytes(rest).expect("a key");
                self.port().regions().take_back(&key);
                self.lent.remove(&key);
                self.answer(link, Vec::new());
            }
            command::READ => {
                let key = RegionKey::from_bytes(&rest[..REGION_KEY_BYTES]).expect("a key");
                let (_, offset, length) = ((number(), number()), number(), number());
                self.next_token += 1;
                let token = self.next_token;
                self.reads.insert(token, link);
                let buffer = Buffer::Aligned(AlignedBuffer::new(length as usize));
                self.port().read(link, token, &key, offset, buffer);
            }
            command::SLEEP => self.asleep_until = self.clock.now() + Duration::from_millis(number()),
            command::CLOSE => self.port().close(link),
            command::RESTART => self.restart().expect("it listens again"),
            command::QUIT => return false,
            other => panic!("an unknown command {other}"),
        }
        true
    }

    fn answer_read(&mut self, completion: Completion) {
        let Some(link) = self.reads.remove(&completion.token) else { return };
        let buffer = completion.buffer.filter(|_| completion.result.is_ok());
        let answer = buffer.map_or(0, |buffer| saki_base::checksum(&buffer));
        self.answer(link, answer.to_le_bytes().to_vec());
    }
}
