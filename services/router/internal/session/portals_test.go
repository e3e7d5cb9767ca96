package session_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestPortalsAreBounded binds more portals of the router's than a client may have.
func TestPortalsAreBounded(t *testing.T) {
	const most = 256
	p := newPlay(t, 0)
	p.event("start server_version=15.4")
	bind := func(n int) string {
		e := `client Parse "" "SHOW pgpilot.route"`
		for i := range n {
			e += fmt.Sprintf(` Bind "p%d" ""`, i)
		}
		return strings.Join(p.event(e+` Execute "p0" Sync`), "\n")
	}
	if got := bind(most); strings.Contains(got, "ERROR") || !strings.Contains(got, `DataRow "auto"`) {
		t.Errorf("%d portals give %s", most, got)
	}
	if got := bind(most + 1); !strings.Contains(got, `ERROR 54000 "more than 256 portals`) || strings.Contains(got, "DataRow") {
		t.Errorf("%d portals give %s", most+1, got)
	}
}
