// Command lagpoller watches every PostgreSQL server and tells pgpilot's other
// services what it sees, over the bus that it runs.
package main

import (
	"os"

	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
)

func main() { os.Exit(service.Main(rundir.Lagpoller, serve)) }
