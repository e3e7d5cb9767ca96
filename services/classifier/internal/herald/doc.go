// Package herald tells the routers of fresh verdicts over the bus, so that one
// router's question answers them all. It is best effort: a verdict that cannot be
// published now is dropped, since any router can still ask.
package herald
