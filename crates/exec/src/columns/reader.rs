//! Reading runs: one thread with a lane for all scans of a database.
//!
//! It sleeps in the lane's poll, hands large requests to the device and what comes back to the cache, and looks at no
//! byte: a gigabyte a second is some thousand wake-ups. So the query threads keep their cores, and no runtime's thread
//! ever waits for a device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_buffer::Buffer;
use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;
use saki_base::{AlignedBuffer, DeviceId, PageAddress, critical};
use saki_columns::{Codec, ColumnCache, ColumnsError, Load};
use saki_page::{BufferPool, IoShare, PageWaker, Refusal, RunLane, RunRead, RunStore};

use crate::error::ExecError;

/// How long an idle reader sleeps; requests end it at once.
const IDLE: Duration = Duration::from_secs(1);

/// What the scans of a database share: decoded columns, the codec, and the way to the device.
pub struct SegmentReader {
    pub(super) cache: Arc<ColumnCache>,
    pub(super) codec: Arc<dyn Codec>,
    inbox: Arc<Inbox>,
    waker: Arc<dyn PageWaker>,
    thread: Option<JoinHandle<()>>,
}

struct Inbox {
    requests: Mutex<Vec<Request>>,
    stop: AtomicBool,
}

/// A run to be read.
pub(super) struct Request {
    /// Dead once nobody waits for it.
    pub load: Weak<Load>,
    pub first: PageAddress,
    pub bytes: usize,
    pub checksum: u64,
    pub share: Arc<IoShare>,
}

impl SegmentReader {
    /// Starts the thread, which opens its lane to `store`.
    pub fn start(
        store: &Arc<dyn RunStore>,
        cache: Arc<ColumnCache>,
        codec: Arc<dyn Codec>,
    ) -> Result<Arc<Self>, ExecError> {
        let inbox = Arc::new(Inbox { requests: Mutex::new(Vec::new()), stop: AtomicBool::new(false) });
        let (sender, receiver) = std::sync::mpsc::channel();
        let body = {
            let (store, inbox, cache) = (Arc::clone(store), Arc::clone(&inbox), Arc::clone(&cache));
            // Opened here: a ring belongs to the thread that submits to it.
            move || match store.open_run_lane() {
                Ok(lane) => {
                    drop(store);
                    sender.send(Ok(lane.waker())).expect("the starter waits");
                    Loop { lane, inbox, cache, queue: Vec::new(), reading: HashMap::new(), next_token: 0 }.run();
                }
                Err(error) => sender.send(Err(ExecError::Lane(error))).expect("the starter waits"),
            }
        };
        let thread = critical::spawn(std::thread::Builder::new().name("segment-reader".into()), body)
            .map_err(|error| ExecError::Thread(error.to_string()))?;
        let waker =
            receiver.recv().map_err(|_| ExecError::Internal("the segment reader died at its start".into()))??;
        Ok(Arc::new(Self { cache, codec, inbox, waker, thread: Some(thread) }))
    }

    /// Decoded columns and encoded runs in memory.
    pub fn cache(&self) -> &Arc<ColumnCache> {
        &self.cache
    }

    /// Has runs read; each ends in the cache.
    pub(super) fn request(&self, requests: impl IntoIterator<Item = Request>) {
        let mut inbox = self.inbox.requests.lock();
        let before = inbox.len();
        inbox.extend(requests);
        // If there were some before, the thread has been woken for them and has not looked yet.
        if before == 0 && !inbox.is_empty() {
            drop(inbox);
            self.waker.wake();
        }
    }
}

impl Drop for SegmentReader {
    fn drop(&mut self) {
        self.inbox.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the reader's thread.
struct Loop {
    lane: Box<dyn RunLane>,
    inbox: Arc<Inbox>,
    cache: Arc<ColumnCache>,
    /// Not let in yet, in the order of asking.
    queue: Vec<Request>,
    /// First pages of the runs at the device, by token.
    reading: HashMap<u64, PageAddress>,
    next_token: u64,
}

impl Loop {
    fn run(mut self) {
        let mut finished: Vec<RunRead> = Vec::new();
        while !self.inbox.stop.load(Ordering::Acquire) {
            self.queue.append(&mut self.inbox.requests.lock());
            self.submit();
            self.lane.poll(Some(IDLE), &mut finished);
            for read in finished.drain(..) {
                let page = self.reading.remove(&read.token).expect("a run ends once");
                let bytes = read.result.map(|memory| into_buffer(memory, self.lane.buffers()));
                self.cache.finish(page, bytes.map_err(|error| ColumnsError::Storage(error.to_string())));
            }
        }
        let closing = || ColumnsError::Storage("the database is being closed".into());
        let queued = self.queue.drain(..).map(|request| request.first);
        queued.chain(self.reading.drain().map(|(_, page)| page)).for_each(|page| {
            self.cache.finish(page, Err(closing()));
        });
    }

    /// Submits what is let in. A share that a device refuses holds up neither others nor what it asks of other devices.
    fn submit(&mut self) {
        let mut refused: Vec<(Arc<IoShare>, DeviceId)> = Vec::new();
        let Self { queue, lane, reading, cache, next_token, .. } = self;
        queue.retain(|request| {
            if request.load.strong_count() == 0 {
                cache.abandon(request.first);
                return false;
            }
            if !refused.is_empty() {
                let device = lane.device_of(request.first);
                let is_again =
                    |(share, by): &(Arc<IoShare>, DeviceId)| Arc::ptr_eq(share, &request.share) && Some(*by) == device;
                if refused.iter().any(is_again) {
                    return true;
                }
            }
            match lane.try_read(&request.share, request.first, request.bytes, request.checksum, *next_token) {
                Ok(()) => {
                    reading.insert(*next_token, request.first);
                    *next_token += 1;
                    false
                }
                Err(Refusal::Busy(device)) => {
                    refused.push((Arc::clone(&request.share), device));
                    true
                }
                Err(Refusal::Unmapped) => {
                    let what = format!("{} is not mapped", request.first);
                    cache.finish(request.first, Err(ColumnsError::Corrupt(what)));
                    false
                }
            }
        });
    }
}

/// The memory that the device wrote, as it is; the lane has it back when nobody reads it any more.
fn into_buffer(memory: AlignedBuffer, pool: &Arc<BufferPool>) -> Buffer {
    Buffer::from(Bytes::from_owner(Lent { memory: Some(memory), pool: Arc::clone(pool) }))
}

struct Lent {
    /// `None` only while it is dropped.
    memory: Option<AlignedBuffer>,
    pool: Arc<BufferPool>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.memory.as_deref().unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.give_back(memory);
        }
    }
}
