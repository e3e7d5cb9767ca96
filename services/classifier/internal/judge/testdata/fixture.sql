-- What the statements in verdicts.txt read. Run once, on the primary.
CREATE TABLE t (id int PRIMARY KEY, a int, b text, c timestamptz, d numeric, e jsonb, arr int[], r int4range);
INSERT INTO t SELECT i, i % 7, 'row ' || i, '2024-01-01'::timestamptz + i * interval '1 hour', i / 3.0,
  jsonb_build_object('n', i, 'tags', jsonb_build_array('x', i)), ARRAY[i, i + 1], int4range(i, i + 5) FROM generate_series(1, 50) i;
CREATE TABLE u (id int PRIMARY KEY, t_id int REFERENCES t, name text, doc xml);
INSERT INTO u SELECT i, i * 2, 'u' || i, '<a><b>1</b></a>' FROM generate_series(1, 20) i;
CREATE TABLE "Select" ("from" int, "DELETE" text);
CREATE SCHEMA s;
CREATE TABLE s.t (id int, parent int);
INSERT INTO s.t SELECT i, i / 2 FROM generate_series(1, 15) i;
CREATE TABLE pairs (x int, y int);
INSERT INTO pairs VALUES (1, 2), (3, 4);
ANALYZE;
