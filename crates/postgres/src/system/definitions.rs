use crate::fixture::library;

#[test]
fn definitions_are_postgresqls() {
    library().check(&[
        (
            "select c.relname, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), \
             a.attnotnull, a.atthasdef, a.attidentity from pg_attribute a join pg_class c on c.oid = \
             a.attrelid where c.relname in ('author', 'book') and a.attnum > 0 order by c.relname, \
             a.attnum",
            "author|id|1|integer|true|false|a\n\
             author|name|2|character varying(40)|true|false|\n\
             author|born|3|date|false|false|\n\
             book|id|1|bigint|true|false|\n\
             book|author|2|integer|false|false|\n\
             book|title|3|text|true|false|\n\
             book|price|4|numeric(10,2)|false|true|\n\
             book|code|5|character(13)|false|false|\n\
             book|data|6|bytea|false|false|\n\
             book|added|7|timestamp with time zone|false|false|\n\
             book|seen|8|timestamp without time zone|false|false|\n\
             book|key|9|uuid|false|false|\n\
             book|rating|10|real|false|false|\n\
             book|score|11|double precision|false|false|\n\
             book|sold|12|boolean|false|false|\n\
             book|pages|13|smallint|false|false|",
        ),
        (
            "select pg_get_indexdef('book_title_idx'::regclass)",
            "CREATE INDEX book_title_idx ON public.book USING btree (title DESC, price) INCLUDE (pages)",
        ),
        (
            "select pg_get_indexdef('book_pkey'::regclass)",
            "CREATE UNIQUE INDEX book_pkey ON public.book USING btree (id)",
        ),
        (
            "select pg_get_indexdef('book_code_key'::regclass)",
            "CREATE UNIQUE INDEX book_code_key ON public.book USING btree (code)",
        ),
        (
            "select pg_get_indexdef('shop.\"Order_pkey\"'::regclass)",
            "CREATE UNIQUE INDEX \"Order_pkey\" ON shop.\"Order\" USING btree (b, a)",
        ),
        ("select pg_get_indexdef('book_title_idx'::regclass, 1, true)", "title"),
        ("select pg_get_indexdef('book_title_idx'::regclass, 2, false)", "price"),
        ("select pg_get_indexdef('book_title_idx'::regclass, 3, false)", "pages"),
        ("select pg_get_indexdef('book_title_idx'::regclass, 4, false)", ""),
        (
            "select pg_get_indexdef('book_title_idx'::regclass, 0, true)",
            "CREATE INDEX book_title_idx ON book USING btree (title DESC, price) INCLUDE (pages)",
        ),
        ("select pg_get_indexdef('book'::regclass)", ""),
        ("select pg_get_indexdef(0)", ""),
        (
            "select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = \
             'author'::regclass order by conname",
            "author_pkey|p|PRIMARY KEY (id)",
        ),
        (
            "select conname, contype, pg_get_constraintdef(oid) from pg_constraint where connamespace \
             = 'shop'::regnamespace order by conname",
            "Order_pkey|p|PRIMARY KEY (b, a)",
        ),
        ("select pg_get_constraintdef(0)", ""),
        ("select pg_get_viewdef('cheap'::regclass) is not null", "true"),
        ("select pg_get_viewdef('book'::regclass)", ""),
        (
            "select adnum, pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = \
             'book'::regclass",
            "4|9.99",
        ),
        ("select obj_description('book'::regclass)", "what is sold"),
        (
            "select obj_description('book'::regclass, 'pg_class'), col_description('book'::regclass, \
             3), col_description('book'::regclass, 1)",
            "what is sold|on the cover|",
        ),
        ("select obj_description('book_title_idx'::regclass, 'pg_class')", "for the search"),
        ("select obj_description('shop'::regnamespace, 'pg_namespace')", "where orders are"),
        (
            "select obj_description(oid, 'pg_constraint') from pg_constraint where conname = 'book_price_check'",
            "nothing is free",
        ),
        ("select obj_description('book'::regclass, 'pg_proc')", ""),
        (
            "select format_type(23, null), format_type(1043, 14), format_type(1700, 655366), \
             format_type(1700, -1), format_type(0, null), format_type(999999, null)",
            "integer|character varying(10)|numeric(10,2)|numeric|-|???",
        ),
        (
            "select format_type(1042, 7), format_type(1042, null), format_type(1042, -1), \
             format_type(1043, -1), format_type(25, -1)",
            "character(3)|character|bpchar|character varying|text",
        ),
        (
            "select format_type(1114, 3), format_type(1184, -1), format_type(1083, 2), \
             format_type(1266, null), format_type(1186, -1)",
            "timestamp(3) without time zone|timestamp with time zone|time(2) without time zone|time with \
         time zone|interval",
        ),
        (
            "select format_type(1007, null), format_type(1015, 14), format_type(1231, 655366), \
             format_type(18, null), format_type(19, null), format_type(16, null)",
            "integer[]|character varying(10)[]|numeric(10,2)[]|\"char\"|name|boolean",
        ),
        (
            "select format_type(1560, 5), format_type(1562, 5), format_type(1562, -1), \
             format_type(null, null)",
            "bit(5)|bit varying(5)|bit varying|",
        ),
        ("select pg_get_serial_sequence('author', 'id')", "public.author_id_seq"),
        ("select pg_get_serial_sequence('author', 'name')", ""),
        ("select pg_get_userbyid(10)", "saki"),
    ]);
}

#[test]
fn definitions_of_what_is_not_there_are_refused() {
    library().check_refused(&[
        ("select pg_get_serial_sequence('author', 'nosuch')", "42703"),
        ("select pg_get_serial_sequence('nosuch', 'id')", "42P01"),
    ]);
}
