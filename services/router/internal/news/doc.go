// Package news is the router's subscription to the bus: positions, topology and
// verdicts come in, the position that sessions wait for goes out.
package news
