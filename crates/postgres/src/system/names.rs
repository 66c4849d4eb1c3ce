use crate::fixture::library;

#[test]
fn names_and_oids_mean_the_same() {
    library().check(&[
        ("select 'book'::regclass", "book"),
        ("select 'book'::regclass::text", "book"),
        ("select 'public.book'::regclass", "book"),
        ("select 'shop.ticket'::regclass", "shop.ticket"),
        ("select 'shop.\"Order\"'::regclass", "shop.\"Order\""),
        ("select 'BOOK'::regclass", "book"),
        ("select to_regclass('book')", "book"),
        ("select to_regclass('nothing')", ""),
        ("select to_regclass('shop.\"Order\"')", "shop.\"Order\""),
        ("select 'book'::regclass = 'public.book'::regclass", "true"),
        ("select 'pg_class'::regclass::oid", "1259"),
        ("select 1259::regclass", "pg_class"),
        ("select 0::regclass", "-"),
        ("select '-'::regclass::oid", "0"),
        ("select 'integer'::regtype", "integer"),
        ("select 'int4'::regtype::oid", "23"),
        ("select 'varchar(10)'::regtype", "character varying"),
        ("select 'timestamp with time zone'::regtype::oid", "1184"),
        ("select 'integer[]'::regtype", "integer[]"),
        ("select '_int4'::regtype", "integer[]"),
        ("select to_regtype('nosuch')", ""),
        ("select 'public'::regnamespace", "public"),
        ("select 'saki'::regrole", "saki"),
        (
            "select pg_table_is_visible('book'::regclass), \
             pg_table_is_visible('shop.\"Order\"'::regclass), pg_table_is_visible(0)",
            "true|false|",
        ),
        (
            "select quote_ident('book'), quote_ident('Order'), quote_ident('order'), quote_ident('a \
             b'), quote_ident('1a'), quote_ident('a\"b'), quote_ident('')",
            "book|\"Order\"|\"order\"|\"a b\"|\"1a\"|\"a\"\"b\"|\"\"",
        ),
        (
            "select quote_ident('user'), quote_ident('table'), quote_ident('group'), \
             quote_ident('int'), quote_ident('value'), quote_ident('name'), quote_ident('left'), \
             quote_ident('join'), quote_ident('using'), quote_ident('where')",
            "\"user\"|\"table\"|\"group\"|\"int\"|value|name|\"left\"|\"join\"|\"using\"|\"where\"",
        ),
        (
            "select quote_literal('a'), quote_literal('it''s'), quote_literal('a\\b'), \
             quote_literal(null), quote_literal(1), quote_nullable(null), quote_nullable('x')",
            "'a'|'it''s'|E'a\\\\b'||'1'|NULL|'x'",
        ),
        ("select version() like 'PostgreSQL 15%'", "true"),
        (
            "select c.oid = 'book'::regclass, n.nspname, c.relname FROM pg_catalog.pg_class c LEFT \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relname \
             OPERATOR(pg_catalog.~) '^(book)$' COLLATE pg_catalog.default AND \
             pg_catalog.pg_table_is_visible(c.oid) ORDER BY 2, 3",
            "true|public|book",
        ),
        ("select 'now'::regproc", "now"),
    ]);
}

#[test]
fn names_that_mean_nothing_are_refused() {
    library().check_refused(&[
        ("select '\"BOOK\"'::regclass", "42P01"),
        ("select 'nothing'::regclass", "42P01"),
        ("select 'shop.nothing'::regclass", "42P01"),
        ("select 'nowhere.book'::regclass", "3F000"),
        ("select 'nosuch'::regtype", "42704"),
        ("select 'nosuch'::regnamespace", "3F000"),
        ("select 'nosuch'::regrole", "42704"),
        ("select parse_ident('a.')", "22023"),
        ("select 'nosuch'::regproc", "42883"),
    ]);
}
