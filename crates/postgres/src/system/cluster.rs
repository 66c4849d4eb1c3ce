use crate::fixture::library;

#[test]
fn what_every_database_has_is_there() {
    library().check(&[
        (
            "select typname, typlen, typbyval, typtype, typcategory, typispreferred, typdelim, \
             typelem, typarray, typalign, typstorage, typcollation from pg_type where typname in \
             ('bool', 'int2', 'int4', 'int8', 'text', 'varchar', 'bpchar', 'numeric', 'float4', \
         'float8', 'date', 'timestamp', 'timestamptz', 'uuid', 'bytea', 'name', 'oid', '_int4', \
         '_text', 'int2vector') \
             order by typname",
            "_int4|-1|false|b|A|false|,|23|0|i|x|0\n\
             _text|-1|false|b|A|false|,|25|0|i|x|100\n\
             bool|1|true|b|B|true|,|0|1000|c|p|0\n\
             bpchar|-1|false|b|S|false|,|0|1014|i|x|100\n\
             bytea|-1|false|b|U|false|,|0|1001|i|x|0\n\
             date|4|true|b|D|false|,|0|1182|i|p|0\n\
             float4|4|true|b|N|false|,|0|1021|i|p|0\n\
             float8|8|true|b|N|true|,|0|1022|d|p|0\n\
             int2|2|true|b|N|false|,|0|1005|s|p|0\n\
             int2vector|-1|false|b|A|false|,|21|1006|i|p|0\n\
             int4|4|true|b|N|false|,|0|1007|i|p|0\n\
             int8|8|true|b|N|false|,|0|1016|d|p|0\n\
             name|64|false|b|S|false|,|18|1003|c|p|950\n\
             numeric|-1|false|b|N|false|,|0|1231|i|m|0\n\
             oid|4|true|b|N|true|,|0|1028|i|p|0\n\
             text|-1|false|b|S|true|,|0|1009|i|x|100\n\
             timestamp|8|true|b|D|false|,|0|1115|d|p|0\n\
             timestamptz|8|true|b|D|true|,|0|1185|d|p|0\n\
             uuid|16|false|b|U|false|,|0|2951|c|p|0\n\
             varchar|-1|false|b|S|false|,|0|1015|i|x|100",
        ),
        ("select rolname, rolsuper, rolcanlogin from pg_roles where rolname = 'saki'", "saki|true|true"),
        (
            "select datname, pg_encoding_to_char(encoding), datcollate, datallowconn from pg_database \
             where datname = 'saki'",
            "saki|UTF8|C|true",
        ),
        ("select amname, amtype from pg_am where amname in ('heap', 'btree') order by 1", "btree|i\nheap|t"),
        (
            "select proname, prorettype::regtype::text from pg_proc where proname = 'now'",
            "now|timestamp with time zone",
        ),
        ("select collname from pg_collation where collname in ('default', 'C') order by 1", "C\ndefault"),
        ("select lanname from pg_language where lanname = 'internal'", "internal"),
    ]);
}
