//! Names of enumerations become names that say which one is meant, in which state: whoever carries a statement out
//! needs no catalogue to know the type.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ArrayElemTypeDef, ColumnDef, DataType, Expr, Ident, ObjectName,
    TypedString, VisitMut, VisitorMut,
};
use saki_base::{Enumeration, TableId};
use saki_catalog::{Catalog, PUBLIC, SqlError, bare, qualified};
use saki_postgres::statement::name_of;
use saki_postgres::statement::walk::walk_mut;
use saki_postgres::types::{enumeration, enumeration_name};

/// Does so in a statement or a part of one; names of types without a schema are looked for in those of `path`.
///
/// # Errors
/// 42704 for one that has gone.
pub fn resolve_types<T: VisitMut>(of: &mut T, catalog: &Catalog, path: &[String]) -> Result<(), SqlError> {
    match walk_mut(of, &mut Types { change: &mut |name| complete(name, catalog, path) }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The inverse: names as the catalogue keeps them in texts, with their schemas.
pub fn spell_types<T: VisitMut>(of: &mut T, catalog: &Catalog) {
    let mut spell = |name: &mut ObjectName| {
        if let Some(known) = enumeration(name)
            && let Some(of) = catalog.enum_type_of(TableId(known.id()))
        {
            let quoted = |part: &str| Ident::with_quote('"', part);
            *name = ObjectName::from(vec![quoted(&of.schema), quoted(of.bare_name())]);
        }
        Ok(())
    };
    let _ = walk_mut(of, &mut Types { change: &mut spell });
}

/// The name, as catalogs have it, of the enumeration that a name means.
pub fn find_type(name: &ObjectName, catalog: &Catalog, path: &[String]) -> Option<String> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
    let is_there = |name: &String| catalog.enum_type(name).is_some();
    match &parts[..] {
        [bare] => path.iter().map(|schema| qualified(schema, bare)).find(is_there),
        [.., schema, bare] => Some(qualified(schema, bare)).filter(is_there),
        [] => None,
    }
}

fn complete(name: &mut ObjectName, catalog: &Catalog, path: &[String]) -> Result<(), SqlError> {
    let state: Option<Enumeration> = match enumeration(name) {
        Some(known) => match catalog.enum_type_of(TableId(known.id())) {
            Some(of) => Some(of.state()),
            None => {
                let message = format!("type \"{}\" does not exist", bare(PUBLIC, known.name()));
                return Err(SqlError::invalid(message).code("42704"));
            }
        },
        None => find_type(name, catalog, path).and_then(|name| catalog.enum_type(&name)).map(|of| of.state()),
    };
    if let Some(state) = state {
        *name = enumeration_name(state);
    }
    Ok(())
}

struct Types<'c> {
    change: &'c mut dyn FnMut(&mut ObjectName) -> Result<(), SqlError>,
}

impl Types<'_> {
    fn data_type(&mut self, data_type: &mut DataType) -> Result<(), SqlError> {
        let mut inner = data_type;
        while let DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
        ) = inner
        {
            inner = element;
        }
        match inner {
            DataType::Custom(name, _) => (self.change)(name),
            _ => Ok(()),
        }
    }

    fn columns(&mut self, columns: &mut [ColumnDef]) -> Result<(), SqlError> {
        columns.iter_mut().try_for_each(|column| self.data_type(&mut column.data_type))
    }

    fn statement(&mut self, statement: &mut ast::Statement) -> Result<(), SqlError> {
        use ast::Statement as Sql;
        match statement {
            Sql::CreateTable(create) => self.columns(&mut create.columns),
            Sql::AlterTable(alter) => alter.operations.iter_mut().try_for_each(|operation| match operation {
                AlterTableOperation::AddColumn { column_def, .. } => self.columns(std::slice::from_mut(column_def)),
                AlterTableOperation::AlterColumn {
                    op: AlterColumnOperation::SetDataType { data_type, .. }, ..
                } => self.data_type(data_type),
                _ => Ok(()),
            }),
            Sql::Prepare { data_types, .. } => data_types.iter_mut().try_for_each(|of| self.data_type(of)),
            _ => Ok(()),
        }
    }
}

impl VisitorMut for Types<'_> {
    type Break = SqlError;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<SqlError> {
        match self.statement(statement) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let done = match expr {
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
                self.data_type(data_type)
            }
            _ => return ControlFlow::Continue(()),
        };
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}
