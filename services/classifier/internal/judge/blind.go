package judge

import "github.com/pgpilot/pgpilot/libs/verdict"

// Blind is the Catalog of a database that cannot be looked into. Users may have given
// what they have made any name, PostgreSQL's own included, and what a name without a
// schema stands for is not known: so only names of pg_catalog are what Static knows.
type Blind struct{ Static }

var _ Catalog = Blind{}

// Function implements Catalog.
func (b Blind) Function(schema, name string, arguments int) Standing {
	return b.seen(schema, "function "+name, b.Static.Function(schema, name, arguments))
}

// Others implements Catalog.
func (b Blind) Others(schema, name string, _ int) Standing {
	return b.seen(schema, "function "+name, Standing{})
}

// Attribute implements Catalog: there may be a function of any name that takes a row.
func (b Blind) Attribute(name string, _ bool) Standing { return b.Static.Attribute(name, false) }

// Operator implements Catalog.
func (b Blind) Operator(schema, name string) Standing {
	return b.seen(schema, "operator "+name, b.Static.Operator(schema, name))
}

// Type implements Catalog.
func (b Blind) Type(schema, name string) Standing {
	return b.seen(schema, "type "+name, b.Static.Type(schema, name))
}

// Relation implements Catalog.
func (b Blind) Relation(schema, name string) Standing {
	return b.seen(schema, "relation "+name, b.Static.Relation(schema, name))
}

// Written implements Catalog.
func (b Blind) Written(schema, name string) Standing { return b.Relation(schema, name) }

// seen is what is known of a name: nothing without its schema.
func (b Blind) seen(schema, what string, s Standing) Standing {
	if schema != "" {
		return s
	}
	s.Reason = what + ", of which a database that cannot be looked into may have another"
	s.Effects |= verdict.Unproven
	s.Unknown = b.Pending
	return s
}
