//! Another node's pages, at nearly the speed of one's own.
//!
//! ```text
//!   reader's node                                                      owner's node
//!  ┌────────────────────┐   ask: addresses, frames that are free   ┌────────────────────┐
//!  │ RemoteStore        │ ───────────────────────────────────────► │ PageService        │
//!  │   RemoteLane ──────┼─ answer: which frames pages lie in ◄──── │   guests, frames   │
//!  │     ▲              │                                          │     │ try_read     │
//!  │   frames of the    │ ◄═══ one-sided read of those frames ════ │   frames (lent)    │
//!  │   reader's cache   │                                          │     ▲ any PageStore │
//!  └────────────────────┘                                          └─────┴──────────────┘
//! ```
//!
//! # Words
//!
//! - **owner**: the node that has the pages, in any [`PageStore`](saki_page::PageStore). **Reader**: a node that reads
//!   them, through a store of its own that asks the owner. **Guest**: a reader's link, as the owner knows it.
//! - **ask**: a page's address, with a number for the answer. A message carries many. **Answer**: the frame in which
//!   the page lies, or why there is none.
//! - **frame**: memory for one page; here, of the region that an owner lends. A frame is free, read into, or lent to
//!   one guest, who **frees** it with a later message.
//!
//! # Invariants
//!
//! - Pages are answered in the order in which they come from devices. Neither side has a thread that waits for one of
//!   them.
//! - **The reader reads into its own frames**, and nobody else writes there. What it has read is worth what its
//!   checksum says, which whoever reads through a [`PagePort`](saki_page::PagePort) compares, as of local pages.
//! - An owner keeps for a guest no more than was agreed: a bounded number of asks, and an equal part of the frames. A
//!   reader keeps no more than it has asked for. More is back pressure ([`Refusal::Busy`](saki_page::Refusal::Busy)).
//! - Runs of pages, such as columns of segments, are read as pages are, through
//!   [`PagedRuns`](saki_page::PagedRuns): neighbours are asked for together, and the owner's device gets one request.
//! - Every read ends, by the deadline (5 s unless [`RemoteOptions`] say otherwise): with the page, or with an error
//!   that names node and page.
//!
//! # Failure model
//!
//! - A link that is lost is made again, and what was under way is asked for again: pages never change, so reading one
//!   twice is reading it once. An owner that restarts in time is not noticed but by the delay; one that does not, or
//!   that hangs, is an error once the deadline is over.
//! - A page that comes with other bytes than its parent promises is read once more, by the owner from its home; then
//!   it is an error that names page and node.
//! - A reader that dies or keeps frames for longer than the lease (5 s) is hung up on, and its frames go to others. If
//!   it reads them all the same, it reads another page, and its checksum tells.
//! - Whatever a peer sends that has no meaning ends the link. Peers that know the cluster's key can make each other's
//!   reads fail; they cannot make them wrong.
//!
//! # Where the proofs are
//!
//! `tests/it`: one suite over every transport of this machine and over a simulated network (`contract`), with trees in
//! volumes read from another node; runs (`runs`), faults (`faults`), and hostile peers (`hostile`). The bytes are in
//! `docs/remote.md`; `saki-bench remote` measures.

#![forbid(unsafe_code)]

mod error;
mod owner;
mod reader;
pub mod wire;

pub use error::RemoteError;
pub use owner::{PageServer, PageService, ServiceOptions};
pub use reader::{Connect, RemoteOptions, RemoteStore};
