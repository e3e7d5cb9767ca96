package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// maxPage bounds what is read of one service's answer.
const maxPage = 16 << 20

// httpSocket matches the name of a service's HTTP socket.
var httpSocket = regexp.MustCompile(`^([a-z][a-z0-9_-]*)\.([A-Za-z0-9_-]{1,16})\.http\.sock$`)

// instance is one running service.
type instance struct{ service, id string }

func (i instance) String() string { return i.service + "." + i.id }

// instances lists the running services that have an HTTP socket, by name. Who was killed
// before it served anybody is none: it will not answer again.
func instances(dir *rundir.Dir) ([]instance, error) {
	serving, err := dir.Serving()
	if err != nil {
		return nil, err
	}
	is := make([]instance, 0, len(serving))
	for _, in := range serving {
		is = append(is, instance{service: in.Service, id: in.ID})
	}
	slices.SortFunc(is, func(a, b instance) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(len(a.id), len(b.id)), cmp.Compare(a.id, b.id))
	})
	return is, nil
}

// transport speaks HTTP over the sockets of the run directory. The host of a URL is
// an instance's name.
func transport(dir *rundir.Dir) *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true, // a page every few seconds; a service may be another one by then
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, fmt.Errorf("dial service: %w", err)
			}
			m := httpSocket.FindStringSubmatch(host + ".http.sock")
			if m == nil {
				return nil, fmt.Errorf("dial service: %q is no service's name", host)
			}
			return rundir.Dial(ctx, dir.HTTPSocket(m[1], m[2]))
		},
	}
}

// get reads a page of a service. The body of an answer other than 200 is returned
// too.
func (r *Relay) get(ctx context.Context, in instance, path string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+in.String()+path, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", in, err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", in, err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("read answer of %s: %w", in, err)
	case len(body) > maxPage:
		return 0, nil, fmt.Errorf("read answer of %s: it is longer than %d bytes", in, maxPage)
	}
	return resp.StatusCode, body, nil
}

var errNotRunning = errors.New("none is running")
