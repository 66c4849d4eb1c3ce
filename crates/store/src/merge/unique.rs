//! Rows that agree where no two may, and the errors that say so.

use saki_catalog::entries::describe_key;
use saki_catalog::{EntryLayout, Result, SqlError, Table};

/// The bytes of a key's first `width` columns.
pub fn unique_prefix<'k>(layout: &EntryLayout, key: &'k [u8], width: usize) -> Result<&'k [u8]> {
    if width == layout.key_columns.len() {
        return Ok(key);
    }
    let end = layout.key.offset(key, width)?;
    Ok(&key[..end])
}

/// The error for two rows with the same primary key.
pub fn duplicate(table: &Table, layout: &EntryLayout, key: &[u8]) -> SqlError {
    there_already(table, &table.primary_key_name(), &describe_key(table, layout, key, layout.key_columns.len()))
        .hint("ON CONFLICT DO NOTHING keeps the row that is there, ON CONFLICT (…) DO UPDATE replaces it")
}

/// The error for two rows with the same columns of a unique index.
pub fn not_unique(table: &Table, index: usize, layout: &EntryLayout, key: &[u8]) -> SqlError {
    let definition = &table.indexes[index];
    there_already(table, definition.bare_name(), &describe_key(table, layout, key, definition.columns.len()))
}

fn there_already(table: &Table, constraint: &str, key: &str) -> SqlError {
    SqlError::constraint(format!("duplicate key value violates unique constraint {constraint:?}"))
        .code("23505")
        .detail(format!("Key {key} already exists."))
        .of_constraint(table, constraint)
}
