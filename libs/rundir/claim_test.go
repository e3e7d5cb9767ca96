package rundir

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

func names(t *testing.T, d *Dir) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(d.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// An instance whose lock was removed, and whose id another one has taken, takes nothing away
// from that when it ends.
func TestCloseLeavesASuccessorsNames(t *testing.T) {
	d := open(t)
	before, err := d.Claim(Router, "1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.lock(Router, "1")); err != nil {
		t.Fatal(err)
	}
	after, err := d.Claim(Router, "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, listen := range []func() (*Socket, error){after.Listen, after.ListenHTTP} {
		s, err := listen()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	if err := after.Note("here"); err != nil {
		t.Fatal(err)
	}
	was := names(t, d)
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	if is := names(t, d); len(is) != 4 || !slices.Equal(is, was) {
		t.Errorf("names %v, want %v", is, was)
	}
	if err := after.Close(); err != nil {
		t.Fatal(err)
	}
	if left := names(t, d); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// One whose lock was removed by a cleaner, and nobody's since, leaves nothing behind.
func TestCloseWithoutALockRemovesAll(t *testing.T) {
	d := open(t)
	c, err := d.Claim(Router, "1")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Remove(d.lock(Router, "1")); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if left := names(t, d); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The names of one that was killed go as a whole, those in the making too, and no others.
func TestADeadInstancesNamesGo(t *testing.T) {
	d := open(t)
	others := []string{"bus.sock", "lagpoller.10.sock", "lagpoller.1.log", "router.1.new"}
	for _, name := range append(others, "lagpoller.1.sock", "lagpoller.1.http.sock", "lagpoller.1.note", "lagpoller.1.lock",
		"lagpoller.1.new", "lagpoller.1.bus.new", "lagpoller.1.note.new") {
		if err := os.WriteFile(d.Join(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.bury(Lagpoller, "1")
	slices.Sort(others)
	if left := names(t, d); !slices.Equal(left, others) {
		t.Errorf("left: %v, want %v", left, others)
	}
}

// Whoever comes last has a shared name, and it leads to somebody, however many come at once.
func TestASharedNameLeadsToSomebody(t *testing.T) {
	d := open(t)
	var claims []*Claim
	for _, id := range []string{"1", "abcdefghijklmnop", "3"} { // the longest one too
		c, err := d.Claim(Lagpoller, id)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		claims = append(claims, c)
	}
	for range 200 {
		var mu sync.Mutex
		var open []*Socket
		var wg sync.WaitGroup
		for _, c := range claims {
			wg.Go(func() {
				s, err := c.ListenAs("bus.sock")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				open = append(open, s)
			})
		}
		wg.Wait()
		conn, err := net.Dial("unix", d.Join("bus.sock"))
		if err != nil {
			t.Fatalf("nobody is there: %v", err)
		}
		conn.Close()
		for _, s := range open {
			s.Close()
		}
	}
	if _, err := claims[0].ListenAs(strings.Repeat("x", 40) + ".sock"); err == nil {
		t.Error("a name for which there may be no room is taken")
	}
}

// An instance that was killed before it served anybody is none.
func TestServingShowsTheLivingOfAllServices(t *testing.T) {
	d := open(t)
	for service, id := range map[string]string{Router: "1", "guard": "b"} {
		c, err := d.Claim(service, id)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := c.ListenHTTP()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	dead, err := d.Claim(Router, "2")
	if err != nil {
		t.Fatal(err)
	}
	s, err := dead.ListenHTTP()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	dead.lock.Close() // as the kernel does when it is killed; its names stay
	got, err := d.Serving()
	var seen []string
	for _, in := range got {
		seen = append(seen, in.Service+"."+in.ID)
	}
	slices.Sort(seen)
	if err != nil || !slices.Equal(seen, []string{"guard.b", "router.1"}) {
		t.Errorf("%v serve, %v", seen, err)
	}
	for _, name := range []string{"router.2.http.sock", "router.2.lock"} {
		if _, err := os.Stat(d.Join(name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there (%v)", name, err)
		}
	}
}
