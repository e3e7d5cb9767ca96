package settings_test

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

func TestParseBlock(t *testing.T) {
	begin := func(tag string, m settings.Modes) *settings.Block {
		return &settings.Block{Kind: settings.BlockBegin, Tag: tag, Modes: m}
	}
	for text, want := range map[string]*settings.Block{
		"BEGIN":                     begin("BEGIN", settings.Modes{}),
		" ; begin work ;;":          begin("BEGIN", settings.Modes{}),
		"/* a */ Begin Transaction": begin("BEGIN", settings.Modes{}),
		"START TRANSACTION":         begin("START TRANSACTION", settings.Modes{}),
		"begin read only -- really": begin("BEGIN", settings.Modes{Access: settings.ReadOnly}),
		"BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY DEFERRABLE": begin("BEGIN", settings.Modes{
			Isolation: settings.Serializable, Access: settings.ReadOnly, Deferrable: settings.IsDeferrable,
		}),
		"START TRANSACTION READ ONLY, READ WRITE, NOT DEFERRABLE": begin("START TRANSACTION", settings.Modes{Access: settings.ReadWrite, Deferrable: settings.NotDeferrable}),
		"BEGIN ISOLATION LEVEL READ UNCOMMITTED":                  begin("BEGIN", settings.Modes{Isolation: settings.ReadUncommitted}),
		"SET TRANSACTION READ WRITE":                              {Kind: settings.BlockSet, Tag: "SET", Modes: settings.Modes{Access: settings.ReadWrite}},
		"set transaction isolation level repeatable read":         {Kind: settings.BlockSet, Tag: "SET", Modes: settings.Modes{Isolation: settings.RepeatableRead}},
		"COMMIT":                          {Kind: settings.BlockCommit, Tag: "COMMIT"},
		"END TRANSACTION":                 {Kind: settings.BlockCommit, Tag: "COMMIT"},
		"commit work and chain":           {Kind: settings.BlockCommit, Tag: "COMMIT", Chain: true},
		"ROLLBACK AND NO CHAIN":           {Kind: settings.BlockRollback, Tag: "ROLLBACK"},
		"ABORT AND CHAIN":                 {Kind: settings.BlockRollback, Tag: "ROLLBACK", Chain: true},
		"BEGIN; SELECT 1":                 nil,
		"BEGIN, READ ONLY":                nil,
		"BEGIN READ ONLY,":                nil,
		"BEGIN READ":                      nil,
		"BEGIN ATOMIC":                    nil,
		"START":                           nil,
		"SET TRANSACTION":                 nil,
		"SET TRANSACTION SNAPSHOT '1-2'":  nil,
		"SET LOCAL TRANSACTION READ ONLY": nil,
		"SET transaction_read_only = on":  nil,
		"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY": nil,
		"COMMIT PREPARED 'x'":          nil,
		"ROLLBACK TO s":                nil,
		"ROLLBACK AND":                 nil,
		"\u017fTART TRANSACTION":       nil, // folds to START, but not in PostgreSQL
		"BEGIN /* pgpilot: primary */": nil,
		"beginning":                    nil,
		"BEGIN /*":                     nil,
		"SELECT 1":                     nil,
		"":                             nil,
	} {
		b, ok := settings.ParseBlock([]byte(text))
		if ok != (want != nil) || ok && b != *want {
			t.Errorf("%q is read as %+v, %v", text, b, ok)
		}
	}
}

// TestBeginIsReadAsWritten reads what AppendBegin writes.
func TestBeginIsReadAsWritten(t *testing.T) {
	for i := range settings.Serializable + 1 {
		for a := range settings.ReadWrite + 1 {
			for d := range settings.NotDeferrable + 1 {
				m := settings.Modes{Isolation: i, Access: a, Deferrable: d}
				sql := m.AppendBegin(nil)
				if b, ok := settings.ParseBlock(sql); !ok || b.Modes != m || b.Kind != settings.BlockBegin {
					t.Errorf("%+v is written %q and read as %+v", m, sql, b)
				}
			}
		}
	}
}

func TestValues(t *testing.T) {
	for sql, want := range map[string]string{
		"a = 5": "5", "a TO '5min'": "5min", "a=On": "on", "x.a TO 'B c'": "B c", "a = /* b */ 7": "7",
		"a = 'it''s'": "!", "a = E'x'": "!", "a = 1, 2": "!", "a = -1": "!", "TIME ZONE 'UTC'": "!", `a = "b"`: "!", "a": "!", "": "!",
	} {
		c := settings.Change{Name: "a", SQL: sql}
		if v, ok := c.Value(); ok != (want != "!") || ok && v != want {
			t.Errorf("%q: %q, %v", sql, v, ok)
		}
	}
	for s, want := range map[string]time.Duration{
		"0": 0, "5000": 5 * time.Second, "5s": 5 * time.Second, " 2 min ": 2 * time.Minute, "1h": time.Hour, "1d": 24 * time.Hour, "30ms": 30 * time.Millisecond,
		"1.5s": -1, "-1": -1, "5 S": -1, "100us": -1, "": -1, "s": -1, "99999999999": -1, "30000d": -1,
	} {
		if d, ok := settings.ParseTime(s); ok != (want >= 0) || ok && d != want {
			t.Errorf("%q: %v, %v", s, d, ok)
		}
	}
}
