package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Changes lists the keys whose values differ between two configurations; a list
// counts as one key. The error names those of them that cannot change while a
// service runs, a *FixedError: such a configuration is for the next start only.
func Changes(old, new *Config) ([]string, error) {
	var d difference
	d.compare(reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem(), "", false)
	if len(d.fixed) > 0 {
		return d.changed, &FixedError{Keys: d.fixed}
	}
	return d.changed, nil
}

// FixedError says that a configuration is valid, but changes what cannot change while a
// service runs.
type FixedError struct {
	// Keys are those that differ.
	Keys []string
}

// Error implements error.
func (e *FixedError) Error() string {
	it := "it"
	if len(e.Keys) > 1 {
		it = "them"
	}
	return fmt.Sprintf("%s cannot change while pgpilot runs: change %s back, or restart pgpilot", strings.Join(e.Keys, ", "), it)
}

type difference struct{ changed, fixed []string }

func (d *difference) compare(a, b reflect.Value, path string, fixed bool) {
	if t := a.Type(); t.Kind() == reflect.Struct && t != reflect.TypeFor[Backend]() {
		for _, f := range fieldsOf(t) {
			d.compare(a.Field(f.index), b.Field(f.index), join(path, f.key), fixed || f.fixed)
		}
		return
	}
	if reflect.DeepEqual(a.Interface(), b.Interface()) {
		return
	}
	d.changed = append(d.changed, path)
	if fixed {
		d.fixed = append(d.fixed, path)
	}
}
