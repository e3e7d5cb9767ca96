package verdict

import (
	"encoding/json"
	"fmt"
	"slices"
	"unsafe"
)

// Detail is what is known of a text beyond kind and effects, where that helps who
// routes it: several statements in one string, PREPARE and EXECUTE, and settings
// that depend on arguments. It is shared and never changes.
type Detail struct {
	// Parts has an entry for each statement of the text, in order.
	Parts []Part `json:"parts"`
}

// Part is one statement of a text.
type Part struct {
	Kind    Kind   `json:"kind"`
	Effects Effect `json:"effects,omitempty"`
	// Start and End are where it lies in the text, in bytes. They hold for texts of
	// several statements, which share a verdict only with themselves, and are zero for
	// others.
	Start int `json:"start,omitempty"`
	End   int `json:"end,omitempty"`
	// Prepare is set for PREPARE, Execute for EXECUTE.
	Prepare *Prepare `json:"prepare,omitempty"`
	Execute *Execute `json:"execute,omitempty"`
	// Settings are the calls of set_config, each of which runs exactly once. Rest are
	// the statement's effects without theirs, and without what it sets by Locals.
	Settings []Setting `json:"settings,omitempty"`
	Rest     Effect    `json:"rest,omitempty"`
	// Locals are set where all that the statement sets ends with its transaction: where the
	// names of these settings come from, whatever their values and however often it sets
	// them. The zero Operand stands for a name that is not known.
	Locals []Operand `json:"locals,omitempty"`
	// List is where a JSON array comes from of which each element is an array of the name and
	// the value of a setting, if that is all that Locals stands for.
	List *Operand `json:"list,omitempty"`
}

// Prepare is what PREPARE prepares (PostgreSQL documentation: "PREPARE").
type Prepare struct {
	// Name as the server knows it: folded, without quotes.
	Name string `json:"name"`
	// Kind and Effects are those of running it.
	Kind    Kind   `json:"kind"`
	Effects Effect `json:"effects,omitempty"`
}

// Execute is what EXECUTE runs (PostgreSQL documentation: "EXECUTE"). Its verdict is
// that of the statement prepared under Name, which Parameters can only make worse:
//
//	kind = Read if both are, effects = both
//
// Where the statement is not known, the verdict of the EXECUTE itself holds.
type Execute struct {
	Name string `json:"name"`
	// Kind and Effects are those of computing the parameters.
	Kind    Kind   `json:"kind"`
	Effects Effect `json:"effects,omitempty"`
}

// Of gives the verdict on the EXECUTE of what was prepared.
func (x *Execute) Of(p *Prepare) (Kind, Effect) {
	if p.Kind == Read && x.Kind == Read {
		return Read, p.Effects | x.Effects
	}
	return Write, p.Effects | x.Effects
}

// MarshalJSON writes what Kind.String gives.
func (k Kind) MarshalJSON() ([]byte, error) { return json.Marshal(k.String()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (k *Kind) UnmarshalJSON(b []byte) (err error) {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("read statement kind: %w", err)
	}
	*k, err = ParseKind(s)
	return err
}

// MarshalJSON writes what Effect.Names lists.
func (e Effect) MarshalJSON() ([]byte, error) { return json.Marshal(e.Names()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Effect) UnmarshalJSON(b []byte) (err error) {
	var names []string
	if err := json.Unmarshal(b, &names); err != nil {
		return fmt.Errorf("read statement effects: %w", err)
	}
	*e, err = ParseEffects(names)
	return err
}

// MaxDetail bounds a Detail as it travels, in bytes: routers and classifiers keep many. A
// text with more to tell has none.
const MaxDetail = 4 << 10

// Travels reports whether it is short enough to travel. Another one is not worth keeping.
func (d *Detail) Travels() bool { return d.encode() != nil }

// DetailRoom is how many bytes of details a cache may hold for each of the verdicts it has
// room for. Most have none; a client can give thousands of them the longest there is.
const DetailRoom = 256

// Size is about how many bytes it takes in memory.
func (d *Detail) Size() int {
	if d == nil {
		return 0
	}
	n := int(unsafe.Sizeof(*d)) + len(d.Parts)*int(unsafe.Sizeof(Part{}))
	for i := range d.Parts {
		p := &d.Parts[i]
		n += len(p.Settings)*int(unsafe.Sizeof(Setting{})) + len(p.Locals)*int(unsafe.Sizeof(Operand{}))
		if p.List != nil {
			n += int(unsafe.Sizeof(*p.List))
		}
		if p.Prepare != nil {
			n += int(unsafe.Sizeof(*p.Prepare)) + len(p.Prepare.Name)
		}
		if p.Execute != nil {
			n += int(unsafe.Sizeof(*p.Execute)) + len(p.Execute.Name)
		}
	}
	return n
}

// encode gives the Detail as it travels; nothing for none.
func (d *Detail) encode() []byte {
	if d == nil {
		return nil
	}
	b, err := json.Marshal(d)
	if err != nil || len(b) > MaxDetail {
		return nil
	}
	return b
}

// decodeDetail reads what encode gives.
func decodeDetail(b []byte) (*Detail, error) {
	if len(b) == 0 {
		return nil, nil
	}
	d := new(Detail)
	if err := json.Unmarshal(b, d); err != nil {
		return nil, fmt.Errorf("read a verdict's detail: %w", err)
	}
	d.Parts = slices.Clip(slices.Clone(d.Parts)) // as long as it is, not as it was to grow
	return d, nil
}
