package upstream

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// cancelRequestCode is the code of a CancelRequest (PostgreSQL documentation,
// "Message Formats").
const cancelRequestCode = 80877102

// Cancel asks the server to cancel what the connection with this key runs, and
// returns when the server has closed the request's connection: by then it has
// sent its signal, which therefore cannot hit a later statement.
func Cancel(ctx context.Context, t Target, pid uint32, secret []byte) error {
	network, address := "tcp", net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port)))
	if len(t.Host) > 0 && t.Host[0] == '/' {
		network, address = "unix", t.Host+"/.s.PGSQL."+strconv.Itoa(int(t.Port))
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return fmt.Errorf("cancel: %w", err)
		}
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(12+len(secret)))
	b = binary.BigEndian.AppendUint32(b, cancelRequestCode)
	b = binary.BigEndian.AppendUint32(b, pid)
	b = append(b, secret...)
	if _, err := c.Write(b); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// CancelTimeout bounds a cancel request.
const CancelTimeout = 10 * time.Second
