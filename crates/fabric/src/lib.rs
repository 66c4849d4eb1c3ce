//! Between nodes: messages, and regions of memory that one node lends and others read without asking it.
//!
//! ```text
//!      reactor thread                                      thread of another node
//!   ┌──────────────────┐                                 ┌──────────────────┐
//!   │ send, read, poll │                                 │ poll             │
//!   └───────┬──────────┘        wire: who one is,        └───────┬──────────┘
//!          Port ── Link ◄─────── openings, signs of life ─────► Link ── Port
//!                     │                                            │     └── Regions ── Arena (lent)
//!                  Direct ◄───── rings: messages ─────────────► Direct              ▲
//!                     └───────── reads, without the peer ───────────────────────────┘
//!
//!      tcp: a wire only; reads are served by the peer's port
//!      shm: files in memory that both processes map
//!    verbs: RDMA: rings that the device writes, regions that it reads
//!      sim: nodes of one thread, over a network that obeys a seed
//! ```
//!
//! # Words
//!
//! - **node**: a process of the cluster; whoever knows the **cluster key**.
//! - **port**: one thread's way to other nodes over one transport, polled as a lane of a device is. **Link**: a port's
//!   connection with one peer, made again when it is lost.
//! - **message**: bytes that the peer's port gives out. **Region**: an arena that a node lends; whoever shows its
//!   **key** may read it. **Handle**: what a link calls a region that it has opened.
//! - **wire**: a link's stream of frames. **Direct way**: rings and one-sided reads beside it.
//! - **ring**: memory of the receiver's that the sender writes and the receiver polls.
//! - **incarnation**: drawn when a port is opened: another one than before tells that a peer has started again.
//!
//! # Invariants
//!
//! - Every operation completes exactly once, with its token and, of a read, its buffer. Buffers in flight are the
//!   port's.
//! - **The reader reads into its own frames.** No peer writes into them, at any time: what was verified stays so. Peers
//!   write into rings, and rings hold nothing but messages.
//! - No key of a region, no descriptor and no address of memory is told before both sides have shown that they know the
//!   cluster's key. A peer can map or reach what is lent for reading only.
//! - Messages of a link arrive in order, each once, until the link goes down. What was sent last may be lost then.
//! - Nothing waits longer than the deadline (5 s unless [`PortOptions`] say otherwise), and nothing that a peer does
//!   makes this side keep more than a bounded amount for it: lengths are checked before there is memory for them, what
//!   is read ahead and what waits to be sent have limits.
//!
//! # Failure model
//!
//! Peers that know the key may fail, stop, start again, be cut off or send anything: the link goes down with one error
//! that says what was wrong, and everything under way on it completes with that. A read gives bytes, not the truth:
//! its owner may have taken the memory back or be writing there. Pages carry checksums in their parents, which is how
//! the reader knows. Frames carry checksums against damage on the way, but **nothing is encrypted or signed after the
//! handshake**: over networks that others use, a tunnel has to see to that.
//!
//! # Where the proofs are
//!
//! [`contract`] is run against every transport; bytes are in `docs/fabric.md`. [`SimNetwork`] runs
//! the same links from seeds, with faults. `unsafe` is confined to `system` and to `verbs`.

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

pub mod contract;
mod error;
mod event;
mod link;
mod options;
mod port;
mod region;
mod secret;
mod stream;
#[allow(unsafe_code)]
mod system;
mod transport;
mod transports;
pub mod wire;

pub use error::FabricError;
pub use event::{Completion, Event, LinkId, Peer};
pub use options::PortOptions;
pub use port::Port;
pub use region::{REGION_KEY_BYTES, RegionKey, Regions};
pub use secret::{CLUSTER_KEY_BYTES_MIN, ClusterKey, Entropy, SeededEntropy, SystemEntropy};
pub use transport::Transport;
pub use transports::{Shm, Sim, SimNetwork, SimRates, Tcp, Verbs};
pub use wire::{MESSAGE_BYTES_MAX, PROTOCOL_VERSION, READ_BYTES_MAX};
