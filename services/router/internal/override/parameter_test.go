package override

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/services/router/internal/fence"
)

// TestParse gives parameters values in the forms that servers take, and in some that
// they do not.
func TestParse(t *testing.T) {
	for _, c := range []struct{ name, value, shown, code string }{
		{RouteName, "primary", "primary", ""},
		{RouteName, "Replica", "replica", ""},
		{RouteName, "AUTO", "auto", ""},
		{RouteName, "", "", "22023"},
		{RouteName, "r1", "", "22023"},
		{FencingName, "relaxed", "relaxed", ""},
		{FencingName, "Strict", "strict", ""},
		{FencingName, "strictest", "", "22023"},
		{FreshnessName, "250ms", "250ms", ""},
		{FreshnessName, "250", "250ms", ""},
		{FreshnessName, "1500", "1500ms", ""},
		{FreshnessName, "60000", "1min", ""},
		{FreshnessName, " 1.5 s ", "1500ms", ""},
		{FreshnessName, "0", "0", ""},
		{FreshnessName, "0s", "0", ""},
		{FreshnessName, "1500us", "1500us", ""},
		{FreshnessName, "24h", "1d", ""},
		{FreshnessName, "1d", "1d", ""},
		{FreshnessName, "1m", "1min", ""},
		{FreshnessName, "1m30s", "90s", ""},
		{FreshnessName, "23h59m60s", "1d", ""},
		{FreshnessName, "24h1s", "", "22023"},
		{FreshnessName, "+1m", "", "22023"},
		{FreshnessName, "-1m", "", "22023"},
		{FreshnessName, "0m", "", "22023"},
		{FreshnessName, "25h", "", "22023"},
		{FreshnessName, "0.1us", "", "22023"},
		{FreshnessName, "-1", "", "22023"},
		{FreshnessName, "1 week", "", "22023"},
		{FreshnessName, "1.2.3s", "", "22023"},
		{FreshnessName, "ms", "", "22023"},
		{FreshnessName, "Infinity", "", "22023"},
		{FreshnessName, "1e9h", "", "22023"},
		{LastRouteName, "x", "", "55P02"},
		{SessionName, "x", "", "55P02"},
		{"pgpilot.rote", "x", "", "42704"},
	} {
		var set Set
		shown, p := set.Parse(c.name, c.value)
		switch {
		case c.code != "":
			if p == nil || p.Code != c.code || p.Hint == "" || !set.IsZero() {
				t.Errorf("%s = %q: %v and %+v, want %s", c.name, c.value, p, set, c.code)
			}
		case p != nil || shown != c.shown:
			t.Errorf("%s = %q: %q, %v; want %q", c.name, c.value, shown, p, c.shown)
		default:
			v := set.Over(Values{})
			if again := v.Show(c.name); again != shown {
				t.Errorf("%s = %q is shown as %q, was %q", c.name, c.value, again, shown)
			}
			if _, p := set.Parse(c.name, shown); p != nil {
				t.Errorf("%s = %q, as it is shown: %v", c.name, shown, p)
			}
		}
	}
}

func TestEveryModeCanBeSet(t *testing.T) {
	for m := fence.Relaxed; m <= fence.Linear; m++ {
		var set Set
		if shown, p := set.Parse(FencingName, m.String()); p != nil || shown != m.String() || set.Over(Values{}).Mode != m {
			t.Errorf("%s: %q, %v", m, shown, p)
		}
	}
}

// TestBoth joins what statements of one sequence ask for.
func TestBoth(t *testing.T) {
	var primary, replica, second, minute, none Set
	primary.SetRoute(Primary)
	replica.SetRoute(Replica)
	second.SetFreshness(time.Second)
	minute.SetFreshness(time.Minute)
	for _, c := range []struct {
		a, b Set
		want Values
	}{
		{none, none, Values{}},
		{primary, replica, Values{Route: Primary}},
		{replica, primary, Values{Route: Primary}},
		{replica, none, Values{Route: Replica}},
		{none, replica, Values{Route: Replica}},
		{second, minute, Values{Freshness: time.Second}},
		{minute, second, Values{Freshness: time.Second}},
		{minute, primary, Values{Route: Primary, Freshness: time.Minute}},
	} {
		both := c.a.Both(c.b)
		if got := both.Over(Values{}); got != c.want {
			t.Errorf("%+v and %+v are %+v, want %+v", c.a, c.b, got, c.want)
		}
	}
}

// TestTheCloserPlaceWins has several places ask for different values.
func TestTheCloserPlaceWins(t *testing.T) {
	var database, user, session Set
	database.SetMode(fence.Relaxed)
	database.SetRoute(Primary)
	user.SetRoute(Replica)
	user.SetFreshness(time.Second)
	session.SetFreshness(0)
	v := session.Over(user.Over(database.Over(Values{Mode: fence.Strict, Freshness: time.Minute})))
	if want := (Values{Route: Replica, Mode: fence.Relaxed}); v != want {
		t.Errorf("got %+v, want %+v", v, want)
	}
}
