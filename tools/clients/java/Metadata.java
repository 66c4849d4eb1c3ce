import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** What tools ask the driver about a database, and the driver asks the catalog. */
final class Metadata {
    private Metadata() {}

    private static void schema(Connection connection) throws SQLException {
        Checks.execute(connection, "DROP VIEW IF EXISTS java_view", "DROP TABLE IF EXISTS java_child");
        Checks.table(connection, "java_parent",
                "id int PRIMARY KEY, name varchar(20) NOT NULL UNIQUE, price numeric(12,2) DEFAULT 1.50, at timestamptz");
        Checks.table(connection, "java_child", "a int, b int, parent int REFERENCES java_parent (id) ON DELETE CASCADE, PRIMARY KEY (b, a)");
        Checks.execute(connection, "CREATE VIEW java_view AS SELECT id, name FROM java_parent",
                "CREATE INDEX java_parent_at ON java_parent (at, price)");
    }

    private static List<String> list(ResultSet rows, String... columns) throws SQLException {
        List<String> found = new ArrayList<>();
        try (rows) {
            while (rows.next()) {
                List<String> row = new ArrayList<>();
                for (String column : columns) {
                    row.add(rows.getString(column));
                }
                found.add(String.join(" ", row));
            }
        }
        return found;
    }

    @Check
    static void database() throws Exception {
        try (Connection connection = Checks.connect()) {
            DatabaseMetaData about = connection.getMetaData();
            Checks.equal(about.getDatabaseProductName(), "PostgreSQL");
            Checks.equal(about.getDatabaseMajorVersion() >= 15, true);
            Checks.equal(about.supportsTransactions(), true);
            Checks.equal(list(about.getSchemas(), "TABLE_SCHEM").contains("public"), true);
            Checks.equal(list(about.getCatalogs(), "TABLE_CAT").contains(System.getenv("PGDATABASE")), true);
            Checks.equal(list(about.getTableTypes(), "TABLE_TYPE").containsAll(List.of("TABLE", "VIEW")), true);
            Checks.equal(list(about.getTypeInfo(), "TYPE_NAME").containsAll(List.of("int4", "text", "numeric", "uuid")), true);
        }
    }

    @Check
    static void tables() throws Exception {
        try (Connection connection = Checks.connect()) {
            schema(connection);
            DatabaseMetaData about = connection.getMetaData();
            Checks.equal(list(about.getTables(null, "public", "java\\_%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME", "TABLE_TYPE")
                    .containsAll(List.of("java_child TABLE", "java_parent TABLE", "java_view VIEW")), true);
            Checks.equal(list(about.getColumns(null, "public", "java_parent", null),
                            "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE", "NULLABLE", "ORDINAL_POSITION"),
                    List.of("id int4 10 0 1", "name varchar 20 0 2", "price numeric 12 1 3", "at timestamptz 35 1 4"));
        }
    }

    @Check
    static void keys() throws Exception {
        try (Connection connection = Checks.connect()) {
            schema(connection);
            DatabaseMetaData about = connection.getMetaData();
            Checks.equal(list(about.getPrimaryKeys(null, "public", "java_child"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"),
                    List.of("b 1 java_child_pkey", "a 2 java_child_pkey"));
            Checks.equal(list(about.getImportedKeys(null, "public", "java_child"), "FKCOLUMN_NAME", "PKTABLE_NAME", "PKCOLUMN_NAME", "DELETE_RULE"),
                    List.of("parent java_parent id " + DatabaseMetaData.importedKeyCascade));
            Checks.equal(list(about.getExportedKeys(null, "public", "java_parent"), "FKTABLE_NAME"), List.of("java_child"));
            Checks.equal(list(about.getIndexInfo(null, "public", "java_parent", false, false), "INDEX_NAME", "NON_UNIQUE", "COLUMN_NAME"),
                    List.of("java_parent_name_key f name", "java_parent_pkey f id", "java_parent_at t at", "java_parent_at t price"));
            Checks.equal(list(about.getBestRowIdentifier(null, "public", "java_parent", DatabaseMetaData.bestRowSession, false), "COLUMN_NAME"),
                    List.of("id"));
        }
    }

    @Check
    static void results() throws Exception {
        try (Connection connection = Checks.connect()) {
            schema(connection);
            try (PreparedStatement statement = connection.prepareStatement("SELECT id, name AS word, price * 2 AS twice FROM java_parent WHERE id = ? AND name = ?")) {
                ParameterMetaData parameters = statement.getParameterMetaData();
                Checks.equal(List.of(parameters.getParameterTypeName(1), parameters.getParameterTypeName(2)), List.of("int4", "text"));
                ResultSetMetaData columns = statement.getMetaData();
                Checks.equal(List.of(columns.getColumnLabel(2), columns.getColumnTypeName(2), columns.getPrecision(2)), List.of("word", "varchar", 20));
                Checks.equal(columns.getTableName(1), "java_parent");
                Checks.equal(columns.getColumnTypeName(3), "numeric");
                Checks.equal(columns.isNullable(1), ResultSetMetaData.columnNoNulls);
            }
        }
    }
}
