package obs

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
)

func TestNewLogger(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, JSON, slog.LevelWarn)
	log.Info("not shown")
	log.Warn("shown", KeySession, "s1")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	if line["msg"] != "shown" || line["session"] != "s1" || line["level"] != "WARN" {
		t.Errorf("got %s", &out)
	}
	out.Reset()
	NewLogger(&out, Text, slog.LevelInfo).Info("shown", KeyBackend, "replica1")
	if got := out.String(); !strings.Contains(got, "msg=shown backend=replica1") {
		t.Errorf("got %s", got)
	}
}

func TestParseLevel(t *testing.T) {
	for s, want := range map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError} {
		if got, err := ParseLevel(s); got != want || err != nil {
			t.Errorf("%s: got %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "INFO", "warning", "info+1"} {
		if _, err := ParseLevel(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}
