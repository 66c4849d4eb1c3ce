//! CREATE SEQUENCE and ALTER SEQUENCE.

use datafusion::sql::sqlparser::ast::{self, ObjectName};

use super::{rename, schema, taken};
use crate::catalog::{Catalog, RelationKind, Sequence, SequenceOwner, undefined, undefined_column};
use crate::database::Database;
use crate::error::{Result, SqlError};
use crate::session::{Session, StatementResult};
use crate::statement::alter_table::{Action, AlterTable};
use crate::statement::sequence::{SequenceOptions, check};
use crate::statement::{RelationName, name_of};
use crate::types::storage_type;

impl Session {
    pub(crate) async fn create_sequence(&self, statement: ast::Statement) -> Result<StatementResult> {
        let ast::Statement::CreateSequence { temporary, if_not_exists, name, data_type, sequence_options, owned_by } =
            statement
        else {
            return Err(SqlError::internal("not CREATE SEQUENCE"));
        };
        if temporary {
            return Err(SqlError::unsupported("CREATE TEMPORARY SEQUENCE is not supported"));
        }
        let name = RelationName::read(&name)?;
        self.refuse_external(&name)?;
        let mut options = SequenceOptions::read(&sequence_options)?;
        options.data_type = data_type.as_ref().map(storage_type).transpose()?;
        options.owned_by = owned_by.map(|column| column.to_string());
        self.blocking(move |db| db.create_sequence(&name, &options, if_not_exists)).await?;
        Ok(StatementResult::done("CREATE SEQUENCE", 0))
    }

    pub(super) async fn alter_sequence(&self, alter: AlterTable) -> Result<()> {
        self.blocking(move |db| db.alter_sequence(&alter)).await
    }
}

impl Database {
    fn create_sequence(&self, name: &RelationName, options: &SequenceOptions, if_not_exists: bool) -> Result<()> {
        self.write(|writer| {
            let catalog = &mut writer.catalog;
            if !catalog.has_schema(&name.schema) {
                return Err(schema::undefined(&name.schema).at(name.position));
            }
            if catalog.kind_of(&name.name).is_some() {
                return if if_not_exists { Ok(()) } else { Err(taken(&name.name).at(name.position)) };
            }
            let mut sequence = options.create(catalog.new_table_id(), &name.name, &name.schema)?;
            set_owner(catalog, &mut sequence, options)?;
            catalog.put_sequence(sequence);
            Ok(())
        })
    }

    fn alter_sequence(&self, alter: &AlterTable) -> Result<()> {
        self.write(|writer| {
            for action in &alter.actions {
                let name = &alter.name;
                let found =
                    writer.catalog.sequence(&name.name).ok_or_else(|| undefined(&name.name).at(name.position))?;
                let sequence = Sequence::clone(found);
                match action {
                    Action::SetSequence(options) => {
                        let position = self.sequences.take(&sequence);
                        let mut sequence = options.change(Sequence { position, ..sequence })?;
                        check(&sequence)?;
                        set_owner(&writer.catalog, &mut sequence, options)?;
                        writer.catalog.put_sequence(sequence);
                    }
                    Action::Rename(to) => {
                        rename::rename_sequence(&mut writer.catalog, &sequence, to)?;
                    }
                    Action::Nothing => {}
                    _ => {
                        return Err(SqlError::invalid(format!("{:?} is not a table", name.name))
                            .code("42809")
                            .at(name.position));
                    }
                }
            }
            Ok(())
        })
    }
}

/// OWNED BY table.column, or by NONE.
fn set_owner(catalog: &Catalog, sequence: &mut Sequence, options: &SequenceOptions) -> Result<()> {
    let Some(owner) = &options.owned_by else { return Ok(()) };
    if owner.eq_ignore_ascii_case("none") {
        sequence.owner = None;
        return Ok(());
    }
    let invalid = || {
        SqlError::invalid("invalid OWNED BY option")
            .code("42601")
            .hint("Specify OWNED BY table.column or OWNED BY NONE.")
    };
    let mut parts = crate::statement::parse_name(owner)?.0;
    let column = parts.pop().and_then(|part| part.as_ident().map(name_of)).ok_or_else(invalid)?;
    if parts.is_empty() {
        return Err(invalid());
    }
    let table = RelationName::read(&ObjectName(parts))?;
    if catalog.kind_of(&table.name) != Some(RelationKind::Table) {
        return Err(undefined(&table.name));
    }
    let table = catalog.table(&table.name)?;
    let position = table.column(&column).ok_or_else(|| undefined_column(table, &column))?;
    sequence.owner = Some(SequenceOwner { table: table.id, column: table.details[position].id });
    Ok(())
}
