// Package rundir is the directory where pgpilot's services find each other.
//
// Every running service instance owns some names in it: a socket
// <service>.<id>.sock, an HTTP socket <service>.<id>.http.sock, and a lock file
// <service>.<id>.lock that it holds with flock for as long as it lives. A socket
// whose lock is free belongs to a dead instance; anyone may remove it. Sockets
// appear under their final name only once they accept connections (bind to a
// temporary name, listen, rename), so a name that is listed can be dialled. What else
// an instance has to tell those of its kind is in a note, <service>.<id>.note. Names
// that end in .new are in the making.
//
// Secrets that all services of the directory share, such as the one by which they sign in
// at the bus, are made by whoever needs one first.
//
// Names that somebody removes while their owner runs are made again within a second, and
// secrets that a running service goes by are put back as they were.
//
// The directory is private to one user (mode 0700), and both ends of every
// connection check the other's uid with SO_PEERCRED: what travels here are
// clients' sockets, statement text and positions that decide what is fresh.
package rundir
