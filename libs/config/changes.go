package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Changes lists the keys whose values differ between two configurations; a list
// counts as one key. The error names those of them that cannot change while a
// service runs: such a configuration is for the next start only.
func Changes(old, new *Config) ([]string, error) {
	var d difference
	d.compare(reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem(), "", false)
	switch len(d.fixed) {
	case 0:
		return d.changed, nil
	case 1:
		return d.changed, fmt.Errorf("%s cannot change while pgpilot runs: change it back, or restart pgpilot", d.fixed[0])
	}
	return d.changed, fmt.Errorf("%s cannot change while pgpilot runs: change them back, or restart pgpilot", strings.Join(d.fixed, ", "))
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
