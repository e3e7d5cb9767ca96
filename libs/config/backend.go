package config

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
)

// DefaultServerPort is taken for a backend given as a host without a port.
const DefaultServerPort = 5432

// Backend is one PostgreSQL server. An address is exactly one server: no
// round-robin name, no pooler behind it.
type Backend struct {
	// Name is used in logs, metrics and subjects; the address where it is not given.
	Name string `json:"name"`
	// Address is host:port, or the folder of a Unix socket followed by :port.
	Address string `json:"address"`
	// Weight is its share of the reads in proportion to the other replicas', from 1 to
	// 1000; 1 where none is given.
	Weight int `json:"weight,omitempty"`
}

// HostPort takes the address apart, as PostgreSQL clients want it: a host that
// begins with a slash is the folder of a Unix socket.
func (b Backend) HostPort() (host string, port uint16, err error) {
	return splitAddress(b.Address)
}

// backendObject is what a file may say about a backend: an address, or a host
// and a port.
type backendObject struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Host    string `json:"host"`
	Port    int    `json:"port"`
	Weight  int    `json:"weight"`
}

func (p *problems) decodeBackend(n *node, b *Backend, path string) {
	var o backendObject
	switch n.kind {
	case kindString:
		o.Address = n.text
	case kindObject:
		before := len(p.found)
		p.decodeObject(n, reflect.ValueOf(&o).Elem(), path)
		if len(p.found) > before {
			return
		}
	default:
		p.add(path, "want \"host:port\" or an object with an address, not %s", n.kind)
		return
	}
	if _, given := p.lines[join(path, "port")]; given && (o.Port < 1 || o.Port > 65535) {
		p.add(join(path, "port"), "%d is not a port: write a number from 1 to 65535", o.Port)
		return
	}
	switch {
	case o.Address != "" && (o.Host != "" || o.Port != 0):
		p.add(path, "give either address or host and port, not both")
		return
	case o.Address == "" && o.Host == "":
		p.add(path, "give the server's address as host:port")
		return
	case o.Address == "":
		if o.Port == 0 {
			o.Port = DefaultServerPort
		}
		o.Address = net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
	}
	if o.Name == "" {
		o.Name = o.Address
	}
	if _, given := p.lines[join(path, "weight")]; !given {
		o.Weight = 1
	}
	*b = Backend{Name: o.Name, Address: o.Address, Weight: o.Weight}
}

var errNoPort = errors.New("the port is missing, write host:port")

// splitAddress takes host:port or /folder:port apart; the port is a number.
func splitAddress(address string) (host string, port uint16, err error) {
	var digits string
	if strings.HasPrefix(address, "/") {
		i := strings.LastIndexByte(address, ':')
		if i < 0 {
			return "", 0, errNoPort
		}
		host, digits = address[:i], address[i+1:]
	} else if host, digits, err = net.SplitHostPort(address); err != nil {
		var ae *net.AddrError
		if errors.As(err, &ae) && ae.Err == "missing port in address" {
			return "", 0, errNoPort
		}
		return "", 0, errors.New("write host:port, with an IPv6 address in brackets as in [::1]:5432")
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not a port: write a number from 1 to 65535", digits)
	}
	return host, uint16(n), nil
}
