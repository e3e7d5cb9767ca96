// Package clients proves that the drivers people use work through pgpilot as they do
// on a server of their own. Every folder below holds one driver's program. It connects
// with libpq's environment variables, prepares, runs transactions and savepoints,
// sends batches, copies both ways, listens, cancels, uses temporary tables and
// search_path, and reads its own writes many times. It prints "ok" and the step's name
// for each, nothing else, and stops with a sentence at the first surprise.
//
// The tests run each program on a server itself first, so that a failure behind it is
// pgpilot's, then through pgpilot in both pool modes, where its prepared reads have to
// run on replicas and nothing of it may stay behind. Missing software fails the test:
// deploy/local/install-deps.sh --test installs it.
package clients
