package lab

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
)

// The ordinary role, its password and the database it owns, the same in every lab.
const (
	User     = "pgpilot"
	Password = "pgpilot"
	Database = "pgpilot"
)

// DefaultPort is the primary's port in a development lab; replica N listens on
// DefaultPort + N.
const DefaultPort = 55432

// maxReplicas keeps every replica's slot and walsender, and a base backup of each,
// within the lab's max_wal_senders.
const maxReplicas = 9

// ErrNoCluster is returned by [Open] when the folder holds no lab.
var ErrNoCluster = errors.New("no lab here")

// Options says which cluster [Start] brings up. The zero value of everything but Dir
// is usable: a primary alone, on a free port, owned by the calling process.
type Options struct {
	// Dir names the lab and is the lab's own: created if missing, removed with it. A folder that holds anything
	// else is refused.
	Dir string
	// Replicas is the number of replicas wanted. For an existing lab a larger
	// number adds replicas; a smaller one changes nothing.
	Replicas int
	// BasePort is the primary's port, replica N gets BasePort + N. 0 keeps the ports
	// of an existing lab and picks free ports for a new one.
	BasePort int
	// BinDir is the folder of the programs postgres and initdb. Empty selects as
	// the package comment describes.
	BinDir string
	// FastUnsafe turns fsync off: a crash of the machine (not of a server)
	// may corrupt the lab. For tests.
	FastUnsafe bool
	// Detach leaves the servers running when the calling process ends.
	Detach bool
	// Logger receives progress at level Info. Nil discards it.
	Logger *slog.Logger
}

func (o *Options) normalize() error {
	if o.Dir == "" {
		return errors.New("lab needs a folder: set Options.Dir")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("find the lab's folder: %w", err)
	}
	o.Dir = dir
	if o.Replicas < 0 || o.Replicas > maxReplicas {
		return fmt.Errorf("a lab has 0 to %d replicas, not %d", maxReplicas, o.Replicas)
	}
	if o.BasePort != 0 && (o.BasePort < 1024 || o.BasePort+o.Replicas > 65535) {
		return fmt.Errorf("port %d is out of range: choose one from 1024 to %d", o.BasePort, 65535-o.Replicas)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}
