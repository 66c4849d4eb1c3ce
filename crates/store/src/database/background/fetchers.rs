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
            errands.sort_by_key(|errand| errand.leaves);
            while let Some(leaves) = errands.last().map(|errand| errand.leaves) {
                let alike = errands.partition_point(|errand| errand.leaves < leaves);
                self.go(errands.split_off(alike), leaves);
            }
        }
    }

    /// Goes on errands that want as much of their ranges.
    fn go(&mut self, errands: Vec<Errand>, leaves: usize) {
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
