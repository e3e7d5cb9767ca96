package rundir

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSocketPath is the room for a path in sockaddr_un, without the final zero.
const maxSocketPath = 107

// longestName is the longest file name this package makes below the directory,
// reserved when a directory's own path is checked.
const longestName = len("classifier.") + maxID + len(".http.sock")

const maxID = 16

// temporary is the end of a name in the making, which is nobody's to look at.
const temporary = ".new"

// Services with a socket in the run directory.
const (
	Listener   = "listener"
	Router     = "router"
	Classifier = "classifier"
	Lagpoller  = "lagpoller"
)

var (
	idPattern      = regexp.MustCompile(`^[A-Za-z0-9_-]{1,16}$`)
	servicePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
)

// Dir is an opened run directory. It is safe for concurrent use.
type Dir struct {
	path string
	// secrets are those that have been read or made here.
	secrets secrets
}

// Open makes the directory if it is missing and checks that it is private to
// this user and that socket paths inside it fit the kernel's limit.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("resolve run_dir %q: %w", path, err)
	}
	if len(abs)+1+longestName > maxSocketPath {
		return nil, fmt.Errorf("run_dir %q is too long: a Unix socket path holds %d bytes, so use a directory path of at most %d",
			abs, maxSocketPath, maxSocketPath-1-longestName)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("create run_dir: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(abs, &st); err != nil {
		return nil, fmt.Errorf("check run_dir %q: %w", abs, err)
	}
	if int(st.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("run_dir %q belongs to uid %d, but this service runs as uid %d: run every pgpilot service as the same user", abs, st.Uid, os.Geteuid())
	}
	if st.Mode&0o077 != 0 {
		return nil, fmt.Errorf("run_dir %q is open to other users (mode %03o): chmod 700 it, clients' connections pass through it", abs, st.Mode&0o777)
	}
	return &Dir{path: abs}, nil
}

// Path gives the absolute path of the directory.
func (d *Dir) Path() string { return d.path }

// Join gives the path of a file in the directory.
func (d *Dir) Join(name string) string { return filepath.Join(d.path, name) }

// Socket gives the path of a service instance's socket.
func (d *Dir) Socket(service, id string) string { return d.Join(service + "." + id + ".sock") }

// HTTPSocket gives the path of a service instance's metrics and health socket.
func (d *Dir) HTTPSocket(service, id string) string { return d.Join(service + "." + id + ".http.sock") }

// HTTPSockets gives the paths of the metrics and health sockets of a service's
// instances. Those of dead instances may be among them.
func (d *Dir) HTTPSockets(service string) ([]string, error) {
	paths, err := filepath.Glob(d.HTTPSocket(service, "*"))
	if err != nil { // a run_dir with [ in its name
		return nil, fmt.Errorf("list run_dir: %w", err)
	}
	return paths, nil
}

func (d *Dir) lock(service, id string) string { return d.Join(service + "." + id + ".lock") }

// split takes a socket's file name apart: "router.1.sock" gives "1" for service
// router. HTTP sockets and names in the making do not match.
func split(name, service string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(name, service+".")
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(rest, ".sock")
	return id, ok && idPattern.MatchString(id)
}
