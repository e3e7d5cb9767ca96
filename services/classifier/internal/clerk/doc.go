// Package clerk stands between those who ask for verdicts, the parser and the
// judge. It remembers verdicts, sees that one text is not judged twice at a time,
// keeps texts in quarantine from the parser, and outlives a judge that panics.
//
// Verdicts of a database belong to a generation. Flush begins the next one: what
// is remembered of the one before is forgotten, and what is being judged in it is
// answered but neither remembered nor announced. Generations are comparable
// between classifiers (see bus.Flush), and each verdict carries its own, so that
// nobody takes an old verdict for a new one, whichever way it comes.
//
// It owns no goroutine: a judgement runs in that of the first who asked.
package clerk
