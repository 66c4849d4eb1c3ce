//! CREATE SEQUENCE.

use datafusion::sql::sqlparser::ast::{self, ObjectName};

use crate::names::{refuse_external, taken};
use crate::schema::ready;
use saki_catalog::{Catalog, RelationKind, Result, Sequence, SequenceOwner, SqlError};
use saki_catalog::{undefined, undefined_column};
use saki_context::StatementContext;
use saki_context::database::Stoppable;
use saki_context::statement::StatementResult;
use saki_postgres::statement::name_of;
use saki_postgres::types::storage_type;
use saki_postgres::{RelationName, SequenceOptions};

pub async fn create_sequence(cx: &StatementContext<'_>, statement: ast::Statement) -> Result<StatementResult> {
    let ast::Statement::CreateSequence { if_not_exists, name, data_type, sequence_options, owned_by, .. } = statement
    else {
        return Err(SqlError::internal("not CREATE SEQUENCE"));
    };
    let name = RelationName::read(&name)?;
    refuse_external(cx, &name)?;
    let _named = cx.transactions.lock_name(&name.name).await?;
    let mut options = SequenceOptions::read(&sequence_options)?;
    options.data_type = data_type.as_ref().map(storage_type).transpose()?;
    options.owned_by = owned_by.map(|column| column.to_string());
    cx.change_catalog(move |db| publish(db, &name, &options, if_not_exists)).await?;
    Ok(StatementResult::done("CREATE SEQUENCE", 0))
}

fn publish(db: &Stoppable<'_>, name: &RelationName, options: &SequenceOptions, if_not_exists: bool) -> Result<()> {
    db.write(|writer| {
        let catalog = &mut writer.catalog;
        ready(catalog, name)?;
        if catalog.kind_of(&name.name).is_some() {
            return if if_not_exists { Ok(()) } else { Err(taken(&name.name).at(name.position)) };
        }
        let mut sequence = options.create(catalog.new_table_id(), &name.name, &name.schema)?;
        set_owner(catalog, &mut sequence, options)?;
        catalog.put_sequence(sequence);
        Ok(())
    })
}

/// OWNED BY table.column, or by NONE.
pub fn set_owner(catalog: &Catalog, sequence: &mut Sequence, options: &SequenceOptions) -> Result<()> {
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
    let mut parts = saki_postgres::statement::parse_name(owner)?.0;
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
