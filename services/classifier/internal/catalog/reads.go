package catalog

import (
	"strings"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/obs"
)

// seek looks for the functions of routing.read_functions in a database, and says once of
// each that it is not there, if none of the databases before had it: a name with a slip in
// it would otherwise have no effect and nobody would know.
func (l *Library) seek(database string, s *Snapshot) {
	for name, near := range l.missing(s) {
		log := l.opts.Log.With(obs.KeyDatabase, database, "function", name)
		if near != "" {
			log = log.With("nearest", near)
		}
		log.Warn("routing.read_functions names a function that no database looked into so far has; correct it, or have it created")
	}
}

// missing gives the functions that are to be told of, each with the one that may be meant.
func (l *Library) missing(s *Snapshot) map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]string)
	for name := range l.state.reads {
		switch {
		case s.hasFunction(name):
			l.state.had[name] = true
		case !l.state.had[name] && !l.state.missed[name]:
			l.state.missed[name] = true
			out[name] = s.nearestFunction(name)
		}
	}
	return out
}

// hasFunction reports whether there is a function of a name as in readSet.
func (s *Snapshot) hasFunction(name string) bool {
	schema, function := systemSchema, name
	if before, after, ok := strings.Cut(name, "."); ok {
		schema, function = before, after
	}
	for _, e := range s.functions[function] {
		if e.schema == schema {
			return true
		}
	}
	return false
}

// nearestFunction gives the function that a name may have been meant for: one of the same
// name in another schema, or else one whose name differs in a few letters.
func (s *Snapshot) nearestFunction(name string) string {
	_, function, qualified := strings.Cut(name, ".")
	if !qualified {
		function = name
	}
	if same := s.functions[function]; len(same) > 0 {
		return same[0].schema + "." + function
	}
	var all []string
	for n, entries := range s.functions {
		for _, e := range entries {
			all = append(all, qualifiedName(e.schema, n))
		}
	}
	return config.Nearest(name, all)
}
