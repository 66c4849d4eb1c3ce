//! A database with sessions: a store, the plans that are kept over it, and the views of what it does.

mod draft;
mod files;
mod memory_view;
mod storage_views;

use std::cell::Cell;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use self::draft::SessionDraft;
use self::files::with_suffix;
pub use self::files::{FileAccess, Files};
use self::memory_view::MemoryView;
use crate::statement::TextCache;
use saki_base::TableId;
use saki_base::memory::Pool;
use saki_catalog::{Catalog, Changed, Difference, Result, RoleId, SqlError, Table};
use saki_mvcc::Holder;
use saki_plan::PlanCache;
use saki_store::locks::{LockMode, LockOwner};
use saki_store::{CreateOptions, Generation, Missing, OpenOptions, Stop, Writer};
use saki_system::SystemViews;

/// An open database. Sessions hold it open. What it stores is its [`saki_store::Database`], to which it gives way.
pub struct Database {
    store: Arc<saki_store::Database>,
    system_views: Arc<SystemViews>,
    /// Of the newest snapshot.
    pub plans: Arc<PlanCache>,
    /// What its sessions' texts say.
    pub texts: TextCache,
    /// What its statements may take together: without a limit until a server gives it one.
    pub memory: Arc<Pool>,
    /// Whether there has been a session since it was opened.
    is_used: AtomicBool,
}

impl Database {
    /// Makes an empty database at `path`, a file or a block device, and opens it.
    ///
    /// # Errors
    /// If there is something at `path`, or storage fails.
    pub fn create(path: impl AsRef<Path>, options: CreateOptions) -> Result<Arc<Self>> {
        saki_store::Database::create(path, options).map(Self::over)
    }

    /// Opens the database at `path` at its newest published generation.
    ///
    /// # Errors
    /// If there is none, another process has it open, or it cannot be read.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Arc<Self>> {
        saki_store::Database::open(path, options).map(Self::over)
    }

    /// Sessions over a store that is open.
    pub fn over(store: Arc<saki_store::Database>) -> Arc<Self> {
        let (plans, system_views) = (Arc::<PlanCache>::default(), Arc::<SystemViews>::default());
        let kept = Arc::clone(&plans);
        // A plan that is kept holds its snapshot open.
        store.when_succeeded(move || kept.clear());
        storage_views::register(&system_views, &store);
        let memory = Arc::<Pool>::default();
        system_views.register(Arc::new(MemoryView::new(Arc::clone(&memory))));
        let (texts, is_used) = (TextCache::default(), AtomicBool::new(false));
        Arc::new(Self { store, system_views, plans, texts, memory, is_used })
    }

    /// Whether whoever asks is the first to.
    pub fn is_first_session(&self) -> bool {
        // Relaxed: one of them has to be the first, nothing else follows.
        !self.is_used.swap(true, Ordering::Relaxed)
    }

    /// What it stores.
    pub fn store(&self) -> &Arc<saki_store::Database> {
        &self.store
    }

    /// Files and directories that hold the database: no statement reads or writes them.
    pub fn own_files(&self) -> Vec<PathBuf> {
        let path = &self.store.path;
        let logs = self.store.logs.directory().map(Path::to_owned);
        let devices = self.store.devices().into_iter().map(|device| PathBuf::from(device.entry.label));
        [path.clone(), with_suffix(path, ".users")].into_iter().chain(logs).chain(devices).collect()
    }

    /// The views of schema `saki`, for whoever has rows for one.
    pub fn system_views(&self) -> &Arc<SystemViews> {
        &self.system_views
    }

    /// Runs work that waits for storage on a thread that may. If nobody waits for it any more, it is told to stop, and
    /// what it has not published by then is not published.
    pub async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Stoppable<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.blocking_for(Behalf::default(), work).await
    }

    /// The same on behalf of a statement.
    pub(crate) async fn blocking_for<T: Send + 'static>(
        self: &Arc<Self>,
        behalf: Behalf,
        work: impl FnOnce(&Stoppable<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (db, stop) = (Arc::clone(self), Stop::current().below().patiently(behalf.patience));
        let _stop_on_drop = stop.on_drop();
        let run = move || work(&Stoppable { db: &db, stop, behalf, met_unlocked: Cell::new(false) });
        let joined = tokio::task::spawn_blocking(run).await;
        joined.map_err(|error| SqlError::internal(format!("a statement's thread: {error}")))?
    }

    /// Starts the engine if there is none, for a statement that waits no longer than `patience` for its turn.
    ///
    /// # Errors
    /// As [`saki_store::Database::engine_unless`].
    pub(crate) async fn start_engine_for(self: &Arc<Self>, patience: Option<Duration>) -> Result<()> {
        if self.engine.get().is_some() {
            return Ok(());
        }
        let behalf = Behalf { patience, ..Behalf::default() };
        self.blocking_for(behalf, |db| db.engine_unless(db.stop()).map(drop)).await
    }

    /// Waits until what was missing of a generation is in memory.
    ///
    /// # Errors
    /// Those of storage.
    pub async fn fetch_missing(&self, generation: Arc<Generation>, missing: Missing, attempted: u32) -> Result<()> {
        let (tell, told) = tokio::sync::oneshot::channel();
        // Whoever has gone need not be told.
        missing.fetch(self, generation, attempted, |came_of_it| drop(tell.send(came_of_it)))?;
        told.await.unwrap_or_else(|_| Err(SqlError::internal("a thread that fetches pages has ended")))
    }

    /// How often a statement ran by a plan that was kept from an earlier run.
    pub fn plans_reused(&self) -> u64 {
        self.plans.reused()
    }
}

impl Deref for Database {
    type Target = saki_store::Database;

    fn deref(&self) -> &Self::Target {
        &self.store
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.store.fmt(f)
    }
}

/// For whom work is done.
pub(crate) struct Behalf {
    /// Who has to hold locks of the tables whose trees it replaces.
    pub owner: Option<Arc<LockOwner>>,
    /// The transaction, if there is one, whose catalog is to change.
    pub draft: Option<Arc<SessionDraft>>,
    /// Whose is what it makes.
    pub role: RoleId,
    /// How long it waits for its turn to write; `None`: as long as it takes.
    pub patience: Option<Duration>,
}

impl Default for Behalf {
    fn default() -> Self {
        Self { owner: None, draft: None, role: RoleId::OWNER, patience: None }
    }
}

/// A database as work on behalf of a statement has it: that may be told to stop.
pub struct Stoppable<'d> {
    db: &'d Database,
    stop: Stop,
    behalf: Behalf,
    met_unlocked: Cell<bool>,
}

impl<'d> Stoppable<'d> {
    /// For work that is waited for, whatever happens.
    pub fn never(db: &'d Database) -> Self {
        Self { db, stop: Stop::default(), behalf: Behalf::default(), met_unlocked: Cell::new(false) }
    }

    /// Runs `work` as the only writer and publishes what it did, unless it is told to stop before. Within a transaction
    /// it changes that one's own catalog.
    ///
    /// # Errors
    /// Those of the work; 55P03 if its patience is over before its turn; 40001 if it would replace the trees of a table
    /// whose rows others may be changing, or take a view or a sequence away that others may be naming, since a name
    /// came to mean it after names were locked, and if it would leave views or defaults without what they name. Nothing
    /// has changed then.
    pub fn write<T>(&self, work: impl FnOnce(&mut Writer<'_>) -> Result<T>) -> Result<T> {
        let role = self.behalf.role;
        let work = |writer: &mut Writer<'_>| {
            let before = writer.catalog.clone();
            let result = work(writer)?;
            writer.own_new(role)?;
            let difference = writer.catalog.difference(&before);
            self.refuse_unlocked(&difference, &writer.catalog)?;
            writer.catalog.refuse_dangling(&before, &difference)?;
            Ok(result)
        };
        match &self.behalf.draft {
            Some(draft) => draft.write(&self.db.store, &self.stop, work),
            None => self.db.write_unless(&self.stop, work),
        }
    }

    /// Rows that came into a delta after it was brought to its base would be lost with it. Whoever names a view or a
    /// sequence has locked it, so that it stays until that is published.
    fn refuse_unlocked(&self, difference: &Difference, after: &Catalog) -> Result<()> {
        let Some(owner) = &self.behalf.owner else { return Ok(()) };
        let is_replaced = |changed: &&Changed<Table>| {
            let before = changed.before.as_ref();
            before.is_some_and(|before| !changed.after.as_ref().is_some_and(|after| before.is_stored_as(after)))
        };
        let replaced = difference.tables.iter().filter(is_replaced).filter_map(|table| table.before.as_ref());
        let mut unlocked = replaced.filter(|table| !owner.keeps_changes_out(table.id)).map(|table| &table.name);
        let views = difference.views.iter().filter_map(|view| view.before.as_ref()).map(|view| (view.id, &view.name));
        let sequences = difference.sequences.iter().filter_map(|sequence| sequence.before.as_ref());
        let named = views.chain(sequences.map(|sequence| (sequence.id, &sequence.name)));
        let is_unlocked = |(id, name): &(TableId, &String)| {
            after.id_of(name) != Some(*id) && !owner.holds(*id, LockMode::AccessExclusive)
        };
        match unlocked.next().or_else(|| named.filter(is_unlocked).map(|(_, name)| name).next()) {
            None => Ok(()),
            Some(name) => {
                self.met_unlocked.set(true);
                let message = format!("could not serialize access: relation {name:?} has changed meanwhile");
                Err(SqlError::invalid(message).code("40001").hint("repeat the statement"))
            }
        }
    }

    /// Whether [`Self::write`] has refused for want of a lock.
    pub(crate) fn has_met_unlocked(&self) -> bool {
        self.met_unlocked.get()
    }

    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// As [`saki_store::Database::bring_to_base`].
    pub fn bring_to_base(&self, tables: &[String], behalf: Option<Holder>) -> Result<()> {
        self.db.store.bring_to_base(tables, &self.stop, behalf)
    }
}

impl Deref for Stoppable<'_> {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.db
    }
}
