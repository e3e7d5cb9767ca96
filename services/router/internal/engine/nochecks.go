//go:build !pgpilot_checks

package engine

// checkPooled is empty in programs that serve clients: see checks.go.
func (s *server) checkPooled() {}
