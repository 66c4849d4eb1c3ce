//! What a session's system relations and functions answer from: the newest generation's objects, and who the session
//! is.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, StringArray};
use datafusion::common::Result;
use parking_lot::{Mutex, RwLock};
use saki_catalog::{Catalog, RoleId, Sequence};
use saki_parameters::{Parameters, SearchPath, SessionRoles};
use saki_store::locks::Locks;
use saki_store::{Database, Generation};

use super::objects::{Detail, Objects, Relation, source};
use super::session::SessionFacts;
use super::views::SystemViews;

/// Gives the newest generation as a session sees it; `None`: as everybody does.
type OwnGeneration = dyn Fn() -> Option<Arc<Generation>> + Send + Sync;

/// Names of the schemas that are in every database.
pub const SYSTEM_SCHEMAS: [&str; 2] = ["pg_catalog", "information_schema"];

/// The objects of a generation, as a search path shows them.
struct Known {
    generation: Weak<Generation>,
    path: Arc<SearchPath>,
    user: String,
    objects: Arc<Objects>,
}

/// What a session's system relations and functions answer from.
pub struct SystemCatalog {
    database: Arc<Database>,
    views: Arc<SystemViews>,
    session: RwLock<SessionFacts>,
    parameters: Arc<Parameters>,
    objects: Mutex<Option<Known>>,
    /// Gives the newest generation as the session sees it, if that is another than everybody's.
    own: OnceLock<Box<OwnGeneration>>,
    started_micros: i64,
}

impl SystemCatalog {
    pub fn new(database: &Arc<Database>, views: &Arc<SystemViews>, parameters: &Arc<Parameters>) -> Arc<Self> {
        let session = SessionFacts::default();
        Arc::new(Self {
            database: Arc::clone(database),
            views: Arc::clone(views),
            parameters: Arc::clone(parameters),
            started_micros: session.started_micros,
            session: RwLock::new(session),
            objects: Mutex::default(),
            own: OnceLock::new(),
        })
    }

    /// From now on the session's own generation is described, if it has one.
    pub fn describe(&self, own: impl Fn() -> Option<Arc<Generation>> + Send + Sync + 'static) {
        let _ = self.own.set(Box::new(own));
    }

    /// The newest generation, as the session sees it.
    fn newest(&self) -> Arc<Generation> {
        self.own.get().and_then(|own| own()).unwrap_or_else(|| self.database.generation())
    }

    /// Who the session is.
    pub fn session(&self) -> SessionFacts {
        self.session.read().clone()
    }

    /// What the session's client calls the database.
    pub fn database_name(&self) -> String {
        self.session.read().database.clone()
    }

    /// Whom the session acts for.
    pub fn roles(&self) -> SessionRoles {
        self.parameters.roles()
    }

    /// Who may do what, as it is now.
    pub(super) fn with_catalog<T>(&self, ask: impl FnOnce(&Catalog) -> T) -> T {
        ask(&self.newest().catalog)
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

    /// What the session has set.
    pub fn parameters(&self) -> &Arc<Parameters> {
        &self.parameters
    }

    /// The schemas in which names are looked for that say none, the session's temporary one first; `None`: `public`
    /// alone.
    pub fn search_path(&self, catalog: &Catalog) -> Option<Vec<String>> {
        let (path, user) = (self.parameters.search_path(), catalog.role(self.roles().current));
        let user = user.map_or("", |role| &role.name);
        let exists = |name: &str| catalog.has_schema(name) || SYSTEM_SCHEMAS.contains(&name);
        let temporary = self.parameters.temporary_schema();
        let has_temporary = catalog.has_schema(temporary);
        if !has_temporary && path.is_only(saki_catalog::PUBLIC, user, exists) {
            return None;
        }
        let mut schemas = path.schemas(user, exists);
        if has_temporary {
            schemas.insert(0, temporary.to_owned());
        }
        Some(schemas)
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
        self.database.generation().number().0
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

    /// The objects of the newest generation, made once for each, and each search path.
    pub(super) fn objects(&self) -> Arc<Objects> {
        let generation = self.newest();
        let (path, user) = (self.parameters.search_path(), generation.catalog.role_name(self.roles().current));
        let mut known = self.objects.lock();
        if let Some(known) = known.as_ref()
            && std::ptr::eq(known.generation.as_ptr(), Arc::as_ptr(&generation))
            && known.path == path
            && known.user == user
        {
            return Arc::clone(&known.objects);
        }
        let made = Objects::new(&generation.catalog, self.database.page_size().bytes());
        let schemas = self.search_path(&generation.catalog);
        let objects = Arc::new(match schemas {
            Some(schemas) => made.seen_by(schemas),
            None => made,
        });
        *known = Some(Known { generation: Arc::downgrade(&generation), path, user, objects: Arc::clone(&objects) });
        objects
    }
}

impl fmt::Debug for SystemCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemCatalog").finish_non_exhaustive()
    }
}
