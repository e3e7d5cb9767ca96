package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
)

// What a migration or a test suite does: it fills what it has just made, and asks for the
// number that a row has been given.
func TestANewTableIsFilledAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), func(c *config.Config) {
		c.Classify.Timeout = config.Duration(20 * time.Second) // on a busy machine, too, enough for a look into the catalog
	})
	c := r.connect()
	for i := range 8 {
		c.must(fmt.Sprintf("CREATE TABLE made%d (id serial, body text)", i))
		c.must(fmt.Sprintf("INSERT INTO made%d (body) VALUES ('first')", i))
		if got := c.one("SELECT lastval()"); got != "1" {
			t.Fatalf("the first row of table %d is number %s", i, got)
		}
		c.must("DISCARD ALL") // asking has bound the session
	}
}
