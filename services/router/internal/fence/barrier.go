package fence

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Snapshot is a pg_snapshot as pg_current_snapshot() shows it, xmin:xmax:xip,…
// (PostgreSQL documentation, "Transaction ID and Snapshot Information Functions").
type Snapshot struct {
	// Xmax is one more than the highest transaction id that has ended.
	Xmax uint64
	// Running are the ids below Xmax that had not ended, ascending.
	Running []uint64
}

// ParseSnapshot reads the text of a pg_snapshot.
func ParseSnapshot(s string) (Snapshot, error) {
	out, err := parseSnapshot(s)
	if err != nil {
		return Snapshot{}, fmt.Errorf("read snapshot: %w", err)
	}
	return out, nil
}

func parseSnapshot(s string) (Snapshot, error) {
	first, rest, ok := strings.Cut(s, ":")
	last, list, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 {
		return Snapshot{}, errors.New("it is not of the form xmin:xmax:xip,…")
	}
	xmin, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		return Snapshot{}, fmt.Errorf("xmin: %w", err)
	}
	var out Snapshot
	if out.Xmax, err = strconv.ParseUint(last, 10, 64); err != nil {
		return Snapshot{}, fmt.Errorf("xmax: %w", err)
	}
	if xmin > out.Xmax {
		return Snapshot{}, errors.New("xmin is higher than xmax")
	}
	if list == "" {
		return out, nil
	}
	for x := range strings.SplitSeq(list, ",") {
		xid, err := strconv.ParseUint(x, 10, 64)
		if err != nil {
			return Snapshot{}, fmt.Errorf("xip: %w", err)
		}
		if xid < xmin || xid >= out.Xmax || len(out.Running) > 0 && xid <= out.Running[len(out.Running)-1] {
			return Snapshot{}, errors.New("xip is out of order")
		}
		out.Running = append(out.Running, xid)
	}
	return out, nil
}

// Shows decides whether a primary with this snapshot shows all that a replica with
// the given xmax has shown. A standby makes a commit visible when it replays it, while
// the backend that commits may still be waiting for the standby, and the primary does not
// show it yet. behind says that it does not. Otherwise the primary is level unless one of
// the doubtful ids, still running on the primary, has committed on the replica
// (pg_xact_status there).
func (s *Snapshot) Shows(replicaXmax uint64) (doubtful []uint64, behind bool) {
	if replicaXmax > s.Xmax {
		return nil, true
	}
	n := 0
	for n < len(s.Running) && s.Running[n] < replicaXmax {
		n++
	}
	return s.Running[:n], false
}
