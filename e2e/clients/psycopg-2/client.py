"""Does what users of psycopg2 do. It speaks the simple query protocol only. See package clients."""

import io
import select
import sys
import threading
import time

import psycopg2
import psycopg2.errors
import psycopg2.extras

SCHEMA = "client_psycopg2"


def check(got, want, what):
    if got != want:
        raise AssertionError(f"{what} gives {got!r}, want {want!r}")


def connect():
    connection = psycopg2.connect("")  # libpq's environment variables
    connection.autocommit = True
    return connection


def execute(connection, query, *args):
    with connection.cursor() as cursor:
        cursor.execute(query, args)


def value(connection, query, *args):
    with connection.cursor() as cursor:
        cursor.execute(query, args)
        return cursor.fetchone()[0]


def step_connect(connection):
    execute(connection, f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA}")
    execute(connection, f"CREATE TABLE {SCHEMA}.v (id int PRIMARY KEY, n int NOT NULL, word text)")
    execute(connection, f"INSERT INTO {SCHEMA}.v VALUES (1, 0)")


def step_reads(connection):
    for i in range(500):
        check(value(connection, "SELECT %s::int + sum(n)::int FROM generate_series(1, 3) n", i), i + 6, "a read")


def step_own_values(connection):
    execute(connection, f"PREPARE own (int) AS SELECT n FROM {SCHEMA}.v WHERE id = $1")
    for i in range(200):
        execute(connection, f"UPDATE {SCHEMA}.v SET n = %s WHERE id = 1", i)
        check(value(connection, f"SELECT n FROM {SCHEMA}.v WHERE id = %s", 1), i, "the read of the own value")
        check(value(connection, "EXECUTE own(%s)", 1), i, "the prepared read of the own value")
    execute(connection, "DEALLOCATE own")


def step_transaction(connection):
    connection.autocommit = False
    for i in range(20):
        execute(connection, f"UPDATE {SCHEMA}.v SET n = %s WHERE id = 1", 1000 + i)
        check(value(connection, f"SELECT n FROM {SCHEMA}.v WHERE id = 1"), 1000 + i, "the read in a transaction")
        connection.commit()
        check(value(connection, f"SELECT n FROM {SCHEMA}.v WHERE id = 1"), 1000 + i, "the read after a transaction")
        connection.commit()
    execute(connection, f"UPDATE {SCHEMA}.v SET n = -1")
    connection.rollback()
    check(value(connection, f"SELECT n FROM {SCHEMA}.v WHERE id = 1"), 1019, "the read after a rollback")
    connection.commit()
    connection.set_session(isolation_level="SERIALIZABLE", readonly=True)
    check(value(connection, f"SELECT n FROM {SCHEMA}.v WHERE id = 1"), 1019, "the read in a serializable transaction")
    try:
        execute(connection, f"UPDATE {SCHEMA}.v SET n = -1")
    except psycopg2.errors.ReadOnlySqlTransaction:
        connection.rollback()
    else:
        raise AssertionError("a write in a read-only transaction is no error")
    # A named cursor lives in its transaction.
    with connection.cursor("many") as cursor:
        cursor.itersize = 7
        cursor.execute("SELECT n FROM generate_series(0, 99) n")
        check([row[0] for row in cursor], list(range(100)), "a cursor")
    connection.commit()


def step_savepoint(connection):
    connection.autocommit = False
    execute(connection, f"UPDATE {SCHEMA}.v SET n = 2000 WHERE id = 1")
    execute(connection, "SAVEPOINT here")
    try:
        execute(connection, f"INSERT INTO {SCHEMA}.v VALUES (%s, 0)", 1)
    except psycopg2.errors.UniqueViolation:
        execute(connection, "ROLLBACK TO SAVEPOINT here")
    else:
        raise AssertionError("a second row with the key is no error")
    execute(connection, f"UPDATE {SCHEMA}.v SET n = n + %s WHERE id = 1", 1)
    execute(connection, "RELEASE SAVEPOINT here")
    connection.commit()
    check(value(connection, f"SELECT n FROM {SCHEMA}.v WHERE id = 1"), 2001, "the read after a savepoint")
    connection.commit()


def step_batch(connection):
    upsert = f"INSERT INTO {SCHEMA}.v VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET n = excluded.n"
    with connection.cursor() as cursor:
        for turn in range(10):
            psycopg2.extras.execute_batch(cursor, upsert, [(100 + i, turn) for i in range(20)], page_size=7)
            check(value(connection, f"SELECT sum(n) FROM {SCHEMA}.v WHERE id >= 100"), 20 * turn, "the read of a batch's values")


def step_cancel(connection):
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%%psycopg2 sleeps'"
    watcher = connect()

    def cancel():
        while value(watcher, asleep) == 0:
            time.sleep(0.005)
        connection.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        execute(connection, f"INSERT INTO {SCHEMA}.v SELECT 900, 0 FROM pg_sleep(50) -- psycopg2 sleeps")
    except psycopg2.errors.QueryCanceled:
        pass
    else:
        raise AssertionError("a cancelled statement is no error")
    finally:
        thread.join()
        watcher.close()
    check(value(connection, f"SELECT count(*) FROM {SCHEMA}.v WHERE id = %s", 900), 0, "the read after a cancel")


def step_copy(connection):
    rows = 2000
    lines = "".join(f"{10000 + i}\t{i}\t{'ä' * (i % 50)}\n" for i in range(rows))
    with connection.cursor() as cursor:
        cursor.copy_expert(f"COPY {SCHEMA}.v (id, n, word) FROM STDIN", io.StringIO(lines))
        check(cursor.rowcount, rows, "the copy in")
        out = io.StringIO()
        cursor.copy_expert(f"COPY (SELECT id, n, word FROM {SCHEMA}.v WHERE id >= 10000 ORDER BY id) TO STDOUT", out)
        check(out.getvalue(), lines, "the copy out")
        try:
            cursor.copy_expert(f"COPY {SCHEMA}.v (id, n, word) FROM STDIN", io.StringIO(lines))
        except psycopg2.errors.UniqueViolation:
            pass
        else:
            raise AssertionError("a copy of rows that are there is no error")
    check(value(connection, f"SELECT count(*) FROM {SCHEMA}.v WHERE id >= 10000"), rows, "the read after copies")


def step_listen(connection):
    execute(connection, "LISTEN psycopg2_news")
    sender = connect()
    for i in range(10):
        execute(sender, "SELECT pg_notify('psycopg2_news', %s)", f"number {i}")
        while not connection.notifies:
            if select.select([connection], [], [], 50) == ([], [], []):
                raise AssertionError(f"no notification number {i}")
            connection.poll()
        notice = connection.notifies.pop(0)
        check((notice.channel, notice.payload), ("psycopg2_news", f"number {i}"), "the notification")
    sender.close()
    execute(connection, "UNLISTEN *")


def step_temporary_table(connection):
    execute(connection, "CREATE TEMP TABLE mine (n int)")
    for i in range(20):
        execute(connection, "INSERT INTO mine VALUES (%s)", i)
        check(value(connection, "SELECT count(*) FROM mine"), i + 1, "the temporary table")


def step_search_path(connection):
    names = [SCHEMA + "_a", SCHEMA + "_b"]
    for i, name in enumerate(names):
        execute(connection, f"DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}")
        execute(connection, f"CREATE TABLE {name}.t AS SELECT {i} AS n")
    for _ in range(5):
        for i, name in enumerate(names):
            execute(connection, f"SET search_path TO {name}")
            check(value(connection, "SELECT n FROM t"), i, "the table of " + name)


STEPS = [
    ("connect", step_connect),
    ("reads", step_reads),
    ("own values", step_own_values),
    ("transaction", step_transaction),
    ("savepoint", step_savepoint),
    ("batch", step_batch),
    ("cancel", step_cancel),
    ("copy", step_copy),
    ("listen", step_listen),
    ("temporary table", step_temporary_table),
    ("search_path", step_search_path),
]


def main():
    for name, step in STEPS:
        connection = connect()
        try:
            step(connection)
        except Exception as error:
            error.args = (f"{name}: {error}",)
            raise
        finally:
            connection.close()
        print("ok", name, flush=True)


if __name__ == "__main__":
    sys.exit(main())
