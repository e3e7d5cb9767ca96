// Package quarantine remembers the texts that ended a parser process, so that they
// do not do it again: not in this classifier, not in its siblings, not after a
// restart. It is a file in the run directory that all classifiers share.
//
// A text is known by its template key, since statements that differ only in
// constants are parsed alike, and by a hash of itself, for the same text of another
// database or with other settings. The file holds no statement text.
//
// An entry ends after Options.Keep, when Options.Most newer ones push it out, or
// when somebody removes the file; whatever it was about may be judged again.
package quarantine
