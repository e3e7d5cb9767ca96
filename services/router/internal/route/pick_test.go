package route

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

func pos(l lsn.LSN) lsn.Position { return lsn.Position{Timeline: 1, LSN: l} }

// cluster is a primary (0) and replicas 1, 2 at positions 100 and 200.
func cluster() *Table {
	return &Table{Primary: 0, Backends: []Backend{
		{Name: "p", Role: RolePrimary, Healthy: true, Fresh: true},
		{Name: "r1", Role: RoleReplica, Healthy: true, Fresh: true, Share: 1, Replayed: pos(100)},
		{Name: "r2", Role: RoleReplica, Healthy: true, Fresh: true, Share: 1, Replayed: pos(200)},
	}}
}

func TestPick(t *testing.T) {
	strict := func(f lsn.LSN) Request { return Request{Read: true, Strict: true, Fence: pos(f)} }
	for name, c := range map[string]struct {
		change func(*Table)
		req    Request
		want   Choice
	}{
		"write":                       {nil, Request{Reason: ReasonWrite}, Choice{0, ReasonWrite}},
		"pinned":                      {nil, Request{Reason: ReasonPinned}, Choice{0, ReasonPinned}},
		"fence only r2 has replayed":  {nil, strict(150), Choice{2, ReasonRead}},
		"fence exactly reached":       {nil, strict(200), Choice{2, ReasonRead}},
		"fence nobody has replayed":   {nil, strict(201), Choice{0, ReasonFenceFallback}},
		"another timeline's position": {nil, Request{Read: true, Strict: true, Fence: lsn.Position{Timeline: 2, LSN: 1}}, Choice{0, ReasonFenceFallback}},
		"r2 failed this read already": {nil, Request{Read: true, Strict: true, Fence: pos(150), Tried: Set(0).With(2)}, Choice{0, ReasonFenceFallback}},
		"all failed it":               {nil, Request{Read: true, Strict: true, Tried: Set(0).With(1).With(2)}, Choice{0, ReasonNoReplica}},
		"unhealthy":                   {func(t *Table) { t.Backends[2].Healthy = false }, strict(150), Choice{0, ReasonFenceFallback}},
		"down by own evidence":        {func(t *Table) { t.Backends[2].Down = true }, strict(50), Choice{1, ReasonRead}},
		"promoted":                    {func(t *Table) { t.Backends[2].Role = RolePrimary }, strict(150), Choice{0, ReasonFenceFallback}},
		"silent bus, strict": {func(t *Table) { t.Backends[1].Fresh, t.Backends[2].Fresh = false, false },
			strict(150), Choice{2, ReasonRead}},
		"silent bus, relaxed": {func(t *Table) { t.Backends[1].Fresh, t.Backends[2].Fresh = false, false },
			Request{Read: true, Fence: pos(150)}, Choice{0, ReasonNoReplica}},
		"relaxed ignores the fence": {func(t *Table) { t.Backends[2].Down = true }, Request{Read: true, Fence: pos(999)}, Choice{1, ReasonRead}},
		"emergency switch":          {nil, Request{Read: true, AllToPrimary: true}, Choice{0, ReasonAllToPrimary}},
		"no primary known":          {func(t *Table) { t.Primary = None }, Request{Reason: ReasonWrite}, Choice{None, ReasonWrite}},
		"no primary, fenced read":   {func(t *Table) { t.Primary = None }, strict(150), Choice{2, ReasonRead}},
		"lags too much":             {func(t *Table) { t.Backends[1].Lag = time.Minute }, Request{Read: true, Strict: true, MaxLag: time.Second}, Choice{2, ReasonRead}},
		"lags as much as it may": {func(t *Table) { t.Backends[1].Lag, t.Backends[2].Down = time.Second, true },
			Request{Read: true, Strict: true, MaxLag: time.Second}, Choice{1, ReasonRead}},
		"all lag too much": {func(t *Table) { t.Backends[1].Lag, t.Backends[2].Lag = time.Minute, time.Minute },
			Request{Read: true, Strict: true, MaxLag: time.Second}, Choice{0, ReasonLagging}},
		"one lags, the other is behind the fence": {func(t *Table) { t.Backends[2].Lag = time.Minute },
			Request{Read: true, Strict: true, Fence: pos(150), MaxLag: time.Second}, Choice{0, ReasonFenceFallback}},
		"least held":      {func(t *Table) { t.Backends[2].Held = 1 }, Request{Read: true, Strict: true}, Choice{1, ReasonRead}},
		"least in flight": {func(t *Table) { t.Backends[1].InFlight = 3 }, Request{Read: true, Strict: true}, Choice{2, ReasonRead}},
	} {
		t.Run(name, func(t *testing.T) {
			tab := cluster()
			if c.change != nil {
				c.change(tab)
			}
			for turn := range uint32(4) {
				c.req.Turn = turn
				if got := Pick(tab, &c.req); got != c.want {
					t.Fatalf("turn %d: picked %+v, want %+v", turn, got, c.want)
				}
			}
		})
	}
}
