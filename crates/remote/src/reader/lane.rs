//! One thread's way to another node's pages.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saki_base::{ArenaFrame, Buffer, Clock, PageAddress, PageSize};
use saki_fabric::FabricError;
use saki_io::{Wait, Waker};
use saki_page::{IoShare, PageLane, PageRead, PageWaker, Refusal, StoreError};

use super::owner::{Happened, Owner, State, answers};
use super::reads::{DEVICE, Ended, Read, Reads, Stage};
use super::shared::Shared;
use crate::wire::{ENTRIES_MOST, Outcome, Welcome};

/// How often it is looked for reads whose time is over.
const TICK: Duration = Duration::from_millis(5);
/// Frames that were read are told of with the next asks, or after so long, or when nothing else is under way.
const FREED_AFTER: Duration = Duration::from_millis(100);

/// A lane: a port, a link, and what is under way over it.
pub struct RemoteLane {
    owner: Owner,
    clock: Arc<dyn Clock>,
    page_size: PageSize,
    shared: Arc<Shared>,
    deadline: Duration,
    requests_most: usize,
    reads: Reads,
    /// Frames of the owner's that were read, and when the first of them was.
    freed: Vec<u32>,
    freed_since: Duration,
    happened: Vec<Happened>,
    finished: Vec<PageRead>,
    ticked_at: Duration,
    is_named: bool,
}

impl RemoteLane {
    pub fn new(
        owner: Owner,
        clock: Arc<dyn Clock>,
        page_size: PageSize,
        shared: &Arc<Shared>,
        deadline: Duration,
        requests_most: u32,
    ) -> Self {
        Self {
            owner,
            clock,
            page_size,
            shared: Arc::clone(shared),
            deadline,
            requests_most: requests_most.max(1) as usize,
            reads: Reads::default(),
            freed: Vec::new(),
            freed_since: Duration::ZERO,
            happened: Vec::new(),
            finished: Vec::new(),
            ticked_at: Duration::ZERO,
            is_named: false,
        }
    }

    /// What the owner counts as asked for and not freed, at most.
    fn window(&self) -> usize {
        match self.owner.state() {
            State::Open(Welcome { requests_most, .. }) => self.requests_most.min(*requests_most as usize),
            _ => self.requests_most,
        }
    }

    fn error(&self, address: PageAddress, what: &str) -> StoreError {
        StoreError { device: self.owner.name(), message: format!("{address}: {what}") }
    }

    fn end(&mut self, ended: Ended, memory: ArenaFrame, result: Result<(), StoreError>, from_copy: bool) {
        let before = ended.share.on_device(DEVICE).fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a read of {} has ended that was not counted", ended.address);
        ended.share.end();
        self.finished.push(PageRead { token: ended.token, memory, result, from_copy });
    }

    /// Tells the owner what is wanted and what was read.
    fn tell(&mut self) {
        if !matches!(self.owner.state(), State::Open(_)) {
            return;
        }
        let is_told = |lane: &Self| {
            !lane.freed.is_empty()
                && (lane.reads.len() == 0
                    || lane.freed.len() >= lane.window() / 4
                    || lane.clock.now() >= lane.freed_since + FREED_AFTER)
        };
        // Before the welcome more may have been taken than the owner allows.
        let known = self.reads.len() - self.reads.waiting();
        let room = self.window().saturating_sub(known).min(ENTRIES_MOST);
        if (self.reads.waiting() > 0 && room > 0) || is_told(self) {
            let asks = self.reads.ask(room);
            let freed = self.freed.split_off(self.freed.len().saturating_sub(ENTRIES_MOST));
            self.owner.ask(&freed, asks.into_iter());
        }
    }

    fn free(&mut self, frame: u32) {
        if self.freed.is_empty() {
            self.freed_since = self.clock.now();
        }
        self.freed.push(frame);
    }

    /// One exchange with the owner.
    fn exchange(&mut self, wait: Wait) -> bool {
        let mut happened = std::mem::take(&mut self.happened);
        self.owner.poll(wait, &mut happened);
        let has_happened = !happened.is_empty();
        for what in happened.drain(..) {
            match what {
                Happened::Answered(message) => self.answered(&message),
                Happened::Read { token, buffer: Buffer::Frame(memory), result } => {
                    self.read(token as u32, memory, result);
                }
                Happened::Read { .. } => unreachable!("pages are read into frames"),
                Happened::Lost => {
                    self.freed.clear();
                    self.reads.lose_all();
                }
            }
        }
        self.happened = happened;
        self.look_at_owner();
        has_happened
    }

    /// What was learned of the owner.
    fn look_at_owner(&mut self) {
        match self.owner.state() {
            State::Open(welcome) if welcome.page_bytes as usize != self.page_size.bytes() => {
                let (theirs, ours) = (welcome.page_bytes, self.page_size.bytes());
                self.owner.refuse(format!("it has pages of {theirs} bytes, and they should have {ours}"));
            }
            State::Open(_) if !self.is_named => {
                *self.shared.name.lock() = self.owner.name();
                self.is_named = true;
            }
            State::Refused { why, .. } if self.reads.waiting() > 0 => {
                let why = why.clone();
                let mut ended = Vec::new();
                self.reads.expire(|read| matches!(read.stage, Stage::Waiting(_)), &mut ended);
                for (read, memory) in ended {
                    let error = self.error(read.address, &why);
                    self.end(read, memory, Err(error), false);
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, message: &[u8]) {
        for (id, outcome) in answers(message) {
            // Answers that came before the link was given up.
            if !matches!(self.owner.state(), State::Open(_)) {
                return;
            }
            if !self.answer(id, outcome) {
                self.owner.refuse("it answered what it was not asked".into());
            }
        }
    }

    /// `false` if nothing was asked by this id.
    fn answer(&mut self, id: u32, outcome: Outcome<'_>) -> bool {
        match (self.reads.stage(id), outcome) {
            (Some(Stage::Asked(_)), Outcome::Page { frame }) => {
                let memory = self.reads.start(id, frame);
                self.owner.read(u64::from(id), frame, Buffer::Frame(memory));
            }
            (Some(Stage::Asked(_)), failed) => {
                let Some(Read { stage: Stage::Asked(memory), token, address, share, .. }) = self.reads.remove(id)
                else {
                    unreachable!("it was just seen");
                };
                let what = match failed {
                    Outcome::Unreadable(text) => text,
                    _ => "its chunk is not mapped to any device there",
                };
                let error = self.error(address, what);
                self.end(Ended { token, address, share }, memory, Err(error), false);
            }
            (Some(Stage::Forgotten), outcome) => {
                self.reads.remove(id);
                if let Outcome::Page { frame } = outcome {
                    self.free(frame);
                }
            }
            _ => return false,
        }
        true
    }

    /// The fabric has read a frame, or could not.
    fn read(&mut self, id: u32, memory: ArenaFrame, result: Result<(), Box<FabricError>>) {
        let Some(Read { stage: Stage::Reading { frame }, again, .. }) = self.reads.get(id) else {
            unreachable!("the fabric gives back what it was given");
        };
        let (frame, again) = (*frame, *again);
        match result {
            Ok(()) => {
                self.free(frame);
                let read = self.reads.remove(id).expect("it was just seen");
                // Wrong bytes may be the way's or the frame's: a page is read once more before it counts as damaged.
                self.end(Ended::of(&read), memory, Ok(()), !again);
            }
            Err(error) if is_of_frame(&error) => {
                self.free(frame);
                let read = self.reads.remove(id).expect("it was just seen");
                let error = self.error(read.address, &error.to_string());
                self.end(Ended::of(&read), memory, Err(error), false);
            }
            // The link went down, or will: another one may bring it.
            Err(_) => self.reads.wait_again(id, memory),
        }
    }

    /// Ends reads whose time is over.
    fn expire(&mut self) {
        let now = self.clock.now();
        if now < self.ticked_at + TICK {
            return;
        }
        self.ticked_at = now;
        let mut ended = Vec::new();
        let are_others = self.reads.expire(|read| now >= read.until, &mut ended);
        for (read, memory) in ended {
            let (after, trouble) = (self.deadline.as_millis(), self.owner.trouble());
            let error = self.error(read.address, &format!("did not come within {after} ms: {trouble}"));
            self.end(read, memory, Err(error), false);
        }
        if are_others {
            self.owner.restart();
        }
    }
}

/// Whether the owner named a frame that cannot be read, rather than that the link is down.
fn is_of_frame(error: &FabricError) -> bool {
    matches!(
        error,
        FabricError::UnknownRegion { .. }
            | FabricError::OutOfRegion { .. }
            | FabricError::TooLarge { .. }
            | FabricError::System { .. }
    )
}

impl PageLane for RemoteLane {
    fn try_read(
        &mut self,
        share: &Arc<IoShare>,
        address: PageAddress,
        memory: ArenaFrame,
        token: u64,
    ) -> Result<(), (ArenaFrame, Refusal)> {
        assert_eq!(memory.len(), self.page_size.bytes(), "{address} would be read into memory of another size");
        if self.reads.len() + self.freed.len() >= self.window() || !share.begin() {
            return Err((memory, Refusal::Busy(DEVICE)));
        }
        if share.on_device(DEVICE).fetch_add(1, Ordering::Relaxed) == 0 {
            share.meet(DEVICE);
        }
        let (until, again) = (self.clock.now() + self.deadline, self.shared.doubts.take(address));
        let (share, stage) = (Arc::clone(share), Stage::Waiting(memory));
        self.reads.add(Read { token, address, until, again, share, stage });
        Ok(())
    }

    fn poll(&mut self, wait: Option<Duration>, finished: &mut Vec<PageRead>) -> usize {
        let until = wait.map(|wait| self.clock.now().saturating_add(wait));
        let mut next = Wait::No;
        loop {
            self.tell();
            let has_happened = self.exchange(next);
            self.expire();
            if !self.finished.is_empty() {
                break;
            }
            // What was answered is read by the next exchange, without waiting.
            if has_happened {
                next = Wait::No;
                continue;
            }
            if matches!(next, Wait::AtMost(_)) {
                break;
            }
            let Some(left) = until.map(|until| until.saturating_sub(self.clock.now())) else { break };
            next = Wait::AtMost(if self.reads.len() > 0 { left.min(TICK) } else { left });
        }
        if self.reads.len() == 0 && !self.freed.is_empty() {
            self.tell();
            self.exchange(Wait::No);
        }
        let count = self.finished.len();
        finished.append(&mut self.finished);
        count
    }

    fn in_flight(&self) -> usize {
        self.reads.in_flight() + self.finished.len()
    }

    fn waker(&self) -> Arc<dyn PageWaker> {
        Arc::new(LaneWaker(self.owner.waker()))
    }
}

impl Drop for RemoteLane {
    /// What is under way counts no longer.
    fn drop(&mut self) {
        for share in self.reads.drain() {
            share.on_device(DEVICE).fetch_sub(1, Ordering::Relaxed);
            share.end();
        }
    }
}

struct LaneWaker(Arc<dyn Waker>);

impl PageWaker for LaneWaker {
    fn wake(&self) {
        self.0.wake();
    }
}
