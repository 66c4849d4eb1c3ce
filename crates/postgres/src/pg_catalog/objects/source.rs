//! What the catalog says of columns, constraints and sequences, in the letters and words of PostgreSQL's relations.

use std::sync::Arc;

use crate::statement::{columns_named, parse_expression};
use saki_catalog::{Catalog, Check, ForeignKey, Identity, ReferentialAction, Sequence, Table};
use saki_store::Generation;

/// A column besides its name and type.
#[derive(Clone, Debug, Default)]
pub struct ColumnExtras {
    /// SQL text of its DEFAULT.
    pub default: Option<String>,
    /// `a` for GENERATED ALWAYS AS IDENTITY, `d` for BY DEFAULT.
    pub identity: Option<char>,
    pub comment: Option<String>,
}

/// What a foreign key refers to; columns are positions.
#[derive(Clone, Debug)]
pub struct Referenced {
    /// Id of the table.
    pub table: u32,
    pub columns: Vec<usize>,
    /// `a` no action, `r` restrict, `c` cascade, `n` set null, `d` set default.
    pub on_delete: char,
    pub on_update: char,
}

/// A sequence, and the column that it belongs to: id of a table, and a position.
#[derive(Clone, Debug)]
pub struct OwnedSequence {
    pub sequence: Arc<Sequence>,
    pub owner: Option<(u32, usize)>,
}

pub fn column_extras(table: &Table, column: usize) -> ColumnExtras {
    let Some(detail) = table.details.get(column) else { return ColumnExtras::default() };
    ColumnExtras {
        default: detail.default.as_deref().map(default_shown),
        identity: detail.identity.map(|identity| match identity {
            Identity::Always => 'a',
            Identity::ByDefault => 'd',
        }),
        comment: detail.comment.clone(),
    }
}

/// A DEFAULT as PostgreSQL shows it: names of sequences are of type `regclass`, which clients look for.
fn default_shown(text: &str) -> String {
    let sequence = text.strip_prefix("nextval(").and_then(|rest| rest.strip_suffix(')'));
    match sequence.filter(|name| name.starts_with('\'') && name.ends_with('\'')) {
        Some(name) => format!("nextval({name}::regclass)"),
        None => text.to_owned(),
    }
}

/// Positions of the columns that a check is about; none if its text cannot be read.
pub fn checked_columns(table: &Table, check: &Check) -> Vec<usize> {
    let mut columns = parse_expression(&check.expression).map_or_else(|_| Vec::new(), |e| columns_named(table, &e));
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// `None`: it refers to nothing, which a whole catalog does not have.
pub fn referenced(catalog: &Catalog, key: &ForeignKey) -> Option<Referenced> {
    let (table, columns) = catalog.referenced(key).ok()?;
    let [on_delete, on_update] = [key.on_delete, key.on_update].map(letter);
    Some(Referenced { table: table.id.0, columns, on_delete, on_update })
}

fn letter(action: ReferentialAction) -> char {
    match action {
        ReferentialAction::NoAction => 'a',
        ReferentialAction::Restrict => 'r',
        ReferentialAction::Cascade => 'c',
        ReferentialAction::SetNull => 'n',
        ReferentialAction::SetDefault => 'd',
    }
}

pub fn owned(catalog: &Catalog, sequence: &Arc<Sequence>) -> OwnedSequence {
    let owner = sequence.owner.and_then(|owner| {
        let column = catalog.table_of(owner.table)?.position_of(owner.column)?;
        Some((owner.table.0, column))
    });
    OwnedSequence { sequence: Arc::clone(sequence), owner }
}

/// Rows of a table, and bytes of its primary tree.
pub fn size(table: &Table, page_bytes: usize) -> (u64, u64) {
    (table.root.entries, bytes(&table.root, page_bytes))
}

/// Bytes of the pages of a tree.
pub fn bytes(root: &saki_tree::TreeRoot, page_bytes: usize) -> u64 {
    (root.leaf_pages + root.inner_pages + root.overflow_pages) * page_bytes as u64
}

/// Rows of a table's delta and their bytes, about. A row that is in the base as well, or deleted there, counts.
pub fn delta_size(generation: &Generation, table: &Table) -> (u64, u64) {
    generation.delta(table).map_or((0, 0), |delta| (delta.rows(), delta.bytes()))
}
