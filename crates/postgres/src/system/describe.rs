use crate::fixture::library;

#[test]
fn objects_are_described_as_statements_make_them() {
    library().check(&[
        (
            "select pg_get_indexdef('book_title_idx'::regclass)",
            "CREATE INDEX book_title_idx ON public.book USING btree (title DESC, price) INCLUDE (pages)",
        ),
        (
            "select pg_get_indexdef('book_title_idx'::regclass, 0, true), \
             pg_get_indexdef('book_title_idx'::regclass, 1, false)",
            "CREATE INDEX book_title_idx ON book USING btree (title DESC, price) INCLUDE (pages)|title",
        ),
        (
            "select pg_get_indexdef('book_code_key'::regclass)",
            "CREATE UNIQUE INDEX book_code_key ON public.book USING btree (code)",
        ),
        (
            "select conname, pg_get_constraintdef(oid) from pg_constraint where conrelid = \
             'book'::regclass order by 1",
            "book_author_fkey|FOREIGN KEY (author) REFERENCES author(id) ON UPDATE CASCADE ON DELETE SET NULL\n\
             book_code_key|UNIQUE (code)\n\
             book_pkey|PRIMARY KEY (id)\n\
             book_price_check|CHECK ((price > 0))",
        ),
        (
            "select pg_get_constraintdef(oid, true) from pg_constraint where conname in ('book_price_check', \
             'Order_pkey') order by 1",
            "CHECK (price > 0)\nPRIMARY KEY (b, a)",
        ),
    ]);
}
