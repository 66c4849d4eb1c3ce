//! io_uring: operations go to the kernel in batches, completions come back in
//! any order, and no thread waits per request.
//!
//! ```text
//!   submit ──► queued ──► submission ring ──enter──► kernel ──► completion ring ──► poll
//!              (slots of the slab, any number)        ≤ in_ring_max            (slot freed, buffer back)
//! ```
//!
//! **Who owns a buffer.** From `submit` to the completion's return it lies in
//! the lane's slab and nothing touches it but the kernel. The slab gives it
//! back only when the kernel's completion for that very slot has been seen;
//! dropping a lane waits for all of them. Should waiting be impossible, the
//! buffers are leaked: memory under a device is never freed.
//!
//! **One thread.** The ring is made for a single issuer, which spares the
//! kernel its locks. It is created disabled, so that a lane can be opened by
//! one thread and handed to another; the first submit or poll enables it and
//! binds it to the calling thread.
//!
//! **When completions appear.** Only while the thread is inside `enter`
//! (deferred task work), never as an interruption of the query's own work.
//!
//! - [`lane`]: submission, completion, continuing short transfers.
//! - [`waker`]: ending a wait from another thread.

#![allow(unsafe_code)]

mod lane;
mod waker;

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::IoUring;
use saki_base::Arena;

use crate::device::{Device, DeviceError, Lane, Partner};
use crate::file::DeviceFile;
use lane::{FILES_MAX, RegisteredArena, UringLane};

/// Entries of a lane's submission ring (operations that one `enter` can hand
/// over) and of its completion ring (operations in the kernel at once; more
/// are queued in the lane). The kernel charges them to RLIMIT_MEMLOCK, so
/// where that is small, so are the rings.
const RING_ENTRIES: [(u32, u32); 3] = [(1024, 16_384), (256, 2048), (32, 128)];
fn build(entries: u32, completions: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_r_disabled()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        // Without it a poll that only looks would have to enter the kernel to learn that nothing happened.
        .setup_taskrun_flag()
        // One bad operation does not hold up those behind it.
        .setup_submit_all()
        .setup_cqsize(completions)
        .build(entries)
}

/// The largest ring that the memory limit allows.
fn build_for_lane() -> io::Result<IoUring> {
    // The kernel returns the memory of closed rings some milliseconds later.
    const ATTEMPTS: u32 = 20;
    let mut refusal = None;
    for attempt in 0..ATTEMPTS {
        for (entries, completions) in RING_ENTRIES {
            match build(entries, completions) {
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => refusal = Some(error),
                answer => return answer,
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(u64::from(attempt)));
    }
    let refusal = refusal.map_or_else(String::new, |error| error.to_string());
    Err(io::Error::new(io::ErrorKind::OutOfMemory, format!("{refusal}; raise RLIMIT_MEMLOCK (ulimit -l)")))
}

/// Whether this kernel, and whatever confines this process, allow the rings that lanes need.
pub(crate) fn probe() -> io::Result<()> {
    build(2, 4)?.submitter().register_enable_rings()
}

/// A file or block device reached through io_uring.
pub(crate) struct UringDevice {
    file: Arc<DeviceFile>,
}

impl UringDevice {
    pub fn new(file: DeviceFile) -> Self {
        Self { file: Arc::new(file) }
    }
}

impl Device for UringDevice {
    fn name(&self) -> String {
        self.file.name().into()
    }

    fn length_bytes(&self) -> Result<u64, DeviceError> {
        Ok(self.file.length_bytes())
    }

    fn block_bytes(&self) -> usize {
        self.file.block_bytes()
    }

    fn read_only(&self) -> bool {
        self.file.read_only()
    }

    fn ensure_length(&self, bytes: u64) -> Result<(), DeviceError> {
        self.file.ensure_length(bytes)
    }

    fn open_lane(&self, arena: Option<&Arc<Arena>>) -> Result<Box<dyn Lane>, DeviceError> {
        let failed = |error: io::Error| DeviceError::from_system(self.file.name(), "open a lane", 0, &error);
        let ring = build_for_lane().map_err(failed)?;
        let mut files = [-1; FILES_MAX];
        files[0] = self.file.file().as_raw_fd();
        ring.submitter().register_files(&files).map_err(failed)?;
        let registered = arena.and_then(|arena| match RegisteredArena::register(&ring, arena) {
            Ok(registered) => Some(registered),
            Err(error) => {
                tracing::debug!(
                    "{}: buffers stay unregistered ({error}); a larger RLIMIT_MEMLOCK would spare the kernel \
                     pinning each of them anew",
                    self.file.name()
                );
                None
            }
        });
        Ok(Box::new(UringLane::new(ring, Arc::clone(&self.file), registered).map_err(failed)?))
    }

    fn partner(&self) -> Option<Partner> {
        Some(Partner(Box::new(Arc::clone(&self.file))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, ScratchFile};
    use crate::{Backend, DeviceOptions, Operation, Wait, open_device};
    use saki_base::Buffer;
    use std::time::Duration;

    fn device(scratch: &ScratchFile) -> Option<Arc<dyn Device>> {
        if let Err(error) = probe() {
            eprintln!("skipped: io_uring is refused here ({error})");
            return None;
        }
        let options = DeviceOptions { backend: Backend::Uring, ..DeviceOptions::default() };
        Some(open_device(scratch.path(), options).unwrap())
    }

    #[test]
    fn passes_the_contract() {
        let scratch = ScratchFile::new(contract::DEVICE_BYTES);
        let Some(device) = device(&scratch) else { return };
        contract::run_all(&*device);
    }

    #[test]
    fn arena_frames_travel_as_registered_buffers() {
        let scratch = ScratchFile::new(1 << 20);
        let Some(device) = device(&scratch) else { return };
        let (arena, mut frames) = Arena::new(64, 16 << 10).unwrap();
        let (_foreign_arena, mut foreign) = Arena::new(1, 16 << 10).unwrap();
        let mut lane = device.open_lane(Some(&arena)).unwrap();
        let mut done = Vec::new();
        for index in 0..64_u64 {
            let mut frame = frames.pop().unwrap();
            frame.fill(index as u8 + 1);
            lane.submit(Operation::write(index, index * (16 << 10), Buffer::Frame(frame)));
        }
        while lane.in_flight() > 0 {
            lane.poll(Wait::AtMost(Duration::from_secs(1)), &mut done);
        }
        for completion in done.drain(..) {
            completion.result.unwrap();
            lane.submit(Operation::read(
                completion.token,
                (63 - completion.token) * (16 << 10),
                completion.buffer.unwrap(),
            ));
        }
        // A frame of an arena that was not registered works all the same.
        lane.submit(Operation::read(0, 63 * (16 << 10), Buffer::Frame(foreign.pop().unwrap())));
        while lane.in_flight() > 0 {
            lane.poll(Wait::AtMost(Duration::from_secs(1)), &mut done);
        }
        assert_eq!(done.len(), 65);
        for completion in done {
            completion.result.unwrap();
            let expected = 64 - completion.token as u8;
            assert!(completion.buffer.unwrap().iter().all(|byte| *byte == expected));
        }
    }

    #[test]
    fn a_lane_may_be_opened_by_one_thread_and_used_by_another() {
        let scratch = ScratchFile::new(1 << 20);
        let Some(device) = device(&scratch) else { return };
        let lane = device.open_lane(None).unwrap();
        std::thread::spawn(move || contract::round_trips(lane, 1 << 20)).join().unwrap();
    }
}
