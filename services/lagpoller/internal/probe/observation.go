package probe

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

// Observation is what one server said at one moment.
type Observation struct {
	Role        bus.Role
	Incarnation lsn.Incarnation
	Geometry    lsn.Geometry
	// ServerVersion is server_version_num.
	ServerVersion int
	// Replay and Receive are of a standby. Receive is zero where nothing was
	// streamed since its start.
	Replay, Receive lsn.LSN
	// Receiving says that a standby is being streamed to.
	Receiving bool
	// Insert and Flush are of a primary. Insert is rounded to what a standby can
	// reach (lsn.Geometry.RoundToPage).
	Insert, Flush lsn.LSN
	// Settings is what StoredSettings gives of a primary, empty where it was not asked.
	Settings string
	// Asked and Answered enclose the moment at which the server looked.
	Asked, Answered time.Time
	// AskedBoot is Asked by the clock that all processes of the machine share, whose
	// name is Clock.
	AskedBoot time.Duration
	Clock     string
}

// statusQuery works on primaries and standbys alike and on a server that becomes
// a primary meanwhile: it never calls a function that the other kind refuses.
const statusQuery = `SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn(), pg_last_wal_receive_lsn(),
 CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() END,
 CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_flush_lsn() END,
 CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END,
 EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')`

// replayQuery is the cheapest question of a burst.
const replayQuery = "SELECT pg_last_wal_replay_lsn()"

// ErrTurning reports that the server changed its timeline or its role while it
// was asked.
var ErrTurning = errors.New("the server changes its timeline or role at this moment")

// tries is how often a server that changes its timeline or role is asked in a row:
// it changes once, so the second answer should hold.
const tries = 3

// Observe asks for everything; timeout is for all of it. After an error other than
// ErrTurning the Conn is of no more use.
func (c *Conn) Observe(timeout time.Duration) (o Observation, err error) {
	deadline := time.Now().Add(timeout)
	for range tries {
		if o, err = c.observe(deadline); !errors.Is(err, ErrTurning) {
			break
		}
	}
	return o, err
}

func (c *Conn) observe(deadline time.Time) (Observation, error) {
	o := c.observation()
	var timelines [3]lsn.Timeline
	err := c.exchange(deadline, func(query int, v [][]byte) error {
		if query == 1 {
			return readStatus(v, &o)
		}
		err := c.readSystem(v)
		timelines[query] = c.timeline
		return err
	}, identifySystem, statusQuery, identifySystem)
	o.Answered = time.Now()
	if err != nil {
		return o, fmt.Errorf("ask for the positions: %w", err)
	}
	switch {
	case o.Role == bus.Primary && o.Incarnation.Timeline != 0 && o.Insert != 0:
		o.Insert = o.Geometry.RoundToPage(o.Insert)
		return o, nil
	case o.Role == bus.Replica && timelines[0] == timelines[2] && o.Replay != 0:
		o.Incarnation.Timeline = c.timeline
		return o, nil
	}
	return o, ErrTurning
}

// ObserveReplay asks a standby only how far it has replayed. The timeline before
// is the one that the previous observation ended with: a server's timeline only
// grows, so one that is the same afterwards was the same in between.
func (c *Conn) ObserveReplay(timeout time.Duration) (Observation, error) {
	o := c.observation()
	o.Role = bus.Replica
	before := c.timeline
	err := c.exchange(o.Asked.Add(timeout), func(query int, v [][]byte) error {
		if query == 1 {
			return c.readSystem(v)
		}
		if len(v) != 1 {
			return fmt.Errorf("the replay position has %d columns instead of 1", len(v))
		}
		var err error
		o.Replay, err = readLSN(v[0])
		return err
	}, replayQuery, identifySystem)
	o.Answered = time.Now()
	if err != nil {
		return o, fmt.Errorf("ask for the replay position: %w", err)
	}
	if before != c.timeline || o.Replay == 0 {
		return o, ErrTurning
	}
	o.Incarnation.Timeline = before
	return o, nil
}

func (c *Conn) observation() Observation {
	return Observation{
		Incarnation: c.base, Geometry: c.geometry, ServerVersion: c.version,
		Asked: time.Now(), AskedBoot: c.clock.Now(), Clock: c.clock.Name,
	}
}

func readStatus(v [][]byte, o *Observation) error {
	if len(v) != 7 {
		return fmt.Errorf("the positions have %d columns instead of 7", len(v))
	}
	o.Role = bus.Replica
	if string(v[0]) == "f" {
		o.Role = bus.Primary
	}
	for i, to := range []*lsn.LSN{&o.Replay, &o.Receive, &o.Insert, &o.Flush} {
		l, err := readLSN(v[i+1])
		if err != nil {
			return err
		}
		*to = l
	}
	if o.Role == bus.Replica {
		o.Receiving = string(v[6]) == "t"
		o.Insert, o.Flush = 0, 0 // told if it was promoted while it answered
		return nil
	}
	o.Replay, o.Receive = 0, 0 // a former standby still tells where its replay ended
	if v[5] == nil {
		return nil
	}
	timeline, err := strconv.ParseUint(string(v[5]), 16, 32)
	if err != nil {
		return fmt.Errorf("read the timeline from the WAL file name: %w", err)
	}
	o.Incarnation.Timeline = lsn.Timeline(timeline)
	return nil
}

// readLSN takes a pg_lsn or NULL, which stands for zero.
func readLSN(v []byte) (lsn.LSN, error) {
	if v == nil {
		return 0, nil
	}
	return lsn.Parse(string(v))
}
