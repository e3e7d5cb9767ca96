// Command contest prints the comparison of the routing policies that is in
// docs/routing.md.
package main

import (
	"fmt"

	"github.com/pgpilot/pgpilot/services/router/internal/contest"
)

func main() { fmt.Print(contest.Table()) }
