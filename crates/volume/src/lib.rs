//! Pages of one address space on the slots of devices: what lies where, which generation counts, how the next one
//! takes its place, and how chunks move while they are read.
//!
//! ```text
//!   pages    0 1 2 … 127 │ 128 …  255 │ 256 …          address space of a database, 8 KiB pages
//!               │        │            │
//!   chunks     0         │     1      │    2           1 MiB each, ids never reused
//!              └───────┐ └──────┐     └───────────┐
//!                      ▼        ▼                 ▼     chunk map
//!   slots    [0: superblocks][1: …][2: …][3: journal][4: …][5: free] …   the device, 1 MiB each
//!
//!   begin ─► Publication ─┬─ writer ─► PageWriter ── append ─► pages in fresh chunks and open tails
//!                         ├─ free(pages of the old generation)
//!                         └─ commit(root): journal, flush, superblock, flush, its copy, flush ─► generation + 1
//! ```
//!
//! # Words
//!
//! - **chunk**: 1 MiB of the address space; the unit of placement. **Slot**: 1 MiB of a device. **Chunk map**: from
//!   one to the other. A [`Location`] names device and slot.
//! - **home**: where a chunk lies for good; the journal names it. **Copy**: where it is read instead, on a device that
//!   may be lost; nothing names it, and its bytes are verified as all others are.
//! - **metadata**: superblocks and journal, on one device or the same on two. **Role** of a device: whether it holds
//!   them, takes homes, takes copies, or is being drained. **Label**: what a device says of itself.
//! - **generation**: one published state: an opaque *root* (at most [`ROOT_BYTES_MAX`] bytes) and every page reachable
//!   from it.
//! - **publication**: the next generation in the making; one at a time. Dropped, it leaves nothing behind.
//! - **live pages**: those that the newest generation refers to, counted per chunk. Whoever publishes says which
//!   pages it wrote and which it freed; a chunk without live pages gives its slot back.
//! - **tail**: a published chunk with room, where the next publication goes on: small publishes share chunks.
//! - **part**: what a page is of, as its writer says ([`saki_base::Part`]). Large parts have chunks of their own. The
//!   journal has the parts of each chunk: no fewer than it has pages of.
//! - **held generation**: its pages stay readable while somebody holds it.
//! - **image**: a held generation as its chunks, to be copied elsewhere. **Restoration**: a volume made anew from one.
//! - **scratch**: slots for temporary data, which no generation names.
//!
//! # Invariants
//!
//! - A published page is never written again, and an address that was given out never names other bytes while the
//!   process lives. Caches need no invalidation.
//! - A slot is reused only when its chunk has no live page, no held generation reaches it, and the older superblock on
//!   the device does not either, nor its journal. So going back to that superblock always finds its pages.
//! - A generation that was acknowledged was durable in two places, and at most one place is being written at a time.
//!   So a torn superblock was never acknowledged, one rotten superblock costs nothing, and two are known to be rot
//!   (`places`).
//! - Opening flushes before it reads, and mends superblocks before anything is written that depends on them.
//! - Every slot is exactly one of: slot 0, a chunk's home, its copy, the journal's, scratch, pending, free.
//! - A slot that a chunk has left is given out again only when no superblock names it and no lane reads it (`map`'s
//!   epochs).
//! - A generation that was acknowledged is on every device of the metadata; while one is missing nothing is published.
//! - A device is never taken for another: number, database and generation of attachment are on each.
//! - Reading takes no lock: a lane finds a chunk through its own view of the map (`map`).
//! - Locks are taken in the order publication ledger or durable state, then space.
//!
//! # Failure model
//!
//! - A crash or power loss at any instant leaves the generation before or after a publish, whole.
//! - A device that is missing when the volume is opened makes what is at home there unreadable, by name, and nothing
//!   else. A copy that is missing, rotten or unreadable costs a read of the home.
//! - A full or failing device fails the publication; the published generation stays readable, nothing is lost, the
//!   slots taken are free again. The journal has slots in reserve, so that a full device can publish the DROP that
//!   frees it.
//! - If writing the superblock itself fails, it is done again for ten seconds. Then it is unknown which generation the
//!   device holds: publishing is refused from then on ([`VolumeError::PublishOutcomeUnknown`]), reading goes on.
//! - A flush that fails may have dropped what anybody had written before it: what was begun by then is not published
//!   ([`VolumeError::WritesInDoubt`]).
//! - A damaged superblock with a whole copy is reported ([`Volume::superblock_damages`]) and mended. If both copies
//!   of what may be the newest generation are damaged, opening refuses ([`VolumeError::GenerationLost`]) unless the
//!   loss is accepted.
//! - A damaged journal is an error that names device and offset. Damaged pages are found above, by their
//!   parents' checksums. Scratch data carries checksums of its own.
//! - Breaking this crate's contract (freeing a page twice, committing with open writers) is
//!   [`VolumeError::Misuse`], found before anything is written.
//!
//! # Where the proofs are
//!
//! `tests/it`: every picture that a power loss may leave of short histories (`images`), pictures at random instants
//! of long ones (`crash`), of all devices at one instant while they come and go (`history`), superblocks and journals
//! that rot (`rot`), devices that fail or fill up (`faults`), and one test per promise (`stories`, `devices`). The
//! bytes are described in `docs/file-format.md`, the devices in `docs/tiers.md`.

#![forbid(unsafe_code)]

mod blocking;
mod device;
mod durable;
mod error;
mod format;
mod lane;
mod map;
mod places;
mod publication;
mod relocation;
mod scratch;
mod space;
mod volume;

pub use error::VolumeError;
pub use format::superblock::ROOT_BYTES_MAX;
pub use format::table::{Class, DEVICES_MAX, DeviceEntry, LABEL_BYTES_MAX, Role};
pub use lane::VolumeRunLane;
pub use map::Location;
pub use places::SuperblockDamage;
pub use publication::{PageRun, PageWriter, Publication};
pub use scratch::{
    SCRATCH_BLOCK_BYTES, SCRATCH_BLOCKS_PER_RUN, ScratchReader, ScratchRun, ScratchSpace, ScratchWriter,
};
pub use space::{DeviceSlots, HeldGeneration};
pub use volume::{
    DeviceStatus, FindDevice, HeldImage, Image, ImageChunk, ImageReader, NewDevice, OpenOptions, PROFILE_BYTES_MAX,
    PublishedChunk, Restoration, RestorationWriter, Volume, VolumeOptions, VolumeStats,
};
