package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// problems gathers everything that is wrong with a file, so that one run tells
// all of it.
type problems struct {
	source string
	// lines has the line of every key the file holds.
	lines map[string]int
	found []problem
}

type problem struct {
	path string
	line int // 0 when the file does not say anything about the path
	text string
}

// add notes what is wrong with the key at path, which may be missing.
func (p *problems) add(path, format string, args ...any) {
	p.addAt(p.lines[path], path, format, args...)
}

func (p *problems) addAt(line int, path, format string, args ...any) {
	p.found = append(p.found, problem{path, line, fmt.Sprintf(format, args...)})
}

// blames reports whether something is already wrong at path, above it or below
// it: a further complaint would only be its consequence.
func (p *problems) blames(path string) bool {
	return slices.ContainsFunc(p.found, func(q problem) bool {
		return within(q.path, path) || within(path, q.path)
	})
}

// within reports whether path is outer or inside it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}

// err joins the problems in the order of the file, those about missing keys
// last. It is nil when there are none.
func (p *problems) err() error {
	slices.SortStableFunc(p.found, func(a, b problem) int {
		switch {
		case a.line == b.line:
			return 0
		case a.line == 0:
			return 1
		case b.line == 0:
			return -1
		}
		return a.line - b.line
	})
	var errs []error
	for _, q := range p.found {
		where := p.source
		if q.line > 0 {
			where = fmt.Sprintf("%s:%d", where, q.line)
		}
		if q.path != "" {
			where += ": " + q.path
		}
		errs = append(errs, fmt.Errorf("%s: %s", where, q.text))
	}
	return errors.Join(errs...)
}
