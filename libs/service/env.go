package service

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Env is what a service is given to work with. It belongs to the frame: a
// service closes nothing in it.
type Env struct {
	// Config is the configuration at the start. It never changes; see Reloads.
	Config *config.Config
	// Reloads carries each valid new configuration. A service that is slow to read
	// it gets only the latest. It is never closed.
	Reloads <-chan *config.Config
	// Log has the service's name and instance on every line.
	Log *slog.Logger
	// Dir is the run directory.
	Dir *rundir.Dir
	// Claim is this process's hold on its names; Claim.ID is the instance's id.
	Claim *rundir.Claim
	// Metrics is served on /metrics; the service registers its collectors here.
	Metrics *prometheus.Registry
	// Health is served on /readyz. The service calls Health.Ready once everything
	// is started, and Health.Set for each part that may come and go.
	Health *obs.Health
	// Version of this build.
	Version string
}
