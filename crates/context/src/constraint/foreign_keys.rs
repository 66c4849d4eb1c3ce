//! Foreign keys of one table, both ways: what its rows refer to, and what refers to its rows.
//!
//! Look-ups go through [`Keys`], which a transaction answers with what it sees, its own changes included. Checks belong
//! at the end of the statement: a row may refer to one that the same statement puts in. Those of deferrable keys may be
//! left to the end of the transaction; actions may not.

use std::sync::Arc;

use saki_base::{DataType, Value, ValueRef};

use saki_catalog::columns::shown;
use saki_catalog::{Catalog, Deferral, ForeignKey, KeyId, ReferentialAction, Result, SqlError, Table};

/// Look-ups by the values of columns; none of them is NULL, and each is of its column's type.
pub trait Keys {
    /// Whether a table has a row with these values; columns are the primary key's or a unique index's, in any order. A
    /// transaction must fail if the row has gone when it commits.
    fn exists(&mut self, table: &Arc<Table>, columns: &[usize], values: &[Value]) -> Result<bool>;

    /// All rows of a table with these values, whole.
    fn rows(&mut self, table: &Arc<Table>, columns: &[usize], values: &[Value]) -> Result<Vec<Vec<Value>>>;
}

/// The foreign keys that a table has, and those that refer to it.
pub struct ForeignKeys {
    outgoing: Vec<Reference>,
    incoming: Vec<Reference>,
}

/// One foreign key with both of its tables.
#[derive(Clone, Debug)]
pub struct Reference {
    name: String,
    /// What it is known by while its checks wait; `None`: they never do.
    deferrable: Option<Deferrable>,
    from: Arc<Table>,
    columns: Vec<usize>,
    to: Arc<Table>,
    referenced: Vec<usize>,
    on_delete: ReferentialAction,
    on_update: ReferentialAction,
}

/// What a change of a row has to bring about, beside itself.
#[derive(Debug)]
pub enum Consequence {
    /// A row that referred to it goes.
    Delete { table: Arc<Table>, row: Vec<Value> },
    /// Columns of a row that referred to it change.
    Update { table: Arc<Table>, row: Vec<Value>, set: Vec<(usize, NewValue)> },
    /// To be [verified](Verification::verify) when the statement has done all else.
    Verify(Verification),
}

/// A column's value after a referential action.
#[derive(Clone, PartialEq, Debug)]
pub enum NewValue {
    Value(Value),
    /// The column's DEFAULT.
    Default,
}

/// A key that is gone, and must not be missed.
#[derive(Debug)]
pub struct Verification {
    reference: Reference,
    /// In the types of the referenced columns, and of the referencing ones.
    key: Vec<Value>,
    values: Vec<Value>,
    /// It belongs to an action, which waits for nothing.
    is_of_action: bool,
}

impl ForeignKeys {
    /// The foreign keys of a table in its catalog.
    pub fn new(catalog: &Catalog, table: &Arc<Table>) -> Result<Self> {
        let reference = |from: &Arc<Table>, key: &ForeignKey| Reference::new(catalog, from, key);
        Ok(Self {
            outgoing: table.foreign_keys.iter().map(|key| reference(table, key)).collect::<Result<_>>()?,
            incoming: catalog.referencing(table.id).map(|(from, key)| reference(from, key)).collect::<Result<_>>()?,
        })
    }

    /// Whether a change of the table's rows needs nothing of this.
    pub fn is_empty(&self) -> bool {
        self.outgoing.is_empty() && self.incoming.is_empty()
    }

    /// The keys by which the table's rows refer to others.
    pub fn outgoing(&self) -> &[Reference] {
        &self.outgoing
    }

    /// The keys that refer to the table, in the order in which they act. What one of them brings about has to be done
    /// before the next is asked: both may concern the same row.
    pub fn incoming(&self) -> &[Reference] {
        &self.incoming
    }
}

impl Reference {
    fn new(catalog: &Catalog, from: &Arc<Table>, key: &ForeignKey) -> Result<Self> {
        let (to, referenced) = catalog.referenced(key)?;
        Ok(Self {
            name: key.name.clone(),
            deferrable: key.deferral.is_deferrable().then(|| (Arc::new(key.id(from)), key.deferral)),
            from: Arc::clone(from),
            columns: key.columns.clone(),
            to: Arc::clone(to),
            referenced,
            on_delete: key.on_delete,
            on_update: key.on_update,
        })
    }

    /// A foreign key as it is now; `None`: it has gone.
    ///
    /// # Errors
    /// Of a catalog that is damaged.
    pub fn find(catalog: &Catalog, id: &KeyId) -> Result<Option<Self>> {
        catalog.foreign_key(id).map(|(from, key)| Self::new(catalog, from, key)).transpose()
    }

    /// What it is known by, and when it is checked, if that may be said.
    pub fn deferrable(&self) -> Option<&Deferrable> {
        self.deferrable.as_ref()
    }

    /// The table that refers.
    pub fn from(&self) -> &Arc<Table> {
        &self.from
    }

    /// What a row refers to; `None`: nothing, since one of the values is NULL.
    pub fn values(&self, row: &[Value]) -> Option<Vec<Value>> {
        key_of(row, &self.columns)
    }

    /// Checks that what a row refers to is there.
    ///
    /// # Errors
    /// 23503 with the key that is missing.
    pub fn check(&self, row: &[Value], keys: &mut dyn Keys) -> Result<()> {
        let Some(values) = self.values(row) else { return Ok(()) };
        let there = match convert(&values, &self.from, &self.columns, &self.to, &self.referenced) {
            Some(key) => keys.exists(&self.to, &self.referenced, &key)?,
            None => false,
        };
        if there { Ok(()) } else { Err(self.missing(&values)) }
    }

    /// What is to be verified of a key that has gone; `None`: no row can have it.
    pub fn gone(self, key: &[Value]) -> Option<Verification> {
        let values = convert(key, &self.to, &self.referenced, &self.from, &self.columns)?;
        Some(Verification { reference: self, key: key.to_vec(), values, is_of_action: false })
    }

    /// What follows from the going (`new`: `None`) or changing of a row that may be referred to.
    ///
    /// # Errors
    /// 23503 where a RESTRICT stands against it.
    pub fn consequences(&self, old: &[Value], new: Option<&[Value]>, keys: &mut dyn Keys) -> Result<Vec<Consequence>> {
        let Some(key) = key_of(old, &self.referenced) else { return Ok(Vec::new()) };
        let new_key = new.map(|new| self.referenced.iter().map(|at| new[*at].clone()).collect::<Vec<_>>());
        if new_key.as_ref() == Some(&key) {
            return Ok(Vec::new());
        }
        let Some(values) = convert(&key, &self.to, &self.referenced, &self.from, &self.columns) else {
            // No row can have it.
            return Ok(Vec::new());
        };
        let action = if new.is_some() { self.on_update } else { self.on_delete };
        let mut consequences = Vec::new();
        if action != ReferentialAction::NoAction {
            for row in keys.rows(&self.from, &self.columns, &values)? {
                // A row that refers to itself goes with itself.
                if new.is_none() && self.from.id == self.to.id && row == old {
                    continue;
                }
                consequences.push(self.follow(action, &key, new_key.as_deref(), row)?);
            }
        }
        // The default may be the very key that has gone.
        if matches!(action, ReferentialAction::NoAction | ReferentialAction::SetDefault) {
            let (reference, is_of_action) = (self.clone(), action != ReferentialAction::NoAction);
            consequences.push(Consequence::Verify(Verification { reference, key, values, is_of_action }));
        }
        Ok(consequences)
    }

    /// What becomes of a referencing row.
    fn follow(
        &self,
        action: ReferentialAction,
        key: &[Value],
        new_key: Option<&[Value]>,
        row: Vec<Value>,
    ) -> Result<Consequence> {
        let table = Arc::clone(&self.from);
        let all = |value: NewValue| self.columns.iter().map(|column| (*column, value.clone())).collect();
        let set = match (action, new_key) {
            (ReferentialAction::NoAction | ReferentialAction::Restrict, _) => return Err(self.referenced_still(key)),
            (ReferentialAction::SetNull, _) => all(NewValue::Value(Value::Null)),
            (ReferentialAction::SetDefault, _) => all(NewValue::Default),
            (ReferentialAction::Cascade, None) => return Ok(Consequence::Delete { table, row }),
            (ReferentialAction::Cascade, Some(new_key)) => {
                let mut set = Vec::with_capacity(self.columns.len());
                for ((column, referenced), value) in self.columns.iter().zip(&self.referenced).zip(new_key) {
                    let (from, to) = (self.to.columns[*referenced].data_type, self.from.columns[*column].data_type);
                    let value = converted(value, from, to).ok_or_else(|| {
                        let name = &self.from.columns[*column].name;
                        SqlError::data(format!(
                            "{} is out of range for column {name:?} of type {to}",
                            show(value, from)
                        ))
                        .code("22003")
                    })?;
                    set.push((*column, NewValue::Value(value)));
                }
                set
            }
        };
        Ok(Consequence::Update { table, row, set })
    }

    fn missing(&self, values: &[Value]) -> SqlError {
        SqlError::constraint(format!(
            "insert or update on table {:?} violates foreign key constraint {:?}",
            self.from.bare_name(),
            self.name
        ))
        .code("23503")
        .detail(format!(
            "{} is not present in table {:?}.",
            described(&self.from, &self.columns, values),
            self.to.bare_name()
        ))
        .of_constraint(&self.from, &self.name)
    }

    fn referenced_still(&self, key: &[Value]) -> SqlError {
        SqlError::constraint(format!(
            "update or delete on table {:?} violates foreign key constraint {:?} on table {:?}",
            self.to.bare_name(),
            self.name,
            self.from.bare_name()
        ))
        .code("23503")
        .detail(format!(
            "{} is still referenced from table {:?}.",
            described(&self.to, &self.referenced, key),
            self.from.bare_name()
        ))
        .of_constraint(&self.from, &self.name)
    }
}

/// A foreign key that may wait, and when it does.
pub type Deferrable = (Arc<KeyId>, Deferral);

impl Verification {
    /// The key that has gone, if whether it is missed may be asked later.
    pub fn deferrable(&self) -> Option<(&Deferrable, &[Value])> {
        let deferrable = self.reference.deferrable().filter(|_| !self.is_of_action)?;
        Some((deferrable, &self.key[..]))
    }

    /// Checks that no row refers to the key, or that it is there again.
    ///
    /// # Errors
    /// 23503 with the key.
    pub fn verify(&self, keys: &mut dyn Keys) -> Result<()> {
        let Reference { from, columns, to, referenced, .. } = &self.reference;
        if keys.rows(from, columns, &self.values)?.is_empty() || keys.exists(to, referenced, &self.key)? {
            return Ok(());
        }
        Err(self.reference.referenced_still(&self.key))
    }
}

/// The values of columns; `None`: one of them is NULL, so they refer to nothing.
fn key_of(row: &[Value], columns: &[usize]) -> Option<Vec<Value>> {
    columns.iter().map(|column| Some(row[*column].clone()).filter(|value| *value != Value::Null)).collect()
}

/// Values of one table's columns in the types of another's; `None`: a value is none of that type.
fn convert(values: &[Value], from: &Table, columns: &[usize], to: &Table, others: &[usize]) -> Option<Vec<Value>> {
    let types = columns.iter().zip(others).map(|(a, b)| (from.columns[*a].data_type, to.columns[*b].data_type));
    values.iter().zip(types).map(|(value, (from, to))| converted(value, from, to)).collect()
}

fn converted(value: &Value, from: DataType, to: DataType) -> Option<Value> {
    if from == to || *value == Value::Null {
        return Some(value.clone());
    }
    let parsed = spelled_as(value, from, to)?;
    // Digits that were cut off made another value of it.
    (spelled_as(&parsed, to, from)? == *value).then_some(parsed)
}

/// A value read from its text as one of another type.
fn spelled_as(value: &Value, from: DataType, to: DataType) -> Option<Value> {
    let text = saki_base::display(value.as_ref(), from).to_string();
    // `1.00` is the integer 1: zeros behind the point say nothing.
    let is_whole = matches!(to, DataType::Int2 | DataType::Int4 | DataType::Int8) && text.contains('.');
    let text = if is_whole { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    Value::parse(to, text).ok()
}

fn described(table: &Table, columns: &[usize], values: &[Value]) -> String {
    let show = |(column, value): (&usize, &Value)| show(value, table.columns[*column].data_type);
    let values: Vec<String> = columns.iter().zip(values).map(show).collect();
    format!("Key ({})=({})", table.names(columns), values.join(", "))
}

fn show(value: &Value, data_type: DataType) -> String {
    let value: ValueRef<'_> = value.as_ref();
    shown(value, data_type)
}
