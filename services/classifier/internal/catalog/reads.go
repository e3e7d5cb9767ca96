package catalog

import (
	"strings"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/obs"
)

// seek looks for the functions of routing.read_functions in a database, and says once of
// each that it is not there, if none of the databases before had it: a name with a slip in
// it would otherwise have no effect and nobody would know. A long list of such names takes
// its time to be compared with all there are, so nobody waits for that.
func (l *Library) seek(database string, s *Snapshot) {
	missing := l.missing(s)
	if len(missing) == 0 {
		return
	}
	l.watches.Go(func() {
		names := s.functionNames()
		for _, name := range missing {
			if l.ctx.Err() != nil {
				return
			}
			log := l.opts.Log.With(obs.KeyDatabase, database, "function", name)
			if near := s.nearestFunction(name, names); near != "" {
				log = log.With("nearest", near)
			}
			log.Warn("routing.read_functions names a function that no database looked into so far has; correct it, or have it created")
		}
	})
}

// missing gives the functions that are to be told of.
func (l *Library) missing(s *Snapshot) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for name := range l.state.reads {
		switch {
		case s.hasFunction(name):
			l.state.had[name] = true
		case !l.state.had[name] && !l.state.missed[name]:
			l.state.missed[name] = true
			out = append(out, name)
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

// functionNames gives the name of each function as in readSet.
func (s *Snapshot) functionNames() []string {
	var out []string
	for n, entries := range s.functions {
		for _, e := range entries {
			out = append(out, qualifiedName(e.schema, n))
		}
	}
	return out
}

// nearestFunction gives the function that a name may have been meant for: one of the same
// name in another schema, or else the one of names that differs in a few letters.
func (s *Snapshot) nearestFunction(name string, names []string) string {
	_, function, qualified := strings.Cut(name, ".")
	if !qualified {
		function = name
	}
	if same := s.functions[function]; len(same) > 0 {
		return same[0].schema + "." + function
	}
	return config.Nearest(name, names)
}
