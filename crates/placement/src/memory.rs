//! Memory straight from the system, in large pieces, on the NUMA node it is used on.
//!
//! A page gets its place when it is first written. Without a binding that is the node of the writing thread, if there
//! is room; a [`Binding`] says it beforehand, so that it does not matter who writes first (a loader, recovery), and the
//! kernel's balancing does not move pages after other nodes' readers.
//!
//! A node is *preferred* (`MPOL_PREFERRED`), not demanded (`MPOL_BIND`): when it is full, memory farther away is a
//! little slower, while under `MPOL_BIND` the kernel would kill the process although other nodes have room.
//!
//! Bindings are a matter of speed only. Where the system refuses them (a kernel without NUMA: `ENOSYS`; a container's
//! filter of system calls: `EPERM`) memory is mapped without, and one line in the log at level debug says so. Pinned
//! workers that write their own memory first then still find it on their node.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::fmt;
use std::hint::black_box;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Once};

use super::ids::{NodeId, ranges};
use super::mask::Mask;

/// Bytes of a huge page: what mappings are aligned to and a multiple of.
pub const MAPPING_BYTES: usize = 2 << 20;

/// The most nodes Linux can be built for.
type NodeMask = Mask<{ 1024 / usize::BITS as usize }>;

/// Of a [`NodeMask`], as system calls are told it: they look at one less.
const MASK_BITS: c_ulong = NodeMask::BITS as c_ulong + 1;

/// Flag of `get_mempolicy`: which nodes the process may use, in place of a policy.
const MPOL_F_MEMS_ALLOWED: c_ulong = 1 << 2;

/// On which nodes the pages of a mapping are put.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Binding {
    /// On that of the thread which first writes a page: what the system does by itself.
    FirstTouch,
    /// On this one, as long as it has room.
    Node(NodeId),
    /// On these in turn, page by page; where the system gives huge pages, those are what takes turns. By address, so
    /// that small mappings are spread too. Shares are not exact for ever: pages joined to a huge one later come to lie
    /// on one node.
    Interleaved(Arc<[NodeId]>),
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstTouch => write!(f, "where first written"),
            Self::Node(node) => write!(f, "on {node}"),
            Self::Interleaved(nodes) => {
                write!(f, "interleaved over nodes {}", ranges(nodes.iter().map(|node| node.0)))
            }
        }
    }
}

/// An anonymous mapping, aligned to [`MAPPING_BYTES`]; huge pages are asked for, not required.
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    is_bound: bool,
}

// SAFETY: a mapping is plain memory; who may touch which part is its owner's to say.
unsafe impl Send for Mapping {}
// SAFETY: as above; the mapping itself gives no access.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes`, rounded up to whole huge pages, on the NUMA node of the thread that first writes or wherever there
    /// is room.
    ///
    /// # Errors
    /// The system's, if there is no address space left.
    pub fn new(bytes: usize) -> io::Result<Self> {
        Self::with(bytes, &Binding::FirstTouch)
    }

    /// As [`new`](Self::new), on `node` if one is given.
    ///
    /// # Errors
    /// Those of [`with`](Self::with).
    pub fn new_on(bytes: usize, node: Option<NodeId>) -> io::Result<Self> {
        Self::with(bytes, &node.map_or(Binding::FirstTouch, Binding::Node))
    }

    /// As [`new`](Self::new), as `binding` says. No system call is made for [`Binding::FirstTouch`] that `new` does not
    /// make.
    ///
    /// # Errors
    /// The system's, if there is no address space left; `InvalidInput` if a node is not there, has no memory or is not
    /// allowed to this process. A system that refuses all bindings is none, see the module.
    pub fn with(bytes: usize, binding: &Binding) -> io::Result<Self> {
        let mut mapping = Self::reserve(bytes)?;
        mapping.is_bound = match binding {
            Binding::FirstTouch => false,
            Binding::Node(node) => mapping.bind(libc::MPOL_PREFERRED, &[*node])?,
            Binding::Interleaved(nodes) => mapping.bind(libc::MPOL_INTERLEAVE, nodes)?,
        };
        Ok(mapping)
    }

    fn reserve(bytes: usize) -> io::Result<Self> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = bytes.checked_next_multiple_of(MAPPING_BYTES).ok_or_else(too_large)?;
        if cfg!(miri) {
            // It has no system to map from.
            let layout = Layout::from_size_align(bytes, MAPPING_BYTES).map_err(|_| too_large())?;
            // SAFETY: not of size 0, being a multiple of a page that is asked for.
            let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_large)?;
            return Ok(Self { start, bytes, is_bound: false });
        }
        let reserved = bytes.checked_add(MAPPING_BYTES).ok_or_else(too_large)?;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                reserved,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = address.cast::<u8>();
        let before = address.align_offset(MAPPING_BYTES);
        // SAFETY: both ends cut off lie in the mapping just made and are whole pages, as its start and the alignment
        // are; what is advised on is what remains. Failures are harmless.
        unsafe {
            if before > 0 {
                libc::munmap(address.cast(), before);
            }
            libc::munmap(address.add(before + bytes).cast(), MAPPING_BYTES - before);
            libc::madvise(address.add(before).cast(), bytes, libc::MADV_HUGEPAGE);
        }
        let start = NonNull::new(address.wrapping_add(before)).expect("the system does not map address 0");
        Ok(Self { start, bytes, is_bound: false })
    }

    /// Whether the system took the policy.
    fn bind(&self, policy: c_int, nodes: &[NodeId]) -> io::Result<bool> {
        static REFUSED: Once = Once::new();
        let nodes = NodeMask::of(nodes.iter().map(|node| node.0))
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        // Each argument in a full register: the kernel looks at all of it.
        let (policy, flags) = (policy as c_ulong, 0 as c_ulong);
        // SAFETY: sets where pages of this mapping will be put, whatever is in them; the kernel reads the bits of the
        // mask alone.
        let result = unsafe {
            libc::syscall(libc::SYS_mbind, self.start.as_ptr(), self.bytes, policy, nodes.as_ptr(), MASK_BITS, flags)
        };
        if result == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        if !matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) {
            return Err(error);
        }
        REFUSED.call_once(|| tracing::debug!("memory is not bound to NUMA nodes: the system refuses ({error})"));
        Ok(false)
    }

    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the system was told where its pages are to be put, and agreed.
    pub fn is_bound(&self) -> bool {
        self.is_bound
    }

    /// Has every page given now and not at its first use. What is in it stays.
    pub fn touch(&mut self) {
        for offset in (0..self.bytes).step_by(page_bytes()) {
            // One instruction that writes: to a read before it the kernel would give its page of zeros, and small pages
            // to the write after that. What is written must not be known, or the compiler makes a read of it. SAFETY: a
            // byte of the mapping, which nobody else uses as it is borrowed exclusively.
            unsafe { AtomicU8::from_ptr(self.start.as_ptr().add(offset)) }.fetch_or(black_box(0), Ordering::Relaxed);
        }
    }

    /// How many of its pages (of the smallest size) are on which node; those never written are on none.
    ///
    /// # Errors
    /// The system's, where it does not tell.
    pub fn residence(&self) -> io::Result<BTreeMap<NodeId, usize>> {
        const PAGES_PER_CALL: usize = 512;
        let mut counts = BTreeMap::new();
        let pages: Vec<*const u8> = (0..self.bytes)
            .step_by(page_bytes())
            .map(|offset| self.start.as_ptr().wrapping_add(offset).cast_const())
            .collect();
        for pages in pages.chunks(PAGES_PER_CALL) {
            for node in whereabouts(pages)?.into_iter().flatten() {
                *counts.entry(node).or_default() += 1;
            }
        }
        Ok(counts)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if cfg!(miri) {
            // SAFETY: allocated so in `reserve`.
            return unsafe {
                dealloc(self.start.as_ptr(), Layout::from_size_align_unchecked(self.bytes, MAPPING_BYTES))
            };
        }
        // SAFETY: exactly the region that `reserve` left mapped.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The node that the page at `address` is on. The address is looked up, not followed: any may be asked for.
///
/// # Errors
/// `NotFound` for a page that was never written or is not mapped; the system's, where it does not tell.
pub fn node_of(address: *const u8) -> io::Result<NodeId> {
    whereabouts(&[address])?[0].ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// The node of each page; `None` for one that has no memory yet.
fn whereabouts(pages: &[*const u8]) -> io::Result<Vec<Option<NodeId>>> {
    let count = pages.len();
    let mut statuses: Vec<c_int> = vec![-libc::ENOENT; count];
    let nodes_wanted: *const c_int = ptr::null();
    let (this_process, flags): (c_long, c_long) = (0, 0);
    // SAFETY: without wanted nodes nothing is moved; the kernel reads as many addresses and writes as many statuses as
    // there are.
    let result = unsafe {
        let (pages, statuses) = (pages.as_ptr(), statuses.as_mut_ptr());
        libc::syscall(libc::SYS_move_pages, this_process, count, pages, nodes_wanted, statuses, flags)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(statuses.into_iter().map(|status| u32::try_from(status).ok().map(NodeId)).collect())
}

/// The nodes on which this process may have memory.
///
/// # Errors
/// The system's, where it does not tell.
pub(crate) fn allowed_nodes() -> io::Result<BTreeSet<NodeId>> {
    let mut nodes = NodeMask::empty();
    let (policy, address): (*mut c_int, *mut c_void) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the kernel writes the bits of the mask alone; no policy is asked for, and that of no address.
    let result = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, policy, nodes.as_mut_ptr(), MASK_BITS, address, MPOL_F_MEMS_ALLOWED)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(nodes.numbers().map(NodeId).collect())
}

fn page_bytes() -> usize {
    // SAFETY: takes and changes nothing.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("the size of a page is always known")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a sandbox may answer to questions about nodes.
    fn is_refusal(error: &io::Error) -> bool {
        matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
    }

    #[test]
    fn a_mapping_is_aligned_empty_and_of_whole_huge_pages() {
        for bytes in [1, MAPPING_BYTES, MAPPING_BYTES + 1] {
            let mut mapping = Mapping::new(bytes).expect("memory");
            assert_eq!(mapping.start().as_ptr().align_offset(MAPPING_BYTES), 0);
            assert_eq!(mapping.bytes(), bytes.next_multiple_of(MAPPING_BYTES));
            assert!(!mapping.is_bound());
            mapping.touch();
            // SAFETY: all of the mapping, which nobody else knows.
            let memory = unsafe { std::slice::from_raw_parts(mapping.start().as_ptr(), mapping.bytes()) };
            assert!(memory.iter().all(|byte| *byte == 0));
        }
        assert!(Mapping::new(usize::MAX).is_err());
        assert!(Mapping::new(usize::MAX - 2 * MAPPING_BYTES).is_err());
    }

    #[test]
    fn pages_are_on_a_node_once_they_are_touched() {
        let mut mapping = Mapping::new(3 * MAPPING_BYTES).expect("memory");
        let address = mapping.start().as_ptr();
        match node_of(address) {
            Err(error) if is_refusal(&error) => return,
            before => assert_eq!(before.expect_err("not written yet").kind(), io::ErrorKind::NotFound),
        }
        assert!(mapping.residence().expect("tells").is_empty());
        mapping.touch();
        let residence = mapping.residence().expect("tells");
        assert_eq!(residence.values().sum::<usize>(), mapping.bytes() / page_bytes());
        assert!(residence.contains_key(&node_of(address).expect("written")));
        assert_eq!(node_of(ptr::null()).expect_err("not mapped").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_bound_mapping_is_on_its_node() {
        let Ok(nodes) = allowed_nodes() else { return };
        assert!(!nodes.is_empty());
        for node in nodes {
            let mut mapping = Mapping::new_on(MAPPING_BYTES, Some(node)).expect("memory");
            mapping.touch();
            if mapping.is_bound() {
                assert_eq!(mapping.residence().expect("tells").into_keys().collect::<Vec<_>>(), [node]);
            }
        }
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        for node in [1023, 1024, u32::MAX] {
            match Mapping::new_on(MAPPING_BYTES, Some(NodeId(node))) {
                Ok(mapping) => assert!(!mapping.is_bound() && node < 1024, "node {node}"),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "node {node}"),
            }
        }
    }
}
