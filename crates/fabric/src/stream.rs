//! Frames over a wire: gathered on their way out, so that one system call carries many, and taken apart on their way
//! in; bytes that were read from a region go straight into the buffer that waits for them.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use saki_base::Arena;

use crate::error::FabricError;
use crate::system::{Lent, PIECES_MOST, Piece};
use crate::transport::Wire;
use crate::wire::{HEAD_BYTES, Head, Kind, encode_head};

/// Where bytes are received that have no buffer of their own waiting; holds any frame but [`Kind::Data`].
const RECEIVE_BYTES: usize = crate::wire::MESSAGE_BYTES_MAX + (64 << 10);
/// Before a peer has shown who it is, no more is kept for it.
const RECEIVE_BYTES_FIRST: usize = 4096;
/// Descriptors that may wait for the frames they belong to.
const DESCRIPTORS_MOST: usize = 4;
/// Owned bytes that were sent are kept until there are so many.
const SENT_BYTES_KEPT: usize = 64 << 10;

/// Where the bytes of reads go.
pub trait Targets {
    /// The buffer of a read that is waited for; `None` if there is none of this slot.
    fn target(&mut self, slot: u32) -> Option<&mut [u8]>;
}

/// What is to be sent, in order.
enum Queued {
    /// So many of the owned bytes.
    Owned(usize),
    Lent(Lent),
    /// The arena's file goes beside the byte that follows.
    ArenaFile(Arc<Arena>),
    /// Likewise, of another file.
    File(OwnedFd),
}

/// A wire, and frames half sent and half received.
pub struct Stream {
    wire: Box<dyn Wire>,
    peer: String,
    queue: VecDeque<Queued>,
    /// Heads and bodies of queued frames, without what is lent; those before `owned_sent` are sent.
    owned: Vec<u8>,
    owned_sent: usize,
    /// How much of the first in the queue is sent.
    first_sent: usize,
    queued_bytes: usize,
    sequence_out: u32,
    buffer: Vec<u8>,
    received: Range<usize>,
    sequence_in: u32,
    /// Of the data that is being received: its slot and how much is there.
    data: Option<(Head, usize)>,
    descriptors: Vec<OwnedFd>,
    ended: bool,
}

impl Stream {
    pub fn new(wire: Box<dyn Wire>, peer: &str) -> Self {
        Self {
            wire,
            peer: peer.into(),
            queue: VecDeque::new(),
            owned: Vec::new(),
            owned_sent: 0,
            first_sent: 0,
            queued_bytes: 0,
            sequence_out: 0,
            buffer: vec![0; RECEIVE_BYTES_FIRST],
            received: 0..0,
            sequence_in: 0,
            data: None,
            descriptors: Vec::new(),
            ended: false,
        }
    }

    pub fn wire(&self) -> &dyn Wire {
        &*self.wire
    }

    /// The peer is known: frames of any length may come.
    pub fn trust(&mut self) {
        self.buffer.resize(RECEIVE_BYTES, 0);
    }

    /// Bytes that are to be sent still.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    pub fn put(&mut self, kind: Kind, slot: u32, body: &[u8]) {
        let head = encode_head(kind, self.sequence_out, slot, body.len(), body);
        self.sequence_out = self.sequence_out.wrapping_add(1);
        self.put_owned(&head);
        self.put_owned(body);
    }

    /// A frame with an arena's file beside it.
    pub fn put_with_arena(&mut self, kind: Kind, slot: u32, body: &[u8], arena: &Arc<Arena>) {
        self.queue.push_back(Queued::ArenaFile(Arc::clone(arena)));
        self.put(kind, slot, body);
    }

    /// A frame with a file beside it.
    pub fn put_with_file(&mut self, kind: Kind, slot: u32, body: &[u8], file: OwnedFd) {
        self.queue.push_back(Queued::File(file));
        self.put(kind, slot, body);
    }

    /// The answer to a read.
    pub fn put_data(&mut self, slot: u32, lent: Lent) {
        let head = encode_head(Kind::Data, self.sequence_out, slot, lent.len(), &[]);
        self.sequence_out = self.sequence_out.wrapping_add(1);
        self.put_owned(&head);
        self.queued_bytes += lent.len();
        self.queue.push_back(Queued::Lent(lent));
    }

    fn put_owned(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.owned.extend_from_slice(bytes);
        self.queued_bytes += bytes.len();
        match self.queue.back_mut() {
            Some(Queued::Owned(count)) => *count += bytes.len(),
            _ => self.queue.push_back(Queued::Owned(bytes.len())),
        }
    }

    /// Hands as much to the wire as it takes.
    pub fn flush(&mut self) -> Result<(), FabricError> {
        while self.queued_bytes > 0 {
            match self.write_once() {
                Ok(0) => return Err(FabricError::disconnected(&self.peer, "nothing more can be sent")),
                Ok(count) => self.sent(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FabricError::disconnected(&self.peer, error.to_string())),
            }
        }
        Ok(())
    }

    fn write_once(&mut self) -> io::Result<usize> {
        let mut pieces: [Piece<'_>; PIECES_MOST] = [const { Piece::Owned(&[]) }; PIECES_MOST];
        let (mut count, mut owned, mut skip) = (0, self.owned_sent, self.first_sent);
        let mut descriptor: Option<BorrowedFd<'_>> = None;
        for queued in &self.queue {
            match queued {
                _ if count == PIECES_MOST => break,
                // A descriptor goes beside the first byte of a call, so it ends the one before.
                Queued::ArenaFile(_) | Queued::File(_) if count > 0 || descriptor.is_some() => break,
                Queued::ArenaFile(arena) => descriptor = arena.file(),
                Queued::File(file) => descriptor = Some(file.as_fd()),
                Queued::Owned(bytes) => {
                    pieces[count] = Piece::Owned(&self.owned[owned..owned + bytes - skip]);
                    owned += bytes - skip;
                    (count, skip) = (count + 1, 0);
                }
                Queued::Lent(lent) => {
                    pieces[count] = Piece::Lent(lent, skip);
                    (count, skip) = (count + 1, 0);
                }
            }
        }
        self.wire.write(&pieces[..count], descriptor)
    }

    fn sent(&mut self, mut count: usize) {
        self.queued_bytes -= count;
        while count > 0 {
            let length = match self.queue.front().expect("no more is sent than was queued") {
                Queued::Owned(bytes) => *bytes,
                Queued::Lent(lent) => lent.len(),
                Queued::ArenaFile(_) | Queued::File(_) => {
                    self.queue.pop_front();
                    continue;
                }
            };
            let now = count.min(length - self.first_sent);
            if matches!(self.queue.front(), Some(Queued::Owned(_))) {
                self.owned_sent += now;
            }
            self.first_sent += now;
            count -= now;
            if self.first_sent == length {
                self.queue.pop_front();
                self.first_sent = 0;
            }
        }
        // What is in the front has its bytes counted from `first_sent` on; only whole ones may be forgotten.
        if self.owned_sent == self.owned.len() {
            self.owned.clear();
            self.owned_sent = 0;
        } else if self.owned_sent > SENT_BYTES_KEPT {
            self.owned.drain(..self.owned_sent);
            self.owned_sent = 0;
        }
    }

    /// Reads once from the wire. `false`: nothing was there.
    pub fn receive(&mut self, targets: &mut dyn Targets) -> Result<bool, FabricError> {
        if self.received.is_empty() {
            self.received = 0..0;
        } else if self.received.start > self.buffer.len() / 2 {
            self.buffer.copy_within(self.received.clone(), 0);
            self.received = 0..self.received.len();
        }
        let first = match self.data {
            Some((head, done)) => &mut self.target(targets, head)?[done..],
            None => &mut [][..],
        };
        let rest = &mut self.buffer[self.received.end..];
        let direct = first.len();
        match self.wire.read(first, rest, &mut self.descriptors) {
            Ok(0) => {
                self.ended = true;
                Err(FabricError::disconnected(&self.peer, "the peer ended it"))
            }
            Ok(count) => {
                if let Some((_, done)) = &mut self.data {
                    *done += count.min(direct);
                }
                self.received.end += count.saturating_sub(direct);
                if self.descriptors.len() > DESCRIPTORS_MOST {
                    return Err(FabricError::corrupt(&self.peer, "more descriptors than frames for them"));
                }
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(false),
            Err(error) => Err(FabricError::disconnected(&self.peer, error.to_string())),
        }
    }

    fn target<'t>(&self, targets: &'t mut dyn Targets, head: Head) -> Result<&'t mut [u8], FabricError> {
        let wrong = |what: String| FabricError::corrupt(&self.peer, what);
        let target = targets.target(head.slot).ok_or_else(|| wrong("data that nobody asked for".into()))?;
        if target.len() != head.length {
            return Err(wrong(format!("{} bytes for a read of {}", head.length, target.len())));
        }
        Ok(target)
    }

    /// The next whole frame among what was received, and where its body is; of data, which is in its target then, an
    /// empty place.
    pub fn next(&mut self, targets: &mut dyn Targets) -> Result<Option<(Head, Range<usize>)>, FabricError> {
        if let Some((head, done)) = self.data {
            return self.next_of_data(targets, head, done);
        }
        let Some(bytes) = self.buffer[self.received.clone()].first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let head = Head::decode(bytes).map_err(|what| FabricError::corrupt(&self.peer, what))?;
        if head.sequence != self.sequence_in {
            let what = format!("frame {} after frame {}", head.sequence, self.sequence_in.wrapping_sub(1));
            return Err(FabricError::corrupt(&self.peer, what));
        }
        if head.kind == Kind::Data {
            self.check(&head, 0..0)?;
            self.received.start += HEAD_BYTES;
            return self.next_of_data(targets, head, 0);
        }
        if HEAD_BYTES + head.length > self.buffer.len() {
            let what = format!("a frame {:?} of {} bytes, before its time", head.kind, head.length);
            return Err(FabricError::corrupt(&self.peer, what));
        }
        if self.received.len() < HEAD_BYTES + head.length {
            // Room for the rest of it.
            if self.received.start + HEAD_BYTES + head.length > self.buffer.len() {
                self.buffer.copy_within(self.received.clone(), 0);
                self.received = 0..self.received.len();
            }
            return Ok(None);
        }
        let body = self.received.start + HEAD_BYTES..self.received.start + HEAD_BYTES + head.length;
        self.check(&head, body.clone())?;
        self.received.start = body.end;
        Ok(Some((head, body)))
    }

    fn check(&mut self, head: &Head, body: Range<usize>) -> Result<(), FabricError> {
        self.sequence_in = self.sequence_in.wrapping_add(1);
        if head.holds(&self.buffer[body]) {
            return Ok(());
        }
        Err(FabricError::corrupt(&self.peer, format!("a frame {:?} with a wrong checksum", head.kind)))
    }

    fn next_of_data(
        &mut self,
        targets: &mut dyn Targets,
        head: Head,
        done: usize,
    ) -> Result<Option<(Head, Range<usize>)>, FabricError> {
        let target = &mut self.target(targets, head)?[done..];
        let count = target.len().min(self.received.len());
        let from = self.received.start..self.received.start + count;
        target[..count].copy_from_slice(&self.buffer[from]);
        self.received.start += count;
        let done = done + count;
        let whole = done == head.length;
        self.data = (!whole).then_some((head, done));
        Ok(whole.then_some((head, 0..0)))
    }

    /// The bytes of a body that [`Stream::next`] has found.
    pub fn body(&self, place: Range<usize>) -> &[u8] {
        &self.buffer[place]
    }

    /// The descriptor that came beside a frame, if any.
    pub fn descriptor(&mut self) -> Option<OwnedFd> {
        if self.descriptors.is_empty() { None } else { Some(self.descriptors.remove(0)) }
    }
}
