package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Statements that pgpilot executes itself have the parameters that are declared for them, as
// those of a server that use none (rule 12).
func TestParametersOfTheRoutersOwnStatements(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	through, straight := r.twins(t)
	type batch = []pgproto3.FrontendMessage
	const own, servers = "pgpilot.freshness", "another.freshness"
	in := func(name string, messages batch) (out batch) {
		for _, m := range messages {
			if p, ok := m.(*pgproto3.Parse); ok {
				m = &pgproto3.Parse{Name: p.Name, Query: strings.ReplaceAll(p.Query, "@", name), ParameterOIDs: p.ParameterOIDs}
			}
			if q, ok := m.(*pgproto3.Query); ok {
				m = &pgproto3.Query{String: strings.ReplaceAll(q.String, "@", name)}
			}
			out = append(out, m)
		}
		return out
	}
	compare := func(what string, messages ...pgproto3.FrontendMessage) {
		t.Helper()
		want, got := strings.ReplaceAll(straight.atOnce(in(servers, messages)...), servers, own), through.atOnce(in(own, messages)...)
		if want != got {
			t.Errorf("%s\ndirect:\n%s\nthrough pgpilot:\n%s", what, want, got)
		}
	}
	sync, execute := &pgproto3.Sync{}, &pgproto3.Execute{}
	value := func(s string) []byte { return []byte(s) }
	binds := map[string]*pgproto3.Bind{
		"none":                {},
		"one":                 {Parameters: [][]byte{value("1")}},
		"one too many":        {Parameters: [][]byte{value("1"), value("2"), value("3")}},
		"two":                 {Parameters: [][]byte{value("1"), nil}},
		"no number":           {Parameters: [][]byte{value("one")}},
		"binary":              {Parameters: [][]byte{{0, 0, 0, 1}}, ParameterFormatCodes: []int16{1}},
		"short binary":        {Parameters: [][]byte{{0, 1}}, ParameterFormatCodes: []int16{1}},
		"formats for none":    {ParameterFormatCodes: []int16{1}},
		"too many formats":    {Parameters: [][]byte{value("1")}, ParameterFormatCodes: []int16{0, 0}},
		"a format of its own": {Parameters: [][]byte{value("1")}, ParameterFormatCodes: []int16{7}},
		"result formats":      {ResultFormatCodes: []int16{0, 1}},
		"both wrong":          {Parameters: [][]byte{value("one")}, ResultFormatCodes: []int16{0, 1}},
		"long":                {Parameters: [][]byte{value(strings.Repeat(" ", 100_000) + "1")}},
		"a portal":            {DestinationPortal: "p", Parameters: [][]byte{value("one")}},
		"a portal in use":     {DestinationPortal: "used", Parameters: [][]byte{value("1")}},
	}
	compare("before", &pgproto3.Query{String: "SET @ = '1s'"})
	for _, sql := range []string{"DEALLOCATE s", "DEALLOCATE ALL", "SHOW @", "SET @ = '2s'", "RESET @"} {
		for _, types := range [][]uint32{nil, {23}, {23, 25}, {25}, {705}, {0}, {4_000_000_000}, {20, 0}} {
			for _, begin := range []string{"", "BEGIN", "BEGIN; INSERT INTO basket VALUES (1)", "BEGIN; SELECT 1/0"} {
				for name, bind := range binds {
					for _, statement := range []string{"", "d"} {
						of := fmt.Sprintf("%s with %v, %s, as %q behind %q", sql, types, name, statement, begin)
						b := *bind
						b.PreparedStatement = statement
						parse := &pgproto3.Parse{Name: statement, Query: sql, ParameterOIDs: types}
						describe := &pgproto3.Describe{ObjectType: 'S', Name: statement}
						run := &pgproto3.Execute{Portal: b.DestinationPortal}
						before := batch{&pgproto3.Parse{Name: "s", Query: "SELECT 1"}, sync}
						if begin != "" {
							before = append(before, &pgproto3.Query{String: begin})
						}
						compare(of+": before", before...)
						if name == "a portal in use" {
							compare(of+": another portal", &pgproto3.Bind{DestinationPortal: "used", PreparedStatement: "s"}, &pgproto3.Flush{}, parse, &b, sync)
						} else {
							compare(of, parse, describe, &b, run, sync)
						}
						if statement != "" && begin != "BEGIN; SELECT 1/0" {
							compare(of+": described", describe, sync)
							compare(of+": bound later", &b, &pgproto3.Describe{ObjectType: 'P', Name: b.DestinationPortal}, run, sync)
						}
						compare(of+": behind", &pgproto3.Query{String: "ROLLBACK"}, &pgproto3.Bind{PreparedStatement: "s"}, execute, sync, &pgproto3.Query{String: "DEALLOCATE ALL"}, &pgproto3.Query{String: "SET @ = '1s'"})
						if t.Failed() {
							t.FailNow()
						}
					}
				}
			}
		}
	}
}
