//! The primary tree: changes go in chunk by chunk, and what they met goes on to indexes and segments.

use std::sync::Arc;

use saki_tree::{TreeReader, TreeRoot};

use super::chunk::{Changes, Chunk};
use super::pace::Pacer;
use super::rules::{OnDuplicate, Rules};
use super::thread::Totals;
use super::unique::duplicate;
use crate::writer::Trees;
use saki_catalog::{Result, Table};

/// A primary tree after its changes.
pub struct Primary {
    pub root: TreeRoot,
    pub totals: Totals,
}

/// Applies chunks to a table's primary tree. `pass` takes each on, and tells whether anybody wants more.
pub fn merge_primary(
    trees: Trees<'_>,
    table: &Table,
    rules: Rules,
    pacer: &Pacer,
    reader: &mut TreeReader,
    input: impl IntoIterator<Item = Changes>,
    pass: &mut dyn FnMut(Arc<Chunk>) -> bool,
) -> Result<Primary> {
    let mut primary = Primary { root: table.root, totals: Totals::default() };
    let mut pages = trees.pages();
    for changes in input {
        trees.stop.check()?;
        pacer.begin();
        let mut chunk = Chunk::new(changes);
        let mut refused: Option<Vec<u8>> = None;
        let applied = chunk.apply(reader, &mut pages, &primary.root, |(key, new), old| {
            pacer.step();
            match rules.on_duplicate {
                OnDuplicate::Refuse => {
                    refused.get_or_insert_with(|| key.to_vec());
                    true
                }
                OnDuplicate::Replace => new == Some(old),
            }
        })?;
        if let Some(key) = refused {
            return Err(duplicate(table, &table.primary_layout(), &key));
        }
        trees.free(&applied.freed);
        primary.root = applied.root;
        primary.totals.rows += chunk.len() as u64;
        primary.totals.inserted += applied.inserted;
        primary.totals.updated += applied.replaced;
        primary.totals.deleted += applied.removed;
        primary.totals.pages_read += applied.freed.len() as u64;
        if !pass(Arc::new(chunk)) {
            break;
        }
    }
    primary.totals.pages_written = pages.pages();
    pages.finish()?;
    Ok(primary)
}
