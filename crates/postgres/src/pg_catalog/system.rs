//! What a session's system relations and functions answer from: the newest snapshot's objects, and who the session is.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, StringArray};
use datafusion::common::Result;
use parking_lot::{Mutex, RwLock};
use saki_base::Generation;
use saki_catalog::{Catalog, RoleId, Sequence};
use saki_store::Database;
use saki_store::locks::Locks;

use super::objects::{Detail, Objects, Relation, source};
use super::session::{SessionFacts, SessionRoles};
use super::views::SystemViews;

/// What a session's system relations and functions answer from.
pub struct SystemCatalog {
    database: Arc<Database>,
    views: Arc<SystemViews>,
    session: RwLock<SessionFacts>,
    objects: Mutex<Option<(Generation, Arc<Objects>)>>,
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
        })
    }

    /// Who the session is.
    pub fn session(&self) -> SessionFacts {
        self.session.read().clone()
    }

    /// Whom the session acts for.
    pub fn roles(&self) -> SessionRoles {
        self.session.read().roles
    }

    /// Who may do what, as it is now.
    pub(super) fn with_catalog<T>(&self, ask: impl FnOnce(&Catalog) -> T) -> T {
        ask(&self.database.snapshot().catalog)
    }

    /// `current_user`.
    pub(super) fn user(&self) -> String {
        self.with_catalog(|catalog| catalog.role_name(self.roles().current))
    }

    /// Whether the session may see what others are doing.
    pub(super) fn sees_all(&self) -> bool {
        self.with_catalog(|catalog| catalog.inherits(self.roles().current, RoleId::READ_ALL_STATS))
    }

    /// What sessions do, without the statements of other roles, unless the session may see them.
    ///
    /// # Errors
    /// If a column is of another type than it should be.
    pub(super) fn as_seen(&self, sessions: &RecordBatch) -> Result<RecordBatch> {
        let column = |name: &str| sessions.schema().index_of(name).ok();
        let (Some(user), Some(statement)) = (column("user_name"), column("statement")) else {
            return Ok(sessions.clone());
        };
        if self.sees_all() {
            return Ok(sessions.clone());
        }
        let own = self.with_catalog(|catalog| {
            catalog.roles_of(self.roles().current, true).into_iter().map(|id| catalog.role_name(id)).collect::<Vec<_>>()
        });
        let texts = |at: usize| sessions.column(at).as_string::<i32>().iter();
        let shown = texts(user).zip(texts(statement)).map(|(user, statement)| {
            let is_own = user.is_some_and(|user| own.iter().any(|own| own == user));
            if is_own { statement } else { Some("<insufficient privilege>") }
        });
        let mut columns = sessions.columns().to_vec();
        columns[statement] = Arc::new(shown.collect::<StringArray>());
        Ok(RecordBatch::try_new(sessions.schema(), columns)?)
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
            Detail::Table(table) => source::delta_size(&self.database, table),
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
        let snapshot = self.database.snapshot();
        let mut objects = self.objects.lock();
        if let Some((generation, objects)) = objects.as_ref()
            && *generation == snapshot.generation()
        {
            return Arc::clone(objects);
        }
        let made = Arc::new(Objects::new(&snapshot.catalog, self.database.page_size().bytes()));
        *objects = Some((snapshot.generation(), Arc::clone(&made)));
        made
    }
}

impl fmt::Debug for SystemCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemCatalog").finish_non_exhaustive()
    }
}
