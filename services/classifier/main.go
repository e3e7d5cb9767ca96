// The classifier says of SQL statements whether they only read. See README.md.
package main

import (
	"os"

	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/services/classifier/internal/parse"
)

func main() {
	if parse.IsWorker(os.Args) {
		os.Exit(parse.Serve(os.Args, parse.C))
	}
	os.Exit(service.Main(service.Service{Name: rundir.Classifier, Check: check, Serve: serve}))
}
