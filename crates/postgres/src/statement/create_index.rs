//! CREATE [UNIQUE] INDEX [IF NOT EXISTS] name ON table (column [ASC | DESC], …) [INCLUDE (column, …)].

use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, Ident, IndexType};

use super::{RelationName, name_of, object_name, position_of};
use saki_catalog::{IndexColumn, Position, Result, SqlError, Table};
use saki_catalog::{qualified, undefined_column};

/// An index to be made.
#[derive(Debug)]
pub struct NewIndex {
    pub name: String,
    /// Whether the statement says the name.
    pub named: bool,
    pub position: Option<Position>,
    pub if_not_exists: bool,
    pub columns: Vec<IndexColumn>,
    pub unique: bool,
    pub include: Vec<usize>,
}

/// The table a CREATE INDEX is about.
pub fn table_name(create: &CreateIndex) -> Result<(String, Option<Position>)> {
    object_name(&create.table_name)
}

impl NewIndex {
    pub fn read(create: &CreateIndex, table: &Table) -> Result<Self> {
        refuse_other_clauses(create)?;
        let mut columns: Vec<IndexColumn> = Vec::with_capacity(create.columns.len());
        for key in &create.columns {
            let Expr::Identifier(ident) = &key.column.expr else {
                return Err(SqlError::unsupported(format!("an index over {} is not supported", key.column.expr))
                    .hint("index columns"));
            };
            let descending = key.column.options.asc == Some(false);
            // NULLs sort last upwards and first downwards, as PostgreSQL's default has it.
            if key.column.options.nulls_first.is_some_and(|first| first != descending) {
                return Err(SqlError::unsupported("NULLS FIRST and LAST other than the default are not supported")
                    .at(position_of(ident)));
            }
            if key.operator_class.is_some() {
                return Err(SqlError::unsupported("operator classes are not supported").at(position_of(ident)));
            }
            let column = find(table, ident)?;
            if columns.iter().any(|present| present.column == column) {
                return Err(SqlError::invalid(format!("column {:?} is twice in the index", name_of(ident)))
                    .at(position_of(ident)));
            }
            columns.push(IndexColumn { column, descending });
        }
        let mut include = Vec::new();
        for ident in &create.include {
            let column = find(table, ident)?;
            if !include.contains(&column) && !columns.iter().any(|present| present.column == column) {
                include.push(column);
            }
        }
        let (name, position) = match &create.name {
            // An index is in its table's schema.
            Some(name) => {
                let named = RelationName::read(name)?;
                (qualified(&table.schema, named.bare()), named.position)
            }
            None => {
                let columns: Vec<&str> = columns.iter().map(|c| table.column_type(c.column).0).collect();
                (qualified(&table.schema, &format!("{}_{}_idx", table.bare_name(), columns.join("_"))), None)
            }
        };
        let named = create.name.is_some();
        Ok(Self { name, named, position, if_not_exists: create.if_not_exists, columns, unique: create.unique, include })
    }
}

fn find(table: &Table, ident: &Ident) -> Result<usize> {
    let name = name_of(ident);
    table.column(&name).ok_or_else(|| undefined_column(table, &name).at(position_of(ident)))
}

fn refuse_other_clauses(create: &CreateIndex) -> Result<()> {
    // CONCURRENTLY says how much others may wait, and they may read while any index is built.
    let refused = if create.predicate.is_some() {
        "WHERE"
    } else if create.nulls_distinct == Some(false) {
        "NULLS NOT DISTINCT"
    } else if !create.index_options.is_empty() || !create.alter_options.is_empty() {
        "an index option"
    } else if !matches!(create.using, None | Some(IndexType::BTree)) {
        "USING other than btree"
    } else {
        return Ok(());
    };
    Err(SqlError::unsupported(format!("CREATE INDEX: {refused} is not supported")))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;

    use super::*;
    use crate::fixture::{check, code, library, parsed};

    fn created(sql: &str) -> CreateIndex {
        match parsed(sql) {
            Statement::CreateIndex(create) => create,
            other => panic!("{other} makes no index"),
        }
    }

    /// What a statement about the table of books, or the one of orders, makes.
    fn shown(sql: &str) -> String {
        let planner = library();
        let snapshot = planner.database.snapshot();
        let create = created(sql);
        let (name, _) = table_name(&create).unwrap();
        let new = match NewIndex::read(&create, snapshot.catalog.table(&name).unwrap()) {
            Ok(new) => new,
            Err(error) => return code(&error),
        };
        let key = |key: &IndexColumn| format!("{}{}", key.column, if key.descending { " down" } else { "" });
        let keys = new.columns.iter().map(key).collect::<Vec<_>>().join(", ");
        let flags = [(new.unique, " unique"), (new.if_not_exists, " unless there"), (!new.named, " unnamed")];
        let flags: String = flags.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
        format!("{}{flags} on {keys} with {:?}", new.name, new.include)
    }

    #[test]
    fn columns_are_found_by_name_and_kept_in_order() {
        check(
            &[
                ("CREATE INDEX i ON book (title)", "i on 2 with []"),
                ("CREATE INDEX i ON book (title DESC, price ASC)", "i on 2 down, 3 with []"),
                ("CREATE UNIQUE INDEX i ON book (title)", "i unique on 2 with []"),
                ("CREATE INDEX IF NOT EXISTS i ON book (title)", "i unless there on 2 with []"),
                ("CREATE INDEX CONCURRENTLY i ON book (title)", "i on 2 with []"),
                ("CREATE INDEX i ON book USING btree (title)", "i on 2 with []"),
                ("CREATE INDEX i ON book (title) INCLUDE (price, pages)", "i on 2 with [3, 12]"),
                ("CREATE INDEX i ON book (title) INCLUDE (price, price, title)", "i on 2 with [3]"),
                ("CREATE INDEX I ON public.BOOK (Title)", "i on 2 with []"),
                ("CREATE INDEX i ON book (title NULLS LAST)", "i on 2 with []"),
                ("CREATE INDEX i ON book (title DESC NULLS FIRST)", "i on 2 down with []"),
                ("CREATE INDEX i ON book (title) WITH (fillfactor = 70)", "i on 2 with []"),
            ],
            shown,
        );
    }

    #[test]
    fn an_index_without_a_name_is_called_after_its_table_and_columns() {
        check(
            &[
                ("CREATE INDEX ON book (title)", "book_title_idx unnamed on 2 with []"),
                ("CREATE INDEX ON book (title, price)", "book_title_price_idx unnamed on 2, 3 with []"),
                ("CREATE INDEX ON shop.\"Order\" (\"c d\")", "shop.Order_c d_idx unnamed on 2 with []"),
                ("CREATE INDEX i ON shop.\"Order\" (b)", "shop.i on 1 with []"),
            ],
            shown,
        );
    }

    #[test]
    fn what_indexes_cannot_be_here_is_refused_where_it_stands() {
        check(
            &[
                ("CREATE INDEX i ON book (nosuch)", "42703 at 1:25"),
                ("CREATE INDEX i ON book (title) INCLUDE (nosuch)", "42703 at 1:41"),
                ("CREATE INDEX i ON book (lower(title))", "0A000"),
                ("CREATE INDEX i ON book ((price + 1))", "0A000"),
                ("CREATE INDEX i ON book (title NULLS FIRST)", "0A000 at 1:25"),
                ("CREATE INDEX i ON book (title DESC NULLS LAST)", "0A000 at 1:25"),
                ("CREATE INDEX i ON book (title text_pattern_ops)", "0A000 at 1:25"),
                ("CREATE INDEX i ON book (title) WHERE sold", "0A000"),
                ("CREATE INDEX i ON book USING hash (title)", "0A000"),
                ("CREATE UNIQUE INDEX i ON book (title) NULLS NOT DISTINCT", "0A000"),
            ],
            shown,
        );
    }

    #[test]
    fn a_table_in_another_database_is_refused() {
        let error = table_name(&created("CREATE INDEX i ON a.b.c (x)")).unwrap_err();
        assert_eq!(code(&error), "0A000 at 1:23");
    }
}
