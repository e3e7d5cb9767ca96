// Package herald is the classifier's voice on the bus, and its ear.
//
// It publishes fresh verdicts, so that one router's question answers them all;
// answers those who start with what is known already; takes over from siblings
// when it starts itself; and carries flushes both ways. Verdicts are best effort:
// one that cannot be published now is dropped, since any router can still ask.
// Flushes are kept until they are published, since nobody would ask for them.
package herald
