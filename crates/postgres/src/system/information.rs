use crate::fixture::library;

#[test]
fn information_schema_has_postgresqls_rows() {
    library().check(&[
        (
            "select column_name, ordinal_position, column_default, is_nullable, data_type, udt_name \
             from information_schema.columns where table_name = 'book' order by 2",
            "id|1||NO|bigint|int8\n\
             author|2||YES|integer|int4\n\
             title|3||NO|text|text\n\
             price|4|9.99|YES|numeric|numeric\n\
             code|5||YES|character|bpchar\n\
             data|6||YES|bytea|bytea\n\
             added|7||YES|timestamp with time zone|timestamptz\n\
             seen|8||YES|timestamp without time zone|timestamp\n\
             key|9||YES|uuid|uuid\n\
             rating|10||YES|real|float4\n\
             score|11||YES|double precision|float8\n\
             sold|12||YES|boolean|bool\n\
             pages|13||YES|smallint|int2",
        ),
        (
            "select column_name, character_maximum_length, character_octet_length, numeric_precision, \
             numeric_precision_radix, numeric_scale, datetime_precision from \
             information_schema.columns where table_name = 'book' order by ordinal_position",
            "id|||64|2|0|\n\
             author|||32|2|0|\n\
             title||1073741824||||\n\
             price|||10|10|2|\n\
             code|13|52||||\n\
             data||||||\n\
             added||||||6\n\
             seen||||||6\n\
             key||||||\n\
             rating|||24|2||\n\
             score|||53|2||\n\
             sold||||||\n\
             pages|||16|2|0|",
        ),
        (
            "select column_name, is_identity, identity_generation, identity_start, \
             identity_increment, identity_maximum, identity_minimum, identity_cycle from \
             information_schema.columns where table_name = 'author' order by ordinal_position",
            "id|YES|ALWAYS|1|1|2147483647|1|NO\n\
             name|NO||||||NO\n\
             born|NO||||||NO",
        ),
        (
            "select is_updatable from information_schema.columns where table_name = 'book' and \
             column_name = 'id'",
            "YES",
        ),
        (
            "select constraint_name, column_name, ordinal_position, position_in_unique_constraint \
             from information_schema.key_column_usage where table_schema in ('public', 'shop') order \
             by 1, 3",
            "Order_pkey|b|1|\n\
             Order_pkey|a|2|\n\
             author_pkey|id|1|\n\
             book_author_fkey|author|1|1\n\
             book_code_key|code|1|\n\
             book_pkey|id|1|",
        ),
        (
            "select constraint_name, unique_constraint_name, match_option, update_rule, delete_rule \
             from information_schema.referential_constraints",
            "book_author_fkey|author_pkey|NONE|CASCADE|SET NULL",
        ),
        (
            "select constraint_name, table_name, column_name from \
             information_schema.constraint_column_usage where constraint_schema in ('public', 'shop') \
             order by 1, 3",
            "Order_pkey|Order|a\n\
             Order_pkey|Order|b\n\
             author_pkey|author|id\n\
             book_author_fkey|author|id\n\
             book_code_key|book|code\n\
             book_pkey|book|id\n\
             book_price_check|book|price",
        ),
        (
            "select sequence_schema, sequence_name, data_type, numeric_precision, \
             numeric_precision_radix, numeric_scale, start_value, minimum_value, maximum_value, \
             increment, cycle_option from information_schema.sequences order by 2",
            "shop|ticket|smallint|16|2|0|10|5|100|5|YES",
        ),
        (
            "select schema_name from information_schema.schemata where schema_name in ('public', \
             'shop', 'pg_catalog', 'information_schema') order by 1",
            "information_schema\n\
             pg_catalog\n\
             public\n\
             shop",
        ),
        (
            "select privilege_type from information_schema.table_privileges where table_name = 'book' \
             order by 1",
            "DELETE\n\
             INSERT\n\
             REFERENCES\n\
             SELECT\n\
             TRIGGER\n\
             TRUNCATE\n\
             UPDATE",
        ),
        ("select catalog_name from information_schema.information_schema_catalog_name", "saki"),
    ]);
}

#[test]
fn views_and_constraints_are_listed() {
    library().check(&[
        (
            "select table_schema, table_name, table_type, is_insertable_into, is_typed from \
             information_schema.tables where table_schema in ('public', 'shop') order by 2",
            "shop|Order|BASE TABLE|YES|NO\n\
             public|author|BASE TABLE|YES|NO\n\
             public|book|BASE TABLE|YES|NO\n\
             public|cheap|VIEW|NO|NO",
        ),
        (
            "select table_schema, table_name, check_option, is_updatable from information_schema.views where \
             table_schema in ('public', 'shop')",
            "public|cheap|NONE|NO",
        ),
        (
            "select constraint_name, table_name, constraint_type, is_deferrable, initially_deferred, enforced \
             from information_schema.table_constraints where constraint_schema in ('public', 'shop') order by 1",
            "Order_pkey|Order|PRIMARY KEY|NO|NO|YES\n\
             author_pkey|author|PRIMARY KEY|NO|NO|YES\n\
             book_author_fkey|book|FOREIGN KEY|NO|NO|YES\n\
             book_code_key|book|UNIQUE|NO|NO|YES\n\
             book_pkey|book|PRIMARY KEY|NO|NO|YES\n\
             book_price_check|book|CHECK|NO|NO|YES",
        ),
        (
            "select constraint_name, check_clause from information_schema.check_constraints where \
             constraint_name = 'book_price_check'",
            "book_price_check|(price > 0)",
        ),
        (
            "select column_name, character_maximum_length, data_type from information_schema.columns where \
             table_schema = 'shop' or table_name = 'author' order by table_name, ordinal_position",
            "a||integer\nb||integer\nc d||text\nid||integer\nname|40|character varying\nborn||date",
        ),
        ("select count(*), min(role_name) from information_schema.enabled_roles", "13|pg_checkpoint"),
        (
            "select schema_name, schema_owner from information_schema.schemata \
             where schema_name in ('public', 'shop') \
             order by 1",
            "public|pg_database_owner\nshop|saki",
        ),
    ]);
}
