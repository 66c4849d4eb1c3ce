use crate::fixture::library;

#[test]
fn listings_have_postgresqls_rows() {
    library().check(&[
        (
            "select schemaname, tablename, tableowner, hasindexes, hasrules, hastriggers from \
             pg_tables where schemaname in ('public', 'shop') order by 2",
            "shop|Order|saki|true|false|false\n\
             public|author|saki|true|false|true\n\
             public|book|saki|true|false|true",
        ),
        (
            "select schemaname, tablename, indexname, indexdef from pg_indexes where schemaname in \
             ('public', 'shop') order by 3",
            "shop|Order|Order_pkey|CREATE UNIQUE INDEX \"Order_pkey\" ON shop.\"Order\" USING btree (b, a)\n\
             public|author|author_pkey|CREATE UNIQUE INDEX author_pkey ON public.author USING btree (id)\n\
             public|book|book_code_key|CREATE UNIQUE INDEX book_code_key ON public.book USING btree (code)\n\
             public|book|book_pkey|CREATE UNIQUE INDEX book_pkey ON public.book USING btree (id)\n\
             public|book|book_title_idx|CREATE INDEX book_title_idx ON public.book USING btree \
         (title DESC, price) INCLUDE (pages)",
        ),
        ("select viewname, viewowner from pg_views where schemaname = 'public'", "cheap|saki"),
        ("select n_live_tup, n_dead_tup from pg_stat_user_tables where relname = 'book'", "0|0"),
        ("select spcname from pg_tablespace where spcname = 'pg_default'", "pg_default"),
    ]);
}
