//! What ALTER TABLE makes of a table: the definition before and after. What there is to do is the difference between
//! the two.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Expr;
use saki_base::{Column, DataType};
use saki_tree::TreeRoot;

use super::removal::{drop_column, drop_constraint, indexes_made_of, remove_column};
use crate::create::{column, constraint};
use crate::dependents::views_using;
use crate::rename;
use saki_catalog::undefined_column;
use saki_catalog::{
    Catalog, Check, ColumnDetail, Deferral, ForeignKey, Hidden, Identity, Index, Result, SqlError, Table,
};
use saki_postgres::statement::create_index::refuse_unordered;
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

    /// Whether keys or rows are laid out otherwise or get other values: then every row is written anew, unless the rows
    /// that are there may stay as they are ([`Self::first_added`]).
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

    /// If columns only come and go, and rows may stay as they are: where the columns begin that are added.
    pub fn first_added(&self) -> Option<usize> {
        let Self { before, after, using } = self;
        let is_kept = |position: &usize| {
            let same = |table: &Table, position: usize| {
                let column = &table.columns[position];
                (table.details[position].id, column.data_type, column.nullable)
            };
            let earlier = before.position_of(after.details[*position].id);
            earlier.is_some_and(|earlier| same(before, earlier) == same(after, *position))
        };
        let count = after.columns.len();
        let first = (0..count).find(|position| !is_kept(position)).unwrap_or(count);
        let is_new = |position: usize| self.is_new(after.details[position].id);
        let key = |table: &Table| -> Vec<u32> { table.primary_key.iter().map(|at| table.details[*at].id).collect() };
        // Hidden columns lie behind the others, and are made of them.
        let are_seen = first == count || after.width() == count;
        let only_these = (first..count).all(is_new) && using.is_empty() && key(before) == key(after);
        let has_room = before.stored.has_room(before.columns.len(), count - first);
        (self.rewrites() && only_these && are_seen && has_room).then_some(first)
    }

    /// Whether a column was not the table's before.
    fn is_new(&self, id: u32) -> bool {
        self.before.position_of(id).is_none()
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
        let changed = self.after.details.iter().any(|detail| !self.is_new(detail.id) && !self.keeps(detail.id));
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
