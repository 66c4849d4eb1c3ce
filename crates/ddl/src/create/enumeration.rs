//! CREATE TYPE … AS ENUM, and the names of such types.
//!
//! # Who may see what, and when
//! - What an enumeration's labels are is the catalog's to say, and nobody else's: a type that is made, changed or
//!   dropped is others' when that is committed, as any change of a catalog, and what is undone has never been. What a
//!   statement reads and writes has the labels of its snapshot, from its beginning to its end. Types and labels that it
//!   spells out are those of the newest catalog when it begins; only a transaction that keeps an older snapshot can
//!   tell, and numbers are what is compared.
//! - Rows have numbers, which never come to mean another label: a label that is added gets a number that no row has,
//!   one that is renamed keeps its own, and none is ever taken away. So rows, their statistics and their indexes know
//!   nothing of labels, and are the same before and after.
//! - Whoever changes a type has it, and the tables with columns of it but for reading, to itself until the transaction
//!   ends: others that change rows there wait, and then see the labels of then. So a number is written only by who
//!   knows its label, and two who add labels do not give them the same number.
//! - A column of a dropped type goes with it. Rows that have it still are read past it: its 8 bytes are known from the
//!   column's own type, which the table keeps, and whose labels nobody asks for.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, UserDefinedTypeRepresentation};

use crate::schema::ready;
use saki_base::Enumeration;
use saki_catalog::{Catalog, EnumType, ErrorKind, Result, SqlError};
use saki_context::StatementContext;
use saki_context::statement::StatementResult;
use saki_context::transaction::Locked;
use saki_parameters::is_temporary;
use saki_postgres::RelationName;

/// Bytes that a label has at most (PostgreSQL's NAMEDATALEN, less one).
const LABEL_BYTES_MAX: usize = 63;

pub async fn create_type(
    cx: &StatementContext<'_>,
    name: &ObjectName,
    representation: Option<&UserDefinedTypeRepresentation>,
) -> Result<StatementResult> {
    let Some(UserDefinedTypeRepresentation::Enum { labels }) = representation else {
        return Err(SqlError::unsupported("CREATE TYPE is supported for enumerations only: AS ENUM (…)"));
    };
    let labels: Vec<String> = labels.iter().map(label).collect::<Result<_>>()?;
    if let Some(twice) = (1..labels.len()).find(|at| labels[..*at].contains(&labels[*at])) {
        let message = format!("enum label \"{}\" used more than once", labels[twice]);
        return Err(SqlError::invalid(message).code("23505"));
    }
    let mut name = RelationName::read(name)?;
    let position = name.position.take();
    if is_temporary(&name.schema) || name.schema == saki_parameters::OWN_TEMPORARY {
        return Err(SqlError::unsupported("types in temporary schemas are not supported").at(position));
    }
    refuse_full()?;
    let _named = lock_type(cx, &name.name).await?;
    cx.change_catalog(move |db| {
        db.write(|writer| {
            let catalog = &mut writer.catalog;
            ready(catalog, &name)?;
            refuse_taken(catalog, &name.schema, &name.name).map_err(|error| error.at(position))?;
            let (id, labels) = (catalog.new_table_id(), EnumType::numbered(labels));
            let RelationName { name, schema, .. } = name;
            catalog.put_enum_type(EnumType { id, name, schema, labels });
            Ok(())
        })
    })
    .await?;
    Ok(StatementResult::done("CREATE TYPE", 0))
}

/// Has a type for the transaction alone, as far as others change it.
///
/// # Errors
/// As [`saki_context::transaction::SessionTransactions::lock_tables`].
pub async fn lock_type(cx: &StatementContext<'_>, name: &str) -> Result<Locked> {
    cx.transactions.lock_name(&format!("type {name}")).await
}

/// Refuses a state more where there are too many.
///
/// # Errors
/// 54000.
pub fn refuse_full() -> Result<()> {
    // Databases that are opened have some, too.
    match Enumeration::numbered(saki_catalog::STATES_MAX / 2).is_none() {
        true => Ok(()),
        false => {
            Err(SqlError::invalid("enumerations have been made or altered too often since the server was started")
                .code("54000")
                .hint("start it again"))
        }
    }
}

/// Refuses the name of a type, or of a table or view, whose rows' type it would be.
///
/// # Errors
/// 42710.
pub fn refuse_taken(catalog: &Catalog, schema: &str, name: &str) -> Result<()> {
    if catalog.enum_type(name).is_none() && catalog.get(name).is_none() && catalog.view(name).is_none() {
        return Ok(());
    }
    let message = format!("type \"{}\" already exists", saki_catalog::bare(schema, name));
    Err(SqlError::invalid(message).code("42710"))
}

/// A label as it is written.
///
/// # Errors
/// 42601 unless it is in single quotes, 42602 if it is too long.
pub fn label(ident: &Ident) -> Result<String> {
    if ident.quote_style != Some('\'') {
        return Err(SqlError::new(ErrorKind::Syntax, format!("syntax error at or near \"{ident}\"")).code("42601"));
    }
    if ident.value.len() > LABEL_BYTES_MAX {
        return Err(SqlError::invalid(format!("invalid enum label \"{}\"", ident.value))
            .code("42602")
            .detail(format!("Labels must be {LABEL_BYTES_MAX} bytes or less.")));
    }
    Ok(ident.value.clone())
}
