package sqltoken

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestHints(t *testing.T) {
	names := map[HintKind]string{
		HintUnknown: "unknown", HintPrimary: "primary", HintReplica: "replica",
		HintFreshness: "freshness", HintFence: "fence",
	}
	for _, tt := range []struct {
		text string
		want string
	}{
		{"SELECT 1", ""},
		{"/* pgpilot: primary */ SELECT 1", "primary[primary|]"},
		{"/*pgpilot:primary*/SELECT 1", "primary[primary|]"},
		{"SELECT /* pgpilot: Replica */ 1", "replica[Replica|]"},
		{"SELECT 1 -- pgpilot: replica", "replica[replica|]"},
		{"SELECT 1 /* pgpilot: replica, freshness=250ms */", "replica[replica|] freshness[freshness=250ms|250ms]"},
		{"/* pgpilot: fence=ab-1=2;primary */ SELECT 1", "fence[fence=ab-1=2|ab-1=2] primary[primary|]"},
		{"/* pgpilot:\n\tprimary\n*/ SELECT 1", "primary[primary|]"},
		{"/* pgpilot: primary */ SELECT 1 /* pgpilot: replica */", "primary[primary|] replica[replica|]"},
		{"BEGIN /* pgpilot: primary */", "primary[primary|]"},
		{"/* pgpilot: nonsense primary=1 freshness */ SELECT 1", "unknown[nonsense|] unknown[primary=1|1] unknown[freshness|]"},
		{"/* pgpilot: fence= */ SELECT 1", "fence[fence=|]"},
		{"/* pgpilot: */ SELECT 1", ""},
		{"/* PGPILOT: PRIMARY */ SELECT 1", "primary[PRIMARY|]"},
		{"SELECT 1 -- PgPilot:replica", "replica[replica|]"},
		{"/* pgpilot primary */ SELECT 1", "unknown[pgpilot primary|]"},
		{"/* pgpilot primary, freshness=1s */ SELECT 1", "unknown[pgpilot primary, freshness=1s|]"},
		{"/*+ pgpilot: primary */ SELECT 1", "unknown[pgpilot: primary|]"},
		{"/* pgpilot primary key */ SELECT 1", ""},
		{"/* pgpilots: primary */ SELECT 1", ""},
		{"/*+ SeqScan(pgpilot) */ SELECT 1", ""},
		{"/* pgpilot */ SELECT 1", ""},
		{"/*+*/ SELECT 1", ""},
		{"/* see pgpilot: primary */ SELECT 1", ""},
		{"/* a /* pgpilot: primary */ */ SELECT 1", ""},
		{"SELECT '/* pgpilot: primary */'", ""},
		{"SELECT $$ -- pgpilot: primary $$", ""},
	} {
		var got []string
		for _, h := range scan(t, tt.text).Hints {
			got = append(got, fmt.Sprintf("%s[%s|%s]", names[h.Kind],
				tt.text[h.Item.Start:h.Item.End], tt.text[h.Value.Start:h.Value.End]))
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, s, tt.want)
		}
		alone, err := Hints([]byte(tt.text), 15)
		if err != nil || !slices.Equal(alone, scan(t, tt.text).Hints) || len(alone) > 0 && !MayHint([]byte(tt.text)) {
			t.Errorf("%q: Hints gives %v, %v", tt.text, alone, err)
		}
	}
}

func TestForEachTag(t *testing.T) {
	for _, tt := range []struct {
		comment string
		want    []string
		ok      bool
	}{
		{"/*a='b'*/", []string{"a=b"}, true},
		{"/* a='b',c='d%20e' */", []string{"a=b", "c=d%20e"}, true},
		{"/*a='b', c=''*/", []string{"a=b", "c="}, true},
		{`/*a='it\'s',b='\\'*/`, []string{`a=it\'s`, `b=\\`}, true},
		{"/**/", nil, false},
		{"/* plain */", nil, false},
		{"/*a=b*/", nil, false},
		{"/*='b'*/", nil, false},
		{"/*a='b*/", nil, false},
		{`/*a='b\*/`, nil, false},
		{"/*a='b',*/", []string{"a=b"}, false},
		{"/*a='b'c='d'*/", []string{"a=b"}, false},
		{"-- a='b'", nil, false},
		{"/*", nil, false},
		{"/*/", nil, false},
	} {
		var got []string
		ok := ForEachTag([]byte(tt.comment), func(key, value []byte) {
			got = append(got, string(key)+"="+string(value))
		})
		if ok != tt.ok || !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, %v", tt.comment, got, ok)
		}
	}
}
