//! Trees and segments of tables: built, emptied, and given back.

use saki_tree::TreeRoot;

use saki_catalog::{Catalog, EntryDecoder, EntryEncoder, Result, StoredColumns, Table};
use saki_store::Writer;
use saki_store::load::build_index;

/// Rows after which a build looks whether it is still wanted.
const ROWS_BETWEEN_CHECKS: u64 = 4096;

/// Builds an index from the rows that are there.
pub fn index_rows(writer: &mut Writer<'_>, table: &Table, index: usize) -> Result<TreeRoot> {
    let mut sorter = writer.trees().sorter(writer.db.options.load_memory_bytes / 2);
    let mut decoder = EntryDecoder::new(table.primary_layout());
    let mut encoder = EntryEncoder::new(table.index_layout(&table.indexes[index]));
    let stop = writer.stop.clone();
    let mut entries = writer.reader().scan(&table.root);
    for count in 0_u64.. {
        if count.is_multiple_of(ROWS_BETWEEN_CHECKS) {
            stop.check()?;
        }
        let Some((key, row)) = entries.next()? else { break };
        decoder.decode(table, key, row, |values| encoder.encode(&mut Vec::new(), |column| values[column]))??;
        sorter.push(&encoder.key, &encoder.row)?;
    }
    build_index(writer.trees(), table, index, sorter)
}

/// Gives all trees and segments of a table back.
pub fn free_table(writer: &mut Writer<'_>, table: &Table) -> Result<()> {
    writer.free_tree(&table.root)?;
    for index in &table.indexes {
        writer.free_tree(&index.root)?;
    }
    if let Some(root) = &table.segments {
        writer.free_segments(table, root)?;
    }
    Ok(())
}

/// Gives a table new trees without entries; the old ones are to be given back by who has the table as it was.
pub fn clear_table(catalog: &Catalog, table: &mut Table) {
    table.clear(catalog);
    table.next_row_id = 0;
    // No row lacks a column.
    table.stored = StoredColumns::default();
}
