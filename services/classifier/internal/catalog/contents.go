package catalog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// firstUser is FirstUnpinnedObjectId of PostgreSQL's transam.h: what has a
// smaller number is PostgreSQL's own, and pg_depend does not mention it. The
// objects of information_schema have greater ones.
const firstUser = verdict.FirstUserType

// OIDs of the system catalogs that objects live in, from PostgreSQL's headers;
// they are the same in every release.
const (
	inType       = 1247
	inProc       = 1255
	inRelation   = 1259
	inCast       = 2605
	inConstraint = 2606
	inOpclass    = 2616
	inOperator   = 2617
	inOpfamily   = 2753
	inRule       = 2618
	inPolicy     = 3256
	inDefault    = 2604
)

// inWrite is a class of the classifier's own, beside those: what a write to a relation
// runs, by the relation's number.
const inWrite = 1

// definition is the number in inWrite of what changes the catalog.
const definition = 0

// object is one entry of a system catalog.
type object struct{ Class, ID uint32 }

// contents is what is read of a database's catalog.
type contents struct {
	functions   []functionRow
	aggregates  []edgeRow
	operators   []operatorRow
	casts       []castRow
	types       []typeRow
	ranges      []edgeRow
	relations   []relationRow
	inheritance []edgeRow
	expressions []expressionRow
	parts       []partRow
	depends     []dependRow
	triggers    []edgeRow
	cascades    []edgeRow
	identities  []idRow
	announced   []idRow
	// major is the server's release.
	major int
	// folding says that the server's encoding is another than UTF8, and may have one byte
	// a character: then it folds the letters of names by its locale ("Identifiers and Key
	// Words").
	folding bool
}

type functionRow struct {
	ID           uint32
	Schema, Name string
	// Types of the arguments, as package builtin wants them; of PostgreSQL's own only.
	Types      string
	Language   string
	Volatility string
	// Least and Most are how many arguments a call can have; Most is -1 for VARIADIC.
	Least, Most int32
	// Row says that the first argument can be a row.
	Row bool
	// Extension it belongs to, if any.
	Extension string
	// Transaction says that the function has a setting of the transaction (SET in CREATE
	// FUNCTION), which a standby refuses.
	Transaction bool
	// Internal functions take values that no query has: only the server calls them.
	Internal bool
	// Backslashes says that the body is read with a standard_conforming_strings of its own,
	// and so perhaps otherwise than package sqltoken reads it.
	Backslashes bool
	// Parameters are the names of parameters of an SQL function that are no rows.
	Parameters []string
	// Source is the body in the function's language, or the name of the C function
	// behind an internal one. Body is the parsed one of BEGIN ATOMIC and RETURN, and
	// Defaults those of the arguments: node trees. All but the C name are empty for
	// PostgreSQL's own functions.
	Source, Body, Defaults string
}

type operatorRow struct {
	ID           uint32
	Schema, Name string
	Functions    []uint32
}

type castRow struct {
	ID, Source, Target, Function uint32
	// Rows says that rows of some relation or type are converted without being asked.
	Rows bool
}

type typeRow struct {
	ID           uint32
	Schema, Name string
}

type relationRow struct {
	ID           uint32
	Schema, Name string
	Kind         string
	Persistence  string
	// Policies says that row-level security is on.
	Policies bool
	// Heap says that the relation has no storage of its own kind.
	Heap bool
}

// edgeRow says that one object of a catalog uses another of the same.
type edgeRow struct{ From, To uint32 }

// partRow says that an object runs with another, to which it belongs.
type partRow struct{ Class, ID, OfClass, Of uint32 }

// expressionRow is a node tree of an object.
type expressionRow struct {
	Class, ID uint32
	Tree      string
}

// idRow is one object.
type idRow struct{ ID uint32 }

type dependRow struct{ Class, ID, OnClass, On uint32 }

// readContents reads everything in one snapshot, with the fingerprint.
func readContents(ctx context.Context, conn *pgx.Conn) (_ *contents, f fingerprint, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, f, fmt.Errorf("begin to read the catalog: %w", err)
	}
	defer func() { err = errors.Join(err, tx.Rollback(context.WithoutCancel(ctx))) }()
	if f, err = readFingerprint(ctx, tx); err != nil {
		return nil, f, err
	}
	c := &contents{major: major(conn), folding: conn.PgConn().ParameterStatus("server_encoding") != "UTF8"}
	for _, read := range []func() error{
		rows(ctx, tx, &c.functions, functionsSQL),
		rows(ctx, tx, &c.aggregates, aggregatesSQL),
		rows(ctx, tx, &c.operators, operatorsSQL),
		rows(ctx, tx, &c.casts, castsSQL),
		rows(ctx, tx, &c.types, typesSQL),
		rows(ctx, tx, &c.ranges, rangesSQL),
		rows(ctx, tx, &c.relations, relationsSQL),
		rows(ctx, tx, &c.inheritance, inheritanceSQL),
		rows(ctx, tx, &c.expressions, expressionsSQL),
		rows(ctx, tx, &c.parts, partsSQL),
		rows(ctx, tx, &c.depends, dependsSQL),
		rows(ctx, tx, &c.triggers, triggersSQL),
		rows(ctx, tx, &c.cascades, cascadesSQL),
		rows(ctx, tx, &c.identities, identitiesSQL),
		rows(ctx, tx, &c.announced, eventTriggersSQL),
	} {
		if err := read(); err != nil {
			return nil, f, err
		}
	}
	return c, f, nil
}

// major gives the release that the server reported at login, zero if it cannot be
// read.
func major(conn *pgx.Conn) int {
	version := conn.PgConn().ParameterStatus("server_version")
	n, _ := strconv.Atoi(version[:len(version)-len(strings.TrimLeft(version, "0123456789"))])
	return n
}

// fingerprint is another one whenever the catalog may have changed.
type fingerprint struct {
	permanent string
	// temporary has the names of the temporary relations of all sessions.
	temporary map[string]bool
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func readFingerprint(ctx context.Context, q querier) (f fingerprint, err error) {
	var names []string
	if err := q.QueryRow(ctx, fingerprintSQL).Scan(&f.permanent, &names); err != nil {
		return f, fmt.Errorf("read the catalog's fingerprint: %w", err)
	}
	f.temporary = make(map[string]bool, len(names))
	for _, name := range names {
		f.temporary[name] = true
	}
	return f, nil
}

// rows reads the result of one query.
func rows[T any](ctx context.Context, tx pgx.Tx, into *[]T, sql string) func() error {
	return func() error {
		r, err := tx.Query(ctx, sql)
		if err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
		if *into, err = pgx.CollectRows(r, pgx.RowToStructByPos[T]); err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
		return nil
	}
}
