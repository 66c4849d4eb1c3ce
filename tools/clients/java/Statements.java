import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Connections, statements, transactions, cursors, cancelling, errors. */
final class Statements {
    private static final String ENDLESS =
            "SELECT count(*) FROM generate_series(1, 3000000) AS a(i), generate_series(1, 3000000) AS b(j) WHERE i + j < 0";

    private Statements() {}

    private static List<Object> column(Connection connection, String query) throws SQLException {
        List<Object> found = new ArrayList<>();
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(query)) {
            while (rows.next()) {
                found.add(rows.getObject(1));
            }
        }
        return found;
    }

    @Check
    static void connecting() throws Exception {
        try (Connection connection = Checks.connect("ApplicationName", "checks", "currentSchema", "public")) {
            Checks.equal(connection.isValid(5), true);
            Checks.equal(connection.getCatalog(), System.getenv("PGDATABASE"));
            Checks.equal(connection.getSchema(), "public");
            Checks.equal(column(connection, "SHOW application_name"), List.of("checks"));
        }
    }

    @Check
    static void tls() throws Exception {
        try (Connection connection = Checks.connect("sslmode", "verify-full", "sslrootcert", System.getenv("PGSSLROOTCERT"))) {
            Checks.equal(column(connection, "SELECT 1"), List.of(1));
        }
    }

    @Check
    static void wrong_password() throws Exception {
        Checks.refused("28P01", () -> Checks.connect("password", "wrong").close());
    }

    @Check
    static void simple() throws Exception {
        try (Connection connection = Checks.connect("preferQueryMode", "simple"); Statement statement = connection.createStatement()) {
            Checks.equal(statement.execute("SELECT 1; SELECT 'x'"), true);
            Checks.equal(statement.getMoreResults(), true);
            try (ResultSet rows = statement.getResultSet()) {
                rows.next();
                Checks.equal(rows.getString(1), "x");
            }
        }
    }

    /** From the fifth time on, the driver has the server prepare it. */
    @Check
    static void prepared() throws Exception {
        try (Connection connection = Checks.connect()) {
            Checks.table(connection, "java_prepared", "id int PRIMARY KEY, word text");
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO java_prepared VALUES (?, ?)");
                    PreparedStatement select = connection.prepareStatement("SELECT word FROM java_prepared WHERE id = ?")) {
                for (int id = 0; id < 20; id++) {
                    insert.setInt(1, id);
                    insert.setString(2, "w" + id);
                    Checks.equal(insert.executeUpdate(), 1);
                    select.setInt(1, id);
                    try (ResultSet rows = select.executeQuery()) {
                        rows.next();
                        Checks.equal(rows.getString(1), "w" + id);
                    }
                }
            }
        }
    }

    @Check
    static void transactions() throws Exception {
        try (Connection connection = Checks.connect()) {
            Checks.table(connection, "java_transactions", "id int PRIMARY KEY");
            connection.setAutoCommit(false);
            Checks.execute(connection, "INSERT INTO java_transactions VALUES (1)");
            connection.rollback();
            Checks.execute(connection, "INSERT INTO java_transactions VALUES (2)");
            Savepoint before = connection.setSavepoint();
            Checks.refused("23505", () -> Checks.execute(connection, "INSERT INTO java_transactions VALUES (2)"));
            Checks.refused("25P02", () -> Checks.execute(connection, "SELECT 1"));
            connection.rollback(before);
            Checks.execute(connection, "INSERT INTO java_transactions VALUES (3)");
            connection.commit();
            Checks.equal(column(connection, "SELECT id FROM java_transactions ORDER BY id"), List.of(2, 3));
            connection.commit();
            connection.setReadOnly(true);
            Checks.refused("25006", () -> Checks.execute(connection, "INSERT INTO java_transactions VALUES (4)"));
            connection.rollback();
        }
    }

    @Check
    static void isolation() throws Exception {
        int[] levels = {Connection.TRANSACTION_READ_COMMITTED, Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_SERIALIZABLE};
        try (Connection connection = Checks.connect()) {
            for (int level : levels) {
                connection.setTransactionIsolation(level);
                Checks.equal(connection.getTransactionIsolation(), level);
            }
        }
    }

    @Check
    static void retry() throws Exception {
        try (Connection first = Checks.connect(); Connection second = Checks.connect()) {
            Checks.table(first, "java_retry", "id int PRIMARY KEY, n int");
            Checks.execute(first, "INSERT INTO java_retry VALUES (1, 0)");
            second.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            second.setAutoCommit(false);
            int again = 0;
            for (boolean done = false; !done; ) {
                try {
                    column(second, "SELECT n FROM java_retry");
                    if (again == 0) {
                        Checks.execute(first, "UPDATE java_retry SET n = n + 1");
                    }
                    Checks.execute(second, "UPDATE java_retry SET n = n + 1");
                    second.commit();
                    done = true;
                } catch (SQLException refused) {
                    if (!List.of("40001", "40P01").contains(refused.getSQLState())) {
                        throw refused;
                    }
                    second.rollback();
                    again++;
                }
            }
            Checks.equal(again, 1);
            Checks.equal(column(first, "SELECT n FROM java_retry"), List.of(2));
        }
    }

    @Check
    static void batch() throws Exception {
        try (Connection connection = Checks.connect(); Connection rewriting = Checks.connect("reWriteBatchedInserts", "true")) {
            for (Connection each : List.of(connection, rewriting)) {
                Checks.table(each, "java_batch", "id int PRIMARY KEY, word text");
                try (PreparedStatement insert = each.prepareStatement("INSERT INTO java_batch VALUES (?, ?)")) {
                    for (int id = 0; id < 1000; id++) {
                        insert.setInt(1, id);
                        insert.setString(2, "w");
                        insert.addBatch();
                    }
                    Checks.equal(insert.executeBatch().length, 1000);
                }
                Checks.equal(column(each, "SELECT count(*) FROM java_batch"), List.of(1000L));
            }
            try (Statement statement = connection.createStatement()) {
                statement.addBatch("UPDATE java_batch SET word = 'x' WHERE id < 10");
                statement.addBatch("DELETE FROM java_batch WHERE id < 5");
                Checks.equal(Arrays.toString(statement.executeBatch()), "[10, 5]");
                statement.addBatch("INSERT INTO java_batch VALUES (2000, 'y')");
                statement.addBatch("INSERT INTO java_batch VALUES (10, 'y')");
                SQLException refused = Checks.refused("23505", statement::executeBatch);
                Checks.equal(refused instanceof BatchUpdateException, true);
            }
            Checks.equal(column(connection, "SELECT count(*) FROM java_batch"), List.of(995L));
        }
    }

    @Check
    static void generated_keys() throws Exception {
        try (Connection connection = Checks.connect()) {
            Checks.table(connection, "java_keys", "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, word text");
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO java_keys (word) VALUES (?)", new String[] {"id"})) {
                for (long id = 1; id <= 3; id++) {
                    insert.setString(1, "w");
                    insert.executeUpdate();
                    try (ResultSet keys = insert.getGeneratedKeys()) {
                        keys.next();
                        Checks.equal(keys.getLong(1), id);
                    }
                }
            }
        }
    }

    /** A portal that is read in portions, and left before its end. */
    @Check
    static void cursor() throws Exception {
        try (Connection connection = Checks.connect()) {
            connection.setAutoCommit(false);
            try (PreparedStatement select = connection.prepareStatement("SELECT i FROM generate_series(1, ?) AS g(i) ORDER BY i")) {
                select.setFetchSize(100);
                select.setInt(1, 250);
                try (ResultSet rows = select.executeQuery()) {
                    int expected = 1;
                    while (rows.next()) {
                        Checks.equal(rows.getInt(1), expected++);
                    }
                    Checks.equal(expected, 251);
                }
                select.setMaxRows(7);
                try (ResultSet rows = select.executeQuery()) {
                    int count = 0;
                    while (rows.next()) {
                        count++;
                    }
                    Checks.equal(count, 7);
                }
                select.setMaxRows(0);
                try (ResultSet rows = select.executeQuery()) {
                    rows.next();
                }
            }
            Checks.equal(column(connection, "SELECT 1"), List.of(1));
            connection.commit();
        }
    }

    @Check
    static void cancel() throws Exception {
        Timer timer = new Timer(true);
        try (Connection connection = Checks.connect(); Statement statement = connection.createStatement()) {
            timer.schedule(new TimerTask() {
                @Override
                public void run() {
                    try {
                        statement.cancel();
                    } catch (SQLException refused) {
                        System.out.println("# cancel: " + refused);
                    }
                }
            }, 500);
            long started = System.nanoTime();
            Checks.refused("57014", () -> statement.execute(ENDLESS));
            Checks.equal(System.nanoTime() - started < 5_000_000_000L, true);
            statement.setQueryTimeout(1);
            Checks.refused("57014", () -> statement.execute(ENDLESS));
            Checks.equal(column(connection, "SELECT 1"), List.of(1));
        } finally {
            timer.cancel();
        }
    }

    @Check
    static void errors() throws Exception {
        String[][] wrong = {
            {"23505", "INSERT INTO java_errors VALUES (1, 1)"},
            {"23502", "INSERT INTO java_errors VALUES (2, NULL)"},
            {"23514", "INSERT INTO java_errors VALUES (2, 0)"},
            {"23503", "INSERT INTO java_errors VALUES (2, 1, 77)"},
            {"42P01", "SELECT * FROM java_nowhere"},
            {"42703", "SELECT nothing FROM java_errors"},
            {"22P02", "SELECT 'abc'::int"},
            {"22012", "SELECT 1 / 0"},
            {"42601", "SELEC 1"},
        };
        try (Connection connection = Checks.connect()) {
            Checks.table(connection, "java_errors", "id int PRIMARY KEY, n int NOT NULL CHECK (n > 0), parent int REFERENCES java_errors (id)");
            Checks.execute(connection, "INSERT INTO java_errors VALUES (1, 1)");
            for (String[] each : wrong) {
                Checks.refused(each[0], () -> Checks.execute(connection, each[1]));
            }
            Checks.equal(column(connection, "SELECT id FROM java_errors"), List.of(1));
        }
    }

    @Check
    static void concurrency() throws Exception {
        try (Connection connection = Checks.connect()) {
            Checks.table(connection, "java_concurrency", "id int PRIMARY KEY, n int");
            ExecutorService pool = Executors.newFixedThreadPool(16);
            List<Callable<Void>> workers = new ArrayList<>();
            for (int worker = 0; worker < 16; worker++) {
                int base = worker * 50;
                workers.add(() -> insert(base));
            }
            try {
                for (Future<Void> done : pool.invokeAll(workers)) {
                    done.get();
                }
            } finally {
                pool.shutdown();
            }
            Checks.equal(column(connection, "SELECT sum(n) FROM java_concurrency").toString(), "[639200]");
        }
    }

    private static Void insert(int base) throws SQLException {
        try (Connection connection = Checks.connect();
                PreparedStatement insert = connection.prepareStatement("INSERT INTO java_concurrency VALUES (?, ?)")) {
            for (int id = base; id < base + 50; id++) {
                insert.setInt(1, id);
                insert.setInt(2, id * 2);
                insert.executeUpdate();
            }
        }
        return null;
    }
}
