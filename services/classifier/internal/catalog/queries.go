package catalog

// The queries run with search_path = pg_catalog. Only what is not PostgreSQL's
// own (oid >= 12000, see firstUser) has expressions and dependencies. Schemas
// of temporary objects are left out: whoever has some is kept on the primary.

const functionsSQL = `
SELECT p.oid, n.nspname::text, p.proname::text,
	CASE WHEN p.oid < 12000 THEN replace(oidvectortypes(p.proargtypes), ', ', ',') ELSE '' END,
	l.lanname::text, p.provolatile::text,
	(CASE WHEN p.provariadic <> 0 THEN least(p.pronargs - 1, p.pronargs - p.pronargdefaults)
		ELSE p.pronargs - p.pronargdefaults END)::int4,
	(CASE WHEN p.provariadic <> 0 THEN -1 ELSE p.pronargs END)::int4,
	p.pronargs > 0 AND (t.typtype IN ('c', 'p', 'd') OR t.typtype IS NULL),
	coalesce(e.extname::text, ''),
	p.oid >= 12000 AND EXISTS (SELECT FROM unnest(p.proconfig) AS c(c) WHERE c.c ~* '^transaction_'),
	p.proargtypes::oid[] @> ARRAY['internal'::regtype::oid],
	p.oid >= 12000 AND EXISTS (SELECT FROM unnest(p.proconfig) AS c(c) WHERE c.c ~* '^standard_conforming_strings='),
	CASE WHEN p.oid >= 12000 AND l.lanname = 'sql' AND p.proargnames IS NOT NULL THEN ARRAY(
		SELECT a.name
		FROM unnest(p.proargnames, coalesce(p.proallargtypes, p.proargtypes::oid[])) AS a(name, type) JOIN pg_type t ON t.oid = a.type
		WHERE a.name <> '' AND t.typtype <> 'c') ELSE '{}' END,
	CASE WHEN p.oid >= 12000 AND l.lanname IN ('sql', 'plpgsql') OR l.lanname = 'internal' THEN p.prosrc ELSE '' END,
	CASE WHEN p.oid >= 12000 THEN coalesce(p.prosqlbody::text, '') ELSE '' END,
	CASE WHEN p.oid >= 12000 THEN coalesce(p.proargdefaults::text, '') ELSE '' END
FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace
JOIN pg_language l ON l.oid = p.prolang
LEFT JOIN pg_type t ON t.oid = CASE WHEN p.pronargs = 1 AND p.provariadic <> 0 THEN p.provariadic ELSE p.proargtypes[0] END
LEFT JOIN pg_depend d ON d.classid = 1255 AND d.objid = p.oid AND d.refclassid = 3079 AND d.deptype = 'e'
LEFT JOIN pg_extension e ON e.oid = d.refobjid
WHERE n.nspname !~ '^pg_(toast_)?temp_'`

// The functions an aggregate is made of. Those of PostgreSQL's own are reviewed.
const aggregatesSQL = `
SELECT a.aggfnoid::oid, f.f
FROM pg_aggregate a, unnest(ARRAY[a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn,
	a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn]::oid[]) AS f(f)
WHERE a.aggfnoid >= 12000 AND f.f <> 0`

const operatorsSQL = `
SELECT o.oid, n.nspname::text, o.oprname::text,
	CASE WHEN o.oid >= 12000 THEN array_remove(ARRAY[o.oprcode, o.oprrest, o.oprjoin]::oid[], 0::oid) ELSE '{}' END
FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace
WHERE n.nspname !~ '^pg_(toast_)?temp_'`

const castsSQL = `
SELECT c.oid, c.castsource, c.casttarget, c.castfunc, c.castcontext = 'i' AND t.typtype IN ('c', 'd', 'p')
FROM pg_cast c JOIN pg_type t ON t.oid = c.castsource
WHERE c.oid >= 12000`

const typesSQL = `
SELECT t.oid, n.nspname::text, t.typname::text
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE n.nspname !~ '^pg_(toast_)?temp_'`

const rangesSQL = `
SELECT r.rngtypid, f.f
FROM pg_range r, unnest(ARRAY[r.rngcanonical, r.rngsubdiff]::oid[]) AS f(f)
WHERE r.rngtypid >= 12000 AND f.f <> 0`

const relationsSQL = `
SELECT c.oid, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text,
	c.relrowsecurity, c.relam IN (0, 2)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid >= 12000 AND c.relkind IN ('r', 'v', 'm', 'f', 'p', 'S')
	AND n.nspname !~ '^pg_(toast|temp_)'`

const inheritanceSQL = `SELECT inhparent, inhrelid FROM pg_inherits`

// Node trees: of rules and policies, of checks, of extended statistics, which the
// planner simplifies and so evaluates in part, of the default values of columns and
// domains and of generated columns. Most defaults are constants. PostgreSQL's own views read
// what is in package builtin's tables; an UPDATE of pg_settings runs set_config by a rule.
const expressionsSQL = `
SELECT 2618::oid, r.oid, concat(r.ev_action::text, r.ev_qual::text)
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
WHERE r.oid >= 12000 AND (c.relnamespace <> 'pg_catalog'::regnamespace OR r.ev_type <> '1') AND c.relpersistence <> 't'
UNION ALL
SELECT 3256::oid, oid, polqual::text FROM pg_policy WHERE polqual IS NOT NULL AND polcmd IN ('*', 'r')
UNION ALL
SELECT 3::oid, oid, concat(polqual::text, polwithcheck::text) FROM pg_policy
UNION ALL
SELECT 2606::oid, oid, conbin::text FROM pg_constraint WHERE conbin IS NOT NULL AND oid >= 12000
UNION ALL
SELECT 3381::oid, oid, stxexprs::text FROM pg_statistic_ext WHERE stxexprs IS NOT NULL
UNION ALL
SELECT 2620::oid, oid, tgqual::text FROM pg_trigger WHERE tgqual IS NOT NULL
UNION ALL
SELECT 2::oid, oid, typdefaultbin::text FROM pg_type WHERE typdefaultbin IS NOT NULL
UNION ALL
SELECT 2604::oid, oid, adbin::text FROM pg_attrdef
WHERE adbin::text ~ ':(funcid|aggfnoid|winfnoid|opfuncid|opno|seqid) '`

// What runs, or may be evaluated by the planner, when its owner is read. Sorting and
// grouping run the functions and operators of a type's default btree (403) and
// hash (405) operator classes; of other classes only indexes run the functions, and
// joins, sorts and hashed lists by an operator that is in one of them. The planner puts
// an operator's commutator and negator in its place as it likes, and from what two operators
// of a family say it infers what a third does, for other pairs of types: so every member of
// such a family belongs to each user's type that it is for.
const partsSQL = `
SELECT 2618::oid, r.oid, 1259::oid, r.ev_class
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
WHERE r.ev_type = '1' AND c.relkind = 'v' AND r.oid >= 12000
UNION ALL
SELECT 3256::oid, p.oid, 1259::oid, p.polrelid
FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
WHERE c.relrowsecurity AND p.polcmd IN ('*', 'r')
UNION ALL
SELECT 2606::oid, oid, CASE WHEN contypid <> 0 THEN 1247::oid ELSE 1259::oid END,
	CASE WHEN contypid <> 0 THEN contypid ELSE conrelid END
FROM pg_constraint WHERE contype = 'c' AND oid >= 12000
UNION ALL
SELECT 3381::oid, oid, 1259::oid, stxrelid FROM pg_statistic_ext WHERE stxexprs IS NOT NULL
UNION ALL
SELECT 2604::oid, d.oid, 1259::oid, d.adrelid
FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
WHERE a.attgenerated = 'v'
UNION ALL
SELECT 2618::oid, r.oid, 1::oid, r.ev_class FROM pg_rewrite r WHERE r.oid >= 12000
UNION ALL
SELECT 2604::oid, oid, 1::oid, adrelid FROM pg_attrdef
UNION ALL
SELECT 2620::oid, oid, 1::oid, tgrelid FROM pg_trigger WHERE tgqual IS NOT NULL
UNION ALL
SELECT 3::oid, p.oid, 1::oid, p.polrelid
FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid WHERE c.relrowsecurity
UNION ALL
SELECT 3256::oid, p.oid, 1::oid, p.polrelid
FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid WHERE c.relrowsecurity
UNION ALL
SELECT 2::oid, t.oid, 1::oid, a.attrelid
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE t.typdefaultbin IS NOT NULL AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT DISTINCT 1259::oid, i.indexrelid, 1259::oid, i.indrelid
FROM pg_depend d JOIN pg_index i ON i.indexrelid = d.objid
WHERE d.classid = 1259 AND d.refclassid IN (1247, 1255, 2616, 2617, 2753) AND d.refobjid >= 12000
UNION ALL
SELECT 2616::oid, oid, 1247::oid, opcintype FROM pg_opclass
WHERE oid >= 12000 AND opcdefault AND opcmethod IN (403, 405)
UNION ALL
SELECT 1255::oid, a.amproc::oid, 1247::oid, t.t
FROM pg_amproc a JOIN pg_opfamily f ON f.oid = a.amprocfamily, unnest(ARRAY[a.amproclefttype, a.amprocrighttype]) AS t(t)
WHERE a.oid >= 12000 AND (f.oid < 12000 OR f.opfmethod IN (403, 405))
	AND (t.t >= 12000 OR f.oid < 12000 AND greatest(a.amproclefttype, a.amprocrighttype) < 12000)
UNION ALL
SELECT 2617::oid, a.amopopr, 1247::oid, t.t
FROM pg_amop a JOIN pg_opfamily f ON f.oid = a.amopfamily, unnest(ARRAY[a.amoplefttype, a.amoprighttype]) AS t(t)
WHERE a.oid >= 12000 AND (f.oid < 12000 OR f.opfmethod IN (403, 405))
	AND (t.t >= 12000 OR f.oid < 12000 AND greatest(a.amoplefttype, a.amoprighttype) < 12000)
UNION ALL
SELECT 2617::oid, p.p, 2617::oid, o.oid
FROM pg_operator o, unnest(ARRAY[o.oprcom, o.oprnegate]) AS p(p) WHERE p.p >= 12000
UNION ALL
SELECT 1255::oid, a.amproc::oid, 2617::oid, o.amopopr
FROM pg_amproc a JOIN pg_amop o ON o.amopfamily = a.amprocfamily AND o.amopmethod IN (403, 405)
	AND a.amproclefttype IN (o.amoplefttype, o.amoprighttype) AND a.amprocrighttype IN (o.amoplefttype, o.amoprighttype)
WHERE a.oid >= 12000
UNION ALL
SELECT 2617::oid, a.amopopr, 2617::oid, o.amopopr
FROM pg_amop a JOIN pg_amop o ON o.amopfamily = a.amopfamily AND o.amopmethod IN (403, 405)
	AND a.amoplefttype IN (o.amoplefttype, o.amoprighttype) AND a.amoprighttype IN (o.amoplefttype, o.amoprighttype)
WHERE a.oid >= 12000
UNION ALL
SELECT 1255::oid, a.amproc::oid, 2616::oid, c.oid
FROM pg_opclass c JOIN pg_amproc a ON a.amprocfamily = c.opcfamily WHERE c.oid >= 12000
UNION ALL
SELECT 2617::oid, a.amopopr, 2616::oid, c.oid
FROM pg_opclass c JOIN pg_amop a ON a.amopfamily = c.opcfamily WHERE c.oid >= 12000 AND c.opcmethod IN (403, 405)`

// Dependencies on what can run something. A table's on its parent is left out:
// reading a partition does not read its siblings. The type of a relation's rows
// depends on the types of its columns, not on the relation.
const dependsSQL = `
SELECT DISTINCT classid, objid, refclassid, refobjid
FROM pg_depend
WHERE refclassid IN (1247, 1255, 1259, 2616, 2617, 2753)
	AND classid IN (1247, 1255, 1259, 2604, 2606, 2616, 2617, 2618, 2620, 3256, 3381)
	AND deptype <> 'e' AND refobjid >= 12000
	AND NOT (classid = 1259 AND refclassid = 1259) AND NOT (classid = 1247 AND refclassid = 1259)
UNION
SELECT 1247::oid, t.oid, 1247::oid, d.refobjid
FROM pg_depend d JOIN pg_type t ON t.typrelid = d.objid
WHERE d.classid = 1259 AND d.refclassid = 1247 AND t.typtype = 'c' AND d.refobjid >= 12000`

// The triggers that are no constraint's own. Those of PostgreSQL itself are harmless.
const triggersSQL = `
SELECT t.tgrelid, t.tgfoid
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE t.tgfoid >= 12000 AND c.relpersistence <> 't'`

// Foreign keys by which a write to the referenced table writes the other.
const cascadesSQL = `
SELECT confrelid, conrelid FROM pg_constraint
WHERE contype = 'f' AND (confupdtype IN ('c', 'n', 'd') OR confdeltype IN ('c', 'n', 'd'))`

const identitiesSQL = `SELECT DISTINCT attrelid FROM pg_attribute WHERE attidentity <> ''`

const eventTriggersSQL = `SELECT evtfoid::oid FROM pg_event_trigger WHERE evtenabled <> 'D' AND evtevent <> 'login'`

// fingerprintSQL gives a text that is another one whenever any of the above may
// have changed: every change to a row writes a new one with a greater xmin, so
// that the number of rows or the sum of their xmin changes. Temporary relations
// with their types are left out, they come and go; their names are given beside it.
const fingerprintSQL = `
SELECT concat_ws(' ',
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_proc WHERE oid >= 12000),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_aggregate WHERE aggfnoid >= 12000),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_operator WHERE oid >= 12000),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_cast WHERE oid >= 12000),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_type WHERE oid >= 12000 AND typtype <> 'c' AND typcategory <> 'A'),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_class
		WHERE oid >= 12000 AND relpersistence <> 't' AND relkind IN ('r', 'v', 'm', 'f', 'p', 'S', 'c')),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_rewrite WHERE oid >= 12000),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_policy),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_constraint WHERE oid >= 12000 AND contype IN ('c', 'f')),
	(SELECT concat(count(*), '/', sum(t.xmin::text::int8)) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE t.tgfoid >= 12000 AND c.relpersistence <> 't'),
	(SELECT concat(count(*), '/', sum(d.xmin::text::int8)) FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid
		WHERE c.relpersistence <> 't'),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_event_trigger),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_statistic_ext),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_inherits),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_opclass WHERE oid >= 12000),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_amproc WHERE oid >= 12000),
	(SELECT concat(count(*), '/', sum(xmin::text::int8)) FROM pg_amop WHERE oid >= 12000),
	(SELECT concat(count(*), '/', sum(d.xmin::text::int8)) FROM pg_depend d
		WHERE classid = 1259 AND refclassid IN (1247, 1255, 2616, 2617, 2753) AND refobjid >= 12000)
),
ARRAY(SELECT DISTINCT relname::text FROM pg_class
	WHERE oid >= 12000 AND relpersistence = 't' AND relkind IN ('r', 'v', 'S', 'p') LIMIT 10000)`
