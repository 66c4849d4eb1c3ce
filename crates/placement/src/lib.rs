//! Where threads run and memory lies.
//!
//! A large machine is several small ones: each processor reaches its own memory directly and that of the others through
//! them, at twice the time or more. So every worker is pinned to a core, what it alone uses lies in the memory of its
//! node, what a node's workers share lies there too, and only what has no place is spread over all:
//!
//! ```text
//!        node 0                                node 1
//!  ┌───────────────────────────┐        ┌───────────────────────────┐
//!  │ core 0   core 1   core 2  │        │ core 3   core 4   core 5  │
//!  │ worker 0 worker 2 worker 4│        │ worker 1 worker 3 worker 5│
//!  │    │        │        │    │        │    │        │        │    │
//!  │ [thread] [thread] [thread]│        │ [thread] [thread] [thread]│  rows, work areas, log buffers
//!  │    └────────┼────────┘    │        │    └────────┼────────┘    │
//!  │    [     socket      ]────┼─ log 0 │    [     socket      ]────┼─ log 1
//!  │                           │        │                           │
//!  │ [ page ][      ][ page ][ ┼  g l o b a l  ┼ ][ page ][      ]  │  indexes, catalog
//!  └───────────────────────────┘        └───────────────────────────┘
//! ```
//!
//! # Words
//!
//! - **node**: some cores and the memory nearest to them. **socket**: a node that has cores; on most machines a
//!   processor.
//! - **core**: what a thread is pinned to; with simultaneous multithreading each hardware thread counts.
//! - **worker**: a thread that runs transactions. **group**: the workers that share a log.
//! - **region**: whose memory a mapping is: a thread's, a socket's or nobody's (global).
//! - **binding**: where the system is told to put a mapping's pages.
//!
//! # Parts
//!
//! [`Topology`] is what the machine has; [`Placement`] is the plan made for it, pure arithmetic; [`pin_current_thread`]
//! and [`Mapping`] carry it out.
//!
//! ```
//! use saki_placement::{MAPPING_BYTES, Placement, Region, Topology, pin_current_thread};
//!
//! let placement = Placement::plan(&Topology::detect(), 2, None);
//! for worker in placement.workers().to_vec() {
//!     let mut rows = placement.map(worker.memory(), 4 * MAPPING_BYTES)?;
//!     std::thread::spawn(move || {
//!         pin_current_thread(worker.core).expect("a core of ours");
//!         rows.touch();
//!     });
//! }
//! let index = placement.map(Region::Global, 64 * MAPPING_BYTES)?;
//! # drop(index);
//! # std::io::Result::Ok(())
//! ```
//!
//! # Invariants
//!
//! - Placement is a matter of speed, never of correctness: nothing fails because a machine does not say what it is made
//!   of or a sandbox refuses a binding.
//! - Where only one node has memory, a mapping costs no system call for the sake of placement: it is bound to nothing.
//! - A plan depends on its arguments only; workers, groups and logs are numbered from 0 without holes.
//!
//! # Where the proofs are
//!
//! Made-up machines in the tests of each part. The example `placement` prints topology and plan of the machine it runs
//! on, starts the pinned workers and has the kernel tell where their memory lies; it fails if that is not where the
//! plan says. On a machine of one node that shows little, so run it on two. A virtual machine will do: any Linux whose
//! C library is not older than that of the machine which built the program.
//!
//! ```text
//! cargo build --release -p saki-mvcc --example placement
//! qemu-system-x86_64 … -smp 4 -m 2G \
//!     -object memory-backend-ram,id=m0,size=1G -numa node,nodeid=0,cpus=0-1,memdev=m0 \
//!     -object memory-backend-ram,id=m1,size=1G -numa node,nodeid=1,cpus=2-3,memdev=m1
//! guest$ ./placement 2 --nodes 2
//! 2 sockets: node 0 cores 0-1, node 1 cores 2-3
//!
//! worker 0: node 0 core 0, log 0
//! worker 1: node 1 core 2, log 1
//! global memory: interleaved over nodes 0-1
//!
//! memory                            found   wanted                            pages
//! worker 0: thread                  ok      on node 0                         node 0: 4096
//! worker 0: socket                  ok      on node 0                         node 0: 4096
//! worker 0: global                  ok      interleaved over nodes 0-1        node 0: 2048, node 1: 2048
//! worker 1: thread                  ok      on node 1                         node 1: 4096
//! worker 1: socket                  ok      on node 1                         node 1: 4096
//! worker 1: global                  ok      interleaved over nodes 0-1        node 0: 2048, node 1: 2048
//! worker 1: thread, written by 0    ok      on node 1                         node 1: 4096
//! ```
//!
//! `--nodes` makes it fail on a machine with another number of sockets. That one node is left alone shows in
//! `strace -f -c target/release/examples/placement`: no `mbind` among its calls.

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

#[allow(unsafe_code)]
mod affinity;
mod ids;
mod mask;
#[allow(unsafe_code)]
mod memory;
mod plan;
mod topology;

pub use affinity::{allowed_cores, current_core, pin_current_thread};
pub use ids::{CoreId, NodeId};
pub use memory::{Binding, MAPPING_BYTES, Mapping, node_of};
pub use plan::{CoreGroup, Placement, Region, WORKERS_PER_LOG, WorkerPlace};
pub use topology::{Node, Topology};
