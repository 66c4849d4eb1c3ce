//! Pages for this crate: one at a time, many in any order, or many in order with
//! those ahead on their way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{PageRef, PageSize, TreeId};
use saki_page::{
    Arrival, CacheReader, IoShare, PageCache, PageError, PageExpectation, PageGuard, PagePort, PageStore, Request,
};

use crate::error::TreeError;

/// How long pages may be refused while nothing is in flight before that is an error.
const REFUSED_MAX: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_millis(100);

/// One thread's way to the pages of trees.
pub struct Fetcher {
    port: PagePort,
    reader: CacheReader,
    store: Arc<dyn PageStore>,
    share: Arc<IoShare>,
    page_size: PageSize,
    /// Whether its looks count for what the cache keeps.
    is_noticed: bool,
    /// Pages asked for and not yet looked at; bounded so that they do not push each other out of the cache.
    window: usize,
    arrivals: Vec<Arrival>,
}

/// Most pages on their way for one fetcher.
const WINDOW_MAX: usize = 1024;

impl Fetcher {
    /// Opens a port; its reads count on `share`.
    pub fn new(cache: &Arc<PageCache>, store: &Arc<dyn PageStore>, share: &Arc<IoShare>) -> Result<Self, TreeError> {
        Ok(Self {
            port: PagePort::brief(cache, store)?,
            reader: cache.reader(),
            store: Arc::clone(store),
            share: Arc::clone(share),
            page_size: store.page_size(),
            is_noticed: true,
            window: (cache.frames() as usize / 4).clamp(1, WINDOW_MAX),
            arrivals: Vec::new(),
        })
    }

    /// The same, whose looks say nothing of what is worth keeping in memory.
    #[must_use]
    pub fn unnoticed(mut self) -> Self {
        self.is_noticed = false;
        self
    }

    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// The cache that pages come into.
    pub(crate) fn cache(&self) -> &Arc<PageCache> {
        self.reader.cache()
    }

    /// How often readers have looked at a page of late.
    pub(crate) fn heat(&self, page: PageRef) -> u8 {
        self.cache().heat(&self.reader, page.address)
    }

    fn find(&self, page: PageRef) -> Result<Option<PageGuard<'_>>, PageError> {
        if self.is_noticed { self.reader.find(page) } else { self.reader.find_unnoticed(page) }
    }

    pub(crate) fn expectation(&self, tree: TreeId) -> PageExpectation {
        PageExpectation { page_size: self.page_size, tree }
    }

    /// The device a page lies on, for messages.
    pub(crate) fn describe(&self, page: PageRef) -> String {
        self.store.describe(page.address)
    }

    /// Calls `look` with one page, waiting for it. The page is pinned meanwhile: be brief.
    pub(crate) fn read<R>(&mut self, page: PageRef, look: impl FnOnce(&[u8]) -> R) -> Result<R, PageError> {
        if !self.is_noticed
            && let Ok(Some(guard)) = self.reader.find_unnoticed(page)
        {
            return Ok(look(&guard));
        }
        self.port.read(&self.share, &self.reader, page).map(|guard| look(&guard))
    }

    /// Visits pages in whatever order they arrive, with many in flight. `visit` gets a page's bytes, or why it cannot
    /// be had, and may add further pages to `work` (a stack: deeper pages go first, so it stays small).
    /// An error of `visit` ends the walk.
    pub(crate) fn walk<T, E>(
        &mut self,
        work: &mut Vec<(PageRef, T)>,
        visit: impl FnMut(&mut Vec<(PageRef, T)>, PageRef, T, Result<&[u8], PageError>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.walk_within(usize::MAX, work, visit)
    }

    /// The same with at most `window` pages on their way.
    pub(crate) fn walk_within<T, E>(
        &mut self,
        window: usize,
        work: &mut Vec<(PageRef, T)>,
        mut visit: impl FnMut(&mut Vec<(PageRef, T)>, PageRef, T, Result<&[u8], PageError>) -> Result<(), E>,
    ) -> Result<(), E> {
        let window = window.min(self.window);
        let mut flying: Flying<T> = Flying::default();
        let result = loop {
            let Some((page, what)) = work.pop() else {
                if flying.count == 0 {
                    break Ok(());
                }
                match self.land(&mut flying, work, &mut visit) {
                    Ok(()) => continue,
                    Err(error) => break Err(error),
                }
            };
            if let Ok(Some(guard)) = self.find(page) {
                match visit(work, page, what, Ok(&guard)) {
                    Ok(()) => continue,
                    Err(error) => break Err(error),
                }
            }
            let room = flying.count < window;
            let token = flying.launch(page, what);
            let request = if room { self.port.request(&self.share, page, token) } else { Request::Busy(None) };
            let landed = match request {
                Request::Queued | Request::Shared => {
                    flying.refused_since = None;
                    Ok(())
                }
                Request::Cached => {
                    let (page, what) = flying.take(token).expect("just launched");
                    work.push((page, what));
                    Ok(())
                }
                Request::Busy(_) => {
                    let (page, what) = flying.take(token).expect("just launched");
                    if flying.count == 0
                        && flying.refused_since.get_or_insert_with(Instant::now).elapsed() > REFUSED_MAX
                    {
                        let frames = self.reader.cache().frames();
                        visit(work, page, what, Err(PageError::Exhausted { page, frames }))
                    } else {
                        // Lands first: what has arrived is looked at before it can be evicted.
                        let landed = self.land(&mut flying, work, &mut visit);
                        work.push((page, what));
                        landed
                    }
                }
            };
            if let Err(error) = landed {
                break Err(error);
            }
        };
        // An early end leaves reads under way: their arrivals must not meet the next walk's tokens.
        while flying.count > 0 {
            self.arrivals.clear();
            self.port.poll(Some(PATIENCE), &mut self.arrivals);
            for arrival in self.arrivals.drain(..) {
                flying.take(arrival.token);
            }
        }
        result
    }

    /// Looks at what has arrived, waiting a little for it.
    fn land<T, E>(
        &mut self,
        flying: &mut Flying<T>,
        work: &mut Vec<(PageRef, T)>,
        visit: &mut impl FnMut(&mut Vec<(PageRef, T)>, PageRef, T, Result<&[u8], PageError>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        let wait = if flying.count > 0 { PATIENCE } else { Duration::from_micros(200) };
        self.port.poll(Some(wait), &mut arrivals);
        let mut result = Ok(());
        for arrival in arrivals.drain(..) {
            let Some((page, what)) = flying.take(arrival.token) else { continue };
            if result.is_err() {
                continue;
            }
            result = match arrival.result {
                Err(error) => visit(work, page, what, Err(error)),
                Ok(()) => match self.find(page) {
                    Ok(Some(guard)) => visit(work, page, what, Ok(&guard)),
                    // Evicted before we looked: ask again.
                    Ok(None) => {
                        work.push((page, what));
                        Ok(())
                    }
                    Err(error) => visit(work, page, what, Err(error)),
                },
            };
        }
        self.arrivals = arrivals;
        result
    }
}

/// Pages of a walk that are on their way, by token.
struct Flying<T> {
    slots: Vec<Option<(PageRef, T)>>,
    vacant: Vec<usize>,
    count: usize,
    refused_since: Option<Instant>,
}

impl<T> Default for Flying<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), vacant: Vec::new(), count: 0, refused_since: None }
    }
}

impl<T> Flying<T> {
    fn launch(&mut self, page: PageRef, what: T) -> u64 {
        let token = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[token] = Some((page, what));
        self.count += 1;
        token as u64
    }

    fn take(&mut self, token: u64) -> Option<(PageRef, T)> {
        let taken = self.slots.get_mut(usize::try_from(token).ok()?)?.take()?;
        self.vacant.push(token as usize);
        self.count -= 1;
        Some(taken)
    }
}

/// Leaves in key order, those ahead on their way: a queue of pages whose inner
/// pages are replaced by their children as they arrive.
pub(crate) struct Ahead<T> {
    queue: VecDeque<Upcoming<T>>,
    /// Pages of the queue's front that have been asked for.
    asked: usize,
    /// How many may be; doubles with each time of asking, up to the fetcher's window.
    reach: usize,
    /// More are asked for once no more than so many are left: in batches, whose neighbours the device reads together.
    refill_at: usize,
    children: Vec<(PageRef, T)>,
}

struct Upcoming<T> {
    page: PageRef,
    level: u8,
    what: T,
}

/// No walk uses it, so arrivals of pages asked for ahead are simply dropped: the cache has them.
const AHEAD_TOKEN: u64 = u64::MAX - 1;

impl<T: Clone> Ahead<T> {
    /// Begins at a tree's topmost page; `reach` leaves are asked for at first.
    pub fn new(page: PageRef, level: u8, what: T, reach: usize) -> Self {
        let queue = VecDeque::from([Upcoming { page, level, what }]);
        Self { queue, asked: 0, reach, refill_at: 0, children: Vec::new() }
    }

    /// Of leaves that are known already.
    pub fn of_leaves(leaves: Vec<PageRef>, what: T, reach: usize) -> Self {
        let leaf = |page| Upcoming { page, level: 0, what: what.clone() };
        Self { queue: leaves.into_iter().map(leaf).collect(), asked: 0, reach, refill_at: 0, children: Vec::new() }
    }

    /// The next leaf; `expand` lists the wanted children of an inner page, in order. The leaf and
    /// those behind it have been asked for.
    pub fn next<E: From<PageError>>(
        &mut self,
        fetcher: &mut Fetcher,
        mut expand: impl FnMut(&[u8], PageRef, u8, &T, &mut Vec<(PageRef, T)>) -> Result<(), E>,
    ) -> Result<Option<(PageRef, T)>, E> {
        loop {
            let Some(front) = self.queue.front() else { return Ok(None) };
            if front.level == 0 {
                if self.asked <= self.refill_at {
                    self.ask(fetcher, &mut expand);
                    self.refill_at = self.asked / 2;
                }
                let front = self.queue.pop_front().expect("just seen");
                self.asked = self.asked.saturating_sub(1);
                return Ok(Some((front.page, front.what)));
            }
            let Upcoming { page, level, what } = self.queue.pop_front().expect("just seen");
            (self.asked, self.refill_at) = (0, 0);
            let children = &mut self.children;
            fetcher.read(page, |bytes| expand(bytes, page, level, &what, children))??;
            for (page, what) in self.children.drain(..).rev() {
                self.queue.push_front(Upcoming { page, level: level - 1, what });
            }
        }
    }

    /// Asks for the pages at the queue's front, as far as the window reaches, or to an inner page that has yet to come.
    fn ask<E>(
        &mut self,
        fetcher: &mut Fetcher,
        expand: &mut impl FnMut(&[u8], PageRef, u8, &T, &mut Vec<(PageRef, T)>) -> Result<(), E>,
    ) {
        fetcher.port.poll(None, &mut fetcher.arrivals);
        fetcher.arrivals.clear();
        let reach = self.reach.min(fetcher.window);
        self.reach = reach * 2;
        while self.asked < reach.min(self.queue.len()) {
            let next = &self.queue[self.asked];
            let request = fetcher.port.request(&fetcher.share, next.page, AHEAD_TOKEN);
            if matches!(request, Request::Busy(_)) || next.level > 0 && request != Request::Cached {
                break;
            }
            if next.level == 0 {
                self.asked += 1;
                continue;
            }
            let (page, level) = (next.page, next.level);
            let Ok(Some(guard)) = fetcher.find(page) else { break };
            let expanded = expand(&guard, page, level, &next.what, &mut self.children);
            drop(guard);
            if expanded.is_err() {
                // Met again, and reported, when it is the front.
                self.children.clear();
                break;
            }
            let mut behind = self.queue.split_off(self.asked + 1);
            self.queue.pop_back();
            self.queue.extend(self.children.drain(..).map(|(page, what)| Upcoming { page, level: level - 1, what }));
            self.queue.append(&mut behind);
        }
    }
}
