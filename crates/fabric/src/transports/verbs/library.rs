//! libibverbs as it lies in memory: the part of its stable ABI (`IBVERBS_1.1`) that is used here, and the library,
//! loaded at run time. Layouts are those of `infiniband/verbs.h`; a test holds their sizes and places.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;

#[repr(C)]
pub struct Context {
    device: *mut c_void,
    operations: [*const c_void; OPERATIONS],
    // More, that is the library's alone.
}

/// Operations of a context, and the places of those that the header calls inline.
const OPERATIONS: usize = 32;
const POLL_CQ: usize = 11;
const POST_SEND: usize = 25;

#[repr(C)]
pub struct CompletionQueue {
    context: *mut Context,
}

#[repr(C)]
pub struct QueuePair {
    context: *mut Context,
    qp_context: *mut c_void,
    pd: *mut c_void,
    send_cq: *mut CompletionQueue,
    recv_cq: *mut CompletionQueue,
    srq: *mut c_void,
    handle: u32,
    pub number: u32,
}

#[repr(C)]
pub struct MemoryRegion {
    context: *mut Context,
    pd: *mut c_void,
    address: *mut c_void,
    length: usize,
    handle: u32,
    pub local_key: u32,
    pub remote_key: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Capacities {
    pub send_requests: u32,
    pub receive_requests: u32,
    pub send_pieces: u32,
    pub receive_pieces: u32,
    pub inline_bytes: u32,
}

#[repr(C)]
pub struct InitialAttributes {
    pub qp_context: *mut c_void,
    pub send_cq: *mut CompletionQueue,
    pub recv_cq: *mut CompletionQueue,
    pub srq: *mut c_void,
    pub capacities: Capacities,
    pub kind: c_uint,
    pub signal_all: c_int,
}

// Aligned as the union of an address with two numbers of 64 bits.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub struct GlobalRoute {
    pub destination: [u8; 16],
    pub flow_label: u32,
    pub source_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct AddressHandle {
    pub route: GlobalRoute,
    pub destination_lid: u16,
    pub service_level: u8,
    pub source_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Attributes {
    pub state: c_uint,
    pub current_state: c_uint,
    pub path_mtu: c_uint,
    pub migration_state: c_uint,
    pub queue_key: u32,
    pub receive_sequence: u32,
    pub send_sequence: u32,
    pub destination_number: u32,
    pub access: c_uint,
    pub capacities: Capacities,
    pub address: AddressHandle,
    pub other_address: AddressHandle,
    pub partition_index: u16,
    pub other_partition_index: u16,
    pub notify: u8,
    pub draining: u8,
    pub reads_most: u8,
    pub served_reads_most: u8,
    pub not_ready_timer: u8,
    pub port: u8,
    pub timeout: u8,
    pub retries: u8,
    pub not_ready_retries: u8,
    pub other_port: u8,
    pub other_timeout: u8,
    pub rate_limit: u32,
}

/// Which attributes are meant.
pub mod mask {
    pub const STATE: i32 = 1;
    pub const ACCESS: i32 = 1 << 3;
    pub const PARTITION: i32 = 1 << 4;
    pub const PORT: i32 = 1 << 5;
    pub const ADDRESS: i32 = 1 << 7;
    pub const PATH_MTU: i32 = 1 << 8;
    pub const TIMEOUT: i32 = 1 << 9;
    pub const RETRIES: i32 = 1 << 10;
    pub const NOT_READY_RETRIES: i32 = 1 << 11;
    pub const RECEIVE_SEQUENCE: i32 = 1 << 12;
    pub const READS_MOST: i32 = 1 << 13;
    pub const NOT_READY_TIMER: i32 = 1 << 15;
    pub const SEND_SEQUENCE: i32 = 1 << 16;
    pub const SERVED_READS_MOST: i32 = 1 << 17;
    pub const DESTINATION: i32 = 1 << 20;
}

pub const STATE_INIT: c_uint = 1;
pub const STATE_READY_TO_RECEIVE: c_uint = 2;
pub const STATE_READY_TO_SEND: c_uint = 3;
pub const RELIABLE_CONNECTION: c_uint = 2;
pub const ACCESS_LOCAL_WRITE: c_int = 1;
pub const ACCESS_REMOTE_WRITE: c_int = 2;
pub const ACCESS_REMOTE_READ: c_int = 4;
pub const OPCODE_WRITE: c_uint = 0;
pub const OPCODE_READ: c_uint = 4;
pub const SIGNALED: c_uint = 2;
/// Kinds of addresses of a port.
pub const GID_ROCE_V2: u32 = 2;

#[repr(C)]
pub struct PieceOfMemory {
    pub address: u64,
    pub length: u32,
    pub local_key: u32,
}

#[repr(C)]
pub struct SendRequest {
    pub id: u64,
    pub next: *mut SendRequest,
    pub pieces: *mut PieceOfMemory,
    pub pieces_count: c_int,
    pub opcode: c_uint,
    pub flags: c_uint,
    pub immediate: u32,
    pub remote_address: u64,
    pub remote_key: u32,
    /// What other opcodes use.
    pub rest: [u64; 9],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct WorkCompletion {
    pub id: u64,
    pub status: c_uint,
    pub opcode: c_uint,
    pub vendor_error: u32,
    pub bytes: u32,
    pub immediate: u32,
    pub number: u32,
    pub source: u32,
    pub flags: c_uint,
    pub partition: u16,
    pub source_lid: u16,
    pub service_level: u8,
    pub path_bits: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GidEntry {
    pub gid: [u8; 16],
    pub index: u32,
    pub port: u32,
    pub kind: u32,
    pub interface: u32,
}

/// The beginning of a port's attributes, and room for the rest.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct PortAttributes {
    pub state: c_uint,
    pub mtu_most: c_uint,
    pub mtu: c_uint,
    pub gids: c_int,
    pub rest: [u64; 6],
}

/// Functions of the library by their C names.
macro_rules! functions {
    ($($(#[$meta:meta])* $field:ident: $symbol:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The library, loaded for good.
        pub struct Library {
            // SAFETY: only their types; each call gives its reason.
            $($(#[$meta])* pub $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Library {
            fn resolve(handle: NonNull<c_void>) -> Result<Self, String> {
                Ok(Self {
                    $($field: {
                        let found = symbol(handle, $symbol)?;
                        // SAFETY: only its type.
                        type Function = unsafe extern "C" fn($($argument),*) -> $result;
                        // SAFETY: the symbol of this name has this signature in every libibverbs.so.1.
                        unsafe { std::mem::transmute::<NonNull<c_void>, Function>(found) }
                    },)*
                })
            }
        }
    };
}

functions! {
    get_device_list: c"ibv_get_device_list" (*mut c_int) -> *mut *mut c_void;
    free_device_list: c"ibv_free_device_list" (*mut *mut c_void) -> ();
    get_device_name: c"ibv_get_device_name" (*mut c_void) -> *const c_char;
    open_device: c"ibv_open_device" (*mut c_void) -> *mut Context;
    close_device: c"ibv_close_device" (*mut Context) -> c_int;
    query_port: c"ibv_query_port" (*mut Context, u8, *mut PortAttributes) -> c_int;
    query_gid: c"_ibv_query_gid_ex" (*mut Context, u32, u32, *mut GidEntry, u32, usize) -> c_int;
    alloc_domain: c"ibv_alloc_pd" (*mut Context) -> *mut c_void;
    free_domain: c"ibv_dealloc_pd" (*mut c_void) -> c_int;
    register: c"ibv_reg_mr" (*mut c_void, *mut c_void, usize, c_int) -> *mut MemoryRegion;
    deregister: c"ibv_dereg_mr" (*mut MemoryRegion) -> c_int;
    create_queue: c"ibv_create_cq" (*mut Context, c_int, *mut c_void, *mut c_void, c_int) -> *mut CompletionQueue;
    destroy_queue: c"ibv_destroy_cq" (*mut CompletionQueue) -> c_int;
    create_pair: c"ibv_create_qp" (*mut c_void, *mut InitialAttributes) -> *mut QueuePair;
    modify_pair: c"ibv_modify_qp" (*mut QueuePair, *mut Attributes, c_int) -> c_int;
    destroy_pair: c"ibv_destroy_qp" (*mut QueuePair) -> c_int;
}

fn symbol(handle: NonNull<c_void>, name: &CStr) -> Result<NonNull<c_void>, String> {
    // SAFETY: a handle of a loaded library, and a string that ends with 0.
    let found = unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) };
    NonNull::new(found).ok_or_else(|| format!("libibverbs.so.1 has no {}", name.to_string_lossy()))
}

impl Library {
    /// Loads it.
    pub fn load() -> Result<Self, String> {
        // SAFETY: a string that ends with 0; the library's initialisers are those of a system library.
        let handle = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let handle = NonNull::new(handle).ok_or("libibverbs.so.1 is not installed (Debian: libibverbs1)")?;
        // Never unloaded: providers of devices register themselves in it.
        Self::resolve(handle)
    }
}

/// Takes completions; the count, or a negative number.
///
/// # Safety
/// `queue` is a completion queue that lives.
pub unsafe fn poll_queue(queue: *mut CompletionQueue, completions: &mut [WorkCompletion]) -> c_int {
    type Poll = unsafe extern "C" fn(*mut CompletionQueue, c_int, *mut WorkCompletion) -> c_int;
    // SAFETY: the queue lives by the caller's promise, its context has the operation at this place in every version of
    // the ABI, and there is room for as many completions as are asked for.
    unsafe {
        let operation = (*(*queue).context).operations[POLL_CQ];
        std::mem::transmute::<*const c_void, Poll>(operation)(
            queue,
            completions.len() as c_int,
            completions.as_mut_ptr(),
        )
    }
}

/// Posts one request; 0, or the number of an error.
///
/// # Safety
/// `pair` is a queue pair that lives, and the memory that the request names is registered and stays so until it has
/// completed or the pair is destroyed.
pub unsafe fn post_send(pair: *mut QueuePair, request: &mut SendRequest) -> c_int {
    type Post = unsafe extern "C" fn(*mut QueuePair, *mut SendRequest, *mut *mut SendRequest) -> c_int;
    let mut bad = std::ptr::null_mut();
    // SAFETY: the pair lives by the caller's promise, its context has the operation at this place in every version of
    // the ABI, and the request's pieces are read before it returns.
    unsafe {
        let operation = (*(*pair).context).operations[POST_SEND];
        std::mem::transmute::<*const c_void, Post>(operation)(pair, request, &raw mut bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// What a C compiler makes of rdma-core's header on 64-bit Linux.
    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!(size_of::<Attributes>(), 144);
        assert_eq!((offset_of!(Attributes, address), offset_of!(Attributes, other_address)), (56, 88));
        assert_eq!((offset_of!(Attributes, partition_index), offset_of!(Attributes, rate_limit)), (120, 136));
        assert_eq!(size_of::<AddressHandle>(), 32);
        assert_eq!((size_of::<SendRequest>(), offset_of!(SendRequest, remote_address)), (128, 40));
        assert_eq!((size_of::<WorkCompletion>(), offset_of!(WorkCompletion, partition)), (48, 40));
        assert_eq!(size_of::<InitialAttributes>(), 64);
        assert_eq!(offset_of!(QueuePair, number), 52);
        assert_eq!((offset_of!(MemoryRegion, local_key), offset_of!(MemoryRegion, remote_key)), (36, 40));
        assert_eq!((size_of::<GidEntry>(), size_of::<PieceOfMemory>()), (32, 16));
        assert!(size_of::<PortAttributes>() >= 56);
        assert_eq!(offset_of!(Context, operations), 8);
    }
}
