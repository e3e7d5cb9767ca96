package poll

import (
	"testing"

	"github.com/pgpilot/pgpilot/services/lagpoller/internal/probe"
)

func TestComplaintNamesTheKeys(t *testing.T) {
	named := probe.Names{Databases: []string{"app", "ap", "old"}, Roles: []string{"app", "bob"}}
	for _, c := range []struct {
		missing probe.Names
		want    string
	}{
		{probe.Names{}, ""},
		{probe.Names{Databases: []string{"ap"}}, `databases[1].name "ap"`},
		{probe.Names{Roles: []string{"app"}}, `users[0].name "app"`},
		{probe.Names{Databases: []string{"old", "ap"}, Roles: []string{"bob"}}, `databases[1].name "ap", databases[2].name "old", users[1].name "bob"`},
	} {
		if got := complaintOf(named, c.missing); got != c.want {
			t.Errorf("%+v: %q, want %q", c.missing, got, c.want)
		}
	}
}
