//! ALTER TABLE: its actions, and those of ALTER SEQUENCE and ALTER VIEW, which are read as such.

use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, DropBehavior, Expr, GeneratedAs, ObjectName, RenameTableNameKind,
};
use saki_base::DataType;

use super::column::{Generated, NewColumn};
use super::constraint::{ColumnName, NewConstraint};
use super::sequence::SequenceOptions;
use super::table_options::TableOptions;
use super::{RelationName, name_of};
use crate::catalog::Identity;
use crate::error::{Result, SqlError};
use crate::types::storage_type;

/// A relation's change.
#[derive(Debug)]
pub struct AlterTable {
    pub name: RelationName,
    pub if_exists: bool,
    pub actions: Vec<Action>,
}

#[derive(Debug)]
pub enum Action {
    AddColumn {
        column: Box<NewColumn>,
        if_not_exists: bool,
    },
    DropColumn {
        column: ColumnName,
        if_exists: bool,
        cascade: bool,
    },
    RenameColumn {
        column: ColumnName,
        to: ColumnName,
    },
    /// To a name in the same schema.
    Rename(ColumnName),
    SetDefault(ColumnName, Box<Expr>),
    DropDefault(ColumnName),
    SetNotNull(ColumnName),
    DropNotNull(ColumnName),
    SetType {
        column: ColumnName,
        data_type: DataType,
        using: Option<Box<Expr>>,
    },
    AddIdentity(ColumnName, Generated),
    AddConstraint(Box<NewConstraint>),
    DropConstraint {
        name: ColumnName,
        if_exists: bool,
        cascade: bool,
    },
    RenameConstraint {
        name: ColumnName,
        to: ColumnName,
    },
    SetOptions(TableOptions),
    /// ALTER SEQUENCE.
    SetSequence(SequenceOptions),
    /// What has no meaning here, such as OWNER TO: there is one owner of everything.
    Nothing,
}

impl AlterTable {
    pub fn read(alter: &ast::AlterTable) -> Result<Self> {
        let name = RelationName::read(&alter.name)?;
        let mut actions = Vec::with_capacity(alter.operations.len());
        for operation in &alter.operations {
            read(operation, &name, &mut actions).map_err(|error| error.at(name.position))?;
        }
        Ok(Self { name, if_exists: alter.if_exists, actions })
    }
}

fn read(operation: &AlterTableOperation, table: &RelationName, actions: &mut Vec<Action>) -> Result<()> {
    use AlterTableOperation as Sql;
    actions.push(match operation {
        Sql::AddColumn { column_def, if_not_exists, .. } => {
            Action::AddColumn { column: Box::new(NewColumn::read(column_def)?), if_not_exists: *if_not_exists }
        }
        Sql::DropColumn { column_names, if_exists, drop_behavior, .. } => {
            let cascade = cascades(drop_behavior.as_ref());
            let drop = |name| Action::DropColumn { column: ColumnName::of(name), if_exists: *if_exists, cascade };
            actions.extend(column_names.iter().map(drop));
            return Ok(());
        }
        Sql::RenameColumn { old_column_name, new_column_name } => {
            Action::RenameColumn { column: ColumnName::of(old_column_name), to: ColumnName::of(new_column_name) }
        }
        Sql::RenameTable { table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name) } => {
            Action::Rename(new_name(name, table)?)
        }
        Sql::AlterColumn { column_name, op } => read_column(ColumnName::of(column_name), op)?,
        Sql::AddConstraint { not_valid: true, .. } => {
            return Err(SqlError::unsupported("NOT VALID is not supported").hint("constraints hold for all rows"));
        }
        Sql::AddConstraint { constraint, .. } => Action::AddConstraint(Box::new(NewConstraint::read(constraint)?)),
        Sql::DropConstraint { if_exists, name, drop_behavior } => Action::DropConstraint {
            name: ColumnName::of(name),
            if_exists: *if_exists,
            cascade: cascades(drop_behavior.as_ref()),
        },
        Sql::RenameConstraint { old_name, new_name } => {
            Action::RenameConstraint { name: ColumnName::of(old_name), to: ColumnName::of(new_name) }
        }
        // All constraints are valid.
        Sql::OwnerTo { .. } | Sql::ValidateConstraint { .. } => Action::Nothing,
        Sql::SetOptionsParens { options } => Action::SetOptions(TableOptions::read(options)?),
        Sql::SetTblProperties { table_properties } => {
            Action::SetSequence(SequenceOptions::read_properties(table_properties)?)
        }
        other => {
            return Err(SqlError::unsupported(format!("ALTER TABLE: {other} is not supported"))
                .hint(format!("ALTER TABLE {} SET (columns = on | off, bloom = 'column, …')", table.name)));
        }
    });
    Ok(())
}

fn read_column(column: ColumnName, operation: &AlterColumnOperation) -> Result<Action> {
    Ok(match operation {
        AlterColumnOperation::SetNotNull => Action::SetNotNull(column),
        AlterColumnOperation::DropNotNull => Action::DropNotNull(column),
        AlterColumnOperation::SetDefault { value } => Action::SetDefault(column, Box::new(value.clone())),
        AlterColumnOperation::DropDefault => Action::DropDefault(column),
        AlterColumnOperation::SetDataType { data_type, using, .. } => {
            Action::SetType { column, data_type: storage_type(data_type)?, using: using.clone().map(Box::new) }
        }
        AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
            let identity = match generated_as {
                Some(GeneratedAs::Always) => Identity::Always,
                None | Some(GeneratedAs::ByDefault) => Identity::ByDefault,
                Some(GeneratedAs::ExpStored) => {
                    return Err(SqlError::unsupported("generated columns are not supported"));
                }
            };
            let options = SequenceOptions::read(sequence_options.iter().flatten())?;
            Action::AddIdentity(column, Generated { identity: Some(identity), options })
        }
    })
}

fn cascades(behavior: Option<&DropBehavior>) -> bool {
    behavior == Some(&DropBehavior::Cascade)
}

/// The new name of a relation that stays in its schema.
pub fn new_name(name: &ObjectName, relation: &RelationName) -> Result<ColumnName> {
    match &name.0[..] {
        [part] if part.as_ident().is_some() => {
            let ident = part.as_ident().map(|ident| (name_of(ident), super::position_of(ident)));
            let (name, position) = ident.unwrap_or_default();
            Ok(ColumnName { name, position })
        }
        _ => {
            Err(SqlError::invalid(format!("{} stays in its schema: its new name is one word", relation.name))
                .code("42601"))
        }
    }
}
