package handoff

import "strings"

// ownPrefix begins the names of pgpilot's own parameters. Servers do not get to see
// them.
const ownPrefix = "pgpilot."

// isOwn reports whether a parameter is pgpilot's. Servers compare names without
// regard to case.
func isOwn(name string) bool {
	return len(name) > len(ownPrefix) && strings.EqualFold(name[:len(ownPrefix)], ownPrefix)
}

// Own gives pgpilot's parameters among the startup parameters, the ones given in
// options first, in the order in which servers take them: later ones win (PostgreSQL
// documentation: "Setting Parameters: Parameter Interaction via Shell"). Names are in
// lower case.
func (r *Record) Own() []Parameter {
	var own, others []Parameter
	for _, p := range r.Startup {
		switch {
		case isOwn(p.Name):
			others = append(others, Parameter{strings.ToLower(p.Name), p.Value})
		case p.Name == optionsName && mayHoldOwn(p.Value):
			_, in := splitOptions(p.Value)
			own = append(own, in...)
		}
	}
	return append(own, others...)
}

// withoutOwn gives startup parameters without pgpilot's.
func withoutOwn(ps []Parameter) []Parameter {
	clean := true
	for _, p := range ps {
		clean = clean && !isOwn(p.Name) && (p.Name != optionsName || !mayHoldOwn(p.Value))
	}
	if clean {
		return ps
	}
	var out []Parameter
	for _, p := range ps {
		switch {
		case isOwn(p.Name):
			continue
		case p.Name == optionsName:
			if p.Value, _ = splitOptions(p.Value); p.Value == "" {
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// optionsName is the startup parameter that holds command-line options for the
// server process ("Message Formats: StartupMessage").
const optionsName = "options"

func mayHoldOwn(options string) bool { return strings.Contains(strings.ToLower(options), ownPrefix) }

// splitOptions parts options into those for servers, written as they were, and
// pgpilot's: -c name=value and --name=value, where dashes in names stand for
// underscores.
func splitOptions(options string) (rest string, own []Parameter) {
	var kept []string
	args := splitArguments(options)
	for i := 0; i < len(args); i++ {
		setting, n := "", 1
		switch a := args[i]; {
		case a.value == "-c" && i+1 < len(args):
			setting, n = args[i+1].value, 2
		case strings.HasPrefix(a.value, "-c"), strings.HasPrefix(a.value, "--"):
			setting = a.value[2:]
		}
		name, value, ok := strings.Cut(setting, "=")
		if name = strings.ReplaceAll(name, "-", "_"); ok && isOwn(name) {
			own = append(own, Parameter{strings.ToLower(name), value})
			i += n - 1
			continue
		}
		for _, a := range args[i : i+n] {
			kept = append(kept, a.source)
		}
		i += n - 1
	}
	return strings.Join(kept, " "), own
}

// argument is a command-line argument and how it was written.
type argument struct{ value, source string }

// splitArguments parts options at white space, which a backslash makes part of an
// argument, as it does a backslash.
func splitArguments(options string) []argument {
	var out []argument
	var value strings.Builder
	from := -1
	for i := 0; i < len(options); i++ {
		c := options[i]
		switch {
		case strings.IndexByte(" \t\n\v\f\r", c) >= 0:
			if from >= 0 {
				out = append(out, argument{value.String(), options[from:i]})
				value.Reset()
				from = -1
			}
			continue
		case from < 0:
			from = i
		}
		if c == '\\' && i+1 < len(options) {
			i++
			c = options[i]
		}
		value.WriteByte(c)
	}
	if from >= 0 {
		out = append(out, argument{value.String(), options[from:]})
	}
	return out
}
