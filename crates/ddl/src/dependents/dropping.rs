//! What goes with something that is dropped, found over the catalog alone before anything has gone: views over a table
//! and over such views, foreign keys that refer to it, defaults that draw from a sequence, columns of a type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use saki_base::TableId;

use super::relations::{columns_drawing, columns_of_type, views_of, views_of_type, views_using};
use crate::trees::free_table;
use saki_catalog::{Catalog, Result, SqlError, Table};
use saki_store::Writer;
use saki_store::locks::LockMode;

/// The error for a drop that other objects stand against.
pub fn depended_on(message: String, dependents: &[String]) -> SqlError {
    SqlError::invalid(message)
        .code("2BP01")
        .detail(dependents.iter().map(|text| format!("{text}.")).collect::<Vec<_>>().join("\n"))
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// Something that goes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    Table(String),
    View(String),
    Sequence(String),
    Index(String),
    /// A foreign key of a table that stays.
    ForeignKey {
        table: String,
        name: String,
    },
    /// The default of a column that stays.
    Default {
        table: String,
        column: usize,
    },
    /// A column of a table that stays.
    Column {
        table: String,
        name: String,
    },
    Type(String),
}

impl Subject {
    pub fn shown(&self) -> String {
        match self {
            Self::Table(name) => format!("table {name}"),
            Self::View(name) => format!("view {name}"),
            Self::Sequence(name) => format!("sequence {name}"),
            Self::Index(name) => format!("index {name}"),
            Self::ForeignKey { table, name } => format!("constraint {name} on table {table}"),
            Self::Default { table, .. } => format!("default value of a column of table {table}"),
            Self::Column { table, name } => format!("column {name} of table {table}"),
            Self::Type(name) => format!("type {name}"),
        }
    }
}

/// What goes, found before anything has gone.
#[derive(Debug, Default)]
pub struct Dropping {
    /// Those that the statement names: they are nobody's dependents.
    named: BTreeSet<Subject>,
    subjects: BTreeSet<Subject>,
    pub schemas: Vec<String>,
    /// What depends on those, in words, and which subject each is about.
    found: Vec<(Option<Subject>, String)>,
    pub dependents: Vec<String>,
}

impl Dropping {
    /// Notes that something depends on what goes.
    pub fn depends(&mut self, text: String) {
        self.found.push((None, text));
    }

    /// Adds a subject that the statement names.
    pub fn add_named(&mut self, catalog: &Catalog, subject: Subject) {
        self.named.insert(subject.clone());
        self.add(catalog, subject);
    }

    /// Adds a subject and all that depends on it.
    pub fn add(&mut self, catalog: &Catalog, subject: Subject) {
        let mut pending = vec![(subject, None)];
        while let Some((subject, reason)) = pending.pop() {
            self.found.extend(reason.map(|reason| (Some(subject.clone()), reason)));
            if self.subjects.insert(subject.clone()) {
                pending.extend(needing(catalog, &subject).into_iter().rev());
            }
        }
    }

    /// What has to be locked: relations that go, and tables that stay and lose something by that.
    pub fn relations(&self) -> Vec<(String, LockMode)> {
        let name = |subject: &Subject| match subject {
            Subject::Table(name) | Subject::View(name) | Subject::Sequence(name) => Some(name.clone()),
            Subject::ForeignKey { table, .. } | Subject::Default { table, .. } | Subject::Column { table, .. } => {
                Some(table.clone())
            }
            Subject::Index(_) | Subject::Type(_) => None,
        };
        self.subjects.iter().filter_map(name).map(|name| (name, LockMode::AccessExclusive)).collect()
    }

    /// Tables that go.
    pub fn tables<'c>(&self, catalog: &'c Catalog) -> impl Iterator<Item = &'c Arc<Table>> {
        let of = move |subject: &Subject| match subject {
            Subject::Table(name) => catalog.get(name),
            _ => None,
        };
        self.subjects.iter().filter_map(of)
    }

    /// Tables that stay and lose an index or a column.
    pub fn tables_losing(&self, catalog: &Catalog) -> Vec<String> {
        let of = |subject: &Subject| match subject {
            Subject::Index(name) => catalog.index(name).map(|(table, _)| table.name.clone()),
            _ => None,
        };
        self.subjects.iter().filter_map(of).chain(self.columns().into_keys().map(str::to_owned)).collect()
    }

    /// Columns that go of tables that stay, by table.
    pub fn columns(&self) -> BTreeMap<&str, Vec<String>> {
        let mut columns: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for subject in &self.subjects {
            if let Subject::Column { table, name } = subject
                && !self.subjects.contains(&Subject::Table(table.clone()))
            {
                columns.entry(table).or_default().push(name.clone());
            }
        }
        columns
    }

    /// Types that go.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.subjects.iter().filter_map(|subject| match subject {
            Subject::Type(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Leaves out what the statement itself names, and what belongs to a table that goes.
    pub fn settle(&mut self) {
        let found = std::mem::take(&mut self.found);
        let of_table = |table: &String| self.subjects.contains(&Subject::Table(table.clone()));
        self.dependents = found
            .into_iter()
            .filter(|(subject, _)| match subject {
                None => true,
                Some(
                    Subject::ForeignKey { table, .. } | Subject::Default { table, .. } | Subject::Column { table, .. },
                ) => !of_table(table),
                Some(subject) => !self.named.contains(subject),
            })
            .map(|(_, text)| text)
            .collect();
    }

    /// Takes all of it away but for the columns.
    pub fn carry_out(&self, writer: &mut Writer<'_>) -> Result<()> {
        for subject in &self.subjects {
            match subject {
                Subject::Table(name) => {
                    if let Some(table) = writer.catalog.remove(name) {
                        free_table(writer, &table)?;
                    }
                }
                Subject::View(name) => drop(writer.catalog.remove_view(name)),
                Subject::Sequence(name) => drop(writer.catalog.remove_sequence(name)),
                Subject::Index(name) => drop_index(writer, name)?,
                Subject::ForeignKey { table, name } => {
                    change(&mut writer.catalog, table, |table| table.foreign_keys.retain(|key| key.name != *name));
                }
                Subject::Default { table, column } => {
                    change(&mut writer.catalog, table, |table| table.details[*column].default = None);
                }
                Subject::Column { .. } => {}
                Subject::Type(name) => drop(writer.catalog.remove_enum_type(name)),
            }
        }
        for schema in &self.schemas {
            writer.catalog.remove_schema(schema);
        }
        Ok(())
    }
}

/// What cannot be without something that goes, and why, in words; what belongs to that needs none.
fn needing(catalog: &Catalog, subject: &Subject) -> Vec<(Subject, Option<String>)> {
    let views = |name| views_of(catalog, name).map(|view| Subject::View(view.name.clone()));
    let (mut owned, mut dependents) = (Vec::new(), Vec::new());
    match subject {
        Subject::Table(name) => {
            let Some(table) = catalog.get(name) else { return Vec::new() };
            owned.extend(catalog.owned_sequences(table.id).map(|owned| Subject::Sequence(owned.name.clone())));
            dependents.extend(views(name));
            let keys = catalog.referencing(table.id).filter(|(other, _)| other.id != table.id);
            dependents.extend(
                keys.map(|(other, key)| Subject::ForeignKey { table: other.name.clone(), name: key.name.clone() }),
            );
        }
        Subject::View(name) => dependents.extend(views(name)),
        Subject::Sequence(name) => {
            let drawing = catalog.sequence(name).into_iter().flat_map(|sequence| columns_drawing(catalog, sequence));
            dependents.extend(drawing.map(|(table, column)| Subject::Default { table: table.name.clone(), column }));
        }
        Subject::Index(name) => {
            if let Some((table, position)) = catalog.index(name) {
                dependents.extend(keys_resting_on(catalog, table, position));
            }
        }
        Subject::Column { table, name } => {
            let Some((table, at)) = catalog.get(table).and_then(|table| Some((table, table.column(name)?))) else {
                return Vec::new();
            };
            let id = table.details[at].id;
            dependents.extend(views_using(catalog, table.id, id).map(|view| Subject::View(view.name.clone())));
            let keys = catalog.referencing(table.id).filter(|(_, key)| key.referenced.contains(&id));
            dependents.extend(
                keys.map(|(other, key)| Subject::ForeignKey { table: other.name.clone(), name: key.name.clone() }),
            );
        }
        Subject::Type(name) => {
            let Some(of) = catalog.enum_type(name) else { return Vec::new() };
            let column = |(table, at): (&Arc<Table>, usize)| Subject::Column {
                table: table.name.clone(),
                name: table.columns[at].name.clone(),
            };
            dependents.extend(columns_of_type(catalog, of.id).map(column));
            dependents.extend(views_of_type(catalog, of).map(|view| Subject::View(view.name.clone())));
        }
        Subject::ForeignKey { .. } | Subject::Default { .. } => {}
    }
    let because = |dependent: Subject| {
        let reason = format!("{} depends on {}", dependent.shown(), subject.shown());
        (dependent, Some(reason))
    };
    owned.into_iter().map(|owned| (owned, None)).chain(dependents.into_iter().map(because)).collect()
}

/// Changes a table, if it is there still.
pub fn change(catalog: &mut Catalog, name: &str, change: impl FnOnce(&mut Table)) {
    if let Some(table) = catalog.get(name) {
        let mut table = Table::clone(table);
        change(&mut table);
        catalog.put(table);
    }
}

/// Foreign keys that would refer to columns that are unique no more, were the index not there.
fn keys_resting_on(catalog: &Catalog, table: &Table, index: usize) -> Vec<Subject> {
    let mut without = table.clone();
    without.indexes.remove(index);
    keys_lost(catalog, table.id, &without)
}

/// Foreign keys that refer to columns of a table that are not unique in what is to become of it.
pub fn keys_lost(catalog: &Catalog, table: TableId, after: &Table) -> Vec<Subject> {
    let lost = |referenced: &[u32]| match referenced.iter().map(|id| after.position_of(*id)).collect::<Option<Vec<_>>>()
    {
        Some(columns) => !after.is_unique_by(&columns),
        None => true,
    };
    catalog
        .referencing(table)
        .filter(|(_, key)| lost(&key.referenced))
        .map(|(other, key)| Subject::ForeignKey { table: other.name.clone(), name: key.name.clone() })
        .collect()
}

fn drop_index(writer: &mut Writer<'_>, name: &str) -> Result<()> {
    let Some((table, position)) = writer.catalog.index(name) else { return Ok(()) };
    let mut table = Table::clone(table);
    let index = table.indexes.remove(position);
    writer.free_tree(&index.root)?;
    writer.catalog.put(table);
    Ok(())
}
