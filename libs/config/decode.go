package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// field is one key of a struct.
type field struct {
	key   string
	index int
	// fixed keys cannot change while a service runs.
	fixed bool
}

func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		out = append(out, field{f.Tag.Get("json"), i, f.Tag.Get("reload") == "restart"})
	}
	return out
}

// join extends a key's path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// decode sets v from n. Whatever does not fit is noted and left as it was.
func (p *problems) decode(n *node, v reflect.Value, path string) {
	switch target := v.Addr().Interface().(type) {
	case *Duration:
		p.decodeDuration(n, target, path)
		return
	case *Backend:
		p.decodeBackend(n, target, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		p.decodeObject(n, v, path)
	case reflect.Slice:
		if !p.want(n, kindArray, path, "in [ ]") {
			return
		}
		list := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
		for i, item := range n.items {
			at := fmt.Sprintf("%s[%d]", path, i)
			p.lines[at] = item.line
			p.decode(item, list.Index(i), at)
		}
		v.Set(list)
	case reflect.String:
		if p.want(n, kindString, path, "in double quotes") {
			v.SetString(n.text)
		}
	case reflect.Bool:
		if p.want(n, kindBool, path, "without quotes") {
			v.SetBool(n.truth)
		}
	case reflect.Int:
		if !p.want(n, kindNumber, path, "without quotes") {
			return
		}
		i, err := strconv.Atoi(n.text)
		switch {
		case errors.Is(err, strconv.ErrRange):
			p.add(path, "%s is out of range: write a smaller number", n.text)
		case err != nil:
			p.add(path, "want a whole number such as 10, not %s", n.text)
		default:
			v.SetInt(int64(i))
		}
	default:
		panic("config: a key of type " + v.Type().String() + " has no decoder") // found by any test that reads a file
	}
}

// want notes a value of the wrong kind. Values are not repeated, they may be
// secret.
func (p *problems) want(n *node, k kind, path, how string) bool {
	switch n.kind {
	case k:
		return true
	case kindNull:
		p.add(path, "null is no value: leave the key out for its default")
	default:
		p.add(path, "want %s %s, not %s", k, how, n.kind)
	}
	return false
}

func (p *problems) decodeDuration(n *node, d *Duration, path string) {
	if n.kind != kindString {
		p.add(path, "want a duration in double quotes with a unit, such as \"250ms\" or \"5s\", not %s", n.kind)
		return
	}
	v, err := parseDuration(n.text)
	if err != nil {
		p.add(path, "%v", err)
		return
	}
	*d = v
}

// decodeObject sets the fields of a struct from the members of an object.
func (p *problems) decodeObject(n *node, v reflect.Value, path string) {
	if !p.want(n, kindObject, path, "in { }") {
		return
	}
	fields := fieldsOf(v.Type())
	seen := map[string]int{}
	for _, m := range n.members {
		at := join(path, m.key)
		if line, ok := seen[m.key]; ok {
			p.addAt(m.line, at, "the key is already on line %d: keep one of them", line)
			continue
		}
		seen[m.key] = m.line
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == m.key })
		if i < 0 {
			p.addAt(m.line, at, "there is no such key%s", suggestKey(m.key, path, fields))
			continue
		}
		p.lines[at] = m.line
		p.decode(m.value, v.Field(fields[i].index), at)
	}
}

// suggestKey proposes what to write instead of an unknown key: a sibling with a
// like name, else the same key in its right place.
func suggestKey(key, path string, siblings []field) string {
	var names []string
	for _, f := range siblings {
		names = append(names, f.key)
	}
	if near := Nearest(key, names); near != "" {
		return fmt.Sprintf(": did you mean %s?", join(path, near))
	}
	for _, k := range keysOf(reflect.TypeFor[Config](), "") {
		if k == key || strings.HasSuffix(k, "."+key) {
			return fmt.Sprintf(": did you mean %s?", k)
		}
	}
	slices.Sort(names)
	return ": known here are " + strings.Join(names, ", ")
}

// keysOf lists the paths of all keys below a type, a list's entries as [].
func keysOf(t reflect.Type, path string) []string {
	switch {
	case t.Kind() == reflect.Slice:
		return append([]string{path}, keysOf(t.Elem(), path+"[]")...)
	case t == reflect.TypeFor[Backend]():
		t = reflect.TypeFor[backendObject]()
	case t.Kind() != reflect.Struct:
		return []string{path}
	}
	var out []string
	if path != "" && !strings.HasSuffix(path, "[]") {
		out = append(out, path)
	}
	for _, f := range fieldsOf(t) {
		out = append(out, keysOf(t.Field(f.index).Type, join(path, f.key))...)
	}
	return out
}
