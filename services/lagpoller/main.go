// Command lagpoller watches every PostgreSQL server and tells pgpilot's other
// services what it sees, over the bus that it runs.
package main

import (
	"os"

	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/poll"
)

func main() {
	os.Exit(service.Main(service.Service{Name: rundir.Lagpoller, Check: poll.Check, Serve: serve}))
}
