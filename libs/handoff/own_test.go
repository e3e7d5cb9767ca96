package handoff

import (
	"reflect"
	"testing"
)

// TestOwnParameters takes pgpilot's own parameters out of what servers get, in every
// form of the startup message.
func TestOwnParameters(t *testing.T) {
	type ps = []Parameter
	for _, c := range []struct{ startup, server, own ps }{
		{nil, nil, nil},
		{ps{{"application_name", "a"}, {"options", "-c work_mem=1MB"}}, ps{{"application_name", "a"}, {"options", "-c work_mem=1MB"}}, nil},
		{ps{{"PgPilot.Route", "Primary"}, {"application_name", "a"}}, ps{{"application_name", "a"}}, ps{{"pgpilot.route", "Primary"}}},
		{ps{{"options", "-c pgpilot.route=replica"}}, nil, ps{{"pgpilot.route", "replica"}}},
		{
			ps{{"pgpilot.route", "auto"}, {"options", `-c work_mem=1MB -cpgpilot.route=primary  --pgpilot.last-route=x -c search_path=a,\ b --pgpilot.freshness=1\ s -e`}},
			ps{{"options", `-c work_mem=1MB -c search_path=a,\ b -e`}},
			ps{{"pgpilot.route", "primary"}, {"pgpilot.last_route", "x"}, {"pgpilot.freshness", "1 s"}, {"pgpilot.route", "auto"}},
		},
		{ps{{"options", "-c application_name=pgpilot.route=x -c pgpilot.route -c"}}, ps{{"options", "-c application_name=pgpilot.route=x -c pgpilot.route -c"}}, nil},
		{ps{{"options", `-c pgpilot.route=a\\\ b\`}}, nil, ps{{"pgpilot.route", `a\ b\`}}},
	} {
		r := Record{Startup: c.startup}
		if got := r.ServerStartup(); !reflect.DeepEqual(got, c.server) {
			t.Errorf("of %q servers get %q, want %q", c.startup, got, c.server)
		}
		if got := r.Own(); !reflect.DeepEqual(got, c.own) {
			t.Errorf("of %q pgpilot's are %q, want %q", c.startup, got, c.own)
		}
	}
}
