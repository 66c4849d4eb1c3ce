//! Whether the reads of a serializable transaction would give the same again, right before its timestamp.
//!
//! From the timestamp to the stamps others wait: who is to see what is about to be stamped, and who waits until a later
//! commit is durable. So many reads are validated before the timestamp is taken, as of a moment `c`, and after it only
//! what commits between the two have written is looked at:
//!
//! ```text
//!   watch ── c ── reads hold as of c? ── what was written since, until little is left ── tick t ── what is left
//!    │       └ all through c have ended
//!    └ commits note their rows from here on, before their stamps
//! ```
//!
//! Why it is enough: a read that held as of `c` and does not hold right before `t` was changed by a commit between
//! them, which has noted its row when it has ended, and all before `t` are waited for. It is a row that was read, or it
//! has a key, or an entry, in a range that was. Whether a noted row is such is found by hash and by bisection, which
//! are made ready before the timestamp: after it the work is by what was noted, however much was read. A row that left
//! memory after `c` is noted as another one by who writes its key; so if any have, and something was written to their
//! table, the reads are validated again.
//!
//! Few reads are validated after the timestamp alone. If a range among them turns out to have got many rows, that are
//! not committed perhaps, the timestamp is given up, and they are validated as many are; so it is if many rows have
//! been noted at the last moment.

use super::Transaction;
use crate::error::Error;
use crate::runner::{Note, Observer, Reads, Sabotage, Spans, Validity, Watch};

/// So few noted rows are left to the time after the timestamp.
const FEW: usize = 64;
/// So often it is tried to leave few.
const ROUNDS: usize = 8;
/// If more were noted until the timestamp, by a commit of many rows, they are not looked at while others wait.
const NOTED_MAX: usize = 16 * FEW;

/// What was validated before the timestamp, and how to find what has changed since.
pub(super) struct Prepared {
    watch: Watch,
    spans: Spans,
    /// How many rows of each table that was read had left memory before the reads were looked at.
    released: Vec<u64>,
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
        self.prepare_all().map(Some)
    }

    /// Validates ahead, however little was read.
    ///
    /// # Errors
    /// As `prepare`.
    pub(super) fn prepare_all(&self) -> Result<Prepared, Error> {
        let prepared = loop {
            if let Some(prepared) = self.hold_ahead(Watch::begin(&self.runner.shared))? {
                break prepared;
            }
        };
        if let Some(Sabotage::BeforeTick(meanwhile) | Sabotage::AroundTick(meanwhile, _)) = self.sabotage() {
            meanwhile();
        }
        Ok(prepared)
    }

    /// `None`: what was written since does not say it.
    fn hold_ahead(&self, watch: Watch) -> Result<Option<Prepared>, Error> {
        let pin = self.pin();
        let (writer, epochs) = (self.writer, self.epochs());
        let after = |timestamp: u64| Observer { timestamp: timestamp + 1, writer, epochs, pin: &pin };
        let changed_by = |timestamp: u64| {
            self.meet(timestamp);
            Error::Serialization
        };
        let reads = &mut *self.reads.borrow_mut();
        self.runner.participant.visiting(|| {
            let released = reads.released();
            if !reads.hold_after(after(watch.since())) {
                return Err(changed_by(watch.since()));
            }
            let prepared = Prepared { spans: reads.spans(), watch, released };
            for _ in 0..ROUNDS {
                let noted = prepared.watch.take();
                // Whoever has noted something has a timestamp, and has ended after this.
                let now = epochs.wait_for_commits();
                match self.hold_beside(reads, &noted, &prepared, after(now)) {
                    Validity::Changed => return Err(changed_by(now)),
                    Validity::Unclear => return Ok(None),
                    Validity::Holds if noted.len() <= FEW => break,
                    Validity::Holds => {}
                }
            }
            Ok(Some(prepared))
        })
    }

    /// Whether the reads that were validated ahead would give the same, now that these rows were written.
    fn hold_beside(&self, reads: &Reads, noted: &[Note], prepared: &Prepared, observer: Observer<'_>) -> Validity {
        let Prepared { watch, spans, released } = prepared;
        let tables = self.runner.shared.tables.read();
        let mut is_clear = true;
        for note in noted {
            // Of a table that has been dropped meanwhile nothing can be said.
            let Some(table) = tables.get(&note.table).map(|table| table.inner()) else { return Validity::Changed };
            if !reads.hold_since(watch.since(), (table, note.row), spans, observer) {
                return Validity::Changed;
            }
            is_clear &= !reads.are_released_since(released, table);
        }
        if is_clear { Validity::Holds } else { Validity::Unclear }
    }

    /// Whether all reads would give the same again, right before `timestamp`.
    pub(super) fn validity(&self, timestamp: u64, prepared: Option<&Prepared>) -> Validity {
        if !self.is_serializable() {
            return Validity::Holds;
        }
        let pin = self.pin();
        let reads = &mut *self.reads.borrow_mut();
        let observer = Observer { timestamp, writer: self.writer, epochs: self.epochs(), pin: &pin };
        match self.sabotage() {
            Some(Sabotage::PanicBesideTick) => panic!("as it was told to"),
            Some(Sabotage::AfterTick(meanwhile) | Sabotage::AroundTick(_, meanwhile)) => meanwhile(),
            Some(Sabotage::Told(tell)) => tell(false),
            _ => {}
        }
        self.runner.participant.visiting(|| match (prepared, self.sabotage()) {
            _ if !reads.tables_hold(self.writer) => Validity::Changed,
            (Some(prepared), _) => {
                observer.epochs.wait_for_commits_before(timestamp);
                let noted = prepared.watch.take();
                match noted.len() <= NOTED_MAX {
                    true => self.hold_beside(reads, &noted, prepared, observer),
                    false => Validity::Unclear,
                }
            }
            (None, Some(Sabotage::IgnoreRows)) => reads.ranges_hold(observer, usize::MAX),
            (None, Some(Sabotage::IgnoreRanges)) if reads.rows_hold(observer) => Validity::Holds,
            (None, Some(Sabotage::IgnoreRanges)) => Validity::Changed,
            (None, _) => reads.few_hold(observer),
        })
    }

    fn sabotage(&self) -> Option<Sabotage> {
        self.runner.shared.sabotage
    }
}
