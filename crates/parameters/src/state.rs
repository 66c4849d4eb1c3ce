//! All values of a session at some time.

use std::collections::BTreeMap;

use crate::definition::find;
use crate::effective::Effective;
use crate::roles::{Acting, SessionRoles};

pub type Values = BTreeMap<String, String>;

/// How the open transaction differs from what the next would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransactionModes {
    pub isolation: &'static str,
    pub read_only: bool,
}

/// All values of a session at some time, by lower-case names, where they differ from the defaults.
#[derive(Clone, Default, Debug)]
pub struct State {
    /// What the session began with and goes back to.
    pub(crate) initial: Values,
    pub(crate) session: Values,
    /// Until the transaction ends.
    pub(crate) local: Values,
    pub(crate) acting: Acting,
    pub effective: Effective,
}

impl State {
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        if let Some(told) = self.acting.value(name) {
            return Some(told);
        }
        let found = [&self.local, &self.session, &self.initial].into_iter().find_map(|values| values.get(name));
        found.map(String::as_str)
    }

    /// A value as it is kept; the default if nothing is set.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.value(&name.to_lowercase()).or_else(|| find(name).map(|definition| definition.default))
    }

    /// Whom the session acts for.
    pub fn roles(&self) -> SessionRoles {
        self.acting.roles()
    }

    fn of(&self, name: &'static str) -> &str {
        self.value(name).or_else(|| find(name).map(|definition| definition.default)).unwrap_or_default()
    }

    pub(crate) fn derive(&mut self) {
        self.effective = Effective::of(|name| self.of(name).to_owned());
    }
}
