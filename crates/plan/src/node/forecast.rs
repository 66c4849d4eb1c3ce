//! What a plan is about to read, for what moves chunks to faster devices: told before the plan begins.

use std::collections::HashMap;
use std::sync::Arc;

use saki_base::{ChunkId, PageAddress, Part};
use saki_store::{Assessment, Database, Expected, PolicyKind, Reads, Use};

use super::env::QueryEnv;

/// What is known of a plan's reads.
#[derive(Default)]
pub struct Forecast {
    uses: Vec<Use>,
    /// That of the plan's tables.
    database: Option<Arc<Database>>,
}

impl Forecast {
    /// The database that a node reads, if what it reads is of interest.
    pub fn database(&mut self, env: &QueryEnv) -> Option<Arc<Database>> {
        let database = env.database().ok().filter(|database| database.tier().is_active())?;
        Some(Arc::clone(self.database.get_or_insert_with(|| Arc::clone(database))))
    }

    /// So many look-ups of pages of a part.
    pub fn lookups(&mut self, part: Part, lookups: f64) {
        self.uses.push(Use::Part(part, lookups));
    }

    /// All pages of a part.
    pub fn whole(&mut self, part: Part) {
        self.uses.push(Use::Whole(part));
    }

    /// Pages in the order in which they are read.
    pub fn pages(&mut self, database: &Database, pages: impl IntoIterator<Item = PageAddress>) {
        let mut run: Option<(PageAddress, u64)> = None;
        for page in pages {
            match &mut run {
                Some((first, count)) if first.0 + *count == page.0 => *count += 1,
                _ => {
                    let before = run.replace((page, 1));
                    before.into_iter().for_each(|(first, count)| self.run(database, first, count));
                }
            }
        }
        run.into_iter().for_each(|(first, count)| self.run(database, first, count));
    }

    /// A run of pages that follow one another.
    pub fn run(&mut self, database: &Database, first: PageAddress, pages: u64) {
        let per_chunk = database.page_size().pages_per_chunk();
        let end = first.0 + pages;
        let mut at = first.0;
        while at < end {
            let next = (at / per_chunk + 1) * per_chunk;
            let pages = (next.min(end) - at) as f64;
            self.uses.push(Use::Chunk(ChunkId(at / per_chunk), Reads::of_run(pages)));
            at = next;
        }
    }

    /// What chooses the copies; `None` if there is nothing to say.
    pub fn policy(&self) -> Option<PolicyKind> {
        Some(self.database.as_ref()?.tier().policy())
    }

    /// What copies would do for it as things are; `None` if there is nothing to say.
    pub fn assess(&self) -> Option<Assessment> {
        Some(self.database.as_ref()?.tier().assess(&self.uses))
    }

    /// Pages that are expected of each chunk; `None` if there is nothing to say.
    pub fn by_chunk(&self) -> Option<HashMap<ChunkId, f64>> {
        let foreseen = self.database.as_ref()?.tier().foresee(&self.uses);
        Some(foreseen.into_iter().map(|(chunk, reads)| (chunk, reads.pages)).collect())
    }

    /// Has chunks moved for the plan, from now on and until the result is dropped.
    pub fn announce(&self) -> Option<Expected> {
        Some(self.database.as_ref()?.tier().expect(&self.uses))
    }
}
