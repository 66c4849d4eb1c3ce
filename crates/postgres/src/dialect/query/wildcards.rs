//! `x.*` of a table that is named with its schema: the planner knows its columns by the whole name.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, VisitorMut,
};

use crate::statement::name_of;
use saki_catalog::SqlError;

pub struct Wildcards;

impl VisitorMut for Wildcards {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let Select { projection, from, .. } = select;
        for item in projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item {
                let factors = from.iter().flat_map(|tables| {
                    std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation))
                });
                if let Some(whole) = factors.filter_map(named).find(|whole| is_last(name, whole)) {
                    *name = whole.clone();
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The name of a table that has more than one part, and no other.
fn named(factor: &TableFactor) -> Option<&ObjectName> {
    match factor {
        TableFactor::Table { name, alias: None, args: None, .. } if name.0.len() > 1 => Some(name),
        _ => None,
    }
}

fn is_last(name: &ObjectName, whole: &ObjectName) -> bool {
    let of = |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).map(name_of);
    name.0.len() == 1 && of(name) == of(whole)
}
