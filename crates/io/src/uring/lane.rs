//! One thread's ring: see the introduction of the parent module.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::types::{Fd, Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use saki_base::{Arena, ArenaFrame, Buffer};

use super::waker::EventWaker;
use crate::device::{Completion, DeviceError, Lane, Operation, OperationKind, Partner, Wait, Waker};
use crate::file::DeviceFile;
use crate::in_flight::Slab;

/// Completion entries kept free for the waker's, so that the ring cannot overflow.
const COMPLETIONS_SPARE: u32 = 16;
/// The kernel registers buffers of at most 1 GiB.
const REGISTERED_BUFFER_BYTES_MAX: usize = 1 << 30;

/// Files that one ring serves, at most: a database's devices.
pub(super) const FILES_MAX: usize = 64;
/// `user_data` of the poll on the waker's event; others are slab indices, which are 32-bit.
const WAKE_TOKEN: u64 = u64::MAX;

pub(super) struct UringLane {
    // First, so that it is closed before anything it refers to goes.
    ring: IoUring,
    registered: Option<RegisteredArena>,
    /// Registered with the ring, in this order; the first is the lane's own.
    files: Vec<Arc<DeviceFile>>,
    slab: Slab<InFlight>,
    /// Slots not yet in the submission ring, oldest first.
    queued: VecDeque<u32>,
    /// Slots in the ring or the kernel.
    in_ring: u32,
    /// As many as the completion ring has room for.
    in_ring_max: u32,
    /// Refused by `submit`, to be returned by the next poll.
    refused: Vec<Completion>,
    waker: Arc<EventWaker>,
    /// The ring polls the waker's event.
    waker_armed: bool,
    /// The ring is bound to this lane's thread.
    enabled: bool,
}

/// An operation and how much of it is done.
struct InFlight {
    operation: Operation,
    done_bytes: usize,
    /// Its place among the lane's files.
    file: u32,
}

impl UringLane {
    pub fn new(ring: IoUring, file: Arc<DeviceFile>, registered: Option<RegisteredArena>) -> io::Result<Self> {
        Ok(Self {
            in_ring_max: ring.params().cq_entries() - COMPLETIONS_SPARE,
            ring,
            registered,
            files: vec![file],
            slab: Slab::new(),
            queued: VecDeque::new(),
            in_ring: 0,
            refused: Vec::new(),
            waker: Arc::new(EventWaker::new()?),
            waker_armed: false,
            enabled: false,
        })
    }

    fn enable(&mut self) {
        if !self.enabled {
            // Can only fail for a ring that is not disabled, that is, by a mistake of this module.
            self.ring.submitter().register_enable_rings().expect("a new ring can be enabled");
            self.enabled = true;
        }
    }

    /// Moves queued operations into the submission ring while there is room.
    fn fill_ring(&mut self) {
        while self.in_ring < self.in_ring_max && !self.ring.submission().is_full() {
            let Some(slot) = self.queued.pop_front() else { return };
            let entry = prepare(self.slab.entry(slot), self.registered.as_ref()).user_data(u64::from(slot));
            // SAFETY: the buffer that the entry points into lies in the slab
            // until `reap` has seen this slot's completion, and nothing else
            // reaches it meanwhile; drop waits for, or leaks, the rest.
            unsafe { self.ring.submission().push(&entry) }.expect("room was just seen");
            self.in_ring += 1;
        }
    }

    /// Enters the kernel to submit everything and collect what is done, if there is anything of either.
    fn enter(&mut self) {
        loop {
            self.fill_ring();
            let (pending, task_work) = {
                let submission = self.ring.submission();
                (!submission.is_empty(), submission.taskrun() || submission.cq_overflow())
            };
            if !pending && !task_work {
                return;
            }
            if !tolerate(self.ring.submit()) || self.queued.is_empty() || self.in_ring >= self.in_ring_max {
                return;
            }
        }
    }

    /// Submits everything and waits for a completion or a wake, at most until `deadline`. `true` if woken.
    fn enter_and_wait(&mut self, deadline: Instant) -> bool {
        self.arm_waker();
        // More than one ring full: hand over all but the last part without waiting.
        if !self.queued.is_empty() {
            self.enter();
        }
        if !self.waker.begin_wait() {
            self.enter();
            return true;
        }
        let left = Timespec::from(deadline.saturating_duration_since(Instant::now()));
        let _ = tolerate(self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&left)));
        self.waker.end_wait()
    }

    fn arm_waker(&mut self) {
        if self.waker_armed || self.ring.submission().is_full() {
            return;
        }
        let poll = opcode::PollAdd::new(Fd(self.waker.event()), libc::POLLIN as u32).multi(true).build();
        // SAFETY: the entry refers to no memory; the descriptor is kept open by the lane's waker, which drops after the
        // ring.
        unsafe { self.ring.submission().push(&poll.user_data(WAKE_TOKEN)) }.expect("room was just seen");
        self.waker_armed = true;
    }

    /// Takes all completions out of the ring; returns how many operations ended.
    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        for entry in self.ring.completion() {
            if entry.user_data() == WAKE_TOKEN {
                // The kernel ends a repeated poll at times; the next wait arms it again.
                self.waker_armed &= cqueue::more(entry.flags());
                continue;
            }
            let slot = entry.user_data() as u32;
            self.in_ring -= 1;
            let in_flight = self.slab.entry(slot);
            match in_flight.advance(entry.result(), &self.files[in_flight.file as usize]) {
                Progress::Continue => self.queued.push_front(slot),
                Progress::Ended(result) => {
                    completions.push(self.slab.remove(slot).operation.complete(result));
                }
            }
        }
        completions.len() - before
    }
}

impl Lane for UringLane {
    fn submit(&mut self, operation: Operation) {
        self.submit_to(0, operation);
    }

    fn submit_to(&mut self, file: u32, operation: Operation) {
        match self.files[file as usize].check(&operation) {
            Ok(()) => {
                let slot = self.slab.insert(InFlight { operation, done_bytes: 0, file });
                self.queued.push_back(slot);
            }
            Err(error) => self.refused.push(operation.complete(Err(error))),
        }
    }

    fn join(&mut self, partner: &Partner) -> Option<u32> {
        let file = partner.0.downcast_ref::<Arc<DeviceFile>>()?;
        if let Some(place) = self.files.iter().position(|joined| Arc::ptr_eq(joined, file)) {
            return Some(place as u32);
        }
        let place = self.files.len();
        if place == FILES_MAX {
            return None;
        }
        // A ring that is not enabled yet takes no changes from the thread that it will belong to.
        self.enable();
        let registered = self.ring.submitter().register_files_update(place as u32, &[file.file().as_raw_fd()]);
        if let Err(error) = registered {
            tracing::debug!("{}: has a ring of its own: {error}", file.name());
            return None;
        }
        self.files.push(Arc::clone(file));
        Some(place as u32)
    }

    fn flush_submissions(&mut self) {
        if !self.queued.is_empty() {
            self.enable();
            self.enter();
        }
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> usize {
        self.enable();
        let mut count = self.refused.len();
        completions.append(&mut self.refused);
        count += self.reap(completions);
        let deadline = wait.deadline(Instant::now()).filter(|_| count == 0);
        let Some(deadline) = deadline else {
            self.enter();
            return count + self.reap(completions);
        };
        loop {
            self.fill_ring();
            let woken = self.enter_and_wait(deadline);
            let count = self.reap(completions);
            if count > 0 || woken || Instant::now() >= deadline {
                return count;
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.slab.len() + self.refused.len()
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::clone(&self.waker) as Arc<dyn Waker>
    }
}

impl Drop for UringLane {
    /// Carries out what was accepted, and waits for it.
    fn drop(&mut self) {
        let mut rest = Vec::new();
        while self.slab.len() > 0 {
            if !self.enabled && self.ring.submitter().register_enable_rings().is_err() {
                break;
            }
            self.enabled = true;
            self.fill_ring();
            match self.ring.submit_and_wait(1) {
                Err(error) if !is_passing(&error) => {
                    tracing::error!(
                        "{}: {} operations were abandoned with their lane ({error}); their buffers are leaked",
                        self.files[0].name(),
                        self.slab.len()
                    );
                    break;
                }
                _ => self.reap(&mut rest),
            };
            rest.clear();
        }
        if self.slab.len() > 0 {
            // The kernel may still write into these buffers, and into the
            // arena behind them: neither is ever freed.
            std::mem::forget(std::mem::replace(&mut self.slab, Slab::new()));
        }
    }
}

enum Progress {
    /// To be submitted (again) for the bytes still missing.
    Continue,
    Ended(Result<(), DeviceError>),
}

impl InFlight {
    /// Accounts for one completion of the kernel: bytes transferred, or a negative error number.
    fn advance(&mut self, answer: i32, file: &DeviceFile) -> Progress {
        let Operation { kind, offset, .. } = self.operation;
        if answer < 0 {
            let error = io::Error::from_raw_os_error(-answer);
            if is_passing(&error) {
                return Progress::Continue;
            }
            return Progress::Ended(Err(DeviceError::from_system(file.name(), kind.action(), offset, &error)));
        }
        if kind == OperationKind::Flush {
            return Progress::Ended(Ok(()));
        }
        let length = self.operation.length_bytes();
        let reached = self.done_bytes + answer as usize;
        assert!(reached <= length, "{reached} bytes were transferred of {length}");
        if reached >= length {
            return Progress::Ended(Ok(()));
        }
        // Direct I/O goes on at a block's start only: a broken block is transferred again.
        let whole = reached - reached % file.block_bytes();
        if whole == self.done_bytes {
            let end = DeviceError::OutOfRange { device: file.name().into(), offset, length: length as u64 };
            return Progress::Ended(Err(end));
        }
        self.done_bytes = whole;
        Progress::Continue
    }
}

/// The kernel's form of what is left of an operation.
fn prepare(in_flight: &mut InFlight, registered: Option<&RegisteredArena>) -> squeue::Entry {
    let InFlight { operation, done_bytes, file } = in_flight;
    let file = Fixed(*file);
    let Some(buffer) = &mut operation.buffer else {
        return opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build();
    };
    let fixed = registered.and_then(|registered| registered.buffer_of(buffer));
    let offset = operation.offset + *done_bytes as u64;
    assert!(*done_bytes < buffer.len(), "an operation is submitted that is done");
    let rest = &mut buffer[*done_bytes..];
    // The kernel transfers less than 2 GiB at once; longer ones continue as short ones do.
    let length = rest.len().min(1 << 30) as u32;
    let start = rest.as_mut_ptr();
    match (operation.kind, fixed) {
        (OperationKind::Read, Some(index)) => opcode::ReadFixed::new(file, start, length, index).offset(offset).build(),
        (OperationKind::Read, None) => opcode::Read::new(file, start, length).offset(offset).build(),
        (OperationKind::Write, Some(index)) => {
            opcode::WriteFixed::new(file, start, length, index).offset(offset).build()
        }
        (OperationKind::Write, None) => opcode::Write::new(file, start, length).offset(offset).build(),
        (OperationKind::Flush, _) => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
    }
}

/// An arena whose memory the ring has pinned, as one buffer per GiB.
pub(super) struct RegisteredArena {
    arena: Arc<Arena>,
    frames_per_buffer: u32,
}

impl RegisteredArena {
    pub(super) fn register(ring: &IoUring, arena: &Arc<Arena>) -> io::Result<Self> {
        let (start, bytes) = arena.region();
        // Whole frames per buffer, because a transfer may not straddle two.
        let frames_per_buffer = REGISTERED_BUFFER_BYTES_MAX / arena.frame_bytes();
        if frames_per_buffer == 0 {
            return Err(io::Error::other("an arena frame is larger than 1 GiB"));
        }
        let buffer_bytes = frames_per_buffer * arena.frame_bytes();
        let buffers: Vec<libc::iovec> = (0..bytes)
            .step_by(buffer_bytes)
            .map(|offset| libc::iovec {
                iov_base: start.wrapping_add(offset).cast(),
                iov_len: buffer_bytes.min(bytes - offset),
            })
            .collect();
        // SAFETY: the regions lie within the arena's mapping, which `arena`,
        // kept in the returned value, holds until after the ring is closed
        // (`UringLane` declares the ring first).
        unsafe { ring.submitter().register_buffers(&buffers)? };
        Ok(Self { arena: Arc::clone(arena), frames_per_buffer: u32::try_from(frames_per_buffer).unwrap_or(u32::MAX) })
    }

    /// The registered buffer that holds `buffer`, if it is a frame of this arena.
    fn buffer_of(&self, buffer: &Buffer) -> Option<u16> {
        match buffer {
            Buffer::Frame(frame) if Arc::ptr_eq(frame.arena(), &self.arena) => {
                u16::try_from(ArenaFrame::index(frame) / self.frames_per_buffer).ok()
            }
            _ => None,
        }
    }
}

/// Errors of `enter` or of one operation that pass by themselves.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        // Interrupted; the time is over; short of memory or tags; the completion ring has to be emptied first.
        Some(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::ENOMEM | libc::EBUSY)
    )
}

/// Whether the ring took what it was given. Passing errors are answered by the next poll.
fn tolerate(entered: io::Result<usize>) -> bool {
    match entered {
        Ok(_) => true,
        Err(error) if is_passing(&error) => {
            if matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::EAGAIN)) {
                // The next try follows at once: leave the kernel a moment to find memory.
                std::thread::sleep(Duration::from_micros(100));
            }
            false
        }
        // EEXIST: a second thread used the lane, which its contract forbids. Anything else is a
        // mistake of this module; going on would lose operations silently.
        Err(error) => panic!("io_uring refused to be entered: {error} (a lane belongs to one thread)"),
    }
}
