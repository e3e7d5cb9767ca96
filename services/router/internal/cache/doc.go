// Package cache keeps the verdicts the router has seen, by template key. It
// belongs to the loop: no lock, and no allocation on a hit.
//
// Verdicts of a database belong to generations (verdict.Verdict). A flush begins a
// generation; whoever looks a verdict up says which generation of its database it
// knows of, and gets none that is older. So a flush costs nothing for the verdicts of
// other databases, and a verdict that was long on its way does no harm.
package cache
