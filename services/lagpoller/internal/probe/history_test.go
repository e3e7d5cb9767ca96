package probe

import (
	"reflect"
	"testing"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

func TestParseHistory(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []lsn.Position
		bad  bool
	}{
		"two promotions": {"1\t0/3000148\tno recovery target specified\n\n2\t1/500\tbefore 2000-01-01\n",
			[]lsn.Position{{Timeline: 1, LSN: 0x3000148}, {Timeline: 2, LSN: 1<<32 | 0x500}}, false},
		"comment and no last newline": {"# moved by hand\n1 0/10 x", []lsn.Position{{Timeline: 1, LSN: 0x10}}, false},
		"empty":                       {"", nil, false},
		"no switch point":             {"1\n", nil, true},
		"no timeline":                 {"one\t0/10\tx\n", nil, true},
		"broken switch point":         {"1\t010\tx\n", nil, true},
		"timelines do not grow":       {"2\t0/10\tx\n1\t0/20\tx\n", nil, true},
	} {
		got, err := parseHistory(c.in)
		if (err != nil) != c.bad || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func FuzzParseHistory(f *testing.F) {
	f.Add("1\t0/3000148\tno recovery target specified\n")
	f.Add("# x\n1 0/1\n2 0/2\n")
	f.Fuzz(func(t *testing.T, in string) {
		got, err := parseHistory(in)
		for i := 1; err == nil && i < len(got); i++ {
			if got[i].Timeline <= got[i-1].Timeline {
				t.Fatalf("%q gave timelines out of order: %v", in, got)
			}
		}
	})
}
