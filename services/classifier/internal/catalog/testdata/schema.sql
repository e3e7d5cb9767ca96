-- What the statements in verdicts.txt use. Run once, by a superuser, in the lab's database.
SET ROLE pgpilot;
CREATE TABLE t (id int PRIMARY KEY, a int, b text, c timestamptz, owner text DEFAULT 'me');
INSERT INTO t SELECT i, i % 7, 'row ' || i, '2024-01-01'::timestamptz + i * interval '1 hour' FROM generate_series(1, 50) i;
CREATE SCHEMA s;
CREATE TABLE s.u (id int PRIMARY KEY, t_id int, name text);
INSERT INTO s.u SELECT i, i * 2, 'u' || i FROM generate_series(1, 20) i;
CREATE TABLE both_ways (x int);
CREATE UNLOGGED TABLE s.both_ways (x int);
CREATE UNLOGGED TABLE fast (x int);
CREATE SEQUENCE seq;
CREATE TABLE serials (id serial, v int);

-- Functions in SQL
CREATE FUNCTION total() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT sum(a) FROM t';
CREATE FUNCTION total_of(n int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT sum(a) + $1 FROM public.t WHERE id > n';
CREATE FUNCTION total_atomic() RETURNS bigint LANGUAGE sql STABLE BEGIN ATOMIC SELECT sum(a) FROM t; END;
CREATE FUNCTION unmarked() RETURNS bigint LANGUAGE sql AS 'SELECT sum(a) FROM t';
CREATE FUNCTION add_one(int) RETURNS int LANGUAGE sql IMMUTABLE RETURN $1 + 1;
CREATE FUNCTION rows_of(n int) RETURNS TABLE (i int, j text) LANGUAGE sql STABLE AS 'SELECT id, b FROM t WHERE a = n';
CREATE FUNCTION fullname(t) RETURNS text LANGUAGE sql STABLE AS 'SELECT $1.b || $1.id';
CREATE FUNCTION nested() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT total() + total_of(3)';
CREATE FUNCTION again(n int) RETURNS int LANGUAGE sql STABLE AS 'SELECT CASE WHEN n > 0 THEN 1 ELSE 0 END';
CREATE OR REPLACE FUNCTION again(n int) RETURNS int LANGUAGE sql STABLE AS 'SELECT CASE WHEN n > 0 THEN again(n - 1) ELSE 0 END';
-- and lies about their volatility
CREATE FUNCTION lying_set() RETURNS text LANGUAGE sql STABLE AS $$SELECT set_config('a.b', 'c', false)$$;
CREATE FUNCTION lying_lock() RETURNS int LANGUAGE sql IMMUTABLE AS $$SELECT pg_advisory_lock(1); SELECT 1$$;
CREATE FUNCTION lying_atomic() RETURNS int LANGUAGE sql STABLE BEGIN ATOMIC SELECT pg_backend_pid(); END;
CREATE FUNCTION lying_seq() RETURNS bigint LANGUAGE sql STABLE AS $$SELECT nextval('seq')$$;
CREATE FUNCTION lying_deep() RETURNS text LANGUAGE sql STABLE AS 'SELECT lying_set()';
CREATE FUNCTION lying_default(x int DEFAULT pg_backend_pid()) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE FUNCTION ping(n int) RETURNS text LANGUAGE sql STABLE AS 'SELECT NULL::text';
CREATE FUNCTION pong(n int) RETURNS text LANGUAGE sql STABLE AS 'SELECT ping(n - 1)';
CREATE OR REPLACE FUNCTION ping(n int) RETURNS text LANGUAGE sql STABLE
  AS 'SELECT CASE WHEN n > 0 THEN pong(n) ELSE lying_set() END';
CREATE FUNCTION selects_unlogged() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM fast';
CREATE FUNCTION whole(s.u) RETURNS int LANGUAGE sql STABLE AS 'SELECT pg_backend_pid()';

-- Functions in PL/pgSQL
CREATE FUNCTION pl_sum(n int) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE r t%ROWTYPE; s bigint := 0;
BEGIN
  FOR r IN SELECT * FROM t WHERE id BETWEEN 1 AND n LOOP
    IF r.b LIKE 'row%' THEN s := s + add_one(r.a); END IF;
  END LOOP;
  RETURN s;
EXCEPTION WHEN division_by_zero THEN RETURN 0;
END$$;
CREATE FUNCTION pl_volatile() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE FUNCTION pl_set() RETURNS int LANGUAGE plpgsql STABLE AS $$BEGIN PERFORM set_config('a.b', 'c', false); RETURN 1; END$$;
CREATE FUNCTION pl_quoted() RETURNS int LANGUAGE plpgsql STABLE AS $$BEGIN PERFORM "pg_catalog"."set_config"('a.b', 'c', false); RETURN 1; END$$;
CREATE FUNCTION pl_execute() RETURNS int LANGUAGE plpgsql STABLE AS $$BEGIN EXECUTE 'SELECT set_' || 'config(''a.b'', ''c'', false)'; RETURN 1; END$$;
CREATE FUNCTION pl_calls() RETURNS int LANGUAGE plpgsql STABLE AS $$BEGIN RETURN length(lying_set()); END$$;
CREATE FUNCTION pl_column() RETURNS text LANGUAGE plpgsql STABLE AS $$BEGIN RETURN (SELECT x.whole FROM s.u x LIMIT 1); END$$;

-- Overloads, and names of PostgreSQL in other schemas
CREATE FUNCTION s.lower(text) RETURNS text LANGUAGE sql VOLATILE AS $$SELECT set_config('a.b', $1, false)$$;
CREATE FUNCTION over(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION over(text) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1';
CREATE FUNCTION over(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + $2';
CREATE FUNCTION s.elsewhere() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1';
CREATE FUNCTION elsewhere() RETURNS int LANGUAGE sql STABLE AS 'SELECT 2';

-- Views
CREATE VIEW plain AS SELECT id, b FROM t WHERE a > 1;
CREATE VIEW plain_twice AS SELECT p.id, u.name FROM plain p JOIN s.u USING (id);
CREATE VIEW calls_stable AS SELECT total() AS n, fullname(t) AS f FROM t;
CREATE VIEW calls_volatile AS SELECT unmarked() AS n;
CREATE VIEW over_volatile AS SELECT n FROM calls_volatile;
CREATE VIEW over_over_volatile AS SELECT n + 1 AS n FROM over_volatile;
CREATE VIEW calls_pid AS SELECT pg_backend_pid() AS pid FROM t;
CREATE VIEW over_pid AS SELECT p.id FROM plain p, LATERAL (SELECT pid FROM calls_pid LIMIT 1) x;
CREATE VIEW calls_lock AS SELECT pg_try_advisory_lock(id) FROM t;
CREATE VIEW of_activity AS SELECT pid FROM pg_stat_activity;
CREATE VIEW of_classes AS SELECT relname FROM pg_class WHERE relkind = 'v' AND relname LIKE 'plain%';
CREATE VIEW of_columns AS SELECT column_name FROM information_schema.columns WHERE table_name = 't';
CREATE VIEW locking AS SELECT * FROM t FOR UPDATE;
CREATE VIEW of_fast AS SELECT * FROM fast;
CREATE VIEW of_sequence AS SELECT last_value FROM seq;
CREATE VIEW attribute_view AS SELECT (x).whole FROM s.u x;
CREATE MATERIALIZED VIEW mat AS SELECT id, pg_backend_pid() AS pid FROM t;
CREATE VIEW of_mat AS SELECT id FROM mat;

-- Row-level security
CREATE TABLE tenants (id int, who text);
INSERT INTO tenants VALUES (1, 'pgpilot'), (2, 'other');
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON tenants USING (who = current_user);
CREATE TABLE guarded (id int, who text);
INSERT INTO guarded VALUES (1, 'pgpilot');
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
ALTER TABLE guarded FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON guarded USING (lying_set() IS NOT NULL);
CREATE TABLE guarded_off (id int, who text);
CREATE POLICY p ON guarded_off USING (lying_set() IS NOT NULL);
CREATE TABLE guarded_pid (id int);
ALTER TABLE guarded_pid ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON guarded_pid FOR SELECT USING (pg_try_advisory_lock(id));
CREATE TABLE guarded_insert (id int);
ALTER TABLE guarded_insert ENABLE ROW LEVEL SECURITY;
CREATE POLICY r ON guarded_insert FOR SELECT USING (true);
CREATE POLICY w ON guarded_insert FOR INSERT WITH CHECK (unmarked() > 0);
CREATE VIEW of_guarded AS SELECT id FROM guarded;

-- Partitions and inheritance
CREATE TABLE parts (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (100);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (100) TO (200);
INSERT INTO parts VALUES (1, 'a'), (150, 'b');
CREATE TABLE mixed (id int, v text) PARTITION BY LIST (id);
CREATE TABLE mixed_1 PARTITION OF mixed FOR VALUES IN (1);
CREATE UNLOGGED TABLE mixed_2 PARTITION OF mixed FOR VALUES IN (2);
CREATE TABLE parent (id int);
CREATE UNLOGGED TABLE child () INHERITS (parent);

-- Types
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (x int, m mood);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE FUNCTION check_set(int) RETURNS bool LANGUAGE sql IMMUTABLE AS $$SELECT set_config('a.b', 'c', false) IS NOT NULL$$;
CREATE DOMAIN watched AS int CHECK (check_set(VALUE));
CREATE DOMAIN locked AS int CHECK (pg_try_advisory_xact_lock(VALUE));
CREATE DOMAIN watched_twice AS watched;
CREATE TYPE watched_pair AS (x int, y watched);
CREATE TABLE moods (id int, m mood, p pair, n positive);
INSERT INTO moods VALUES (1, 'ok', (1, 'sad'), 3);
CREATE TABLE watching (id int, n watched);
CREATE FUNCTION takes_watched(watched) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE TYPE floats AS RANGE (subtype = float8, subtype_diff = float8mi);

-- Operators
CREATE FUNCTION same_mod(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 10 = $2 % 10';
CREATE OPERATOR %% (FUNCTION = same_mod, LEFTARG = int, RIGHTARG = int);
CREATE FUNCTION noisy(int, int) RETURNS bool LANGUAGE sql VOLATILE AS $$SELECT set_config('a.b', 'c', false) IS NOT NULL$$;
CREATE OPERATOR s.%%% (FUNCTION = noisy, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR s.<-> (FUNCTION = noisy, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR s.@#@ (FUNCTION = pg_advisory_lock, RIGHTARG = bigint);

-- Aggregates
CREATE AGGREGATE product(int) (SFUNC = int4mul, STYPE = int, INITCOND = '1');
CREATE FUNCTION add_noisily(int, int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$BEGIN PERFORM set_config('a.b', 'c', false); RETURN $1 + $2; END$$;
CREATE AGGREGATE noisy_sum(int) (SFUNC = add_noisily, STYPE = int, INITCOND = '0');
CREATE AGGREGATE locking_sum(bigint) (SFUNC = int8pl, STYPE = bigint, FINALFUNC = pg_try_advisory_lock);

-- Casts and C functions need a superuser
RESET ROLE;
CREATE TYPE box_id AS (n int);
CREATE FUNCTION to_box_id(int) RETURNS box_id LANGUAGE sql VOLATILE AS $$SELECT ROW(length(set_config('a.b', 'c', false)))::box_id$$;
CREATE CAST (int AS box_id) WITH FUNCTION to_box_id(int);
CREATE TABLE boxes (b box_id);
CREATE FUNCTION renamed_lower(text) RETURNS text LANGUAGE internal IMMUTABLE STRICT AS 'lower';
CREATE FUNCTION renamed_lock(bigint) RETURNS void LANGUAGE internal IMMUTABLE STRICT AS 'pg_advisory_lock_int8';
CREATE FUNCTION renamed_handler() RETURNS language_handler LANGUAGE c AS '$libdir/plpgsql', 'plpgsql_call_handler';
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE far (id int) SERVER nowhere;
CREATE VIEW of_far AS SELECT id FROM far;
GRANT SELECT ON boxes, far, of_far TO pgpilot;
ANALYZE;

SET ROLE pgpilot;
-- Columns that are calls, by other ways than a function of the row itself
CREATE FUNCTION whole_each(VARIADIC s.u[]) RETURNS int LANGUAGE sql STABLE AS 'SELECT pg_backend_pid()';
CREATE FUNCTION whole_any(anyelement) RETURNS int LANGUAGE sql STABLE AS 'SELECT pg_backend_pid()';
-- System columns that differ between servers
CREATE VIEW of_commands AS SELECT cmin::text AS c FROM t;
CREATE TABLE guarded_commands (id int);
ALTER TABLE guarded_commands ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON guarded_commands USING (cmax IS NOT NULL);
CREATE FUNCTION commands() RETURNS text LANGUAGE sql STABLE AS 'SELECT cmax::text FROM t LIMIT 1';
CREATE FUNCTION commands_atomic() RETURNS text LANGUAGE sql STABLE BEGIN ATOMIC SELECT cmax::text FROM t LIMIT 1; END;
CREATE FUNCTION pl_commands() RETURNS text LANGUAGE plpgsql STABLE AS $$BEGIN RETURN (SELECT t.cmin FROM t LIMIT 1); END$$;
-- Settings that a standby refuses
DO $do$ BEGIN -- from 16 on the primary refuses them, too
  IF current_setting('server_version_num')::int < 160000 THEN
    CREATE FUNCTION read_write() RETURNS int LANGUAGE sql STABLE SET transaction_read_only = off AS 'SELECT 1';
  ELSE
    CREATE FUNCTION read_write() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1';
  END IF;
END $do$;
CREATE FUNCTION with_setting() RETURNS int LANGUAGE sql STABLE SET work_mem = '1MB' AS 'SELECT 1';
-- Statistics, of which the planner evaluates what does not depend on a row
CREATE FUNCTION lying_immutable(int) RETURNS int LANGUAGE sql IMMUTABLE AS $$SELECT length(set_config('a.b', 'c', false))$$;
CREATE TABLE measured (a int, b int);
CREATE STATISTICS measured_calls ON (a + lying_immutable(1)), b FROM measured;
CREATE TABLE measured_plainly (a int, b int);
CREATE STATISTICS measured_plainly_sum ON (a + b), b FROM measured_plainly;
-- Members of an operator family of PostgreSQL's
CREATE TYPE grade AS ENUM ('low', 'high');
CREATE TABLE grades (g grade, n int);
INSERT INTO grades VALUES ('low', 1);
CREATE TYPE watched_grade AS ENUM ('low', 'high');
CREATE FUNCTION watched_compare(int, watched_grade) RETURNS int LANGUAGE sql IMMUTABLE AS $$SELECT lying_immutable(1)$$;
RESET ROLE;
ALTER OPERATOR FAMILY integer_ops USING btree ADD FUNCTION 1 (int, watched_grade) watched_compare(int, watched_grade);
SET ROLE pgpilot;
CREATE TABLE watched_grades (g watched_grade);
-- Operators by which the planner replaces others, and that hash and sort in families of
-- their own
CREATE FUNCTION noisy_hash(int) RETURNS int LANGUAGE sql IMMUTABLE AS $$SELECT hashint4($1 % 10) + 0 * length(set_config('a.b', 'c', false))$$;
CREATE FUNCTION noisy_order(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS $$SELECT $2 - $1 + 0 * length(set_config('a.b', 'c', false))$$;
CREATE OPERATOR @=@ (FUNCTION = same_mod, LEFTARG = int, RIGHTARG = int, NEGATOR = @<>@);
CREATE OPERATOR @<>@ (FUNCTION = noisy, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR @<@ (FUNCTION = int4lt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = @>@, RESTRICT = scalarltsel);
CREATE OPERATOR @>@ (FUNCTION = noisy, LEFTARG = int, RIGHTARG = int, RESTRICT = scalargtsel);
CREATE OPERATOR #=# (FUNCTION = same_mod, LEFTARG = int, RIGHTARG = int, COMMUTATOR = #=#, HASHES);
CREATE OPERATOR #<# (FUNCTION = int4lt, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR #>=# (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int);
CREATE FUNCTION quiet_hash(int) RETURNS int LANGUAGE sql IMMUTABLE AS $$SELECT hashint4($1 % 10)$$;
CREATE OPERATOR #==# (FUNCTION = same_mod, LEFTARG = int, RIGHTARG = int, COMMUTATOR = #==#, HASHES);
RESET ROLE;
CREATE OPERATOR CLASS noisy_hashes FOR TYPE int USING hash AS OPERATOR 1 #=#, FUNCTION 1 noisy_hash(int);
CREATE OPERATOR CLASS quiet_hashes FOR TYPE int USING hash AS OPERATOR 1 #==#, FUNCTION 1 quiet_hash(int);
CREATE OPERATOR CLASS noisy_orders FOR TYPE int USING btree AS OPERATOR 1 #<#, OPERATOR 3 #>=#, FUNCTION 1 noisy_order(int, int);
-- Members of a family by which the planner compares what two others imply
CREATE TYPE temper AS ENUM ('low', 'high');
CREATE TABLE tempers (m temper);
GRANT SELECT ON tempers TO pgpilot;
CREATE FUNCTION quiet_temper(bigint, temper) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE FUNCTION noisy_temper(int, temper) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$SELECT set_config('a.b', 'c', false) IS NULL$$;
CREATE OPERATOR #~# (FUNCTION = quiet_temper, LEFTARG = bigint, RIGHTARG = temper);
CREATE OPERATOR #~~# (FUNCTION = noisy_temper, LEFTARG = int, RIGHTARG = temper);
CREATE OPERATOR FAMILY tempers USING btree;
ALTER OPERATOR FAMILY tempers USING btree ADD OPERATOR 3 #~# (bigint, temper), OPERATOR 3 #~~# (int, temper);
SET ROLE pgpilot;

-- Parameters and results that have calls behind them
CREATE FUNCTION of_number(n bigint) RETURNS text LANGUAGE sql STABLE AS 'SELECT n.pg_try_advisory_lock::text';
CREATE FUNCTION of_its_number(n bigint) RETURNS text LANGUAGE sql STABLE AS 'SELECT of_its_number.n.pg_try_advisory_lock::text';
CREATE FUNCTION of_comma("a,n" bigint, x int) RETURNS text LANGUAGE sql STABLE AS 'SELECT "a,n".pg_try_advisory_lock::text';
CREATE FUNCTION of_row(n s.u) RETURNS text LANGUAGE sql STABLE AS 'SELECT n.name || n.id';
CREATE FUNCTION of_another(n bigint) RETURNS text LANGUAGE sql STABLE AS 'SELECT max(x.age) FROM (SELECT b AS age FROM t WHERE id < n) x';
CREATE FUNCTION one_out(OUT z bigint) LANGUAGE sql IMMUTABLE AS 'SELECT 1::bigint';
CREATE FUNCTION k(bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$SELECT length(set_config('a.b', 'c', false))::bigint$$;
CREATE FUNCTION s.pg_partition_tree(int) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT $1::bigint';
CREATE FUNCTION isleaf(bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$SELECT length(set_config('a.b', 'c', false))::bigint$$;

-- Bodies that the server reads otherwise than they look
CREATE FUNCTION a_function_whose_name_is_as_long_as_postgresql_lets_it_be_12345() RETURNS int LANGUAGE sql VOLATILE AS $$SELECT length(set_config('a.b', 'c', false))$$;
CREATE FUNCTION pl_long_name() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN a_function_whose_name_is_as_long_as_postgresql_lets_it_be_12345_and_more(); END';
CREATE FUNCTION pl_long_quoted() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN "a_function_whose_name_is_as_long_as_postgresql_lets_it_be_12345_and_more"(); END';
CREATE FUNCTION backslashes() RETURNS text LANGUAGE sql STABLE SET standard_conforming_strings = off
  AS $$SELECT concat('\'', pg_try_advisory_lock(1), ' -- '
)$$;
CREATE FUNCTION pl_backslashes() RETURNS text LANGUAGE plpgsql STABLE SET standard_conforming_strings = off
  AS $$BEGIN RETURN concat('\'', pg_try_advisory_lock(1), ' -- '
); END$$;

-- What stays in the transaction
CREATE FUNCTION pl_cursor() RETURNS refcursor LANGUAGE plpgsql STABLE AS $$DECLARE c refcursor := 'kept'; BEGIN OPEN c FOR SELECT 1; RETURN c; END$$;
CREATE FUNCTION pl_cursor_if(b bool) RETURNS refcursor LANGUAGE plpgsql STABLE AS $$DECLARE c CURSOR FOR SELECT 1; BEGIN IF b THEN OPEN c; END IF; RETURN c; END$$;
CREATE FUNCTION pl_loop() RETURNS int LANGUAGE plpgsql STABLE AS $$DECLARE c CURSOR FOR SELECT 1 AS n; s int := 0; BEGIN FOR r IN c LOOP s := s + r.n; END LOOP; RETURN s; END$$;
CREATE TABLE prices (open int, close int);
CREATE FUNCTION pl_prices() RETURNS bigint LANGUAGE plpgsql STABLE AS $$BEGIN RETURN (SELECT sum(CASE WHEN open > close THEN open ELSE close END) FROM prices); END$$;
CREATE FUNCTION pl_local() RETURNS text LANGUAGE plpgsql STABLE AS $$BEGIN RETURN set_config('a.b', 'c', true); END$$;

-- What is made by SQL that a function makes itself
CREATE FUNCTION pl_makes() RETURNS void LANGUAGE plpgsql AS $$BEGIN EXECUTE format('CREATE TEMP TABLE %I (a int)', 'made'); END$$;
CREATE FUNCTION pl_makes_locally() RETURNS void LANGUAGE plpgsql AS $$BEGIN EXECUTE 'SET LOCAL work_mem = ''1MB'''; UPDATE t SET a = 1 WHERE false; END$$;

-- A table in the place of PostgreSQL's
CREATE SCHEMA shadow;
CREATE VIEW shadow.pg_proc AS SELECT pg_backend_pid() AS oid;
RESET ROLE;
