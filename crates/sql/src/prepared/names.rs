//! What the names in a statement mean, kept with it for as long as they do.

use arrow_schema::DataType;
use saki_base::{Enumeration, TableId};
use saki_catalog::Catalog;
use saki_context::statement::Found;

/// What the names in a statement have been found to mean.
#[derive(Clone, Default, Debug)]
pub struct Resolved {
    /// Relations by a `search_path` that is not `public` alone.
    pub relations: Option<Vec<Found>>,
    pub types: KnownTypes,
}

/// Enumerations that a statement knows: those that it names, takes and gives.
#[derive(Clone, Default, Debug)]
pub struct KnownTypes {
    /// Where their names were looked for; `None`: in `public`.
    path: Option<Vec<String>>,
    /// In the states in which it knows them.
    states: Vec<Enumeration>,
}

impl KnownTypes {
    pub fn new(path: Option<Vec<String>>, states: Vec<Enumeration>) -> Self {
        Self { path, states }
    }

    /// With those of values of these types.
    pub fn with<'t>(mut self, types: impl IntoIterator<Item = &'t DataType>) -> Self {
        self.states.extend(types.into_iter().filter_map(saki_exec::enumeration));
        self
    }

    /// Whether their names mean the same, and their labels are as they were.
    pub fn agree(&self, catalog: &Catalog, path: Option<&Vec<String>>) -> bool {
        let is_same = |known: &Enumeration| {
            catalog.enum_type_of(TableId(known.id())).is_some_and(|of| of.state().is_same_state(*known))
        };
        self.states.is_empty() || self.path.as_ref() == path && self.states.iter().all(is_same)
    }
}
