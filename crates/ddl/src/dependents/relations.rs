//! Which relations depend on a table, a column, a view or a type.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Expr;
use saki_base::{DataType, TableId};

use crate::names::sequence_drawn;
use saki_catalog::{Catalog, EnumType, Sequence, Table, View};
use saki_postgres::statement::quoted;
use saki_postgres::{NewConstraint, NewConstraintKind};
use saki_store::locks::LockMode;

/// Views that name a relation.
pub fn views_of<'c>(catalog: &'c Catalog, relation: &'c str) -> impl Iterator<Item = &'c Arc<View>> {
    catalog.views_naming(relation)
}

/// Views that need a column, directly or by way of other views.
pub fn views_using(catalog: &Catalog, table: TableId, column: u32) -> impl Iterator<Item = &Arc<View>> {
    catalog
        .views_using(table)
        .filter(move |view| view.uses.get(&table.0).is_some_and(|columns| columns.contains(&column)))
}

/// Columns of an enumeration that statements see: tables and positions.
pub fn columns_of_type(catalog: &Catalog, of: TableId) -> impl Iterator<Item = (&Arc<Table>, usize)> {
    let is_of = move |data_type: DataType| matches!(data_type, DataType::Enum(found) if found.id() == of.0);
    let positions =
        move |table: &Table| (0..table.width()).filter(|at| is_of(table.columns[*at].data_type)).collect::<Vec<_>>();
    catalog.tables().flat_map(move |table| positions(table).into_iter().map(move |position| (table, position)))
}

/// Views whose queries name an enumeration.
pub fn views_of_type<'c>(catalog: &'c Catalog, of: &EnumType) -> impl Iterator<Item = &'c Arc<View>> + use<'c> {
    let spelled = format!("{}.{}", quoted(&of.schema), quoted(of.bare_name()));
    catalog.views().filter(move |view| view.sql.contains(&spelled))
}

/// Tables that new foreign keys refer to, and how they are locked while the keys come to be: their rows stay, and so do
/// those that refer to them.
pub fn tables_referred_to<'c>(constraints: impl Iterator<Item = &'c NewConstraint>) -> Vec<(String, LockMode)> {
    let referred = constraints.filter_map(|constraint| match &constraint.kind {
        NewConstraintKind::ForeignKey(key) => Some((key.table.name.clone(), LockMode::ShareRowExclusive)),
        _ => None,
    });
    referred.collect()
}

/// Sequences that new defaults draw from, and how they are locked while these come to be: so that they stay.
pub fn sequences_drawn<'e>(defaults: impl Iterator<Item = &'e Expr>) -> impl Iterator<Item = (String, LockMode)> {
    defaults.filter_map(sequence_drawn).map(|sequence| (sequence, LockMode::AccessShare))
}

/// Columns whose default draws from a sequence, their own or not.
pub fn columns_drawing<'c>(
    catalog: &'c Catalog,
    sequence: &'c Sequence,
) -> impl Iterator<Item = (&'c Arc<Table>, usize)> {
    let text = saki_catalog::nextval(&sequence.name);
    let tables: Vec<&Arc<Table>> = catalog.drawing(&text).collect();
    tables.into_iter().flat_map(move |table| {
        let drawing = |detail: &saki_catalog::ColumnDetail| detail.default.as_deref() == Some(&*text);
        let positions: Vec<usize> = (0..table.details.len()).filter(|at| drawing(&table.details[*at])).collect();
        positions.into_iter().map(move |position| (table, position))
    })
}
