//! What a session's system relations and functions answer from: the newest snapshot's objects, and who the session is.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, RwLock};
use saki_catalog::Sequence;
use saki_store::locks::Locks;
use saki_store::{Database, Snapshot};

use super::objects::{Detail, Objects, Relation, source};
use super::session::SessionFacts;
use super::views::SystemViews;

/// Gives the newest snapshot as a session sees it; `None`: as everybody does.
type OwnSnapshot = dyn Fn() -> Option<Arc<Snapshot>> + Send + Sync;

/// What a session's system relations and functions answer from.
pub struct SystemCatalog {
    database: Arc<Database>,
    views: Arc<SystemViews>,
    session: RwLock<SessionFacts>,
    objects: Mutex<Option<(Weak<Snapshot>, Arc<Objects>)>>,
    /// Gives the newest snapshot as the session sees it, if that is another than everybody's.
    own: OnceLock<Box<OwnSnapshot>>,
    started_micros: i64,
}

impl SystemCatalog {
    pub fn new(database: &Arc<Database>, views: &Arc<SystemViews>) -> Arc<Self> {
        let session = SessionFacts::default();
        Arc::new(Self {
            database: Arc::clone(database),
            views: Arc::clone(views),
            started_micros: session.started_micros,
            session: RwLock::new(session),
            objects: Mutex::default(),
            own: OnceLock::new(),
        })
    }

    /// From now on the session's own snapshot is described, if it has one.
    pub fn describe(&self, own: impl Fn() -> Option<Arc<Snapshot>> + Send + Sync + 'static) {
        let _ = self.own.set(Box::new(own));
    }

    /// The newest snapshot, as the session sees it.
    fn newest(&self) -> Arc<Snapshot> {
        self.own.get().and_then(|own| own()).unwrap_or_else(|| self.database.snapshot())
    }

    /// Who the session is.
    pub fn session(&self) -> SessionFacts {
        self.session.read().clone()
    }

    /// States who the session is.
    pub fn state_session<T>(&self, change: impl FnOnce(&mut SessionFacts) -> T) -> T {
        change(&mut self.session.write())
    }

    /// The views of schema `saki`.
    pub(super) fn views(&self) -> &SystemViews {
        &self.views
    }

    /// Who uses which table how.
    pub(super) fn locks(&self) -> &Locks {
        self.database.locks()
    }

    pub(super) fn generation(&self) -> u64 {
        self.database.snapshot().generation().0
    }

    pub(super) fn server_started_micros(&self) -> i64 {
        self.started_micros
    }

    /// Rows and bytes of a relation, with those of its delta: about, since rows that replace others count until they
    /// are merged.
    pub(super) fn size_of(&self, relation: &Relation) -> (u64, u64) {
        let (rows, bytes) = match &relation.detail {
            Detail::Table(table) => source::delta_size(&self.newest(), table),
            _ => (0, 0),
        };
        (relation.rows + rows, relation.bytes + bytes)
    }

    /// The last value that a sequence has given; `None`: it has given none yet.
    pub(super) fn last_value(&self, sequence: &Sequence) -> Option<i64> {
        let position = self.database.sequences.position(sequence);
        position.is_called.then_some(position.last_value)
    }

    /// The objects of the newest snapshot, made once for each.
    pub(super) fn objects(&self) -> Arc<Objects> {
        let snapshot = self.newest();
        let mut objects = self.objects.lock();
        if let Some((of, objects)) = objects.as_ref()
            && std::ptr::eq(of.as_ptr(), Arc::as_ptr(&snapshot))
        {
            return Arc::clone(objects);
        }
        let made = Arc::new(Objects::new(&snapshot.catalog, self.database.page_size().bytes()));
        *objects = Some((Arc::downgrade(&snapshot), Arc::clone(&made)));
        made
    }
}

impl fmt::Debug for SystemCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemCatalog").finish_non_exhaustive()
    }
}
