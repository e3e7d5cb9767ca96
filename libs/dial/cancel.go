package dial

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/tcp"
)

// cancelRequest is the code of a CancelRequest (PostgreSQL documentation,
// "Message Formats").
const cancelRequest = 1234<<16 | 5678

// Cancel asks the server to cancel what the connection with this key runs, and
// returns when the server has closed the request's connection: by then it has
// sent its signal, which therefore cannot hit a later statement. The key travels
// encrypted where connections are.
func (s Server) Cancel(ctx context.Context, pid uint32, secret []byte) error {
	c, err := s.open(ctx)
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // nobody waits any longer
	defer stop()
	b := binary.BigEndian.AppendUint32(nil, uint32(12+len(secret)))
	b = binary.BigEndian.AppendUint32(b, cancelRequest)
	b = binary.BigEndian.AppendUint32(b, pid)
	b = append(b, secret...)
	if _, err := c.Write(b); err != nil {
		return fmt.Errorf("cancel: %w", cmp.Or(ctx.Err(), err))
	}
	// A server over TLS may end the connection without close_notify.
	if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("cancel: %w", cmp.Or(ctx.Err(), err))
	}
	return nil
}

// open opens a connection and encrypts it.
func (s Server) open(ctx context.Context) (net.Conn, error) {
	secure, err := s.encryption()
	if err != nil {
		return nil, err
	}
	n := &negotiation{secure: secure, optional: s.TLS.Mode == config.SSLPrefer}
	c, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	secured, err := n.open(ctx, c)
	if err != nil && n.optional && n.blames(err) {
		return s.dial(ctx)
	}
	if err != nil {
		return nil, err
	}
	return secured, nil
}

func (s Server) dial(ctx context.Context) (net.Conn, error) {
	network, address := "tcp", net.JoinHostPort(s.Host, strconv.Itoa(int(s.Port)))
	if len(s.Host) > 0 && s.Host[0] == '/' {
		network, address = "unix", s.Host+"/.s.PGSQL."+strconv.Itoa(int(s.Port))
	}
	return tcp.Dialer(s.TCP).DialContext(ctx, network, address)
}
