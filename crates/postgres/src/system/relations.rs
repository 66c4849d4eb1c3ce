use crate::fixture::library;

#[test]
fn tables_are_described_as_postgresql_does() {
    library().check(&[
        (
            "select relname, relkind, relnatts, relchecks, relhasindex, relhastriggers, relhasrules \
             from pg_class where relnamespace = 'public'::regnamespace order by relname",
            "author|r|3|0|true|true|false\n\
             author_id_seq|S|3|0|false|false|false\n\
             author_pkey|i|1|0|false|false|false\n\
             book|r|13|1|true|true|false\n\
             book_code_key|i|1|0|false|false|false\n\
             book_pkey|i|1|0|false|false|false\n\
             book_title_idx|i|3|0|false|false|false\n\
             cheap|v|2|0|false|false|true",
        ),
        (
            "select a.attname, t.typname, a.attlen, a.attbyval, a.attalign, a.attstorage from \
             pg_attribute a join pg_type t on t.oid = a.atttypid where a.attrelid = 'book'::regclass \
             and a.attnum > 0 order by a.attnum",
            "id|int8|8|true|d|p\n\
             author|int4|4|true|i|p\n\
             title|text|-1|false|i|x\n\
             price|numeric|-1|false|i|m\n\
             code|bpchar|-1|false|i|x\n\
             data|bytea|-1|false|i|x\n\
             added|timestamptz|8|true|d|p\n\
             seen|timestamp|8|true|d|p\n\
             key|uuid|16|false|c|p\n\
             rating|float4|4|true|i|p\n\
             score|float8|8|true|d|p\n\
             sold|bool|1|true|c|p\n\
             pages|int2|2|true|s|p",
        ),
        (
            "select attname, atttypmod from pg_attribute where attrelid = 'book'::regclass and attnum \
             > 0 and atttypmod > 0 order by attname",
            "code|17\nprice|655366",
        ),
        (
            "select attname from pg_attribute where attrelid = 'shop.\"Order\"'::regclass and attnum > \
             0 order by attnum",
            "a\n\
             b\n\
             c d",
        ),
        (
            "select c.relname, indisunique, indisprimary, indnatts, indnkeyatts from pg_index i join \
             pg_class c on c.oid = i.indexrelid where c.relname like 'book%' order by 1",
            "book_code_key|true|false|1|1\n\
             book_pkey|true|true|1|1\n\
             book_title_idx|false|false|3|2",
        ),
        (
            "select c.relname, indkey::text, indoption::text from pg_index i join pg_class c on c.oid \
             = i.indexrelid where c.relname in ('book_title_idx', 'book_pkey', 'Order_pkey') order by \
             1",
            "Order_pkey|2 1|0 0\n\
             book_pkey|1|0\n\
             book_title_idx|3 4 13|3 0",
        ),
        (
            "select seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle \
             from pg_sequence where seqrelid = 'shop.ticket'::regclass",
            "smallint|10|5|100|5|1|true",
        ),
        (
            "select seqtypid::regtype::text, seqstart, seqincrement, seqmax, seqmin, seqcache, \
             seqcycle from pg_sequence where seqrelid = 'author_id_seq'::regclass",
            "integer|1|1|2147483647|1|1|false",
        ),
        (
            "select description, objsubid from pg_description where objoid = 'book'::regclass order \
             by objsubid",
            "what is sold|0\non the cover|3",
        ),
        (
            "select nspname from pg_namespace where nspname in ('public', 'shop', 'pg_catalog', \
             'information_schema') order by 1",
            "information_schema\n\
             pg_catalog\n\
             public\n\
             shop",
        ),
        (
            "select deptype, refobjid::regclass, refobjsubid from pg_depend where objid = \
             'author_id_seq'::regclass and classid = 'pg_class'::regclass and deptype = 'i'",
            "i|author|1",
        ),
        ("select tableoid::regclass, oid = 'book'::regclass from pg_class where relname = 'book'", "pg_class|true"),
        ("select relname from pg_class where relname ~ '^(book)$'", "book"),
        (
            "select relname from pg_class where relname OPERATOR(pg_catalog.~) '^(book)$' COLLATE \
             pg_catalog.default",
            "book",
        ),
        (
            "select relname as \"Name\", case relkind when 'r' then 'table' when 'v' then 'view' when \
             'i' then 'index' when 'S' then 'sequence' end as \"Type\" from pg_class where relnamespace \
             = (select oid from pg_namespace where nspname = 'shop') order by 1",
            "Order|table\n\
             Order_pkey|index\n\
             ticket|sequence",
        ),
        ("select relname like 'b!_%' escape '!' from pg_class where relname = 'book'", "false"),
    ]);
}
