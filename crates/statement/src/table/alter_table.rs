//! ALTER TABLE: its actions, and those of ALTER SEQUENCE and ALTER VIEW, which are read as such.

use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, DropBehavior, Expr, ForeignKeyConstraint, GeneratedAs, ObjectName,
    RenameTableNameKind, TableConstraint,
};
use saki_base::{Column, DataType};

use super::column::{Generated, NewColumn};
use super::constraint::{ColumnName, NewConstraint, deferral};
use super::table_options::TableOptions;
use crate::sequence::SequenceOptions;
use crate::types::storage_type;
use crate::{RelationName, name_of};
use saki_catalog::{Deferral, Hidden, Identity, Index, Result, SqlError};

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
    /// CREATE INDEX over hidden columns, which come to be behind all others.
    AddIndex {
        index: Box<Index>,
        hidden: Vec<(Column, Hidden)>,
    },
    DropConstraint {
        name: ColumnName,
        if_exists: bool,
        cascade: bool,
    },
    RenameConstraint {
        name: ColumnName,
        to: ColumnName,
    },
    /// When a foreign key is checked.
    AlterConstraint {
        name: ColumnName,
        deferral: Deferral,
    },
    SetOptions(TableOptions),
    /// ALTER SEQUENCE.
    SetSequence(SequenceOptions),
    /// What has no meaning here.
    Nothing,
}

impl Action {
    /// Whether it changes nothing but names.
    pub fn is_renaming(&self) -> bool {
        matches!(self, Self::Rename(_) | Self::RenameColumn { .. } | Self::RenameConstraint { .. } | Self::Nothing)
    }
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
        // A key of no columns is one that is there: see `utility::constraints`.
        Sql::AddConstraint {
            constraint:
                TableConstraint::ForeignKey(ForeignKeyConstraint { name: Some(name), columns, characteristics, .. }),
            ..
        } if columns.is_empty() => {
            Action::AlterConstraint { name: ColumnName::of(name), deferral: deferral(characteristics.as_ref())? }
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
            let ident = part.as_ident().map(|ident| (name_of(ident), crate::position_of(ident)));
            let (name, position) = ident.unwrap_or_default();
            Ok(ColumnName { name, position })
        }
        _ => {
            Err(SqlError::invalid(format!("{} stays in its schema: its new name is one word", relation.name))
                .code("42601"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{check, code, parsed};

    fn read_text(sql: &str) -> Result<AlterTable> {
        match parsed(sql) {
            ast::Statement::AlterTable(alter) => AlterTable::read(&alter),
            other => panic!("{other} is no ALTER TABLE"),
        }
    }

    fn flags(flags: &[(bool, &str)]) -> String {
        flags.iter().filter(|(is, _)| *is).map(|(_, word)| format!(" {word}")).collect()
    }

    fn shown_action(action: &Action) -> String {
        match action {
            Action::AddColumn { column: new, if_not_exists } => {
                let more = [(!new.column.nullable, "not null"), (*if_not_exists, "unless there")];
                format!("add {} {}{}", new.column.name, new.column.data_type, flags(&more))
            }
            Action::DropColumn { column, if_exists, cascade } => {
                format!("drop {}{}", column.name, flags(&[(*if_exists, "if there"), (*cascade, "cascade")]))
            }
            Action::RenameColumn { column, to } => format!("rename {} to {}", column.name, to.name),
            Action::Rename(to) => format!("rename to {}", to.name),
            Action::SetDefault(column, value) => format!("default of {} {value}", column.name),
            Action::DropDefault(column) => format!("no default of {}", column.name),
            Action::SetNotNull(column) => format!("not null {}", column.name),
            Action::DropNotNull(column) => format!("null {}", column.name),
            Action::SetType { column, data_type, using } => match using {
                Some(using) => format!("{} is {data_type} by {using}", column.name),
                None => format!("{} is {data_type}", column.name),
            },
            Action::AddIdentity(column, generated) => {
                format!("identity {} {:?} from {:?}", column.name, generated.identity.unwrap(), generated.options.start)
            }
            Action::AddConstraint(constraint) => format!("constraint {:?}", constraint.name.as_deref().unwrap_or("")),
            Action::DropConstraint { name, if_exists, cascade } => {
                format!("drop constraint {}{}", name.name, flags(&[(*if_exists, "if there"), (*cascade, "cascade")]))
            }
            Action::AddIndex { index, .. } => format!("index {}", index.name),
            Action::RenameConstraint { name, to } => format!("rename constraint {} to {}", name.name, to.name),
            Action::AlterConstraint { name, deferral } => format!("constraint {} is{}", name.name, deferral.words()),
            Action::SetOptions(options) => format!("options columns {:?}", options.columns),
            Action::SetSequence(options) => format!("sequence restart {:?}", options.restart),
            Action::Nothing => "nothing".to_owned(),
        }
    }

    fn shown(sql: &str) -> String {
        match read_text(sql) {
            Ok(alter) => {
                let actions = alter.actions.iter().map(shown_action).collect::<Vec<_>>().join("; ");
                format!("{}{}: {actions}", alter.name.name, flags(&[(alter.if_exists, "if there")]))
            }
            Err(error) => code(&error),
        }
    }

    #[test]
    fn columns_come_and_go() {
        check(
            &[
                ("ALTER TABLE t ADD COLUMN a int", "t: add a integer"),
                ("ALTER TABLE t ADD a varchar(3) NOT NULL", "t: add a character varying(3) not null"),
                ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a text", "t: add a text unless there"),
                ("ALTER TABLE t ADD COLUMN \"A b\" bool", "t: add A b boolean"),
                ("ALTER TABLE t ADD COLUMN A serial", "t: add a integer not null"),
                ("ALTER TABLE t DROP COLUMN a", "t: drop a"),
                ("ALTER TABLE t DROP COLUMN IF EXISTS a CASCADE", "t: drop a if there cascade"),
                ("ALTER TABLE t DROP COLUMN a RESTRICT", "t: drop a"),
                ("ALTER TABLE t DROP a", "t: drop a"),
                ("ALTER TABLE t ADD a int, DROP COLUMN b, DROP COLUMN c", "t: add a integer; drop b; drop c"),
            ],
            shown,
        );
    }

    #[test]
    fn columns_change() {
        check(
            &[
                ("ALTER TABLE t ALTER COLUMN a SET NOT NULL", "t: not null a"),
                ("ALTER TABLE t ALTER a DROP NOT NULL", "t: null a"),
                ("ALTER TABLE t ALTER COLUMN a SET DEFAULT 1 + 1", "t: default of a 1 + 1"),
                ("ALTER TABLE t ALTER a SET DEFAULT NULL", "t: default of a NULL"),
                ("ALTER TABLE t ALTER a DROP DEFAULT", "t: no default of a"),
                ("ALTER TABLE t ALTER a TYPE bigint", "t: a is bigint"),
                ("ALTER TABLE t ALTER COLUMN a SET DATA TYPE numeric(5)", "t: a is numeric(5,0)"),
                ("ALTER TABLE t ALTER a TYPE int USING a::int + 1", "t: a is integer by a::INT + 1"),
                (
                    "ALTER TABLE t ALTER a ADD GENERATED ALWAYS AS IDENTITY (START WITH 5)",
                    "t: identity a Always from Some(5)",
                ),
                ("ALTER TABLE t ALTER a ADD GENERATED BY DEFAULT AS IDENTITY", "t: identity a ByDefault from None"),
            ],
            shown,
        );
    }

    #[test]
    fn names_change_within_their_schema() {
        check(
            &[
                ("ALTER TABLE t RENAME COLUMN a TO b", "t: rename a to b"),
                ("ALTER TABLE t RENAME a TO \"B\"", "t: rename a to B"),
                ("ALTER TABLE T RENAME TO U", "t: rename to u"),
                ("ALTER TABLE \"T\" RENAME TO \"U\"", "T: rename to U"),
                ("ALTER TABLE s.t RENAME TO u", "s.t: rename to u"),
                ("ALTER TABLE public.t RENAME TO u", "t: rename to u"),
                ("ALTER TABLE saki.public.t RENAME TO u", "t: rename to u"),
                ("ALTER TABLE t RENAME TO s.u", "42601 at 1:13"),
                ("ALTER TABLE t RENAME CONSTRAINT a TO b", "t: rename constraint a to b"),
                ("ALTER VIEW v RENAME TO w", "v: rename to w"),
                ("ALTER VIEW IF EXISTS v RENAME TO w", "v if there: rename to w"),
                ("ALTER SEQUENCE s RENAME TO r", "s: rename to r"),
            ],
            shown,
        );
    }

    #[test]
    fn constraints_and_options_change() {
        check(
            &[
                ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)", "t: constraint \"c\""),
                ("ALTER TABLE t ADD PRIMARY KEY (a, b)", "t: constraint \"\""),
                ("ALTER TABLE IF EXISTS t ADD UNIQUE (a)", "t if there: constraint \"\""),
                ("ALTER TABLE ONLY t ADD FOREIGN KEY (a) REFERENCES u", "t: constraint \"\""),
                ("ALTER TABLE t DROP CONSTRAINT c", "t: drop constraint c"),
                ("ALTER TABLE t DROP CONSTRAINT IF EXISTS c CASCADE", "t: drop constraint c if there cascade"),
                ("ALTER TABLE t VALIDATE CONSTRAINT c", "t: nothing"),
                ("ALTER TABLE t ALTER CONSTRAINT c DEFERRABLE", "t: constraint c is DEFERRABLE"),
                ("ALTER TABLE t ALTER CONSTRAINT c", "t: constraint c is"),
                (
                    "ALTER TABLE t ALTER CONSTRAINT c INITIALLY DEFERRED, DROP b",
                    "t: constraint c is DEFERRABLE INITIALLY DEFERRED; drop b",
                ),
                ("ALTER TABLE t ALTER CONSTRAINT c NOT DEFERRABLE INITIALLY DEFERRED", "42601 at 1:13"),
                ("ALTER TABLE t SET (columns = on)", "t: options columns Some(true)"),
                ("ALTER TABLE t SET (fillfactor = 70)", "t: options columns None"),
                ("ALTER SEQUENCE s RESTART", "s: sequence restart Some(None)"),
                ("ALTER SEQUENCE IF EXISTS s RESTART WITH 7", "s if there: sequence restart Some(Some(7))"),
            ],
            shown,
        );
    }

    #[test]
    fn what_is_not_supported_is_refused_at_the_tables_name() {
        check(
            &[
                ("ALTER TABLE t ADD CHECK (a > 0) NOT VALID", "0A000 at 1:13"),
                ("ALTER TABLE t DISABLE TRIGGER x", "0A000 at 1:13"),
                ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "0A000 at 1:13"),
                ("ALTER TABLE t\n  ALTER a TYPE xml", "0A000 at 1:13"),
                ("ALTER TABLE\n  other.db.t RENAME TO u", "0A000 at 2:12"),
                ("ALTER TABLE a.b.c.d RENAME TO u", "42601 at 1:19"),
                ("ALTER TABLE t ADD a int DEFAULT 1 DEFAULT 2", "42601 at 1:19"),
                ("ALTER TABLE t SET (nothing = 1)", "0A000 at 1:20"),
                ("ALTER SEQUENCE s INCREMENT 1.5", "22023 at 1:16"),
                ("ALTER SEQUENCE s MAXVALUE 9223372036854775808", "22023 at 1:16"),
            ],
            shown,
        );
    }

    #[test]
    fn a_refused_action_has_a_hint_with_what_may_be_set() {
        let error =
            read_text("ALTER TABLE s.t CLUSTER BY (a)").or_else(|_| read_text("ALTER TABLE s.t DISABLE RULE x"));
        let hint = error.unwrap_err().hint.unwrap();
        assert!(hint.starts_with("ALTER TABLE s.t SET (columns = on | off"), "{hint}");
    }
}
