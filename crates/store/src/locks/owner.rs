//! Who holds locks: a session for its transactions, or work inside of the database; and how it waits for them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use saki_base::{GenerationNumber, TableId};
use saki_mvcc::Holder;

use super::account::{Account, Taken};
use super::advisory::AdvisoryKey;
use super::grant::Grant;
use super::manager::{Asked, Locks};
use super::mode::{LockMode, Policy};
use super::stop::{PAUSE, Stop};
use saki_catalog::Result;

/// Holds locks until they are let go. Whatever it still holds goes when it is dropped.
pub struct LockOwner {
    locks: Arc<Locks>,
    number: u64,
    account: Arc<Account>,
}

/// How many locks an owner held at some time: a savepoint of locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockMark(usize);

impl LockOwner {
    /// Somebody who holds locks of a database.
    pub fn new(locks: &Arc<Locks>) -> Arc<Self> {
        let (number, account) = locks.register();
        Arc::new(Self { locks: Arc::clone(locks), number, account })
    }

    /// States the number by which `pg_locks` and `pg_stat_activity` know the owner.
    pub fn set_process(&self, process: i64) {
        self.account.process.store(process, Ordering::Relaxed);
    }

    /// States the generation that the owner's transaction sees, until that ends and lets all of its locks go.
    #[inline]
    pub fn set_seen(&self, generation: GenerationNumber) {
        self.account.seen.store(generation.0, Ordering::Relaxed);
    }

    /// Somebody else whom `pg_locks` and `pg_stat_activity` know by the same number: for work that may go on for a
    /// while when its statement has ended.
    pub fn beside(&self) -> Arc<Self> {
        let other = Self::new(&self.locks);
        other.set_process(self.account.process.load(Ordering::Relaxed));
        other
    }

    /// Takes a weak lock if nobody holds or wants one that it could conflict with; whether it is held now. `false` says
    /// that [`Self::lock`] has to look. Costs one uncontended mutex of the owner's own.
    ///
    /// # Panics
    /// If the mode is not weak.
    #[inline]
    pub fn try_weak(&self, table: TableId, mode: LockMode) -> bool {
        assert!(mode.is_weak(), "{mode} is no weak mode");
        let mut held = self.account.held.lock();
        if held.has(table, mode) {
            return true;
        }
        // With the owner's own list locked: whoever wants a strong lock counts itself first, and looks into the list
        // then. Either this sees the count, or that one sees the lock.
        if self.locks.wants_strong(table) {
            return false;
        }
        held.taken.push(Taken { table, mode, is_shared: false });
        true
    }

    /// Takes a lock, or says who to wait with. `me` is the owner's transaction, if it holds rows that others may wait
    /// for.
    ///
    /// # Errors
    /// 40P01 if those that would be waited for wait for this owner.
    pub fn lock(
        self: &Arc<Self>,
        table: TableId,
        mode: LockMode,
        policy: Policy,
        me: Option<Holder>,
    ) -> Result<Requested> {
        if mode.is_weak() && self.try_weak(table, mode) || self.holds(table, mode) {
            return Ok(Requested::Granted);
        }
        Ok(match self.locks.request(self.number, table, mode, policy, me)? {
            Asked::Granted => {
                self.account.held.lock().taken.push(Taken { table, mode, is_shared: true });
                Requested::Granted
            }
            Asked::Refused => Requested::Refused,
            Asked::Waiting(grant) => {
                let owner = Arc::clone(self);
                Requested::Waiting(LockWait { owner, table, mode, grant, outlasts: false, is_over: false })
            }
        })
    }

    /// Takes an advisory lock, or says who to wait with: for the session if `outlasts`, until
    /// [`Self::release_advisory`], else with the transaction's other locks. `shared` is for any number of owners.
    ///
    /// # Errors
    /// 40P01 if those that would be waited for wait for this owner.
    pub fn lock_advisory(
        self: &Arc<Self>,
        key: AdvisoryKey,
        shared: bool,
        outlasts: bool,
        policy: Policy,
        me: Option<Holder>,
    ) -> Result<Requested> {
        let mode = advisory_mode(shared);
        let (table, asked) = self.locks.request_advisory(self.number, key, mode, policy, me)?;
        Ok(match asked {
            Asked::Granted => {
                self.keep(Taken { table, mode, is_shared: true }, outlasts);
                Requested::Granted
            }
            Asked::Refused => Requested::Refused,
            Asked::Waiting(grant) => {
                Requested::Waiting(LockWait { owner: Arc::clone(self), table, mode, grant, outlasts, is_over: false })
            }
        })
    }

    /// Lets an advisory lock of the session go, once; whether it had it.
    pub fn release_advisory(&self, key: AdvisoryKey, shared: bool) -> bool {
        let Some(number) = self.locks.advisory_number(key) else { return false };
        let mut held = self.account.held.lock();
        let mode = advisory_mode(shared);
        let found = held.advisory.iter().rposition(|taken| taken.table == number && taken.mode == mode);
        let released = found.map(|found| held.advisory.remove(found));
        drop(held);
        released.map(|taken| self.locks.release(self.number, &[taken])).is_some()
    }

    /// Lets all advisory locks of the session go.
    pub fn release_all_advisory(&self) {
        let released = std::mem::take(&mut self.account.held.lock().advisory);
        self.locks.release(self.number, &released);
    }

    /// Enters a lock that the owner has been given.
    fn keep(&self, taken: Taken, outlasts: bool) {
        let mut held = self.account.held.lock();
        if outlasts { held.advisory.push(taken) } else { held.taken.push(taken) }
    }

    /// Says that the owner waits until the transaction `holder` has ended, for as long as what this returns lives. `me`
    /// is the owner's own transaction, if others may wait for it.
    ///
    /// # Errors
    /// 40P01 if that one waits for this owner.
    pub fn wait_for_row(&self, me: Option<Holder>, holder: Holder) -> Result<RowWait<'_>> {
        self.locks.await_row(self.number, me, holder)?;
        Ok(RowWait(self))
    }

    /// Says that the owner gives way to others for as long as what this returns lives, and asks for a table again then.
    pub fn gives_way(&self, table: TableId, mode: LockMode) -> GivenWay<'_> {
        self.locks.await_later(self.number, table, mode);
        GivenWay(self)
    }

    /// Whether it holds a table in this very mode.
    pub fn holds(&self, table: TableId, mode: LockMode) -> bool {
        self.account.held.lock().taken.iter().any(|taken| taken.table == table && taken.mode == mode)
    }

    /// Whether it keeps others from changing rows of a table.
    pub fn keeps_changes_out(&self, table: TableId) -> bool {
        let keeps_out = |taken: &Taken| taken.table == table && taken.mode.conflicts_with(LockMode::RowExclusive);
        self.account.held.lock().taken.iter().any(keeps_out)
    }

    /// What it holds now.
    pub fn mark(&self) -> LockMark {
        LockMark(self.account.held.lock().taken.len())
    }

    /// Lets go of what was taken after a mark.
    pub fn release_to(&self, mark: LockMark) {
        let mut shared = Vec::new();
        let mut held = self.account.held.lock();
        while held.taken.len() > mark.0 {
            shared.extend(held.taken.pop().filter(|taken| taken.is_shared));
        }
        drop(held);
        if !shared.is_empty() {
            self.locks.release(self.number, &shared);
        }
    }

    /// Lets go of everything.
    pub fn release_all(&self) {
        self.account.seen.store(0, Ordering::Relaxed);
        self.release_to(LockMark::default());
    }
}

impl Drop for LockOwner {
    fn drop(&mut self) {
        self.release_all();
        self.release_all_advisory();
        self.locks.forget(self.number);
    }
}

/// PostgreSQL takes these modes.
fn advisory_mode(shared: bool) -> LockMode {
    if shared { LockMode::Share } else { LockMode::Exclusive }
}

/// What came of asking for a lock.
pub enum Requested {
    Granted,
    /// It is not there at once, and that was all that was asked.
    Refused,
    /// Others are before it.
    Waiting(LockWait),
}

/// A place in a table's queue, and a future that is ready when the lock is the owner's. Dropped before, it leaves the
/// queue.
#[must_use = "dropped, it leaves the queue"]
pub struct LockWait {
    owner: Arc<LockOwner>,
    table: TableId,
    mode: LockMode,
    grant: Arc<Grant>,
    /// It is the session's, not the transaction's.
    outlasts: bool,
    /// The owner has the lock, or has given it up.
    is_over: bool,
}

/// An owner waits for a row for as long as this lives.
#[must_use = "dropped, nobody knows of the wait"]
pub struct RowWait<'o>(&'o LockOwner);

/// An owner gives way for as long as this lives.
#[must_use = "dropped, nobody knows that it asks again"]
pub struct GivenWay<'o>(&'o LockOwner);

impl Future for LockWait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.grant.poll(cx.waker()) {
            return Poll::Pending;
        }
        if !self.is_over {
            self.is_over = true;
            let taken = Taken { table: self.table, mode: self.mode, is_shared: true };
            self.owner.keep(taken, self.outlasts);
        }
        Poll::Ready(())
    }
}

impl LockWait {
    /// Waits on this thread; whether the lock was there before `patience` had ended.
    ///
    /// # Errors
    /// 57014 if it is told to stop meanwhile.
    pub fn wait(mut self, stop: &Stop, patience: Duration) -> Result<bool> {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let until = Instant::now() + patience;
        loop {
            if Pin::new(&mut self).poll(&mut Context::from_waker(&waker)).is_ready() {
                return Ok(true);
            }
            stop.check()?;
            if Instant::now() >= until {
                return Ok(false);
            }
            std::thread::park_timeout(PAUSE);
        }
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        if !self.is_over {
            self.owner.locks.give_up(self.owner.number, self.table, self.mode, &self.grant);
        }
    }
}

impl Drop for RowWait<'_> {
    fn drop(&mut self) {
        self.0.locks.leave(self.0.number);
    }
}

impl Drop for GivenWay<'_> {
    fn drop(&mut self) {
        self.0.locks.leave(self.0.number);
    }
}
