// Package quarantine remembers the texts that ended a parser process, so that they
// do not do it again: not in this classifier, not in its siblings, not after a
// restart. It is a file in the run directory that all classifiers share.
//
// A text is known by its template key, since statements that differ only in
// constants are parsed alike, and by a hash of itself, for the same text of another
// database or with other settings. The file holds no statement text.
//
// A file that is damaged costs nothing that anybody knows: the entries that are whole are
// read, each classifier that runs adds those it has, and the file is written anew, with what
// it was beside it. What cannot be written, as on a full disk, holds in its classifier alone
// and is tried again each second.
//
// An entry ends after Options.Keep, when Options.Most newer ones push it out, or
// when somebody removes the file; whatever it was about may be judged again.
package quarantine
