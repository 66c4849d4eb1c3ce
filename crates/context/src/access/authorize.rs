//! Whether a statement is allowed: what each kind of statement asks for.
//!
//! Names that nothing has are passed by: the statement itself says what is wrong with them.

use datafusion::sql::sqlparser::ast::{self, ObjectName, ObjectType, Statement, TableFactor};

use super::grants::bare_name;
use super::probe;
use super::roles::refused;
use crate::context::StatementContext;
use saki_catalog::{Catalog, Demand, Demanded, ObjectId, ObjectKind, Privilege, Privileges, Result, RoleId, Table};
use saki_parameters::is_temporary;
use saki_plan::Asking;
use saki_postgres::RelationName;
use saki_postgres::statement::{CHECKPOINT, LockTable, MergedAs, name_of, object_name, when_clauses};
use saki_store::locks::LockMode;

/// A role, and the catalog in which it is asked what it may.
struct Asked<'c> {
    catalog: &'c Catalog,
    role: RoleId,
}

impl<'c> Asked<'c> {
    fn of(asking: &'c Asking) -> Self {
        Self { catalog: &asking.rights.catalog, role: asking.role }
    }

    fn demand(&self, object: ObjectId, kind: ObjectKind, name: &str, of: Demanded) -> Result<()> {
        self.catalog.demand(self.role, &Demand { object, kind, name: name.to_owned(), of })
    }

    /// A schema of temporary tables is everybody's of its session.
    fn schema(&self, name: &str, privilege: Privilege) -> Result<()> {
        if is_temporary(name) {
            return Ok(());
        }
        let Some(object) = self.catalog.schema_object(name) else { return Ok(()) };
        self.demand(object, ObjectKind::Schema, name, Demanded::Any(privilege.into()))
    }

    /// Rights on a relation, and the use of its schema.
    fn relation(&self, name: &ObjectName, of: Demanded) -> Result<()> {
        let name = RelationName::read(name)?;
        self.schema(&name.schema, Privilege::Usage)?;
        self.named(&name.name, of)
    }

    /// Rights on an enumeration.
    fn enumeration(&self, name: &ObjectName, of: Demanded) -> Result<()> {
        match self.catalog.enum_type(&RelationName::read(name)?.name) {
            Some(found) => self.demand(found.id.into(), ObjectKind::Type, found.bare_name(), of),
            None => Ok(()),
        }
    }

    fn named(&self, name: &str, of: Demanded) -> Result<()> {
        if let Some((object, kind)) = self.catalog.relation_object(name) {
            return self.demand(object, kind, bare_name(name), of);
        }
        match self.catalog.index(name) {
            Some((table, _)) => self.demand(table.id.into(), ObjectKind::Table, table.bare_name(), of),
            None => Ok(()),
        }
    }

    /// What whoever makes something in a schema needs.
    fn create_in(&self, name: &ObjectName) -> Result<()> {
        self.schema(&RelationName::read(name)?.schema, Privilege::Create)
    }

    fn references(&self, key: &ast::ForeignKeyConstraint) -> Result<()> {
        let name = object_name(&key.foreign_table)?.0;
        let Some(table) = self.catalog.get(&name) else { return Ok(()) };
        let columns = probe::ids_of(table, key.referred_columns.iter().map(name_of));
        let columns = match columns.is_empty() {
            true => table.primary_key.iter().map(|place| table.details[*place].id).collect(),
            false => columns,
        };
        self.relation(&key.foreign_table, Demanded::Columns(Privilege::References, columns))
    }

    fn column_references(&self, column: &ast::ColumnDef) -> Result<()> {
        column.options.iter().try_for_each(|option| match &option.option {
            ast::ColumnOption::ForeignKey(key) => self.references(key),
            _ => Ok(()),
        })
    }

    fn constraint_references(&self, constraint: &ast::TableConstraint) -> Result<()> {
        match constraint {
            ast::TableConstraint::ForeignKey(key) => self.references(key),
            _ => Ok(()),
        }
    }

    fn database(&self, of: Demanded) -> Result<()> {
        self.demand(ObjectId::DATABASE, ObjectKind::Database, "saki", of)
    }

    fn table(&self, name: &str) -> Option<&Table> {
        self.catalog.get(name).map(|table| table.as_ref())
    }
}

/// Refuses a statement that the session's role may not run. What a query reads is asked when it is planned.
///
/// # Errors
/// 42501.
pub async fn authorize(cx: &StatementContext<'_>, statement: &Statement) -> Result<()> {
    let Some(asking) = cx.asking()? else { return Ok(()) };
    let asked = Asked::of(&asking);
    match statement {
        Statement::Query(query) => held_rows(&asked, query),
        Statement::Insert(insert) => authorize_insert(cx, &asked, insert).await,
        Statement::Update(update) => authorize_update(cx, &asked, update).await,
        Statement::Delete(delete) => authorize_delete(cx, &asked, delete).await,
        Statement::Merge(merge) => authorize_merge(cx, &asked, merge).await,
        Statement::Copy { source, to, target, .. } => {
            match target {
                ast::CopyTarget::File { .. } if *to => expect_file_role(&asked, RoleId::WRITE_SERVER_FILES)?,
                ast::CopyTarget::File { .. } => expect_file_role(&asked, RoleId::READ_SERVER_FILES)?,
                _ => {}
            }
            let (ast::CopySource::Table { table_name, columns }, false) = (source, to) else { return Ok(()) };
            let names: Vec<String> = columns.iter().map(name_of).collect();
            insertable(&asked, table_name, &names)
        }
        other => authorize_definition(&asked, other),
    }
}

/// The same of statements that define something or keep tables in order.
fn authorize_definition(asked: &Asked<'_>, statement: &Statement) -> Result<()> {
    let own = Demanded::Ownership;
    match statement {
        Statement::CreateTable(create) => {
            asked.create_in(&create.name)?;
            create.columns.iter().try_for_each(|column| asked.column_references(column))?;
            create.constraints.iter().try_for_each(|constraint| asked.constraint_references(constraint))
        }
        Statement::CreateIndex(create) => asked.relation(&create.table_name, own),
        Statement::CreateView(create) => {
            asked.create_in(&create.name)?;
            asked.relation(&create.name, own)
        }
        Statement::CreateSequence { name, .. } | Statement::CreateType { name, .. } => asked.create_in(name),
        Statement::CreateSchema { .. } => asked.database(Demanded::Any(Privilege::Create.into())),
        Statement::AlterTable(alter) => {
            asked.relation(&alter.name, own)?;
            alter.operations.iter().try_for_each(|operation| match operation {
                ast::AlterTableOperation::AddConstraint { constraint, .. } => asked.constraint_references(constraint),
                ast::AlterTableOperation::AddColumn { column_def, .. } => asked.column_references(column_def),
                _ => Ok(()),
            })
        }
        Statement::AlterIndex { name, .. } => asked.relation(name, own),
        Statement::AlterType(alter) => asked.enumeration(&alter.name, own),
        Statement::Drop { object_type, names, .. } => {
            names.iter().try_for_each(|name| dropped(asked, *object_type, name))
        }
        Statement::Truncate(truncate) => {
            let is_cascade = truncate.cascade == Some(ast::CascadeOption::Cascade);
            for target in &truncate.table_names {
                asked.relation(&target.name, Demanded::Any(Privilege::Truncate.into()))?;
                let name = object_name(&target.name)?.0;
                for other in probe::referring(asked.catalog, &name).iter().filter(|_| is_cascade) {
                    asked.named(other, Demanded::Any(Privilege::Truncate.into()))?;
                }
            }
            Ok(())
        }
        Statement::Comment { object_type, object_name, .. } => commented(asked, *object_type, object_name),
        Statement::Vacuum(vacuum) => match &vacuum.table_name {
            Some(name) => asked.relation(name, own),
            None if vacuum.reindex => asked.database(own),
            None => Ok(()),
        },
        Statement::Analyze(analyze) => match &analyze.table_name {
            Some(name) => asked.relation(name, own),
            None => asked.database(own),
        },
        Statement::Call(call) => match LockTable::read(call)? {
            Some(lock) => lock.tables.iter().try_for_each(|name| asked.relation(name, lockable(lock.mode))),
            None if call.name.to_string().eq_ignore_ascii_case(CHECKPOINT) => {
                match asked.catalog.inherits(asked.role, RoleId::CHECKPOINT) {
                    true => Ok(()),
                    false => Err(refused("must be superuser or have privileges of pg_checkpoint to do CHECKPOINT")),
                }
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// What LOCK TABLE needs: any right that takes such a lock.
fn lockable(mode: LockMode) -> Demanded {
    use Privilege as P;
    let stronger = [P::Update, P::Delete, P::Truncate];
    Demanded::Any(match mode {
        LockMode::AccessShare => Privileges::from_iter([P::Select]),
        LockMode::RowExclusive => Privileges::from_iter(stronger.into_iter().chain([P::Insert])),
        _ => Privileges::from_iter(stronger),
    })
}

fn dropped(asked: &Asked<'_>, kind: ObjectType, name: &ObjectName) -> Result<()> {
    if kind == ObjectType::Schema {
        let name = name.0.last().and_then(|part| part.as_ident()).map(name_of).unwrap_or_default();
        let Some(object) = asked.catalog.schema_object(&name) else { return Ok(()) };
        return asked.demand(object, ObjectKind::Schema, &name, Demanded::Ownership);
    }
    // Whoever owns the schema may empty it.
    let schema = asked.catalog.schema_object(&RelationName::read(name)?.schema);
    match schema.is_some_and(|schema| asked.catalog.owns(asked.role, schema)) {
        true => Ok(()),
        false if kind == ObjectType::Type => asked.enumeration(name, Demanded::Ownership),
        false => asked.relation(name, Demanded::Ownership),
    }
}

fn commented(asked: &Asked<'_>, kind: ast::CommentObject, name: &ObjectName) -> Result<()> {
    match kind {
        ast::CommentObject::Schema => dropped(asked, ObjectType::Schema, name),
        ast::CommentObject::Column => {
            let mut relation = name.clone();
            relation.0.pop();
            if relation.0.is_empty() { Ok(()) } else { asked.relation(&relation, Demanded::Ownership) }
        }
        ast::CommentObject::Database => asked.database(Demanded::Ownership),
        _ => asked.relation(name, Demanded::Ownership),
    }
}

/// SELECT … FOR UPDATE changes rows as far as others can tell.
fn held_rows(asked: &Asked<'_>, query: &ast::Query) -> Result<()> {
    if query.locks.is_empty() {
        return Ok(());
    }
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    select.from.iter().try_for_each(|from| match &from.relation {
        TableFactor::Table { name, .. } => asked.relation(name, Demanded::Columns(Privilege::Update, Vec::new())),
        _ => Ok(()),
    })
}

/// The right to add rows with values for these columns; none named: for all.
fn insertable(asked: &Asked<'_>, name: &ObjectName, columns: &[String]) -> Result<()> {
    let Some(table) = asked.table(&object_name(name)?.0) else {
        return asked.relation(name, Demanded::Any(Privilege::Insert.into()));
    };
    let ids = match columns.is_empty() {
        true => table.details.iter().map(|detail| detail.id).collect(),
        false => probe::ids_of(table, columns.iter().cloned()),
    };
    asked.relation(name, Demanded::Columns(Privilege::Insert, ids))
}

async fn authorize_insert(cx: &StatementContext<'_>, asked: &Asked<'_>, insert: &ast::Insert) -> Result<()> {
    let ast::TableObject::TableName(name) = &insert.table else { return Ok(()) };
    let last = |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).map(name_of);
    let columns: Vec<String> = insert.columns.iter().filter_map(last).collect();
    insertable(asked, name, &columns)?;
    let Some(table) = asked.table(&object_name(name)?.0) else { return Ok(()) };
    if let Some(ast::OnInsert::OnConflict(clause)) = &insert.on {
        conflicting(asked, name, table, clause)?;
    }
    let target = Some(ObjectId::from(table.id));
    if let Some(sql) = insert.source.as_ref().and_then(|source| probe::of_source(source)) {
        probe::expect_readable(cx, None, &sql).await?;
    }
    let items: Vec<String> = insert.returning.iter().flatten().map(ToString::to_string).collect();
    let alias = insert.table_alias.as_ref().map(|alias| format!(" AS {}", alias.alias)).unwrap_or_default();
    match probe::select(&items, &format!("{name}{alias}"), None) {
        Some(sql) => probe::expect_readable(cx, target, &sql).await,
        None => Ok(()),
    }
}

fn conflicting(asked: &Asked<'_>, name: &ObjectName, table: &Table, clause: &ast::OnConflict) -> Result<()> {
    let mut read = match &clause.conflict_target {
        Some(ast::ConflictTarget::Columns(columns)) => probe::ids_of(table, columns.iter().map(name_of)),
        _ => Vec::new(),
    };
    if let ast::OnConflictAction::DoUpdate(update) = &clause.action {
        let written = probe::ids_of(table, probe::targets(&update.assignments).into_iter());
        asked.relation(name, Demanded::Columns(Privilege::Update, written))?;
        let values = update.assignments.iter().map(|assignment| &assignment.value);
        read.extend(probe::named_beside_excluded(table, values.chain(&update.selection))?);
    }
    match read.is_empty() {
        true => Ok(()),
        false => asked.relation(name, Demanded::Columns(Privilege::Select, read)),
    }
}

async fn authorize_update(cx: &StatementContext<'_>, asked: &Asked<'_>, update: &ast::Update) -> Result<()> {
    let TableFactor::Table { name, .. } = &update.table.relation else { return Ok(()) };
    let Some(table) = asked.table(&object_name(name)?.0) else {
        return asked.relation(name, Demanded::Any(Privilege::Update.into()));
    };
    let written = probe::ids_of(table, probe::targets(&update.assignments).into_iter());
    asked.relation(name, Demanded::Columns(Privilege::Update, written))?;
    let mut items = probe::assigned(&update.assignments);
    items.extend(update.returning.iter().flatten().map(ToString::to_string));
    let from = match &update.from {
        Some(ast::UpdateTableFromKind::BeforeSet(tables) | ast::UpdateTableFromKind::AfterSet(tables)) => {
            format!("{}, {}", update.table, list(tables))
        }
        None => update.table.to_string(),
    };
    match probe::select(&items, &from, update.selection.as_ref()) {
        Some(sql) => probe::expect_readable(cx, Some(table.id.into()), &sql).await,
        None => Ok(()),
    }
}

async fn authorize_delete(cx: &StatementContext<'_>, asked: &Asked<'_>, delete: &ast::Delete) -> Result<()> {
    let (ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables)) = &delete.from;
    let Some(TableFactor::Table { name, .. }) = tables.first().map(|table| &table.relation) else { return Ok(()) };
    asked.relation(name, Demanded::Any(Privilege::Delete.into()))?;
    let Some(table) = asked.table(&object_name(name)?.0) else { return Ok(()) };
    let items: Vec<String> = delete.returning.iter().flatten().map(ToString::to_string).collect();
    let from = match &delete.using {
        Some(using) => format!("{}, {}", list(tables), list(using)),
        None => list(tables),
    };
    match probe::select(&items, &from, delete.selection.as_ref()) {
        Some(sql) => probe::expect_readable(cx, Some(table.id.into()), &sql).await,
        None => Ok(()),
    }
}

/// What each clause does, and the columns that they and the condition read.
async fn authorize_merge(cx: &StatementContext<'_>, asked: &Asked<'_>, merge: &ast::Merge) -> Result<()> {
    let TableFactor::Table { name, .. } = &merge.table else { return Ok(()) };
    let Some(table) = asked.table(&object_name(name)?.0) else {
        return asked.relation(name, Demanded::Any(Privilege::Update.into()));
    };
    let last = |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).map(name_of);
    let (mut of_both, mut of_source) = (Vec::new(), Vec::new());
    for clause in when_clauses(merge)? {
        let items = if clause.is_matched { &mut of_both } else { &mut of_source };
        items.extend(clause.condition.map(|condition| format!("({condition})")));
        match clause.action {
            MergedAs::Nothing => {}
            MergedAs::Delete => asked.relation(name, Demanded::Any(Privilege::Delete.into()))?,
            MergedAs::Update(assignments) => {
                let written = probe::ids_of(table, probe::targets(assignments).into_iter());
                asked.relation(name, Demanded::Columns(Privilege::Update, written))?;
                items.extend(probe::assigned(assignments));
            }
            MergedAs::Insert(row) => {
                let columns: Vec<String> = row.columns.iter().filter_map(last).collect();
                insertable(asked, name, &columns)?;
                items.extend(probe::values(row.values.unwrap_or_default()));
            }
        }
    }
    let target = Some(table.id.into());
    let both = format!("{}, {}", merge.source, merge.table);
    if let Some(sql) = probe::select(&of_both, &both, Some(&merge.on)) {
        probe::expect_readable(cx, target, &sql).await?;
    }
    match probe::select(&of_source, &merge.source.to_string(), None) {
        Some(sql) => probe::expect_readable(cx, target, &sql).await,
        None => Ok(()),
    }
}

fn list(tables: &[ast::TableWithJoins]) -> String {
    tables.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn expect_file_role(asked: &Asked<'_>, wanted: RoleId) -> Result<()> {
    if asked.catalog.inherits(asked.role, wanted) {
        return Ok(());
    }
    let (name, way) = match wanted {
        RoleId::READ_SERVER_FILES => ("pg_read_server_files", "from"),
        _ => ("pg_write_server_files", "to"),
    };
    Err(refused(format!("must be superuser or have privileges of the {name} role to COPY {way} a file"))
        .hint("Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone."))
}

/// Refuses what only a role may do, with all that inherit it.
///
/// # Errors
/// 42501.
pub fn expect_role(cx: &StatementContext<'_>, wanted: RoleId) -> Result<()> {
    match cx.asking()? {
        None => Ok(()),
        Some(asking) => expect_file_role(&Asked::of(&asking), wanted),
    }
}

/// Refuses what only superusers may do.
///
/// # Errors
/// 42501.
pub fn expect_superuser(cx: &StatementContext<'_>, what: &str) -> Result<()> {
    match cx.asking()? {
        None => Ok(()),
        Some(_) => Err(refused(format!("must be superuser to {what}"))),
    }
}

/// Refuses to add rows to columns of a table, by its catalog name, where the session's role may not.
///
/// # Errors
/// 42501.
pub fn expect_insert(cx: &StatementContext<'_>, table: &str, columns: &[String]) -> Result<()> {
    let Some(asking) = cx.asking()? else { return Ok(()) };
    let asked = Asked::of(&asking);
    let Some(found) = asked.table(table) else { return Ok(()) };
    asked.schema(&found.schema, Privilege::Usage)?;
    let ids = match columns.is_empty() {
        true => found.details.iter().map(|detail| detail.id).collect(),
        false => probe::ids_of(found, columns.iter().cloned()),
    };
    asked.named(table, Demanded::Columns(Privilege::Insert, ids))
}
