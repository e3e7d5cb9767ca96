import java.io.StringReader;
import java.io.StringWriter;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.Arrays;
import java.util.Properties;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.copy.CopyManager;

/** Does what users of PostgreSQL's JDBC driver do, with its settings for autosave. See package clients. */
public final class Client {
  private static final String SCHEMA = "client_jdbc";
  private static final String UPSERT =
      "INSERT INTO " + SCHEMA + ".v VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET n = excluded.n";
  private static final String READ = "SELECT n FROM " + SCHEMA + ".v WHERE id = ?";

  private final String autosave;

  private Client(String autosave) {
    this.autosave = autosave;
  }

  private interface Step {
    void run(Connection connection) throws Exception;
  }

  private interface Action {
    void run() throws SQLException;
  }

  public static void main(String[] args) {
    for (String autosave : new String[] {"never", "always"}) {
      new Client(autosave).run();
    }
  }

  private void run() {
    step("connect", this::connect);
    step("reads", this::reads);
    step("own values", this::ownValues);
    step("transaction", this::transaction);
    step("savepoint", this::savepoint);
    step("batch", this::batch);
    step("cancel", this::cancel);
    step("copy", this::copy);
    step("listen", this::listen);
    step("temporary table", this::temporary);
    step("search_path", this::searchPath);
    step("cursor", this::cursor);
    step("closed statements", this::closed);
  }

  private void step(String name, Step step) {
    try (Connection connection = open()) {
      step.run(connection);
    } catch (Exception e) {
      System.err.println(name + " autosave " + autosave + ": " + e);
      e.printStackTrace();
      System.exit(1);
    }
    System.out.println("ok " + name + " autosave " + autosave);
  }

  private Connection open() throws SQLException {
    return open(new Properties());
  }

  private Connection open(Properties p) throws SQLException {
    p.setProperty("user", System.getenv("PGUSER"));
    p.setProperty("password", System.getenv("PGPASSWORD"));
    p.setProperty("sslmode", System.getenv("PGSSLMODE"));
    p.setProperty("prepareThreshold", "1");
    p.setProperty("autosave", autosave);
    p.setProperty("ApplicationName", "client jdbc");
    return DriverManager.getConnection(
        "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"), p);
  }

  private static void check(boolean ok, String complaint) {
    if (!ok) {
      throw new AssertionError(complaint);
    }
  }

  private static void execute(Connection c, String... all) throws SQLException {
    try (Statement s = c.createStatement()) {
      for (String sql : all) {
        s.execute(sql);
      }
    }
  }

  private static int value(PreparedStatement s) throws SQLException {
    try (ResultSet rows = s.executeQuery()) {
      check(rows.next(), s + " gives no row");
      return rows.getInt(1);
    }
  }

  private static void expect(Connection c, int want, String sql) throws SQLException {
    try (PreparedStatement s = c.prepareStatement(sql)) {
      int got = value(s);
      check(got == want, sql + " gives " + got + ", want " + want);
    }
  }

  private static void fails(String sqlstate, Action action) throws SQLException {
    try {
      action.run();
    } catch (SQLException e) {
      if (!sqlstate.equals(e.getSQLState())) {
        throw e;
      }
      return;
    }
    throw new AssertionError("no error " + sqlstate);
  }

  private void connect(Connection c) throws SQLException {
    execute(c, "DROP SCHEMA IF EXISTS " + SCHEMA + " CASCADE; CREATE SCHEMA " + SCHEMA,
        "CREATE TABLE " + SCHEMA + ".v (id int PRIMARY KEY, n int NOT NULL, word text)",
        "INSERT INTO " + SCHEMA + ".v VALUES (1, 0)");
  }

  private void reads(Connection c) throws SQLException {
    try (PreparedStatement s = c.prepareStatement("SELECT ?::int + sum(n)::int FROM generate_series(1, 3) n")) {
      for (int i = 0; i < 500; i++) {
        s.setInt(1, i);
        int got = value(s);
        check(got == i + 6, "a prepared statement gives " + got + ", want " + (i + 6));
      }
    }
  }

  private void ownValues(Connection c) throws SQLException {
    try (PreparedStatement write = c.prepareStatement(UPSERT); PreparedStatement read = c.prepareStatement(READ)) {
      write.setInt(1, 1);
      read.setInt(1, 1);
      for (int i = 0; i < 200; i++) {
        write.setInt(2, i);
        check(write.executeUpdate() == 1, "the write counts no row");
        int got = value(read);
        check(got == i, "reads " + got + " after writing " + i);
      }
    }
  }

  private void transaction(Connection c) throws SQLException {
    c.setAutoCommit(false);
    try (PreparedStatement write = c.prepareStatement(UPSERT); PreparedStatement read = c.prepareStatement(READ)) {
      write.setInt(1, 1);
      read.setInt(1, 1);
      for (int i = 0; i < 20; i++) {
        write.setInt(2, 1000 + i);
        write.executeUpdate();
        check(value(read) == 1000 + i, "the write is not seen in its transaction");
        c.commit();
        check(value(read) == 1000 + i, "the write is not seen after its transaction");
        c.commit();
      }
      write.setInt(2, -1);
      write.executeUpdate();
      c.rollback();
      check(value(read) == 1019, "the write is seen after a rollback");
      c.commit();
      c.setReadOnly(true);
      check(value(read) == 1019, "a read-only transaction reads something else");
      write.setInt(2, -1);
      fails("25006", write::executeUpdate);
      c.rollback();
      c.setReadOnly(false);
    }
  }

  private void savepoint(Connection c) throws SQLException {
    c.setAutoCommit(false);
    execute(c, "UPDATE " + SCHEMA + ".v SET n = 2000 WHERE id = 1");
    Savepoint here = c.setSavepoint("here");
    fails("23505", () -> execute(c, "INSERT INTO " + SCHEMA + ".v VALUES (1, 0)"));
    if (autosave.equals("always")) {
      // The driver has gone back to before the error by itself.
      execute(c, "UPDATE " + SCHEMA + ".v SET n = -1 WHERE id = 1");
    } else {
      fails("25P02", () -> expect(c, 0, "SELECT n FROM " + SCHEMA + ".v WHERE id = 1"));
    }
    c.rollback(here);
    execute(c, "UPDATE " + SCHEMA + ".v SET n = n + 1 WHERE id = 1");
    c.releaseSavepoint(here);
    c.commit();
    c.setAutoCommit(true);
    expect(c, 2001, "SELECT n FROM " + SCHEMA + ".v WHERE id = 1");
  }

  private void batch(Connection c) throws SQLException {
    for (int round = 0; round < 10; round++) {
      try (PreparedStatement write = c.prepareStatement(UPSERT)) {
        for (int i = 0; i < 300; i++) { // more than the driver sends before it reads answers
          write.setInt(1, 100 + i);
          write.setInt(2, round);
          write.addBatch();
        }
        int[] counts = write.executeBatch();
        check(counts.length == 300 && Arrays.stream(counts).allMatch(n -> n == 1), "a batch counts " + Arrays.toString(counts));
      }
      expect(c, 300 * round, "SELECT sum(n)::int FROM " + SCHEMA + ".v WHERE id BETWEEN 100 AND 399");
    }
    c.setAutoCommit(false);
    try (PreparedStatement insert = c.prepareStatement("INSERT INTO " + SCHEMA + ".v VALUES (?, 0)")) {
      for (int id : new int[] {500, 100, 501}) {
        insert.setInt(1, id);
        insert.addBatch();
      }
      fails("23505", insert::executeBatch);
    }
    c.rollback();
    c.setAutoCommit(true);
    expect(c, 0, "SELECT count(*)::int FROM " + SCHEMA + ".v WHERE id >= 500");
  }

  private void cancel(Connection c) throws SQLException {
    try (Statement s = c.createStatement()) {
      s.setQueryTimeout(1);
      fails("57014", () -> s.execute("INSERT INTO " + SCHEMA + ".v SELECT 900, 0 FROM pg_sleep(50)"));
    }
    try (PreparedStatement s = c.prepareStatement("SELECT 1 FROM pg_sleep(50)")) {
      s.setQueryTimeout(1);
      fails("57014", s::executeQuery);
    }
    expect(c, 0, "SELECT count(*)::int FROM " + SCHEMA + ".v WHERE id = 900");
  }

  private void copy(Connection c) throws Exception {
    StringBuilder lines = new StringBuilder();
    for (int i = 0; i < 2000; i++) {
      lines.append(10000 + i).append('\t').append(i).append('\t').append("ä".repeat(i % 50)).append('\n');
    }
    CopyManager copies = c.unwrap(PGConnection.class).getCopyAPI();
    long n = copies.copyIn("COPY " + SCHEMA + ".v (id, n, word) FROM STDIN", new StringReader(lines.toString()));
    check(n == 2000, "copied in " + n + " of 2000 rows");
    StringWriter out = new StringWriter();
    copies.copyOut("COPY (SELECT id, n, word FROM " + SCHEMA + ".v WHERE id >= 10000 ORDER BY id) TO STDOUT", out);
    check(out.toString().contentEquals(lines), "copied out something else than was copied in");
    fails("23505", () -> {
      try {
        copies.copyIn("COPY " + SCHEMA + ".v (id, n, word) FROM STDIN", new StringReader(lines.toString()));
      } catch (java.io.IOException e) {
        throw new SQLException(e);
      }
    });
    expect(c, 2000, "SELECT count(*)::int FROM " + SCHEMA + ".v WHERE id >= 10000");
    execute(c, "DELETE FROM " + SCHEMA + ".v WHERE id >= 10000");
  }

  private void listen(Connection c) throws SQLException {
    PGConnection news = c.unwrap(PGConnection.class);
    execute(c, "LISTEN jdbc_news");
    try (Connection sender = open(); PreparedStatement notify = sender.prepareStatement("SELECT pg_notify('jdbc_news', ?)")) {
      for (int i = 0; i < 10; i++) {
        notify.setString(1, "number " + i);
        notify.execute();
        PGNotification[] heard = news.getNotifications(50_000);
        check(heard != null && heard.length == 1 && heard[0].getName().equals("jdbc_news")
            && heard[0].getParameter().equals("number " + i), "notified of " + Arrays.toString(heard));
      }
    }
    execute(c, "UNLISTEN jdbc_news");
  }

  private void temporary(Connection c) throws SQLException {
    execute(c, "CREATE TEMP TABLE mine (n int)");
    try (PreparedStatement add = c.prepareStatement("INSERT INTO mine VALUES (?)")) {
      for (int i = 0; i < 20; i++) {
        add.setInt(1, i);
        add.executeUpdate();
        expect(c, i + 1, "SELECT count(*)::int FROM mine");
      }
    }
  }

  private void searchPath(Connection c) throws SQLException {
    String[] names = {SCHEMA + "_a", SCHEMA + "_b"};
    for (int i = 0; i < names.length; i++) {
      execute(c, "DROP SCHEMA IF EXISTS " + names[i] + " CASCADE; CREATE SCHEMA " + names[i],
          "CREATE TABLE " + names[i] + ".t AS SELECT " + i + " AS n");
    }
    for (int round = 0; round < 5; round++) {
      for (int i = 0; i < names.length; i++) {
        c.setSchema(names[i]);
        expect(c, i, "SELECT n FROM t");
      }
    }
  }

  /** Rows come in portions from a portal, which lives in its transaction. */
  private void cursor(Connection c) throws SQLException {
    c.setAutoCommit(false);
    for (int round = 0; round < 3; round++) {
      try (PreparedStatement s = c.prepareStatement("SELECT n FROM generate_series(0, ?) n")) {
        s.setFetchSize(7);
        s.setInt(1, 99);
        int next = 0;
        try (ResultSet rows = s.executeQuery()) {
          while (rows.next()) {
            check(rows.getInt(1) == next, "row " + next + " of a cursor is " + rows.getInt(1));
            if (next % 20 == 0) { // another statement between two portions
              expect(c, 1, "SELECT 1");
            }
            next++;
          }
        }
        check(next == 100, "a cursor gives " + next + " rows");
      }
      c.commit();
    }
  }

  /** What was closed is told the server in front of the next statement, which here is a simple query. */
  private void closed(Connection other) throws SQLException {
    Properties p = new Properties();
    p.setProperty("preferQueryMode", "extendedForPrepared");
    p.setProperty("preparedStatementCacheQueries", "0");
    try (Connection c = open(p)) {
      for (String route : new String[] {"primary", "auto"}) {
        expect(c, 1, "SELECT 1");
        execute(c, "SET pgpilot.route = '" + route + "'");
        shows(c, route);
        expect(c, 2, "SELECT 2");
        shows(c, route);
      }
    }
  }

  private static void shows(Connection c, String route) throws SQLException {
    try (Statement s = c.createStatement();
        ResultSet rows = s.executeQuery("SHOW pgpilot.route")) {
      check(rows.next() && route.equals(rows.getString(1)), "the route is not " + route);
    }
  }
}
