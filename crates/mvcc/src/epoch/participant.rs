//! A participant: its announcements, holds and visits.

use std::sync::Arc;

use super::epochs::{Announcement, EXACT, Epochs, IDLE};
use crate::sync::{Ordering, fence};

/// A right to pin, one pin at a time.
pub struct Participant {
    pub(super) epochs: Arc<Epochs>,
    pub(super) number: u32,
}

impl Epochs {
    /// A place among the participants; `None` if all are taken.
    pub fn join(self: &Arc<Self>) -> Option<Participant> {
        let mut places = self.places.lock();
        let number = places.take()?;
        // Before the first announcement, whose fence makes all see it.
        self.announcements_used.store(places.end(), Ordering::Release);
        Some(Participant { epochs: Arc::clone(self), number })
    }
}

impl Participant {
    #[inline]
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The state that others read of it.
    #[inline]
    pub(crate) fn state(&self) -> &Announcement {
        self.epochs.announcement(self.number)
    }

    /// The sequence of the transaction that this place runs next.
    pub(crate) fn sequence(&self) -> u64 {
        self.state().status.load(Ordering::Acquire) >> 1
    }

    /// Keeps everything that is reachable from now on from being freed, until the pin is dropped.
    #[inline]
    pub fn pin(&mut self) -> Pin<'_> {
        self.announce(self.epochs.now());
        Pin { participant: self }
    }

    /// Announces `at`, a time that every snapshot taken from here on will not precede.
    #[inline]
    pub(crate) fn announce(&self, at: u64) {
        // Release: a watermark that sees this announcement has also seen the end of this participant's pin before.
        self.epochs.announcement(self.number).announced.store(at, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Announces that `snapshot`, taken after the announcement before, is all that this participant looks at.
    #[inline]
    pub(crate) fn announce_exact(&self, snapshot: u64) {
        self.state().announced.store(snapshot | EXACT, Ordering::Release);
    }

    /// Announces that versions later than its snapshot are looked at as well, from here on.
    #[inline]
    pub(crate) fn announce_since(&self, snapshot: u64) {
        self.state().announced.store(snapshot, Ordering::Release);
    }

    /// Announces the snapshot of another participant, which stays announced at it until this is done.
    pub(crate) fn take_over(&self, snapshot: u64) {
        self.announce_exact(snapshot);
    }

    /// Keeps the watermark from passing `at`, a watermark of before, if it has not done so yet; the answer comes with
    /// [`is_holding`](Self::is_holding), after the next announcement.
    #[inline]
    pub(crate) fn hold(&self, at: u64) {
        self.state().held.store(at, Ordering::Release);
    }

    /// Ends what `hold` began.
    pub(crate) fn let_go(&self) {
        self.state().held.store(IDLE, Ordering::Release);
    }

    /// Whether the watermark has stayed at or before `at` since it was computed, and will until the end of this
    /// participant's pin.
    ///
    /// It has if another's snapshot is found to be that old, after this one's own hold could be seen by all: every
    /// watermark computed before met that snapshot's announcement (else the snapshot would be no earlier than it), and
    /// every one computed later, or meanwhile, meets the hold: it is taken over. Neither a hold, which may be in vain
    /// itself, nor a time announced before a snapshot proves as much.
    pub(crate) fn is_holding(&self, at: u64) -> bool {
        let mut others = (0..).zip(self.epochs.in_use()).filter(|(number, _)| *number != self.number);
        let is_held = others.any(|(_, other)| other.time().is_some_and(|(taken, exact)| exact && taken <= at));
        if !is_held {
            self.state().held.store(IDLE, Ordering::Release);
        }
        is_held
    }

    /// A visit to chains: for the time of `visit` no version is freed that is linked at its begin. Visits within visits
    /// are part of them.
    #[inline]
    pub(crate) fn visiting<T>(&self, visit: impl FnOnce() -> T) -> T {
        let is_outer = self.begin_visit();
        let outcome = visit();
        self.end_visit(is_outer);
        outcome
    }

    /// Begins a visit, unless one is going on: the answer is for [`end_visit`](Self::end_visit).
    #[inline]
    pub(crate) fn begin_visit(&self) -> bool {
        let visits = &self.state().visits;
        let before = visits.load(Ordering::Relaxed);
        let is_outer = before & 1 == 0;
        if is_outer {
            visits.store(before + 1, Ordering::Relaxed);
            // No fence: see `Quiescence`. The compiler must not move reads of chains up here.
            crate::sync::light_fence();
        }
        is_outer
    }

    #[inline]
    pub(crate) fn is_visiting(&self) -> bool {
        self.state().visits.load(Ordering::Relaxed) & 1 == 1
    }

    #[inline]
    pub(crate) fn end_visit(&self, is_outer: bool) {
        if is_outer {
            let visits = &self.state().visits;
            // Release: whoever sees the end of the visit sees that it has read what it read.
            visits.store((visits.load(Ordering::Relaxed) | 1) + 1, Ordering::Release);
        }
    }

    /// Ends what `announce` began, and what `hold` did.
    #[inline]
    pub(crate) fn withdraw(&self) {
        let state = self.state();
        state.announced.store(IDLE, Ordering::Release);
        state.held.store(IDLE, Ordering::Release);
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.withdraw();
        self.epochs.leave(self.number);
    }
}

/// Proof that its holder is pinned.
pub struct Pin<'a> {
    participant: &'a Participant,
}

impl<'a> Pin<'a> {
    /// A pin for a participant that has announced itself and stays so for `'a`.
    #[inline]
    pub(crate) fn of_announced(participant: &'a Participant) -> std::mem::ManuallyDrop<Self> {
        std::mem::ManuallyDrop::new(Self { participant })
    }

    #[inline]
    pub fn epochs(&self) -> &'a Epochs {
        &self.participant.epochs
    }

    #[inline]
    pub(crate) fn participant(&self) -> &'a Participant {
        self.participant
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.participant.withdraw();
    }
}
