//! A device, memory registered with it, and connected queue pairs, with a safe surface: whatever a transfer uses is
//! registered, and outlives the queue pair that it was posted to.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;

use super::library::{self, *};

/// Transfers of a queue pair that are not completed yet.
const SENDS_MOST: usize = 256;
/// Reads that a device has under way at once and serves at once, the most that is tried first.
const READS_AT_ONCE: [u8; 3] = [16, 4, 1];
/// Before a transfer is tried again, as a power of two of 4.096 µs: 67 ms.
const TIMEOUT: u8 = 14;
const RETRIES: u8 = 7;
/// Hops, as of other traffic.
const HOP_LIMIT: u8 = 64;
const PORT: u8 = 1;

/// An open device and a domain of memory of it.
pub struct Device {
    library: Library,
    context: NonNull<Context>,
    domain: NonNull<std::ffi::c_void>,
    gid: [u8; 16],
    gid_index: u8,
    mtu: u32,
    pub name: String,
}

// SAFETY: the library locks its own structures.
unsafe impl Send for Device {}
// SAFETY: likewise.
unsafe impl Sync for Device {}

impl Device {
    /// Opens the device of this name, or the first with an address that can be routed.
    pub fn open(wanted: Option<&str>) -> Result<Arc<Self>, String> {
        let library = Library::load()?;
        // SAFETY: the list is NULL or ends with NULL, and is freed once the device is open, as the manual wants it.
        unsafe {
            let list = (library.get_device_list)(std::ptr::null_mut());
            if list.is_null() {
                return Err("devices for RDMA cannot be listed".into());
            }
            let mut chosen = None;
            for index in 0.. {
                let device = *list.add(index);
                if device.is_null() {
                    break;
                }
                let name = CStr::from_ptr((library.get_device_name)(device)).to_string_lossy().into_owned();
                if wanted.is_none_or(|wanted| wanted == name) {
                    chosen = Some((NonNull::new((library.open_device)(device)), name));
                    break;
                }
            }
            (library.free_device_list)(list);
            let missing = || wanted.map_or("there is no device for RDMA".into(), |name| format!("no device {name}"));
            let (context, name) = chosen.ok_or_else(missing)?;
            let context = context.ok_or_else(|| format!("the device {name} cannot be opened"))?;
            Self::prepare(library, context, name)
        }
    }

    /// # Safety
    /// `context` was just opened.
    unsafe fn prepare(library: Library, context: NonNull<Context>, name: String) -> Result<Arc<Self>, String> {
        let mut port = PortAttributes::default();
        // SAFETY: the context is open; the structure has room for what the library writes.
        let (answer, domain) = unsafe {
            let answer = (library.query_port)(context.as_ptr(), PORT, &raw mut port);
            (answer, NonNull::new((library.alloc_domain)(context.as_ptr())))
        };
        let domain = domain.filter(|_| answer == 0).ok_or_else(|| format!("the port of {name} cannot be used"))?;
        let mut device = Self { library, context, domain, gid: [0; 16], gid_index: 0, mtu: port.mtu, name };
        let gids = (0..port.gids.clamp(0, 255) as u8).filter_map(|index| device.gid(index));
        // An address of IPv4 that is routed; otherwise any that is routed; otherwise, of InfiniBand, the first.
        let rank = |entry: &GidEntry| match (entry.kind, entry.gid[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
        {
            (GID_ROCE_V2, true) => 0,
            (GID_ROCE_V2, false) => 1,
            _ => 2,
        };
        let best = gids.min_by_key(rank).ok_or_else(|| format!("{} has no address", device.name))?;
        device.gid = best.gid;
        device.gid_index = best.index as u8;
        Ok(Arc::new(device))
    }

    fn gid(&self, index: u8) -> Option<GidEntry> {
        let mut entry = GidEntry::default();
        // SAFETY: the context is open, and the entry has the size that is told.
        let answer = unsafe {
            (self.library.query_gid)(
                self.context.as_ptr(),
                u32::from(PORT),
                u32::from(index),
                &raw mut entry,
                0,
                size_of::<GidEntry>(),
            )
        };
        (answer == 0 && entry.gid != [0; 16]).then_some(entry)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: everything made of the device holds an `Arc` to it, so all of that is gone.
        unsafe {
            (self.library.free_domain)(self.domain.as_ptr());
            (self.library.close_device)(self.context.as_ptr());
        }
    }
}

/// Memory that a device may reach, and what keeps it mapped.
pub struct Registered<K> {
    region: NonNull<MemoryRegion>,
    device: Arc<Device>,
    start: *mut u8,
    bytes: usize,
    /// Dropped after the memory is no longer the device's, see `drop`.
    pub keep: K,
}

// SAFETY: the registration is reached through the library, which locks; the pointer is only an address.
unsafe impl<K: Send> Send for Registered<K> {}
// SAFETY: likewise.
unsafe impl<K: Sync> Sync for Registered<K> {}

impl<K> Registered<K> {
    /// Registers memory.
    ///
    /// # Safety
    /// The memory is mapped for as long as `keep` lives, or until this is dropped, and only reached by copies and
    /// atomic operations while the device may write it.
    pub unsafe fn new(
        device: &Arc<Device>,
        start: *mut u8,
        bytes: usize,
        access: i32,
        keep: K,
    ) -> Result<Self, String> {
        // SAFETY: the domain lives; the memory is mapped by the caller's promise.
        let region = unsafe { (device.library.register)(device.domain.as_ptr(), start.cast(), bytes, access) };
        let region = NonNull::new(region).ok_or_else(|| {
            let error = std::io::Error::last_os_error();
            format!("{bytes} bytes cannot be registered with {} ({error}; see ulimit -l)", device.name)
        })?;
        Ok(Self { region, device: Arc::clone(device), start, bytes, keep })
    }

    /// Where peers find it: address and key.
    pub fn remote(&self) -> (u64, u32) {
        // SAFETY: the registration lives until it is dropped.
        (self.start as u64, unsafe { self.region.as_ref().remote_key })
    }

    fn piece(&self, at: usize, length: usize) -> PieceOfMemory {
        assert!(at <= self.bytes && length <= self.bytes - at, "a transfer beyond what is registered");
        // SAFETY: the registration lives until it is dropped.
        let local_key = unsafe { self.region.as_ref().local_key };
        PieceOfMemory { address: self.start as u64 + at as u64, length: length as u32, local_key }
    }

    /// Whether `start` and what follows it lie within.
    pub fn place_of(&self, start: *const u8, length: usize) -> Option<usize> {
        let at = (start as usize).checked_sub(self.start as usize)?;
        (at <= self.bytes && length <= self.bytes - at).then_some(at)
    }
}

impl<K> Drop for Registered<K> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and dropped once; `keep` is dropped after this.
        unsafe { (self.device.library.deregister)(self.region.as_ptr()) };
    }
}

/// How a queue pair is called, told to the peer: also the bytes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairAddress {
    pub gid: [u8; 16],
    pub number: u32,
    pub sequence: u32,
    pub mtu: u32,
}

/// A reliable connection: a queue pair and the queue of its completions.
pub struct Pair {
    pair: NonNull<QueuePair>,
    queue: NonNull<CompletionQueue>,
    device: Arc<Device>,
    posted: usize,
    sequence: u32,
}

// SAFETY: used by one thread at a time, as `&mut self` demands.
unsafe impl Send for Pair {}

impl Pair {
    /// A pair that is not connected yet; its first sequence number is drawn by the caller.
    pub fn new(device: &Arc<Device>, sequence: u32) -> Result<Self, String> {
        let null = std::ptr::null_mut();
        let library = &device.library;
        // SAFETY: the context and the domain live as long as `device`.
        let queue = unsafe { (library.create_queue)(device.context.as_ptr(), SENDS_MOST as i32 * 2, null, null, 0) };
        let queue = NonNull::new(queue).ok_or("a completion queue cannot be made")?;
        let capacities = Capacities {
            send_requests: SENDS_MOST as u32,
            receive_requests: 1,
            send_pieces: 1,
            receive_pieces: 1,
            inline_bytes: 0,
        };
        let mut initial = InitialAttributes {
            qp_context: null,
            send_cq: queue.as_ptr(),
            recv_cq: queue.as_ptr(),
            srq: null,
            capacities,
            kind: RELIABLE_CONNECTION,
            signal_all: 1,
        };
        // SAFETY: as above, and the queue lives.
        let pair = unsafe { (library.create_pair)(device.domain.as_ptr(), &raw mut initial) };
        let Some(pair) = NonNull::new(pair) else {
            // SAFETY: made above, and used by nothing.
            unsafe { (library.destroy_queue)(queue.as_ptr()) };
            return Err("a queue pair cannot be made".into());
        };
        let mut pair = Self { pair, queue, device: Arc::clone(device), posted: 0, sequence: sequence & 0xff_ffff };
        let mut attributes = Attributes { state: STATE_INIT, port: PORT, ..Attributes::default() };
        attributes.access = (ACCESS_REMOTE_READ | ACCESS_REMOTE_WRITE) as u32;
        pair.modify(&mut attributes, mask::STATE | mask::PARTITION | mask::PORT | mask::ACCESS)?;
        Ok(pair)
    }

    pub fn address(&self) -> PairAddress {
        // SAFETY: the pair lives until it is dropped.
        let number = unsafe { self.pair.as_ref().number };
        PairAddress { gid: self.device.gid, number, sequence: self.sequence, mtu: self.device.mtu }
    }

    /// Connects with the peer's pair.
    pub fn connect(&mut self, peer: &PairAddress) -> Result<(), String> {
        let route = GlobalRoute {
            destination: peer.gid,
            source_index: self.device.gid_index,
            hop_limit: HOP_LIMIT,
            ..GlobalRoute::default()
        };
        let address = AddressHandle { route, is_global: 1, port: PORT, ..AddressHandle::default() };
        let mut outcome = Ok(());
        for reads in READS_AT_ONCE {
            outcome = self.make_ready(peer, address, reads);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn make_ready(&mut self, peer: &PairAddress, address: AddressHandle, reads: u8) -> Result<(), String> {
        let mut receive = Attributes {
            state: STATE_READY_TO_RECEIVE,
            path_mtu: peer.mtu.min(self.device.mtu),
            receive_sequence: peer.sequence & 0xff_ffff,
            destination_number: peer.number,
            address,
            served_reads_most: reads,
            not_ready_timer: 12,
            ..Attributes::default()
        };
        let meant = mask::STATE
            | mask::ADDRESS
            | mask::PATH_MTU
            | mask::DESTINATION
            | mask::RECEIVE_SEQUENCE
            | mask::SERVED_READS_MOST
            | mask::NOT_READY_TIMER;
        self.modify(&mut receive, meant)?;
        let mut send = Attributes {
            state: STATE_READY_TO_SEND,
            send_sequence: self.sequence,
            timeout: TIMEOUT,
            retries: RETRIES,
            not_ready_retries: RETRIES,
            reads_most: reads,
            ..Attributes::default()
        };
        let meant = mask::STATE
            | mask::TIMEOUT
            | mask::RETRIES
            | mask::NOT_READY_RETRIES
            | mask::SEND_SEQUENCE
            | mask::READS_MOST;
        self.modify(&mut send, meant)
    }

    fn modify(&mut self, attributes: &mut Attributes, meant: i32) -> Result<(), String> {
        // SAFETY: the pair lives until it is dropped.
        let answer = unsafe { (self.device.library.modify_pair)(self.pair.as_ptr(), attributes, meant) };
        if answer == 0 {
            return Ok(());
        }
        let error = std::io::Error::from_raw_os_error(answer);
        Err(format!("a queue pair of {} does not become state {}: {error}", self.device.name, attributes.state))
    }

    /// Transfers that can be posted now.
    pub fn room(&self) -> usize {
        SENDS_MOST - self.posted
    }

    /// Whether all transfers have completed.
    pub fn is_idle(&self) -> bool {
        self.posted == 0
    }

    /// Writes `length` bytes from `at` of our memory to the peer's.
    pub fn write<K>(
        &mut self,
        id: u64,
        memory: &Registered<K>,
        at: usize,
        length: usize,
        remote: (u64, u32),
    ) -> Result<(), String> {
        self.post(id, OPCODE_WRITE, memory.piece(at, length), remote)
    }

    /// Reads the peer's memory into `length` bytes from `at` of ours.
    pub fn read<K>(
        &mut self,
        id: u64,
        memory: &Registered<K>,
        at: usize,
        length: usize,
        remote: (u64, u32),
    ) -> Result<(), String> {
        self.post(id, OPCODE_READ, memory.piece(at, length), remote)
    }

    fn post(
        &mut self,
        id: u64,
        opcode: u32,
        mut piece: PieceOfMemory,
        (remote_address, remote_key): (u64, u32),
    ) -> Result<(), String> {
        assert!(self.room() > 0, "more transfers are posted than there is room for");
        let mut request = SendRequest {
            id,
            next: std::ptr::null_mut(),
            pieces: &raw mut piece,
            pieces_count: 1,
            opcode,
            flags: SIGNALED,
            immediate: 0,
            remote_address,
            remote_key,
            rest: [0; 9],
        };
        // SAFETY: the pair lives until it is dropped, and the owner of this pair keeps what is registered until then.
        let answer = unsafe { library::post_send(self.pair.as_ptr(), &mut request) };
        if answer != 0 {
            let error = std::io::Error::from_raw_os_error(answer);
            return Err(format!("{} takes no transfer: {error}", self.device.name));
        }
        self.posted += 1;
        Ok(())
    }

    /// Appends the names of transfers that have ended well.
    pub fn completed(&mut self, ids: &mut Vec<u64>) -> Result<(), String> {
        let mut completions = [WorkCompletion::default(); 32];
        loop {
            // SAFETY: the queue lives until it is dropped.
            let count = unsafe { library::poll_queue(self.queue.as_ptr(), &mut completions) };
            let found = usize::try_from(count).map_err(|_| format!("completions of {} are lost", self.device.name))?;
            self.posted -= found;
            for completion in &completions[..found] {
                if completion.status != 0 {
                    let (name, status) = (&self.device.name, completion.status);
                    return Err(format!("{name} could not carry out a transfer: {}", meaning(status)));
                }
                ids.push(completion.id);
            }
            if found < completions.len() {
                return Ok(());
            }
        }
    }
}

/// Of a completion's status.
fn meaning(status: u32) -> String {
    match status {
        5 => "the connection was ended (5)".into(),
        10 => "the peer's device refuses access to that memory (10)".into(),
        12 => "the peer's device does not answer (12)".into(),
        13 => "the peer is not ready (13)".into(),
        other => format!("status {other}"),
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: made by `new`; once the pair is destroyed, the device transfers nothing more for it.
        unsafe {
            (self.device.library.destroy_pair)(self.pair.as_ptr());
            (self.device.library.destroy_queue)(self.queue.as_ptr());
        }
    }
}
