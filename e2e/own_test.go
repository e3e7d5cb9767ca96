package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// The router's parameters in strings with statements that fail, and in portals that a
// ROLLBACK TO ends, are as an application's own are on a server, byte for byte (rule 29).
func TestOwnParametersAreAsAServers(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	r.connect().must("CREATE TABLE owned (a int)")
	const own, servers = "pgpilot.freshness", "another.freshness"
	pilot, server := hijack(t, r.connect()), hijack(t, direct(t, cluster.Primary()))
	same := func(of string, messages func(name string) []pgproto3.FrontendMessage, ready int) {
		t.Helper()
		got, want := pilot.send(messages(own), ready), server.send(messages(servers), ready)
		for i := range want {
			want[i] = place.ReplaceAllString(strings.ReplaceAll(want[i], servers, own), "")
		}
		for i := range got {
			got[i] = place.ReplaceAllString(got[i], "")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\ngives %s\nwant  %s", of, strings.Join(got, "\n      "), strings.Join(want, "\n      "))
		}
	}
	query := func(sql string) {
		t.Helper()
		same(sql, func(name string) []pgproto3.FrontendMessage {
			return []pgproto3.FrontendMessage{&pgproto3.Query{String: strings.ReplaceAll(sql, "@", name)}}
		}, 1)
	}
	query("SET @ = '1s'")
	for _, sql := range []string{
		"INSERT INTO owned (a) VALUES (1, 2)", // 42601, when its turn comes
		"SELECT FROM WHERE",
		"SELECT 1 LIMIT 1, 2",
		"CREATE ASSERTION a CHECK (true)",
		"DO $$ BEGIN EXECUTE 'SELEC 1'; END $$",
		"INSERT INTO owned VALUES (1); DO $$ BEGIN EXECUTE 'SELEC 1'; END $$",
		"SELECT $1",
		"SELECT 'a' 'b'",
		"SELECT 1 / 0",
		"INSERT INTO owned VALUES (1)",
	} {
		query("SET @ = '2s'; " + sql)
		query("SHOW @")
		query("SHOW @; SET @ = '3s'; " + sql + "; SET @ = '6s'")
		query("SHOW @")
		query("BEGIN; SET LOCAL @ = '4s'; " + sql)
		query("ROLLBACK")
		query("SET @ = '1s'")
	}

	bind := func(portal, statement string) pgproto3.FrontendMessage {
		return &pgproto3.Bind{DestinationPortal: portal, PreparedStatement: statement}
	}
	run := func(portal string) pgproto3.FrontendMessage { return &pgproto3.Execute{Portal: portal} }
	sync := &pgproto3.Sync{}
	parse := func(statement, text string) pgproto3.FrontendMessage {
		return &pgproto3.Parse{Name: statement, Query: text}
	}
	sequence := func(of string, ms ...pgproto3.FrontendMessage) {
		t.Helper()
		same(of, func(name string) []pgproto3.FrontendMessage {
			var out []pgproto3.FrontendMessage
			for _, m := range ms {
				if p, ok := m.(*pgproto3.Parse); ok {
					m = parse(p.Name, strings.ReplaceAll(p.Query, "@", name))
				}
				out = append(out, m)
			}
			return append(out, sync)
		}, 1)
	}
	sequence("prepare", parse("shows", "SHOW @"), parse("sets", "SET @ = '5s'"))
	for _, at := range []struct{ begin, savepoint string }{{"BEGIN", "SAVEPOINT a"}, {"BEGIN; SELECT 1", "SAVEPOINT a; SAVEPOINT b; RELEASE b"}} {
		query(at.begin)
		sequence("bind before", bind("before", "shows"))
		query(at.savepoint)
		sequence("bind behind", bind("behind", "sets"), bind("another", "sets"))
		query("SAVEPOINT deeper")
		sequence("bind deeper", bind("deeper", "sets"))
		query("RELEASE deeper")
		query("ROLLBACK TO a")
		sequence("run what was bound before", run("before"))
		sequence("bind under a name that is free again", bind("behind", "shows"))
		sequence("go back and run at once", parse("", "ROLLBACK TO a"), bind("", ""), run(""), run("behind"))
		query("ROLLBACK TO a")
		sequence("bind what is to end", bind("behind", "sets"))
		sequence("go back and bind at once", parse("", "ROLLBACK TO a"), bind("", ""), run(""), bind("behind", "shows"), run("behind"))
		query("ROLLBACK TO a")
		sequence("run what is gone", run("deeper"))
		query("ROLLBACK TO a")
		sequence("bind before the end", bind("ends", "sets"))
		query("COMMIT AND CHAIN")
		sequence("run what has ended", run("ends"))
		query("ROLLBACK")
		query("SHOW @")
	}
	query("BEGIN; SELECT 1")
	sequence("end and run at once", bind("ends", "sets"), parse("", "COMMIT AND CHAIN"), bind("", ""), run(""), run("ends"))
	query("ROLLBACK")

	// A simple query behind messages without a Sync ends their transaction.
	inside := func(of, sql string, ms ...pgproto3.FrontendMessage) {
		t.Helper()
		same(of+", then "+sql, func(name string) []pgproto3.FrontendMessage {
			return append(slices.Clone(ms), &pgproto3.Query{String: strings.ReplaceAll(sql, "@", name)})
		}, 1)
	}
	closes := &pgproto3.Close{ObjectType: 'S', Name: "closed"}
	writes := []pgproto3.FrontendMessage{parse("", "INSERT INTO owned VALUES (1)"), bind("", ""), run("")}
	for _, sql := range []string{
		"SET @ = '7s'", "SHOW @", "SET @ = '8s'; SHOW @", "RESET @; SET @ = '5s'", "SET LOCAL @ = '9s'", "SET @ = '7s'; SELECT 1; SHOW @",
		"SET @ = '8s'; SELECT 1 / 0", "BEGIN; SET @ = '9s'", "SHOW @", "SET LOCAL @ = '6s'", "ROLLBACK", "SHOW @", "SET @ = '1s'; SELECT 1",
	} {
		sequence("prepare what is closed", parse("closed", "SELECT 1"))
		inside("a closed statement", sql, closes, closes)
		inside("a write", sql, writes...)
		query("SHOW @")
		inside("a portal that is not run", sql, parse("", "SELECT 1"), bind("", ""))
		query("SHOW @")
	}
	same("a failed statement", func(name string) []pgproto3.FrontendMessage {
		return []pgproto3.FrontendMessage{parse("", "SELECT 1 / 0"), bind("", ""), run(""), &pgproto3.Query{String: "SET " + name + " = '3s'"}, sync}
	}, 1)
	query("SHOW @")
	inside("what begins a block", "SET @ = '2s'", parse("", "BEGIN"), bind("", ""), run(""))
	query("ROLLBACK")
	query("SHOW @")
}
