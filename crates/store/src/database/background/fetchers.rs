//! Threads that fetch what readers of memory alone have missed.
//!
//! Whoever misses something may not wait for storage, and leaves an errand. A fetcher keeps its way to the devices:
//! opening one for each miss takes more of the system than the read. Errands that have gathered meanwhile are gone on
//! together, out of order, so that one round of a device serves many sessions.
//!
//! ```text
//!   session ─► errand ─┐                        ┌─► told: the statement begins anew
//!   session ─► errand ─┼─► fetcher ─► bring ────┼─► told
//!   session ─► errand ─┘  (a thread)  a round   └─► told
//!                                     a level
//! ```

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;
use saki_base::Critical;
use saki_base::panics::{self, Place};
use saki_page::{IoShare, PageCache, PageStore};
use saki_tree::{TreeError, TreeReader, Wanted};

use super::Background;
use crate::database::Generation;
use saki_catalog::{Result, SqlError};

/// While one waits for a device, the other takes what has come in the meantime.
const FETCHERS: usize = 2;

/// Pages to be brought to memory.
struct Errand {
    /// Until they are there nobody may write others in the place of its own.
    generation: Arc<Generation>,
    ranges: Vec<Wanted>,
    leaves: usize,
    told: Box<dyn FnOnce(Result<()>) + Send>,
}

impl Errand {
    fn end(self, came_of_it: Result<()>) {
        let Self { generation, told, .. } = self;
        drop(generation);
        told(came_of_it);
    }
}

/// The threads of one database, started by the first errand. Dropping this ends them, and waits for it.
pub struct Fetchers {
    cache: Arc<PageCache>,
    store: Arc<dyn PageStore>,
    started: Mutex<Option<Started>>,
}

struct Started {
    /// Before the threads: they end when nobody can leave an errand any more.
    errands: Sender<Errand>,
    _threads: Vec<Background>,
}

impl Fetchers {
    pub fn new(cache: &Arc<PageCache>, store: &Arc<dyn PageStore>) -> Self {
        Self { cache: Arc::clone(cache), store: Arc::clone(store), started: Mutex::default() }
    }

    /// Brings to memory the first `leaves` leaves of ranges of trees that a generation has. Does not wait: `told` is
    /// called by another thread once they are there, with what came in the way.
    ///
    /// # Errors
    /// If the system gives no threads.
    pub fn fetch(
        &self,
        generation: Arc<Generation>,
        (ranges, leaves): (Vec<Wanted>, usize),
        told: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        let mut started = self.started.lock();
        let started = match &mut *started {
            Some(started) => started,
            none => none.insert(self.start()?),
        };
        let errand = Errand { generation, ranges, leaves, told: Box::new(told) };
        started.errands.send(errand).map_err(|_| SqlError::internal("nobody fetches pages"))
    }

    fn start(&self) -> Result<Started> {
        let (errands, left) = channel();
        let left = Arc::new(Mutex::new(left));
        let start = |number| {
            let (cache, store) = (Arc::clone(&self.cache), Arc::clone(&self.store));
            let (left, mut fetcher) = (Arc::clone(&left), Fetcher { cache, store, reader: None });
            Background::start(&format!("saki-fetch-{number}"), move |_| fetcher.run(&left))
        };
        let threads = (0..FETCHERS).map(start).collect::<Result<_>>()?;
        Ok(Started { errands, _threads: threads })
    }
}

/// One thread's.
struct Fetcher {
    cache: Arc<PageCache>,
    store: Arc<dyn PageStore>,
    /// Opened by the first errand, on its thread.
    reader: Option<TreeReader>,
}

impl Fetcher {
    /// Goes on errands until nobody can leave one any more.
    fn run(&mut self, left: &Mutex<Receiver<Errand>>) {
        loop {
            let mut errands: Vec<Errand> = {
                let left = left.lock();
                let Ok(first) = left.recv() else { return };
                [first].into_iter().chain(left.try_iter()).collect()
            };
            // Ends the process before a panic lets go of errands, whose statements would tell clients of it.
            let _critical = Critical::enter("reading what statements wait for");
            panics::pass(Place::Fetcher);
            errands.sort_by_key(|errand| errand.leaves);
            while let Some(leaves) = errands.last().map(|errand| errand.leaves) {
                let alike = errands.partition_point(|errand| errand.leaves < leaves);
                self.go(errands.split_off(alike), leaves);
            }
        }
    }

    /// Goes on errands that want as much of their ranges.
    fn go(&mut self, errands: Vec<Errand>, leaves: usize) {
        let _critical = Critical::enter("reading what statements wait for");
        let all: Vec<Wanted> = errands.iter().flat_map(|errand| &errand.ranges).cloned().collect();
        match self.bring(&all, leaves) {
            Ok(()) => errands.into_iter().for_each(|errand| errand.end(Ok(()))),
            // Each hears of its own failures alone.
            Err(_) if errands.len() > 1 => errands.into_iter().for_each(|errand| self.go(vec![errand], leaves)),
            Err(error) => errands.into_iter().for_each(|errand| errand.end(Err(SqlError::from(error.clone())))),
        }
    }

    fn bring(&mut self, ranges: &[Wanted], leaves: usize) -> Result<(), TreeError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(TreeReader::new(&self.cache, &self.store, &IoShare::new(u32::MAX))?),
        };
        reader.bring(ranges, leaves)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use parking_lot::Condvar;
    use saki_io::{FaultRates, ObservedDevice, Observer, Operation, OperationKind, SimDevice};

    use super::*;
    use crate::fixture::{self, Bench, Shape};

    /// Reads of a device wait while they are held.
    #[derive(Default)]
    struct Gate {
        is_shut: Mutex<bool>,
        opened: Condvar,
    }

    impl Gate {
        fn set(&self, is_shut: bool) {
            *self.is_shut.lock() = is_shut;
            self.opened.notify_all();
        }
    }

    impl Observer for Gate {
        fn submitting(&self, _: &SimDevice, operation: &Operation) {
            let mut is_shut = self.is_shut.lock();
            while *is_shut && operation.kind == OperationKind::Read {
                self.opened.wait(&mut is_shut);
            }
        }
    }

    /// A table of some pages on a device, none of them in memory.
    fn cold() -> (Bench, Arc<SimDevice>, Arc<Gate>) {
        let (device, gate) = (fixture::simulated(), Arc::new(Gate::default()));
        let mut bench = Bench::on(ObservedDevice::new(&device, Arc::clone(&gate)), Shape::default());
        bench.commit(&(0..2_000).map(|id| (id, Some(id))).collect::<Vec<_>>());
        bench.merge();
        bench.reopen();
        (bench, device, gate)
    }

    /// Leaves errands for different keys; what each of them is told.
    fn leave(bench: &Bench) -> Receiver<(i64, Result<()>)> {
        let (tell, told) = channel();
        for id in (0..2_000).step_by(100) {
            let (table, tell) = (bench.table(), tell.clone());
            let (key, _) = fixture::entry(&table, id, 0);
            let wanted = (vec![Wanted::key(&table.root, &key)], 1);
            let tell = move |came_of_it| tell.send((id, came_of_it)).expect("somebody listens");
            bench.db().fetchers.fetch(bench.db().generation(), wanted, tell).expect("there are threads");
        }
        told
    }

    #[test]
    fn a_database_that_ends_goes_on_all_errands_first() {
        let (bench, _, gate) = cold();
        gate.set(true);
        let told = leave(&bench);
        let ended = std::thread::spawn(move || drop(bench));
        assert!(told.try_recv().is_err(), "nothing can be read");
        gate.set(false);
        ended.join().expect("it ends");
        let all: Vec<i64> = told.iter().map(|(id, came_of_it)| came_of_it.map(|()| id).expect("read")).collect();
        assert_eq!(all.len(), 20, "{all:?}");
    }

    #[test]
    fn everybody_is_told_of_a_device_that_fails_and_the_next_ones_are_served() {
        let (bench, device, _) = cold();
        device.faults().set_rates(FaultRates { read_errors: 1.0, ..FaultRates::default() });
        let failed = leave(&bench).iter().filter(|(_, came_of_it)| came_of_it.is_err()).count();
        assert_eq!(failed, 20);
        device.faults().heal();
        device.faults().set_rates(FaultRates::default());
        assert_eq!(leave(&bench).iter().filter(|(_, came_of_it)| came_of_it.is_ok()).count(), 20);
    }
}
