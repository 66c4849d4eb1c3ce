//! What the catalog says of columns, constraints and sequences, in the letters and words of PostgreSQL's relations.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Expr;

use saki_catalog::{Catalog, Check, ForeignKey, Identity, Index, ReferentialAction, Sequence, Table};
use saki_statement::{columns_named, name_of, parse_expression};
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

/// What an index is over.
#[derive(Clone, Debug, Default)]
pub struct IndexKeys {
    /// Positions from 1, 0 for an expression, and whether they descend.
    pub keys: Vec<(i64, bool)>,
    pub expressions: Vec<KeyExpression>,
    /// SQL text of the condition.
    pub predicate: Option<String>,
}

/// A key that is an expression.
#[derive(Clone, Debug)]
pub struct KeyExpression {
    /// SQL text, in parentheses unless it is a call.
    pub text: String,
    /// The place of its hidden column in the table.
    pub column: usize,
}

impl IndexKeys {
    /// The expression that a key is, by its place from 0.
    pub fn expression(&self, place: usize) -> Option<&KeyExpression> {
        let before = self.keys.get(..place)?.iter().filter(|(column, _)| *column == 0).count();
        let (column, _) = self.keys.get(place)?;
        self.expressions.get(before).filter(|_| *column == 0)
    }
}

impl KeyExpression {
    /// The text where it stands among other keys.
    pub fn among_keys(&self) -> String {
        if self.text.starts_with('(') { format!("({})", self.text) } else { self.text.clone() }
    }

    /// What the index's own column is called.
    pub fn name(&self) -> &str {
        match self.text.split_once('(') {
            Some((name, _)) if !name.is_empty() => name,
            _ => "expr",
        }
    }
}

pub fn index_keys(table: &Table, index: &Index) -> IndexKeys {
    let mut found = IndexKeys { predicate: index.predicate(table).map(str::to_owned), ..IndexKeys::default() };
    for key in &index.columns {
        let position = match table.hidden(key.column) {
            None => Some(key.column),
            // A column of an index that has a condition.
            Some(hidden) => match parse_expression(&hidden.key) {
                Ok(Expr::Identifier(name)) => table.column(&name_of(&name)),
                _ => None,
            },
        };
        if position.is_none() {
            let text = table.column_type(key.column).0.to_owned();
            found.expressions.push(KeyExpression { text, column: key.column });
        }
        found.keys.push((position.map_or(0, |position| position as i64 + 1), key.descending));
    }
    found
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
