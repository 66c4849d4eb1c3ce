//! What a session has set: for good, until its transaction ends, or until it is taken back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use saki_catalog::{Catalog, Result, Role, SqlError};

use crate::accept::{accept, check_context};
use crate::definition::{Definition, Kind, all, find};
use crate::path::{SearchPath, temporary_schema};
use crate::roles::{self, Acting, SessionRoles};
use crate::session_time::{Clock, SessionTime};
use crate::state::{State, TransactionModes};
use crate::units;

/// Parameters that somebody else knows: all names that begin as [`Self::prefix`] says.
pub trait Extension: Send + Sync {
    /// With its point: `saki.`.
    fn prefix(&self) -> &'static str;

    /// Names, defaults, and what they are for.
    fn all(&self) -> Vec<(String, String, &'static str)>;

    /// A value as it is kept; `None` asks for the default.
    ///
    /// # Errors
    /// For a name or a value that there is not.
    fn accept(&self, name: &str, value: Option<&str>) -> Result<String>;
}

/// Where a value comes from, as `pg_settings.source` says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    Default,
    /// The client's, when it connected.
    Client,
    Session,
}

impl Origin {
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Client => "client",
            Self::Session => "session",
        }
    }
}

/// Shows the newest catalog, as a session sees it, to whoever asks.
type ShowCatalog = dyn Fn(&mut dyn FnMut(&Catalog)) + Send + Sync;

/// The parameters of one session.
pub struct Parameters {
    state: RwLock<Arc<State>>,
    /// What there was before the transaction, once it has changed something.
    before: Mutex<Option<Arc<State>>>,
    is_touched: AtomicBool,
    /// Names with a point that were set once; they are known from then on.
    made_up: Mutex<BTreeSet<String>>,
    transaction: RwLock<Option<TransactionModes>>,
    extension: Option<Box<dyn Extension>>,
    clock: Arc<Clock>,
    /// The schema of the session's temporary tables, whether there are any or not.
    temporary: String,
    /// Who the roles are; without it there are those that every database has.
    catalog: OnceLock<Box<ShowCatalog>>,
}

impl Parameters {
    /// With the defaults.
    pub fn new(extension: Option<Box<dyn Extension>>) -> Self {
        let mut state = State::default();
        state.derive();
        Self {
            state: RwLock::new(Arc::new(state)),
            before: Mutex::new(None),
            is_touched: AtomicBool::new(false),
            made_up: Mutex::default(),
            transaction: RwLock::new(None),
            extension,
            clock: Arc::default(),
            temporary: temporary_schema(),
            catalog: OnceLock::new(),
        }
    }

    /// From now on roles are those of the catalog that is shown.
    pub fn look_up_in(&self, show: impl Fn(&mut dyn FnMut(&Catalog)) + Send + Sync + 'static) {
        let _ = self.catalog.set(Box::new(show));
    }

    fn ask<T>(&self, question: impl FnOnce(&Catalog) -> T) -> T {
        let (mut question, mut answer) = (Some(question), None);
        if let Some(show) = self.catalog.get() {
            show(&mut |catalog| answer = question.take().map(|question| question(catalog)));
        }
        // A database that has been closed shows nothing.
        match (answer, question) {
            (Some(answer), _) => answer,
            (None, Some(question)) => question(&Catalog::default()),
            (None, None) => unreachable!("a question that was put has an answer"),
        }
    }

    /// Whom the session acts for.
    #[inline]
    pub fn roles(&self) -> SessionRoles {
        self.state.read().acting.roles()
    }

    fn is_superuser(&self) -> bool {
        let role = self.roles().current;
        self.ask(|catalog| catalog.is_superuser(role))
    }

    /// States who has logged in.
    pub fn log_in(&self, role: &Role) {
        let mut state = State::clone(&self.state());
        state.acting = Acting::of(role);
        *self.state.write() = Arc::new(state);
    }

    /// The values as they are.
    pub fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.read())
    }

    /// What `read` asks of the values as they are, for those who ask at each statement.
    #[inline]
    pub fn ask_state<T>(&self, read: impl FnOnce(&Arc<State>) -> T) -> T {
        read(&self.state.read())
    }

    /// When the session's transaction and statement began.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What times are read and written by.
    pub fn time(&self) -> SessionTime {
        SessionTime { style: Arc::clone(&self.state.read().effective.time), clock: Arc::clone(&self.clock) }
    }

    /// The schema of the session's temporary tables, whether there are any or not.
    pub fn temporary_schema(&self) -> &str {
        &self.temporary
    }

    /// Where names are looked for that say no schema.
    pub fn search_path(&self) -> Arc<SearchPath> {
        Arc::clone(&self.state.read().effective.search_path)
    }

    /// Whether the open transaction, or the next, changes nothing.
    pub fn is_read_only(&self) -> bool {
        let open = *self.transaction.read();
        open.map_or_else(|| self.state.read().effective.read_only, |open| open.read_only)
    }

    /// States what a session begins with, and RESET goes back to.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn begin_with(&self, name: &str, value: &str) -> Result<()> {
        self.begin(name, value, self.is_superuser())
    }

    /// The same of what a superuser has said.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn begin_with_allowed(&self, name: &str, value: &str) -> Result<()> {
        self.begin(name, value, true)
    }

    fn begin(&self, name: &str, value: &str, is_superuser: bool) -> Result<()> {
        let (name, value) = self.accepted(name, Some(value), (true, is_superuser))?;
        if !roles::is_taken(&name) {
            self.state_value(&name, value.as_deref().unwrap_or_default());
            return Ok(());
        }
        let mut state = State::clone(&self.state());
        self.ask(|catalog| state.acting.take(catalog, &name, value.as_deref(), false))?;
        state.acting.begin();
        *self.state.write() = Arc::new(state);
        Ok(())
    }

    /// Refuses what sessions of a role could not begin with.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn check(&self, name: &str, value: &str) -> Result<()> {
        self.accepted(name, Some(value), (true, self.is_superuser())).map(drop)
    }

    /// States what only the server sets.
    pub fn state_value(&self, name: &str, value: &str) {
        let mut state = State::clone(&self.state());
        state.initial.insert(name.to_lowercase(), value.to_owned());
        state.derive();
        *self.state.write() = Arc::new(state);
    }

    /// Sets one; `None` is what the session began with. `local`: until the transaction ends.
    ///
    /// # Errors
    /// 42704 for a name that is not known, 42602 for one that cannot be made up, 55P02 for one that the session cannot
    /// change, 42501 for one that only superusers can, 22023 for a value that it does not take.
    pub fn set(&self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        let (name, value) = self.accepted(name, value, (false, self.is_superuser()))?;
        if roles::is_taken(&name) {
            let mut acting = self.state().acting.clone();
            self.ask(|catalog| acting.take(catalog, &name, value.as_deref(), local))?;
            self.change(|state| state.acting = acting);
            return Ok(());
        }
        self.change(|state| {
            state.local.remove(&name);
            match value {
                Some(value) if local => drop(state.local.insert(name, value)),
                Some(value) => drop(state.session.insert(name, value)),
                None if local => {
                    if let Some(initial) = state
                        .initial
                        .get(&name)
                        .cloned()
                        .or_else(|| find(&name).map(|definition| definition.default.to_owned()))
                    {
                        state.local.insert(name, initial);
                    }
                }
                None => drop(state.session.remove(&name)),
            }
        });
        Ok(())
    }

    /// Goes back to what the session began with, but for its roles.
    pub fn reset_all(&self) {
        self.change(|state| {
            state.session.clear();
            state.local.clear();
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let current = self.state();
        let mut state = State::clone(&current);
        change(&mut state);
        state.derive();
        self.before.lock().get_or_insert(current);
        self.is_touched.store(true, Ordering::Release);
        *self.state.write() = Arc::new(state);
    }

    /// A name and a value as they are kept; whether the client has not been let in yet, and is a superuser.
    fn accepted(
        &self,
        name: &str,
        value: Option<&str>,
        (is_startup, is_superuser): (bool, bool),
    ) -> Result<(String, Option<String>)> {
        let lower = name.to_lowercase();
        if let Some(definition) = find(&lower) {
            check_context(definition, is_startup, is_superuser)?;
            let now = self.state();
            let value = value.map(|value| accept(definition, value, &now.effective.time)).transpose()?;
            return Ok((lower, value));
        }
        if let Some(extension) = self.extension.as_deref().filter(|extension| lower.starts_with(extension.prefix())) {
            let kept = extension.accept(&lower, value)?;
            return Ok((lower, value.map(|_| kept)));
        }
        if !lower.contains('.') {
            return Err(unknown(name));
        }
        if !lower.split('.').all(is_identifier) {
            return Err(SqlError::invalid(format!("invalid configuration parameter name {name:?}"))
                .code("42602")
                .detail("Custom parameter names must be two or more simple identifiers separated by dots."));
        }
        self.made_up.lock().insert(lower.clone());
        Ok((lower, value.map(str::to_owned)))
    }

    /// A value as SHOW shows it: numbers in the largest unit that divides them. `None`: the name is not known.
    pub fn show(&self, name: &str) -> Option<String> {
        let kept = self.setting(name)?;
        Some(match find(name) {
            Some(definition) if matches!(definition.kind, Kind::Integer | Kind::Real) => {
                units::show_with_unit(&kept, definition.unit)
            }
            _ => kept,
        })
    }

    /// The same.
    ///
    /// # Errors
    /// 42704 for a name that is not known.
    pub fn shown(&self, name: &str) -> Result<String> {
        self.show(name).ok_or_else(|| unknown(name))
    }

    /// A value as it is kept: numbers in their unit.
    pub fn setting(&self, name: &str) -> Option<String> {
        let lower = name.to_lowercase();
        let state = self.state();
        let open = *self.transaction.read();
        match (&*lower, open) {
            ("transaction_isolation", Some(open)) => return Some(open.isolation.to_owned()),
            ("transaction_isolation", None) => return Some(state.effective.isolation.clone()),
            ("transaction_read_only", Some(open)) => return Some(switch(open.read_only)),
            ("transaction_read_only", None) => return Some(switch(state.effective.read_only)),
            _ => {}
        }
        if let Some(value) = state.setting(&lower) {
            return Some(value.to_owned());
        }
        if let Some(extension) = self.extension.as_deref().filter(|extension| lower.starts_with(extension.prefix())) {
            return extension.accept(&lower, None).ok();
        }
        self.made_up.lock().contains(&lower).then(String::new)
    }

    /// Where the value of one comes from, and what RESET makes of it.
    pub fn origin(&self, definition: &Definition) -> (Origin, String) {
        let (state, name) = (self.state(), definition.name.to_lowercase());
        let initial = state.initial.get(&name);
        let origin = match (state.local.contains_key(&name) || state.session.contains_key(&name), initial) {
            (true, _) => Origin::Session,
            (false, Some(_)) => Origin::Client,
            (false, None) => Origin::Default,
        };
        (origin, initial.cloned().unwrap_or_else(|| definition.default.to_owned()))
    }

    /// Names and values as SHOW ALL shows them, and what they are for.
    pub fn list(&self) -> Vec<(String, String, String)> {
        let known = all().iter().filter(|definition| !definition.hidden);
        let mut list: Vec<_> = known
            .map(|definition| {
                let shown = self.show(definition.name).unwrap_or_default();
                (definition.name.to_owned(), shown, definition.help.to_owned())
            })
            .collect();
        for (name, _, help) in self.extension.iter().flat_map(|extension| extension.all()) {
            let shown = self.show(&name).unwrap_or_default();
            list.push((name, shown, help.to_owned()));
        }
        list
    }

    /// The parameters that are the extension's, with their defaults and what they are for.
    pub fn extended(&self) -> Vec<(String, String, &'static str)> {
        self.extension.as_deref().map(Extension::all).unwrap_or_default()
    }

    /// Values that clients are told of, as they are shown.
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        let told = all().iter().filter(|definition| definition.reported);
        told.map(|definition| (definition.name, self.show(definition.name).unwrap_or_default())).collect()
    }

    /// Says what the open transaction is; `None`: none is open.
    pub fn state_transaction(&self, modes: Option<TransactionModes>) {
        if *self.transaction.read() != modes {
            *self.transaction.write() = modes;
        }
    }

    /// The transaction has ended with its effects: what SET LOCAL said is over.
    #[inline]
    pub fn commit(&self) {
        if self.is_touched.load(Ordering::Acquire) {
            self.end(false);
        }
    }

    /// The transaction has ended without effects.
    #[inline]
    pub fn rollback(&self) {
        if self.is_touched.load(Ordering::Acquire) {
            self.end(true);
        }
    }

    #[cold]
    fn end(&self, back: bool) {
        self.is_touched.store(false, Ordering::Release);
        let Some(before) = self.before.lock().take() else { return };
        let current = self.state();
        if back {
            *self.state.write() = before;
        } else if !current.local.is_empty() || current.acting.has_local() {
            let mut state = State::clone(&current);
            state.local.clear();
            state.acting.end_local();
            state.derive();
            *self.state.write() = Arc::new(state);
        }
    }

    /// Goes back to an earlier state of the same transaction: a savepoint's.
    pub fn rollback_to(&self, state: &Arc<State>) {
        let current = self.state();
        if !Arc::ptr_eq(&current, state) {
            *self.state.write() = Arc::clone(state);
        }
    }
}

/// The error of a command that changes something where nothing may be changed.
pub fn read_only(command: &str) -> SqlError {
    SqlError::invalid(format!("cannot execute {command} in a read-only transaction")).code("25006")
}

fn switch(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn is_identifier(part: &str) -> bool {
    let mut letters = part.chars();
    let begins = |letter: char| letter.is_alphabetic() || letter == '_';
    letters.next().is_some_and(begins) && letters.all(|letter| begins(letter) || letter.is_numeric() || letter == '$')
}

fn unknown(name: &str) -> SqlError {
    SqlError::invalid(format!("unrecognized configuration parameter {name:?}")).code("42704")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_set_lasts_as_its_transaction_does() {
        let parameters = Parameters::new(None);
        parameters.begin_with("application_name", "test").unwrap();
        parameters.set("work_mem", Some("1GB"), false).unwrap();
        parameters.commit();
        let shown = |name: &str| parameters.show(name).unwrap();
        assert_eq!(shown("work_mem"), "1GB");
        let mark = parameters.state();
        parameters.set("work_mem", Some("2GB"), true).unwrap();
        assert_eq!(shown("WORK_MEM"), "2GB");
        parameters.rollback_to(&mark);
        assert_eq!(shown("work_mem"), "1GB");
        parameters.set("work_mem", Some("3GB"), false).unwrap();
        parameters.set("work_mem", Some("4GB"), true).unwrap();
        parameters.commit();
        assert_eq!(shown("work_mem"), "3GB");
        parameters.set("statement_timeout", Some("5s"), false).unwrap();
        assert_eq!(parameters.state().effective.statement_timeout, Duration::from_secs(5));
        parameters.rollback();
        assert_eq!(shown("statement_timeout"), "0");
        parameters.set("application_name", Some("other"), false).unwrap();
        parameters.set("application_name", None, false).unwrap();
        assert_eq!(shown("application_name"), "test");
        parameters.reset_all();
        parameters.commit();
        assert_eq!(shown("work_mem"), "4MB");
    }

    #[test]
    fn names_with_a_point_are_known_once_they_were_set() {
        let parameters = Parameters::new(None);
        assert_eq!(parameters.shown("foo.bar").unwrap_err().sqlstate(), "42704");
        parameters.set("foo.bar", Some("x"), false).unwrap();
        assert_eq!(parameters.show("Foo.Bar").as_deref(), Some("x"));
        parameters.rollback();
        assert_eq!(parameters.show("foo.bar").as_deref(), Some(""));
        assert_eq!(parameters.set("foo", Some("1"), false).unwrap_err().sqlstate(), "42704");
        assert_eq!(parameters.set("foo.1x", Some("1"), false).unwrap_err().sqlstate(), "42602");
    }

    #[test]
    fn what_is_not_the_sessions_cannot_be_set() {
        let parameters = Parameters::new(None);
        for (name, when) in [
            ("server_version", "cannot be changed"),
            ("shared_buffers", "cannot be changed without restarting the server"),
            ("max_wal_size", "cannot be changed now"),
            ("log_connections", "cannot be set after connection start"),
        ] {
            let error = parameters.set(name, Some("1"), false).unwrap_err();
            assert_eq!((error.sqlstate(), error.message), ("55P02", format!("parameter {name:?} {when}")));
        }
        parameters.begin_with("log_connections", "on").unwrap();
    }
}
