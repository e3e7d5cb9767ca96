"""Does what users of psycopg 3 do, without and with pipeline mode. See package clients."""

import contextlib
import sys
import threading
import time

import psycopg
from psycopg import sql

SCHEMA = "client_psycopg3"


def check(got, want, what):
    if got != want:
        raise AssertionError(f"{what} gives {got!r}, want {want!r}")


def connect():
    connection = psycopg.connect("", autocommit=True)  # libpq's environment variables
    connection.prepare_threshold = 1  # prepared from the second execution
    return connection


def value(connection, query, *args):
    return connection.execute(query, args).fetchone()[0]


def step_connect(connection, batch):
    connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    connection.execute(f"CREATE SCHEMA {SCHEMA}")
    connection.execute(f"CREATE TABLE {SCHEMA}.v (id int PRIMARY KEY, n int NOT NULL, word text)")
    connection.execute(f"INSERT INTO {SCHEMA}.v VALUES (1, 0)")


def step_reads(connection, batch):
    query = "SELECT %s::int + sum(n)::int FROM generate_series(1, 3) n"
    for start in range(0, 1000, 2):
        with batch(connection):
            # A pipeline has one Sync, at its end: it is one batch with one destination.
            cursors = [connection.execute(query, (i,)) for i in range(start, start + 2)]
        for i, cursor in enumerate(cursors):
            check(cursor.fetchone()[0], start + i + 6, query)


def step_own_values(connection, batch):
    for i in range(200):
        with batch(connection):
            connection.execute(f"UPDATE {SCHEMA}.v SET n = %s WHERE id = 1", (i,))
            cursor = connection.execute(f"SELECT n FROM {SCHEMA}.v WHERE id = %s", (1,))
        check(cursor.fetchone()[0], i, "the read of the own value in the pipeline")
        check(value(connection, f"SELECT n FROM {SCHEMA}.v WHERE id = %s", 1), i, "the read of the own value")


def step_transaction(connection, batch):
    for i in range(20):
        with batch(connection), connection.transaction():
            connection.execute(f"UPDATE {SCHEMA}.v SET n = %s WHERE id = 1", (1000 + i,))
            check(value(connection, f"SELECT n FROM {SCHEMA}.v WHERE id = %s", 1), 1000 + i, "the read in a transaction")
        check(value(connection, f"SELECT n FROM {SCHEMA}.v WHERE id = %s", 1), 1000 + i, "the read after a transaction")
    with batch(connection), connection.transaction(force_rollback=True):
        connection.execute(f"UPDATE {SCHEMA}.v SET n = -1")
    check(value(connection, f"SELECT n FROM {SCHEMA}.v WHERE id = %s", 1), 1019, "the read after a rollback")


def step_savepoint(connection, batch):
    with connection.transaction():
        connection.execute(f"UPDATE {SCHEMA}.v SET n = 2000 WHERE id = 1")
        try:
            with batch(connection), connection.transaction():
                connection.execute(f"INSERT INTO {SCHEMA}.v VALUES (%s, 0)", (1,))
        except psycopg.errors.UniqueViolation:
            pass
        else:
            raise AssertionError("a second row with the key is no error")
        connection.execute(f"UPDATE {SCHEMA}.v SET n = n + %s WHERE id = 1", (1,))
    check(value(connection, f"SELECT n FROM {SCHEMA}.v WHERE id = 1"), 2001, "the read after a savepoint")


def step_batch(connection, batch):
    upsert = f"INSERT INTO {SCHEMA}.v VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET n = excluded.n"
    for turn in range(10):
        connection.cursor().executemany(upsert, [(100 + i, turn) for i in range(20)])
        with batch(connection):
            cursors = [connection.execute(f"SELECT n FROM {SCHEMA}.v WHERE id = %s", (100 + i,)) for i in range(5)]
        for cursor in cursors:
            check(cursor.fetchone()[0], turn, "the read of a batch's value")
    # An error spares what comes after it in its pipeline only if that has a Sync before it.
    with contextlib.suppress(psycopg.errors.UniqueViolation):
        with batch(connection), connection.transaction():
            connection.execute(f"INSERT INTO {SCHEMA}.v VALUES (%s, 0)", (500,))
            connection.execute(f"INSERT INTO {SCHEMA}.v VALUES (%s, 0)", (100,))
            connection.execute(f"INSERT INTO {SCHEMA}.v VALUES (%s, 0)", (501,))
    check(value(connection, f"SELECT count(*) FROM {SCHEMA}.v WHERE id >= %s", 500), 0, "the read after a failed batch")


def step_cancel(connection, batch):
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%psycopg3 sleeps'"
    with connect() as watcher:

        def cancel():
            while watcher.execute(asleep).fetchone()[0] == 0:
                time.sleep(0.005)
            connection.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            connection.execute(f"INSERT INTO {SCHEMA}.v SELECT 900, 0 FROM pg_sleep(50) -- psycopg3 sleeps")
        except psycopg.errors.QueryCanceled:
            pass
        else:
            raise AssertionError("a cancelled statement is no error")
        finally:
            thread.join()
    check(value(connection, f"SELECT count(*) FROM {SCHEMA}.v WHERE id = %s", 900), 0, "the read after a cancel")


def step_copy(connection, batch):
    rows = 2000
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {SCHEMA}.v (id, n, word) FROM STDIN") as copy:
            for i in range(rows):
                copy.write_row((10000 + i, i, "ä" * (i % 50)))
        check(cursor.rowcount, rows, "the copy in")
        with cursor.copy(f"COPY (SELECT id, n, word FROM {SCHEMA}.v WHERE id >= 10000 ORDER BY id) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int4", "int4", "text"])
            for i, row in enumerate(copy.rows()):
                check(row, (10000 + i, i, "ä" * (i % 50)), "a copied row")
            check(i, rows - 1, "the last copied row")
        try:
            with cursor.copy(f"COPY {SCHEMA}.v (id, n) FROM STDIN") as copy:
                copy.write_row((20000, 0))
                raise InterruptedError  # the driver ends the copy with CopyFail
        except psycopg.errors.QueryCanceled:
            pass
        else:
            raise AssertionError("a copy that was given up is no error")
        try:
            with cursor.copy(f"COPY {SCHEMA}.v (id, n) FROM STDIN") as copy:
                for i in range(rows):
                    copy.write_row((10000 + i, 0))  # rows that are there already
        except psycopg.errors.UniqueViolation:
            pass
        else:
            raise AssertionError("a copy of rows that are there is no error")
    check(value(connection, f"SELECT count(*) FROM {SCHEMA}.v WHERE id >= %s", 10000), rows, "the read after copies")


def step_listen(connection, batch):
    connection.execute("LISTEN psycopg3_news")
    with connect() as sender:
        for i in range(10):
            sender.execute("SELECT pg_notify('psycopg3_news', %s)", (f"number {i}",))
            notice = next(connection.notifies())
            check((notice.channel, notice.payload), ("psycopg3_news", f"number {i}"), "the notification")
    connection.execute("UNLISTEN *")


def step_temporary_table(connection, batch):
    with batch(connection):
        connection.execute("CREATE TEMP TABLE mine (n int)")
        for i in range(20):
            connection.execute("INSERT INTO mine VALUES (%s)", (i,))
            check(value(connection, "SELECT count(*) FROM mine WHERE n >= %s", 0), i + 1, "the temporary table")


def step_search_path(connection, batch):
    names = [SCHEMA + "_a", SCHEMA + "_b"]
    for i, name in enumerate(names):
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        connection.execute(f"CREATE SCHEMA {name}")
        connection.execute(f"CREATE TABLE {name}.t (n int)")
        connection.execute(f"INSERT INTO {name}.t VALUES (%s)", (i,))
    for _ in range(5):
        for i, name in enumerate(names):
            with batch(connection):
                connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(name)))
                check(value(connection, "SELECT n FROM t WHERE n >= %s", 0), i, "the table of " + name)


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
    modes = [
        ("plain", lambda connection: contextlib.nullcontext()),
        ("pipeline", lambda connection: connection.pipeline()),
    ]
    for mode, batch in modes:
        for name, step in STEPS:
            try:
                with connect() as connection:
                    step(connection, batch)
            except Exception as error:
                error.args = (f"{name} {mode}: {error}",)
                raise
            print("ok", name, mode, flush=True)


if __name__ == "__main__":
    sys.exit(main())
