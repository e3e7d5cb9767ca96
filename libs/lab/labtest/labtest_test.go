package labtest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

// recorder stands in for a test that is expected to fail.
type recorder struct {
	testing.TB
	fatal string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestMissingPostgresFails(t *testing.T) {
	t.Setenv("PGPILOT_PG_BIN", t.TempDir())
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		labtest.Start(r, 0)
	}()
	<-done
	for _, part := range []string{"no PostgreSQL program", "apt-get install postgresql", "PGPILOT_PG_BIN"} {
		if !strings.Contains(r.fatal, part) {
			t.Errorf("a machine without PostgreSQL fails with %q, without %q", r.fatal, part)
		}
	}
}
