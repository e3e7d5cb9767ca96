// Package clerk stands between those who ask for verdicts and the judge. It
// remembers verdicts, sees that one text is not judged twice at a time, limits
// how many are judged at once, and outlives a judge that panics.
//
// It owns no goroutine: a judgement runs in that of the first who asked.
package clerk
