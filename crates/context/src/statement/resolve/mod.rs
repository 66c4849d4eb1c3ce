//! Names of relations that say no schema get the one in which they are found: that of `search_path`; those that say the
//! database's name before the schema lose it.
//!
//! Whoever plans or carries out a statement afterwards finds all names complete, so that it means the same wherever it
//! is kept. Names that WITH defines, system relations and files that the session gave names to stay as they are.

mod types;

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, AlterTableOperation, ColumnDef, ColumnOption, CommentObject, CopySource, Expr, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, ObjectType, Query, SetExpr, TableConstraint, TableFactor,
    TableObject, Value, VisitorMut, With,
};

use saki_catalog::{Catalog, PUBLIC, Result, SqlError, qualified, undefined};
use saki_parameters::{self as path, OWN_TEMPORARY};
use saki_postgres::statement::walk::walk_mut;
use saki_postgres::statement::{CONSTRAINT, name_of, position_of};
use saki_system::is_system_relation;

pub use self::types::{complete_type, is_about_types, resolve_type, resolve_types, spell_types};

/// Where names are looked for.
pub struct Scope<'c> {
    pub catalog: &'c Catalog,
    /// What clients call the database.
    pub database: &'c str,
    /// Schemas that there are.
    pub path: &'c [String],
    /// Whether names without a schema get one; otherwise they stay as they are, which means `public`.
    pub completes: bool,
    /// The schema of the session's temporary tables, whether there are any or not.
    pub temporary: &'c str,
    /// Whether a name is a file's that the session gave it to.
    pub is_external: &'c dyn Fn(&str) -> bool,
}

/// A name without a schema, and the schema that it got.
pub type Found = (String, String);

/// Completes the names of a statement; which ones they were.
///
/// # Errors
/// 42P01 for a name that means nothing, 3F000 where something is to be made and there is no schema for it.
pub fn resolve(statement: &mut Statement, scope: &Scope<'_>) -> Result<Vec<Found>> {
    let Statement::Statement(statement) = statement else { return Ok(Vec::new()) };
    let mut names = Names { scope, defined: Vec::new(), withs: Vec::new(), found: Vec::new(), new: None };
    match walk_mut(statement.as_mut(), &mut names) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(names.found),
    }
}

/// Whether a statement makes something temporary, or where only temporary things may be made.
pub fn makes_temporary(statement: &Statement) -> bool {
    use ast::Statement as Sql;
    let Statement::Statement(statement) = statement else { return false };
    let (name, is_temporary) = match statement.as_ref() {
        Sql::CreateTable(create) => (&create.name, create.temporary),
        Sql::CreateView(create) => (&create.name, create.temporary),
        Sql::CreateSequence { name, temporary, .. } => (name, *temporary),
        _ => return false,
    };
    is_temporary || schema_of(name).is_some_and(|schema| schema == OWN_TEMPORARY || path::is_temporary(&schema))
}

/// The schema that a name says.
fn schema_of(name: &ObjectName) -> Option<String> {
    match &name.0[..] {
        [ObjectNamePart::Identifier(schema), _, ..] => Some(name_of(schema)),
        _ => None,
    }
}

/// Completes the name of one relation; `is_optional`: it may be missing.
///
/// # Errors
/// 42P01.
pub fn resolve_relation(name: &mut ObjectName, scope: &Scope<'_>, is_optional: bool) -> Result<()> {
    let mut names = Names { scope, defined: Vec::new(), withs: Vec::new(), found: Vec::new(), new: None };
    if is_optional {
        names.maybe(name);
        return Ok(());
    }
    names.existing(name)
}

impl Scope<'_> {
    /// The schema in which a name is found.
    pub fn find(&self, name: &str) -> Option<&str> {
        let holds = |schema: &&String| self.catalog.kind_of(&qualified(schema, name)).is_some();
        self.path.iter().find(holds).map(String::as_str)
    }

    /// The catalog's name of a relation that is named without a schema.
    ///
    /// # Errors
    /// 42P01.
    pub fn relation(&self, name: &str) -> Result<String> {
        self.find(name).map(|schema| qualified(schema, name)).ok_or_else(|| undefined(name))
    }

    /// Whether names that were found are found in the same schemas now.
    pub fn agrees(&self, found: &[Found]) -> bool {
        found.iter().all(|(name, schema)| self.find(name) == Some(schema))
    }
}

struct Names<'s, 'c> {
    scope: &'s Scope<'c>,
    /// Names that WITH defines, of the queries around.
    defined: Vec<HashSet<String>>,
    /// What was taken out of the queries around while they are gone through.
    withs: Vec<Option<With>>,
    found: Vec<Found>,
    /// What the statement makes, and where.
    new: Option<Found>,
}

type Flow = ControlFlow<SqlError>;

fn flow(result: Result<()>) -> Flow {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// The identifier of a name that is nothing else.
fn alone(name: &ObjectName) -> Option<&Ident> {
    match &name.0[..] {
        [ObjectNamePart::Identifier(ident)] => Some(ident),
        _ => None,
    }
}

fn within(name: &mut ObjectName, schema: &str) {
    let mut ident = Ident::with_quote('"', schema);
    ident.span = alone(name).map_or(ident.span, |own| own.span);
    name.0.insert(0, ObjectNamePart::Identifier(ident));
}

impl Names<'_, '_> {
    /// `database.schema.t` is `schema.t`, and `pg_temp.t` a relation in the session's own schema.
    fn own(&self, name: &mut ObjectName) {
        if let [ObjectNamePart::Identifier(database), _, _] = &name.0[..]
            && name_of(database) == self.scope.database
        {
            name.0.remove(0);
        }
        if let [ObjectNamePart::Identifier(schema), _] = &mut name.0[..]
            && name_of(schema) == OWN_TEMPORARY
        {
            schema.value = self.scope.temporary.to_owned();
        }
    }

    /// The identifier of a name that is to get a schema.
    fn incomplete<'n>(&self, name: &'n ObjectName) -> Option<&'n Ident> {
        alone(name).filter(|_| self.scope.completes)
    }

    /// A relation that has to be there.
    fn existing(&mut self, name: &mut ObjectName) -> Result<()> {
        self.own(name);
        let Some(ident) = self.incomplete(name) else { return Ok(()) };
        let bare = name_of(ident);
        let schema = match &self.new {
            Some((made, schema)) if *made == bare => schema.clone(),
            _ => match self.scope.find(&bare) {
                Some(schema) => schema.to_owned(),
                None if is_system_relation(&bare) || (self.scope.is_external)(&bare) => return Ok(()),
                None => return Err(undefined(&bare).at(position_of(ident))),
            },
        };
        within(name, &schema);
        self.found.push((bare, schema));
        Ok(())
    }

    /// A relation that may be missing: the statement will say so itself.
    fn maybe(&mut self, name: &mut ObjectName) {
        self.own(name);
        let Some(ident) = self.incomplete(name) else { return };
        let bare = name_of(ident);
        if !(self.scope.is_external)(&bare) {
            let schema = self.scope.find(&bare).or(self.scope.path.first().map(String::as_str));
            within(name, schema.unwrap_or(OWN_TEMPORARY));
        }
    }

    /// A relation that is to be made; `is_temporary`: until the session ends.
    fn made(&mut self, name: &mut ObjectName, is_temporary: &mut bool) -> Result<()> {
        self.own(name);
        if std::mem::take(is_temporary) || schema_of(name).as_deref().is_some_and(path::is_temporary) {
            return self.made_temporary(name);
        }
        let Some(ident) = self.incomplete(name) else { return Ok(()) };
        let may_hold = |schema: &&String| !path::is_temporary(schema) && self.scope.catalog.has_schema(schema);
        let Some(schema) = self.scope.path.iter().find(may_hold) else {
            return Err(SqlError::invalid("no schema has been selected to create in")
                .code("3F000")
                .at(position_of(ident)));
        };
        self.new = Some((name_of(ident), schema.clone()));
        within(name, schema);
        Ok(())
    }

    fn made_temporary(&mut self, name: &mut ObjectName) -> Result<()> {
        let temporary = self.scope.temporary;
        if let Some(ident) = alone(name) {
            self.new = Some((name_of(ident), temporary.to_owned()));
            within(name, temporary);
            return Ok(());
        }
        let refused = match schema_of(name) {
            Some(schema) if schema == temporary => return Ok(()),
            Some(schema) if path::is_temporary(&schema) => {
                "cannot create relations in temporary schemas of other sessions"
            }
            _ => "cannot create temporary relation in non-temporary schema",
        };
        Err(SqlError::invalid(refused).code("42P16"))
    }

    /// `table.column`, as OWNED BY and COMMENT name one.
    fn column(&mut self, name: &mut ObjectName) -> Result<()> {
        if !matches!(name.0.len(), 2 | 4) {
            return Ok(());
        }
        let Some(column) = name.0.pop() else { return Ok(()) };
        let named = self.existing(name);
        name.0.push(column);
        named
    }

    fn columns(&mut self, columns: &mut [ColumnDef]) -> Result<()> {
        for option in columns.iter_mut().flat_map(|column| &mut column.options) {
            if let ColumnOption::ForeignKey(key) = &mut option.option {
                self.existing(&mut key.foreign_table)?;
            }
        }
        Ok(())
    }

    fn constraint(&mut self, constraint: &mut TableConstraint) -> Result<()> {
        match constraint {
            TableConstraint::ForeignKey(key) => self.existing(&mut key.foreign_table),
            _ => Ok(()),
        }
    }

    fn alteration(&mut self, operation: &mut AlterTableOperation) -> Result<()> {
        match operation {
            AlterTableOperation::AddConstraint { constraint, .. } => self.constraint(constraint),
            AlterTableOperation::AddColumn { column_def, .. } => self.columns(std::slice::from_mut(column_def)),
            _ => Ok(()),
        }
    }

    fn statement(&mut self, statement: &mut ast::Statement) -> Result<()> {
        use ast::Statement as Sql;
        match statement {
            Sql::Insert(insert) => match &mut insert.table {
                TableObject::TableName(name) => self.existing(name),
                _ => Ok(()),
            },
            Sql::CreateTable(create) => {
                self.made(&mut create.name, &mut create.temporary)?;
                self.columns(&mut create.columns)?;
                create.constraints.iter_mut().try_for_each(|constraint| self.constraint(constraint))
            }
            Sql::CreateView(create) => self.made(&mut create.name, &mut create.temporary),
            Sql::CreateIndex(create) => self.existing(&mut create.table_name),
            Sql::CreateSequence { name, owned_by, temporary, .. } => {
                self.made(name, temporary)?;
                owned_by.iter_mut().try_for_each(|column| self.column(column))
            }
            Sql::AlterTable(alter) => {
                match alter.if_exists {
                    true => self.maybe(&mut alter.name),
                    false => self.existing(&mut alter.name)?,
                }
                alter.operations.iter_mut().try_for_each(|operation| self.alteration(operation))
            }
            Sql::AlterIndex { name, .. } => self.existing(name),
            Sql::Drop {
                object_type: ObjectType::Schema | ObjectType::Role | ObjectType::User | ObjectType::Type,
                ..
            } => Ok(()),
            Sql::Drop { names, .. } => {
                names.iter_mut().for_each(|name| self.maybe(name));
                Ok(())
            }
            Sql::Truncate(truncate) => {
                truncate.table_names.iter_mut().try_for_each(|target| self.existing(&mut target.name))
            }
            Sql::Analyze(analyze) => analyze.table_name.iter_mut().try_for_each(|name| self.existing(name)),
            Sql::Vacuum(vacuum) => vacuum.table_name.iter_mut().try_for_each(|name| self.existing(name)),
            Sql::Copy { source: CopySource::Table { table_name, .. }, .. } => self.existing(table_name),
            Sql::ExplainTable { table_name, .. } => self.existing(table_name),
            Sql::Comment { object_type, object_name, .. } => match object_type {
                CommentObject::Column => self.column(object_name),
                kind if *kind == CONSTRAINT => self.column(object_name),
                CommentObject::Schema | CommentObject::Database => Ok(()),
                _ => {
                    self.maybe(object_name);
                    Ok(())
                }
            },
            Sql::Call(call) if call.name.to_string().trim_matches('"') == "lock table" => self.locked(call),
            _ => Ok(()),
        }
    }

    /// The tables of LOCK TABLE.
    fn locked(&mut self, call: &mut ast::Function) -> Result<()> {
        let FunctionArguments::List(list) = &mut call.args else { return Ok(()) };
        for argument in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts))) = argument {
                let mut name = ObjectName::from(parts.clone());
                self.existing(&mut name)?;
                *parts = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
            }
        }
        Ok(())
    }

    /// `TABLE name`, and those of set operations.
    fn body(&mut self, body: &mut SetExpr) -> Result<()> {
        match body {
            SetExpr::Table(table) if table.schema_name.is_none() => {
                let Some(name) = &table.table_name else { return Ok(()) };
                if self.is_defined(name) {
                    return Ok(());
                }
                let mut named = ObjectName::from(vec![Ident::new(name.clone())]);
                self.existing(&mut named)?;
                if let [ObjectNamePart::Identifier(schema), _] = &named.0[..] {
                    table.schema_name = Some(schema.value.clone());
                }
                Ok(())
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left)?;
                self.body(right)
            }
            _ => Ok(()),
        }
    }

    fn is_defined(&self, name: &str) -> bool {
        self.defined.iter().any(|names| names.contains(name))
    }

    /// The sequence that `nextval('name')` and its like name.
    fn sequence(&mut self, argument: &mut Expr) -> Result<()> {
        let value = match argument {
            Expr::Cast { expr, .. } => return self.sequence(expr),
            Expr::Value(value) => &mut value.value,
            _ => return Ok(()),
        };
        let Value::SingleQuotedString(text) = value else { return Ok(()) };
        if !self.scope.completes {
            return Ok(());
        }
        let Ok(name) = saki_postgres::statement::parse_relation(text) else { return Ok(()) };
        // A name that says `public` is written so.
        if name.schema == PUBLIC && !text.contains('.') {
            let schema = self.scope.find(&name.name).ok_or_else(|| undefined(&name.name))?;
            let quoted = |part: &str| format!("\"{}\"", part.replace('"', "\"\""));
            *text = format!("{}.{}", quoted(schema), quoted(&name.name));
            self.found.push((name.name.clone(), schema.to_owned()));
        }
        Ok(())
    }
}

impl VisitorMut for Names<'_, '_> {
    type Break = SqlError;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> Flow {
        flow(self.statement(statement))
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        let mut with = query.with.take();
        self.defined.push(HashSet::new());
        if let Some(with) = &mut with {
            let is_recursive = with.recursive;
            let mut names: Vec<String> = with.cte_tables.iter().map(|table| name_of(&table.alias.name)).collect();
            if is_recursive && let Some(defined) = self.defined.last_mut() {
                defined.extend(names.drain(..));
            }
            for table in &mut with.cte_tables {
                walk_mut(table.query.as_mut(), self)?;
                // Seen by those behind it; its own query means something else by its name.
                if let Some(defined) = self.defined.last_mut() {
                    defined.insert(name_of(&table.alias.name));
                }
            }
        }
        self.withs.push(with);
        flow(self.body(&mut query.body))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> Flow {
        query.with = self.withs.pop().flatten();
        self.defined.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        let TableFactor::Table { name, args: None, .. } = factor else { return ControlFlow::Continue(()) };
        let is_defined = alone(name).is_some_and(|ident| self.is_defined(&name_of(ident)));
        if is_defined { ControlFlow::Continue(()) } else { flow(self.existing(name)) }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        // `database.schema.table.column`
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() == 4
            && name_of(&parts[0]) == self.scope.database
        {
            parts.remove(0);
        }
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(name_of).unwrap_or_default();
        if !["nextval", "currval", "setval"].contains(&&*name) {
            return ControlFlow::Continue(());
        }
        match &mut function.args {
            FunctionArguments::List(list) => match list.args.first_mut() {
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))) => flow(self.sequence(argument)),
                _ => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests;
