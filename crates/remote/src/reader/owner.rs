//! The owner of pages as one lane knows it: a link that is made again when it is lost, and what was told over it.

use std::sync::Arc;
use std::time::Duration;

use saki_base::{Buffer, Clock};
use saki_fabric::{Completion, Event, FabricError, LinkId, Peer, Port, PortOptions, Transport};
use saki_io::{Wait, Waker};

use crate::wire::{self, Answers, Ask, Outcome, ToReader, VERSION, Welcome};

/// How long an owner that refuses is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// The token of messages; reads have smaller ones.
const MESSAGE: u64 = u64::MAX;

/// How far it is with the owner.
pub enum State {
    /// No link, or nothing was told over it yet.
    Apart,
    Open(Welcome),
    /// It is called again at this time.
    Refused {
        why: String,
        until: Duration,
    },
}

/// What happened.
pub enum Happened {
    /// Answers of the owner; the bytes are a message with [`ToReader::Answer`].
    Answered(Vec<u8>),
    /// The buffer of a read, and whether there is a page in it.
    Read { token: u64, buffer: Buffer, result: Result<(), Box<FabricError>> },
    /// What was asked for is forgotten; reads have ended before.
    Lost,
}

/// One link to an owner.
pub struct Owner {
    port: Port,
    link: LinkId,
    clock: Arc<dyn Clock>,
    address: String,
    /// Its number in the cluster, once it is known.
    node: Option<u64>,
    state: State,
    /// What went wrong last.
    trouble: Option<String>,
    events: Vec<Event>,
    /// The link was ended by this side, and nobody was told.
    is_lost: bool,
}

impl Owner {
    pub fn new(transport: Box<dyn Transport>, options: PortOptions, address: &str) -> Self {
        let clock = Arc::clone(&options.clock);
        let mut port = Port::new(transport, options);
        let link = port.connect(address);
        let (state, events) = (State::Apart, Vec::new());
        Self { port, link, clock, address: address.into(), node: None, state, trouble: None, events, is_lost: false }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// For messages.
    pub fn name(&self) -> String {
        match self.node {
            Some(node) => format!("node {node} at {}", self.address),
            None => format!("the node at {}", self.address),
        }
    }

    /// Why there is no answer, as far as that is known.
    pub fn trouble(&self) -> String {
        self.trouble.clone().unwrap_or_else(|| "no answer".into())
    }

    pub fn waker(&self) -> Arc<dyn Waker> {
        self.port.waker()
    }

    /// Frees frames and asks for pages; both are told in one message, with the next poll.
    pub fn ask(&mut self, freed: &[u32], asked: impl ExactSizeIterator<Item = Ask>) {
        self.port.send(self.link, MESSAGE, wire::encode_asks(freed, asked));
    }

    /// Reads a frame that the owner has lent.
    pub fn read(&mut self, token: u64, frame: u32, buffer: Buffer) {
        let State::Open(Welcome { region, page_bytes, .. }) = &self.state else {
            unreachable!("frames are lent by an owner that is there");
        };
        self.port.read(self.link, token, region, u64::from(frame) * u64::from(*page_bytes), buffer);
    }

    /// Appends what happened; the first of it is waited for.
    pub fn poll(&mut self, wait: Wait, happened: &mut Vec<Happened>) {
        if let State::Refused { until, .. } = self.state
            && self.clock.now() >= until
        {
            self.link = self.port.connect(&self.address);
            self.state = State::Apart;
        }
        let mut events = std::mem::take(&mut self.events);
        self.port.poll(wait, &mut events);
        events.drain(..).for_each(|event| self.take(event, happened));
        self.events = events;
        // After the reads that have ended by it.
        if std::mem::take(&mut self.is_lost) {
            happened.push(Happened::Lost);
        }
    }

    fn take(&mut self, event: Event, happened: &mut Vec<Happened>) {
        match event {
            Event::Completed(Completion { token, buffer: Some(buffer), result, .. }) => {
                happened.push(Happened::Read { token, buffer, result });
            }
            // Of messages that did not go, the link's end tells.
            Event::Completed(Completion { link, result: Err(error), .. }) => {
                if link == self.link && matches!(*error, FabricError::Busy { .. } | FabricError::TooLarge { .. }) {
                    self.refuse(error.to_string());
                }
            }
            Event::Up { link, peer: Peer { node, .. } } if link == self.link => {
                self.node = Some(node);
                self.port.send(link, MESSAGE, wire::encode_enter(VERSION));
            }
            Event::Message { link, bytes } if link == self.link => self.hear(bytes, happened),
            Event::Down { link, error, again } if link == self.link => {
                happened.push(Happened::Lost);
                if again {
                    (self.state, self.trouble) = (State::Apart, Some(error.to_string()));
                } else if !matches!(self.state, State::Refused { .. }) {
                    self.refuse(error.to_string());
                }
            }
            Event::Completed(_) | Event::Up { .. } | Event::Message { .. } | Event::Down { .. } => {}
        }
    }

    fn hear(&mut self, message: Vec<u8>, happened: &mut Vec<Happened>) {
        match (ToReader::decode(&message), &self.state) {
            (Some(ToReader::Welcome(welcome)), State::Apart) => self.state = State::Open(welcome),
            (Some(ToReader::Answer(_)), State::Open(_)) => happened.push(Happened::Answered(message)),
            (Some(ToReader::Refused { version, why }), State::Apart) => {
                let why = format!("{why} (it has version {version} of the conversation, this node {VERSION})");
                self.refuse(why);
            }
            // What came over a link that is given up already.
            (_, State::Refused { .. }) => {}
            _ => self.refuse("it sent what no owner of pages sends".into()),
        }
    }

    /// Leaves the owner alone for a while.
    pub fn refuse(&mut self, why: String) {
        self.trouble = Some(why.clone());
        self.state = State::Refused { why, until: self.clock.now() + PAUSE };
        self.port.close(self.link);
    }

    /// Ends the link, so that reads give their buffers back, and makes another.
    pub fn restart(&mut self) {
        if let State::Open(_) = self.state {
            self.port.close(self.link);
            self.link = self.port.connect(&self.address);
            (self.state, self.is_lost) = (State::Apart, true);
        }
    }
}

/// The answers of a message that [`Happened::Answered`] has brought.
pub fn answers(message: &[u8]) -> impl Iterator<Item = (u32, Outcome<'_>)> {
    let answers = match ToReader::decode(message) {
        Some(ToReader::Answer(answers)) => Some(answers),
        _ => None,
    };
    answers.into_iter().flat_map(|answers: Answers<'_>| answers.iter().collect::<Vec<_>>())
}
