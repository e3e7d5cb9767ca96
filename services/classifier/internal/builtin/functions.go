package builtin

import (
	_ "embed" // for the tables
	"fmt"
	"regexp"
	"strings"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

//go:embed functions.txt
var table string

//go:embed extensions.txt
var extensionTable string

// Group says why a function may or may not run on a replica.
type Group string

// The groups of functions.txt.
const (
	// Silent functions do something, and a standby lets them.
	Silent Group = "silent"
	// Answers come from the session or the server, not from replicated data.
	Answers Group = "answers"
	// Harmless functions are volatile in a way that nobody can rely on.
	Harmless Group = "harmless"
	// Volatility decides.
	Volatility Group = "volatility"
)

// Function is what is known of one function.
type Function struct {
	Group Group
	// Effects are those of a call on the server session. A function that reads has
	// none.
	Effects verdict.Effect
	// Reason is the reviewer's, for people.
	Reason string
}

// Reads reports whether the function may run on a replica.
func (f Function) Reads() bool { return f.Group == Harmless || f.Group == Volatility }

// suspicious are names of functions that answer, or sound as if they answered,
// from something else than replicated data.
var suspicious = regexp.MustCompile(`^(pg_stat|lo_|pg_read|pg_show|pg_ls_)|xid|xact|snapshot|backend|lock|` +
	`cursor|prepared|listening|temp|setting|file|tablespace|config|client|server|postmaster|conf_|timezone_|` +
	`extension|trigger|sequence|slot|wal_|_wal|subscription|origin|standby|recovery|to_xml|xmlschema|largeobject|` +
	`publication|stat_|_pid|numa|shmem|memory|control|promote`)

// named is the table: by name, or by name and types as in "age(xid)".
var named = mustRead(table, "")

// ofExtension has the functions of extensions, as in "pg_trgm set_limit".
var ofExtension = mustRead(extensionTable, "extension")

// Lookup judges a function of pg_catalog. types are those of its arguments as
// "integer,text", volatility is pg_proc.provolatile.
func Lookup(name, types string, volatility byte) Function {
	if f, ok := named[name+"("+types+")"]; ok {
		return f.by(volatility)
	}
	if f, ok := named[name]; ok {
		return f.by(volatility)
	}
	switch {
	case volatility == 'i', volatility == 's' && !suspicious.MatchString(name):
		return Function{Group: Volatility}
	}
	return Function{Group: Silent, Effects: verdict.Unproven, Reason: "not reviewed"}
}

// by makes sure that a function which goes by its volatility is not volatile.
func (f Function) by(volatility byte) Function {
	if f.Group == Volatility && volatility != 'i' && volatility != 's' {
		return Function{Group: Silent, Effects: verdict.Unproven, Reason: "volatile"}
	}
	return f
}

// Named gives the table's entry for a name of which neither the arguments nor the
// volatility are known: the worst of its overloads.
func Named(name string) (f Function, ok bool) {
	if f, ok := named[name]; ok {
		return f, true
	}
	for key, f := range named {
		if base, _, overload := strings.Cut(key, "("); overload && base == name {
			return f, true
		}
	}
	return Function{}, false
}

// Extension gives the review of a function of an extension, if there is one.
func Extension(extension, name string) (f Function, ok bool) {
	f, ok = ofExtension[extension+" "+name]
	return f, ok
}

// read takes a table apart. With owner, the first word of a line says whose the
// function is.
func read(text, owner string) (map[string]Function, error) {
	out := make(map[string]Function)
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		words, of := strings.Fields(line), ""
		if owner != "" {
			of, words = words[0]+" ", words[1:]
		}
		if len(words) < 4 {
			return nil, fmt.Errorf("line %d: want group, effects, name and reason", i+1)
		}
		f := Function{Group: Group(words[0]), Reason: strings.Join(words[3:], " ")}
		switch f.Group {
		case Silent, Answers, Harmless, Volatility:
		default:
			return nil, fmt.Errorf("line %d: there is no group %q", i+1, f.Group)
		}
		if words[1] != "none" {
			var err error
			if f.Effects, err = verdict.ParseEffects(strings.Split(words[1], "+")); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		}
		if f.Reads() && f.Effects != 0 {
			return nil, fmt.Errorf("line %d: a read without effects cannot have %v", i+1, f.Effects)
		}
		name := of + words[2]
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("line %d: %s is named twice", i+1, name)
		}
		out[name] = f
	}
	return out, nil
}

// mustRead reads a table that this package is built with.
func mustRead(text, owner string) map[string]Function {
	m, err := read(text, owner)
	if err != nil {
		panic("a table of package builtin: " + err.Error())
	}
	return m
}
