//! What a link is made of, and how it ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use saki_base::{Arena, Buffer};

use super::slots::Slots;
use crate::error::FabricError;
use crate::event::{Completion, Event, LinkId};
use crate::options::PortOptions;
use crate::region::RegionKey;
use crate::stream::{Stream, Targets};
use crate::transport::{Attachment, Direct, Transport, Wire};
use crate::wire::{Goodbye, Hello, Kind};

/// First pause before a peer is called again; doubles up to [`PAUSE_MOST`].
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MOST: Duration = Duration::from_secs(1);

/// What a link works with, lent by its port for one step.
pub struct Scene<'s> {
    pub now: Duration,
    pub events: &'s mut Vec<Event>,
    pub transport: &'s mut dyn Transport,
    pub options: &'s PortOptions,
    /// Of this node, and told to peers.
    pub incarnation: u64,
}

/// How far a link is.
pub enum Stage {
    /// No connection; to be called at this time.
    Apart {
        call_at: Duration,
    },
    /// Called by us: our greeting is sent or queued.
    Calling {
        mine: Hello,
        since: Duration,
    },
    /// We have been called, and wait for a greeting.
    Called {
        since: Duration,
    },
    /// We have greeted, and wait for the proof.
    Greeted {
        mine: Hello,
        theirs: Hello,
        since: Duration,
    },
    /// We have proved who we are, and wait to hear that the link is up.
    Proved {
        theirs: Hello,
        since: Duration,
    },
    /// The peer is known, and attaches its side of the direct way.
    Attaching {
        theirs: Hello,
        attachment: Box<dyn Attachment>,
        since: Duration,
    },
    Up,
    /// To be forgotten.
    Ended,
}

pub struct Sending {
    pub token: u64,
    pub message: Vec<u8>,
    pub deadline: Duration,
}

pub struct Reading {
    pub token: u64,
    pub key: RegionKey,
    pub offset: u64,
    pub buffer: Buffer,
    pub deadline: Duration,
}

/// A region of the peer's.
pub struct Region {
    pub key: RegionKey,
    /// `None` until the peer has opened it.
    pub opened: Option<(u32, u64)>,
}

/// A region of ours that the peer has opened; its place in the list is the handle.
pub struct Granted {
    pub key: RegionKey,
    pub arena: Arc<Arena>,
}

/// Reads under way, found by the slots that come back with their bytes.
pub struct UnderWay {
    pub slots: Slots<Reading>,
    pub bytes: usize,
}

impl Targets for UnderWay {
    fn target(&mut self, slot: u32) -> Option<&mut [u8]> {
        self.slots.get(slot).map(|reading| &mut *reading.buffer)
    }
}

/// One peer.
pub struct Link {
    pub id: LinkId,
    pub peer: String,
    /// We call, and call again.
    pub calls: bool,
    pub stage: Stage,
    // Dropped before the buffers of reads, which a device may be writing into until then.
    pub direct: Option<Box<dyn Direct>>,
    pub stream: Option<Stream>,
    pub under_way: UnderWay,
    pub sends: VecDeque<Sending>,
    pub sends_bytes: usize,
    pub reads: VecDeque<Reading>,
    pub regions: Vec<Region>,
    pub granted: Vec<Option<Granted>>,
    pub taken_back_seen: u64,
    pub heard_at: Duration,
    pub spoke_at: Duration,
    pub writes_watched: bool,
    pub pause: Duration,
    /// Why the last try to connect failed.
    pub last_error: Option<FabricError>,
    /// The owner was told that it is down.
    pub told_down: bool,
}

impl Link {
    fn new(id: LinkId, peer: String, calls: bool, stage: Stage) -> Self {
        Self {
            id,
            peer,
            calls,
            stage,
            direct: None,
            stream: None,
            under_way: UnderWay { slots: Slots::new(), bytes: 0 },
            sends: VecDeque::new(),
            sends_bytes: 0,
            reads: VecDeque::new(),
            regions: Vec::new(),
            granted: Vec::new(),
            taken_back_seen: 0,
            heard_at: Duration::ZERO,
            spoke_at: Duration::ZERO,
            writes_watched: false,
            pause: PAUSE_FIRST,
            last_error: None,
            told_down: false,
        }
    }

    /// A peer that we call.
    pub fn calling(id: LinkId, address: &str, now: Duration) -> Self {
        Self::new(id, address.into(), true, Stage::Apart { call_at: now })
    }

    /// A peer that has called.
    pub fn called(id: LinkId, wire: Box<dyn Wire>, scene: &mut Scene<'_>) -> Result<Self, FabricError> {
        let peer = format!("(caller {})", id.0);
        let mut link = Self::new(id, peer.clone(), false, Stage::Called { since: scene.now });
        scene.transport.watch(&*wire, id.0)?;
        link.stream = Some(Stream::new(wire, &peer));
        link.writes_watched = true;
        link.heard_at = scene.now;
        Ok(link)
    }

    /// Takes the peer for known.
    pub fn assume_up(&mut self) {
        self.stage = Stage::Up;
        self.stream.iter_mut().for_each(Stream::trust);
    }

    pub fn is_up(&self) -> bool {
        matches!(self.stage, Stage::Up)
    }

    pub fn is_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    /// Operations accepted and not completed.
    pub fn operations(&self) -> usize {
        self.sends.len() + self.reads.len() + self.under_way.slots.len()
    }

    /// Queues a frame. What it is for has a connection.
    pub fn put(&mut self, kind: Kind, slot: u32, body: &[u8]) {
        if let Some(stream) = &mut self.stream {
            stream.put(kind, slot, body);
        }
    }

    pub fn complete(&self, token: u64, buffer: Option<Buffer>, result: Result<(), FabricError>, scene: &mut Scene<'_>) {
        let result = result.map_err(Box::new);
        scene.events.push(Event::Completed(Completion { link: self.id, token, buffer, result }));
    }

    /// Takes the connection down: every operation completes with the error. A peer that we call is called again, if
    /// that may help.
    pub fn fail(&mut self, error: FabricError, scene: &mut Scene<'_>) {
        if self.is_ended() {
            return;
        }
        let again = self.calls && error.may_pass();
        let was_up = self.is_up();
        if let Some(farewell) = farewell(&error, scene.options) {
            self.put(Kind::Goodbye, 0, &farewell.encode());
            let _ = self.stream.as_mut().map(Stream::flush);
        }
        // The direct way first: from then on no device writes into the buffers of reads.
        self.direct = None;
        self.stream = None;
        self.regions.clear();
        self.granted.clear();
        self.writes_watched = false;
        // Before a link was up for the first time since it went down, its operations wait for the next try.
        if was_up || !again {
            self.fail_operations(&error, scene);
        }
        if was_up {
            self.pause = PAUSE_FIRST;
        }
        if again {
            self.stage = Stage::Apart { call_at: scene.now + self.pause };
            self.pause = (self.pause * 2).min(PAUSE_MOST);
        } else {
            self.stage = Stage::Ended;
        }
        if was_up || !self.told_down || !again {
            self.told_down = true;
            scene.events.push(Event::Down { link: self.id, error: error.clone(), again });
        }
        self.last_error = Some(error);
    }

    /// Completes everything with the error.
    pub fn fail_operations(&mut self, error: &FabricError, scene: &mut Scene<'_>) {
        self.under_way.bytes = 0;
        let under_way: Vec<_> = self.under_way.slots.drain().collect();
        for reading in under_way.into_iter().chain(std::mem::take(&mut self.reads)) {
            self.complete(reading.token, Some(reading.buffer), Err(error.clone()), scene);
        }
        self.sends_bytes = 0;
        for sending in std::mem::take(&mut self.sends) {
            self.complete(sending.token, None, Err(error.clone()), scene);
        }
    }
}

/// What is said to a peer that a connection is ended with.
fn farewell(error: &FabricError, options: &PortOptions) -> Option<Goodbye> {
    match error {
        FabricError::Closed { .. } => Some(Goodbye::Done),
        FabricError::Version { .. } => {
            Some(Goodbye::Version { version: options.version, build: options.build.clone() })
        }
        FabricError::Unauthenticated { .. } => Some(Goodbye::Unauthenticated),
        FabricError::Corrupt { .. } => Some(Goodbye::Corrupt),
        _ => None,
    }
}
