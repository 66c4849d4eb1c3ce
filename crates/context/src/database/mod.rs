//! A database with sessions: a store, the plans that are kept over it, and the views of what it does.

mod files;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::files::with_suffix;
pub use self::files::{FileAccess, Files};
use saki_catalog::{Result, RoleId, SqlError};
use saki_plan::PlanCache;
use saki_postgres::{SystemViews, storage_views};
use saki_store::{CreateOptions, OpenOptions, Stop, Writer};

/// An open database. Sessions hold it open. What it stores is its [`saki_store::Database`], to which it gives way.
pub struct Database {
    store: Arc<saki_store::Database>,
    system_views: Arc<SystemViews>,
    /// Of the newest snapshot.
    pub plans: Arc<PlanCache>,
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
        Arc::new(Self { store, system_views, plans })
    }

    /// What it stores.
    pub fn store(&self) -> &Arc<saki_store::Database> {
        &self.store
    }

    /// Files and directories that hold the database: no statement reads or writes them.
    pub fn own_files(&self) -> Vec<PathBuf> {
        let path = &self.store.path;
        let logs = self.store.logs.directory().map(Path::to_owned);
        [path.clone(), with_suffix(path, ".users")].into_iter().chain(logs).collect()
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
        self.blocking_as(RoleId::OWNER, work).await
    }

    /// The same; what the work makes belongs to `role`.
    pub async fn blocking_as<T: Send + 'static>(
        self: &Arc<Self>,
        role: RoleId,
        work: impl FnOnce(&Stoppable<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (db, stop) = (Arc::clone(self), Stop::default());
        let _stop_on_drop = stop.on_drop();
        let joined = tokio::task::spawn_blocking(move || work(&Stoppable { db: &db, stop, role })).await;
        joined.map_err(|error| SqlError::internal(format!("a statement's thread: {error}")))?
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

/// A database as work on behalf of a statement has it: that may be told to stop.
pub struct Stoppable<'d> {
    db: &'d Database,
    stop: Stop,
    /// Whose is what it makes.
    role: RoleId,
}

impl<'d> Stoppable<'d> {
    /// For work that is waited for, whatever happens.
    pub fn never(db: &'d Database) -> Self {
        Self { db, stop: Stop::default(), role: RoleId::OWNER }
    }

    /// Runs `work` as the only writer and publishes what it did, unless it is told to stop before.
    pub fn write<T>(&self, work: impl FnOnce(&mut Writer<'_>) -> Result<T>) -> Result<T> {
        self.db.write_unless(&self.stop, |writer| {
            let made = work(writer)?;
            writer.own_new(self.role);
            Ok(made)
        })
    }

    /// As [`saki_store::Database::bring_to_base`].
    pub fn bring_to_base(&self, tables: &[String]) -> Result<()> {
        self.db.store.bring_to_base(tables, &self.stop)
    }
}

impl Deref for Stoppable<'_> {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.db
    }
}
