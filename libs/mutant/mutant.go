package mutant

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Edit replaces a piece of text in one file.
type Edit struct {
	// File is the path below the checkout's root, with slashes.
	File string
	// Old occurs exactly once in it.
	Old, New string
}

// Mutant is a fault.
type Mutant struct {
	Name  string
	Edits []Edit
}

// overlay is what the go command reads.
type overlay struct {
	Replace map[string]string
}

// Overlay writes the changed copies below dir, and gives the path of the file for
// the go command's flag -overlay. root is the checkout.
func (m Mutant) Overlay(root, dir string) (string, error) {
	changed := map[string]string{}
	for _, e := range m.Edits {
		path := filepath.Join(root, filepath.FromSlash(e.File))
		text, ok := changed[path]
		if !ok {
			b, err := os.ReadFile(path)
			if err != nil {
				return "", fmt.Errorf("read what mutant %q changes: %w", m.Name, err)
			}
			text = string(b)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return "", fmt.Errorf("mutant %q replaces a text that is %d times in %s instead of once: the code has changed, and the mutant must follow it. The text is\n%s",
				m.Name, n, e.File, e.Old)
		}
		changed[path] = strings.Replace(text, e.Old, e.New, 1)
	}
	var o overlay
	o.Replace = map[string]string{}
	for path, text := range changed {
		copied := filepath.Join(dir, fmt.Sprintf("%d_%s", len(o.Replace), filepath.Base(path)))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write a changed copy: %w", err)
		}
		o.Replace[path] = copied
	}
	b, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return path, nil
}

// Build compiles the mutant with a go command: args are build or test -c, with
// flags, and pkg is a folder below root that the command runs in. out is the
// program.
func (m Mutant) Build(ctx context.Context, root, dir, pkg, out string, args ...string) error {
	o, err := m.Overlay(root, dir)
	if err != nil {
		return err
	}
	args = append(args, "-overlay", o, "-o", out, ".")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(root, filepath.FromSlash(pkg))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build mutant %q: %w\n%s", m.Name, err, text)
	}
	return nil
}

// Root looks for the checkout above the working folder, which for a test is its
// package's.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "services", "router", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no folder above %s is a checkout of pgpilot: run the test inside one", start)
		}
	}
}
