//! Columns becoming a table's: their ids, defaults, and the sequences that belong to them.

use datafusion::sql::sqlparser::ast::Expr;
use saki_base::DataType;

use super::constraint::free_name;
use crate::names::{sequence_drawn, stored_text};
use saki_catalog::{Catalog, ColumnDetail, Result, SequenceOwner, SqlError, Table, nextval, undefined};
use saki_postgres::{Generated, NewColumn, SequenceOptions};

/// Adds a column behind those that statements see, without its constraints.
pub fn add(catalog: &mut Catalog, table: &mut Table, new: &NewColumn) -> Result<()> {
    let id = table.next_column_id;
    let default = match &new.default {
        Some(default) => default_text(catalog, default).map_err(|error| error.at(new.position))?,
        None => None,
    };
    table.next_column_id += 1;
    let position = table.width();
    table.columns.insert(position, new.column.clone());
    table.details.insert(position, ColumnDetail { id, default, ..ColumnDetail::default() });
    // Hidden columns make room; nothing but indexes knows their positions.
    for key in table.indexes.iter_mut().flat_map(|index| &mut index.columns) {
        key.column += usize::from(key.column >= position);
    }
    match &new.generated {
        Some(generated) => add_sequence(catalog, table, position, generated),
        None => Ok(()),
    }
    .map_err(|error| error.at(new.position))
}

/// The text to store; DEFAULT NULL is none. A sequence to draw from has the name that the catalog has for it, by which
/// it is known who draws from it.
///
/// # Errors
/// 42P01 if there is no such sequence, 42809 if it is something else.
pub fn default_text(catalog: &Catalog, expression: &Expr) -> Result<Option<String>> {
    if let Some(sequence) = sequence_drawn(expression) {
        return match (catalog.sequence(&sequence), catalog.kind_of(&sequence)) {
            (Some(_), _) => Ok(Some(nextval(&sequence))),
            (None, None) => Err(undefined(&sequence)),
            (None, Some(_)) => Err(SqlError::invalid(format!("{sequence:?} is not a sequence")).code("42809")),
        };
    }
    let text = stored_text(expression)?;
    Ok((!text.eq_ignore_ascii_case("null")).then_some(text))
}

/// Makes the sequence of a serial or identity column.
pub fn add_sequence(catalog: &mut Catalog, table: &mut Table, position: usize, generated: &Generated) -> Result<()> {
    let column = &table.columns[position];
    let data_type = match column.data_type {
        fits @ (DataType::Int2 | DataType::Int4 | DataType::Int8) => fits,
        other => {
            return Err(SqlError::invalid(format!(
                "identity column type must be smallint, integer, or bigint, not {other}"
            ))
            .code("22023"));
        }
    };
    let base = format!("{}_{}_seq", table.bare_name(), column.name);
    let name = free_name(catalog, table, &table.schema, &base);
    let options = SequenceOptions { data_type: Some(data_type), ..generated.options.clone() };
    let mut sequence = options.create(catalog.new_table_id(), &name, &table.schema)?;
    let detail = &mut table.details[position];
    sequence.owner = Some(SequenceOwner { table: table.id, column: detail.id });
    match generated.identity {
        Some(identity) => detail.identity = Some(identity),
        None => detail.default = Some(nextval(&name)),
    }
    catalog.put_sequence(sequence);
    Ok(())
}
