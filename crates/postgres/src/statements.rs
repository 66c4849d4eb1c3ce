//! What statements say over the tables of the fixture, and through the planner.

use datafusion::sql::sqlparser::ast::{CreateIndex, Statement};

use crate::fixture::{check, code, library, parsed, shown};
use saki_catalog::IndexColumn;
use saki_statement::create_index::{NewIndex, table_name};
use saki_statement::{columns_named, parse_expression};

fn created(sql: &str) -> CreateIndex {
    match parsed(sql) {
        Statement::CreateIndex(create) => create,
        other => panic!("{other} makes no index"),
    }
}

/// What a statement about the table of books, or the one of orders, makes.
fn index(sql: &str) -> String {
    let planner = library();
    let generation = planner.database.generation();
    let create = created(sql);
    let (name, _) = table_name(&create).unwrap();
    let new = match NewIndex::read(&create, generation.catalog.table(&name).unwrap()) {
        Ok(new) => new,
        Err(error) => return code(&error),
    };
    let key = |key: &IndexColumn| format!("{}{}", key.column, if key.descending { " down" } else { "" });
    let Some(columns) = new.columns() else { return format!("{} over expressions", new.name) };
    let keys = columns.iter().map(key).collect::<Vec<_>>().join(", ");
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
        index,
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
        index,
    );
}

#[test]
fn expressions_and_conditions_are_told_from_columns() {
    check(
        &[
            ("CREATE INDEX ON book (lower(title))", "book_lower_idx over expressions"),
            ("CREATE INDEX ON book ((price + 1), (price + 2))", "book_expr_expr1_idx over expressions"),
            ("CREATE INDEX ON book (title, LOWER(code))", "book_title_lower_idx over expressions"),
            ("CREATE INDEX ON book ((price::text))", "book_price_idx over expressions"),
            ("CREATE INDEX ON book (title) WHERE sold", "book_title_idx over expressions"),
        ],
        index,
    );
}

#[test]
fn what_indexes_cannot_be_here_is_refused_where_it_stands() {
    check(
        &[
            ("CREATE INDEX i ON book (nosuch)", "42703 at 1:25"),
            ("CREATE INDEX i ON book (title) INCLUDE (nosuch)", "42703 at 1:41"),
            ("CREATE INDEX i ON book (title COLLATE \"C\")", "0A000"),
            ("CREATE INDEX i ON book (title NULLS FIRST)", "0A000 at 1:25"),
            ("CREATE INDEX i ON book (title DESC NULLS LAST)", "0A000 at 1:25"),
            ("CREATE INDEX i ON book (title gin_trgm_ops)", "0A000 at 1:25"),
            ("CREATE INDEX i ON book USING hash (title)", "0A000"),
            ("CREATE UNIQUE INDEX i ON book (title) NULLS NOT DISTINCT", "0A000"),
        ],
        index,
    );
}

#[test]
fn a_table_in_another_database_is_refused() {
    let error = table_name(&created("CREATE INDEX i ON a.b.c (x)")).unwrap_err();
    assert_eq!(code(&error), "0A000 at 1:23");
}

#[test]
fn columns_in_an_expression_are_named_once_in_the_order_they_stand() {
    let planner = library();
    let generation = planner.database.generation();
    let book = generation.catalog.table("book").unwrap();
    let named = |text: &str| format!("{:?}", columns_named(book, &parse_expression(text).unwrap()));
    check(
        &[
            ("price > 0", "[3]"),
            ("price > id AND book.price < 5", "[3, 0]"),
            ("coalesce(title, code) = 'id'", "[2, 4]"),
            ("nosuch = \"PRICE\"", "[]"),
            ("CASE WHEN sold THEN score END IS NULL", "[11, 10]"),
            ("1 + 1 = 2", "[]"),
        ],
        named,
    );
}

#[test]
fn isnull_asks_and_is_a_name_where_it_can_only_be_one() {
    check(
        &[
            ("SELECT 5 ISNULL", "false"),
            ("SELECT NULL ISNULL, (1 isnull) = false", "true|true"),
            ("SELECT count(*) FROM (VALUES (1), (NULL)) AS t(a) WHERE a ISNULL", "1"),
            ("SELECT 5 AS isnull", "5"),
            ("SELECT t.\"isnull\" FROM (VALUES (5)) AS t(\"isnull\")", "5"),
        ],
        shown,
    );
}
