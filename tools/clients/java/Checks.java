import java.lang.reflect.Method;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Properties;

/** Checks of a server through JDBC; arguments are the names of those to run, none means all. */
public final class Checks {
    private static final List<Class<?>> GROUPS = List.of(Statements.class, Values.class, Metadata.class);

    private Checks() {}

    public static void main(String[] names) {
        List<Method> all = new ArrayList<>();
        for (Class<?> group : GROUPS) {
            Arrays.stream(group.getDeclaredMethods())
                    .filter(method -> method.isAnnotationPresent(Check.class))
                    .sorted((one, other) -> one.getName().compareTo(other.getName()))
                    .forEach(all::add);
        }
        List<String> wanted = Arrays.asList(names);
        all.removeIf(method -> !wanted.isEmpty() && !wanted.contains(method.getName()));
        System.out.println("1.." + Math.max(all.size(), wanted.size()));
        boolean good = all.size() >= wanted.size();
        for (Method check : all) {
            good &= passes(check);
        }
        System.exit(good ? 0 : 1);
    }

    private static boolean passes(Method check) {
        long started = System.nanoTime();
        try {
            check.invoke(null);
        } catch (ReflectiveOperationException failed) {
            Throwable problem = Objects.requireNonNullElse(failed.getCause(), failed);
            System.out.println("not ok - " + check.getName());
            System.out.println(("# " + problem).replace("\n", "\n# "));
            Arrays.stream(problem.getStackTrace())
                    .filter(frame -> frame.getMethodName().equals(check.getName()))
                    .forEach(frame -> System.out.println("# at " + frame));
            return false;
        }
        System.out.printf("ok - %s # %.2f s%n", check.getName(), (System.nanoTime() - started) / 1e9);
        return true;
    }

    /** A connection to where the environment says; settings are names and values of the driver's properties. */
    static Connection connect(String... settings) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", System.getenv("PGUSER"));
        properties.setProperty("password", System.getenv("PGPASSWORD"));
        properties.setProperty("sslmode", "disable");
        for (int at = 0; at < settings.length; at += 2) {
            properties.setProperty(settings[at], settings[at + 1]);
        }
        String server = System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
        return DriverManager.getConnection("jdbc:postgresql://" + server, properties);
    }

    static void execute(Connection connection, String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String text : statements) {
                statement.execute(text);
            }
        }
    }

    static void table(Connection connection, String name, String columns) throws SQLException {
        execute(connection, "DROP TABLE IF EXISTS " + name, "CREATE TABLE " + name + " (" + columns + ")");
    }

    static void equal(Object found, Object expected) {
        if (!Objects.deepEquals(found, expected)) {
            throw new AssertionError("found " + shown(found) + ", expected " + shown(expected));
        }
    }

    private static String shown(Object value) {
        String text = value instanceof Object[] array ? Arrays.deepToString(array) : String.valueOf(value);
        return text.length() > 500 ? text.substring(0, 500) : text;
    }

    /** Something that may be refused. */
    interface Action {
        void run() throws Exception;
    }

    static SQLException refused(String state, Action action) throws Exception {
        try {
            action.run();
        } catch (SQLException raised) {
            if (state.equals(raised.getSQLState())) {
                return raised;
            }
            throw new AssertionError("expected " + state + ", found " + raised.getSQLState() + ": " + raised.getMessage());
        }
        throw new AssertionError("no error, expected " + state);
    }
}
