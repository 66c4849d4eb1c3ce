//! The locks of all tables: their queues, and who waits for whom.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use saki_base::panics::{self, Place};
use saki_base::{Critical, GenerationNumber, TableId};
use saki_mvcc::Holder;

use super::account::{Account, Taken};
use super::advisory::{AdvisoryKey, Keys};
use super::grant::Grant;
use super::mode::{LockMode, Policy};
use super::queue::{Granted, Queue, Waiter};
use super::waits::{Awaited, Waits};
use saki_catalog::{Result, SqlError};

/// A lock that is counted or queued and nobody's would be waited for for ever.
const CHANGING: &str = "changing who holds and who waits for locks";

/// Counters of strong locks.
const COUNTERS: usize = 1024;

/// The locks of all tables of a database.
pub struct Locks {
    /// Strong locks that are held or wanted, by the number of the table.
    strong: Box<[AtomicU32]>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next_owner: u64,
    owners: HashMap<u64, Arc<Account>>,
    queues: HashMap<TableId, Queue>,
    advisory: Keys,
    waits: Waits,
}

/// A lock as `pg_locks` tells of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockRow {
    /// What its owner was said to be; 0 for work inside of the database.
    pub process: i64,
    pub table: TableId,
    /// What is locked in place of a table.
    pub advisory: Option<AdvisoryKey>,
    pub mode: LockMode,
    pub is_granted: bool,
    /// Whether only its owner had to know of it.
    pub is_fast: bool,
    /// Since when it is waited for, in microseconds since 1970.
    pub since: Option<i64>,
}

/// What a session waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitEvent {
    /// A table.
    Relation,
    /// An advisory lock.
    Advisory,
    /// A row: the end of the transaction that has it.
    Transaction,
}

impl Default for Locks {
    fn default() -> Self {
        Self { strong: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect(), state: Mutex::default() }
    }
}

impl Locks {
    /// A new owner's number and account.
    pub(super) fn register(&self) -> (u64, Arc<Account>) {
        let mut state = self.state.lock();
        state.next_owner += 1;
        let (number, account) = (state.next_owner, Arc::<Account>::default());
        state.owners.insert(number, Arc::clone(&account));
        (number, account)
    }

    /// An owner waits for the end of a transaction that has a row.
    ///
    /// # Errors
    /// 40P01 if that one waits for this owner.
    pub(super) fn await_row(&self, owner: u64, me: Option<Holder>, holder: Holder) -> Result<()> {
        let _critical = Critical::enter(CHANGING);
        let mut state = self.state.lock();
        state.waits.enter(owner, Awaited::Row(holder), me);
        if state.is_circle(owner, false) {
            state.waits.leave(owner);
            return Err(deadlock());
        }
        Ok(())
    }

    /// An owner gives way, and is going to ask for a table again.
    pub(super) fn await_later(&self, owner: u64, table: TableId, mode: LockMode) {
        let _critical = Critical::enter(CHANGING);
        self.state.lock().waits.enter(owner, Awaited::Later(table, mode), None);
    }

    /// Such a wait, or one for a row, is over.
    pub(super) fn leave(&self, owner: u64) {
        let _critical = Critical::enter(CHANGING);
        self.state.lock().waits.leave(owner);
    }

    /// All locks that are held or waited for.
    pub fn list(&self) -> Vec<LockRow> {
        let state = self.state.lock();
        let mut rows = Vec::new();
        for (number, account) in &state.owners {
            let process = account.process.load(Ordering::Relaxed);
            let held = account.held.lock();
            let fast = held.taken.iter().filter(|taken| !taken.is_shared);
            rows.extend(fast.map(|Taken { table, mode, .. }| LockRow {
                process,
                table: *table,
                advisory: None,
                mode: *mode,
                is_granted: true,
                is_fast: true,
                since: None,
            }));
            drop(held);
            for (table, queue) in &state.queues {
                let row = |mode, is_granted, since| LockRow {
                    process,
                    table: *table,
                    advisory: state.advisory.key(*table),
                    mode,
                    is_granted,
                    is_fast: false,
                    since,
                };
                let granted = queue.granted.iter().filter(|held| held.owner == *number);
                rows.extend(granted.map(|held| row(held.mode, true, None)));
                let waiting = queue.waiting.iter().filter(|waiter| waiter.owner == *number);
                rows.extend(waiting.map(|waiter| row(waiter.mode, false, state.waits.since(*number))));
            }
        }
        rows.sort_unstable_by_key(|row| (row.table, row.process, row.mode));
        rows
    }

    /// The process whose transaction sees the oldest generation, and which that is.
    pub fn oldest_seen(&self) -> Option<(i64, GenerationNumber)> {
        let state = self.state.lock();
        let seen = |account: &Arc<Account>| {
            let seen = GenerationNumber(account.seen.load(Ordering::Relaxed));
            (seen.0 != 0).then(|| (account.process.load(Ordering::Relaxed), seen))
        };
        state.owners.values().filter_map(seen).min_by_key(|(process, seen)| (*seen, *process))
    }

    /// What the sessions that wait are waiting for, by their processes.
    pub fn wait_events(&self) -> HashMap<i64, WaitEvent> {
        let state = self.state.lock();
        let event = |(owner, awaited): (u64, &Awaited)| {
            let process = state.owners.get(&owner)?.process.load(Ordering::Relaxed);
            let event = match awaited {
                Awaited::Table(table) if state.advisory.key(*table).is_some() => WaitEvent::Advisory,
                Awaited::Table(_) | Awaited::Later(..) => WaitEvent::Relation,
                Awaited::Row(_) => WaitEvent::Transaction,
            };
            Some((process, event))
        };
        state.waits.all().filter_map(event).collect()
    }

    fn strong(&self, table: TableId) -> &AtomicU32 {
        &self.strong[table.0 as usize % COUNTERS]
    }

    #[inline]
    pub(super) fn wants_strong(&self, table: TableId) -> bool {
        self.strong(table).load(Ordering::SeqCst) > 0
    }

    /// What the owner's own list did not settle.
    #[cold]
    pub(super) fn request(
        &self,
        owner: u64,
        table: TableId,
        mode: LockMode,
        policy: Policy,
        me: Option<Holder>,
    ) -> Result<Asked> {
        let _critical = Critical::enter(CHANGING);
        if mode.is_strong() {
            self.strong(table).fetch_add(1, Ordering::SeqCst);
        }
        let mut state = self.state.lock();
        if mode.is_strong() {
            state.gather(table);
        }
        let asked = state.ask(owner, table, mode, policy, me);
        drop(state);
        if !matches!(asked, Ok(Asked::Granted | Asked::Waiting(_))) {
            self.uncount(table, mode);
        }
        asked
    }

    /// What a request for an advisory lock comes to, and the number under which it is held.
    pub(super) fn request_advisory(
        &self,
        owner: u64,
        key: AdvisoryKey,
        mode: LockMode,
        policy: Policy,
        me: Option<Holder>,
    ) -> Result<(TableId, Asked)> {
        assert!(mode.is_strong(), "{mode} would have to be gathered from its owners");
        let _critical = Critical::enter(CHANGING);
        let mut state = self.state.lock();
        let number = state.advisory.number(key);
        let asked = state.ask(owner, number, mode, policy, me);
        drop(state);
        if matches!(asked, Ok(Asked::Granted | Asked::Waiting(_))) {
            self.strong(number).fetch_add(1, Ordering::SeqCst);
        }
        Ok((number, asked?))
    }

    /// The number of an advisory key that is in use.
    pub(super) fn advisory_number(&self, key: AdvisoryKey) -> Option<TableId> {
        self.state.lock().advisory.find(key)
    }

    /// Takes locks back that are in tables' queues.
    #[cold]
    pub(super) fn release(&self, owner: u64, locks: &[Taken]) {
        let _critical = Critical::enter(CHANGING);
        let mut wakers = Vec::new();
        let mut state = self.state.lock();
        for Taken { table, mode, .. } in locks {
            state.queue(*table).remove(owner, *mode);
            panics::pass(Place::Locks);
            wakers.append(&mut state.serve(*table));
        }
        drop(state);
        locks.iter().for_each(|taken| self.uncount(taken.table, taken.mode));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A waiter has gone: from the queue, or with a lock that it had just been given.
    #[cold]
    pub(super) fn give_up(&self, owner: u64, table: TableId, mode: LockMode, grant: &Arc<Grant>) {
        let _critical = Critical::enter(CHANGING);
        let mut state = self.state.lock();
        if grant.is_given() {
            state.queue(table).remove(owner, mode);
        } else {
            state.queue(table).waiting.retain(|waiter| !Arc::ptr_eq(&waiter.grant, grant));
            state.waits.leave(owner);
        }
        let wakers = state.serve(table);
        drop(state);
        self.uncount(table, mode);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn uncount(&self, table: TableId, mode: LockMode) {
        if mode.is_strong() {
            let before = self.strong(table).fetch_sub(1, Ordering::SeqCst);
            assert!(before > 0, "a strong lock that goes has been counted");
        }
    }

    pub(super) fn forget(&self, owner: u64) {
        self.state.lock().owners.remove(&owner);
    }
}

/// What a table's queue says to a request.
pub(super) enum Asked {
    Granted,
    Refused,
    Waiting(Arc<Grant>),
}

impl State {
    fn queue(&mut self, table: TableId) -> &mut Queue {
        self.queues.entry(table).or_default()
    }

    /// Moves the weak locks on a table that only their owners know of into its queue.
    fn gather(&mut self, table: TableId) {
        let queue = self.queues.entry(table).or_default();
        for (owner, account) in &self.owners {
            for taken in account.held.lock().taken.iter_mut().filter(|t| t.table == table && !t.is_shared) {
                taken.is_shared = true;
                queue.granted.push(Granted { owner: *owner, mode: taken.mode });
            }
        }
    }

    fn ask(&mut self, owner: u64, table: TableId, mode: LockMode, policy: Policy, me: Option<Holder>) -> Result<Asked> {
        let place = self.queue(table).place_of(owner);
        if self.is_free(owner, table, mode, place) {
            return Ok(self.grant(owner, table, mode));
        }
        if policy == Policy::Now {
            return Ok(Asked::Refused);
        }
        let gives_way = policy == Policy::GivingWay;
        let grant = self.stand(owner, table, mode, place, (gives_way, me));
        if !self.is_circle(owner, gives_way) {
            return Ok(Asked::Waiting(grant));
        }
        // Perhaps the circle is only for those who stand before it in line, and not for those who hold something.
        self.step_out(owner, table);
        if self.is_free(owner, table, mode, 0) {
            return Ok(self.grant(owner, table, mode));
        }
        let grant = self.stand(owner, table, mode, 0, (gives_way, me));
        if !self.is_circle(owner, gives_way) {
            return Ok(Asked::Waiting(grant));
        }
        self.step_out(owner, table);
        Err(deadlock())
    }

    fn is_free(&mut self, owner: u64, table: TableId, mode: LockMode, place: usize) -> bool {
        self.queue(table).blockers(owner, mode, place).next().is_none()
    }

    fn grant(&mut self, owner: u64, table: TableId, mode: LockMode) -> Asked {
        self.queue(table).granted.push(Granted { owner, mode });
        Asked::Granted
    }

    fn stand(
        &mut self,
        owner: u64,
        table: TableId,
        mode: LockMode,
        place: usize,
        (gives_way, me): (bool, Option<Holder>),
    ) -> Arc<Grant> {
        let grant = Arc::<Grant>::default();
        self.queue(table).waiting.insert(place, Waiter { owner, mode, gives_way, grant: Arc::clone(&grant) });
        self.waits.enter(owner, Awaited::Table(table), me);
        grant
    }

    fn step_out(&mut self, owner: u64, table: TableId) {
        self.queue(table).waiting.retain(|waiter| waiter.owner != owner);
        self.waits.leave(owner);
    }

    /// Gives the locks of a table to those in its queue who can have them now; whom to wake.
    fn serve(&mut self, table: TableId) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for waiter in self.queue(table).serve() {
            self.waits.leave(waiter.owner);
            // Here, not later: whoever gives up must know whether it has the lock.
            wakers.extend(waiter.grant.give());
        }
        if self.queue(table).is_empty() {
            self.queues.remove(&table);
            self.advisory.forget(table);
        }
        wakers
    }

    /// Whether an owner that waits waits for itself, by way of others. Those who give way are on no circle but for one
    /// another: they ask again and again, and look for circles each time.
    fn is_circle(&self, owner: u64, gives_way: bool) -> bool {
        self.waits.is_circle(owner, |waiter, table, later| {
            let Some(queue) = self.queues.get(&table) else { return Vec::new() };
            let found = queue.waiting_place(waiter).map(|place| (place, &queue.waiting[place]));
            match (found, later) {
                (Some((_, waiter)), _) if waiter.gives_way && !gives_way => Vec::new(),
                (Some((place, waiter)), _) => queue.awaited(waiter.owner, waiter.mode, place).collect(),
                (None, Some(mode)) if gives_way => queue.awaited(waiter, mode, 0).collect(),
                (None, _) => Vec::new(),
            }
        })
    }
}

fn deadlock() -> SqlError {
    SqlError::invalid("deadlock detected")
        .code("40P01")
        .detail("The transaction waits for another that waits for it, by itself or by way of others.")
        .hint("repeat the transaction")
}
