// Command router serves clients' sessions: it routes every statement to the
// primary or to a replica that has replayed what the session must see.
package main

import (
	"os"

	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/services/router/internal/engine"
)

func main() {
	os.Exit(service.Main(service.Service{Name: rundir.Router, Check: engine.Check, Serve: serve}))
}
