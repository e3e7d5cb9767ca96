package judge

import (
	"strings"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/builtin"
)

// Static is the Catalog of a database of which nothing is known but what PostgreSQL 15
// to 18 have in common: it takes every name of theirs for what it is there.
type Static struct {
	// Pending says that more is going to be known, so that what is not is Unknown.
	Pending bool
}

var _ Catalog = Static{}

// Function implements Catalog by the reviewed lists.
func (s Static) Function(schema, name string, arguments int) Standing {
	if schema != "" && schema != systemSchema {
		return Standing{Reason: "function " + schema + "." + name, Effects: verdict.Unproven, Unknown: s.Pending}
	}
	switch f, listed := builtin.Named(name); {
	case name == "age" && arguments == 2: // age(xid) has one
		return Standing{}
	case listed && !f.Reads():
		return Standing{Reason: "function " + name, Effects: f.Effects}
	case readFunctions[name]:
		return Standing{}
	}
	return Standing{Reason: "function " + name, Effects: verdict.Unproven, Unknown: s.Pending}
}

// Attribute implements Catalog: only a user's function takes the row of a
// relation, and where a row is anything else, it may be a column or a function.
func (s Static) Attribute(name string, row bool) Standing {
	if row {
		return Standing{}
	}
	f := s.Function("", name, 1)
	return Standing{Reason: "attribute " + name + ", which may be a function", Effects: f.Effects | verdict.Unproven, Unknown: s.Pending}
}

// Others implements Catalog: users' functions are not known.
func (Static) Others(string, string, int) Standing { return Standing{} }

// Block implements Catalog.
func (Static) Block(string, string) Standing { return Standing{Effects: verdict.Unproven} }

// Parameter implements Catalog.
func (Static) Parameter(string) bool { return false }

// Operator implements Catalog.
func (s Static) Operator(schema, name string) Standing {
	if (schema == "" || schema == systemSchema) && operators[name] {
		return Standing{}
	}
	return Standing{Reason: "operator " + name, Effects: verdict.Unproven, Unknown: s.Pending}
}

// Type implements Catalog.
func (s Static) Type(schema, name string) Standing {
	if (schema == "" || schema == systemSchema) && types[name] {
		return Standing{}
	}
	return Standing{Reason: "type " + name, Effects: verdict.Unproven, Unknown: s.Pending}
}

// Relation implements Catalog: only PostgreSQL's own are known.
func (s Static) Relation(schema, name string) Standing {
	if schema == systemSchema || schema == "" && strings.HasPrefix(name, "pg_") {
		if SystemRelation(name) {
			return Standing{}
		}
		return Standing{Reason: "relation " + name}
	}
	return Standing{Reason: "relation " + name + " of a database that cannot be looked into", Effects: verdict.Unproven, Unknown: s.Pending}
}

// Written implements Catalog. An UPDATE of pg_settings runs set_config.
func (s Static) Written(schema, name string) Standing {
	found := s.Relation(schema, name)
	if name == "pg_settings" {
		found.Effects |= verdict.Session
	}
	return found
}

// Unseen implements Catalog.
func (Static) Unseen() Standing { return Standing{} }

// Major implements Catalog.
func (Static) Major() int { return 0 }

// Defining implements Catalog: there may be event triggers.
func (Static) Defining() Standing {
	return Standing{Reason: "event triggers of a database that cannot be looked into", Effects: verdict.Unproven}
}
