package verdict

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// Setting is a call of set_config (PostgreSQL documentation: "System Administration
// Functions") by where its arguments come from.
type Setting struct {
	Name  Operand `json:"name"`
	Value Operand `json:"value"`
	Local Operand `json:"local"`
}

// Operand is where an argument comes from: one of its fields is set.
type Operand struct {
	// Literal is the number of a constant in the text, counted from 1 among the tokens
	// of sqltoken.Token.IsLiteral: texts of one template have the same.
	Literal int `json:"literal,omitempty"`
	// Param is the number of a parameter, counted from 1.
	Param int `json:"param,omitempty"`
	// Word is a keyword: true, false or null; as the name of a setting, that name.
	Word string `json:"word,omitempty"`
}

// Execution is what one execution gives the operands of its statement.
type Execution struct {
	// Text is the statement's, ServerMajor the server's release as in
	// sqltoken.NewLexer.
	Text        []byte
	ServerMajor int
	// Param gives the value of a parameter as Bind has it, in text format, or in binary
	// format if its type is text, varchar, name or boolean. It reports ok false for one
	// that is not known or in another format. Nil stands for no parameters.
	Param func(n int) (value []byte, null, ok bool)
}

// Change is what one call of set_config does when its statement runs.
type Change struct {
	// Name of the setting, as it was given: PostgreSQL ignores its case.
	Name string
	// Value is the new one. If Default is set, it is the setting's default instead.
	Value   string
	Default bool
	// Local settings end with their transaction.
	Local bool
}

// Evaluate gives the verdict on one execution, and the settings that it changes in
// their order. The changes account for what the verdict lacks of v's effects: who
// asks must follow each of them that is not local, or use v. If v does not depend
// on arguments, or an argument is not known, it is v and there are no changes.
func (v Verdict) Evaluate(x Execution) (Verdict, []Change) {
	if v.Detail == nil || len(v.Detail.Parts) != 1 || len(v.Detail.Parts[0].Settings) == 0 && v.Detail.Parts[0].List == nil {
		return v, nil
	}
	p := &v.Detail.Parts[0]
	if p.List != nil {
		changes := p.listed(x)
		if changes != nil {
			v.Effects = p.Rest
		}
		return v, changes
	}
	literals, ok := x.literals()
	if !ok {
		return v, nil
	}
	changes := make([]Change, 0, len(p.Settings))
	for _, s := range p.Settings {
		name, noName, ok1 := x.operand(s.Name, literals)
		value, noValue, ok2 := x.operand(s.Value, literals)
		local, noLocal, ok3 := x.operand(s.Local, literals)
		if !ok1 || !ok2 || !ok3 || noName { // a setting without a name is refused
			return v, nil
		}
		c := Change{Name: string(name), Value: string(value), Default: noValue}
		if !noLocal {
			if c.Local, ok = boolean(local); !ok {
				return v, nil
			}
		}
		changes = append(changes, c)
	}
	v.Effects = p.Rest
	return v, changes
}

// LocalNames gives the names of what one execution of the part may set until the end of its
// transaction, folded; an empty one is not known. There are none where it sets nothing, and
// where it may set something that stays. x is of the text that the part is in.
func (p *Part) LocalNames(x Execution) (names []string) {
	if len(p.Locals) == 0 {
		return nil
	}
	if p.List != nil {
		if changes := p.listed(x); changes != nil {
			for i := range changes {
				names = append(names, strings.ToLower(changes[i].Name))
			}
			return names
		}
	}
	literals, readable := x.literals()
	for _, o := range p.Locals {
		name, _, ok := x.operand(o, literals)
		if !ok || !readable && o.Literal > 0 {
			name = nil
		}
		names = append(names, strings.ToLower(string(name)))
	}
	return names
}

// listed gives what the elements of the part's list change; nil where that is not known.
func (p *Part) listed(x Execution) []Change {
	literals, ok := x.literals()
	if !ok {
		return nil
	}
	array, null, ok := x.operand(*p.List, literals)
	if !ok || null {
		return nil
	}
	var elements [][]*string
	if err := json.Unmarshal(array, &elements); err != nil || elements == nil {
		return nil // something else than strings, for one
	}
	changes := make([]Change, 0, len(elements))
	for _, e := range elements {
		if len(e) < 2 || e[0] == nil {
			return nil
		}
		c := Change{Name: *e[0], Default: e[1] == nil, Local: true}
		if e[1] != nil {
			c.Value = *e[1]
		}
		changes = append(changes, c)
	}
	return changes
}

// literals gives the constants of the text that are strings; others are nil.
func (x *Execution) literals() ([][]byte, bool) {
	var out [][]byte
	lexer := sqltoken.NewLexer(x.Text, x.ServerMajor)
	for {
		t, err := lexer.Next()
		switch {
		case err != nil:
			return nil, false
		case t.Kind == sqltoken.EOF:
			return out, true
		case t.IsLiteral():
			value, ok := lexer.AppendString([]byte{}, t)
			if !ok {
				value = nil
			}
			out = append(out, value)
		}
	}
}

func (x *Execution) operand(o Operand, literals [][]byte) (value []byte, null, ok bool) {
	switch {
	case o.Word == "null":
		return nil, true, true
	case o.Word != "":
		return []byte(o.Word), false, true
	case o.Literal > 0:
		if o.Literal > len(literals) || literals[o.Literal-1] == nil {
			return nil, false, false
		}
		return literals[o.Literal-1], false, true
	case o.Param > 0 && x.Param != nil:
		return x.Param(o.Param)
	}
	return nil, false, false
}

// boolean reads a boolean as PostgreSQL does, in text or binary format
// (PostgreSQL documentation: "Boolean Type").
func boolean(b []byte) (value, ok bool) {
	if len(b) == 1 && b[0] <= 1 {
		return b[0] == 1, true
	}
	word := strings.ToLower(string(bytes.Trim(b, " \t\n\v\f\r")))
	switch {
	case word == "":
	case word == "1", word == "on", strings.HasPrefix("true", word), strings.HasPrefix("yes", word):
		return true, true
	case word == "0", word == "of", word == "off", strings.HasPrefix("false", word), strings.HasPrefix("no", word):
		return false, true
	}
	return false, false
}
