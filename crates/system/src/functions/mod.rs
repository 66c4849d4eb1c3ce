//! PostgreSQL's functions about the system, as scalar functions of the planner.

mod arrays;
mod definitions;
mod format;
mod function;
mod names;
mod privileges;
mod session;
mod sizes;

use std::sync::Arc;

use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::ScalarUDF;

pub use self::arrays::UNNESTED;
use self::function::{Definition, SystemFunction};
pub use self::names::{REG_FIND, REG_OID, REG_TEXT};
pub use self::session::WORDS;
use super::system::SystemCatalog;

fn definitions() -> impl Iterator<Item = &'static Definition> {
    let groups = [
        arrays::FUNCTIONS,
        definitions::FUNCTIONS,
        names::FUNCTIONS,
        privileges::FUNCTIONS,
        session::FUNCTIONS,
        sizes::FUNCTIONS,
    ];
    groups.into_iter().flatten()
}

/// Names of all of them.
pub fn names() -> impl Iterator<Item = &'static str> {
    definitions().map(|definition| definition.name)
}

impl SystemCatalog {
    /// Makes the functions known to the planner.
    pub fn register(self: &Arc<Self>, context: &SessionContext) {
        for definition in definitions() {
            context.register_udf(ScalarUDF::from(SystemFunction::new(definition, Arc::clone(self))));
        }
    }
}
