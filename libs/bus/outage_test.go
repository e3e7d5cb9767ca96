package bus

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestOnlyABusThatWasThereIsMissed(t *testing.T) {
	var out bytes.Buffer
	o := &outage{log: slog.New(slog.NewTextHandler(&out, nil))}
	gone := errors.New("no such file")
	o.because(gone)
	o.because(gone)
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=INFO") {
		t.Errorf("before the first connection:\n%s", got)
	}
	out.Reset()
	o.over()
	o.because(gone)
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") {
		t.Errorf("after it was lost:\n%s", got)
	}
}
