package service

import (
	"log/slog"
	"net"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// peers accepts only connections from this process's own user: profiles and
// metrics tell of clients' statements.
type peers struct {
	*rundir.Socket
	log *slog.Logger
}

// Accept implements net.Listener.
func (p *peers) Accept() (net.Conn, error) {
	for {
		c, err := p.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if err := rundir.CheckPeer(c); err != nil {
			p.log.Warn("refused a connection to the HTTP socket", obs.KeyError, err)
			c.Close()
			continue
		}
		return c, nil
	}
}
