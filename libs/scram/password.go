package scram

import (
	"unicode/utf8"

	"github.com/xdg-go/stringprep"
	"golang.org/x/text/unicode/norm"
)

// prohibited are the characters that SASLprep does not allow (RFC 4013, 2.3 and
// 2.5). A password that has one is used as it is.
var prohibited = [...]stringprep.Set{
	stringprep.TableC1_2, stringprep.TableC2_1, stringprep.TableC2_2, stringprep.TableC3,
	stringprep.TableC4, stringprep.TableC5, stringprep.TableC6, stringprep.TableC7,
	stringprep.TableC8, stringprep.TableC9, stringprep.TableA1,
}

// prepare gives the bytes that PostgreSQL hashes for a password: SASLprep of it,
// or the password unchanged where SASLprep would refuse it. It differs from a
// SASLprep library where PostgreSQL's pg_saslprep does: ASCII, control characters
// included, is never touched; U+200B becomes a space; the rules on what is allowed
// look at the text before it is normalised.
func prepare(password string) string {
	if isASCII(password) || !utf8.ValidString(password) {
		return password
	}
	mapped := make([]rune, 0, len(password))
	for _, r := range password {
		if stringprep.TableC1_2.Contains(r) {
			mapped = append(mapped, ' ')
		} else if _, vanishes := stringprep.TableB1[r]; !vanishes {
			mapped = append(mapped, r)
		}
	}
	if len(mapped) == 0 || !allowed(mapped) {
		return password
	}
	return norm.NFKC.String(string(mapped))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// allowed applies the lists of prohibited and unassigned characters and the rules
// on text that runs from right to left (RFC 3454, 6).
func allowed(rs []rune) bool {
	var rightToLeft, leftToRight bool
	for _, r := range rs {
		for _, set := range prohibited {
			if set.Contains(r) {
				return false
			}
		}
		rightToLeft = rightToLeft || stringprep.TableD1.Contains(r)
		leftToRight = leftToRight || stringprep.TableD2.Contains(r)
	}
	if !rightToLeft {
		return true
	}
	return !leftToRight && stringprep.TableD1.Contains(rs[0]) && stringprep.TableD1.Contains(rs[len(rs)-1])
}
