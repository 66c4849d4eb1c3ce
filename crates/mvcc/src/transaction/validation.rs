//! Whether the reads of a serializable transaction would give the same again, right before its timestamp.
//!
//! From the timestamp to the stamps others wait: who is to see what is about to be stamped, and who waits until a later
//! commit is durable. So much is validated before the timestamp is taken, as of a moment `c`, and after it only what
//! commits between the two have written:
//!
//! ```text
//!   watch ── c ── reads hold as of c? ── what was written since, until little is left ── tick t ── what is left
//!    │       └ all through c have ended
//!    └ commits note their rows from here on, before their stamps
//! ```
//!
//! Why it is enough: a read that held as of `c` and does not hold right before `t` was changed by a commit between
//! them, which has noted its row when it has ended, and all before `t` are waited for. It is a row that was read, and
//! then it is among the noted ones; or one that came into a range, and then a leaf of that has changed since the range
//! was read or read anew, or the row was found in the leaf, not committed yet, and so it counts as read.

use super::Transaction;
use crate::error::Error;
use crate::runner::{Observer, Sabotage, Watch};

/// So few noted rows are left to the time after the timestamp.
const FEW: usize = 64;
/// So often it is tried to leave few.
const ROUNDS: usize = 8;

/// What was validated before the timestamp, and what is left.
pub(super) struct Prepared {
    watch: Watch,
    /// Rows that were read and may have changed since.
    doubtful: Vec<usize>,
}

impl Transaction<'_> {
    /// Validates many reads ahead.
    ///
    /// # Errors
    /// `Serialization` if they do not hold already.
    pub(super) fn prepare(&mut self) -> Result<Option<Prepared>, Error> {
        if !self.is_serializable() {
            return Ok(None);
        }
        // Validation looks at versions later than the snapshot; they must not be pruned as seen by nobody.
        self.runner.participant.announce_since(self.snapshot);
        let is_sabotaged = matches!(self.sabotage(), Some(Sabotage::IgnoreRows | Sabotage::IgnoreRanges));
        if !self.reads.borrow().are_many() || is_sabotaged {
            return Ok(None);
        }
        let mut prepared = Prepared { watch: Watch::begin(&self.runner.shared), doubtful: Vec::new() };
        if !self.hold_ahead(&mut prepared) {
            self.meet(prepared.watch.since());
            return Err(Error::Serialization);
        }
        if let Some(Sabotage::BeforeTick(meanwhile)) = self.sabotage() {
            meanwhile();
        }
        Ok(Some(prepared))
    }

    fn hold_ahead(&self, prepared: &mut Prepared) -> bool {
        let Prepared { watch, doubtful } = prepared;
        let pin = self.pin();
        let observer = Observer { timestamp: watch.since() + 1, writer: self.writer, epochs: self.epochs(), pin: &pin };
        let reads = &mut *self.reads.borrow_mut();
        self.runner.participant.visiting(|| {
            if !reads.hold_after(observer) {
                return false;
            }
            for _ in 0..ROUNDS {
                let noted = watch.take();
                let are_few = noted.len() <= FEW;
                doubtful.extend(noted);
                if are_few {
                    break;
                }
                // Takes as long as what has changed since is much, so less is noted meanwhile.
                if !reads.renew_ranges(observer) {
                    return false;
                }
            }
            reads.retain_read(doubtful);
            true
        })
    }

    /// Whether all reads would give the same again, right before `timestamp`.
    pub(super) fn is_valid(&self, timestamp: u64, prepared: Option<&mut Prepared>) -> bool {
        if !self.is_serializable() {
            return true;
        }
        let pin = self.pin();
        let reads = &mut *self.reads.borrow_mut();
        let observer = Observer { timestamp, writer: self.writer, epochs: self.epochs(), pin: &pin };
        match self.sabotage() {
            Some(Sabotage::PanicBesideTick) => panic!("as it was told to"),
            Some(Sabotage::AfterTick(meanwhile)) => meanwhile(),
            _ => {}
        }
        let rows_are_ignored = matches!(self.sabotage(), Some(Sabotage::IgnoreRows));
        let ranges_are_ignored = matches!(self.sabotage(), Some(Sabotage::IgnoreRanges));
        self.runner.participant.visiting(|| {
            let rows_hold = match prepared {
                Some(Prepared { watch, doubtful }) => {
                    observer.epochs.wait_for_commits_before(timestamp);
                    doubtful.extend(watch.take());
                    reads.noted_rows_hold(doubtful, observer)
                }
                None => rows_are_ignored || reads.rows_hold(observer),
            };
            rows_hold && (ranges_are_ignored || reads.ranges_hold(observer))
        })
    }

    fn sabotage(&self) -> Option<Sabotage> {
        self.runner.shared.sabotage
    }
}
