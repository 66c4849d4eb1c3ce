//! Names of enumerations become names that say which one is meant, in which state: whoever carries a statement out
//! needs no catalogue to know the type. In statements about types themselves they get the schema in which they are
//! found.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ArrayElemTypeDef, ColumnDef, DataType, Expr, Ident, ObjectName,
    ObjectType, TypedString, VisitMut, VisitorMut,
};
use saki_base::{Enumeration, TableId};
use saki_catalog::{Catalog, PUBLIC, Result, SqlError, bare, qualified};
use saki_parameters::is_temporary;
use saki_postgres::statement::name_of;
use saki_postgres::statement::walk::walk_mut;
use saki_postgres::types::{enumeration, enumeration_name};
use saki_system::types::by_name;

/// Does so in a statement or a part of one; names of types without a schema are looked for in those of `path`. Names
/// that no enumeration has stay as they are. Which enumerations were found.
///
/// # Errors
/// 42704 for one that has gone.
pub fn resolve_types<T: VisitMut>(of: &mut T, catalog: &Catalog, path: &[String]) -> Result<Vec<Enumeration>> {
    let mut types = Types { catalog, path: Some(path), found: Vec::new() };
    match walk_mut(of, &mut types) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(types.found),
    }
}

/// The same of a type that is spelled.
///
/// # Errors
/// As [`resolve_types`].
pub fn resolve_type(of: &mut DataType, catalog: &Catalog, path: &[String]) -> Result<()> {
    Types { catalog, path: Some(path), found: Vec::new() }.data_type(of)
}

/// The inverse: names as the catalogue keeps them in texts, with their schemas.
pub fn spell_types<T: VisitMut>(of: &mut T, catalog: &Catalog) {
    let _ = walk_mut(of, &mut Types { catalog, path: None, found: Vec::new() });
}

/// Whether a statement is one about types.
pub fn is_about_types(statement: &ast::Statement) -> bool {
    use ast::Statement as Sql;
    let is_drop = matches!(statement, Sql::Drop { object_type: ObjectType::Type, .. });
    is_drop || matches!(statement, Sql::CreateType { .. } | Sql::AlterType(_))
}

/// Gives the name of an enumeration in a statement about it the schema in which it is found; others stay as they are.
pub fn complete_type(name: &mut ObjectName, catalog: &Catalog, path: &[String]) {
    if let Some(found) = find(name, catalog, path).and_then(|found| catalog.enum_type(&found)) {
        *name = ObjectName::from([&*found.schema, found.bare_name()].map(quoted).to_vec());
    }
}

fn quoted(part: &str) -> Ident {
    Ident::with_quote('"', part)
}

/// The name, as catalogs have it, of the enumeration that a name means. Without a schema the system's types go before.
fn find(name: &ObjectName, catalog: &Catalog, path: &[String]) -> Option<String> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
    let is_there = |name: &String| catalog.enum_type(name).is_some();
    match &parts[..] {
        [bare] if by_name(bare).is_some() => None,
        [bare] => path.iter().map(|schema| qualified(schema, bare)).find(is_there),
        [.., schema, bare] => Some(qualified(schema, bare)).filter(is_there),
        [] => None,
    }
}

/// A name of what is to be made, with the schema in which it is made.
fn place(name: &mut ObjectName, catalog: &Catalog, path: &[String]) -> Result<()> {
    if name.0.len() != 1 {
        return Ok(());
    }
    let may_hold = |schema: &&String| !is_temporary(schema) && catalog.has_schema(schema);
    let Some(schema) = path.iter().find(may_hold) else {
        return Err(SqlError::invalid("no schema has been selected to create in").code("3F000"));
    };
    name.0.insert(0, ast::ObjectNamePart::Identifier(quoted(schema)));
    Ok(())
}

struct Types<'c> {
    catalog: &'c Catalog,
    /// `None`: names are spelled.
    path: Option<&'c [String]>,
    found: Vec<Enumeration>,
}

impl Types<'_> {
    fn name(&mut self, name: &mut ObjectName) -> Result<()> {
        let (catalog, known) = (self.catalog, enumeration(name));
        let of = known.and_then(|known| catalog.enum_type_of(TableId(known.id())));
        let Some(path) = self.path else {
            if let Some(of) = of {
                *name = ObjectName::from([&*of.schema, of.bare_name()].map(quoted).to_vec());
            }
            return Ok(());
        };
        let of = match known {
            Some(known) if of.is_none() => {
                let message = format!("type \"{}\" does not exist", bare(PUBLIC, known.name()));
                return Err(SqlError::invalid(message).code("42704"));
            }
            Some(_) => of,
            None => find(name, catalog, path).and_then(|name| catalog.enum_type(&name)),
        };
        if let Some(of) = of {
            *name = enumeration_name(of.state());
            self.found.push(of.state());
        }
        Ok(())
    }

    fn data_type(&mut self, data_type: &mut DataType) -> Result<()> {
        let mut inner = data_type;
        while let DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
        ) = inner
        {
            inner = element;
        }
        match inner {
            DataType::Custom(name, _) => self.name(name),
            _ => Ok(()),
        }
    }

    fn columns(&mut self, columns: &mut [ColumnDef]) -> Result<()> {
        columns.iter_mut().try_for_each(|column| self.data_type(&mut column.data_type))
    }

    fn statement(&mut self, statement: &mut ast::Statement) -> Result<()> {
        use ast::Statement as Sql;
        let (catalog, path) = (self.catalog, self.path.unwrap_or_default());
        match statement {
            Sql::CreateTable(create) => self.columns(&mut create.columns),
            Sql::AlterTable(alter) => alter.operations.iter_mut().try_for_each(|operation| match operation {
                AlterTableOperation::AddColumn { column_def, .. } => self.columns(std::slice::from_mut(column_def)),
                AlterTableOperation::AlterColumn {
                    op: AlterColumnOperation::SetDataType { data_type, .. }, ..
                } => self.data_type(data_type),
                _ => Ok(()),
            }),
            Sql::CreateType { name, .. } => place(name, catalog, path),
            Sql::AlterType(alter) => {
                complete_type(&mut alter.name, catalog, path);
                Ok(())
            }
            Sql::Drop { object_type: ObjectType::Type, names, .. } => {
                names.iter_mut().for_each(|name| complete_type(name, catalog, path));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn flow(result: Result<()>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl VisitorMut for Types<'_> {
    type Break = SqlError;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<SqlError> {
        flow(self.statement(statement))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
                flow(self.data_type(data_type))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::Statement;
    use saki_catalog::{EnumType, SchemaEntry};

    use super::*;
    use crate::statement::parse;

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        catalog.put_schema(SchemaEntry { id: TableId(1), name: "inner".into(), comment: None });
        for (id, schema, name) in [(2, PUBLIC, "mood"), (3, "inner", "mood"), (4, "inner", "Hue"), (5, PUBLIC, "name")]
        {
            let (id, labels) = (TableId(id), EnumType::numbered(vec!["a".into()]));
            catalog.put_enum_type(EnumType { id, name: qualified(schema, name), schema: schema.into(), labels });
        }
        catalog
    }

    fn statement(sql: &str) -> Box<ast::Statement> {
        match parse(sql).unwrap().swap_remove(0).0 {
            Statement::Statement(statement) => statement,
            other => panic!("{other}"),
        }
    }

    /// A statement whose names have become those of states and names again, and how many there are.
    fn spelled(sql: &str, path: &[&str]) -> (String, usize) {
        let (catalog, mut statement) = (catalog(), statement(sql));
        let path: Vec<String> = path.iter().map(|schema| (*schema).to_owned()).collect();
        let found = resolve_types(statement.as_mut(), &catalog, &path).unwrap().len();
        // What is known stays known.
        assert_eq!(resolve_types(statement.as_mut(), &catalog, &[]).unwrap().len(), found, "{sql}");
        spell_types(statement.as_mut(), &catalog);
        (statement.to_string(), found)
    }

    #[test]
    fn names_are_found_in_the_schemas_of_the_path() {
        for (sql, path, expected, count) in [
            ("SELECT 'a'::mood", &["public"][..], "SELECT 'a'::\"public\".\"mood\"", 1),
            ("SELECT 'a'::mood", &["inner", "public"], "SELECT 'a'::\"inner\".\"mood\"", 1),
            ("SELECT CAST('a' AS inner.mood)", &["public"], "SELECT CAST('a' AS \"inner\".\"mood\")", 1),
            ("SELECT x::MOOD[] FROM t", &["public"], "SELECT x::\"public\".\"mood\"[] FROM t", 1),
            ("SELECT 'a'::\"Hue\", 'a'::hue", &["inner"], "SELECT 'a'::\"inner\".\"Hue\", 'a'::hue", 1),
            ("SELECT 'a'::name, 1::text", &["public"], "SELECT 'a'::name, 1::TEXT", 0),
            ("SELECT 'a'::public.name", &[], "SELECT 'a'::\"public\".\"name\"", 1),
            ("CREATE TABLE t (m mood, n int)", &["public"], "CREATE TABLE t (m \"public\".\"mood\", n INT)", 1),
            ("DROP TYPE mood, other", &["inner"], "DROP TYPE \"inner\".\"mood\", other", 0),
            ("ALTER TYPE mood RENAME TO x", &["public"], "ALTER TYPE \"public\".\"mood\" RENAME TO x", 0),
            ("CREATE TYPE x AS ENUM ('b')", &["gone", "inner"], "CREATE TYPE \"inner\".x AS ENUM ('b')", 0),
        ] {
            assert_eq!(spelled(sql, path), (expected.to_owned(), count), "{sql}");
        }
    }

    #[test]
    fn a_type_that_has_gone_is_no_other() {
        let mut before = statement("SELECT 'a'::mood");
        let _ = resolve_types(before.as_mut(), &catalog(), &[PUBLIC.to_owned()]).unwrap();
        let gone = resolve_types(before.as_mut(), &Catalog::default(), &[]).unwrap_err();
        assert_eq!((gone.sqlstate(), &*gone.message), ("42704", "type \"mood\" does not exist"));
    }
}
