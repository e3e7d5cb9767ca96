package catalog

import "github.com/pgpilot/pgpilot/libs/verdict"

// addWrites adds what a write to a relation may run: triggers, defaults, checks,
// rules, policies, and the writes to other relations that follow from it. Nobody
// reads a node of inWrite; only its effects count.
func (k *compiler) addWrites() {
	for _, t := range k.triggers {
		k.uses(k.at(object{inWrite, t.From}), k.at(object{inProc, t.To}))
	}
	for _, c := range k.cascades {
		k.uses(k.at(object{inWrite, c.From}), k.at(object{inWrite, c.To}))
	}
	for _, i := range k.inheritance {
		k.uses(k.at(object{inWrite, i.From}), k.at(object{inWrite, i.To}))
		// A row of a partition is checked against the key of the whole.
		k.uses(k.at(object{inWrite, i.To}), k.at(object{inRelation, i.From}))
	}
	for _, i := range k.identities {
		n := k.at(object{inWrite, i.ID})
		k.spoil(n, k.nodes[n].label+", which has an identity column", verdict.Sequences)
	}
	for _, t := range k.announced {
		k.uses(k.at(object{inWrite, definition}), k.at(object{inProc, t.ID}))
	}
	k.addRewrites()
}

// addRewrites adds the relations that rules may write in place of their own. The
// rule of a view that can be written is the one that reads it.
func (k *compiler) addRewrites() {
	owners := make(map[uint32]uint32)
	for _, p := range k.parts {
		if p.Class == inRule && p.OfClass == inWrite {
			owners[p.ID] = p.Of
		}
	}
	for _, d := range k.depends {
		if d.OnClass != inRelation {
			continue
		}
		switch owner, ok := owners[d.ID]; {
		case d.Class == inRule && ok:
			k.uses(k.at(object{inWrite, owner}), k.at(object{inWrite, d.On}))
		case d.Class == inProc:
			// A function whose body was parsed when it was made. One that is not volatile
			// does not write.
			if k.volatile[d.ID] {
				k.uses(k.at(object{inProc, d.ID}), k.at(object{inWrite, d.On}))
			}
		}
	}
}
