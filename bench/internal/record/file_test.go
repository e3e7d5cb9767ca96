package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/bench/internal/matrix"
)

func header() Header {
	return Header{
		Machine:  Machine{CPU: "a", Cores: 2, ID: "m"},
		Build:    Build{Commit: "c", Programs: "p"},
		Programs: map[string]string{"PostgreSQL": "15.1"},
		Plan:     matrix.Plan{Name: "quick", Rounds: 2, Cases: []matrix.Case{{Workload: "select", Targets: []string{"direct"}}}},
	}
}

func open(t *testing.T, path string, h Header) *File {
	t.Helper()
	f, err := Open(path, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestGoesOnWhereItStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	f := open(t, path, header())
	if f.Has(0, "x") {
		t.Error("an empty file has a group")
	}
	if err := f.Append(Group{Round: 0, Case: "x", Cells: []Cell{{Target: "direct", Elapsed: 2, Transactions: 10}}}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	// The program was killed while it wrote the next line.
	torn, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString(`{"round":1,"case":"x","ce`); err != nil {
		t.Fatal(err)
	}
	if err := torn.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, path, header())
	if !f.Has(0, "x") || f.Has(1, "x") {
		t.Errorf("after an interruption the file has %v", f.Groups())
	}
	if err := f.Append(Group{Round: 1, Case: "x"}); err != nil {
		t.Fatal(err)
	}
	_, groups, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != 2 || groups[0].Cells[0].TPS() != 5 {
		t.Errorf("the file has %+v", groups)
	}
}

func TestRefusesToMix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	open(t, path, header())
	for _, c := range []struct {
		change func(*Header)
		want   string
	}{
		{func(h *Header) { h.Machine.ID = "n" }, "another machine"},
		{func(h *Header) { h.Machine.Kernel = "7" }, "another machine"},
		{func(h *Header) { h.Build.Commit = "d" }, "another build"},
		{func(h *Header) { h.Build.Programs = "q" }, "another build"},
		{func(h *Header) { h.Programs = map[string]string{"PostgreSQL": "16.1"} }, "other versions"},
		{func(h *Header) { h.Plan.Measure = 1 }, "another plan"},
	} {
		h := header()
		c.change(&h)
		f, err := Open(path, h)
		if err == nil {
			_ = f.Close()
			t.Errorf("continued a file that should be refused for %q", c.want)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "-out") {
			t.Errorf("the refusal %q does not say %q and what to do", err, c.want)
		}
	}
}

func TestLoadRefusesOtherFiles(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "other": "{\"format\":99}\n", "text": "hello\n",
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Load(path); err == nil {
			t.Errorf("%s: read as results", name)
		}
	}
}

func TestThisMachineAndBuild(t *testing.T) {
	m, err := ThisMachine()
	if err != nil {
		t.Fatal(err)
	}
	if m.Cores < 1 || m.Memory == 0 || m.Kernel == "" || m.ID == "" {
		t.Errorf("the machine is %+v", m)
	}
	dir := t.TempDir()
	if _, err := ThisBuild(dir, []string{"router"}); err == nil {
		t.Error("a program that is missing was not missed")
	}
	build := func(content string) Build {
		if err := os.WriteFile(filepath.Join(dir, "router"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := ThisBuild(dir, []string{"router"})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if build("a") == build("b") {
		t.Error("two builds are taken for one")
	}
}
