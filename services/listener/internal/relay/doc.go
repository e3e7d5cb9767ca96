// Package relay shows every service of the host on one TCP address: their metrics
// merged into one page, whether the whole is ready for clients, and their profiles.
//
// The services are found by their HTTP sockets in the run directory, so a new kind
// of service appears without a change here. One that is broken, stuck or speaks
// nonsense is left out of the page and shows as pgpilot_up 0; it never spoils the
// rest.
package relay
