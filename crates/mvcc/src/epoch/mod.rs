//! Who may still look at what: the commit clock serves as the epoch of reclamation.
//!
//! Whoever reads shared memory is a *participant* and *pins* first: it writes the clock's time into a cache line of its
//! own. What nobody can reach any more is *retired* with the time of its retirement, and freed once every pin is later
//! than that.
//!
//! ```text
//!   pin:        announce a = clock ── fence ── read shared memory       (a <= every snapshot taken under the pin)
//!   retire:     unlink ── fence ── r = clock                            free when r < watermark
//!   watermark:  bound = clock ── fence ── min(bound, every announcement)
//! ```
//!
//! # Why it is safe
//! Take a pin and a watermark computed elsewhere. Of their two fences one comes first. If it is the pin's, the
//! watermark sees the announcement and is no later than it. If it is the watermark's, then the pin's snapshot, read
//! after its fence, is no earlier than `bound`. Either way no snapshot is earlier than the watermark, and by the same
//! argument a pin that is later than `r` has its fence after that of the retirement, so it does not see what was
//! unlinked. (`loom` checks it.)
//!
//! # Beside old snapshots
//! One old snapshot holds the watermark back, but sees only one version of a row. Versions between it and the newest
//! are freed all the same: an announcement that is *exact* says which versions its participant can still ask for, and a
//! participant that is not in the middle of a *visit* to a chain holds no pointer to any other. A visit is marked by
//! two plain stores into the participant's own line; whoever frees pays for the missing fence with the system call
//! `membarrier`, once for many versions ([`Quiescence`]).
//!
//! # Taking over
//! A participant may take over the snapshot of another while that is announced: it announces the same, and only then
//! the other may go on or end. Whoever looks through the announcements may come by the new one too early and by the old
//! one too late; but then it has seen the old one's end, and so finds the new announcement if it looks once more.
//! Therefore all are looked at twice.
//!
//! The clock is 0 before the first commit; the first commit's timestamp is 1.
//!
//! `participant` is who announces, `places` their numbers, `snapshots` what is known beside old ones, `garbage`
//! what waits to be freed.

mod barrier;
mod epochs;
mod garbage;
mod participant;
mod places;
mod snapshots;

#[cfg(all(test, saki_loom))]
mod loom;

pub use epochs::Epochs;
pub use garbage::Garbage;
pub use participant::{Participant, Pin};
pub use snapshots::{Quiescence, Snapshots};
