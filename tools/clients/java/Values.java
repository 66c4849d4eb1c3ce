import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

/** Values of every type, there and back. */
final class Values {
    private static final String[] KINDS = {
        "boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric(38,10)", "text", "varchar(20)",
        "char(5)", "bytea", "date", "timestamp", "timestamptz", "uuid",
    };
    private static final Object[] ROW = {
        true, -32768, 2147483647, Long.MIN_VALUE, 1.5f, 1e300,
        new BigDecimal("-1234567890123456789012345678.0123456789"), "grüße, 世界 🦀", "", "ab   ",
        new byte[] {0, -1, 92}, LocalDate.of(2024, 2, 29), LocalDateTime.of(1999, 12, 31, 23, 59, 59, 999_999_000),
        OffsetDateTime.of(1969, 7, 20, 20, 17, 40, 0, ZoneOffset.UTC),
        UUID.fromString("00112233-4455-6677-8899-aabbccddeeff"),
    };

    private Values() {}

    /** Every statement prepared on the server from the first time on, values in binary where the driver can. */
    @Check
    static void types_binary() throws Exception {
        roundTrip("java_types_binary", "prepareThreshold", "-1", "binaryTransfer", "true");
    }

    @Check
    static void types_text() throws Exception {
        roundTrip("java_types_text", "prepareThreshold", "0", "binaryTransfer", "false");
    }

    /** The simple protocol: values are literals. */
    @Check
    static void types_simple() throws Exception {
        roundTrip("java_types_simple", "preferQueryMode", "simple");
    }

    private static void roundTrip(String name, String... settings) throws SQLException {
        StringBuilder columns = new StringBuilder("id int PRIMARY KEY");
        for (int at = 0; at < KINDS.length; at++) {
            columns.append(", c").append(at).append(' ').append(KINDS[at]);
        }
        try (Connection connection = Checks.connect(settings)) {
            Checks.table(connection, name, columns.toString());
            String marks = ", ?".repeat(KINDS.length);
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + name + " VALUES (?" + marks + ")")) {
                insert.setInt(1, 1);
                for (int at = 0; at < ROW.length; at++) {
                    insert.setObject(at + 2, ROW[at]);
                }
                Checks.equal(insert.executeUpdate(), 1);
                insert.setInt(1, 2);
                for (int at = 0; at < ROW.length; at++) {
                    insert.setNull(at + 2, Types.NULL);
                }
                Checks.equal(insert.executeUpdate(), 1);
            }
            try (PreparedStatement select = connection.prepareStatement("SELECT * FROM " + name + " WHERE id >= ? ORDER BY id")) {
                select.setInt(1, 1);
                try (ResultSet rows = select.executeQuery()) {
                    Checks.equal(rows.next(), true);
                    for (int at = 0; at < ROW.length; at++) {
                        Checks.equal(rows.getObject(at + 2, ROW[at].getClass()), ROW[at]);
                    }
                    Checks.equal(rows.next(), true);
                    for (int at = 0; at < ROW.length; at++) {
                        Checks.equal(rows.getObject(at + 2), null);
                    }
                    Checks.equal(rows.next(), false);
                }
            }
        }
    }

    @Check
    static void copy() throws Exception {
        try (Connection connection = Checks.connect()) {
            Checks.table(connection, "java_copy", "id int PRIMARY KEY, word text");
            CopyManager copy = connection.unwrap(PGConnection.class).getCopyAPI();
            StringBuilder rows = new StringBuilder();
            for (int id = 0; id < 10_000; id++) {
                rows.append(id).append(",\"wörd, ").append(id).append("\"\n");
            }
            String text = rows.toString();
            Checks.equal(copy.copyIn("COPY java_copy FROM STDIN (FORMAT csv)", new StringReader(text)), 10_000L);
            StringWriter out = new StringWriter();
            copy.copyOut("COPY (SELECT * FROM java_copy ORDER BY id) TO STDOUT (FORMAT csv)", out);
            Checks.equal(out.toString(), text);
            byte[] spoiled = "10000,x\nten,y\n".getBytes(StandardCharsets.UTF_8);
            Checks.refused("22P02", () -> copy.copyIn("COPY java_copy FROM STDIN (FORMAT csv)", new java.io.ByteArrayInputStream(spoiled)));
            try (Statement statement = connection.createStatement(); ResultSet count = statement.executeQuery("SELECT count(*) FROM java_copy")) {
                count.next();
                Checks.equal(count.getLong(1), 10_000L);
            }
        }
    }

    @Check
    static void large() throws Exception {
        try (Connection connection = Checks.connect()) {
            // Rows come in portions only in a transaction.
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(5_000);
                long rows = 0;
                long sum = 0;
                try (ResultSet found = statement.executeQuery("SELECT i, 'row' AS word FROM generate_series(1, 1000000) AS g(i)")) {
                    while (found.next()) {
                        rows++;
                        sum += found.getInt(1);
                    }
                }
                Checks.equal(new Object[] {rows, sum}, new Object[] {1_000_000L, 500_000_500_000L});
            }
            connection.commit();
        }
    }
}
