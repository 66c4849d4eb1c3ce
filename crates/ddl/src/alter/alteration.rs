//! What ALTER TABLE makes of a table: the definition before and after. What there is to do is the difference between
//! the two.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Expr;
use saki_base::{Column, DataType};
use saki_tree::TreeRoot;

use crate::create::{column, constraint};
use crate::dependents::{columns_drawing, views_of, views_using};
use crate::drop::{Subject, change, depended_on, keys_lost};
use crate::rename;
use saki_catalog::undefined_column;
use saki_catalog::{
    Catalog, Check, ColumnDetail, Deferral, ForeignKey, Hidden, Identity, Index, Result, Sequence, SqlError, Table,
    nextval,
};
use saki_postgres::statement::columns_named;
use saki_postgres::statement::create_index::refuse_unordered;
use saki_postgres::statement::parse_expression;
use saki_postgres::{Action, ColumnName, TableOptions};

/// A table's change.
#[derive(Debug)]
pub struct Alteration {
    pub before: Arc<Table>,
    pub after: Table,
    /// Expressions over the columns before, by the id of the column that gets their values.
    pub using: BTreeMap<u32, Expr>,
}

impl Alteration {
    /// Carries the actions out one after another. What they change beside the table is changed in `catalog`; the table
    /// is not.
    pub fn new(catalog: &mut Catalog, before: Arc<Table>, actions: &[Action]) -> Result<Self> {
        let mut alteration = Self { after: Table::clone(&before), before, using: BTreeMap::new() };
        for action in actions {
            alteration.act(catalog, action)?;
        }
        if alteration.rewrites() {
            while let Some(unused) = alteration.after.unused() {
                remove_column(&mut alteration.after, unused);
            }
        }
        Ok(alteration)
    }

    fn act(&mut self, catalog: &mut Catalog, action: &Action) -> Result<()> {
        let table = &mut self.after;
        match action {
            Action::AddColumn { column: new, if_not_exists } => {
                if table.column(&new.column.name).is_some() {
                    return if *if_not_exists { Ok(()) } else { Err(taken(table, &new.column.name).at(new.position)) };
                }
                if table.columns.len() >= saki_postgres::COLUMNS_MAX {
                    return Err(SqlError::invalid("a table has no room for another column").code("54011"));
                }
                column::add(catalog, table, new)?;
                new.constraints.iter().try_for_each(|new| constraint::add(catalog, table, new).map(drop))
            }
            Action::DropColumn { column, if_exists, cascade } => match table.column(&column.name) {
                None if *if_exists => Ok(()),
                None => Err(undefined_column(table, &column.name).at(column.position)),
                Some(position) => drop_column(catalog, table, position, *cascade),
            },
            Action::RenameColumn { column, to } => {
                let position = find(table, column)?;
                if table.column(&to.name).is_some() {
                    return Err(taken(table, &to.name).at(to.position));
                }
                rename::rename_column(catalog, table, position, &to.name)
            }
            Action::Rename(to) => rename::rename_table(catalog, table, to),
            Action::SetDefault(column, expression) => {
                let position = find(table, column)?;
                refuse_identity(table, position)?;
                table.details[position].default = column::default_text(catalog, expression)?;
                Ok(())
            }
            Action::DropDefault(column) => {
                let position = find(table, column)?;
                refuse_identity(table, position)?;
                table.details[position].default = None;
                Ok(())
            }
            Action::SetNotNull(column) => {
                let position = find(table, column)?;
                table.columns[position].nullable = false;
                Ok(())
            }
            Action::DropNotNull(column) => drop_not_null(table, column),
            Action::SetType { column, data_type, using } => {
                self.set_type(catalog, column, *data_type, using.as_deref())
            }
            Action::AddIdentity(column, generated) => {
                let position = find(table, column)?;
                refuse_identity(table, position)?;
                if table.columns[position].nullable || table.details[position].default.is_some() {
                    return Err(SqlError::invalid(format!(
                        "column {:?} must be NOT NULL and without a default before identity can be added",
                        column.name
                    ))
                    .code("55000"));
                }
                column::add_sequence(catalog, table, position, generated)
            }
            Action::AddConstraint(new) => constraint::add(catalog, table, new).map(drop),
            Action::AddIndex { index, hidden } => add_index(catalog, table, index, hidden),
            Action::DropConstraint { name, if_exists, cascade } => {
                drop_constraint(catalog, table, name, *if_exists, *cascade)
            }
            Action::RenameConstraint { name, to } => rename::rename_constraint(catalog, table, name, to),
            Action::AlterConstraint { name, deferral } => alter_constraint(table, name, *deferral),
            Action::SetOptions(options) => set_options(table, options),
            Action::SetSequence(_) => {
                Err(SqlError::invalid(format!("{:?} is not a sequence", table.name)).code("42809"))
            }
            Action::Nothing => Ok(()),
        }
    }

    fn set_type(
        &mut self,
        catalog: &Catalog,
        column: &ColumnName,
        data_type: DataType,
        using: Option<&Expr>,
    ) -> Result<()> {
        let table = &mut self.after;
        let position = find(table, column)?;
        let id = table.details[position].id;
        let from = table.columns[position].data_type;
        if let Some(index) = indexes_made_of(table, position)?.first() {
            return Err(SqlError::unsupported("cannot alter type of a column that an index has in an expression")
                .detail(format!("index {index} depends on column {:?}", column.name))
                .hint("drop the index, alter the column, and create the index again")
                .at(column.position));
        }
        if let Some(view) = views_using(catalog, table.id, id).next() {
            return Err(SqlError::unsupported("cannot alter type of a column used by a view")
                .detail(format!("view {} depends on column {:?}", view.name, column.name))
                .at(column.position));
        }
        if using.is_none() && !casts_by_itself(from, data_type) {
            return Err(SqlError::invalid(format!(
                "column {:?} cannot be cast automatically to type {data_type}",
                column.name
            ))
            .code("42804")
            .hint(format!("You might need to specify \"USING {}::{data_type}\".", column.name))
            .at(column.position));
        }
        let in_index = |index: &Index| index.columns.iter().any(|key| key.column == position);
        if table.primary_key.contains(&position) || table.indexes.iter().any(in_index) {
            refuse_unordered(&column.name, data_type).map_err(|error| error.at(column.position))?;
        }
        table.columns[position].data_type = data_type;
        if let Some(expression) = using {
            self.using.insert(id, expression.clone());
        }
        let table = &self.after;
        for key in &table.foreign_keys {
            let own = key.table == table.id;
            let positions = |table: &Table| key.referenced.iter().filter_map(|id| table.position_of(*id)).collect();
            let (referenced, keys): (&Table, Vec<usize>) = match catalog.table_of(key.table) {
                _ if own => (table, positions(table)),
                Some(other) => (other, positions(other)),
                None => continue,
            };
            constraint::check_types(&key.name, table, &key.columns, referenced, &keys)?;
        }
        for (other, key) in catalog.referencing(table.id).filter(|(other, _)| other.id != table.id) {
            let keys: Vec<usize> = key.referenced.iter().filter_map(|id| table.position_of(*id)).collect();
            constraint::check_types(&key.name, other, &key.columns, table, &keys)?;
        }
        Ok(())
    }

    /// Whether keys or rows are laid out otherwise or get other values: then every row is written anew.
    pub fn rewrites(&self) -> bool {
        let shape = |table: &Table| -> Vec<(u32, DataType, bool)> {
            let columns = table.columns.iter().zip(&table.details);
            columns.map(|(column, detail)| (detail.id, column.data_type, column.nullable)).collect()
        };
        // USING may change values whose type stays.
        shape(&self.before) != shape(&self.after)
            || self.before.primary_key != self.after.primary_key
            || !self.using.is_empty()
    }

    /// Where the columns begin that are added, if nothing else changes what rows and keys are, and rows may lack them.
    pub fn first_added(&self) -> Option<usize> {
        let Self { before, after, using } = self;
        let is_kept = |position: usize| {
            let same = |table: &Table| {
                let column = &table.columns[position];
                (table.details[position].id, column.data_type, column.nullable)
            };
            same(before) == same(after)
        };
        let first = before.columns.len();
        let only_more = after.columns.len() > first && (0..first).all(is_kept);
        let keeps_key = before.primary_key == after.primary_key;
        // Hidden columns lie behind the others, and are made of them.
        let is_seen = after.width() == after.columns.len();
        (only_more && is_seen && keeps_key && using.is_empty() && before.stored.has_room()).then_some(first)
    }

    /// Whether a column is of the same type as before.
    fn keeps(&self, id: u32) -> bool {
        let of = |table: &Table| table.position_of(id).map(|position| table.columns[position].data_type);
        of(&self.before) == of(&self.after) && !self.using.contains_key(&id)
    }

    /// Columns that must not be NULL, and that rows may be NULL in.
    pub fn new_not_null(&self) -> Vec<usize> {
        let may_be_null = |position: &usize| {
            let id = self.after.details[*position].id;
            !self.keeps(id) || self.before.position_of(id).is_none_or(|position| self.before.columns[position].nullable)
        };
        (0..self.after.columns.len()).filter(|at| !self.after.columns[*at].nullable).filter(may_be_null).collect()
    }

    /// Checks that rows may fail: new ones, and all if values have changed.
    pub fn new_checks(&self) -> impl Iterator<Item = &Check> {
        let changed = self.before.details.iter().any(|detail| !self.keeps(detail.id));
        self.after.checks.iter().filter(move |check| {
            changed || !self.before.checks.iter().any(|before| before.expression == check.expression)
        })
    }

    /// Foreign keys that rows may fail.
    pub fn new_foreign_keys(&self) -> impl Iterator<Item = &ForeignKey> {
        let known = |key: &ForeignKey| {
            let same = |before: &ForeignKey| before.table == key.table && before.referenced == key.referenced;
            let ids = |table: &Table, key: &ForeignKey| -> Vec<u32> {
                key.columns.iter().map(|position| table.details[*position].id).collect()
            };
            let columns = ids(&self.after, key);
            columns.iter().all(|id| self.keeps(*id))
                && self.before.foreign_keys.iter().any(|before| same(before) && ids(&self.before, before) == columns)
        };
        self.after.foreign_keys.iter().filter(move |key| !known(key))
    }
}

fn find(table: &Table, column: &ColumnName) -> Result<usize> {
    table.column(&column.name).ok_or_else(|| undefined_column(table, &column.name).at(column.position))
}

fn taken(table: &Table, column: &str) -> SqlError {
    SqlError::invalid(format!("column {column:?} of relation {:?} already exists", table.bare_name())).code("42701")
}

fn refuse_identity(table: &Table, position: usize) -> Result<()> {
    match table.details[position].identity {
        None => Ok(()),
        Some(Identity::Always | Identity::ByDefault) => Err(SqlError::invalid(format!(
            "column {:?} of relation {:?} is an identity column",
            table.columns[position].name,
            table.bare_name()
        ))
        .code("42601")),
    }
}

fn drop_not_null(table: &mut Table, column: &ColumnName) -> Result<()> {
    let position = find(table, column)?;
    if table.primary_key.contains(&position) {
        return Err(SqlError::invalid(format!("column {:?} is in a primary key", column.name)).code("42P16"));
    }
    refuse_identity(table, position)?;
    table.columns[position].nullable = true;
    Ok(())
}

/// Whether values of one type become those of another without being told how: PostgreSQL's assignment casts.
fn casts_by_itself(from: DataType, to: DataType) -> bool {
    use DataType as Type;
    let number = |data_type| {
        matches!(data_type, Type::Int2 | Type::Int4 | Type::Int8 | Type::Float4 | Type::Float8 | Type::Decimal { .. })
    };
    let time = |data_type| matches!(data_type, Type::Date | Type::Timestamp | Type::Timestamptz);
    let text = |data_type| matches!(data_type, Type::Text | Type::Varchar(_) | Type::Char(_));
    // A time of a moment, and a time as a span: these need no word either.
    let of_day = matches!((from, to), (Type::Timestamp | Type::Timestamptz | Type::Interval, Type::Time))
        || (from, to) == (Type::Time, Type::Interval);
    from == to || of_day || text(to) || (number(from) && number(to)) || (time(from) && time(to))
}

fn set_options(table: &mut Table, options: &TableOptions) -> Result<()> {
    let on = options.columns.unwrap_or(table.segments.is_some());
    table.bloom = options.bloom_columns(table.visible(), on, &table.bloom)?;
    if on != table.segments.is_some() {
        // The directory's tree gets its id when it is built.
        table.segments = on.then(|| saki_columns::SegmentsRoot::empty(saki_base::TreeId(0)));
    }
    table.resident = options.resident.unwrap_or(table.resident);
    table.tier = options.tier.unwrap_or(table.tier);
    Ok(())
}

/// Drops a column with its indexes, constraints and sequence.
fn drop_column(catalog: &mut Catalog, table: &mut Table, position: usize, cascade: bool) -> Result<()> {
    let (id, name) = (table.details[position].id, table.columns[position].name.clone());
    if table.width() == 1 {
        return Err(SqlError::unsupported(format!("column {name:?} is the last of table {}", table.name))
            .hint("DROP TABLE drops the table"));
    }
    let what = format!("column {name} of table {}", table.name);
    let views = views_using(catalog, table.id, id).map(|view| Subject::View(view.name.clone())).collect();
    let mut checks = Vec::new();
    for check in &table.checks {
        if !columns_named(table, &parse_expression(&check.expression)?).contains(&position) {
            checks.push(check.clone());
        }
    }
    table.checks = checks;
    table.foreign_keys.retain(|key| !key.columns.contains(&position));
    let made_of = indexes_made_of(table, position)?;
    table.indexes.retain(|index| {
        !index.is_over(position) && !index.include.contains(&position) && !made_of.contains(&index.name)
    });
    if table.primary_key.contains(&position) {
        drop_primary_key(table);
    }
    remove_column(table, position);
    let lost = keys_lost(catalog, table.id, table);
    drop_dependents(catalog, table, &what, views, cascade)?;
    drop_dependents(catalog, table, &what, lost, cascade)?;
    drop_owned(catalog, table, id, &what, cascade)
}

/// Drops the sequences of a column that has gone.
fn drop_owned(catalog: &mut Catalog, table: &mut Table, column: u32, what: &str, cascade: bool) -> Result<()> {
    let is_owned = |sequence: &&Arc<Sequence>| sequence.owner.is_some_and(|owner| owner.column == column);
    let owned: Vec<_> = catalog.owned_sequences(table.id).filter(is_owned).map(Arc::clone).collect();
    for sequence in owned {
        let text = nextval(&sequence.name);
        let own = (0..table.details.len()).filter(|at| table.details[*at].default.as_ref() == Some(&text));
        let others = columns_drawing(catalog, &sequence).filter(|(other, _)| other.id != table.id);
        let drawing = own.map(|column| Subject::Default { table: table.name.clone(), column });
        let drawing =
            drawing.chain(others.map(|(other, column)| Subject::Default { table: other.name.clone(), column }));
        let drawing = drawing.collect();
        drop_dependents(catalog, table, what, drawing, cascade)?;
        catalog.remove_sequence(&sequence.name);
    }
    Ok(())
}

/// Names of indexes that have a column in an expression or in their condition.
fn indexes_made_of(table: &Table, position: usize) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (column, hidden) in table.filled() {
        if columns_named(table, &parse_expression(&hidden.expression())?).contains(&position) {
            let over = table.indexes.iter().filter(|index| index.is_over(column));
            found.extend(over.map(|index| index.name.clone()));
        }
    }
    Ok(found)
}

/// Adds an index with its hidden columns.
fn add_index(catalog: &Catalog, table: &mut Table, index: &Index, hidden: &[(Column, Hidden)]) -> Result<()> {
    catalog.refuse_taken(&index.name)?;
    for (column, hidden) in hidden {
        let id = table.next_column_id;
        table.next_column_id += 1;
        table.columns.push(column.clone());
        table.details.push(ColumnDetail { id, hidden: Some(hidden.clone()), ..ColumnDetail::default() });
    }
    table.indexes.push(Index { root: TreeRoot::empty(catalog.new_tree_id()), ..index.clone() });
    Ok(())
}

/// Takes a column that nothing refers to any more out of a table.
fn remove_column(table: &mut Table, position: usize) {
    table.columns.remove(position);
    table.details.remove(position);
    close_gap(table, position);
}

/// Positions behind a dropped column are one less.
fn close_gap(table: &mut Table, dropped: usize) {
    let close = |position: &mut usize| *position -= usize::from(*position > dropped);
    table.primary_key.iter_mut().for_each(close);
    table.bloom.retain(|position| *position != dropped);
    table.bloom.iter_mut().for_each(close);
    table.foreign_keys.iter_mut().flat_map(|key| &mut key.columns).for_each(close);
    for index in &mut table.indexes {
        index.columns.iter_mut().for_each(|column| close(&mut column.column));
        index.include.iter_mut().for_each(close);
    }
}

fn drop_primary_key(table: &mut Table) {
    table.primary_key.clear();
    table.primary_key_constraint = None;
    table.primary_key_comment = None;
}

fn drop_constraint(
    catalog: &mut Catalog,
    table: &mut Table,
    name: &ColumnName,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let ColumnName { name, position } = name;
    if !table.has_constraint(name) {
        return match if_exists {
            true => Ok(()),
            false => Err(rename::undefined_constraint(table, name).at(*position)),
        };
    }
    if !table.primary_key.is_empty() && table.primary_key_name() == *name {
        drop_primary_key(table);
    }
    table.checks.retain(|check| check.name != *name);
    table.foreign_keys.retain(|key| key.name != *name);
    table.indexes.retain(|index| !(index.constraint && index.bare_name() == name));
    let lost = keys_lost(catalog, table.id, table);
    drop_dependents(catalog, table, &format!("constraint {name} on table {}", table.name), lost, cascade)
}

/// Says when a foreign key is checked from now on.
fn alter_constraint(table: &mut Table, name: &ColumnName, deferral: Deferral) -> Result<()> {
    let ColumnName { name, position } = name;
    if let Some(key) = table.foreign_keys.iter_mut().find(|key| key.name == *name) {
        key.deferral = deferral;
        return Ok(());
    }
    if !table.has_constraint(name) {
        return Err(rename::undefined_constraint(table, name).at(*position));
    }
    let of = table.bare_name();
    Err(SqlError::invalid(format!("constraint {name:?} of relation {of:?} is not a foreign key constraint"))
        .code("42809")
        .at(*position))
}

/// Views, foreign keys and defaults that cannot stay: they go too, or the statement is refused.
fn drop_dependents(
    catalog: &mut Catalog,
    table: &mut Table,
    what: &str,
    dependents: Vec<Subject>,
    cascade: bool,
) -> Result<()> {
    // Keys of the table itself may have gone already.
    let present = |subject: &Subject| match subject {
        Subject::ForeignKey { table: of, name } if *of == table.name => {
            table.foreign_keys.iter().any(|key| key.name == *name)
        }
        _ => true,
    };
    let dependents: Vec<Subject> = dependents.into_iter().filter(present).collect();
    if !cascade && !dependents.is_empty() {
        let texts: Vec<String> = dependents.iter().map(|s| format!("{} depends on {what}", s.shown())).collect();
        return Err(depended_on(format!("cannot drop {what} because other objects depend on it"), &texts));
    }
    let mut pending = dependents;
    while let Some(subject) = pending.pop() {
        match subject {
            Subject::ForeignKey { table: of, name } if of == table.name => {
                table.foreign_keys.retain(|key| key.name != name);
            }
            Subject::ForeignKey { table: of, name } => {
                change(catalog, &of, |table| table.foreign_keys.retain(|key| key.name != name));
            }
            Subject::View(name) => {
                pending.extend(views_of(catalog, &name).map(|v| Subject::View(v.name.clone())));
                catalog.remove_view(&name);
            }
            Subject::Default { table: of, column } if of == table.name => table.details[column].default = None,
            Subject::Default { table: of, column } => {
                change(catalog, &of, |table| table.details[column].default = None);
            }
            Subject::Table(_) | Subject::Sequence(_) | Subject::Index(_) => {}
        }
    }
    Ok(())
}
